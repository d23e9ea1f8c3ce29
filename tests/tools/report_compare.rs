// SPDX-License-Identifier: Apache-2.0
//! `jetwatch report` of several benchmarks and profiles: which is the fastest, what changed, how the load is spread. Files that the
//! tests write, with numbers that were calculated manually.

use crate::support;
use crate::support::nsys_export;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nsys_export::{Generation, slow_down, write_export};
use serde_json::{Value, json};
use support::daemon::{stderr, success};
use support::report::report;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A benchmark with `times` of its batches of two frames, in ms; half of each in `infer`.
fn benchmark(times: &[f64], settings: &[&str]) -> Value {
    let mut detect =
        json!({"total_items": 2 * times.len(), "total_items_minus_warmup": 2 * times.len()});
    for (at, ms) in times.iter().enumerate() {
        detect[format!("batch_{at}")] = json!({"cpu_time": ms, "total_items": 2, "infer": {"cpu_time": ms / 2.0, "total_items": 2}});
    }
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let varied = settings
        .iter()
        .filter_map(|setting| setting.split_once('='));
    let varied: BTreeMap<&str, &str> = varied.collect();
    json!({
        "data": {"jetwatch": {"detect": detect}},
        "mean_data": {"jetwatch/detect": {"cpu_time": mean, "total_items": 2, "infer": {"cpu_time": mean / 2.0}}},
        "meta": {"config": "box.yaml", "config_hash": settings.concat(), "base_hash": "box", "varied": varied, "settings": settings,
                 "warmup_batches": {"jetwatch/detect": 0}},
    })
}

fn write_benchmark(path: &Path, document: &Value) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    fs::write(path, document.to_string()).expect("written");
}

#[test]
fn change_of_benchmarks_is_judged_by_their_batches() {
    let folder = folder();
    let [old, new] = ["old.json", "new.json"].map(|name| folder.path().join(name));
    let diff = |before: &[f64], after: &[f64]| {
        write_benchmark(&old, &benchmark(before, &[]));
        write_benchmark(&new, &benchmark(after, &[]));
        let output = report(&["--diff", "--format", "csv"], &[&old, &new]);
        assert_eq!(stderr(&output), "");
        success(&output)
    };
    let steady = [10.0, 11.0, 9.0, 10.0, 10.5, 9.5];
    let slow: Vec<f64> = steady.iter().map(|ms| ms * 2.84).collect();
    let found = diff(&steady, &slow);
    // Deviations 0.7071 and 2.0082: three standard errors are 2.6075 ms.
    assert_has!(found => "\njetwatch/detect,slower,184.0,26.1,10000000.0,28400000.0,None,None,None,6,6\n");
    // Two frames in 10 ms, and in 28.4 ms.
    let found = success(&report(&["--diff"], &[&old, &new]));
    assert_has!(found => "Throughput: 200.0 to 70.4 frames/s, -64.8 %: slower", "What changed from old.json to new.json");
    assert!(
        !found.contains("GPU Before"),
        "columns without values are left out: {found}"
    );
    let noisy = [6.0, 15.0, 9.0, 12.0, 13.0, 7.0];
    let found = diff(&steady, &noisy);
    assert!(found.contains("\njetwatch/detect,same,3.3,"), "{found}");
}

#[test]
fn one_benchmark_has_verdict_and_frames_per_second() {
    let folder = folder();
    let file = folder.path().join("benchmark.json");
    write_benchmark(&file, &benchmark(&[10.0; 6], &[]));
    let found = success(&report(&[], &[&file]));
    assert_has!(found =>
        "inference is 50 % of the detectors' time",
        "(keys: detector.backend, detector.precision, detector.model, detector.workers)", "Throughput", "200.0", "10.00 ms");
    // The spelling of CV-CUDA's documentation.
    let text = r#"{"mean_data": {"run": {"cpu_time": 8.0, "gpu_time": 3.0, "cpu_time_per_item_minus_warmup": 2.0}}, "meta": {}}"#;
    fs::write(&file, text).expect("written");
    let found = success(&report(&["--format", "csv"], &[&file]));
    assert_has!(found => "run,None,None,8000000.0,None,None,None,None,2000000.0,3000000.0,None,None");
}

