// SPDX-License-Identifier: Apache-2.0
//! Exports whose boxes are suppressed already, in the forms of their origins.

use jetwatch_detect::layouts::{Certainty, Recognized, finished::only_indices};

use super::*;

const FLOAT: Element = Element::FLOAT;
const INT32: Element = Element::INT32;
const INT64: Element = Element::INT64;

/// Names, types and axes of the outputs.
type Outputs<'a> = &'a [(&'a str, Element, &'a [i64])];

/// A network of 640×640 with these outputs, one operator, and two names of classes in its metadata.
fn export(outputs: Outputs<'_>, operator: &str) -> Network {
    let outputs = outputs.iter();
    let outputs = outputs.map(|(name, element, axes)| tensor(name, *element, axes));
    let mut network = with_operator(network(640, outputs.collect()), operator);
    let names = "['person', 'car']".to_owned();
    network.metadata.push(("names".to_owned(), names));
    network
}

/// The first guess, which must be the layout `finished`.
fn guess(network: &Network) -> Recognized {
    let guess = infer_layout(network, None).unwrap_or_else(|| panic!("{:?}", network.outputs));
    assert_eq!(guess.layout, "finished", "{}", guess.found.reason);
    guess.found
}

/// Roles with their tensors, and parameters.
fn written(found: &Recognized) -> (String, String) {
    let tensors = found.tensors.iter();
    let tensors: Vec<String> = tensors
        .map(|role| format!("{}={}", role.key, role.names.join("+")))
        .collect();
    let parameters = found.parameters.iter();
    let parameters: Vec<String> = parameters
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    (tensors.join(" "), parameters.join(", "))
}

const CORNERS: &str = "columns: [left, top, right, bottom]";
const EDGES: &str = "columns: [top, left, bottom, right]";

