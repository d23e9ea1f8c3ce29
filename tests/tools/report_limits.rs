// SPDX-License-Identifier: Apache-2.0
//! The stage that limits a pipeline: the verdict, the critical path, and who waits for whom name the same one, on timelines of a
//! simulated pipeline in which each stage in turn is the slowest, with queues that are full or empty.

use crate::support::daemon::success;
use crate::support::pipeline_timeline::{Timing, write};
use crate::support::report::report;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// Changes a pipeline.
type Change = fn(&mut Timing);

/// Each case: its name, the stage that limits it, and what makes it so.
#[rustfmt::skip]
const CASES: &[(&str, &str, Change)] = &[
    ("camera, one", "input", |t| { (t.live, t.input) = (true, 40_000) }),
    ("camera, four", "input", |t| { (t.live, t.sources, t.input, t.batch_size, t.batch_timeout) = (true, 4, 40_000, 4, 2_000); }),
    ("camera, two workers", "input", |t| { (t.live, t.workers, t.input) = (true, 2, 33_000); }),
    ("file, slow disk", "input", |t| t.input = 20_000),
    ("file, slow disk, two workers, batches", "input", |t| {
        (t.input, t.workers, t.batch_size, t.batch_timeout) = (20_000, 2, 2, 1_000);
    }),
    ("file, slow decoder", "video_decode", |t| { t.video_decode = 9_000 }),
    ("file, slow decoder, two workers", "video_decode", |t| { (t.video_decode, t.workers) = (9_000, 2); }),
    ("files, three slow decoders, batches", "video_decode", |t| {
        (t.sources, t.video_decode, t.batch_size, t.infer) = (3, 20_000, 3, 9_000);
    }),
    ("camera, decoder below its rate", "video_decode", |t| { (t.live, t.input, t.video_decode) = (true, 10_000, 30_000); }),
    ("cameras, decoders below their rate", "video_decode", |t| {
        (t.live, t.sources, t.input, t.video_decode) = (true, 2, 10_000, 30_000);
    }),
    ("file, slow scaling", "scale", |t| t.scale = 9_000),
    ("file, slow scaling, two workers", "scale", |t| { (t.scale, t.workers) = (9_000, 2); }),
    ("camera, scaling below its rate", "scale", |t| { (t.live, t.input, t.scale) = (true, 10_000, 30_000); }),
    ("file, slow copy of images", "source", |t| t.source = 9_000),
    ("camera, slow copy of images", "source", |t| { (t.live, t.input, t.source) = (true, 10_000, 30_000); }),
    // Frames come while a batch waits for more: its wait makes results late, but no fewer.
    ("cameras, batch that never fills", "input", |t| {
        (t.live, t.input, t.sources) = (true, 20_000, 2);
        (t.batch_size, t.batch_timeout) = (16, 18_000);
    }),
    ("file, slow tensor", "tensor", |t| t.tensor = 9_000),
    ("cameras, slow tensor, drops", "tensor", |t| { (t.live, t.sources, t.input, t.tensor) = (true, 4, 10_000, 20_000); }),
    ("file, slow network", "infer", |t| t.infer = 15_000),
    ("file, slow network, two workers", "infer", |t| { (t.infer, t.workers) = (15_000, 2); }),
    ("files, slow network, three workers", "infer", |t| { (t.infer, t.workers, t.sources) = (40_000, 3, 3); }),
    ("files, slow network, batches", "infer", |t| { (t.infer, t.batch_size, t.batch_timeout, t.sources) = (60_000, 4, 5_000, 4); }),
    ("camera, slow network, drops", "infer", |t| { (t.live, t.input, t.infer) = (true, 10_000, 30_000); }),
    ("cameras, slow network, two workers, drops", "infer", |t| {
        (t.live, t.sources, t.input, t.infer, t.workers) = (true, 4, 20_000, 30_000, 2);
    }),
    ("file, slow network, slow first batch", "infer", |t| { (t.infer, t.first_batch, t.length) = (6_000, 400_000, 1_500_000); }),
    ("file, slow boxes", "decode", |t| t.decode = 9_000),
    ("file, slow boxes, two workers", "decode", |t| { (t.decode, t.workers) = (15_000, 2); }),
    ("camera, slow boxes, drops", "decode", |t| { (t.live, t.input, t.decode) = (true, 10_000, 30_000); }),
    ("file, slow tracker", "track", |t| t.track = 9_000),
    ("file, slow tracker, two workers", "track", |t| { (t.track, t.workers) = (9_000, 2); }),
    ("files, slow tracker, batches", "track", |t| { (t.track, t.sources, t.batch_size) = (9_000, 4, 4); }),
    ("camera, slow tracker, drops", "track", |t| { (t.live, t.input, t.track) = (true, 10_000, 25_000); }),
    ("file, slow sink", "publish", |t| t.publish = 9_000),
    ("file, slow sink, two workers", "publish", |t| { (t.publish, t.workers) = (9_000, 2); }),
    ("cameras, slow sink, drops", "publish", |t| { (t.live, t.sources, t.input, t.publish) = (true, 3, 20_000, 15_000); }),
    ("camera, secondary network full", "secondary", |t| { (t.live, t.input, t.secondary) = (true, 20_000, 60_000); }),
    ("cameras, secondary network full", "secondary", |t| { (t.live, t.sources, t.input, t.secondary) = (true, 2, 40_000, 70_000); }),
    ("camera, drawing below its rate", "render", |t| { (t.live, t.input, t.render) = (true, 20_000, 50_000); }),
    ("cameras, drawing below their rate", "render", |t| { (t.live, t.sources, t.input, t.render) = (true, 2, 40_000, 70_000); }),
    ("earlier version, slow network", "infer", |t| { (t.is_old, t.infer) = (true, 15_000); }),
    ("earlier version, slow network, two workers", "infer", |t| { (t.is_old, t.infer, t.workers) = (true, 15_000, 2); }),
    ("earlier version, slow receiving", "source", |t| { (t.is_old, t.scale) = (true, 15_000); }),
    ("earlier version, slow tracker", "track", |t| { (t.is_old, t.track) = (true, 9_000); }),
];

