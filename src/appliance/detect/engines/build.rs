// SPDX-License-Identifier: Apache-2.0
//! Builds the engine of an [`EngineSpec`] and reports progress.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use parking_lot::Mutex;

use super::cache::{EngineCache, Lookup, Stored};
use super::manifest::Manifest;
use super::spec::{Calibration, EngineSpec};
use super::{EngineError, atomic_file, library, memory};
use jetwatch_config::EngineBuild;
use jetwatch_nvidia::cuda::Device;
use jetwatch_nvidia::tensorrt::{
    BuildRequest, Built, CalibrationInput, Generation, ImplicitInt8, Library, Precision, Progress,
};

/// Interval of progress reports to the caller.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(250);

/// Interval of progress reports in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Stack size of the build thread: TensorRT's parser and optimizer recurse deeply.
const STACK_BYTES: usize = 16 << 20;

/// A plan is about as large as the network's file, or smaller; in FP32 with several kernels it may be larger.
const PLAN_SIZE_FACTOR: u64 = 2;

/// State of a requested engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineState {
    /// There is none.
    Missing {
        /// Why, and the command that builds it.
        reason: String,
    },
    /// Waiting for another process that builds in the same folder.
    Waiting {
        /// Time since the start.
        elapsed: Duration,
    },
    /// It is being built.
    Building {
        /// Time since the start.
        elapsed: Duration,
        /// Steps of the outermost phase that are done.
        done: u32,
        /// Steps of that phase; 0 where TensorRT reports no progress (before version 10).
        steps: u32,
        /// Current phase as TensorRT names it; empty where it reports no progress.
        phase: String,
    },
    /// The engine is available.
    Ready {
        /// Its file.
        path: PathBuf,
        /// Whether it was in the cache already.
        cached: bool,
    },
}

/// Options of a build.
pub struct BuildOptions<'o> {
    /// Images for the calibration of an [`EngineSpec`] whose calibration is pending.
    pub images: Option<&'o mut (dyn CalibrationInput + Send)>,
    /// Build even if the engine exists.
    pub force: bool,
    /// Returns whether to cancel; called repeatedly from several threads.
    pub stop: &'o (dyn Fn() -> bool + Sync),
    /// Called with each state, on the calling thread.
    pub notify: &'o dyn Fn(EngineState),
}

/// Whether a build by `library` can be canceled. TensorRT 8 has no progress monitor.
pub fn can_cancel(library: &Library) -> bool {
    library.generation() != Generation::Eight
}

/// The plan of `spec`: from `cache`, or built and stored there if `policy` allows it. `notify` receives each state, on this
/// thread. An existing plan is read and hashed; a build takes minutes on a Jetson.
///
/// # Errors
/// The engine is missing and must not be built, the build fails, or the cache cannot be read or written.
pub fn find_or_build(
    cache: &EngineCache,
    spec: &EngineSpec,
    policy: EngineBuild,
    library: &Arc<Library>,
    device: &Arc<Device>,
    notify: &dyn Fn(EngineState),
) -> Result<Vec<u8>, EngineError> {
    let missing = match cache.find(spec)? {
        Lookup::Found(found) => {
            log::info!("engine {}", found.path.display());
            notify(EngineState::Ready {
                path: found.path,
                cached: true,
            });
            return Ok(found.plan);
        }
        Lookup::Miss(missing) => missing,
    };
    let reason = missing.to_string();
    notify(EngineState::Missing {
        reason: reason.clone(),
    });
    match policy {
        EngineBuild::Never => Err(EngineError::Missing(Box::new(missing))),
        EngineBuild::Allow => {
            log::warn!(
                "{}; building it now (detector.tensorrt.build: allow)",
                missing.reason
            );
            let options = BuildOptions {
                images: None,
                force: false,
                stop: &|| false,
                notify,
            };
            Ok(build(cache, spec, library, Some(device), options)?.plan)
        }
    }
}