#[test]
fn boxes_scores_and_classes_are_found_in_any_order_and_by_any_name() {
    use Certainty::{Certain, Likely, Possible};
    let torchvision = format!("{CORNERS}, boxes_are: pixels, first_class: 1");
    let tensorflow = format!("{EDGES}, boxes_are: normalized, first_class: 1, rows: 100");
    let lite = format!("{EDGES}, boxes_are: normalized, first_class: 0, rows: 10");
    let plain = format!("{CORNERS}, boxes_are: pixels, first_class: 0, rows: 100");
    let deepstream =
        format!("{CORNERS}, boxes_are: pixels, first_class: 0, rows: 8400, suppressed: false");
    let mmdetection =
        "columns: [left, top, right, bottom, score], boxes_are: pixels, first_class: 0";
    #[rustfmt::skip]
    let cases: [(Outputs<'_>, &str, Certainty, &str, &str, &str); 15] = [
        (&[("boxes", FLOAT, &[-1, 4]), ("labels", INT64, &[-1]), ("scores", FLOAT, &[-1])], "NonMaxSuppression",
         Certain, "boxes=boxes scores=scores classes=labels", &torchvision, "whose classes begin with 1; if yours begin with 0, set first_class"),
        (&[("12", FLOAT, &[-1, 4]), ("34", FLOAT, &[-1]), ("56", INT64, &[-1])], "NonMaxSuppression",
         Certain, "boxes=12 scores=34 classes=56", &torchvision, "torchvision"),
        // Mask R-CNN, of which the boxes are used.
        (&[("boxes", FLOAT, &[-1, 4]), ("labels", INT64, &[-1]), ("scores", FLOAT, &[-1]), ("masks", FLOAT, &[-1, 1, 28, 28])], "NonMaxSuppression",
         Certain, "boxes=boxes scores=scores classes=labels", &torchvision, "behind a suppression"),
        (&[("boxes", FLOAT, &[-1, 4]), ("labels", INT64, &[-1]), ("scores", FLOAT, &[-1])], "Relu",
         Likely, "boxes=boxes scores=scores classes=labels", &torchvision, "torchvision"),
        (&[
            ("detection_anchor_indices", FLOAT, &[1, 100]), ("detection_boxes", FLOAT, &[1, 100, 4]), ("detection_classes", FLOAT, &[1, 100]),
            ("detection_multiclass_scores", FLOAT, &[1, 100, 3]), ("detection_scores", FLOAT, &[1, 100]), ("num_detections", FLOAT, &[1]),
            ("raw_detection_boxes", FLOAT, &[1, 1917, 4]), ("raw_detection_scores", FLOAT, &[1, 1917, 3]),
        ], "NonMaxSuppression",
         Certain, "boxes=detection_boxes scores=detection_scores classes=detection_classes count=num_detections", &tensorflow, "TensorFlow"),
        (&[("num_detections", INT32, &[1]), ("detection_scores", FLOAT, &[1, 100]), ("detection_classes", FLOAT, &[1, 100]), ("detection_boxes", FLOAT, &[1, 100, 4])], "NonMaxSuppression",
         Certain, "boxes=detection_boxes scores=detection_scores classes=detection_classes count=num_detections", &tensorflow, "TensorFlow"),
        (&[("Identity:0", FLOAT, &[1, 100, 4]), ("Identity_1:0", FLOAT, &[1, 100]), ("Identity_2:0", FLOAT, &[1, 100]), ("Identity_3:0", FLOAT, &[1])], "NonMaxSuppression",
         Possible, "boxes=Identity:0 scores=Identity_2:0 classes=Identity_1:0 count=Identity_3:0", &tensorflow, "only their order shows"),
        (&[
            ("TFLite_Detection_PostProcess", FLOAT, &[1, 10, 4]), ("TFLite_Detection_PostProcess:1", FLOAT, &[1, 10]),
            ("TFLite_Detection_PostProcess:2", FLOAT, &[1, 10]), ("TFLite_Detection_PostProcess:3", FLOAT, &[1]),
        ], "NonMaxSuppression",
         Certain, "boxes=TFLite_Detection_PostProcess scores=TFLite_Detection_PostProcess:2 classes=TFLite_Detection_PostProcess:1 count=TFLite_Detection_PostProcess:3",
         &lite, "begin with 0"),
        (&[("boxes", FLOAT, &[1, 8400, 4]), ("scores", FLOAT, &[1, 8400, 1]), ("classes", FLOAT, &[1, 8400, 1])], "ArgMax",
         Likely, "boxes=boxes scores=scores classes=classes", &deepstream, "leaves suppression to the caller"),
        (&[("classes", INT64, &[1, 8400, 1]), ("boxes", FLOAT, &[1, 8400, 4]), ("scores", FLOAT, &[1, 8400, 1])], "ArgMax",
         Likely, "boxes=boxes scores=scores classes=classes", &deepstream, "leaves suppression to the caller"),
        (&[("dets", FLOAT, &[1, -1, 5]), ("labels", INT64, &[1, -1])], "NonMaxSuppression",
         Certain, "boxes=dets classes=labels", mmdetection, "MMDetection"),
        // YOLO-NAS.
        (&[("num", INT64, &[1, 1]), ("pred_boxes", FLOAT, &[1, 100, 4]), ("pred_scores", FLOAT, &[1, 100]), ("pred_classes", INT64, &[1, 100])], "NonMaxSuppression",
         Certain, "boxes=pred_boxes scores=pred_scores classes=pred_classes count=num", &plain, "behind a suppression"),
        (&[("boxes", FLOAT, &[1, 100, 4]), ("scores", FLOAT, &[1, 100]), ("classes", INT32, &[1, 100])], "Relu",
         Likely, "boxes=boxes scores=scores classes=classes", &plain, "boxes float32 [1, 100, 4], scores float32 [1, 100], classes int32 [1, 100]"),
        (&[("boxes", FLOAT, &[-1, 4]), ("scores", FLOAT, &[-1])], "NonMaxSuppression",
         Possible, "boxes=boxes scores=scores", "columns: [left, top, right, bottom], boxes_are: pixels", "behind a suppression"),
        (&[("boxes", FLOAT, &[-1, 4]), ("scores", FLOAT, &[-1]), ("classes", INT32, &[-1])], "Relu",
         Likely, "boxes=boxes scores=scores classes=classes", "columns: [left, top, right, bottom], boxes_are: pixels, first_class: 0", "boxes float32 [n, 4], scores float32 [n]"),
    ];
    for (outputs, operator, certainty, tensors, parameters, reason) in cases {
        let network = export(outputs, operator);
        let found = guess(&network);
        let wanted = (tensors.to_owned(), parameters.to_owned());
        assert_eq!(written(&found), wanted, "{}", found.reason);
        assert_eq!(found.certainty, certainty, "{}", found.reason);
        assert!(found.reason.contains(reason), "{}", found.reason);
        let names = Some(vec!["thing".to_owned()]).filter(|_| found.classes == 1);
        let draft = ModelYamlTemplate::new(&network, None, None, names).expect("it fits");
        assert_eq!(draft.inferred().found.parameters, found.parameters);
        loaded_template(&network);
    }
}

#[test]
fn rows_are_read_as_their_exporter_has_them() {
    const RTRBSC: &str = "columns: [left, top, right, bottom, score, class], boxes_are: pixels";
    let suppressed = "NonMaxSuppression";
    #[rustfmt::skip]
    let cases: [(Outputs<'_>, &str, &str, &str); 6] = [
        (&[("output", FLOAT, &[-1, 25200, 6])], "ArgMax", &format!("{RTRBSC}, first_class: 0, rows: 25200, suppressed: false"), "DeepStream-Yolo"),
        (&[("output", FLOAT, &[-1, 7])], suppressed,
         "columns: [ignored, left, top, right, bottom, class, score], boxes_are: pixels, first_class: 0", "behind a suppression"),
        (&[("graph2_flat_predictions", FLOAT, &[-1, 7])], suppressed,
         "columns: [ignored, left, top, right, bottom, score, class], boxes_are: pixels, first_class: 0", "YOLO-NAS"),
        (&[("detections", FLOAT, &[1, 100, 7])], suppressed,
         "columns: [ignored, top, left, bottom, right, score, class], boxes_are: pixels, first_class: 1, rows: 100", "begin with 1"),
        (&[("NMS", FLOAT, &[-1, 1, 200, 7]), ("NMS_1", INT32, &[-1, 1, 1, 1])], "NMS_TRT",
         "columns: [ignored, class, score, left, top, right, bottom], boxes_are: normalized, first_class: 1, rows: 200", "background"),
        // PaddlePaddle's networks have the number of rows beside them.
        (&[("rows", FLOAT, &[-1, 6]), ("num", INT32, &[-1])], suppressed, &format!("{RTRBSC}, first_class: 0"), "behind a suppression"),
    ];
    for (outputs, operator, parameters, reason) in cases {
        let network = export(outputs, operator);
        let found = guess(&network);
        let wanted = (format!("name={}", outputs[0].0), parameters.to_owned());
        assert_eq!(written(&found), wanted, "{}", found.reason);
        assert!(found.reason.contains(reason), "{}", found.reason);
        loaded_template(&network);
    }
    // Without names of classes, these rows may be those of EfficientDet.
    let mut network = export(&[("output", FLOAT, &[1, 100, 6])], suppressed);
    let first_class = |network: &Network| written(&guess(network)).1.contains("first_class: 1");
    assert!(!first_class(&network));
    network.metadata.clear();
    assert!(first_class(&network));
}

#[test]
fn noted_background_is_the_first_label() {
    let outputs: Outputs<'_> = &[
        ("boxes", FLOAT, &[-1, 4]),
        ("labels", INT64, &[-1]),
        ("scores", FLOAT, &[-1]),
    ];
    let mut network = export(outputs, "NonMaxSuppression");
    network.metadata[0].1 = "['__background__', 'person']".to_owned();
    let found = guess(&network);
    assert!(written(&found).1.ends_with("first_class: 0"), "{found:?}");
    assert!(found.reason.contains("background"), "{}", found.reason);
}

#[test]
fn indices_without_boxes_are_refused_with_the_reason() {
    let indices: (&str, Element, &[i64]) = ("selected", INT64, &[-1, 3]);
    let network = export(&[indices], "NonMaxSuppression");
    assert_eq!(infer_layout(&network, None), None);
    assert_eq!(only_indices(&network), Some("selected"));
    let error = ModelYamlTemplate::new(&network, None, None, None).expect_err("no boxes");
    let text = error.to_string();
    let wanted = "output `selected` has only the numbers of the boxes that NonMaxSuppression kept";
    assert!(text.contains(wanted) && text.contains("gathered"), "{text}");
    let boxes: (&str, Element, &[i64]) = ("boxes", FLOAT, &[1, 8400, 4]);
    let with_boxes = export(&[boxes, indices], "NonMaxSuppression");
    assert_eq!(only_indices(&with_boxes), None);
    assert_eq!(only_indices(&export(&[indices], "Relu")), None);
}

/// A run may give degenerate boxes, so that only the metadata decides between corners and centers.
#[test]
fn rows_of_rt_detr_are_centers_by_its_metadata() {
    let mut network = export(&[("output0", FLOAT, &[1, 300, 6])], "Relu");
    network.outputs[0].has_corners = Some(false);
    let (_, corners) = written(&guess(&network));
    let corners_of = "columns: [left, top, right, bottom, score, class], boxes_are: pixels";
    assert!(corners.starts_with(corners_of), "{corners}");
    let head = ("head".to_owned(), "RTDETRDecoder".to_owned());
    network.metadata.push(head);
    let (_, centers) = written(&guess(&network));
    let centers_of =
        "columns: [center_x, center_y, width, height, score, class], boxes_are: normalized";
    assert!(centers.starts_with(centers_of), "{centers}");
}
