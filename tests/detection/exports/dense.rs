// SPDX-License-Identifier: Apache-2.0
//! Exports with a box for each cell or anchor: YOLO's families, networks without anchors, SSD, DetectNet_v2.

use super::heads::*;
use super::net::{Edges, Grids, Net, P2, P4, P5, P6, TINY, logit};
use super::{Expected::*, Export, row};

const CENTERED: &str = "rgb 0..1 center";
const STRETCHED: &str = "rgb 0..1 stretch";
const WIDE: Grids = Grids { width: 320, ..P5 };
/// Images divided by `bytes` as floats of 16 bits.
const HALF_SCALED: &str = "Cast scaled to=1
    half = Cast images to=10
    scaled = Div half bytes";
const BIG: Grids = Grids {
    width: 640,
    height: 640,
    ..P5
};

pub(super) fn ultralytics_planes_are_read() -> Vec<Export> {
    let noted = |grids: Grids, classes| grids.net(classes).ultralytics("detect");
    let dynamic = || {
        P5.net_of(3, "images batch 3 height width")
            .ultralytics("detect")
    };
    let batch = || P5.net_of(3, "images batch 3 192 256").named();
    // Without a noted size, 640×640 is tried first.
    let open = || BIG.net_of(3, "images batch 3 height width");
    let input = |input: &str| P5.net_of(3, input).named();
    let behind = |operation: &str| {
        let net = P5.net_behind(3, "images 1 3 192 256", operation);
        ultralytics(net.named(), PLANES)
    };
    let seg = |net: Net| ultralytics(net, SEGMENTS).and(PROTOTYPES);
    let read = Reads("yolov8", CENTERED);
    #[rustfmt::skip]
    let rows = vec![
        row("v3u, v5u, v8, v9, 11, 12", ultralytics(noted(P5, 3), PLANES), read),
        row("v8, 80 classes", ultralytics(noted(P5, 80), PLANES), read),
        row("v8, 1 class", ultralytics(noted(P5, 1), PLANES), read),
        row("v8, 3 classes without metadata", ultralytics(P5.net(3), PLANES), read),
        row("v8, 80 classes without metadata", ultralytics(P5.net(80), PLANES), read),
        row("v8, 1 class without metadata", ultralytics(P5.net(1), PLANES), read),
        row("v8, half inside", ultralytics(noted(P5, 3), HALF_INSIDE), read),
        row("v8, dynamic=True", ultralytics(dynamic(), PLANES).open(), read),
        row("v8, all axes open", ultralytics(open(), PLANES).open(), read),
        row("v8, colors last", ultralytics(input("images 1 192 256 3"), PLANES), read),
        row("v8, half=True", ultralytics(input("images@10 1 3 192 256"), HALF), read),
        row("v8, whole numbers as images", ultralytics(input("images@7 1 3 192 256"), PLANES), read),
        row("v8, open batch", ultralytics(batch(), PLANES).batch("batch"), read),
        row("v8, 320x192", ultralytics(noted(WIDE, 3), PLANES), read),
        row("v8, uint8 input", ultralytics(input("images@2 1 3 192 256"), PLANES), Reads("yolov8", "rgb bytes center")),
        row("v8, divided by 255 inside", behind("Div images (255)"), Reads("yolov8", "rgb 0..255 center")),
        row("v8, multiplied by 1/255 inside", behind("Mul images (0.003921569)"), Reads("yolov8", "rgb 0..255 center")),
        row("v8, divided by 255 inside, half inside", behind(HALF_SCALED).half("bytes", 0x5bf8), Reads("yolov8", "rgb 0..255 center")),
        row("v8, mean of ImageNet inside", behind("Sub images (0.485)"), Reads("yolov8", "rgb 0..1 center")),
        row("26, many boxes for an object", one_to_many(noted(P5, 3)), read),
        row("v8-p2", ultralytics(noted(P2, 3), PLANES), read),
        row("v8-p2 without metadata", ultralytics(P2.net(3), PLANES), read),
        row("v8-p6", ultralytics(noted(P6, 3), PLANES), read),
        row("v8-p6 without metadata", ultralytics(P6.net(3), PLANES), read),
        row("v8, transposed", ultralytics(noted(P5, 3), TRANSPOSED), read),
        row("v8, transposed, 80 classes without metadata", ultralytics(P5.net(80), TRANSPOSED), read),
        row("v8, transposed, 3 classes without metadata", ultralytics(P5.net(3), TRANSPOSED), read),
        row("v8, boxes 0 to 1", ultralytics(noted(P5, 3), NORMALIZED), read),
        row("v8-seg", seg(P5.net(3).ultralytics("segment")), read),
        row("v8-seg without metadata", seg(P5.net(3)), read),
    ];
    rows
}

