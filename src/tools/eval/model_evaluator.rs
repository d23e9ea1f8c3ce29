// SPDX-License-Identifier: Apache-2.0
//! The accuracy of a model on annotated images, with the daemon's own image processing.
//!
//! [`ModelEvaluator::new`] reads annotations and model; [`run`](ModelEvaluator::run) finds the detections of each precision;
//! [`report`](ModelEvaluator::report) compares them with the annotations. Called by `jetwatch eval`, which prints and writes the
//! results.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use jetwatch_config::Config;
use jetwatch_detect::DetectError;
use jetwatch_detect::model::ModelSpec;
use jetwatch_pipeline::PipelineError;
use jetwatch_types::Detection;

use crate::annotations::{Prediction, Truth};
use crate::bootstrap::bootstrap;
use crate::classes::ClassMap;
use crate::coco;
use crate::covered::{CoveredCategories, merge_covered};
use crate::evaluation::Evaluation;
use crate::evaluator::{EvaluationRun, Evaluator, ImageList};
use crate::report::{self, Report};

/// Minimum score of a detection for average precision. COCO's protocol has none; lower scores cost time and change no
/// visible digit.
const MIN_SCORE: f32 = 0.001;

/// Maximum number of detections of one image, as in COCO's protocol.
const MAX_DETECTIONS: usize = 100;

/// Timeout of one image; the evaluation fails after it.
const IMAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// What to evaluate.
#[derive(Debug, Clone, Copy)]
pub struct EvalOptions<'a> {
    /// Model folder with its `model.yaml`.
    pub model: &'a Path,
    /// Folder of the images that the annotations name.
    pub images: &'a Path,
    /// Annotations as COCO JSON.
    pub annotations: &'a Path,
    /// Precisions of the model, each compared with the first; empty: the model's first.
    pub precisions: &'a [String],
    /// Minimum score for precision, recall and F1, 0 to 1; `None`: the model's own.
    pub score_threshold: Option<f32>,
    /// Images evaluated in parallel; `None`: one for each core.
    pub workers: Option<usize>,
    /// Threads of the network per image.
    pub threads_per_worker: usize,
    /// Bootstrap samples for the 95 % intervals; 0: none.
    pub draws: u32,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// Annotations, a model, and how it is evaluated.
pub struct ModelEvaluator {
    spec: ModelSpec,
    truth: Truth,
    classes: ClassMap,
    covered: Vec<CoveredCategories>,
    precisions: Vec<String>,
    score_threshold: f32,
    images: ImageList,
    config: Config,
    draws: u32,
    seed: u64,
}

impl ModelEvaluator {
    /// Reads annotations and model folder.
    ///
    /// # Errors
    /// A file cannot be read, labels and categories do not match, or the annotations list no image.
    pub fn new(options: &EvalOptions<'_>) -> anyhow::Result<Self> {
        let annotated = read_annotations(options.annotations)?;
        let spec = ModelSpec::load(options.model)
            .map_err(|error| PipelineError::from(DetectError::from(error)))?;
        let (truth, covered) = merge_covered(annotated, &spec.labels, &spec.covers);
        let classes = ClassMap::new(&spec.labels, &truth.categories).with_context(|| {
            format!(
                "{} and {}",
                options.model.display(),
                options.annotations.display()
            )
        })?;
        let images: ImageList = truth
            .images
            .iter()
            .map(|image| (options.images.join(&image.file_name), image.size))
            .collect();
        ensure!(
            !images.is_empty(),
            "{} lists no images; there is nothing to evaluate",
            options.annotations.display()
        );
        Ok(Self {
            precisions: precisions(options.precisions, &spec),
            score_threshold: options.score_threshold.unwrap_or(spec.score_threshold),
            config: configuration(options)?,
            draws: options.draws,
            seed: options.seed,
            spec,
            truth,
            classes,
            covered,
            images,
        })
    }

    /// The images, in the order of the annotations.
    pub fn images(&self) -> &ImageList {
        &self.images
    }

    /// Runs every image through every precision. Blocks until all are done; `progress` is called with the number of images done.
    ///
    /// # Errors
    /// The model cannot be opened, a detector fails, or no image can be read. Single unreadable images are listed in the
    /// result.
    pub fn run(&self, progress: &mut dyn FnMut(usize)) -> anyhow::Result<EvaluationRun> {
        let run = Evaluator::new(&self.config, &self.precisions)?.run(&self.images, progress)?;
        if run.unreadable.len() == self.images.len() {
            let first = run
                .unreadable
                .first()
                .map(|(index, reason)| format!("{}: {reason}", self.images[*index].0.display()));
            bail!(
                "none of the {} images can be read; the first is {}; check --images and the names in the annotations",
                self.images.len(),
                first.unwrap_or_default()
            );
        }
        Ok(run)
    }

