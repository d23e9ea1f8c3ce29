// SPDX-License-Identifier: Apache-2.0
//! Frames per second of a benchmark, and what `meta` states about its work.

use serde::Deserialize;
use serde_json::Value;

use jetwatch_types::Rate;

use super::super::summary::{Throughput, Workload};
use super::TimedRange;
use super::batches::Level;
use crate::report::run_tables::MS;

/// The level of jetwatch's detectors.
const DETECT: &str = "jetwatch/detect";

/// Frames per second: what the file states, else of the batches of its first level that has frames.
pub(super) fn throughput(
    document: &Value,
    levels: &[Level],
    ranges: &[TimedRange],
) -> Option<Throughput> {
    let speed = &document["speed"];
    let number = |name: &str| speed[name].as_f64();
    let workers = document["run"]["workers"].as_f64().unwrap_or(1.0);
    let detect = levels.iter().find(|level| level.path == DETECT);
    let level = detect.or_else(|| levels.iter().find(|level| !level.batches.is_empty()));
    let estimated = level.and_then(|level| level.rate(workers));
    let stated = number("fps_all_processes").or(number("fps"));
    let fps = stated.or_else(|| level?.fps(workers))?;
    let error = number("fps_all_processes_standard_error").or(number("fps_standard_error"));
    let blocks = speed["fps_blocks"]
        .as_u64()
        .and_then(|blocks| usize::try_from(blocks).ok());
    let rate = Rate::stated(fps, error, blocks)
        .or_else(|| estimated.map(|rate| rate.scaled(fps / rate.per_second)));
    let of_level = ranges.iter().find(|range| range.path == DETECT);
    let gpu = number("gpu_ms_per_frame").or_else(|| of_level?.gpu_per_item);
    Some(Throughput {
        fps,
        rate,
        gpu_ns: gpu.map(|ms| ms * MS),
        cpu_ns: number("cpu_ms_per_frame").map(|ms| ms * MS),
        joules: number("joules_per_frame"),
        latency: Deserialize::deserialize(&speed["latency"]).unwrap_or_default(),
        occupancy: Deserialize::deserialize(&speed["occupancy"]).unwrap_or_default(),
    })
}

/// What `meta` states about the work.
pub(super) fn workload(meta: &Value, ranges: &[TimedRange]) -> Workload {
    let text = |name: &str| match &meta[name] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    };
    let settings = meta["settings"].as_array().into_iter().flatten();
    let mut settings = settings.filter_map(|pair| pair.as_str()?.split_once('='));
    let varied = meta["varied"].as_object().into_iter().flatten();
    let is_size = |key: &str| ["batch_size", "detector.batch_size"].contains(&key);
    let set = settings.find(|(key, _)| is_size(key));
    let set = set.and_then(|(_, value)| value.parse().ok());
    let detect = ranges.iter().find(|range| range.path == DETECT);
    let largest = detect
        .and_then(|range| range.most_items)
        .map(|items| items as u64);
    Workload {
        batch_size: meta["batch_size"].as_u64().or(set).or(largest),
        config: text("config_hash").or_else(|| text("measured_by")),
        base: text("base_hash"),
        varied: varied
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::batches;
    use super::*;

    #[test]
    fn stated_speed_has_precedence_over_batches() {
        let mut detect = json!({});
        for at in 0..6 {
            detect[format!("batch_{at}")] = json!({"cpu_time": 20.0, "total_items": 2});
        }
        let mut document = json!({"data": {"jetwatch": {"detect": detect}}, "run": {"workers": 2}});
        let found = |document: &Value| {
            let levels = batches::levels(&document["data"], &Value::Null);
            throughput(document, &levels, &[]).expect("frames")
        };
        // Two workers, each with two frames in 20 ms.
        let estimated = found(&document);
        assert!((estimated.fps - 200.0).abs() < 1e-9);
        assert!(
            estimated
                .rate
                .is_some_and(|rate| rate.standard_error < 1e-9)
        );
        document["speed"] = json!({"fps": 150.0, "fps_standard_error": 3.0, "fps_blocks": 6, "gpu_ms_per_frame": 0.5});
        let stated = found(&document);
        assert_eq!((stated.fps, stated.gpu_ns), (150.0, Some(0.5e6)));
        assert_eq!(
            stated.rate.map(|rate| (rate.standard_error, rate.blocks)),
            Some((3.0, 6))
        );
        // Of several processes it is their sum.
        document["speed"] = json!({"fps": 75.0, "fps_all_processes": 150.0});
        assert_eq!(found(&document).fps, 150.0);
        assert_eq!(throughput(&Value::Null, &[], &[]), None);
    }

    #[test]
    fn batch_size_is_what_was_set_or_seen() {
        let of = |meta: &Value, most_items: Option<f64>| {
            let range = TimedRange {
                path: DETECT.to_owned(),
                most_items,
                ..TimedRange::default()
            };
            workload(meta, &[range]).batch_size
        };
        assert_eq!(of(&json!({"batch_size": 3}), Some(8.0)), Some(3));
        assert_eq!(
            of(
                &json!({"settings": ["a=b", "detector.batch_size=4"]}),
                Some(8.0)
            ),
            Some(4)
        );
        assert_eq!(of(&json!({}), Some(8.0)), Some(8));
        let meta = json!({"config": null, "varied": {"workers": "2"}, "base_hash": "x", "settings": ["workers=2"]});
        let found = workload(&meta, &[]);
        assert_eq!(found.varied.get("workers").map(String::as_str), Some("2"));
        assert_eq!(found.base.as_deref(), Some("x"));
    }
}
