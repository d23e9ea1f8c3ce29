// SPDX-License-Identifier: Apache-2.0
//! Writes a network again with ends that the detectors use: images as floats or bytes in planes, results as 32-bit numbers. Pure.
//!
//! Exporters also write inputs of 16-bit floats or integers, colors that come last, images without a batch axis, and outputs of
//! 16-bit floats. One operator at that end converts each; the network inside stays as it is. An input for the size of the scaled
//! image, as PaddleDetection's RT-DETR has it beside that of the scale, becomes a constant. Called by `jetwatch model init`.

use super::batch::{Change, rewrite, value_name, with};
use super::protobuf::{self, Malformed, Message};
use super::summary::{Axis, Element, Network, Tensor};

/// A network that was written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The ONNX file.
    pub bytes: Vec<u8>,
    /// What was converted, one phrase for each end.
    pub changes: Vec<String>,
}

/// First version of ONNX's operators in which `Squeeze` takes its axes as an input.
const SQUEEZE_BY_INPUT: i64 = 13;

/// `network`, whose file has these `bytes`, with usual ends; `None` where it has them already.
///
/// # Errors
/// The bytes are no network.
pub fn with_usual_ends(bytes: &[u8], network: &Network) -> Result<Option<Converted>, Malformed> {
    let input = network
        .inputs
        .iter()
        .find_map(|port| InputChange::of(port, network.opset()));
    let outputs: Vec<(&Tensor, Element)> =
        network.outputs.iter().filter_map(output_change).collect();
    let size = scaled_size(network);
    if input.is_none() && outputs.is_empty() && size.is_none() {
        return Ok(None);
    }
    let graph = |message: Message<'_>| -> Result<Vec<u8>, Malformed> {
        let mut graph = Vec::new();
        // Operators stand in the order of their use.
        if let Some(input) = &input {
            graph.extend(input.operators());
        }
        if let Some((name, sides)) = size {
            graph.extend(row_constant(name, sides));
        }
        graph.extend(rewrite(message, |field| {
            let name = |field: &protobuf::Field<'_>| -> Result<String, Malformed> {
                Ok(value_name(field.message()?)?.to_owned())
            };
            match (field.number, &input) {
                (11, Some(input)) if name(&field)? == input.port.name => with(input.value()),
                (11, _)
                    if size.is_some_and(|(of_size, _)| {
                        name(&field).is_ok_and(|name| name == of_size)
                    }) =>
                {
                    Ok(Change::Drop)
                }
                (12, _) => {
                    let name = name(&field)?;
                    match outputs.iter().find(|(port, _)| port.name == name) {
                        Some((port, element)) => with(value(
                            &converted_name(&port.name),
                            *element,
                            port.axes.as_deref().unwrap_or_default(),
                        )),
                        None => Ok(Change::Keep),
                    }
                }
                _ => Ok(Change::Keep),
            }
        })?);
        for (port, element) in &outputs {
            graph.extend(cast(&port.name, &converted_name(&port.name), *element));
        }
        Ok(graph)
    };
    let bytes = rewrite(Message::new(bytes), |field| match field.number {
        7 => with(graph(field.message()?)?),
        _ => Ok(Change::Keep),
    })?;
    let mut changes: Vec<String> = input.iter().map(InputChange::text).collect();
    changes.extend(size.map(|(name, [height, width])| {
        format!(
            "input `{name}` is always height and width of the scaled image, {height} and {width}"
        )
    }));
    changes.extend(
        outputs
            .iter()
            .map(|(port, element)| format!("output `{}` from {port} to {element}", port.name)),
    );
    Ok(Some(Converted { bytes, changes }))
}

/// Name of the input for height and width of the scaled image, and both, where they are fixed.
fn scaled_size(network: &Network) -> Option<(&str, [f32; 2])> {
    let axes = |port: &Tensor| port.axes.clone().unwrap_or_default();
    let is_size = |port: &&Tensor| {
        let is_pair = matches!(axes(port).as_slice(), [_, Axis::Fixed(2)]);
        port.name == "im_shape" && port.element == Some(Element::FLOAT) && is_pair
    };
    let port = network.inputs.iter().find(is_size)?;
    let sides = network.inputs.iter().find_map(|port| match *axes(port) {
        [_, Axis::Fixed(3), Axis::Fixed(height), Axis::Fixed(width)] => Some([height, width]),
        _ => None,
    })?;
    Some((&port.name, sides.map(|side| side as f32)))
}

