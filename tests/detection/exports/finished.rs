// SPDX-License-Identifier: Apache-2.0
//! Exports that give objects rather than cells: behind a suppression, a choice of the best, or the queries of a transformer.

use super::heads::{self, *};
use super::net::{Edges, NEVER, Net, Object, P5, logit};
use super::{Expected::*, Export, row};

const CENTERED: &str = "rgb 0..1 center";
const STRETCHED: &str = "rgb 0..1 stretch";
const IMAGENET: &str = "rgb -2.1..2.2 stretch";

const TAO_SSD: &str =
    "NMS NMS_1 = TRT::NMSDynamic_TRT corners scores\n> NMS 1 1 100 7\n> NMS_1@6 1 1 1 1";

const CROPS: &str = "crops = TRT::CropAndResizeDynamic corners scores";
const TAO_MASKS: &str = "generate_detections = TRT::GenerateDetection_TRT corners scores\n> generate_detections 1 100 6";
const TAO_YOLO: [&str; 4] = [
    "count BatchedNMS@6 1 1",
    "boxes BatchedNMS_1 1 100 4",
    "scores BatchedNMS_2 1 100",
    "classes BatchedNMS_3 1 100",
];

fn paddle() -> Net {
    P5.net_of(3, "image 1 3 192 256")
        .by("PaddlePaddle")
        .input("scale_factor 1 2")
}

pub(super) fn rows_behind_a_suppression_are_read() -> Vec<Export> {
    let ultralytics = "boxes kept_scores classes32";
    let of_paddle = "classes32 kept_scores boxes";
    let counted = "multiclass_nms3_0.tmp_2 = Cast kept_count to=6\n> multiclass_nms3_0.tmp_2@6 1";
    let yolov7 = "which32 boxes classes32 kept_scores";
    let flat = "which32 boxes kept_scores classes32";
    let automl = || {
        let net = suppressed(P5.net(3).by("tf2onnx"), Edges::Pixels);
        let net = net.and("turned = Gather boxes [1,0,3,2] axis=1\nfrom_one = Add classes32 (1)");
        filled(
            net,
            "which32 turned kept_scores from_one",
            "detections:0",
            100,
        )
    };
    let ultralytics_filled = |name, most| {
        filled(
            suppressed(P5.net(3), Edges::Pixels),
            ultralytics,
            name,
            most,
        )
    };
    let mmdeploy = |net: Net| {
        suppressed(net.named(), Edges::Pixels).and(
            "of_five = Concat boxes kept_scores axis=1
            dets = Unsqueeze of_five [0]
            flat = Reshape classes [-1]
            labels = Unsqueeze flat [0]
            > dets batch num_dets 5
            > labels@7 batch num_dets",
        )
    };
    let libreyolo = |pad| {
        let net = ultralytics_filled("output", 300).note("model_family", "yolo9");
        net.note("letterbox_pad", pad)
    };
    let scale = "save_infer_model/scale_0.tmp_0";
    let mut picodet = rows(paddle(), of_paddle, scale).and("swish = HardSwish mean");
    picodet.opset = 14;
    let silu = |net: Net| net.and("silu = Sigmoid mean");
    #[rustfmt::skip]
    let rows = vec![
        row("RTMDet by mmdeploy", mmdeploy(silu(P5.net(3))), Reads("finished", "bgr -1.8..2.6 top_left")),
        row("RTMDet by MMYOLO 0.6", mmyolo_parts(P5.net(3), "head.rtm_reg.0.weight"), Reads("finished", "bgr -1.8..2.6 top_left")),
        row("YOLOX by MMYOLO 0.6", mmyolo_parts(P5.net(3), "head.multi_level_conv_obj.0.weight"), Reads("finished", "bgr 0..255 top_left")),
        row("YOLOv8 by MMYOLO 0.6", mmyolo_parts(P5.net(3), "head.cls_preds.0.2.weight"), Reads("finished", CENTERED)),
        row("RT-DETR of PaddleDetection", paddle_rtdetr(P5.net_of(3, "image images 3 192 256").named()), Reads("finished", STRETCHED)),
        row("Ultralytics, nms=True", ultralytics_filled("output0", 300).note("task", "detect"), Reads("finished", CENTERED)),
        row("YOLOv7, end2end", rows(P5.net(3), yolov7, "output"), Reads("finished", CENTERED)),
        row("YOLO-NAS, flat predictions", rows(P5.net(3), flat, "graph2_flat_predictions"), Reads("finished", "")),
        row("EfficientDet by AutoML", automl(), Reads("finished", "")),
        row("EfficientDet by LibreYOLO 1.6", ultralytics_filled("output", 100).note("model_family", "efficientdet"), Reads("finished", "rgb -2.1..2.2 top_left")),
        row("CenterNet by LibreYOLO 1.6", ultralytics_filled("output", 100).note("model_family", "centernet"), Reads("finished", "bgr -1.4..2 center")),
        row("EfficientDet, [1, 100, 6]", ultralytics_filled("output", 100), Reads("finished", "")),
        row("PicoDet by paddle2onnx 1.3", picodet, Reads("finished", IMAGENET)),
        row("PicoDet by paddle2onnx 1.0, operator set 11", rows(paddle(), of_paddle, scale).and("swish = Clip mean (0) (6)"), Reads("finished", IMAGENET)),
        row("PP-YOLOE+ by paddle2onnx 1.3", rows(paddle(), of_paddle, scale), Reads("finished", STRETCHED)),
        row("PP-YOLOE+, suppressed, with a count", rows(paddle(), of_paddle, "multiclass_nms3_0.tmp_0").and(counted), Reads("finished", STRETCHED)),
        row("YOLOv9 by LibreYOLO 1.6, nms=True", libreyolo("topleft"), Reads("finished", "rgb 0..1 top_left")),
        row("YOLOv9 by LibreYOLO 1.6, nms=True, of MultimediaTechLab", libreyolo("center"), Reads("finished", CENTERED)),
    ];
    rows
}