/// What `jetwatch report` says about a file: the tables `verdict` and `stages`.
fn tables(file: &Path) -> (Value, Value) {
    let output = report(
        &[
            "--format", "json", "--table", "verdict", "--table", "stages",
        ],
        &[file],
    );
    let document: Value = serde_json::from_str(&success(&output)).expect("JSON");
    let tables = &document["reports"][0]["tables"];
    (tables["verdict"].clone(), tables["stages"].clone())
}

/// The first finding about a stage of a file's pipeline. Before it are what is lost, and what other programs took.
pub(crate) fn verdict(file: &Path) -> Value {
    let (verdict, _) = tables(file);
    let mut findings = verdict.as_array().into_iter().flatten();
    let found = findings.find(|finding| finding["Limiting Stage"].is_string());
    found.unwrap_or(&verdict[0]).clone()
}

/// The stage that each of the three names: the first finding, the most of the path, and the end of the chain of waits.
pub(crate) fn named(file: &Path) -> Result<[String; 3], String> {
    let (verdict, stages) = tables(file);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_verdict = text(&verdict[0]["Limiting Stage"]);
    let rows = stages.as_array().ok_or("no stages")?;
    let path = |row: &Value| row["Critical Path (%)"].as_f64().unwrap_or(0.0);
    let most = rows.iter().max_by(|a, b| path(a).total_cmp(&path(b)));
    let of_path = text(&most.ok_or("no stage")?["Stage"]);
    let waits: BTreeMap<String, String> = rows
        .iter()
        .map(|row| (text(&row["Stage"]), text(&row["Waits For"])))
        .collect();
    // From the results on, and from the readers of files. The pipeline does not wait for the threads beside it.
    let beside = ["secondary", "render"].contains(&of_path.as_str());
    let is_file = waits.get("input").is_some_and(|text| text.contains("file"));
    let starts = match (beside, is_file) {
        (true, _) => vec![of_path.as_str()],
        (false, true) => vec!["publish", "enqueue"],
        (false, false) => vec!["publish"],
    };
    let mut of_waits = String::new();
    for start in starts {
        let mut at = start.to_owned();
        for _ in 0..waits.len() {
            match waits.get(&at).filter(|next| waits.contains_key(*next)) {
                Some(next) => at.clone_from(next),
                None => break,
            }
        }
        if !of_waits.is_empty() && of_waits != at {
            return Err(format!(
                "chains end at {of_waits} and, from {start}, at {at}: {waits:?}"
            ));
        }
        of_waits = at;
    }
    Ok([of_verdict, of_path, of_waits])
}

#[test]
fn verdict_critical_path_and_waits_name_the_stage_that_limits() {
    assert!(CASES.len() >= 30);
    let folder = tempfile::tempdir().expect("a folder");
    let mut wrong = Vec::new();
    for (number, (name, limit, change)) in CASES.iter().enumerate() {
        let mut timing = Timing::default();
        change(&mut timing);
        let file = folder.path().join(format!("{number}.sqlite"));
        write(&file, &timing);
        match named(&file) {
            Ok(found) if found.iter().all(|stage| stage == limit) => {
                println!("{name}: {limit}");
            }
            found => wrong.push(format!("{name}: expected {limit}, found {found:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn warm_up_is_left_out_and_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("warm.sqlite");
    let timing = Timing {
        infer: 6_000,
        first_batch: 400_000,
        length: 1_500_000,
        ..Timing::default()
    };
    write(&file, &timing);
    let text = success(&report(&[], &[&file]));
    assert_has!(text => "Verdict, without a warm-up of 4", "without a warm-up of 4");
    let (_, stages) = tables(&file);
    let rows = stages.as_array().expect("rows");
    let infer = rows.iter().find(|row| row["Stage"] == "infer");
    let share = infer.and_then(|row| row["Share of Threads (%)"].as_f64());
    // 6 ms of 6.8 ms, without the first batch of 406 ms.
    assert!(share.is_some_and(|share| share > 87.0), "{share:?}");
}