/// The constant `[1, 2]`, as a field of the graph.
fn row_constant(name: &str, numbers: [f32; 2]) -> Vec<u8> {
    let tensor = [
        protobuf::number_field(1, 1),
        protobuf::number_field(1, 2),
        protobuf::number_field(2, Element::FLOAT.0.cast_unsigned()),
        message(8, name.as_bytes()),
        message(9, &numbers.map(f32::to_le_bytes).concat()),
    ]
    .concat();
    message(5, &tensor)
}

/// The type that an output becomes.
fn output_change(port: &Tensor) -> Option<(&Tensor, Element)> {
    let element = match port.element?.to_string().as_str() {
        "float16" | "bfloat16" | "float64" => Element::FLOAT,
        "uint8" | "int8" | "uint16" | "int16" | "bool" => Element::INT32,
        _ => return None,
    };
    Some((port, element))
}

/// What happens to the images before the network takes them.
struct InputChange<'a> {
    port: &'a Tensor,
    opset: i64,
    /// Of the new input.
    element: Element,
    is_cast: bool,
    is_last: bool,
    is_single: bool,
}

impl<'a> InputChange<'a> {
    /// For `port`, if it takes images in an unusual form.
    fn of(port: &'a Tensor, opset: Option<i64>) -> Option<Self> {
        let axes = port.axes.as_deref()?;
        let image = match axes.len() {
            4 => &axes[1..],
            3 => axes,
            _ => return None,
        };
        let is_last = image[2] == Axis::Fixed(3) && image[0] != Axis::Fixed(3);
        let is_first = image[0] == Axis::Fixed(3);
        if axes.len() == 3 && !is_first && !is_last {
            return None;
        }
        if !is_last && matches!(image[0], Axis::Fixed(planes) if planes != 3) {
            return None;
        }
        let (element, is_cast) = match port.element?.to_string().as_str() {
            "float32" => (Element::FLOAT, false),
            "uint8" => (Element::UINT8, false),
            "float16" | "bfloat16" | "float64" | "int16" | "uint16" | "int32" | "int64" => {
                (Element::FLOAT, true)
            }
            _ => return None,
        };
        let is_single = axes.len() == 3;
        (is_cast || is_last || is_single).then_some(Self {
            port,
            opset: opset.unwrap_or_default(),
            element,
            is_cast,
            is_last,
            is_single,
        })
    }

    /// The new input.
    fn value(&self) -> Vec<u8> {
        let axes = self.port.axes.as_deref().unwrap_or_default();
        let (batch, image) = match self.is_single {
            true => (Axis::Fixed(1), axes),
            false => (axes[0].clone(), &axes[1..]),
        };
        let (height, width) = match self.is_last {
            true => (&image[0], &image[1]),
            false => (&image[1], &image[2]),
        };
        let axes = [batch, Axis::Fixed(3), height.clone(), width.clone()];
        value(&converted_name(&self.port.name), self.element, &axes)
    }

    /// The operators, and the constants that they take, as fields of the graph.
    fn operators(&self) -> Vec<u8> {
        let name = &self.port.name;
        let steps = [
            self.is_cast.then(|| {
                (
                    "Cast",
                    number_attribute("to", self.port.element.unwrap_or(Element::FLOAT).0),
                )
            }),
            self.is_last
                .then(|| ("Transpose", numbers_attribute("perm", &[0, 2, 3, 1]))),
            self.is_single.then(|| {
                (
                    "Squeeze",
                    match self.opset < SQUEEZE_BY_INPUT {
                        true => numbers_attribute("axes", &[0]),
                        false => Vec::new(),
                    },
                )
            }),
        ];
        let mut steps: Vec<(&str, Vec<u8>)> = steps.into_iter().flatten().collect();
        let last = steps.pop();
        let mut from = converted_name(name);
        let mut fields = Vec::new();
        let mut step = |(operator, attribute): (&str, Vec<u8>), to: &str| {
            let axes = format!("{name}_axes");
            let mut inputs = vec![from.as_str()];
            if operator == "Squeeze" && attribute.is_empty() {
                inputs.push(&axes);
                // One 64-bit integer, 0.
                let tensor = [
                    protobuf::number_field(1, 1),
                    protobuf::number_field(2, 7),
                    message(8, axes.as_bytes()),
                    message(9, &[0; 8]),
                ]
                .concat();
                fields.extend(message(5, &tensor));
            }
            fields.extend(node(operator, &inputs, to, &attribute));
            from = to.to_owned();
        };
        for (at, operator) in steps.into_iter().enumerate() {
            step(operator, &format!("{name}_step{at}"));
        }
        if let Some(operator) = last {
            step(operator, name);
        }
        fields
    }

