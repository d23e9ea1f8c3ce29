// SPDX-License-Identifier: Apache-2.0
//! Series as `jetwatch bench` writes them, and their tables and plots.

use super::*;

fn parse(document: &Value) -> Option<Series> {
    Series::parse(Path::new("series.json"), document).expect("complete")
}

fn sweep(machine: &str, fps: [f64; 2]) -> Value {
    let point = |name: &str, fps: f64| {
        json!({"name": name, "fps": {"count": 1, "median": fps, "min": fps, "max": fps},
            "secondary": [{"name": "n", "crops_per_s": 60.0, "dropped_percent": 25.0}]})
    };
    json!({"kind": "sweep", "machine": {"name": machine}, "verdict": "Fastest: batch_size=2, 15.0 frames/s",
        "points": [point("batch_size=1", fps[0]), point("batch_size=2", fps[1])]})
}

#[test]
fn sweep_has_tables_bars_and_its_fastest_point() {
    let series = parse(&sweep("a", [10.0, 15.0])).expect("a series");
    let names: Vec<&str> = series.tables.iter().map(|table| table.name).collect();
    assert_eq!(names, ["series", "series_secondary"]);
    assert_eq!(series.findings[0], "Fastest: batch_size=2, 15.0 frames/s\n");
    assert!(series.findings[1].contains("n dropped 25.0 % of its crops"));
    assert_eq!(series.plot()["bars"][1]["value"], 15.0);
    assert!(parse(&json!({"data": {}})).is_none());
}

#[test]
fn machines_stand_side_by_side() {
    let (a, b) = (sweep("box-a", [10.0, 15.0]), sweep("box-b", [20.0, 45.0]));
    let (a, b) = (parse(&a).expect("a series"), parse(&b).expect("a series"));
    let text = side_by_side(&[("x/series.json", &a), ("y/series.json", &b)]).to_text();
    assert!(
        text.contains("Frames/s, box-b") && text.contains("3.00 x"),
        "{text}"
    );
    let text = side_by_side(&[("x/series.json", &a), ("z/series.json", &a)]).to_text();
    assert!(text.contains("box-a, z/series.json"), "{text}");
}

#[test]
fn streams_have_drops_and_the_answer() {
    let trial = |streams: u64, dropped: u64| {
        json!({"streams": streams, "has_kept_up": dropped == 0, "fps": 10.0, "received": 100, "dropped": dropped,
        "shortfall": (dropped > 0).then(|| format!("{dropped} frames dropped"))})
    };
    let document = json!({"kind": "streams", "verdict": "1 stream of 25.0 frames/s fits", "streams": {
        "rate": 25.0, "limit": {"text": "the CPU"}, "trials": [trial(1, 0), trial(2, 40), trial(2, 60)],
        "fit": {"streams": 1, "at": {"passed": 3, "failed": 0}, "above": {"passed": 0, "failed": 2}}}});
    let series = parse(&document).expect("a series");
    assert_eq!(series.drops, [(1, 0.0), (2, 50.0)]);
    assert_eq!(series.findings, ["1 stream of 25.0 frames/s fits\n"]);
    let csv = series.tables[0].to_csv();
    assert!(csv.contains(",Reason\n") && csv.ends_with(",40 frames dropped\n"));
}

#[test]
fn ablation_has_factors_keys_and_what_is_not_explained() {
    let document = json!({"ablation": {"steps": [
        {"step": 1, "title": "first values", "fps": {"median": 10.0}, "ms_per_frame": 100.0, "settings": ["detector.workers=1", "detector.interval=0"]},
        {"step": 2, "title": "detector.workers=2", "fps": {"median": 25.0}, "gain": {"statistics": {"median": 2.5}},
            "cumulative": {"statistics": {"median": 2.5}},
            "explanation": {"measured_ms": -3.75, "not_explained": {"change_ms": 0.25, "interval_95_ms": 0.5}, "cores": [1.0, 1.9],
                "parts": [{"name": "infer", "change_ms": -4.0, "cpu_ms": [9.0, 5.0]}]}},
    ]}});
    let series = parse(&document).expect("a series");
    let text: String = series.tables.iter().map(Table::to_text).collect();
    for wanted in [
        "2.50 x",
        "detector.workers=1; detector.interval=0",
        "-4.00",
        "-3.75",
        "not explained",
        "± 0.50",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
    let empty = json!({"ablation": {"steps": []}});
    assert!(Series::parse(Path::new("s"), &empty).is_err());
}