pub(super) fn four_tensors_with_a_count_are_read() -> Vec<Export> {
    let counted = |count, classes| {
        let [boxes, scores] = ["boxes det_boxes 1 100 4", "scores det_scores 1 100"];
        let outputs = [count, boxes, scores, classes];
        four(P5.net(3).named(), Edges::Pixels, 0, outputs)
    };
    let (count32, count64) = ("count num_dets@6 1 1", "count num_dets@7 1 1");
    let (floats, ints) = ("classes det_classes 1 100", "classes det_classes@6 1 100");
    let longs = "classes det_classes@7 1 100";
    let plugin = "num_dets det_boxes det_scores det_classes = TRT::EfficientNMS_TRT corners scores
        > num_dets@6 '1' '1'
        > det_boxes '1' '100' '4'
        > det_scores '1' '100'
        > det_classes@6 '1' '100'";
    #[rustfmt::skip]
    let rows = vec![
        row("YOLOv6, YOLOv7 and DAMO-YOLO, end2end for TensorRT", corners(P5.net(3).named(), Edges::Pixels, plugin), Drafts("finished")),
        row("EfficientDet of TAO", corners(P5.net(3).named(), Edges::Pixels, &plugin.replace("det_boxes", "detection_boxes")), Drafts("finished")),
        row("SSD of TAO", corners(P5.net(3).named(), Edges::Normalized, TAO_SSD), Drafts("finished")),
        row("Faster R-CNN of TAO", corners(P5.net(3).named(), Edges::Normalized, TAO_SSD).and(CROPS), Drafts("finished")),
        row("Mask R-CNN of TAO", corners(P5.net(3).named(), Edges::Normalized, TAO_MASKS), Drafts("finished")),
        row("YOLOv4 of TAO, by another operator", four(P5.net(3).named(), Edges::Normalized, 0, TAO_YOLO), Reads("finished", "bgr -103.9..151.1 stretch")),
        row("EfficientNMS by another operator", counted(count32, ints), Reads("finished", CENTERED)),
        row("BatchedNMS by another operator", counted(count32, floats), Reads("finished", CENTERED)),
        row("YOLO-NAS, predictions of a batch", counted(count64, longs), Reads("finished", "")),
    ];
    rows
}

pub(super) fn the_best_of_all_cells_are_read() -> Vec<Export> {
    let noted = |classes, task: &str| P5.net(classes).ultralytics(task);
    let read = Reads("finished", CENTERED);
    #[rustfmt::skip]
    let rows = vec![
        row("v10", end_to_end(noted(3, "detect"), 0), read),
        row("26, end to end", end_to_end(noted(3, "detect").note("end2end", "True"), 0), read),
        row("26, end to end, 1 class", end_to_end(noted(1, "detect"), 0), read),
        row("26, end to end, 2 classes", end_to_end(noted(2, "detect"), 0), read),
        row("26-seg, end to end", end_to_end(noted(3, "segment"), 32).and(PROTOTYPES), read),
    ];
    rows
}