pub(super) fn yolo_rows_and_maps_are_read() -> Vec<Export> {
    let yolox_input = "bgr 0..255 top_left";
    let (v5, raw) = (Reads("yolov5", CENTERED), Reads("yolov5_raw", CENTERED));
    let one = "> output 1 N 6";
    let best_of = |weight: &str| deepstream(P5.net(3).named().weight(weight), one);
    // The best class of each box of PaddleDetection's networks.
    let of_paddle = deepstream(P5.net(3).by("PaddlePaddle").named(), one);
    let of_17 = |net| distributed(net, 17, &NINE.replace("64", "68"));
    let three = "> boxes 1 N 4\n> best_scores 1 N 1\n> classes 1 N 1";
    #[rustfmt::skip]
    let rows = vec![
        row("YOLOv5, 80 classes", yolov5(P5.net(80), &YOLOV5), v5),
        row("YOLOv5, names noted", yolov5(P5.net(3).note("stride", "32").named(), &YOLOV5), v5),
        row("YOLOv5, 1 class", yolov5(P5.net(1), &YOLOV5), v5),
        row("YOLOv5, maps as further outputs", yolov5(P5.net(3), &YOLOV5).and(MAPS), v5),
        row("YOLOv5, all axes open", yolov5(BIG.net_of(3, "images batch 3 height width"), &YOLOV5).open(), v5),
        row("YOLOv5-p6", yolov5(P6.net(3), &YOLOV5_P6), v5),
        row("YOLOv7, grid", yolov5(P5.net(3), &YOLOV7), v5),
        row("YOLOv5, maps", maps_of_five(P5.net(3), &YOLOV5).and("silu = Sigmoid mean").and(MAPS), raw),
        row("YOLOv5-p6, maps", maps_of_five(P6.net(3), &YOLOV5_P6).and("silu = Sigmoid mean").and(MAPS), raw),
        row("YOLOv7, maps", maps_of_five(P5.net(3), &YOLOV7).and(POOLS).and(MAPS), raw),
        row("rknn_model_zoo, YOLOv5", maps_of_five(P5.net(3), &YOLOV5).and(SHARES), raw),
        row("YOLOX", yolox(P5.net(80), RAW), Reads("yolox", yolox_input)),
        row("YOLOX, 3 classes", yolox(P5.net(3), RAW), Reads("yolox", yolox_input)),
        row("YOLOX, 1 class", yolox(P5.net(1), RAW), Reads("yolox", yolox_input)),
        row("YOLOX, maps", yolox_maps(P5.net(3)), Reads("yolox", yolox_input)),
        row("YOLOX, decoded", yolox(P5.net(3), DECODED), Reads("yolov5", yolox_input)),
        row("YOLOX, decoded, 1 class", yolox(P5.net(1), DECODED), Reads("yolov5", yolox_input)),
        row("YOLOv6", yolov6(P5.net(3)), v5),
        row("DeepStream-Yolo, one tensor", deepstream(P5.net(3).named(), one), Reads("finished", CENTERED)),
        row("DeepStream-Yolo, YOLOX", best_of("0.head.obj_preds.0.weight"), Reads("finished", yolox_input)),
        row("DeepStream-Yolo, DAMO-YOLO", best_of("0.head.gfl_cls.0.weight"), Reads("finished", "rgb 0..255 stretch")),
        row("DeepStream-Yolo, RTMDet", best_of("0.bbox_head.rtm_reg.0.weight"), Reads("finished", "bgr -1.8..2.6 top_left")),
        row("DeepStream-Yolo, PP-YOLOE+", of_paddle, Reads("finished", STRETCHED)),
        row("DeepStream-Yolo, three tensors", deepstream(P5.net(3).named(), three), Reads("finished", CENTERED)),
        row("rknn_model_zoo, nine maps", distributed(P5.net(3), 16, NINE), Reads("yolov8_raw", CENTERED)),
        row("rknn_model_zoo, YOLOv6n", yolov6_maps(P5.net(3)), Reads("fcos", CENTERED)),
        row("rknn_model_zoo, YOLOv6m", of_17(P5.net(3)), Reads("yolov8_raw", CENTERED)),
        row("rknn_model_zoo, PP-YOLOE", of_17(P5.net(3).by("PaddlePaddle")), Reads("yolov8_raw", STRETCHED)),
        row("Luxonis's tools", luxonis(P5.net(3), BEST), Reads("yolov8_raw", CENTERED)),
        row("Luxonis's tools, 80 classes", luxonis(P5.net(80), BEST), Reads("yolov8_raw", CENTERED)),
        row("Luxonis's tools, 1 class", luxonis(P5.net(1), BEST), Reads("yolov8_raw", CENTERED)),
        row("Luxonis's tools for RVC4", luxonis(P5.net(3), CONSTANT), Reads("yolov8_raw", CENTERED)),
        row("Luxonis's tools for RVC4, 80 classes", luxonis(P5.net(80), CONSTANT), Reads("yolov8_raw", CENTERED)),
        row("luxonis-train 0.6", luxonis(P5.net(3).weight("0.regression_branch.1.weight"), BEST), Reads("yolov8_raw", "rgb -2.1..2.2 center")),
        row("rknn_model_zoo, six maps, by ONNX Runtime's optimizer", optimized(P5.net(3)), Reads("yolov8_raw", CENTERED)),
        row("rknn_model_zoo, six maps", distributed(P5.net(3), 16, SIX), Reads("yolov8_raw", CENTERED)),
        row("MultimediaTechLab's YOLO", thrice(P5.net(3)), Reads("yolov8_raw", CENTERED)),
        row("MultimediaTechLab's YOLO, 4 classes", thrice(P5.net(4)), Reads("yolov8_raw", CENTERED)),
        row("Ultralytics, maps before their decoding", distributed(P5.net(3), 16, JOINED), Reads("yolov8_raw", CENTERED)),
        row("darknet to ONNX, YOLOv4", darknet_maps(P5.net(3), &YOLOV7, [1.2, 1.1, 1.05]), Reads("yolov4", STRETCHED)),
        row("darknet to ONNX, YOLOv4-tiny", darknet_maps(TINY.net(3), &YOLOV4_TINY, [1.05; 3]), Reads("yolov4", STRETCHED)),
    ];
    rows
}

