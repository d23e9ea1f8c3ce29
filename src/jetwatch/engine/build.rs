// SPDX-License-Identifier: Apache-2.0
//! `jetwatch engine build`: builds the engine of a model for this machine's GPU in the daemon's engine folder.

use std::cell::Cell;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

use clap::error::ErrorKind;

use super::{BuildArgs, Exit, describe_layers};
use crate::progress::BuildProgress;
use crate::signals;
use jetwatch_config::{Config, DetectorConfig};
use jetwatch_detect::DetectError;
use jetwatch_detect::engines::{
    self, BuildOptions, EngineCache, EngineError, EngineSpec, EngineState, Gpu, Lookup, Stored,
};
use jetwatch_detect::model::ModelSpec;
use jetwatch_pipeline::{CalibrationImages, PipelineError};
use jetwatch_telemetry::{self as telemetry, StopToken};

/// Builds the engine, prints the result.
pub(super) fn run(args: &BuildArgs) -> anyhow::Result<Exit> {
    // Progress is a line on a terminal, and the log elsewhere.
    telemetry::start_logging(if stderr().is_terminal() {
        log::LevelFilter::Warn
    } else {
        log::LevelFilter::Info
    });
    let detector = detector(args)?;
    let folder = detector.model.as_deref().ok_or(DetectError::NoModel);
    let spec = ModelSpec::load(folder.map_err(PipelineError::from)?).map_err(EngineError::from)?;
    let settings = &detector.tensorrt;
    let library = engines::open_library(settings.library.as_deref())?;
    let (device, gpu) = match args.compute_capability {
        Some(capability) => (
            None,
            Gpu {
                name: None,
                capability,
            },
        ),
        None => {
            let device = engines::device()?;
            let gpu = Gpu::from_device(&device);
            (Some(device), gpu)
        }
    };
    let cache = EngineCache::new(&settings.engines);
    let recipe = match calibration_path(args, &detector, &spec) {
        Some(path) => EngineSpec::with_pending_calibration(&detector, &spec, &library, gpu, &path)?,
        None => EngineSpec::new(&detector, &spec, &library, gpu)?,
    };
    let mut images = match &args.calibration_images {
        Some(path) => {
            let batch = engines::calibration_batch(&recipe)?;
            Some(CalibrationImages::start(path, &spec, batch)?)
        }
        None => None,
    };
    let stop = StopToken::default();
    if engines::can_cancel(&library) {
        signals::listen(stop.clone(), || ())?;
    }
    if recipe
        .calibration
        .as_ref()
        .is_none_or(|calibration| calibration.sha256.is_some())
        && let Lookup::Miss(missing) = cache.find(&recipe)?
    {
        println!("reason     {}", missing.reason);
    }
    let was_cached = Cell::new(false);
    let progress = BuildProgress::start();
    let notify = |state: EngineState| {
        was_cached.set(matches!(state, EngineState::Ready { cached: true, .. }));
        progress.show(&state);
    };
    // TensorRT 8 cannot be cancelled: there the signal ends the process, which leaves no partial file either.
    let options = BuildOptions {
        images: images.as_mut().map(|images| images as _),
        force: args.force,
        stop: &|| stop.is_stopped(),
        notify: &notify,
    };
    let stored = engines::build(&cache, &recipe, &library, device.as_ref(), options);
    drop(progress);
    let stored = stored?;
    if was_cached.get() {
        println!("found      the engine exists already; --force builds it again");
    }
    print_engine(
        &stored,
        &recipe,
        images.as_ref().map(CalibrationImages::delivered),
    );
    if let Some(output) = &args.output {
        stored.copy_to(output)?;
        println!("copied     to {}", output.display());
    }
    handle_outdated(args, &cache, &stored)?;
    Ok(Exit::Success)
}