pub(super) fn several_tensors_of_objects_are_read() -> Vec<Export> {
    let ssd = || {
        let net = P5
            .net_of(3, "image_tensor:0@2 1 3 192 256")
            .by("tf2onnx")
            .named();
        let outputs = [
            "boxes detection_boxes:0 1 100 4",
            "classes detection_classes:0 1 100",
            "scores detection_scores:0 1 100",
            "count num_detections:0 1",
        ];
        four(net, Edges::TopFirst, 1, outputs)
    };
    let lite = [
        "boxes TFLite_Detection_PostProcess 1 100 4",
        "classes TFLite_Detection_PostProcess:1 1 100",
        "scores TFLite_Detection_PostProcess:2 1 100",
        "count TFLite_Detection_PostProcess:3 1",
    ];
    let lite = four(P5.net(3).by("tf2onnx").named(), Edges::TopFirst, 0, lite);
    let combined = |names: [&str; 4]| {
        let net = P5.net(3).by("tf2onnx").named();
        four(net, Edges::TopFirst, 0, names)
    };
    let by_order = combined([
        "boxes nms 1 100 4",
        "scores nms_1 1 100",
        "classes nms_2 1 100",
        "count nms_3@6 1",
    ]);
    let lite_by_order = combined([
        "count StatefulPartitionedCall:0@6 1",
        "scores StatefulPartitionedCall:1 1 100",
        "classes StatefulPartitionedCall:2 1 100",
        "boxes StatefulPartitionedCall:3 1 100 4",
    ]);
    let raw = "> corners 1 N 4\n> scores 1 N C";
    let outputs = [
        "> boxes kept 4\n",
        "> labels@7 kept\n",
        "> score_values kept\n",
    ];
    let torchvision = |net, first, order: [usize; 3]| {
        torchvision(net, first, &order.map(|place| outputs[place]).concat())
    };
    let azure = "detected_boxes = Div boxes sizes
        > detected_boxes kept 4
        detected_classes = Identity labels
        > detected_classes@7 kept
        detected_scores = Identity score_values
        > detected_scores kept";
    let mut sized = P5.net(3).named();
    sized.floats("sizes", &[4], &[256.0, 192.0, 256.0, 192.0]);
    let azure = heads::torchvision(sized, 0, azure);
    let size = "side = ConstantOfShape [2]\nsize = Cast side to=7\n> size@7 2";
    let detectron2 = torchvision(P5.net(3).named(), 0, [0, 1, 2]).and(size);
    let (torch, bytes) = (
        Reads("finished", CENTERED),
        Reads("finished", "rgb bytes stretch"),
    );
    #[rustfmt::skip]
    let rows = vec![
        row("torchvision, Faster R-CNN", torchvision(P5.net(3).named(), 1, [0, 1, 2]), torch),
        row("torchvision, RetinaNet", torchvision(P5.net(3).named(), 1, [0, 2, 1]), torch),
        row("torchvision, another order", torchvision(P5.net(3).named(), 1, [1, 2, 0]), torch),
        row("Azure's Custom Vision", azure, Reads("finished", "bgr 0..255 stretch")),
        row("Detectron2", detectron2, Reads("finished", "bgr 0..255 top_left")),
        row("TensorFlow's SSD by tf2onnx", ssd(), bytes),
        row("TensorFlow's SSD with raw outputs", ssd().and(raw), bytes),
        row("TensorFlow's combined suppression by tf2onnx", by_order, Reads("finished", STRETCHED)),
        row("EfficientDet-Lite by tf2onnx", lite_by_order, Reads("finished", STRETCHED)),
        row("TensorFlow Lite's postprocess", lite, Reads("finished", "")),
    ];
    rows
}

