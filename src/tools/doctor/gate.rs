//! The proof of models before a daemon runs them: a configuration with all of its networks is loaded by the daemon's own code, engines
//! are built where they are missing, and recorded detections are compared with what the back-end of this machine finds.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use jetwatch_config::{Backend, Config, DetectorConfig, EngineBuild};
use jetwatch_detect::model::ModelSpec;
use jetwatch_detect::{self as detect, DetectorFactory};
use jetwatch_eval::{
    GOLDEN_SCORE, Golden, GoldenImage, MatchCriteria, agreement, detections_of, golden_frames,
    image_hash,
};
use jetwatch_pipeline as pipeline;
use jetwatch_telemetry::Recorder;
use jetwatch_traffic::synthetic_factory;

use super::detector::{GOLDEN, MIN_SHARE};

/// A model folder to prove.
#[derive(Debug, Clone)]
pub struct UnprovenModel {
    /// The folder.
    pub path: PathBuf,
    /// Precision to prove; `None`: that of the configuration, else the model's own choice.
    pub precision: Option<String>,
}

/// Proves that `config` works with the networks that it names, and that the models among `models` that have recorded detections find
/// them again. `on_result` receives a line for each proof.
///
/// # Errors
/// A network cannot be loaded, a label is unknown, or a model does not find what was recorded; or the detector's model is one of
/// `models` and has no recorded detections.
pub fn prove_models(
    config: &Config,
    models: &[UnprovenModel],
    on_result: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    let mut config = config.clone();
    config.detector.tensorrt.build = EngineBuild::Allow;
    let prepared = load(&config.detector)?;
    if pipeline::gives_embeddings(&prepared) {
        let model = prepared.model().to_owned();
        return Err(pipeline::PipelineError::DetectorEmbeddings { model }.into());
    }
    on_result(&format!("detector: {}", prepared.describe()));
    let unknown = pipeline::unknown_labels(&config, prepared.classes());
    if let Some(first) = unknown.first() {
        bail!(
            "{first}; {} labels of the configuration are unknown in all",
            unknown.len()
        );
    }
    match pipeline::prepare_secondary(&config, prepared.classes()) {
        Ok(networks) => networks.iter().for_each(|network| {
            on_result(&format!(
                "secondary {}: {}",
                network.name(),
                network.describe()
            ));
        }),
        Err(problems) => return Err(problems.0.into()),
    }
    let networks = pipeline::all_networks(&config);
    for model in models {
        let used = networks
            .iter()
            .find(|network| network.model.as_deref() == Some(model.path.as_path()));
        let is_detector = config.detector.model.as_deref() == Some(model.path.as_path())
            && config.detector.backend != Backend::Scripted;
        prove(&config.detector, used, is_detector, model, on_result)?;
    }
    Ok(())
}

fn load(settings: &DetectorConfig) -> anyhow::Result<DetectorFactory> {
    let prepared =
        detect::load(settings, &Recorder::default()).map_err(pipeline::PipelineError::from)?;
    prepared.create(0).map_err(pipeline::PipelineError::from)?;
    Ok(prepared)
}

/// Proves one model: with the settings of the network that uses it, or else with those of the detector.
fn prove(
    detector: &DetectorConfig,
    used: Option<&DetectorConfig>,
    is_detector: bool,
    model: &UnprovenModel,
    on_result: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    let name = model.path.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let base = used.unwrap_or(detector);
    let of_configuration = used.and_then(|used| used.precision.clone());
    let settings = DetectorConfig {
        backend: match base.backend {
            // The truth of a drawn scene says nothing of a network.
            Backend::Scripted => Backend::Auto,
            backend => backend,
        },
        model: Some(model.path.clone()),
        precision: model.precision.clone().or(of_configuration),
        score_threshold: Some(GOLDEN_SCORE),
        classes: Vec::new(),
        groups: Vec::new(),
        ..base.clone()
    };
    let Some(golden) = read_golden(&model.path)? else {
        if is_detector {
            bail!(
                "{name}: {GOLDEN} is missing, so there are no recorded detections to compare with; write it with `jetwatch doctor --detector --model DIR --record DIR/{GOLDEN}` before the bundle is packed"
            );
        }
        let prepared = load(&settings).with_context(|| name.to_string())?;
        on_result(&format!(
            "{name}: {}, loaded; no recorded detections to compare with",
            prepared.describe()
        ));
        return Ok(());
    };
    let prepared = load(&settings).with_context(|| name.to_string())?;
    let text = compare(&prepared, &model.path, &golden).with_context(|| name.to_string())?;
    on_result(&format!("{name}: {text}"));
    Ok(())
}

fn read_golden(folder: &Path) -> anyhow::Result<Option<Golden>> {
    let path = folder.join(GOLDEN);
    if !path.exists() {
        return Ok(None);
    }
    let cannot_read = || format!("cannot read {}", path.display());
    let text = fs::read_to_string(&path).with_context(cannot_read)?;
    Golden::parse(&text).map(Some).with_context(cannot_read)
}

/// Compares what `prepared` finds with what was recorded; the comparison in words.
fn compare(prepared: &DetectorFactory, folder: &Path, golden: &Golden) -> anyhow::Result<String> {
    let spec = ModelSpec::load(folder).map_err(detect::DetectError::Model)?;
    let first = spec.files.first().map(|file| file.precision.as_str());
    // A precision without a file in the folder, such as fp16, is compared with that of its first file.
    let set = prepared
        .precision()
        .and_then(|precision| golden.set(precision))
        .or_else(|| golden.set(first?));
    let Some(set) = set else {
        bail!("{GOLDEN} has no detections in the precision of the model's first file");
    };
    let frames = golden_frames(prepared, &synthetic_factory())?;
    let hashes = frames.iter().map(image_hash);
    let differ = hashes
        .zip(&set.images)
        .filter(|(hash, image)| *hash != image.sha256)
        .count();
    if differ > 0 || frames.len() != set.images.len() {
        bail!(
            "{differ} of {} images differ from the {} recorded ones; record the detections again with the version of jetwatch that runs here, and pack again",
            frames.len(),
            set.images.len()
        );
    }
    let recorded: Vec<_> = set.images.iter().map(GoldenImage::detections).collect();
    let found = detections_of(prepared, &frames)?;
    let found = agreement(&found, &recorded, &MatchCriteria::default());
    let text = format!(
        "{}: {:.1} % of {} and {:.1} % of {} recorded confident boxes match on {} images",
        prepared.describe(),
        100.0 * found.first.share(),
        found.first.boxes,
        100.0 * found.second.share(),
        found.second.boxes,
        found.images
    );
    if found.second.boxes == 0 {
        bail!("{text}; a record without detections proves nothing");
    }
    if found.share() < MIN_SHARE {
        bail!("{text}, expected {:.0} %", 100.0 * MIN_SHARE);
    }
    Ok(text)
}
