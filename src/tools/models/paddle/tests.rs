//! Damaged and unsupported networks; what a conversion computes is tested with ONNX Runtime in `tests/detection/model_registry.rs`.

use super::*;

/// A protobuf message under construction.
#[derive(Default, Clone)]
struct Message(Vec<u8>);

impl Message {
    fn number(mut self, field: u8, value: u8) -> Self {
        self.0.extend([field << 3, value]);
        self
    }

    fn bytes(mut self, field: u8, bytes: &[u8]) -> Self {
        self.0.push(field << 3 | 2);
        let len = bytes.len();
        assert!(len < 1 << 14, "two bytes are enough");
        self.0.extend([len as u8 | 0x80, (len >> 7) as u8]);
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u8, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u8, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

fn parameter(name: &str, variable: &str) -> Message {
    Message::default().text(1, name).text(2, variable)
}

fn operator(
    kind: &str,
    input: (&str, &str),
    weight: Option<(&str, &str)>,
    out: (&str, &str),
) -> Message {
    let mut operator = Message::default().message(1, &parameter(input.0, input.1));
    if let Some((name, variable)) = weight {
        operator = operator.message(1, &parameter(name, variable));
    }
    operator.message(2, &parameter(out.0, out.1)).text(3, kind)
}

fn weight_variable(name: &str) -> Message {
    let kind = Message::default().number(1, 7);
    Message::default()
        .text(1, name)
        .message(2, &kind)
        .number(3, 1)
}

fn program(weights: &[&str], operators: &[Message]) -> Vec<u8> {
    let mut block = Message::default();
    for weight in weights {
        block = block.message(3, &weight_variable(weight));
    }
    for operator in operators {
        block = block.message(4, operator);
    }
    Message::default().message(1, &block).0
}

fn tensor(axes: &[u8], values: &[f32]) -> Vec<u8> {
    let description = axes
        .iter()
        .fold(Message::default().number(1, 5), |message, axis| {
            message.number(2, *axis)
        });
    let mut bytes = vec![0; 16];
    bytes.extend((description.0.len() as u32).to_le_bytes());
    bytes.extend(&description.0);
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

fn conversion(variable: &str) -> Conversion {
    Conversion {
        input: "image".to_owned(),
        size: Size::new(6, 4),
        outputs: vec![ConvertedOutput {
            variable: variable.to_owned(),
            name: "out".to_owned(),
        }],
        metadata: vec![("license".to_owned(), "none".to_owned())],
    }
}

/// A 1×1 convolution from three channels to two.
fn one_convolution() -> (Vec<u8>, Vec<u8>) {
    let conv = operator(
        "conv2d",
        ("Input", "image"),
        Some(("Filter", "w")),
        ("Output", "y"),
    );
    (program(&["w"], &[conv]), tensor(&[2, 3, 1, 1], &[0.5; 6]))
}

#[test]
fn output_has_rows_of_channels() {
    let (program, weights) = one_convolution();
    let file = convert(&program, &weights, &conversion("y")).expect("it is whole");
    let network = jetwatch_detect::graph::summarize("x.onnx".as_ref(), &file, |_| None);
    let network = network.expect("it is an ONNX file");
    assert_eq!(network.parameters, 6 + 3, "with the shape of the output");
    assert_eq!(format!("{}", network.outputs[0]), "float32 [batch, 24, 2]");
    assert_eq!(format!("{}", network.inputs[0]), "float32 [batch, 3, 4, 6]");
    assert_eq!(
        network.metadata,
        [("license".to_owned(), "none".to_owned())]
    );
    assert_eq!(
        convert(&program, &weights, &conversion("y")).expect("again"),
        file
    );
}

#[test]
fn damaged_files_are_refused_at_every_length() {
    let (program, weights) = one_convolution();
    for len in 0..program.len() {
        let error = convert(&program[..len], &weights, &conversion("y"));
        assert!(error.is_err(), "{len} bytes of the program");
    }
    for len in 0..weights.len() {
        let error = convert(&program, &weights[..len], &conversion("y")).expect_err("cut off");
        assert!(error.to_string().contains("model.pdiparams"), "{error}");
    }
    let more = [weights, vec![0]].concat();
    let error = convert(&program, &more, &conversion("y"))
        .expect_err("too long")
        .to_string();
    assert!(
        error.contains("1 bytes after the last of 1 weights"),
        "{error}"
    );
}

#[test]
fn shapes_beyond_any_network_are_refused() {
    let conv = operator(
        "conv2d",
        ("Input", "image"),
        Some(("Filter", "w")),
        ("Output", "y"),
    );
    let graph = program(&["w"], &[conv]);
    let description = Message::default().number(1, 5);
    let mut huge = description.0;
    huge.push(2 << 3);
    huge.extend([0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]); // 2^60
    huge.extend(Message::default().number(2, 3).number(2, 0).number(2, 1).0);
    let mut weights = vec![0; 16];
    weights.extend((huge.len() as u32).to_le_bytes());
    weights.extend(huge);
    let error = convert(&graph, &weights, &conversion("y")).expect_err("no values");
    assert!(
        error.to_string().contains("expected at least one value"),
        "{error}"
    );

    let axis = Message::default().text(1, "axis").number(3, 1);
    let names: Vec<String> = (0..70).map(|index| format!("v{index}")).collect();
    let mut doublings = Vec::new();
    let mut input = "image";
    for name in &names {
        let concat = operator("concat", ("X", input), Some(("X", input)), ("Out", name));
        doublings.push(concat.message(4, &axis));
        input = name;
    }
    let error = convert(&program(&[], &doublings), &[], &conversion(input)).expect_err("2^70");
    assert!(error.to_string().contains("at most 65536"), "{error}");
}

#[test]
fn unsupported_networks_are_refused_by_name() {
    #[rustfmt::skip]
    let cases = [
        (operator("erf", ("X", "image"), None, ("Out", "y")), "`erf` with the output `y`: it is not supported"),
        (operator("relu", ("X", "other"), None, ("Out", "y")), "no variable `other`"),
        (operator("relu", ("X", "w"), None, ("Out", "y")), "no variable `image`"),
        (operator("concat", ("X", "image"), None, ("Out", "y")), "expected axis 1"),
        (operator("pool2d", ("X", "image"), None, ("Out", "y")), "expected the mean of each channel"),
        (operator("nearest_interp_v2", ("X", "image"), None, ("Out", "y")), "expected the factors"),
        (operator("elementwise_add", ("X", "image"), Some(("Y", "w")), ("Out", "y")), "expected a convolution before it"),
        (operator("conv2d", ("Input", "image"), Some(("Filter", "image")), ("Output", "y")), "expected a weight"),
        (operator("batch_norm", ("X", "image"), Some(("Scale", "w")), ("Y", "y")), "found 0 variables as Bias"),
    ];
    for (operator, wanted) in cases {
        let program = program(&["w"], &[operator]);
        let weights = tensor(&[2, 3, 1, 1], &[0.5; 6]);
        let error = convert(&program, &weights, &conversion("y"))
            .expect_err(wanted)
            .to_string();
        assert!(error.contains(wanted), "{error}\ninstead of\n{wanted}");
    }
}
