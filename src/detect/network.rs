//! Whether a network has the tensors that its `model.yaml` says. Pure; called when a session was made.

use std::path::Path;

use super::DetectError;
use super::model::{ModelSpec, OutputLayout};
use super::yolox::Yolox;

/// A tensor of the network as the runtime reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TensorInfo {
    /// Its name.
    pub(super) name: String,
    /// Element type and shape; `None` for what is no tensor.
    pub(super) tensor: Option<(Element, Vec<i64>)>,
}

/// Type of the elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Element {
    /// 32-bit floats.
    Float32,
    /// Another type, by its name.
    Other(String),
}

/// How many pictures the network takes in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchAxis {
    /// Exactly one.
    One,
    /// As many as are given.
    Dynamic,
}

/// Checks the network's tensors against `spec`; the first mismatch is the error.
pub(super) fn check(
    spec: &ModelSpec,
    path: &Path,
    inputs: &[TensorInfo],
    outputs: &[TensorInfo],
) -> Result<BatchAxis, DetectError> {
    let side = |kind: &'static str, key: &'static str| Side { path, kind, key };
    let input = side("input", "input.name").find(inputs, &spec.input.name)?;
    if let Some(other) = inputs.iter().find(|info| info.name != spec.input.name) {
        let found = format!("a second input `{}`", other.name);
        return Err(side("input", "").error(
            &spec.input.name,
            found,
            "one input",
            "export the network with one input",
        ));
    }
    let (width, height) = (
        i64::from(spec.input.size.width),
        i64::from(spec.input.size.height),
    );
    let advice =
        "set input.width and input.height in model.yaml to the network's, or export it anew";
    let input_batch = side("input", "").shape(input, &[3, height, width], advice)?;

    let output = side("output", "output.name").find(outputs, &spec.output.name)?;
    let OutputLayout::Yolox = spec.output.layout;
    let yolox = Yolox::new(spec.input.size, spec.labels.len());
    let advice = format!(
        "YOLOX has {} rows for an input of {} and 5 numbers before the classes; check input size and labels ({}) in \
         model.yaml",
        yolox.cells(),
        spec.input.size,
        spec.labels.len()
    );
    // Both come from sizes far below i64.
    let output_batch = side("output", "").shape(
        output,
        &[yolox.cells() as i64, yolox.row_len() as i64],
        &advice,
    )?;
    Ok(
        if input_batch == BatchAxis::Dynamic && output_batch == BatchAxis::Dynamic {
            BatchAxis::Dynamic
        } else {
            BatchAxis::One
        },
    )
}

/// Checks the shape that a run really gave, which a description may leave open.
pub(super) fn check_run(
    spec: &ModelSpec,
    path: &Path,
    found: &[i64],
    wanted: [usize; 3],
) -> Result<(), DetectError> {
    let wanted = wanted.map(|axis| axis as i64);
    if found == wanted {
        return Ok(());
    }
    let advice =
        "check input size, labels and output.layout in model.yaml, or export the network anew";
    let side = Side {
        path,
        kind: "output",
        key: "",
    };
    let (found, expected) = (
        format!("[{}] in a run", list(found)),
        format!("[{}]", list(&wanted)),
    );
    Err(side.error(&spec.output.name, found, &expected, advice))
}

/// One side of the network, for errors.
struct Side<'a> {
    path: &'a Path,
    kind: &'static str,
    /// Key in `model.yaml` of its name.
    key: &'static str,
}

impl Side<'_> {
    fn find<'t>(
        &self,
        tensors: &'t [TensorInfo],
        name: &str,
    ) -> Result<&'t TensorInfo, DetectError> {
        tensors
            .iter()
            .find(|info| info.name == name)
            .ok_or_else(|| {
                let names: Vec<String> = tensors
                    .iter()
                    .map(|info| format!("`{}`", info.name))
                    .collect();
                let found = if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                };
                self.error(
                    name,
                    found,
                    "this name",
                    &format!("set {} in model.yaml to the network's name", self.key),
                )
            })
    }

    /// Compares element type, rank and all axes but the first, of which it tells the kind. Axes that the network
    /// leaves open fit.
    fn shape(
        &self,
        info: &TensorInfo,
        wanted: &[i64],
        advice: &str,
    ) -> Result<BatchAxis, DetectError> {
        let expected = format!("float32 [1 or N, {}]", list(wanted));
        let Some((element, shape)) = &info.tensor else {
            return Err(self.error(
                &info.name,
                "no tensor".to_owned(),
                &expected,
                "export the network with tensors",
            ));
        };
        let element = match element {
            Element::Float32 => "float32",
            Element::Other(name) => name.as_str(),
        };
        let found = || format!("{element} [{}]", list(shape));
        if element != "float32" {
            let advice =
                "export the network with 32-bit floats at its ends; they may be reduced inside";
            return Err(self.error(&info.name, found(), &expected, advice));
        }
        let fits = shape.len() == wanted.len() + 1
            && shape[1..]
                .iter()
                .zip(wanted)
                .all(|(found, wanted)| *found < 0 || found == wanted);
        if !fits {
            return Err(self.error(&info.name, found(), &expected, advice));
        }
        match shape[0] {
            1 => Ok(BatchAxis::One),
            axis if axis < 0 => Ok(BatchAxis::Dynamic),
            _ => {
                let advice = "export the network for a batch of 1, or with a dynamic batch axis";
                Err(self.error(&info.name, found(), &expected, advice))
            }
        }
    }

    fn error(&self, name: &str, found: String, expected: &str, advice: &str) -> DetectError {
        DetectError::Tensor {
            path: self.path.to_owned(),
            tensor: format!("{} `{name}`", self.kind),
            found,
            expected: expected.to_owned(),
            advice: advice.to_owned(),
        }
    }
}

