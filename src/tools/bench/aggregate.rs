// SPDX-License-Identifier: Apache-2.0
//! `benchmark_mean.json`: the mean of each number over several concurrent processes, and their frames per second together.

use serde_json::{Map, Value, json};

/// Averages the `benchmark.json` of each process. The mean of a range that some processes lack is over the others.
pub(crate) fn mean(documents: &[Value], meta: Value) -> Value {
    let part = |name: &str| average(&documents.iter().map(|each| &each[name]).collect::<Vec<_>>());
    let data = part("data");
    json!({
        // Older versions of CV-CUDA's script use the first name.
        "mean_all_batches": data,
        "mean_data": part("mean_data"),
        "data_mean_all_procs": data,
        "data_stats_minus_warmup_mean_all_procs": part("data_stats_minus_warmup"),
        "speed": speeds(documents),
        "meta": meta,
    })
}

/// Speeds of all processes: the mean of each number, and sums where processes add up.
pub(super) fn speeds(documents: &[Value]) -> Value {
    let each: Vec<&Value> = documents.iter().map(|each| &each["speed"]).collect();
    let numbers =
        |key: &str| -> Option<Vec<f64>> { each.iter().map(|speed| speed[key].as_f64()).collect() };
    let sum = |key: &str| numbers(key).map(|numbers| numbers.iter().sum::<f64>());
    // The processes are measured independently of each other.
    let errors = numbers("fps_standard_error");
    let squares = errors.map(|errors| errors.iter().map(|e| e * e).sum::<f64>());
    // None where one of them is unknown.
    let blocks = each.iter().map(|speed| speed["fps_blocks"].as_u64());
    let mut speed = json!({
        "processes": each.len(),
        "fps_all_processes": sum("fps"),
        "fps_all_processes_standard_error": squares.map(f64::sqrt),
        "fps_blocks": blocks.min().flatten(),
        "inference_fps_all_processes": sum("inference_fps"),
        "frames": sum("frames"),
    });
    let means = "fps inference_fps cpu_ms_per_frame gpu_ms_per_frame peak_rss_mib";
    for key in means.split(' ') {
        speed[key] = numbers(key).and_then(jetwatch_types::mean).into();
    }
    speed
}

fn average(values: &[&Value]) -> Value {
    if let Some(mean) = jetwatch_types::mean(values.iter().filter_map(|value| value.as_f64())) {
        return ((mean * 1e4).round() / 1e4).into();
    }
    let lists: Vec<&Vec<Value>> = values.iter().filter_map(|value| value.as_array()).collect();
    if let Some(longest) = lists.iter().map(|list| list.len()).max() {
        let place = |at: usize| {
            let there: Vec<&Value> = lists.iter().filter_map(|list| list.get(at)).collect();
            average(&there)
        };
        return (0..longest).map(place).collect();
    }
    let maps: Vec<&Map<String, Value>> = values.iter().filter_map(|v| v.as_object()).collect();
    if maps.is_empty() {
        // Texts, such as units, are the same in all of them.
        return values.first().map_or(Value::Null, |first| (*first).clone());
    }
    let mut joined = Map::new();
    for key in maps.iter().flat_map(|map| map.keys()) {
        if !joined.contains_key(key) {
            let there: Vec<&Value> = maps.iter().filter_map(|map| map.get(key)).collect();
            joined.insert(key.clone(), average(&there));
        }
    }
    joined.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_numbers_are_averaged() {
        let of = |time: f64| {
            json!({
                "data": { "jetwatch": { "cpu_time": time, "batch_0": { "cpu_time": time } } },
                "mean_data": { "jetwatch/detect": { "cpu_time": time } },
                "data_stats_minus_warmup": { "jetwatch/detect": { "cpu_time": {
                    "mean": time, "throughput": { "unit": "batches_per_second", "percentile_68_range": [time, 2.0] } } } },
                "speed": { "fps": time, "fps_standard_error": time, "fps_blocks": 7, "frames": 10 },
            })
        };
        let mut second = of(4.0);
        second["data"]["jetwatch"]["batch_1"] = json!({ "cpu_time": 7.0 });
        let joined = mean(&[of(2.0), second], json!({ "args": {} }));
        assert_eq!(joined["data_mean_all_procs"], joined["mean_all_batches"]);
        let data = &joined["mean_all_batches"]["jetwatch"];
        assert_eq!(data["cpu_time"], 3.0);
        assert_eq!(data["batch_1"]["cpu_time"], 7.0);
        assert_eq!(joined["mean_data"]["jetwatch/detect"]["cpu_time"], 3.0);
        let stats =
            &joined["data_stats_minus_warmup_mean_all_procs"]["jetwatch/detect"]["cpu_time"];
        assert_eq!(stats["throughput"]["unit"], "batches_per_second");
        assert_eq!(
            stats["throughput"]["percentile_68_range"],
            json!([3.0, 2.0])
        );
        let speed = &joined["speed"];
        assert_eq!(
            (&speed["fps"], &speed["fps_all_processes"]),
            (&json!(3.0), &json!(6.0))
        );
        // The root of 2² + 4².
        assert_eq!(
            speed["fps_all_processes_standard_error"],
            json!(20.0_f64.sqrt())
        );
        assert_eq!(
            (&speed["processes"], &speed["fps_blocks"]),
            (&json!(2), &json!(7))
        );
        assert!(speed["inference_fps"].is_null(), "one of them is unknown");
    }
}
