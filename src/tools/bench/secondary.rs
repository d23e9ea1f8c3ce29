// SPDX-License-Identifier: Apache-2.0
//! What the runs of a benchmark say about each secondary network: crops per second, drops, fill and waits of its batches.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// One secondary network over one run, or its means over several. Counts are those of the whole run, warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SecondaryResult {
    /// Its name.
    pub name: String,
    /// Numbers by their names: see [`SecondaryResult::of_run`].
    #[serde(flatten)]
    pub numbers: BTreeMap<&'static str, f64>,
}

impl SecondaryResult {
    /// The networks of a `benchmark.json`.
    pub(crate) fn of_run(document: &Value) -> Vec<Self> {
        let run = &document["run"];
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let frames = number(&run["frames"]) + number(&run["warmup_frames"]);
        let fps = number(&document["speed"]["fps"]);
        let networks = run["secondary"].as_array().into_iter().flatten();
        let results = networks.filter_map(|network| {
            let get = |key: &str| number(&network[key]);
            let (crops, dropped) = (get("crops"), get("dropped_crops"));
            let per_frame = crops / frames.max(1.0);
            let percent = |part: f64, whole: f64| 100.0 * part / whole.max(1.0);
            let numbers = [
                // Crops inferred for each frame, times frames per second.
                ("crops_per_s", per_frame * fps),
                ("crops_per_frame", per_frame),
                // Crops that found its queue full, and these as a share of all.
                ("dropped_crops", dropped),
                ("dropped_percent", percent(dropped, crops + dropped)),
                ("batch_size", get("batch_size")),
                ("mean_batch", get("mean_batch")),
                (
                    "fill_percent",
                    percent(get("mean_batch"), get("batch_size")),
                ),
                // From the cut of a crop to the start of its batch.
                ("wait_ms", get("mean_wait_ms")),
                ("infer_ms", get("mean_infer_ms")),
                // For all objects of a frame.
                ("suggested_batch_size", get("suggested_batch_size")),
            ];
            let name = network["name"].as_str()?.to_owned();
            Some(Self {
                name,
                numbers: numbers.into(),
            })
        });
        results.collect()
    }

    /// The means over runs, by network.
    pub(crate) fn mean<'r>(runs: impl Iterator<Item = &'r [Self]>) -> Vec<Self> {
        let mut all: BTreeMap<&str, Vec<&Self>> = BTreeMap::new();
        for result in runs.flatten() {
            all.entry(&result.name).or_default().push(result);
        }
        let means = all.into_iter().map(|(name, results)| {
            let mean =
                |key| results.iter().map(|it| it.numbers[key]).sum::<f64>() / results.len() as f64;
            let keys = results[0].numbers.keys();
            let numbers = keys.map(|key| (*key, mean(key))).collect();
            Self {
                name: name.to_owned(),
                numbers,
            }
        });
        means.collect()
    }
}

/// The networks of concurrent processes: their crops are added, other numbers are means.
pub(super) fn secondary_results<'d>(
    documents: impl Iterator<Item = &'d Value>,
) -> Vec<SecondaryResult> {
    let all: Vec<Vec<SecondaryResult>> = documents.map(SecondaryResult::of_run).collect();
    let processes = all.len() as f64;
    let mut joined = SecondaryResult::mean(all.iter().map(Vec::as_slice));
    for result in &mut joined {
        for (key, number) in &mut result.numbers {
            if ["crops_per_s", "dropped_crops"].contains(key) {
                *number *= processes;
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(crops: u64, dropped: u64) -> Value {
        json!({"speed": {"fps": 20.0}, "run": {"frames": 90, "warmup_frames": 10, "secondary": [{
            "name": "n", "crops": crops, "dropped_crops": dropped, "batch_size": 8, "mean_batch": 6.0, "mean_wait_ms": 2.5,
            "mean_infer_ms": 4.0, "suggested_batch_size": 7}]}})
    }

    #[test]
    fn crops_drops_and_fill_are_computed() {
        let found = SecondaryResult::of_run(&document(300, 100));
        let network = &found[0];
        assert_eq!(
            (
                network.numbers["crops_per_frame"],
                network.numbers["crops_per_s"]
            ),
            (3.0, 60.0)
        );
        assert_eq!(
            (
                network.numbers["dropped_crops"],
                network.numbers["dropped_percent"]
            ),
            (100.0, 25.0)
        );
        assert_eq!(
            (network.numbers["fill_percent"], network.numbers["wait_ms"]),
            (75.0, 2.5)
        );
        assert_eq!(SecondaryResult::of_run(&json!({})), []);
    }

    #[test]
    fn crops_of_processes_are_added_and_those_of_rounds_averaged() {
        let documents = [document(300, 100), document(100, 0)];
        let joined = secondary_results(documents.iter());
        assert_eq!(
            (
                joined[0].numbers["crops_per_s"],
                joined[0].numbers["dropped_crops"]
            ),
            (80.0, 100.0)
        );
        let runs = documents.each_ref().map(SecondaryResult::of_run);
        let mean = SecondaryResult::mean(runs.iter().map(Vec::as_slice));
        assert_eq!(
            (
                mean[0].numbers["crops_per_s"],
                mean[0].numbers["dropped_crops"]
            ),
            (40.0, 50.0)
        );
    }
}
