// SPDX-License-Identifier: Apache-2.0
//! Guesses for classifiers, which their shapes do not distinguish.

use jetwatch_detect::model::ColorOrder;
use jetwatch_types::Placement;

use super::*;

#[test]
fn a_classifier_is_recognized_by_its_last_operator() {
    let layouts = |network: &Network| -> Vec<&str> {
        let guesses = candidate_layouts(network, None);
        guesses.iter().map(|guess| guess.layout).collect()
    };
    for (made_by, wanted) in [
        ("Softmax", &["softmax", "sigmoid"][..]),
        ("Sigmoid", &["sigmoid", "softmax"]),
        ("Gemm", &["logits"]),
        ("LogSoftmax", &["logits"]),
        ("Mul", &["softmax", "logits", "sigmoid"]),
    ] {
        assert_eq!(layouts(&classifier(&[1, 7], made_by)), wanted, "{made_by}");
        let map = classifier(&[1, 7, 1, 1], made_by);
        assert_eq!(layouts(&map), wanted, "{made_by} of one pixel");
    }
    // A single number is no probability and no choice.
    assert_eq!(layouts(&classifier(&[1, 1], "Gemm")), [""; 0]);
    let rows = with_operator(classifier(&[-1, 7], "Concat"), "NonMaxSuppression");
    assert_eq!(layouts(&rows), ["finished"], "rows of boxes");
    // The number of labels is dynamic in the file.
    let open = classifier(&[1, -1], "Softmax");
    let error = ModelYamlTemplate::new(&open, None, None, None).expect_err("the number is unknown");
    assert!(
        matches!(error, ModelYamlTemplateError::NoLabels { .. }),
        "{error}"
    );
    let labels = Some(vec!["a".to_owned(), "b".to_owned()]);
    ModelYamlTemplate::new(&open, None, None, labels).expect("the caller gives it");
}

#[test]
fn ultralytics_classifiers_use_training_preprocessing() {
    let mut network = classifier(&[1, 3], "Softmax");
    let draft = ModelYamlTemplate::new(&network, None, None, None).expect("a classifier");
    let (text, spec) = loaded(&draft);
    for wanted in [
        "# GUESS: color, mean, scale and letterbox",
        "name it in `secondary`",
        "The file has no class names",
    ] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    let input = &spec.input;
    let found = (input.name.as_str(), input.color, input.placement);
    assert_eq!(found, ("images", ColorOrder::Rgb, Placement::Stretch));
    assert_eq!(input.mean, [123.675, 116.28, 103.53]);
    assert_eq!(spec.score_threshold, 0.5);
    assert_eq!(spec.labels, ["class_0", "class_1", "class_2"]);
    network.metadata = vec![("task".to_owned(), "classify".to_owned())];
    let spec = loaded_template(&network);
    assert_eq!(
        (spec.input.mean, spec.input.scale),
        ([0.0; 3], [0.003_921_569; 3])
    );
}

#[test]
fn images_in_another_layout_are_reported() {
    let mut network = classifier(&[1, 3], "Softmax");
    network.inputs = vec![tensor("x", Element::FLOAT, &[1, 224, 224, 3])];
    let error = ModelYamlTemplate::new(&network, None, None, None).expect_err("colors last");
    assert!(error.to_string().contains("--inputs-as-nchw"), "{error}");
    network.inputs = vec![tensor("x", Element::FLOAT, &[1, 1, 28, 28])];
    let error = ModelYamlTemplate::new(&network, None, None, None).expect_err("gray");
    assert!(error.to_string().contains("three planes"), "{error}");
}

#[test]
fn a_vector_of_a_high_input_is_an_embedding() {
    let layouts = |network: &Network| -> Vec<&str> {
        let guesses = candidate_layouts(network, None);
        guesses.iter().map(|guess| guess.layout).collect()
    };
    assert_eq!(layouts(&reid(&[1, 512], "Gemm")), ["embedding", "logits"]);
    assert_eq!(layouts(&reid(&[1, 512], "LpNormalization"))[0], "embedding");
    // A classifier of persons: few labels, or scores.
    assert_eq!(layouts(&reid(&[1, 26], "Gemm")), ["logits"]);
    assert_eq!(layouts(&reid(&[1, 512], "Sigmoid"))[0], "sigmoid");
    // The input of a classifier: an embedding is possible only.
    assert_eq!(
        layouts(&classifier(&[1, 1000], "Gemm")),
        ["logits", "embedding"]
    );
    let spec = loaded_template(&reid(&[1, 512], "Gemm"));
    assert_eq!(spec.labels, [""; 0]);
    let labels = Some(vec!["a".to_owned()]);
    let error = ModelYamlTemplate::new(&reid(&[1, 512], "Gemm"), None, None, labels);
    let error = error.expect_err("it has no classes").to_string();
    assert!(error.contains("--layout"), "{error}");
}
