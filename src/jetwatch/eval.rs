//! `jetwatch eval`: how accurate a model is on annotated pictures, by the daemon's own way from pixels to detections.

mod report;

use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Serialize;

use jetwatch_config::Config;
use jetwatch_detect::DetectError;
use jetwatch_detect::model::ModelSpec;
use jetwatch_eval::{ClassMap, Evaluation, Prediction, Truth, bootstrap, coco};
use jetwatch_pipeline::{EvaluationRun, Evaluator, ImageList, PipelineError};
use jetwatch_telemetry as telemetry;
use jetwatch_types::Detection;

use super::Exit;
use super::track::write;
use report::Report;

/// Least score of a detection that average precision hears of. COCO's protocol wants them all; below this one they change
/// nothing that can be seen, and cost time.
const MIN_SCORE: f32 = 0.001;

/// Most detections of one picture, as COCO's protocol has it.
const MAX_DETECTIONS: usize = 100;

/// A picture that takes longer than this to come ends the evaluation.
const IMAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Pictures that cannot be read are listed up to this number.
const MAX_LISTED: usize = 20;

/// What `jetwatch eval` is told.
#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    /// Model folder with its model.yaml.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Folder of the pictures (JPEG, PNG) that the annotations name.
    #[arg(long, value_name = "DIR")]
    images: PathBuf,
    /// Annotations as COCO JSON.
    #[arg(long, value_name = "FILE")]
    annotations: PathBuf,
    /// Precisions of the model, such as fp32,int8: each is judged, and compared with the first; default: the model's first.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    precision: Vec<String>,
    /// Least score for precision, recall and F1, 0 to 1; default: the model's own. Average precision takes all scores.
    #[arg(long, value_name = "SCORE", value_parser = parse_share)]
    score_threshold: Option<f32>,
    /// Write every number to this file as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the detections to this file in COCO's result format; with several precisions one file each, named FILE.PRECISION.json.
    #[arg(long, value_name = "FILE")]
    detections_out: Option<PathBuf>,
    /// Pictures looked at side by side; default: one for each core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: Option<u16>,
    /// Threads of the network for each of them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads_per_worker: u16,
    /// Draws of the bootstrap that gives the 95 % intervals; 0: none.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(..=100_000))]
    draws: u32,
    /// Seed of those draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Judges, prints tables, writes what was asked for. Pictures that cannot be read are named and make the command fail
/// after everything else was judged.
pub(super) fn run(args: &EvalArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let truth = read_annotations(&args.annotations)?;
    let spec = ModelSpec::load(&args.model)
        .map_err(|error| PipelineError::from(DetectError::from(error)))?;
    let classes = ClassMap::new(&spec.labels, &truth.categories).with_context(|| {
        format!(
            "{} and {}",
            args.model.display(),
            args.annotations.display()
        )
    })?;
    let precisions = precisions(args, &spec);
    let threshold = args.score_threshold.unwrap_or(spec.score_threshold);
    let pictures: ImageList = truth
        .images
        .iter()
        .map(|image| (args.images.join(&image.file_name), image.size))
        .collect();
    ensure!(
        !pictures.is_empty(),
        "{} names no picture; there is nothing to judge",
        args.annotations.display()
    );

    let config = configuration(args)?;
    let workers = config.detector.workers;
    let examiner = Evaluator::new(&config, &precisions)?;
    let examined = examiner.run(&pictures, &mut bar(pictures.len()))?;
    report_unreadable(&examined, &pictures)?;
    if let Some(path) = &args.detections_out {
        write_detections(path, &precisions, &examined, &truth, &classes)?;
    }

    // What could not be read, and what the model was never taught, counts for nothing.
    let readable = |image: usize| examined.found[0][image].is_some();
    let judged = truth.restricted(readable, |category| classes.label(category).is_some());
    let judgements: Vec<Evaluation> = examined
        .found
        .iter()
        .map(|found| {
            let found = evaluated_detections(found, &truth, &judged, &classes);
            Evaluation::new(&judged, &found, f64::from(threshold))
        })
        .collect();
    let spreads = (args.draws > 0)
        .then(|| {
            let all: Vec<&Evaluation> = judgements.iter().collect();
            bootstrap(&all, judged.images.len(), args.draws, args.seed, workers)
        })
        .flatten();
    let report = Report {
        version: 1,
        model: &spec.name,
        images: judged.images.len(),
        objects: judged.objects.iter().filter(|object| !object.crowd).count(),
        crowds: judged.objects.iter().filter(|object| object.crowd).count(),
        unreadable: report::unreadable(&examined, &truth),
        matched_by: report::matched_by(&classes),
        classes: report::classes(&spec.labels, &truth.categories, &classes),
        score_threshold: threshold,
        least_score: MIN_SCORE,
        most_detections: MAX_DETECTIONS,
        draws: args.draws,
        seed: args.seed,
        workers,
        threads_per_worker: config.detector.threads_per_worker,
        images_per_s: report::rate(judged.images.len(), examined.elapsed),
        networks: report::networks(&precisions, &judgements, &examined, spreads.as_ref()),
    };
    print!("{}", report.to_text());
    if let Some(path) = &args.out {
        let text = serde_json::to_string_pretty(&report).context("cannot write numbers as JSON")?;
        write(path, &(text + "\n")).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(if report.unreadable.is_empty() {
        Exit::Success
    } else {
        Exit::Failure
    })
}

fn read_annotations(path: &Path) -> anyhow::Result<Truth> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    coco::parse(&bytes).with_context(|| path.display().to_string())
}

