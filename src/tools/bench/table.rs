// SPDX-License-Identifier: Apache-2.0
//! The speeds of one run as text for a terminal. Tables of runs and series are those of `jetwatch report`.

use serde_json::Value;

use super::run::Speed;

/// The machine of a run, its speeds, and what warns of them.
#[must_use]
pub fn run_summary(document: &Value, speed: &Speed) -> String {
    let mut lines = Vec::new();
    let meta = &document["meta"];
    for (title, value) in [
        ("Machine:   ", &meta["machine_name"]),
        ("Power:     ", &meta["power_mode"]),
        ("Detector:  ", &meta["versions"]["detector"]),
    ] {
        lines.extend(value.as_str().map(|text| format!("{title}{text}")));
    }
    add_speeds(speed, &mut lines);
    let throttling = meta["throttling"].as_array();
    for cause in throttling.into_iter().flatten().filter_map(Value::as_str) {
        lines.push(format!("Warning:   the machine was throttled: {cause}"));
    }
    lines.join("\n")
}

/// A further number with its unit, where it is known.
fn more(number: Option<f64>, unit: &str) -> String {
    number.map_or_else(String::new, |number| format!(", {number:.2} {unit}"))
}

fn add_speeds(speed: &Speed, lines: &mut Vec<String>) {
    let inference = speed.inference_fps.map_or_else(String::new, |fps| {
        let only = match speed.inferred_fps {
            // Frames that skip the network do not count for it.
            Some(inferred) if inferred < 0.99 * speed.fps => {
                format!(", {inferred:.1} of them with inference")
            }
            _ => String::new(),
        };
        format!("{only}; network alone (all workers) {fps:.1} frames/s with inference")
    });
    let batches = speed
        .batches
        .map(|batches| format!(" in {batches} batches"));
    let batches = batches.unwrap_or_default();
    let interval = match (speed.fps_interval(), speed.batches) {
        (Some((from, to)), _) => format!(" (95 % interval {from:.1} to {to:.1})"),
        (None, Some(_)) => " (interval unknown: fewer than three batches)".to_owned(),
        // Without single ranges there is nothing to estimate it from.
        (None, None) => String::new(),
    };
    lines.push(format!(
        "End to end {:.1} frames/s{interval}{inference}",
        speed.fps
    ));
    lines.push(format!(
        "           {} frames{batches}, {:.2} ms CPU per frame{}{}, {:.0} MiB",
        speed.frames,
        speed.cpu_ms_per_frame,
        more(speed.gpu_ms_per_frame, "ms GPU per frame"),
        more(speed.joules_per_frame, "J per frame"),
        speed.peak_rss_mib
    ));
    if let Some(latency) = &speed.latency {
        let whole = &latency.whole;
        lines.push(format!(
            "Latency    {:.1} ms (median; 95 %: {:.1}, maximum {:.1}) from the arrival of a frame to its messages",
            whole.median_ms,
            whole.p95_ms,
            whole.max_ms
        ));
    }
    if let Some(occupancy) = &speed.occupancy {
        lines.push(format!(
            "CPU        {:.2} of {} cores, {}",
            occupancy.own_cores,
            occupancy.allowed_cores,
            occupancy.describe_others()
        ));
        if occupancy.is_disturbed() {
            lines.push(
                "Warning:   frames/s and times are not those of a free machine: compare the CPU time per frame, or measure again"
                    .to_owned(),
            );
        }
    }
}