/// Builds the engine of `spec` and stores it in `cache`. Waits while another process builds there; an engine that exists
/// afterwards is used unless `options.force` is set.
///
/// Without a `device` the spec must be for any GPU of its compute capability; only TensorRT-RTX supports that.
///
/// # Errors
/// The build fails or is canceled, memory or disk space is too small, or the cache cannot be written.
pub fn build(
    cache: &EngineCache,
    spec: &EngineSpec,
    library: &Arc<Library>,
    device: Option<&Arc<Device>>,
    options: BuildOptions<'_>,
) -> Result<Stored, EngineError> {
    let BuildOptions {
        images,
        force: is_forced,
        stop,
        notify,
    } = options;
    let mut waited_until = Duration::ZERO;
    let lock = cache.lock(&mut |elapsed| {
        if elapsed >= waited_until {
            log::info!(
                "another jetwatch builds an engine in {}; waiting for it",
                cache.folder().display()
            );
            waited_until += LOG_INTERVAL;
        }
        notify(EngineState::Waiting { elapsed });
        !stop()
    })?;
    let lock = lock.ok_or(EngineError::Canceled)?;
    atomic_file::remove_leftovers(cache.folder(), &lock)?;
    if !is_forced
        && images.is_none()
        && let Lookup::Found(found) = cache.find(spec)?
    {
        notify(EngineState::Ready {
            path: found.path.clone(),
            cached: true,
        });
        return Ok(*found);
    }

    let onnx = spec.file.read()?;
    let workspace_bytes = spec.workspace_mib.map(|mib| mib << 20);
    memory::check(
        device.map(AsRef::as_ref),
        onnx.len() as u64,
        workspace_bytes.unwrap_or(0),
    )?;
    cache.check_disk_space(PLAN_SIZE_FACTOR * onnx.len() as u64)?;
    let began = Instant::now();
    let timing_cache = cache.timing_cache(spec);
    let work = BuildJob {
        spec,
        library,
        device,
        onnx: &onnx,
        timing_cache: timing_cache.as_deref(),
        workspace_bytes,
    };
    let built = work.run_on_thread(images, stop, notify, began)?;
    if stop() {
        return Err(EngineError::Canceled);
    }
    let spec = save_calibration(spec, &built)?;
    let layers = device.and_then(|device| {
        // For display only: the engine works without it.
        library::inspect(library, device, &built.plan, spec.dla).unwrap_or_else(|error| {
            log::warn!("the engine was built, but its layers cannot be listed: {error}");
            None
        })
    });
    let seconds = began.elapsed().as_secs_f64();
    let manifest = Manifest::new(spec.cache_key_fields(), &built.plan, seconds, layers);
    let stored = cache.store(manifest, built.plan, &lock)?;
    if let Some(bytes) = &built.timing_cache
        && let Err(error) = cache.save_timing_cache(&spec, bytes, &lock)
    {
        log::warn!("cannot save the timing cache, so the next build will not be faster: {error}");
    }
    log::info!("built {} in {seconds:.0} s", stored.path.display());
    notify(EngineState::Ready {
        path: stored.path.clone(),
        cached: false,
    });
    Ok(stored)
}

/// Writes the new calibration cache. Its hash becomes part of the spec.
fn save_calibration(spec: &EngineSpec, built: &Built) -> Result<EngineSpec, EngineError> {
    let Some(Calibration { path, sha256: None }) = &spec.calibration else {
        return Ok(spec.clone());
    };
    let Some(bytes) = &built.calibration_cache else {
        return Err(EngineError::NotCalibrated {
            path: spec.file.path.clone(),
        });
    };
    atomic_file::write(path, bytes)?;
    log::info!("calibration {}", path.display());
    Ok(spec.with_calibration(bytes))
}

/// Input of TensorRT.
struct BuildJob<'w> {
    spec: &'w EngineSpec,
    library: &'w Arc<Library>,
    device: Option<&'w Arc<Device>>,
    onnx: &'w [u8],
    timing_cache: Option<&'w [u8]>,
    workspace_bytes: Option<u64>,
}

/// The last progress report of TensorRT.
#[derive(Default)]
struct LastReport {
    done: u32,
    steps: u32,
    phase: String,
}