/// The detector of the configuration or of the model, with the options of the command line applied.
fn detector(args: &BuildArgs) -> anyhow::Result<DetectorConfig> {
    let mut detector = match (&args.config, &args.model) {
        (Some(path), _) => Config::load(path)?.detector,
        (None, model) => {
            let model = model.as_ref().map(|model| model.display().to_string());
            Config::for_source("synthetic://traffic", model.as_deref())?.detector
        }
    };
    if args.calibration_images.is_some() {
        let precision = args.precision.as_deref().unwrap_or("int8");
        if !precision.starts_with("int8") {
            let text = format!(
                "--calibration-images is for INT8, and --precision is {precision}; use --precision int8\n"
            );
            clap::Error::raw(ErrorKind::ArgumentConflict, text).exit();
        }
        detector.precision = Some(precision.to_owned());
    } else if args.precision.is_some() {
        detector.precision.clone_from(&args.precision);
    }
    if let Some(batch) = args.batch {
        detector.batch_size = usize::from(batch);
    }
    if let Some(workers) = args.workers {
        detector.workers = usize::from(workers);
    }
    let settings = &mut detector.tensorrt;
    settings.dla = args.dla.or(settings.dla);
    settings.gpu_fallback = match (args.gpu_fallback, args.no_gpu_fallback) {
        (true, _) => true,
        (_, true) => false,
        _ => settings.gpu_fallback,
    };
    settings.workspace_mib = args.workspace.or(settings.workspace_mib);
    let replace = |given: &Option<PathBuf>, own: &mut Option<PathBuf>| {
        if given.is_some() {
            own.clone_from(given);
        }
    };
    replace(&args.calibration, &mut settings.calibration);
    replace(&args.tensorrt, &mut settings.library);
    if let Some(engines) = &args.engines {
        settings.engines.clone_from(engines);
    }
    Ok(detector)
}

/// Path of the calibration cache to write; `None` without calibration images.
fn calibration_path(
    args: &BuildArgs,
    detector: &DetectorConfig,
    spec: &ModelSpec,
) -> Option<PathBuf> {
    args.calibration_images.as_ref()?;
    let settings = &detector.tensorrt;
    Some(settings.calibration.clone().unwrap_or_else(|| {
        let name: String = spec
            .name
            .chars()
            .map(|c| if c == '/' { '_' } else { c })
            .collect();
        settings.engines.join(format!("{name}.calibration"))
    }))
}

fn print_engine(stored: &Stored, recipe: &EngineSpec, calibrated: Option<usize>) {
    let manifest = &stored.manifest;
    let of = &manifest.recipe;
    println!("engine     {}", stored.path.display());
    println!(
        "built      {} in {:.1} s by {} {} for {} (compute capability {}), {:.1} MB",
        manifest.built_at,
        manifest.build_seconds,
        of.builder,
        of.builder_version,
        of.gpu,
        of.compute_capability,
        manifest.plan_bytes as f64 / 1e6
    );
    match &manifest.layers {
        Some(layers) => println!("layers     {}", describe_layers(layers)),
        None => println!("layers     unknown: the engine could not be loaded here"),
    }
    if let (Some(images), Some(calibration)) = (calibrated, &recipe.calibration) {
        println!(
            "calibrated with {images} images; to use it: detector.tensorrt.calibration: {}",
            calibration.path.display()
        );
    }
}

/// Removes engines of other TensorRT versions with `--prune`, else prints how to do it.
fn handle_outdated(args: &BuildArgs, cache: &EngineCache, stored: &Stored) -> anyhow::Result<()> {
    if args.prune {
        for path in cache.prune(&stored.manifest)? {
            println!("removed    {}", path.display());
        }
        return Ok(());
    }
    let outdated = cache.outdated(&stored.manifest)?;
    if !outdated.is_empty() {
        println!(
            "outdated   {} engines of the same model differ only in the version of TensorRT; add --prune to remove them",
            outdated.len()
        );
    }
    Ok(())
}