    fn text(&self) -> String {
        let layout = match self.is_last {
            true => ", colors last,",
            false => "",
        };
        format!(
            "input `{}` from {}{layout} to {} [N, 3, height, width]",
            self.port.name, self.port, self.element
        )
    }
}

/// The name of a converted input or output.
fn converted_name(name: &str) -> String {
    format!("{name}_converted")
}

/// A field with a message or text.
fn message(number: u64, bytes: &[u8]) -> Vec<u8> {
    [&protobuf::field_header(number, bytes.len()), bytes].concat()
}

/// An input or output.
fn value(name: &str, element: Element, axes: &[Axis]) -> Vec<u8> {
    let axis = |axis: &Axis| match axis {
        Axis::Fixed(len) => protobuf::number_field(1, *len),
        Axis::Open(name) => message(2, name.as_bytes()),
    };
    let shape: Vec<u8> = axes.iter().flat_map(|one| message(1, &axis(one))).collect();
    let tensor = [
        protobuf::number_field(1, element.0.cast_unsigned()),
        message(2, &shape),
    ]
    .concat();
    [
        message(1, name.as_bytes()),
        message(2, &message(1, &tensor)),
    ]
    .concat()
}

/// An operator, as a field of the graph.
fn node(operator: &str, inputs: &[&str], output: &str, attribute: &[u8]) -> Vec<u8> {
    let mut node: Vec<u8> = inputs
        .iter()
        .flat_map(|name| message(1, name.as_bytes()))
        .collect();
    node.extend(message(2, output.as_bytes()));
    node.extend(message(3, format!("{output}_{operator}").as_bytes()));
    node.extend(message(4, operator.as_bytes()));
    if !attribute.is_empty() {
        node.extend(message(5, attribute));
    }
    message(1, &node)
}

fn cast(from: &str, to: &str, element: Element) -> Vec<u8> {
    node("Cast", &[from], to, &number_attribute("to", element.0))
}

fn number_attribute(name: &str, number: i64) -> Vec<u8> {
    const INT: u64 = 2;
    [
        message(1, name.as_bytes()),
        protobuf::number_field(3, number.cast_unsigned()),
        protobuf::number_field(20, INT),
    ]
    .concat()
}

