// SPDX-License-Identifier: Apache-2.0
//! The background class of an SSD, which its file does not mention.

use jetwatch_detect::graph::Network;

use super::*;

/// An SSD with this number of scores for each of its anchors.
fn ssd(scores: i64) -> Network {
    network(
        300,
        floats(&[("scores", &[1, 3000, scores]), ("boxes", &[1, 3000, 4])]),
    )
}

fn labels(count: usize) -> Vec<String> {
    (0..count).map(|label| format!("thing {label}")).collect()
}

/// Number of classes, and the line of the background in `model.yaml`, which loads.
fn drafted(
    network: &Network,
    known: Option<Vec<String>>,
    background: Option<SsdBackground>,
) -> (usize, String) {
    let drafts = ModelYamlTemplate::candidates(network, None, None, known.as_deref(), background)
        .unwrap_or_else(|error| panic!("{error}"));
    let draft = &drafts[0];
    let (text, _) = loaded(draft);
    let line = text.lines().find(|line| line.contains("background:"));
    let line = line.expect("an SSD has the key").trim().to_owned();
    (draft.labels().len(), line)
}

#[test]
fn background_is_first_unless_labels_take_every_score() {
    let (first, none) = ("background: first   # GUESS", "background: none   # GUESS");
    assert_eq!(drafted(&ssd(21), None, None), (20, first.to_owned()));
    let twenty = Some(labels(20));
    assert_eq!(drafted(&ssd(21), twenty, None), (20, first.to_owned()));
    let all = Some(labels(21));
    assert_eq!(drafted(&ssd(21), all, None), (21, none.to_owned()));
    assert_eq!(drafted(&ssd(1), None, None), (1, none.to_owned()));
    let mut noted = ssd(2);
    let names = "['person', 'car']".to_owned();
    noted.metadata.push(("names".to_owned(), names));
    assert_eq!(drafted(&noted, None, None), (2, none.to_owned()));
}

#[test]
fn background_is_where_the_caller_says() {
    let cases = [
        (SsdBackground::None, 21, "background: none"),
        (SsdBackground::First, 20, "background: first"),
        (SsdBackground::Last, 20, "background: last"),
    ];
    for (background, classes, line) in cases {
        let found = drafted(&ssd(21), None, Some(background));
        assert_eq!(found, (classes, line.to_owned()));
    }
    let mut noted = ssd(3);
    let names = "['person', 'car', 'bus']".to_owned();
    noted.metadata.push(("names".to_owned(), names));
    // The names are of another network then.
    let found = drafted(&noted, None, Some(SsdBackground::Last));
    assert_eq!(found, (2, "background: last".to_owned()));
}

#[test]
fn background_that_cannot_be_is_an_error() {
    let error = |network: &Network, known: Option<Vec<String>>, background| {
        ModelYamlTemplate::candidates(network, None, None, known.as_deref(), Some(background))
            .expect_err("it cannot be")
            .to_string()
    };
    let yolo = network(640, floats(&[("output0", &[1, 84, 8400])]));
    assert!(
        error(&yolo, None, SsdBackground::None)
            .starts_with("--background is given, but the layout is yolov8"),
    );
    let alone = error(&ssd(1), None, SsdBackground::First);
    assert!(
        alone.starts_with("found --background first, expected none"),
        "{alone}"
    );
    let counted = error(&ssd(21), Some(labels(20)), SsdBackground::None);
    assert!(
        counted.contains("20 labels were given, but the network has 21 classes"),
        "{counted}"
    );
}
