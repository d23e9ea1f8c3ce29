// SPDX-License-Identifier: Apache-2.0
//! `jetwatch eval`: the accuracy of a model on annotated images, with the daemon's own image processing.

use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use jetwatch_eval::io::write;
use jetwatch_eval::{EvalOptions, EvaluationRun, ImageList, ModelEvaluator};
use jetwatch_telemetry as telemetry;

use super::Exit;

/// Maximum number of unreadable images that are listed.
const MAX_LISTED: usize = 20;

/// Arguments of `jetwatch eval`.
#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    /// Model folder with its model.yaml.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Folder of the images (JPEG, PNG) that the annotations name.
    #[arg(long, value_name = "DIR")]
    images: PathBuf,
    /// Annotations as COCO JSON.
    #[arg(long, value_name = "FILE")]
    annotations: PathBuf,
    /// Precisions of the model to evaluate, such as fp32,int8, each compared with the first; default: the model's first.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    precision: Vec<String>,
    /// Minimum score for precision, recall and F1, 0 to 1; default: the model's own. Average precision uses all scores.
    #[arg(long, value_name = "SCORE", value_parser = parse_share)]
    score_threshold: Option<f32>,
    /// Write all results to this file as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the detections to this file in COCO's result format; with several precisions one file each, named FILE.PRECISION.json.
    #[arg(long, value_name = "FILE")]
    detections_out: Option<PathBuf>,
    /// Number of images evaluated in parallel; default: one for each core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: Option<u16>,
    /// Threads of the network per image.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads_per_worker: u16,
    /// Number of bootstrap samples for the 95 % intervals; 0: none.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(..=100_000))]
    draws: u32,
    /// Seed of the bootstrap.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Evaluates, prints tables, writes the requested files. Unreadable images are listed and make the command fail after
/// everything else was evaluated.
pub(super) fn run(args: &EvalArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let evaluator = ModelEvaluator::new(&EvalOptions {
        model: &args.model,
        images: &args.images,
        annotations: &args.annotations,
        precisions: &args.precision,
        score_threshold: args.score_threshold,
        workers: args.workers.map(usize::from),
        threads_per_worker: usize::from(args.threads_per_worker),
        draws: args.draws,
        seed: args.seed,
    })?;
    let run = evaluator.run(&mut bar(evaluator.images().len()))?;
    report_unreadable(&run, evaluator.images());
    if let Some(path) = &args.detections_out {
        for (path, text) in evaluator.coco_results(&run, path)? {
            write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let report = evaluator.report(&run);
    print!("{}", report.to_text());
    if let Some(path) = &args.out {
        let text =
            serde_json::to_string_pretty(&report).context("cannot write the results as JSON")?;
        write(path, &(text + "\n")).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(if run.unreadable.is_empty() {
        Exit::Success
    } else {
        Exit::Failure
    })
}

/// Prints the images that could not be read.
fn report_unreadable(run: &EvaluationRun, images: &ImageList) {
    for (index, reason) in run.unreadable.iter().take(MAX_LISTED) {
        eprintln!("jetwatch: skipped {}: {reason}", images[*index].0.display());
    }
    let more = run.unreadable.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        eprintln!("jetwatch: skipped {more} more images");
    }
}

/// Progress line on a terminal.
fn bar(total: usize) -> impl FnMut(usize) {
    const WIDTH: usize = 30;
    let is_terminal = stderr().is_terminal();
    let mut shown = None;
    move |done| {
        if !is_terminal || shown == Some(done) {
            return;
        }
        shown = Some(done);
        let full = WIDTH * done / total.max(1);
        let line = format!(
            "\x1b[K[{}{}] {done} of {total} images\r",
            "#".repeat(full),
            ".".repeat(WIDTH - full)
        );
        let end = if done == total { "\x1b[K" } else { &line };
        let _ = write!(stderr(), "{end}");
    }
}

fn parse_share(text: &str) -> Result<f32, String> {
    let share = text.parse().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a number from 0 to 1".to_owned())
}
