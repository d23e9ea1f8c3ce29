// SPDX-License-Identifier: Apache-2.0
//! Files that are refused with the reason and the remedy, and networks that are not detectors.

use super::heads::*;
use super::net::{Edges, Grids, Net, P5, P6};
use super::{Expected::*, Export, row};

/// One vector behind `operator`.
fn vector(net: Net, operator: &str) -> Net {
    net.and("features = ConstantOfShape [1,C]")
        .and(&format!("vector = {operator} features\n> vector 1 C"))
}

/// The class of each pixel.
fn pixels(net: Net) -> Net {
    net.and(
        "nothing = ConstantOfShape [1,192,256]\nclasses = Cast nothing to=6\n> classes@6 1 192 256",
    )
}

pub(super) fn other_tasks_are_refused() -> Vec<Export> {
    let noted = |classes, task: &str| P5.net(classes).ultralytics(task);
    let high = Grids {
        width: 128,
        height: 256,
        ..P5
    };
    #[rustfmt::skip]
    let rows = vec![
        row("v8-pose", ultralytics(noted(1, "pose"), POSE), Refuses(&["task pose", "export a detection network"])),
        row("26-pose, end to end", end_to_end(noted(1, "pose"), 51), Refuses(&["task pose"])),
        row("v8-obb", ultralytics(noted(3, "obb"), ANGLE), Refuses(&["task obb", "export a detection network"])),
        row("26-obb, end to end", end_to_end(noted(3, "obb"), 1), Refuses(&["task obb"])),
        row("v8-pose without metadata", ultralytics(P5.net(1), POSE), Refuses(&["poses", "export a detection network"])),
        row("26-pose, end to end, without metadata", end_to_end(P5.net(1), 51), Refuses(&["poses", "export a detection network"])),
        row("v8-obb without metadata", ultralytics(P5.net(3), ANGLE), Refuses(&["task obb"])),
        row("26-obb, end to end, without metadata", end_to_end(P5.net(3), 1).and(ANGLE_OF_ROWS), Refuses(&["task obb"])),
        row("Ultralytics 8.4.190, 26-sem", pixels(noted(3, "semantic")), Refuses(&["task semantic", "export a detection network"])),
        row("26-sem without metadata", pixels(P5.net(3)), Refuses(&["no layout fits"])),
        row("v8-cls", vector(noted(3, "classify"), "Softmax"), Drafts("softmax")),
        row("classifier", vector(P5.net(1000), "Add (1)"), Drafts("logits")),
        row("classifier of several labels", vector(P5.net(20), "Sigmoid"), Drafts("sigmoid")),
        row("embedding", vector(high.net(512), "Add (1)"), Drafts("embedding")),
    ];
    rows
}

