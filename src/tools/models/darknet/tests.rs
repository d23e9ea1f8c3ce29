//! Refused configurations and weights; what a conversion computes is tested with ONNX Runtime in `tests/detection/model_darknet.rs`.

use super::*;

/// A network with one convolution of 18 filters (3 anchors, 1 class) at stride 2.
const CONFIG: &str = "[net]
width=32
height=16
channels=3
learning_rate=0.001 # of training

[convolutional]
batch_normalize=1
filters=4
size=3
stride=2
pad=1
activation=leaky

[convolutional]
filters=18
size=1
stride=1
pad=1
activation=linear

[yolo]
mask=0,1,2
anchors=1,2, 3,4, 5,6
classes=1
num=3
";

/// Numbers of the weights of [`CONFIG`].
const NUMBERS: usize = 4 * 4 + 4 * 3 * 9 + 18 + 18 * 4;

fn weights(numbers: usize) -> Vec<u8> {
    let header = [0_i32, 2, 5, 0, 0];
    let mut bytes: Vec<u8> = header.iter().flat_map(|n| n.to_le_bytes()).collect();
    bytes.extend((0..numbers).flat_map(|_| 0.5_f32.to_le_bytes()));
    bytes
}

fn error_of(config: &str) -> String {
    // More than any of the networks needs: it is refused before its end.
    let error = convert(config, &weights(4 * NUMBERS), &[]);
    error.expect_err("it is refused").to_string()
}

#[test]
fn grids_and_size_are_found() {
    let network = convert(CONFIG, &weights(NUMBERS), &[]).expect("it is whole");
    assert_eq!(network.size, Size::new(32, 16));
    assert_eq!((network.classes, network.letter_box), (1, false));
    let grid = Grid {
        name: "grid_2".to_owned(),
        stride: 2,
        anchors: vec![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        scale_x_y: 1.0,
    };
    assert_eq!(network.grids, [grid]);
    let file = jetwatch_detect::graph::summarize("x.onnx".as_ref(), &network.onnx, |_| None);
    let file = file.expect("it is an ONNX file");
    assert_eq!(file.inputs[0].to_string(), "float32 [batch, 3, 16, 32]");
    assert_eq!(file.outputs[0].to_string(), "float32 [batch, 18, 8, 16]");
    assert_eq!(convert(CONFIG, &weights(NUMBERS), &[]), Ok(network));
}

#[test]
fn weights_of_another_length_are_refused() {
    let whole = weights(NUMBERS);
    for len in 0..whole.len() {
        let error = convert(CONFIG, &whole[..len], &[]).expect_err("cut off");
        assert!(matches!(error, DarknetError::Weights(_)), "{len}: {error}");
    }
    let error = convert(CONFIG, &weights(NUMBERS - 1), &[]).expect_err("cut off");
    let expected = "layer 1, [convolutional] in line 15 (18 filters of 1×1 on 4 channels): 4 bytes are missing for 72 numbers";
    assert!(error.to_string().contains(expected), "{error}");
    let error = convert(CONFIG, &weights(NUMBERS + 2), &[]).expect_err("too long");
    assert!(error.to_string().starts_with("8 bytes are left"), "{error}");
    let mut damaged = weights(NUMBERS);
    damaged[24..28].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = convert(CONFIG, &damaged, &[]).expect_err("no number");
    assert!(error.to_string().contains("NaN at byte 24"), "{error}");
    // Versions before 0.2 have a shorter header.
    let mut old = weights(NUMBERS);
    old[4] = 1;
    old.drain(16..20);
    assert!(convert(CONFIG, &old, &[]).is_ok());
    let error = convert(CONFIG, b"PK\x03\x04 and so on", &[]).expect_err("a zip file");
    assert!(
        error.to_string().contains("expected a .weights file"),
        "{error}"
    );
}

#[test]
fn wrong_configurations_are_refused_with_their_line() {
    #[rustfmt::skip]
    let cases = [
        ("[net]", "[network", "line 1: found `[network`"),
        ("[net]\n", "", "line 1: found `width=32` before the first section"),
        ("[net]", "[yolo]", "line 1: found [yolo] as the first section"),
        ("width=32", "width=3x", "line 2: width of [net]: found `3x`"),
        ("width=32", "width=0", "line 2: width of [net]: found 0"),
        ("width=32", "width=33", "line 22: [yolo] has 17×8 cells"),
        ("channels=3", "channels=1", "line 4: found channels=1"),
        ("[convolutional]\nfilters", "[region]\nfilters", "line 15: section [region] is not supported; known are [convolutional]"),
        ("activation=linear", "activation=gelu", "line 20: activation=gelu is not supported"),
        ("size=1", "xnor=1", "line 17: unknown key xnor in [convolutional]"),
        ("size=1", "size", "line 17: found `size`, expected key=value"),
        ("filters=18", "filters=20", "line 22: [yolo] with 3 anchors and 1 classes needs 18 channels"),
        ("size=3\nstride=2\npad=1", "size=99\nstride=2\npad=0", "line 7: [convolutional] with size=99 does not fit"),
        ("filters=4", "filters=4\ngroups=2", "line 10: found groups=2 with 4 filters on 3 channels"),
        ("mask=0,1,2", "mask=0,1,3", "line 23: mask of [yolo]: found [0, 1, 3]"),
        ("mask=0,1,2", "mask=0,a,2", "line 23: mask of [yolo]: found `a`"),
        ("anchors=1,2, 3,4, 5,6", "anchors=1,2,3", "line 24: anchors of [yolo]: found 3 numbers"),
        ("num=3", "new_coords=1", "line 26: new_coords=1 of [yolo] is not supported"),
        ("[yolo]", "[route]\nlayers=-3\n[yolo]", "line 23: layers of [route]: found -3 in layer 2"),
        ("[yolo]", "[route]\n[yolo]", "line 22: [route] has no layers"),
        ("[yolo]", "[route]\nlayers=0,-1\n[yolo]", "line 24: [yolo] with 3 anchors"),
        ("[yolo]", "[upsample]\n[route]\nlayers=0,-1\n[yolo]", "line 24: [route] joins results of 16×8 and 32×16 cells"),
        ("[yolo]", "[shortcut]\nfrom=0\n[yolo]", "line 23: [shortcut] adds 4 channels of 16×8 cells to 18 channels"),
        ("[yolo]", "[route]\nlayers=-1\ngroups=4\n[yolo]", "line 24: found groups=4 for 18 channels"),
        ("[yolo]", "[route]\nlayers=-1\ngroup_id=1\n[yolo]", "line 24: found group_id=1, expected 0 to 0"),
        ("[yolo]", "[maxpool]\nsize=2\npadding=4\n[yolo]", "line 24: found padding=4"),
        ("num=3", "num=3\n[convolutional]", "line 27: [convolutional] reads the result of the [yolo] layer 2"),
    ];
    for (from, to, expected) in cases {
        assert!(CONFIG.contains(from), "{from}");
        let found = error_of(&CONFIG.replacen(from, to, 1));
        assert!(found.starts_with(expected), "{to}:\n{found}\n{expected}");
    }
    assert!(error_of("").starts_with("line 1: found no section"));
    let found = convert("[net]\nwidth=32", &weights(0), &[]).expect_err("no grid");
    assert!(
        found.to_string().contains("found no [yolo] layer"),
        "{found}"
    );
}