pub(super) fn queries_are_read() -> Vec<Export> {
    let joined = |net: Net| {
        let (classes, none) = (net.classes, vec![NEVER; net.classes]);
        let output =
            "scores = Sigmoid logits\noutput0 = Concat boxes scores axis=2\n> output0 1 300 4+C";
        transformer(net, 300, &none, &|object| object.logits(classes)).and(output)
    };
    let of_queries =
        |queries: usize, classes: usize, columns: usize, [logits, boxes]: [&str; 2]| {
            let encode = |object: &Object| object.one_hot(columns, logit(object.score), NEVER);
            let outputs = format!(
                "dets = Identity boxes
            labels = Identity logits
            > {logits} 1 {queries} {columns}
            > {boxes} 1 {queries} 4"
            );
            let net = P5.net(classes);
            transformer(net, queries, &vec![NEVER; columns], &encode).and(&outputs)
        };
    let sigmoid = |classes, columns, names| of_queries(300, classes, columns, names);
    let conditional = of_queries(100, 3, 3, ["logits", "boxes"])
        .weight("m.model.decoder.ref_point_head.layers.1.bias")
        .weight("m.class_labels_classifier.bias");
    let owlv2 =
        of_queries(1200, 3, 3, ["logits", "boxes"]).weight("owlv2.vision_model.class_embedding");
    let encode = |object: &Object| object.logits(3);
    let keras = transformer(P5.net(3).named(), 300, &[NEVER; 3], &encode).and(
        "enc_topk_bboxes = ConstantOfShape [1,300,4]
        enc_topk_logits = ConstantOfShape [1,300,3]
        > enc_topk_bboxes 1 300 4\n> enc_topk_logits 1 300 3\n> logits 1 300 3\n> boxes 1 300 4",
    );
    // The softmax is left to the caller; the last column is that of no object.
    let softmax = |net: Net| {
        let classes = net.classes;
        let none = [vec![0.0; classes], vec![12.0]].concat();
        let encode = |object: &Object| {
            let rest = ((1.0 - object.score) / classes as f32).ln();
            object.one_hot(1 + classes, object.score.ln(), rest)
        };
        transformer(net, 100, &none, &encode).and("> logits 1 100 1+C\n> boxes 1 100 4")
    };
    // What transformers gives behind logits and boxes: features of the queries, of the maps, and the choice among the cells.
    let features = "2949 = Identity logits
        2950 = Identity boxes
        2902 = ConstantOfShape [1,300,64]
        2948 = ConstantOfShape [1,2,300,3]
        452 = ConstantOfShape [1,64,6,8]
        2136 = Identity logits
        2116 = Identity boxes
        2075 = ConstantOfShape [1,N,3]
        2087 = ConstantOfShape [1,N,4]
        > 2902 1 300 64\n> 2948 1 2 300 3\n> 452 1 64 6 8\n> 2136 1 300 3\n> 2116 1 300 4\n> 2075 1 N 3\n> 2087 1 N 4";
    let authors = || P5.net(3).named().input("orig_target_sizes@7 1 2");
    let deimv2 = authors().weight("model.backbone.dinov3.norm.weight");
    // The best class of each query.
    let best = "numbers = ArgMax logits axis=2\n> rows_of_6 1 300 6";
    let dfine = P5
        .net(3)
        .named()
        .weight("0.decoder.dec_score_head.0.weight");
    let of_paddle = P5.net(3).by("PaddlePaddle").named();
    let ranked = "> top_classes@7 1 300\n> top_boxes 1 300 4\n> top_scores 1 300";
    let (read, imagenet) = (Reads("detr", STRETCHED), Reads("detr", IMAGENET));
    #[rustfmt::skip]
    let rows = vec![
        row("RT-DETR by Ultralytics", joined(P5.net(80)), read),
        row("RT-DETR by Ultralytics, 3 classes", joined(P5.net(3).ultralytics("detect")), read),
        row("RT-DETR by Ultralytics 8.3, 2 classes", joined(P5.net(2).ultralytics("detect")), read),
        row("RT-DETR by Ultralytics 8.3, 1 class", joined(P5.net(1).ultralytics("detect")), read),
        row("RT-DETR by transformers", sigmoid(80, 80, ["logits", "boxes"]), read),
        row("RT-DETR by transformers, all axes open", sigmoid(3, 3, ["logits", "boxes"]).open(), read),
        row("RT-DETR by transformers, all outputs", sigmoid(3, 3, ["2949", "2950"]).and(features), read),
        row("D-FINE by transformers, 3 classes", sigmoid(3, 3, ["logits", "boxes"]), read),
        row("RT-DETR and D-FINE by their authors", top_300(authors(), ranked), read),
        row("DEIMv2 with DINOv3", top_300(deimv2, ranked), imagenet),
        row("D-FINE by DeepStream-Yolo", top_300(dfine, best), Reads("finished", STRETCHED)),
        row("RT-DETR of PaddleDetection by DeepStream-Yolo", top_300(of_paddle, best), Reads("finished", STRETCHED)),
        row("OWL-ViT by transformers, with its texts inside", sigmoid(3, 3, ["logits", "boxes"]).weight("owlvit.vision_model.class_embedding"), Reads("detr", "rgb -1.8..1.9 stretch")),
        row("OWLv2 by transformers, with its texts inside", owlv2, Reads("detr", "rgb -1.8..1.9 top_left")),
        row("D-FINE of KerasHub, all outputs", keras, read),
        row("EdgeCrafter by LibreYOLO 1.6", sigmoid(3, 3, ["logits", "boxes"]).weight("model.backbone.backbone.register_token"), imagenet),
        row("TAO DINO, 3 classes", sigmoid(3, 3, ["logits", "boxes"]).weight("model.class_embed.0.bias"), imagenet),
        row("Conditional DETR by transformers, 3 classes", sigmoid(3, 3, ["logits", "boxes"]).weight("m.class_labels_classifier.bias"), imagenet),
        row("Conditional DETR by transformers, 100 queries", conditional, imagenet),
        row("RF-DETR", sigmoid(91, 91, ["labels", "dets"]), imagenet),
        row("RF-DETR, 3 classes", sigmoid(3, 4, ["labels", "dets"]), imagenet),
        row("DETR, with no object", softmax(P5.net(91)), imagenet),
        row("DETR, with no object, 3 classes", softmax(P5.net(3).named()), imagenet),
        row("DETR by transformers, 3 classes without names", softmax(P5.net(3)), imagenet),
    ];
    rows
}
