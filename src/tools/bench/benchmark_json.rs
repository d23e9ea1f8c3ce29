// SPDX-License-Identifier: Apache-2.0
//! `benchmark.json` in the layout of CV-CUDA's benchmark script, with the keys of its older and of its newer versions.
//!
//! `data` nests the ranges of every batch. `mean_data` (older) and `data_stats_minus_warmup` (newer) have their statistics per
//! level without the warm-up. `meta` has the conditions of the measurement. Times are in ms with four decimals. Additions: `ranges`
//! has 99th percentiles, statistics with the warm-up, and throughput; every leaf has `busy_time`, the CPU time of its thread,
//! next to `cpu_time`, the elapsed time.
//!
//! The keys of the GPU's times are absent where no stage ran on a GPU. They are not null: the script adds up whatever is there.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};

use jetwatch_telemetry::Stage;

use super::{Batch, LevelStats, Statistics, Times, TraceStats};

/// Name of the root range.
pub(crate) const ROOT: &str = "jetwatch";

/// The whole document. `meta` is an object; the keys that the layout requires are added to it.
pub(crate) fn document(stats: &TraceStats, meta: Value) -> Value {
    let timed = stats.is_timed_on_gpu();
    let mut levels = Map::new();
    let (mut means, mut statistics) = (Map::new(), Map::new());
    let (mut totals, mut warmups) = (Map::new(), Map::new());
    for run in &stats.levels {
        let prefix = format!("{ROOT}/{}", run.level.name());
        levels.insert(run.level.name().to_owned(), level(run, timed));
        // The union of the trees of all batches; the statistics of a number are over the batches that have it.
        let batches = run.without_warmup().iter();
        let trees: Vec<Value> = batches.map(|it| nested(it, timed).into()).collect();
        let described = describe(&trees.iter().collect::<Vec<_>>());
        means.insert(prefix.clone(), means_of(&described));
        statistics.insert(prefix.clone(), described);
        totals.insert(prefix.clone(), run.batches.len().into());
        warmups.insert(prefix, run.dropped_front.into());
    }
    levels.extend(root_range(stats));
    let mut meta = match meta {
        Value::Object(meta) => meta,
        other => Map::from_iter([("about".to_owned(), other)]),
    };
    meta.insert("obj_name".to_owned(), ROOT.into());
    meta.insert("total_batches".to_owned(), totals.into());
    meta.insert("warmup_batches".to_owned(), warmups.into());
    json!({
        "data": { ROOT: levels },
        "mean_data": means,
        "data_stats_minus_warmup": statistics,
        "meta": meta,
    })
}

/// Values of the root range: from the start of the first batch to the end of the last; its items are those of the pipeline's last level.
fn root_range(stats: &TraceStats) -> Map<String, Value> {
    let ended = stats.batches().map(Batch::ended).max().unwrap_or_default();
    let last = stats.last_level();
    let times = Times {
        items: last.map_or(0, |run| sum(run.batches.iter()).items),
        wall: ended.saturating_sub(stats.began()),
        ..sum(stats.batches())
    };
    leaf(&times, stats.is_timed_on_gpu())
}

/// One level: its batches by number, and their sums.
fn level(run: &LevelStats, timed: bool) -> Value {
    let (all, measured) = (sum(run.batches.iter()), sum(run.without_warmup().iter()));
    let mut level = leaf(&all, timed);
    let mut add = |key: &str, value: Value| level.insert(key.to_owned(), value);
    let mut add_times = |name: &str, time: Duration| {
        let of_item = per_item(time, measured.items);
        add(&format!("{name}_minus_warmup"), ms(time));
        add(&format!("{name}_minus_warmup_per_item"), of_item.clone());
        // The name in the documentation of CV-CUDA, where its script writes the one above.
        add(&format!("{name}_per_item_minus_warmup"), of_item);
    };
    add_times("cpu_time", measured.wall);
    if timed {
        add_times("gpu_time", measured.gpu);
    }
    add("total_items_minus_warmup", measured.items.into());
    add("total_items_warmup", (all.items - measured.items).into());
    for (number, batch) in run.batches.iter().enumerate() {
        add(&format!("batch_{number}"), nested(batch, timed).into());
    }
    level.into()
}

/// Sums over batches; that of the GPU's time from those in which it was timed.
fn sum<'b>(batches: impl Iterator<Item = &'b Batch> + Clone) -> Times {
    let mut sum = Times::default();
    batches.clone().for_each(|batch| sum.add(batch.times));
    let network = Stage::Infer as usize;
    let runs = batches
        .clone()
        .filter(|batch| batch.stages.contains_key(&network));
    let timed = batches.filter(|batch| !batch.times.gpu.is_zero()).count();
    if timed > 0 {
        let runs = runs.count().max(timed);
        sum.gpu = sum.gpu.mul_f64(runs as f64 / timed as f64);
    }
    sum
}

