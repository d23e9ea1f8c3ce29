// SPDX-License-Identifier: Apache-2.0
//! Checks that a session's plan fits an engine: names, directions, types, layouts, sizes and the batch.
//!
//! These checks ensure that TensorRT accesses only memory that was allocated for the plan.

use super::DataType;
use super::engine::{Engine, TensorInfo, TensorMode};
use crate::cuda::Element;
use crate::session::{InputSource, Plan, SessionError};

/// A tensor with an open batch axis, and its shape; the batch is the first axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DynamicTensor {
    pub(super) name: String,
    pub(super) shape: Vec<i64>,
}

/// The batches that an engine can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Batch {
    /// Only this one.
    Fixed(usize),
    /// Those of the optimization profile, set by the shapes of these tensors.
    Dynamic {
        inputs: Vec<DynamicTensor>,
        outputs: Vec<DynamicTensor>,
    },
}

/// The batches of `engine`.
///
/// # Errors
/// `plan` does not fit the engine.
pub(super) fn check_bindings(engine: &Engine, plan: &Plan) -> Result<Batch, SessionError> {
    let tensors: Vec<&TensorInfo> = engine.tensors().collect();
    check_tensors(&tensors, plan)
}

fn check_tensors(tensors: &[&TensorInfo], plan: &Plan) -> Result<Batch, SessionError> {
    check_names(tensors, plan)?;
    for tensor in tensors {
        check_layout(tensor)?;
    }
    let find = |name: &str| tensors.iter().find(|tensor| tensor.name == name);
    // Names were checked above, so only a missing input can fail here.
    let Some(input) = find(&plan.input.name) else {
        return Err(mismatch(input_of(plan), "not in the engine", "an input"));
    };
    let fixed = check_batch(input, plan)?;
    check_element(input, &plan.input.source)?;
    let bytes = plan.input.source.bytes_per_image();
    check_bytes(input, bytes, fixed)?;
    for constant in &plan.constants {
        if let Some(tensor) = find(&constant.name)
            && !is_whole(tensor, constant.bytes.len())
        {
            check_bytes(tensor, constant.bytes.len(), fixed)?;
        }
    }
    for output in &plan.outputs {
        if let Some(tensor) = find(&output.name) {
            check_bytes(tensor, output.bytes_per_image, fixed)?;
        }
    }
    if let Some(fixed) = fixed {
        return Ok(Batch::Fixed(fixed));
    }
    let open = |mode: TensorMode| -> Vec<DynamicTensor> {
        let with = |tensor: &&&TensorInfo| tensor.mode == mode && tensor.shape.first() == Some(&-1);
        let tensors = tensors.iter().filter(with);
        tensors
            .map(|tensor| DynamicTensor {
                name: tensor.name.clone(),
                shape: tensor.shape.clone(),
            })
            .collect()
    };
    Ok(Batch::Dynamic {
        inputs: open(TensorMode::Input),
        outputs: open(TensorMode::Output),
    })
}

/// Checks that the plan has all tensors of the engine, each once and in the right direction.
fn check_names(tensors: &[&TensorInfo], plan: &Plan) -> Result<(), SessionError> {
    let constants = plan.constants.iter().map(|constant| &constant.name);
    let inputs = std::iter::once(&plan.input.name).chain(constants);
    let outputs = plan.outputs.iter().map(|output| &output.name);
    let required: Vec<(&String, TensorMode)> = inputs
        .map(|name| (name, TensorMode::Input))
        .chain(outputs.map(|name| (name, TensorMode::Output)))
        .collect();
    for (name, mode) in &required {
        let found = tensors.iter().find(|tensor| tensor.name == **name);
        if found.is_none_or(|tensor| tensor.mode != *mode) {
            let names: Vec<&str> = tensors
                .iter()
                .filter(|tensor| tensor.mode == *mode)
                .map(|tensor| tensor.name.as_str())
                .collect();
            return Err(mismatch(
                format!("the name of an {}", mode_name(*mode)),
                format!("`{name}`"),
                names.join(", "),
            ));
        }
    }
    for tensor in tensors {
        let times = required.iter().filter(|(name, _)| **name == tensor.name);
        match times.count() {
            1 => {}
            0 => {
                let what = format!("the engine's {} `{}`", mode_name(tensor.mode), tensor.name);
                return Err(mismatch(what, "not used", "used by the model"));
            }
            _ => {
                return Err(mismatch(
                    describe(tensor),
                    "used more than once",
                    "used once",
                ));
            }
        }
    }
    Ok(())
}

/// Checks for the linear layout, in which images and outputs are written and read.
fn check_layout(tensor: &TensorInfo) -> Result<(), SessionError> {
    if tensor.format == 0 && tensor.vectorized.is_none() {
        return Ok(());
    }
    let found = match tensor.vectorized {
        Some((axis, elements)) => format!(
            "laid out in vectors of {elements} along axis {axis} ({})",
            tensor.format_text
        ),
        None => format!("laid out as {}", tensor.format_text),
    };
    Err(mismatch(describe(tensor), found, "the linear layout"))
}