/// The precisions to judge, each once.
fn precisions(args: &EvalArgs, spec: &ModelSpec) -> Vec<String> {
    let mut precisions: Vec<String> = Vec::new();
    for precision in &args.precision {
        if !precisions.contains(precision) {
            precisions.push(precision.clone());
        }
    }
    if precisions.is_empty() {
        let default = spec.files.first();
        precisions.extend(default.map(|file| file.precision.clone()));
    }
    precisions
}

/// The daemon's configuration with one source of pictures, and a detector that reports nearly everything.
fn configuration(args: &EvalArgs) -> anyhow::Result<Config> {
    let [images, model] = [&args.images, &args.model].map(|path| path.display().to_string());
    let mut config = Config::for_source(&format!("images:{images}"), Some(&model))?;
    for source in &mut config.sources {
        source.stall_timeout = IMAGE_TIMEOUT;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    config.detector.workers = args.workers.map_or(cores, usize::from);
    config.detector.threads_per_worker = usize::from(args.threads_per_worker);
    config.detector.score_threshold = Some(MIN_SCORE);
    Ok(config)
}

/// Says which pictures could not be read; an error when none could.
fn report_unreadable(examined: &EvaluationRun, pictures: &ImageList) -> anyhow::Result<()> {
    let lines = examined
        .unreadable
        .iter()
        .map(|(place, reason)| format!("{}: {reason}", pictures[*place].0.display()));
    if examined.unreadable.len() == pictures.len() {
        let first = lines.take(1).collect::<String>();
        bail!(
            "none of the {} pictures can be read; the first is {first}; check --images and the names in the annotations",
            pictures.len()
        );
    }
    for line in lines.take(MAX_LISTED) {
        eprintln!("jetwatch: left out {line}");
    }
    let more = examined.unreadable.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        eprintln!("jetwatch: and {more} more were left out");
    }
    Ok(())
}

/// The best detections of a picture.
fn best_detections(detections: &[Detection]) -> &[Detection] {
    &detections[..detections.len().min(MAX_DETECTIONS)]
}

/// One network's detections with the indices of `evaluated`, which is a part of `truth`.
fn evaluated_detections(
    found: &[Option<Vec<Detection>>],
    truth: &Truth,
    evaluated: &Truth,
    classes: &ClassMap,
) -> Vec<Prediction> {
    // Both lists of either are sorted by id.
    let new_category = |class: u16| {
        let id = truth.categories[classes.category(class)?].id;
        evaluated
            .categories
            .binary_search_by_key(&id, |category| category.id)
            .ok()
    };
    let mut all = Vec::new();
    for (image, detections) in truth.images.iter().zip(found) {
        let place = evaluated
            .images
            .binary_search_by_key(&image.id, |image| image.id);
        let (Ok(place), Some(detections)) = (place, detections) else {
            continue;
        };
        all.extend(best_detections(detections).iter().filter_map(|detection| {
            let category = new_category(detection.class)?;
            Some(Prediction::new(place, category, detection))
        }));
    }
    all
}

/// One entry of COCO's result format.
#[derive(Serialize)]
struct ResultLine {
    image_id: i64,
    category_id: i64,
    bbox: [f64; 4],
    score: f64,
}

fn write_detections(
    path: &Path,
    precisions: &[String],
    examined: &EvaluationRun,
    truth: &Truth,
    classes: &ClassMap,
) -> anyhow::Result<()> {
    for (precision, found) in precisions.iter().zip(&examined.found) {
        let of_all = evaluated_detections(found, truth, truth, classes);
        let lines: Vec<ResultLine> = of_all
            .iter()
            .map(|found| ResultLine {
                image_id: truth.images[found.image].id,
                category_id: truth.categories[found.category].id,
                bbox: found.xywh,
                score: found.score,
            })
            .collect();
        let path = match precisions {
            [_] => path.to_owned(),
            _ => path.with_extension(format!("{precision}.json")),
        };
        let text = serde_json::to_string(&lines).context("cannot write detections as JSON")?;
        write(&path, &(text + "\n")).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A line on a terminal that says how far it is.
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
            "\x1b[K[{}{}] {done} of {total} pictures\r",
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