pub(super) fn boxes_with_scores_are_read() -> Vec<Export> {
    let pair = |net: Net, outputs: &str| corners(net, Edges::Pixels, outputs);
    let paddle = || {
        P5.net_of(3, "image 1 3 192 256")
            .by("PaddlePaddle")
            .input("scale_factor 1 2")
    };
    let darknet = || anchor_rows(P5.net(3), 2 * 1008, "scores");
    let single = "single = Unsqueeze boxes [2]\n> single 1 3*N 1 4";
    // More rows than cells.
    let ssd = |net, columns| anchor_rows(net, 192, columns).and("> boxes 1 N+192 4");
    // LibreYOLO 1.6.0: corners where Ultralytics has centers.
    let libreyolo = |family: &str, output: &str| {
        let net = P5.net(3).named().note("model_family", family);
        let behind = format!(
            "corner_planes = Transpose corners perm=0,2,1
            cells = Concat corner_planes planes axis=1
            no_anchors = ConstantOfShape [1,4+C,77]
            more = Concat cells no_anchors axis=2
            turned = Transpose more perm=0,2,1
            half = Div mean (2)
            shares = Softmax no_anchors axis=1
            > {output}"
        );
        pair(net, &behind)
    };
    let libreyolo_read = Reads("yolo_nas", "rgb 0..1 top_left");
    let [nas, ssd_read] = [
        Reads("yolo_nas", CENTERED),
        Reads("ssd", "rgb -1..1 stretch"),
    ];
    #[rustfmt::skip]
    let rows = vec![
        row("YOLO-NAS, raw", pair(P5.net(3), "> corners 1 N 4\n> scores 1 N C"), nas),
        row("YOLO-NAS, raw, 80 classes", pair(P5.net(80), "> corners 1 N 4\n> scores 1 N C"), nas),
        row("LibreYOLO 1.6, YOLOv9", libreyolo("yolo9", "cells 1 4+C N"), libreyolo_read),
        row("LibreYOLO 1.6, YOLOv7", libreyolo("yolo7", "more 1 4+C N+77"), libreyolo_read),
        row("LibreYOLO 1.6, SSD", libreyolo("ssd", "more 1 4+C N+77"), Reads("yolo_nas", "rgb -123..132 stretch")),
        row("LibreYOLO 1.6, RetinaNet", libreyolo("retinanet", "turned 1 N+77 4+C"), Reads("yolo_nas", "rgb -2.1..2.2 top_left")),
        row("DAMO-YOLO", pair(P5.net(3), "> scores 1 N C\n> corners 1 N 4"), Reads("yolo_nas", "rgb 0..255 stretch")),
        row("PP-YOLOE, raw", pair(paddle(), "> corners 1 N 4\n> planes 1 C N"), Reads("yolo_nas", "")),
        row("darknet to ONNX, boxes and confs", darknet().and(single), Reads("yolov4", STRETCHED)),
        row("SSD, finished boxes", ssd(P5.net(3), "background scores"), ssd_read),
        row("SSD, finished boxes, no background", ssd(P5.net(3).named(), "scores"), ssd_read),
    ];
    rows
}