    /// The detections of each precision in COCO's result format, with the file for each: `path`, or `PATH.PRECISION.json` for
    /// several precisions. A label that covers several categories has the id of one of them.
    ///
    /// # Errors
    /// A number cannot be written as JSON.
    pub fn coco_results(
        &self,
        run: &EvaluationRun,
        path: &Path,
    ) -> anyhow::Result<Vec<(PathBuf, String)>> {
        let mut files = Vec::with_capacity(self.precisions.len());
        for (precision, found) in self.precisions.iter().zip(&run.found) {
            let of_all = evaluated_detections(found, &self.truth, &self.truth, &self.classes);
            let lines: Vec<ResultLine> = of_all
                .iter()
                .map(|found| ResultLine {
                    image_id: self.truth.images[found.image].id,
                    category_id: self.truth.categories[found.category].id,
                    bbox: found.xywh,
                    score: found.score,
                })
                .collect();
            let path = match self.precisions.as_slice() {
                [_] => path.to_owned(),
                _ => path.with_extension(format!("{precision}.json")),
            };
            let text = serde_json::to_string(&lines).context("cannot write detections as JSON")?;
            files.push((path, text + "\n"));
        }
        Ok(files)
    }

    /// Compares the detections with the annotations. Images that could not be read, and categories that the model has no label
    /// for, do not count.
    pub fn report<'a>(&'a self, run: &'a EvaluationRun) -> Report<'a> {
        let (truth, classes) = (&self.truth, &self.classes);
        let readable = |image: usize| run.found[0][image].is_some();
        let evaluated = truth.restricted(readable, |category| classes.label(category).is_some());
        let evaluations: Vec<Evaluation> = run
            .found
            .iter()
            .map(|found| {
                let found = evaluated_detections(found, truth, &evaluated, classes);
                Evaluation::new(&evaluated, &found, f64::from(self.score_threshold))
            })
            .collect();
        let workers = self.config.detector.workers;
        let images = evaluated.images.len();
        let intervals = (self.draws > 0)
            .then(|| {
                let all: Vec<&Evaluation> = evaluations.iter().collect();
                bootstrap(&all, images, self.draws, self.seed, workers)
            })
            .flatten();
        Report {
            version: 1,
            model: &self.spec.name,
            images,
            objects: evaluated
                .objects
                .iter()
                .filter(|object| !object.crowd)
                .count(),
            crowds: evaluated
                .objects
                .iter()
                .filter(|object| object.crowd)
                .count(),
            unreadable: report::unreadable(run, truth),
            matched_by: report::matched_by(classes),
            classes: report::classes(&self.spec.labels, &truth.categories, classes, &self.covered),
            score_threshold: self.score_threshold,
            least_score: MIN_SCORE,
            most_detections: MAX_DETECTIONS,
            draws: self.draws,
            seed: self.seed,
            workers,
            threads_per_worker: self.config.detector.threads_per_worker,
            images_per_s: report::rate(images, run.elapsed),
            networks: report::networks(&self.precisions, evaluations, run, intervals.as_ref()),
        }
    }
}

fn read_annotations(path: &Path) -> anyhow::Result<Truth> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    coco::parse(&bytes).with_context(|| path.display().to_string())
}

/// The precisions to evaluate, each once.
fn precisions(requested: &[String], spec: &ModelSpec) -> Vec<String> {
    let mut precisions: Vec<String> = Vec::new();
    for precision in requested {
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

/// The daemon's configuration with an image folder as source, and a detector with a very low score threshold.
fn configuration(options: &EvalOptions<'_>) -> anyhow::Result<Config> {
    let [images, model] = [options.images, options.model].map(|path| path.display().to_string());
    let mut config = Config::for_source(&format!("images:{images}"), Some(&model))?;
    for source in &mut config.sources {
        source.stall_timeout = IMAGE_TIMEOUT;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    config.detector.workers = options.workers.unwrap_or(cores);
    config.detector.threads_per_worker = options.threads_per_worker;
    config.detector.score_threshold = Some(MIN_SCORE);
    Ok(config)
}

/// The best detections of an image.
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