fn numbers_attribute(name: &str, numbers: &[u64]) -> Vec<u8> {
    const INTS: u64 = 7;
    let numbers = numbers
        .iter()
        .flat_map(|number| protobuf::number_field(8, *number));
    [
        message(1, name.as_bytes()),
        numbers.collect(),
        protobuf::number_field(20, INTS),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::onnx_proto;

    /// A network that passes `input` on to `output`.
    fn network(input: (Element, &[Axis]), output: Element, opset: u64) -> Vec<u8> {
        let graph = [
            node("Identity", &["images"], "boxes", &[]),
            message(11, &value("images", input.0, input.1)),
            message(
                11,
                &value("sizes", Element::INT64, &[Axis::Fixed(1), Axis::Fixed(2)]),
            ),
            message(
                12,
                &value("boxes", output, &[Axis::Fixed(1), Axis::Fixed(6)]),
            ),
        ];
        let opsets = message(8, &protobuf::number_field(2, opset));
        [opsets, message(7, &graph.concat())].concat()
    }

    fn converted(bytes: &[u8]) -> Option<Converted> {
        let network = crate::graph::summarize("a.onnx".as_ref(), bytes, |_| None).expect("whole");
        with_usual_ends(bytes, &network).expect("whole")
    }

    #[test]
    fn unusual_ends_get_operators_in_the_order_of_their_use() {
        let open = || Axis::Open("n".to_owned());
        let fixed = Axis::Fixed;
        let half = Element::FLOAT16;
        #[rustfmt::skip]
        let cases = [
            (half, vec![open(), fixed(3), fixed(2), fixed(4)], half, 17,
             "float32 [n, 3, 2, 4]", "float32 [1, 6]", &["Cast", "Identity", "Cast"][..]),
            (Element::UINT8, vec![fixed(1), open(), open(), fixed(3)], Element::FLOAT, 17,
             "uint8 [1, 3, n, n]", "float32 [1, 6]", &["Transpose", "Identity"]),
            (Element::INT64, vec![fixed(1), fixed(2), fixed(4), fixed(3)], Element::INT64, 17,
             "float32 [1, 3, 2, 4]", "int64 [1, 6]", &["Cast", "Transpose", "Identity"]),
            (Element::FLOAT, vec![fixed(3), open(), fixed(4)], Element(9), 12,
             "float32 [1, 3, n, 4]", "int32 [1, 6]", &["Squeeze", "Identity", "Cast"]),
            (Element::FLOAT, vec![fixed(2), fixed(4), fixed(3)], Element::FLOAT, 13,
             "float32 [1, 3, 2, 4]", "float32 [1, 6]", &["Transpose", "Squeeze", "Identity"]),
        ];
        for (element, axes, output, opset, input, wanted, operators) in cases {
            let converted = converted(&network((element, &axes), output, opset)).expect(input);
            let model = onnx_proto::model(&converted.bytes).expect("whole");
            let graph = model.graph.expect("a graph");
            let names: Vec<&str> = graph.nodes.iter().map(|node| node.operator).collect();
            assert_eq!(names, operators);
            // Each takes what an earlier one gives.
            let mut known = vec!["images_converted"];
            for node in &graph.nodes {
                assert!(known.contains(&node.input(0)), "{known:?}");
                known.push(node.output());
            }
            let summary = crate::graph::summarize("a.onnx".as_ref(), &converted.bytes, |_| None)
                .expect("whole");
            assert_eq!(summary.inputs[0].to_string(), input);
            assert_eq!(summary.inputs[1].name, "sizes");
            assert_eq!(summary.outputs[0].to_string(), wanted);
            assert!(known.contains(&summary.outputs[0].name.as_str()));
        }
    }

    #[test]
    fn the_size_of_the_scaled_image_becomes_a_constant() {
        let images = value("image", Element::FLOAT, &[1, 3, 192, 256].map(Axis::Fixed));
        let pair = value("im_shape", Element::FLOAT, &[1, 2].map(Axis::Fixed));
        let graph = [
            node("Floor", &["im_shape"], "boxes", &[]),
            message(11, &pair),
            message(11, &images),
            message(
                12,
                &value("boxes", Element::FLOAT, &[1, 2].map(Axis::Fixed)),
            ),
        ];
        let opsets = message(8, &protobuf::number_field(2, 17));
        let bytes = [opsets, message(7, &graph.concat())].concat();
        let converted = converted(&bytes).expect("the constant");
        let model = onnx_proto::model(&converted.bytes).expect("whole");
        let graph = model.graph.expect("a graph");
        let inputs: Vec<&str> = graph.inputs.iter().map(|input| input.name).collect();
        assert_eq!(inputs, ["image"]);
        let [weight] = graph.weights.as_slice() else {
            panic!("{} weights", graph.weights.len());
        };
        let found = (weight.name, weight.axes.as_slice());
        assert_eq!(found, ("im_shape", &[1, 2][..]));
        let sides = [192.0_f32, 256.0].map(f32::to_le_bytes).concat();
        assert_eq!(weight.raw, Some(sides.as_slice()));
    }

    #[test]
    fn usual_ends_stay() {
        let axes = [1, 3, 2, 4].map(Axis::Fixed);
        for element in [Element::FLOAT, Element::UINT8] {
            let found = converted(&network((element, &axes), Element::FLOAT, 17));
            assert_eq!(found, None);
        }
        // Gray images, and what takes none.
        let gray = [1, 1, 2, 4].map(Axis::Fixed);
        let found = converted(&network((Element::FLOAT16, &gray), Element::FLOAT, 17));
        assert_eq!(found, None);
        let row = [1, 6].map(Axis::Fixed);
        let found = converted(&network((Element::FLOAT16, &row), Element::FLOAT, 17));
        assert_eq!(found, None);
    }
}
