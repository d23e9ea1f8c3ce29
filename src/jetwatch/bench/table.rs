//! A benchmark's result on a terminal.

use serde_json::Value;

use super::run::Speed;

/// Prints the ranges of a `benchmark.json`, its speeds, and what limits them.
pub(super) fn print(document: &Value, speed: &Speed) {
    let meta = &document["meta"];
    println!(
        "Machine:   {}",
        meta["machine_name"].as_str().unwrap_or("unknown")
    );
    if let Some(mode) = meta["power_mode"].as_str() {
        println!("Power:     {mode}");
    }
    if let Some(detector) = meta["versions"]["detector"].as_str() {
        println!("Detector:  {detector}");
    }
    if let Some(ranges) = document["ranges"].as_array() {
        println!();
        ranges_table(ranges);
    }
    println!();
    speeds(speed);
    let throttling = meta["throttling"].as_array();
    for cause in throttling.into_iter().flatten().filter_map(Value::as_str) {
        println!("Warning:   the machine slowed itself down: {cause}");
    }
}

/// Times without the warm-up, in ms per batch of each range.
fn ranges_table(ranges: &[Value]) {
    println!(
        "{:<20} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10}",
        "range, ms",
        "batches",
        "frames",
        "mean",
        "std",
        "median",
        "min",
        "max",
        "p99",
        "GPU mean",
        "frames/s"
    );
    for range in ranges {
        let numbers = &range["minus_warmup"];
        let ms = |kind: &str, name: &str| {
            let number = numbers[kind][name].as_f64();
            number.map_or_else(|| "-".to_owned(), |number| format!("{number:.3}"))
        };
        let is_on_gpu = numbers["cpu_time"]["max"].as_f64() == Some(0.0);
        let kind = if is_on_gpu { "gpu_time" } else { "cpu_time" };
        println!(
            "{:<20} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10.1}",
            indented(range["name"].as_str().unwrap_or("?")),
            numbers["batches"].to_string(),
            numbers["items"].to_string(),
            ms(kind, "mean"),
            ms(kind, "std"),
            ms(kind, "median"),
            ms(kind, "min"),
            ms(kind, "max"),
            ms(kind, "percentile_99"),
            ms("gpu_time", "mean"),
            numbers["throughput"].as_f64().unwrap_or_default(),
        );
    }
}

fn indented(name: &str) -> String {
    match name.split_once('/') {
        Some((_, stage)) => format!("  {stage}"),
        None => name.to_owned(),
    }
}

fn speeds(speed: &Speed) {
    let inference = speed.inference_fps.map_or_else(String::new, |fps| {
        format!(", network alone {fps:.1} frames/s")
    });
    let batches = speed
        .batches
        .map_or_else(String::new, |batches| format!(" in {batches} batches"));
    println!("End to end {:.1} frames/s{inference}", speed.fps);
    println!(
        "           {} frames{batches}, {:.2} ms CPU per frame, {:.0} MiB",
        speed.frames, speed.cpu_ms_per_frame, speed.peak_rss_mib
    );
}