/// The fixed batch of `input`, if any. The plan's batch must be equal to it, or within the optimization profile.
fn check_batch(input: &TensorInfo, plan: &Plan) -> Result<Option<usize>, SessionError> {
    let refuse = |expected: String| Err(mismatch("the batch", plan.batch.to_string(), expected));
    let batch = i64::try_from(plan.batch).unwrap_or(i64::MAX);
    match (input.shape.first(), &input.profile) {
        (Some(-1), Some([least, _, most])) => match (least.first(), most.first()) {
            (Some(least), Some(most)) if (*least..=*most).contains(&batch) => Ok(None),
            (Some(least), Some(most)) => refuse(format!("{least} to {most}")),
            _ => Err(mismatch(
                describe(input),
                "without a batch in its profile",
                "one",
            )),
        },
        (Some(-1), None) => {
            let found = "open, and there is no optimization profile";
            Err(mismatch(describe(input), found, "one with a profile"))
        }
        (Some(fixed), _) if *fixed == batch => Ok(Some(plan.batch)),
        (Some(fixed), _) => refuse(format!("{fixed}, which the engine was built for")),
        (None, _) => Err(mismatch(describe(input), "one number", "images")),
    }
}

fn check_element(input: &TensorInfo, source: &InputSource) -> Result<(), SessionError> {
    let InputSource::Images { tensor, .. } = source else {
        return Ok(());
    };
    let made = match tensor.element {
        Element::F32 => DataType::F32,
        Element::F16 => DataType::F16,
        Element::I8 { .. } => DataType::I8,
        Element::U8 => DataType::U8,
    };
    if made == input.data_type {
        return Ok(());
    }
    let what = format!("the type of {}", describe(input));
    Err(mismatch(
        what,
        input.data_type.to_string(),
        made.to_string(),
    ))
}

/// Whether `tensor` has no batch and exactly `bytes` bytes, as allowed for an input that is the same for every batch.
fn is_whole(tensor: &TensorInfo, bytes: usize) -> bool {
    product(&tensor.shape)
        .zip(tensor.data_type.bytes())
        .and_then(|(numbers, each)| numbers.checked_mul(each))
        == Some(bytes)
}

/// Checks that `bytes` per image fit `tensor`, in an engine whose batch is `fixed` or open.
fn check_bytes(
    tensor: &TensorInfo,
    bytes: usize,
    fixed: Option<usize>,
) -> Result<(), SessionError> {
    let Some(each) = tensor.data_type.bytes() else {
        let found = tensor.data_type.to_string();
        return Err(mismatch(describe(tensor), found, "numbers of whole bytes"));
    };
    let rest = match (tensor.shape.first().copied(), fixed) {
        (Some(-1), None) => &tensor.shape[1..],
        (Some(first), Some(fixed)) if usize::try_from(first) == Ok(fixed) => &tensor.shape[1..],
        // The whole tensor belongs to the only image.
        (_, Some(1)) => &tensor.shape[..],
        _ => {
            let expected = match fixed {
                Some(fixed) => format!("{fixed} images in its first axis"),
                None => "an open batch in its first axis".to_owned(),
            };
            return Err(mismatch(describe(tensor), describe_type(tensor), expected));
        }
    };
    let found = product(rest).and_then(|numbers| numbers.checked_mul(each));
    let Some(found) = found else {
        let expected = "no open axis but the batch";
        return Err(mismatch(describe(tensor), describe_type(tensor), expected));
    };
    if found == bytes {
        return Ok(());
    }
    Err(mismatch(
        describe(tensor),
        format!("{} of {found} bytes per image", describe_type(tensor)),
        format!("{bytes} bytes per image"),
    ))
}

/// Number of elements of a shape without open axes; `None` for others, and on overflow.
fn product(axes: &[i64]) -> Option<usize> {
    axes.iter().try_fold(1_usize, |product, axis| {
        product.checked_mul(usize::try_from(*axis).ok()?)
    })
}

fn describe_type(tensor: &TensorInfo) -> String {
    format!("{} {:?}", tensor.data_type, tensor.shape)
}

fn describe(tensor: &TensorInfo) -> String {
    format!("{} `{}`", mode_name(tensor.mode), tensor.name)
}

fn input_of(plan: &Plan) -> String {
    format!("input `{}`", plan.input.name)
}

const fn mode_name(mode: TensorMode) -> &'static str {
    match mode {
        TensorMode::Input => "input",
        TensorMode::Output => "output",
    }
}