impl BuildJob<'_> {
    /// Builds on a separate thread, so that this one can report progress.
    fn run_on_thread(
        &self,
        images: Option<&mut (dyn CalibrationInput + Send)>,
        stop: &(dyn Fn() -> bool + Sync),
        notify: &dyn Fn(EngineState),
        began: Instant,
    ) -> Result<Built, EngineError> {
        let last_report = Mutex::new(LastReport::default());
        let on_progress = |progress: &Progress| {
            last_report.lock().on_progress(progress);
            !stop()
        };
        let (ended, end) = bounded::<()>(0);
        thread::scope(|scope| {
            let building = thread::Builder::new()
                .name("engine-build".to_owned())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || {
                    // Dropped at the end, however it comes.
                    let _ended = ended;
                    self.run_builder(images, &on_progress)
                })
                .map_err(EngineError::Thread)?;
            let mut next_line = LOG_INTERVAL;
            while end.recv_timeout(NOTIFY_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let elapsed = began.elapsed();
                let state = last_report.lock().state(elapsed);
                if elapsed >= next_line {
                    log::info!("{}", line(&state));
                    next_line = elapsed + LOG_INTERVAL;
                }
                notify(state);
            }
            building
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn run_builder(
        &self,
        images: Option<&mut (dyn CalibrationInput + Send)>,
        on_progress: &(dyn Fn(&Progress) -> bool + Sync),
    ) -> Result<Built, EngineError> {
        let spec = self.spec;
        if let Some(device) = self.device {
            device.make_current()?;
        }
        let implicit_int8 = match &spec.calibration {
            Some(calibration) if spec.precision == Precision::Int8 => Some(ImplicitInt8 {
                cache: match calibration.sha256 {
                    Some(_) => Some(Calibration::bytes(&calibration.path)?),
                    None => None,
                },
                images: images.map(|input| input as &mut dyn CalibrationInput),
            }),
            _ => None,
        };
        let request = BuildRequest {
            path: Some(&spec.file.path),
            batch: spec.batch,
            contexts: spec.contexts,
            dla: spec.dla,
            gpu_fallback: spec.gpu_fallback,
            workspace_bytes: self.workspace_bytes,
            implicit_int8,
            timing_cache: self.timing_cache,
            compute_capability: match spec.gpu.name {
                Some(_) => None,
                None => Some(spec.gpu.capability),
            },
            progress: Some(on_progress),
            device: self.device,
            ..BuildRequest::new(self.onnx, spec.precision)
        };
        Ok(request.build(self.library)?)
    }
}

impl LastReport {
    fn on_progress(&mut self, progress: &Progress) {
        if progress.parent.is_empty() {
            (self.done, self.steps) = (progress.done, progress.steps);
        }
        self.phase.clone_from(&progress.phase);
    }

    fn state(&self, elapsed: Duration) -> EngineState {
        EngineState::Building {
            elapsed,
            done: self.done,
            steps: self.steps,
            phase: self.phase.clone(),
        }
    }
}

/// The state of a build as a log line.
fn line(state: &EngineState) -> String {
    match state {
        EngineState::Building {
            elapsed,
            done,
            steps,
            phase,
        } if *steps > 0 => format!(
            "building the engine for {} s: step {done} of {steps}, {phase}",
            elapsed.as_secs()
        ),
        EngineState::Building { elapsed, .. } => {
            format!("building the engine for {} s", elapsed.as_secs())
        }
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_progress_counts_outer_phase_and_names_latest() {
        let progress = |phase: &str, parent: &str, done, steps| Progress {
            phase: phase.to_owned(),
            parent: parent.to_owned(),
            done,
            steps,
        };
        let mut last_report = LastReport::default();
        let elapsed = Duration::from_secs(61);
        let found = line(&last_report.state(elapsed));
        assert_eq!(found, "building the engine for 61 s");
        last_report.on_progress(&progress("Building", "", 1, 4));
        last_report.on_progress(&progress("Timing", "Building", 7, 90));
        let found = line(&last_report.state(elapsed));
        assert_eq!(found, "building the engine for 61 s: step 1 of 4, Timing");
    }
}