/// Axes as text; `N` for those that the network leaves open.
fn list(axes: &[i64]) -> String {
    let axes: Vec<String> = axes
        .iter()
        .map(|axis| {
            if *axis < 0 {
                "N".to_owned()
            } else {
                axis.to_string()
            }
        })
        .collect();
    axes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::model_keys::tests::{FULL, parse};

    fn info(name: &str, shape: &[i64]) -> TensorInfo {
        TensorInfo {
            name: name.to_owned(),
            tensor: Some((Element::Float32, shape.to_vec())),
        }
    }

    fn checked(inputs: &[TensorInfo], outputs: &[TensorInfo]) -> Result<BatchAxis, String> {
        // Input 96×64, two labels.
        let spec = parse(FULL).expect("it is right");
        check(&spec, Path::new("m/t.onnx"), inputs, outputs).map_err(|error| error.to_string())
    }

    #[test]
    fn fixed_and_dynamic_batches_fit() {
        let cases = [
            ([1, 3, 64, 96], [1, 126, 7], BatchAxis::One),
            ([-1, 3, 64, 96], [-1, 126, 7], BatchAxis::Dynamic),
            ([-1, 3, -1, -1], [-1, -1, 7], BatchAxis::Dynamic),
            ([-1, 3, 64, 96], [1, 126, 7], BatchAxis::One),
        ];
        for (input, output, wanted) in cases {
            let outputs = [info("other", &[5]), info("output", &output)];
            assert_eq!(
                checked(&[info("images", &input)], &outputs),
                Ok(wanted),
                "{input:?} {output:?}"
            );
        }
    }

    #[test]
    fn a_mismatch_names_tensor_shapes_and_what_to_change() {
        let input = info("images", &[1, 3, 64, 96]);
        let output = info("output", &[1, 126, 7]);
        let half = TensorInfo {
            tensor: Some((Element::Other("f16".to_owned()), vec![1, 3, 64, 96])),
            ..input.clone()
        };
        let cases = [
            (
                vec![info("data", &[1])],
                vec![output.clone()],
                "m/t.onnx: input `images`: found `data`, expected this name; set input.name",
            ),
            (
                vec![input.clone(), info("size", &[2])],
                vec![output.clone()],
                "input `images`: found a second input `size`, expected one input",
            ),
            (
                vec![info("images", &[1, 3, 416, 416])],
                vec![output.clone()],
                "input `images`: found float32 [1, 3, 416, 416], expected float32 [1 or N, 3, 64, 96]; set input.width",
            ),
            (
                vec![info("images", &[1, 64, 96, 3])],
                vec![output.clone()],
                "found float32 [1, 64, 96, 3]",
            ),
            (
                vec![info("images", &[4, 3, 64, 96])],
                vec![output.clone()],
                "found float32 [4, 3, 64, 96], expected float32 [1 or N, 3, 64, 96]; export the network for a batch of 1",
            ),
            (
                vec![half],
                vec![output.clone()],
                "found f16 [1, 3, 64, 96], expected float32 [1 or N, 3, 64, 96]; export the network with 32-bit floats",
            ),
            (
                vec![input.clone()],
                vec![],
                "output `output`: found none, expected this name; set output.name",
            ),
            (
                vec![input.clone()],
                vec![info("output", &[1, 126, 85])],
                "output `output`: found float32 [1, 126, 85], expected float32 [1 or N, 126, 7]; YOLOX has 126 rows for an input of 96×64",
            ),
            (
                vec![input.clone()],
                vec![info("output", &[1, 3549, 7])],
                "labels (2) in model.yaml",
            ),
            (
                vec![input.clone()],
                vec![info("output", &[-1, 7])],
                "found float32 [N, 7]",
            ),
            (
                vec![input],
                vec![TensorInfo {
                    name: "output".to_owned(),
                    tensor: None,
                }],
                "output `output`: found no tensor",
            ),
        ];
        for (inputs, outputs, wanted) in cases {
            let error = checked(&inputs, &outputs).expect_err(wanted);
            assert!(error.contains(wanted), "{error}\ninstead of\n{wanted}");
        }
    }

    #[test]
    fn the_shape_of_a_run_is_compared_axis_by_axis() {
        let spec = parse(FULL).expect("it is right");
        let path = Path::new("m/t.onnx");
        assert!(check_run(&spec, path, &[2, 126, 7], [2, 126, 7]).is_ok());
        let error = check_run(&spec, path, &[2, 100, 7], [2, 126, 7]).expect_err("too few rows");
        let wanted =
            "m/t.onnx: output `output`: found [2, 100, 7] in a run, expected [2, 126, 7]; check";
        assert!(error.to_string().starts_with(wanted), "{error}");
    }
}
