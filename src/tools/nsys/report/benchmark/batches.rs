// SPDX-License-Identifier: Apache-2.0
//! The batches of a benchmark by number: the times of single instances, which means alone do not have.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use jetwatch_types::Rate;

/// The batches of one level without its warm-up.
#[derive(Debug, Default)]
pub(super) struct Level {
    /// Path of the level, such as `jetwatch/detect`.
    pub(super) path: String,
    /// CPU times of its ranges in ms, by path below the level; empty for the batch itself.
    pub(super) times: BTreeMap<String, Vec<f64>>,
    /// Elapsed ms and frames of each batch.
    pub(super) batches: Vec<(f64, f64)>,
}

/// Prefix of a batch's key; its number follows.
const BATCH: &str = "batch_";

/// All levels in `data`, with the warm-up that `meta` states removed.
pub(super) fn levels(data: &Value, meta: &Value) -> Vec<Level> {
    let mut found = Vec::new();
    if let Some(data) = data.as_object() {
        find(data, "", meta, &mut found);
    }
    found
}

fn find(tree: &Map<String, Value>, path: &str, meta: &Value, found: &mut Vec<Level>) {
    let mut batches: Vec<(u64, &Map<String, Value>)> = Vec::new();
    for (name, value) in tree {
        let Some(inner) = value.as_object() else {
            continue;
        };
        if let Some(Ok(number)) = name.strip_prefix(BATCH).map(str::parse) {
            batches.push((number, inner));
            continue;
        }
        find(inner, &below(path, name), meta, found);
    }
    if batches.is_empty() {
        return;
    }
    batches.sort_by_key(|(number, _)| *number);
    let (front, back) = warmup(path, tree, meta, batches.len());
    let end = batches.len().saturating_sub(back);
    let mut level = Level {
        path: path.to_owned(),
        ..Level::default()
    };
    for (_, batch) in batches.get(front..end).unwrap_or_default() {
        add(batch, "", &mut level.times);
        if let (Some(ms), Some(items)) = (number(batch, "cpu_time"), number(batch, "total_items")) {
            level.batches.push((ms, items));
        }
    }
    found.push(level);
}

/// The path of what is named so below a path.
pub(super) fn below(path: &str, name: &str) -> String {
    let separator = if path.is_empty() { "" } else { "/" };
    format!("{path}{separator}{name}")
}

fn number(tree: &Map<String, Value>, name: &str) -> Option<f64> {
    tree.get(name).and_then(Value::as_f64)
}

fn add(tree: &Map<String, Value>, path: &str, times: &mut BTreeMap<String, Vec<f64>>) {
    if let Some(ms) = number(tree, "cpu_time") {
        times.entry(path.to_owned()).or_default().push(ms);
    }
    for (name, value) in tree {
        if let Some(inner) = value.as_object() {
            add(inner, &below(path, name), times);
        }
    }
}

/// Batches of the warm-up of a level: at the front and at the back.
fn warmup(path: &str, level: &Map<String, Value>, meta: &Value, batches: usize) -> (usize, usize) {
    let front = meta["warmup_batches"][path].as_u64();
    let front = front.or(meta["args"]["warmup_batches"].as_u64());
    let Some(front) = front.and_then(|front| usize::try_from(front).ok()) else {
        return (0, 0);
    };
    // Levels of single frames drop as many frames as the detector's last batches have. The number that is left is known.
    let kept = number(level, "total_items_minus_warmup").zip(number(level, "total_items"));
    let back = match kept {
        Some((kept, all)) if all as usize == batches => {
            batches.saturating_sub(front + kept as usize)
        }
        _ => front,
    };
    (front, back)
}

impl Level {
    /// Frames per second of `workers` that run these batches one after the other, with its error; `None` with fewer than three
    /// batches.
    pub(super) fn rate(&self, workers: f64) -> Option<Rate> {
        let mut now = 0.0;
        // The first entry is the begin.
        let mut ends = vec![(0.0, 0.0)];
        for (ms, items) in &self.batches {
            now += ms / 1e3;
            ends.push((now, *items));
        }
        if self.batches.len() < 3 {
            return None;
        }
        Some(Rate::from_ends(&mut ends)?.scaled(workers))
    }

    /// Frames per second without an error.
    pub(super) fn fps(&self, workers: f64) -> Option<f64> {
        let (ms, items) =
            (self.batches.iter()).fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        (ms > 0.0 && items > 0.0).then(|| items * 1e3 * workers / ms)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn levels_of(document: &Value) -> Vec<Level> {
        levels(&document["data"], &document["meta"])
    }

    #[test]
    fn warmup_is_removed_from_numbered_batches() {
        let batch =
            |ms: f64| json!({"cpu_time": ms, "total_items": 2, "infer": {"cpu_time": ms - 1.0}});
        let document = json!({
            "data": {"jetwatch": {"detect": {
                "batch_10": batch(90.0), "batch_9": batch(40.0), "batch_8": batch(30.0), "batch_7": batch(20.0), "batch_0": batch(70.0)}}},
            "meta": {"warmup_batches": {"jetwatch/detect": 1}},
        });
        let found = levels_of(&document);
        assert_eq!(
            (found.len(), found[0].path.as_str()),
            (1, "jetwatch/detect")
        );
        assert_eq!(found[0].times[""], [20.0, 30.0, 40.0]);
        assert_eq!(found[0].times["infer"], [19.0, 29.0, 39.0]);
        // Six frames in 90 ms, by two workers.
        let rate = found[0].rate(2.0).expect("three batches");
        assert!((rate.per_second - 2.0 * 6.0 / 0.09).abs() < 1e-9 && rate.blocks == 3);
        assert_eq!(found[0].fps(1.0), Some(6.0 * 1e3 / 90.0));
        assert!(levels_of(&json!({"data": {}})).is_empty());
    }

    #[test]
    fn levels_of_frames_drop_what_is_left_over() {
        let frame = json!({"cpu_time": 1.0, "total_items": 1});
        let mut track = json!({"total_items": 6, "total_items_minus_warmup": 1});
        for at in 0..6 {
            track[format!("batch_{at}")] = frame.clone();
        }
        let document = json!({"data": {"track": track}, "meta": {"warmup_batches": {"track": 3}}});
        assert_eq!(levels_of(&document)[0].batches.len(), 1);
    }
}