fn mismatch(
    what: impl Into<String>,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> SessionError {
    SessionError::Plan {
        what: what.into(),
        found: found.into(),
        expected: expected.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{ConstantPlan, InputPlan, OutputPlan};

    fn tensor(name: &str, mode: TensorMode, shape: &[i64]) -> TensorInfo {
        let profile = (mode == TensorMode::Input).then(|| {
            let with = |batch| {
                let mut shape = shape.to_vec();
                if shape.first() == Some(&-1) {
                    shape[0] = batch;
                }
                shape
            };
            [with(2), with(4), with(8)]
        });
        TensorInfo {
            name: name.to_owned(),
            mode,
            data_type: DataType::F32,
            shape: shape.to_vec(),
            profile,
            format: 0,
            format_text: "row-major linear".to_owned(),
            vectorized: None,
        }
    }

    /// An input `in` of 3 numbers an image, an output `out` of 2, and a constant `c`.
    fn engine(batch: i64) -> [TensorInfo; 3] {
        [
            tensor("in", TensorMode::Input, &[batch, 3]),
            tensor("out", TensorMode::Output, &[batch, 2]),
            tensor("c", TensorMode::Input, &[batch, 1]),
        ]
    }

    fn plan(batch: usize) -> Plan {
        Plan {
            input: InputPlan {
                name: "in".to_owned(),
                source: InputSource::Tensor {
                    bytes_per_image: 12,
                },
            },
            constants: vec![ConstantPlan {
                name: "c".to_owned(),
                bytes: vec![0; 4],
            }],
            outputs: vec![OutputPlan {
                name: "out".to_owned(),
                bytes_per_image: 8,
            }],
            batch,
            graphs: false,
        }
    }

    fn fitted(engine: &[TensorInfo], plan: &Plan) -> Result<Batch, String> {
        let tensors: Vec<&TensorInfo> = engine.iter().collect();
        check_tensors(&tensors, plan).map_err(|error| error.to_string())
    }

    #[test]
    fn batch_sizes_come_from_profile_or_fixed_batch() {
        let open = |name: &str, shape: &[i64]| DynamicTensor {
            name: name.to_owned(),
            shape: shape.to_vec(),
        };
        let expected = Batch::Dynamic {
            inputs: vec![open("in", &[-1, 3]), open("c", &[-1, 1])],
            outputs: vec![open("out", &[-1, 2])],
        };
        assert_eq!(fitted(&engine(-1), &plan(8)), Ok(expected));
        assert_eq!(fitted(&engine(3), &plan(3)), Ok(Batch::Fixed(3)));
        #[rustfmt::skip]
        let cases = [
            (-1, 1, "the batch is 1, expected 2 to 8"),
            (-1, 9, "the batch is 9, expected 2 to 8"),
            (3, 2, "the batch is 2, expected 3, which the engine was built for"),
        ];
        for (batch, requested, expected) in cases {
            let error = fitted(&engine(batch), &plan(requested)).expect_err(expected);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn constants_may_have_no_batch_and_one_image_may_have_any_shape() {
        let mut tensors = engine(-1);
        tensors[2].shape = vec![1];
        assert!(fitted(&tensors, &plan(8)).is_ok());
        tensors[2].shape = vec![2];
        let error = fitted(&tensors, &plan(8)).expect_err("8 bytes are not 4");
        let expected = "input `c` is fp32 [2], expected an open batch in its first axis";
        assert!(error.starts_with(expected), "{error}");
        let mut tensors = engine(1);
        tensors[1].shape = vec![2];
        assert_eq!(fitted(&tensors, &plan(1)), Ok(Batch::Fixed(1)));
        let mut tensors = engine(2);
        tensors[1].shape = vec![4];
        let error = fitted(&tensors, &plan(2)).expect_err("the output has no batch axis");
        let expected = "output `out` is fp32 [4], expected 2 images in its first axis";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn unsupported_tensor_layouts_and_types_are_rejected() {
        type Spoil = fn(&mut [TensorInfo; 3]);
        #[rustfmt::skip]
        let cases: [(Spoil, &str); 6] = [
            (
                |tensors| {
                    tensors[0].format = 3;
                    tensors[0].format_text = "CHW4".to_owned();
                    tensors[0].vectorized = Some((1, 4));
                },
                "input `in` is laid out in vectors of 4 along axis 1 (CHW4), expected the linear layout",
            ),
            (|tensors| { tensors[1].format = 8; tensors[1].format_text = "HWC".to_owned(); }, "output `out` is laid out as HWC, expected the linear layout"),
            (|tensors| tensors[1].data_type = DataType::Other(10), "output `out` is type 10, expected numbers of whole bytes"),
            (|tensors| tensors[1].shape[1] = -1, "output `out` is fp32 [-1, -1], expected no open axis but the batch"),
            (|tensors| tensors[0].profile = None, "input `in` is open, and there is no optimization profile"),
            (|tensors| tensors[0].shape.clear(), "input `in` is one number, expected images"),
        ];
        for (spoil, expected) in cases {
            let mut tensors = engine(-1);
            spoil(&mut tensors);
            let error = fitted(&tensors, &plan(4)).expect_err(expected);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
