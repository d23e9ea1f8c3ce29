// SPDX-License-Identifier: Apache-2.0
//! Lists of labels with rows for the background and for no class, and lists in another number than the classes.

use super::*;

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// The text of a `model.yaml` for `network`, which loads, and the labels in it.
fn drafted(network: &Network, labels: Option<Vec<String>>) -> (String, Vec<String>) {
    let draft = ModelYamlTemplate::new(network, None, None, labels)
        .unwrap_or_else(|error| panic!("{error}"));
    let (text, spec) = loaded(&draft);
    (text, spec.labels)
}

#[test]
fn background_row_is_left_out_where_the_network_has_no_class_for_it() {
    let network = network(640, floats(&[("output0", &[1, 7, 8400])]));
    let three = list(&["person", "N/A 2", "N/A 3"]);
    for given in [
        &["background", "person", "N/A", "N/A"][..],
        &["person", "N/A", "N/A", "__background__"],
    ] {
        let (_, labels) = drafted(&network, Some(list(given)));
        assert_eq!((labels.len(), &labels[0]), (3, &three[0]), "{given:?}");
    }
    let (_, labels) = drafted(&network, Some(list(&["background", "person", "car"])));
    // As many as the classes.
    assert_eq!(labels, ["background", "person", "car"]);
    let error = ModelYamlTemplate::new(&network, None, None, Some(list(&["a", "b", "c", "d"])));
    assert!(matches!(
        error,
        Err(ModelYamlTemplateError::LabelCount { labels: 4, .. })
    ));
}

#[test]
fn labels_of_an_ssd_name_the_place_of_its_background() {
    let ssd = network(
        300,
        floats(&[("scores", &[1, 3000, 3]), ("boxes", &[1, 3000, 4])]),
    );
    for (given, place) in [
        (["???", "person", "car"], "background: first"),
        (["person", "car", "background"], "background: last"),
    ] {
        let (text, labels) = drafted(&ssd, Some(list(&given)));
        assert!(text.contains(place), "{text}");
        assert_eq!(labels, ["person", "car"]);
    }
}

#[test]
fn names_in_another_number_than_the_classes_are_reported() {
    let mut network = network(640, floats(&[("output0", &[1, 6, 8400])]));
    let unused = "the file's metadata names 3 classes (`id2label`), but the output has 2, so those names are not used: give the \
                  2 names with --labels FILE, or write them into model.yaml";
    let lines = |network: &Network| -> Vec<String> {
        let found = crate::lint(network).into_iter();
        found.map(|found| found.text).collect()
    };
    let names = r#"{"0": "a", "1": "b", "2": "c"}"#.to_owned();
    network.metadata = vec![("id2label".to_owned(), names)];
    let (text, labels) = drafted(&network, None);
    assert!(text.contains(unused), "{text}");
    assert_eq!(labels, ["class_0", "class_1"]);
    assert!(lines(&network).iter().any(|line| line == unused));
    network.metadata[0].1 = r#"["background", "person", "car"]"#.to_owned();
    assert_eq!(drafted(&network, None).1, ["person", "car"]);
    assert!(!lines(&network).iter().any(|line| line.contains("metadata")));
}