#[test]
fn mean_of_processes_has_no_total() {
    let folder = folder();
    let [one, mean] = ["one.json", "mean.json"].map(|name| folder.path().join(name));
    let mut document = benchmark(&[10.0; 6], &[]);
    write_benchmark(&one, &document);
    document["mean_all_batches"] = document["data"].take();
    document["speed"] = json!({"fps": 200.0, "fps_all_processes": 400.0});
    document["meta"]["args"] = json!({"num_processes": 2, "num_gpus": 1});
    write_benchmark(&mean, &document);
    let output = report(&["--format", "json"], &[&one, &mean]);
    let found: Value = serde_json::from_str(&success(&output)).expect("JSON");
    let reports = &found["compared"]["reports"];
    assert_eq!(reports[0]["Its Total Time (ns)"], json!(60_000_000.0));
    assert_eq!(reports[1]["Its Total Time (ns)"], Value::Null);
    let wanted = "benchmark_mean.json, means of 2 processes";
    assert_eq!(reports[1]["Made By"], wanted);
    let throughput = &found["compared"]["throughput"];
    assert_eq!(throughput[1]["Frames/s"], json!(400.0));
}

#[test]
fn folder_of_a_series_names_the_fastest_without_a_warning() {
    let folder = folder();
    // Frames in 10, 4 and 9 ms; with batches of two each.
    for (size, ms) in [(1, 20.0), (4, 8.0), (16, 18.0)] {
        let times: Vec<f64> = (0..20).map(|at| ms + f64::from(at % 3) * 0.1).collect();
        let setting = format!("batch_size={size}");
        let path = folder.path().join(&setting).join("benchmark.json");
        write_benchmark(&path, &benchmark(&times, &[&setting]));
    }
    let output = report(&[], &[folder.path()]);
    assert_eq!(stderr(&output), "");
    let found = success(&output);
    let reports: Vec<&str> = found
        .lines()
        .filter_map(|line| line.strip_prefix("== "))
        .collect();
    let names = ["batch_size=1", "batch_size=4", "batch_size=16"];
    assert_eq!(
        reports,
        names.map(|name| format!("{name} (benchmark.json)"))
    );
    assert_has!(found => "Throughput: batch_size=4 is fastest with ");
    let fastest = found.lines().filter(|line| line.ends_with("fastest"));
    assert_eq!(fastest.count(), 1, "{found}");
}

#[test]
fn profiles_of_a_series_have_frames_per_second_and_one_heat_map() {
    let folder = folder();
    for size in [1, 4] {
        let name = folder.path().join(format!("p-batch0{size}.sqlite"));
        let db = write_export(&name, Generation::Year2023);
        // Frames in a third network run, so that there is an interval; in ms.
        slow_down(&db);
        db.execute(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, domainId, uint64Value) VALUES (500000000, 620000000, 59, ?1, ?2, 1, 1)",
            [nsys_export::DETECT, nsys_export::text("infer")],
        )
        .expect("a range");
        db.execute(
            "UPDATE NVTX_EVENTS SET uint64Value = ?1 WHERE textId = ?2",
            [size, nsys_export::text("infer")],
        )
        .expect("changed");
        let notes = json!({"cpu_ms_per_frame": 3.5, "profile": {"base_hash": "x", "config_hash": size.to_string(),
            "varied": {"detector.batch_size": size.to_string()}}});
        fs::write(name.with_extension("stats.json"), notes.to_string()).expect("written");
    }
    let page = folder.path().join("page.html");
    let html = page.to_str().expect("a plain path");
    let output = report(&["--format", "json", "--html", html], &[folder.path()]);
    assert_eq!(stderr(&output), "");
    let found: Value = serde_json::from_str(&success(&output)).expect("JSON");
    let rows = found["compared"]["throughput"].as_array().expect("rows");
    // From the end of the first network run at 220 ms to that of the third at 620 ms.
    let fps: Vec<f64> = rows
        .iter()
        .filter_map(|row| row["Frames/s"].as_f64())
        .collect();
    assert!(
        (fps[0] - 5.0).abs() < 1e-6 && (fps[1] - 20.0).abs() < 1e-6,
        "{fps:?}"
    );
    assert_eq!(rows[0]["CPU Per Frame (ns)"], json!(3.5e6));
    assert_eq!(rows[1]["Varied"], "detector.batch_size=4");
    assert_eq!(rows[1]["Batch Size"], json!(4));
    let text = fs::read_to_string(&page).expect("written");
    assert!(text.contains("heatMap(data.reports)"));
}