/// A batch with its stages; work on the GPU is inside the range of the network.
fn nested(batch: &Batch, timed: bool) -> Map<String, Value> {
    // Of a recorded graph only one run in some is timed; zeros would make the mean too small.
    let timed = timed && !batch.times.gpu.is_zero();
    let mut tree = leaf(&batch.times, timed);
    let (gpu, cpu): (Vec<Stage>, Vec<Stage>) =
        Stage::ALL.into_iter().partition(|stage| stage.is_on_gpu());
    let times = |stage: &Stage| batch.stages.get(&(*stage as usize));
    for stage in &cpu {
        let Some(found) = times(stage) else { continue };
        let mut range = leaf(found, timed);
        if *stage == Stage::Infer {
            let inside = gpu.iter().filter_map(|stage| Some((stage, times(stage)?)));
            range.extend(
                inside.map(|(stage, times)| (stage.name().to_owned(), leaf(times, timed).into())),
            );
        }
        tree.insert(stage.name().to_owned(), range.into());
    }
    tree
}

/// The times of a range; `timed`: also those of the GPU.
fn leaf(times: &Times, timed: bool) -> Map<String, Value> {
    let mut pairs = vec![
        ("cpu_time", ms(times.wall)),
        ("busy_time", ms(times.busy)),
        ("cpu_time_per_item", per_item(times.wall, times.items)),
        ("total_items", times.items.into()),
    ];
    if timed {
        pairs.push(("gpu_time", ms(times.gpu)));
        pairs.push(("gpu_time_per_item", per_item(times.gpu, times.items)));
    }
    let pairs = pairs.into_iter();
    pairs.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn describe(trees: &[&Value]) -> Value {
    let trees_with_keys = trees.iter().filter_map(|tree| tree.as_object());
    let keys: BTreeSet<&String> = trees_with_keys.flat_map(Map::keys).collect();
    let mut union = Map::new();
    for key in keys {
        let values: Vec<&Value> = trees.iter().filter_map(|tree| tree.get(key)).collect();
        let numbers: Vec<f64> = values.iter().filter_map(|value| value.as_f64()).collect();
        let described = match Statistics::from_values(&numbers) {
            Some(statistics) => {
                let mut described = fields(&statistics);
                if let Some(throughput) = throughput(key, &statistics) {
                    described.insert("throughput".to_owned(), throughput);
                }
                described.into()
            }
            None => describe(&values),
        };
        union.insert(key.clone(), described);
    }
    union.into()
}

/// Statistics as the newer versions write them; `total_items` counts the numbers.
fn fields(statistics: &Statistics) -> Map<String, Value> {
    let numbers = json!(statistics);
    let numbers = numbers.as_object().into_iter().flatten();
    let named = numbers.map(|(key, value)| match (key.as_str(), value.as_f64()) {
        ("count", _) | (_, None) => ("total_items".to_owned(), value.clone()),
        (_, Some(number)) => (key.clone(), round(number)),
    });
    named.collect()
}

/// A time as batches or frames per second; the minimum of the time is the maximum of the rate.
fn throughput(key: &str, times: &Statistics) -> Option<Value> {
    let unit = match key {
        "cpu_time" | "gpu_time" => "batches_per_second",
        "cpu_time_per_item" | "gpu_time_per_item" => "frames_per_second",
        _ => return None,
    };
    let rate = |ms: f64| round(if ms > 0.0 { 1e3 / ms } else { 0.0 });
    Some(json!({
        "multiplier": 1,
        "unit": unit,
        "min": rate(times.max),
        "max": rate(times.min),
        "mean": rate(times.mean),
        "median": rate(times.median),
        "percentile_68_range": [rate(times.percentile_84), rate(times.percentile_16)],
        "percentile_95": rate(times.percentile_95),
    }))
}

/// The same tree with the means alone.
fn means_of(described: &Value) -> Value {
    let Value::Object(tree) = described else {
        return described.clone();
    };
    if let Some(mean) = tree.get("mean") {
        return mean.clone();
    }
    let means = tree
        .iter()
        .map(|(key, value)| (key.clone(), means_of(value)));
    Value::Object(means.collect())
}

fn ms(time: Duration) -> Value {
    round(time.as_secs_f64() * 1e3)
}

fn per_item(time: Duration, items: usize) -> Value {
    round(match items {
        0 => 0.0,
        items => time.as_secs_f64() * 1e3 / items as f64,
    })
}

fn round(number: f64) -> Value {
    ((number * 1e4).round() / 1e4).into()
}