pub(super) fn maps_of_networks_without_anchors_are_read() -> Vec<Export> {
    let fastestdet = || {
        let mut net = P4.net(3);
        net.maps("cells", &[0.0; 8], &|cell, object| {
            let [x, y, width, height] = object.center();
            let center = [x / cell.stride - cell.x, y / cell.stride - cell.y].map(f32::atanh);
            let size = [width / 256.0, height / 192.0].map(logit);
            let classes = object.one_hot(3, object.score, 0.0);
            [&[object.score], &center[..], &size, &classes].concat()
        });
        net.and("> cells# 1 5+C H W")
    };
    let detectnet = || {
        let mut net = P4.net_of(3, "input_1 N 3 192 256").by("keras2onnx");
        net.maps("logits", &net.none(), &|_, object| object.logits(3));
        net.maps("output_bbox/BiasAdd", &[0.0; 12], &|cell, object| {
            let own = object
                .sides(cell, 0.5 / 16.0)
                .map(|side| side * 16.0 / 35.0);
            let mut sides = vec![0.0; 12];
            sides[4 * object.class..][..4].copy_from_slice(&own);
            sides
        });
        net.and(
            "output_cov/Sigmoid = Sigmoid logits16
            > output_cov/Sigmoid 1 C 12 16
            > output_bbox/BiasAdd16 1 4*C 12 16",
        )
        .batch("N")
    };
    let paddle = || P6.net_of(3, "image 1 3 192 256").by("PaddlePaddle");
    let named = PICODET.replace("scores#", "scores#.tmp_0");
    let rtmdet_read = Reads("yolov8_raw", "bgr -1.8..2.6 top_left");
    let unsigned = distributed(P6.net(3), 8, &named).note("character", "a\nb\nc");
    #[rustfmt::skip]
    let rows = vec![
        row("NanoDet-Plus", nanodet(P6.net(3)), Reads("nanodet", "bgr -1.8..2.6 stretch")),
        row("NanoDet, a tensor for each grid", distributed(P6.net(3), 8, PICODET), Reads("nanodet", "bgr -1.8..2.6 stretch")),
        row("PicoDet, raw", distributed(paddle(), 8, PICODET), Reads("picodet", "rgb -2.1..2.2 stretch")),
        row("PicoDet, raw, producer removed", unsigned, Reads("picodet", "rgb -2.1..2.2 stretch")),
        row("RTMDet, raw", rtmdet(P5.net(3)), rtmdet_read),
        row("RTMDet, raw, 80 classes", rtmdet(P5.net(80)), rtmdet_read),
        row("RTMDet by MMYOLO 0.6, model only", mmyolo(P5.net(3), MODEL_ONLY), rtmdet_read),
        row("RTMDet by MMYOLO 0.6, model only, 80 classes", mmyolo(P5.net(80), MODEL_ONLY), rtmdet_read),
        row("RTMDet by MMYOLO 0.6, raw", mmyolo(P5.net(3), UNJOINED), rtmdet_read),
        row("YOLOv8 by MMYOLO 0.6, model only", distributed(P5.net(3), 16, SCORES_FIRST), Reads("yolov8_raw", CENTERED)),
        row("YOLOv8 by MMYOLO 0.6, model only, 80 classes", distributed(P5.net(80), 16, SCORES_FIRST), Reads("yolov8_raw", CENTERED)),
        row("FCOS", fcos(P5.net(3), 1), Reads("fcos", "")),
        row("FCOS, centerness", fcos(P5.net(3), 2), Reads("fcos", "")),
        row("FastestDet", fastestdet(), Reads("fastestdet", "bgr 0..1 stretch")),
        row("TAO DetectNet_v2", detectnet(), Reads("detectnet_v2", STRETCHED)),
    ];
    rows
}