pub(super) fn networks_without_boxes_are_refused() -> Vec<Export> {
    let image = |axes: &str| {
        let shape = axes.replace(' ', ",");
        P5.net(3).and(&format!(
            "picture = ConstantOfShape [{shape}]\n> picture {axes}"
        ))
    };
    // Outputs of zeros: `NAME AXES`.
    let zeros = |outputs: &[&str]| {
        let lines = outputs.iter().map(|output| {
            let (name, axes) = output.split_once(' ').expect("axes");
            format!(
                "{name} = ConstantOfShape [{}]\n> {output}\n",
                axes.replace(' ', ",")
            )
        });
        P5.net(3).and(&lines.collect::<String>())
    };
    let text = ultralytics(P5.net(3).input("txt_feats 1 3 512"), PLANES);
    let indices = suppressed(P5.net(3), Edges::Pixels).and("> kept@7 kept 3");
    let of_keras = suppressed(P5.net(3), Edges::Pixels)
        .and("whole = Cast kept to=6\n> corners 1 N 4\n> planes 1 C N\n> whole@6 1 kept 3");
    let flat = "joined = Concat corners scores axis=2\noutput = Squeeze joined [0]\n> output N 4+C";
    // Before the anchors are applied.
    let mut deltas = anchor_rows(P5.net(3), 192, "background scores");
    deltas.rows("deltas", &[0.2, 0.1, -0.3, 0.4], &|_, _| {
        vec![0.5, -0.7, 1.5, -0.9]
    });
    let deltas = deltas.and("all_deltas = Concat deltas no_boxes axis=1\n> all_deltas 1 N+192 4");
    #[rustfmt::skip]
    let rows = vec![
        row("super resolution", image("1 3 384 512"), Refuses(&["no layout fits"])),
        row("depth", image("1 1 192 256"), Refuses(&["no layout fits"])),
        row("semantic segmentation", image("1 21 192 256"), Refuses(&["no layout fits"])),
        row("SSD, raw", deltas, Refuses(&["`all_deltas`", "anchors"])),
        row("YOLO-World with a text", text, Refuses(&["`txt_feats`", "text"])),
        row("RetinaFace", zeros(&["loc 1 2016 4", "conf 1 2016 2", "landms 1 2016 10"]), Refuses(&["landmarks"])),
        row("SCRFD", zeros(&["448 1536 1", "451 1536 4", "454 1536 10"]), Refuses(&["landmarks"])),
        row("CenterNet", zeros(&["hm 1 3 48 64", "wh 1 2 48 64", "reg 1 2 48 64"]), Refuses(&["CenterNet"])),
        row("RetinaNet, raw", zeros(&["cls 1 720 24 32", "reg 1 36 24 32"]), Refuses(&["anchors"])),
        row("YOLOX by MMYOLO 0.6, model only", mmyolo_yolox(P5.net(3)), Refuses(&["--model-only"])),
        row("Keras YOLOv3 by tf2onnx", zeros(&["conv2d_59 1 6 8 24", "conv2d_67 1 12 16 24", "conv2d_75 1 24 32 24"]), Refuses(&["--outputs-as-nchw"])),
        row("FOMO of Edge Impulse", P5.net(3).and("logits = ConstantOfShape [1,24,32,4]\ny = Softmax logits axis=3\n> y 1 24 32 4"), Refuses(&["FOMO"])),
        row("FCOS by LibreYOLO 1.6", zeros(&["output 1 1003 8"]).note("model_family", "fcos"), Refuses(&["number of its grid"])),
        row("YOLOX, cut", cut_yolox(P5.net(3)), Refuses(&["are apart"])),
        row("NanoDet, cut", cut_nanodet(P5.net(3)), Refuses(&["NanoDet"])),
        row("NanoDet, cut, four grids", cut_nanodet(P6.net(3)), Refuses(&["NanoDet"])),
        row("FreeYOLO", corners(P5.net(3), Edges::Pixels, flat), Refuses(&["[1, N, 4 + C]"])),
        row("Keras YOLOv3 of the ONNX model zoo", of_keras, Refuses(&["NonMaxSuppression"])),
        row("DAMO-YOLO before its decoding", zeros(&["cls 1 1008 3", "reg 1 1008 68"]), Refuses(&["DAMO-YOLO"])),
        row("KerasCV's YOLOV8Detector", zeros(&["boxes 1 1008 64", "classes 1 1008 3"]), Refuses(&["KerasCV"])),
        row("boxes and scores in planes", zeros(&["boxes 1 4 1008", "scores 1 3 1008"]), Refuses(&["in one tensor"])),
        row("YOLOv2", zeros(&["grid 1 125 6 8"]), Refuses(&["YOLOv2"])),
        row("indices of NonMaxSuppression", indices, Refuses(&["NonMaxSuppression"])),
    ];
    rows
}

pub(super) fn what_cannot_give_scores_is_refused() -> Vec<Export> {
    let of = |behind: &str| ultralytics(P5.net(3), behind);
    let mut newest = of(PLANES);
    newest.opset = 99;
    let extended = "drawn = DrawBoundingBoxes planes\n> drawn 1 4+C N";
    let brain_floats =
        "half = Cast planes to=16\nodd = Sigmoid half\nfloats = Cast odd to=1\n> floats 1 4+C N";
    let one_scale =
        "bytes = QuantizeLinear planes (2)\nfloats = DequantizeLinear bytes (2)\n> floats 1 4+C N";
    let of_rows = suppressed(P5.net(3).named(), Edges::Pixels).and(
        "rows = Concat boxes kept_scores classes32 axis=1
        bytes = QuantizeLinear rows (2)
        output = DequantizeLinear bytes (2)
        > output kept 6",
    );
    #[rustfmt::skip]
    let rows = vec![
        row("operator set 99", newest, Refuses(&["operator set 99", "at most", "opset_version=17"])),
        row("operators of onnxruntime-extensions", of(extended), Refuses(&["DrawBoundingBoxes", "lacks", "post-processing"])),
        row("modelopt with 16-bit brain floats", of(brain_floats), Refuses(&["types", "32-bit floats"])),
        row("YOLOv8 by quantize_static of ONNX Runtime", of(one_scale), Refuses(&["one scale", "nodes_to_exclude"])),
        row("YOLOv8, suppressed, by quantize_static of ONNX Runtime", of_rows, Refuses(&["one scale", "nodes_to_exclude"])),
    ];
    rows
}

pub(super) fn what_is_not_in_the_file_is_asked_for() -> Vec<Export> {
    let elsewhere = P5.net(3).missing_weight("weights.bin");
    let torchvision = torchvision(
        P5.net(3),
        1,
        "> boxes kept 4\n> labels@7 kept\n> score_values kept",
    );
    #[rustfmt::skip]
    let rows = vec![
        row("weights that are missing", ultralytics(elsewhere, PLANES), Refuses(&["weights.bin"])),
        row("26, end to end, without metadata", end_to_end(P5.net(3), 0), Refuses(&["--labels"])),
        row("torchvision without names", torchvision, Refuses(&["--labels"])),
    ];
    rows
}
