// SPDX-License-Identifier: Apache-2.0
//! The annotations of a dataset in COCO's format, with categories that may merge several labels of the scene.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use jetwatch_types::GroundTruthBox;

use super::{DatasetError, DatasetSettings, LABELS, LabelMerge};

/// Names of the categories and the labels of the scene that are in them.
pub(super) struct Categories {
    names: Vec<String>,
    /// Category number, from 1 as in COCO, by label.
    by_label: BTreeMap<&'static str, usize>,
}

impl Categories {
    /// One category per label, except for the labels that `merges` gives another name.
    pub(super) fn new(merges: &[LabelMerge]) -> Result<Self, DatasetError> {
        let mut names: Vec<String> = Vec::new();
        let mut by_label = BTreeMap::new();
        for label in LABELS {
            let mut into = merges.iter().filter(|merge| merge.labels.contains(&label));
            let name = into
                .next()
                .map_or_else(|| label.to_owned(), |merge| merge.name.clone());
            if let Some(second) = into.next() {
                return Err(DatasetError::MergedTwice {
                    label,
                    first: name,
                    second: second.name.clone(),
                });
            }
            let place = names
                .iter()
                .position(|known| *known == name)
                .unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                });
            by_label.insert(label, place + 1);
        }
        Ok(Self { names, by_label })
    }
}

/// The document in COCO's format, and the number of its boxes that are not ignored.
pub(super) fn describe(
    settings: &DatasetSettings,
    categories: &Categories,
    labeled: Vec<(String, Vec<GroundTruthBox>)>,
) -> (Value, usize) {
    let set = &settings.generator;
    let mut images = Vec::with_capacity(labeled.len());
    let mut annotations = Vec::new();
    let mut counted = 0;
    for (index, (name, truth)) in labeled.into_iter().enumerate() {
        let image_id = index + 1;
        images.push(json!({
            "id": image_id, "file_name": name, "width": set.size.width, "height": set.size.height
        }));
        for object in &truth {
            let [left, top, right, bottom] = object.xyxy;
            let (width, height) = (right - left, bottom - top);
            let ignored =
                object.visible < settings.min_visible || width.min(height) < settings.min_side;
            counted += usize::from(!ignored);
            annotations.push(json!({
                "id": annotations.len() + 1,
                "image_id": image_id,
                "category_id": categories.by_label[object.label],
                "bbox": [left, top, width, height],
                "area": width * height,
                "iscrowd": u8::from(ignored),
                "visible": object.visible,
            }));
        }
    }
    let names: Vec<Value> = categories
        .names
        .iter()
        .enumerate()
        .map(|(index, name)| json!({"id": index + 1, "name": name}))
        .collect();
    let description = format!(
        "jetwatch street scenes, seeds {} to {}",
        set.first_seed,
        set.first_seed + settings.scenes - 1
    );
    let document = json!({
        "info": {"description": description},
        "images": images,
        "annotations": annotations,
        "categories": names,
    });
    (document, counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(name: &str, labels: &[&'static str]) -> LabelMerge {
        LabelMerge {
            name: name.to_owned(),
            labels: labels.to_vec(),
        }
    }

    #[test]
    fn merged_labels_share_one_category() {
        let merges = [
            merge("vehicle", &["car", "bus", "truck"]),
            merge("two-wheeler", &["bicycle", "motorcycle"]),
        ];
        let categories = Categories::new(&merges).expect("they differ");
        assert_eq!(categories.names, ["person", "two-wheeler", "vehicle"]);
        assert_eq!(categories.by_label["bus"], 3);
        assert_eq!(
            categories.by_label["bicycle"],
            categories.by_label["motorcycle"]
        );
        let both = [merges[0].clone(), merge("big", &["truck"])];
        let error = Categories::new(&both)
            .err()
            .expect("truck is in two")
            .to_string();
        assert!(error.contains("`truck`"), "{error}");
    }
}
