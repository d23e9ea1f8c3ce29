// SPDX-License-Identifier: Apache-2.0
//! Keeps one source alive: opens it, and reopens it with growing waits when it fails or stalls.
//!
//! Sessions and retries are separate: `Source::run_once` is one session and may fail; this loop decides what follows.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jetwatch_config::{SourceConfig, SourceUri, SyntheticScene};
use jetwatch_telemetry::{self as telemetry, FailureLog};
use jetwatch_types::{Backoff, SourceState};

use super::image_file::UnreadableHandler;
use super::image_folder::ImageFolderSource;
use super::{
    SessionEnd, Source, SourceContext, SourceError, SyntheticFactory, SyntheticOptions,
    gst::GstSource,
};

/// A session that delivered frames for at least this long resets the wait.
pub(super) const STEADY_AFTER: Duration = Duration::from_secs(10);

/// First and longest wait after a server has refused the credentials: cameras lock an account after a few attempts.
const REFUSED_WAIT: Duration = Duration::from_secs(30);
const REFUSED_MAX_WAIT: Duration = Duration::from_secs(600);

/// A running source.
pub struct SourceHandle {
    thread: JoinHandle<Result<(), SourceError>>,
    /// Whether it waits because its server has refused the credentials.
    is_refused: Arc<AtomicBool>,
}

impl SourceHandle {
    /// Whether the thread of the source has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Whether it waits because its server has refused the credentials. They may be others by now.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// Blocks until the source ends: at the end of the media, after a stop, or after a permanent failure.
    ///
    /// # Errors
    /// The permanent failure.
    ///
    /// # Panics
    /// Resumes a panic of the source's thread.
    pub fn join(self) -> Result<(), SourceError> {
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Starts the source on a thread named `source-NAME`.
///
/// # Errors
/// The operating system refuses the thread.
pub fn start(config: &SourceConfig, context: SourceContext) -> std::io::Result<SourceHandle> {
    let (opened, synthetic) = (config.clone(), context.synthetic.clone());
    spawn(config, context, move || {
        let source: Box<dyn Source> = match &opened.uri {
            SourceUri::Synthetic(scene) => synthetic_source(&opened, scene, synthetic.as_ref())?,
            SourceUri::Images(folder) => Box::new(ImageFolderSource::from_folder(&opened, folder)),
            _ => Box::new(GstSource::new(&opened)),
        };
        Ok(source)
    })
}

/// Plays `files` on its own thread, configured by `config` otherwise. Files that cannot be read are reported to
/// `on_unreadable` and skipped.
///
/// # Errors
/// The operating system refuses the thread.
pub fn start_image_source(
    config: &SourceConfig,
    files: Arc<[PathBuf]>,
    on_unreadable: UnreadableHandler,
    context: SourceContext,
) -> std::io::Result<SourceHandle> {
    let made = config.clone();
    spawn(config, context, move || {
        Ok(Box::new(ImageFolderSource::listed(
            made,
            files,
            on_unreadable,
        )))
    })
}

fn synthetic_source(
    config: &SourceConfig,
    scene: &SyntheticScene,
    factory: Option<&SyntheticFactory>,
) -> Result<Box<dyn Source>, SourceError> {
    let factory = factory.ok_or_else(|| SourceError::Unsupported {
        uri: config.uri.to_string(),
        reason: "this program has no synthetic sources; name another source, or hand in a SyntheticFactory"
            .to_owned(),
    })?;
    let options = SyntheticOptions {
        loop_at_end: config.loop_at_end,
        roi: config.roi,
        max_fps: config.max_fps,
    };
    Ok(factory(scene, options))
}

/// Starts the source that `make` creates, on a thread named `source-NAME`; `config` controls the retries. An error of `make`
/// is permanent.
fn spawn(
    config: &SourceConfig,
    context: SourceContext,
    make: impl FnOnce() -> Result<Box<dyn Source>, SourceError> + Send + 'static,
) -> std::io::Result<SourceHandle> {
    let config = config.clone();
    // Linux keeps 15 bytes of a thread name.
    let thread_name: String = format!("source-{}", context.name)
        .chars()
        .take(15)
        .collect();
    let is_refused: Arc<AtomicBool> = Arc::default();
    let refused = Arc::clone(&is_refused);
    let thread = thread::Builder::new()
        .name(thread_name.clone())
        .spawn(move || {
            telemetry::name_thread(&thread_name);
            let result = match make() {
                Ok(mut source) => supervise(source.as_mut(), &config, &context, &refused),
                Err(error) => Err(fail(error, &context)),
            };
            context.heartbeat.idle();
            context.handler.ended(context.id);
            result
        })?;
    Ok(SourceHandle { thread, is_refused })
}

/// Reports a failure for good and returns it.
fn fail(error: SourceError, context: &SourceContext) -> SourceError {
    let text = error.to_string();
    log::error!(source = context.name.as_str(); "failed: {text}");
    context
        .handler
        .state_changed(context.id, SourceState::Offline, Some(text));
    error
}

/// Waits between the sessions of a source.
struct Waits {
    failed: Backoff,
    refused: Backoff,
}

impl Waits {
    fn new(config: &SourceConfig) -> Self {
        let first = REFUSED_WAIT.max(config.reconnect_max_wait);
        Self {
            failed: Backoff::new(config.reconnect_wait, config.reconnect_max_wait),
            refused: Backoff::new(first, REFUSED_MAX_WAIT.max(first)),
        }
    }

    /// The wait after a session that failed with `error`.
    fn after(&mut self, error: &SourceError) -> Duration {
        match error.is_refusal() {
            true => self.refused.advance(),
            false => self.failed.advance(),
        }
    }

    /// A session delivered frames for a good while: the next failure counts as the first.
    fn reset(&mut self) {
        self.failed.reset();
        self.refused.reset();
    }
}

fn supervise(
    source: &mut dyn Source,
    config: &SourceConfig,
    context: &SourceContext,
    is_refused: &AtomicBool,
) -> Result<(), SourceError> {
    let live = config.uri.is_live();
    let is_csi = matches!(config.uri, SourceUri::Csi { .. });
    if is_csi {
        context.argus.add_source(&context.counters);
    }
    let mut waits = Waits::new(config);
    let mut failures = FailureLog::default();
    let report = |state, detail: Option<&str>| {
        let detail = detail.map(str::to_owned);
        context.handler.state_changed(context.id, state, detail);
    };
    report(SourceState::Connecting, None);
    loop {
        context.heartbeat.busy();
        let online_since: Cell<Option<Instant>> = Cell::new(None);
        let result = source.run_once(context, &|| {
            online_since.set(Some(Instant::now()));
            log::info!(source = context.name.as_str(); "online");
            report(SourceState::Online, None);
        });
        let error = match result {
            Ok(SessionEnd::Stopped) => {
                report(SourceState::Ended, Some("stopped"));
                return Ok(());
            }
            Ok(SessionEnd::EndOfMedia)
                if !live || matches!(config.uri, SourceUri::Synthetic(_)) =>
            {
                log::info!(source = context.name.as_str(), frames = context.counters.frames(); "end of media");
                report(SourceState::Ended, None);
                return Ok(());
            }
            // A camera or server does not end a stream by itself: it was closed at the other end.
            Ok(SessionEnd::EndOfMedia) => SourceError::Element {
                element: context.name.clone(),
                message: "the source ended the stream".to_owned(),
                hint: None,
            },
            // The next session copies, so this happens once and is not a failure of the source.
            Err(SourceError::ZeroCopyFailed) => {
                log::info!(source = context.name.as_str(); "reopened without zero-copy");
                continue;
            }
            Err(error) => error,
        };
        if error.is_permanent(live) {
            return Err(fail(error, context));
        }
        let mut text = error.to_string();
        let online = online_since.get().map(|since| since.elapsed());
        if online.is_some_and(|online| online >= STEADY_AFTER) {
            waits.reset();
            failures.reset();
        }
        if is_csi && let Some(fault) = context.argus.on_failure(&error, online, Instant::now()) {
            text = format!("{text}; {fault}");
        }
        let wait = waits.after(&error);
        if let Some(repeats) = failures.admit(&text, Instant::now()) {
            let (source, retry_ms) = (context.name.as_str(), wait.as_millis() as u64);
            match repeats {
                0 => log::warn!(source, retry_ms; "{text}"),
                _ => log::warn!(source, retry_ms, repeats; "{text}"),
            }
        }
        is_refused.store(error.is_refusal(), Ordering::Relaxed);
        report(SourceState::Offline, Some(&text));
        context.heartbeat.idle();
        if context.stop.wait(wait) {
            report(SourceState::Ended, Some("stopped"));
            return Ok(());
        }
        is_refused.store(false, Ordering::Relaxed);
        context.counters.reconnects.fetch_add(1, Ordering::Relaxed);
        report(SourceState::Connecting, None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jetwatch_config::Config;
    use jetwatch_telemetry::StopToken;
    use jetwatch_types::{Frame, Placement, Size};

    use super::*;
    use crate::{Flow, FrameHandler};

    struct NoFrames;

    impl FrameHandler for NoFrames {
        fn frame(&self, _frame: Frame) -> Flow {
            Flow::Stop
        }
    }

    #[test]
    fn refused_credentials_are_tried_rarely() {
        let config = Config::for_source("synthetic://traffic", None).expect("a scene");
        let mut waits = Waits::new(&config.sources[0]);
        let refused = SourceError::AccessRefused {
            element: "rtsp".to_owned(),
            message: "Unauthorized (401)".to_owned(),
        };
        let seconds: Vec<u64> = (0..7).map(|_| waits.after(&refused).as_secs()).collect();
        assert_eq!(seconds, [30, 60, 120, 240, 480, 600, 600]);
        let first = config.sources[0].reconnect_wait;
        assert_eq!(waits.after(&SourceError::Empty), first, "another failure");
        assert_eq!(waits.after(&refused).as_secs(), 600);
        waits.reset();
        assert_eq!(waits.after(&refused).as_secs(), 30);
    }

    #[test]
    fn synthetic_source_without_factory_fails_with_a_remedy() {
        let config = Config::for_source("synthetic://traffic?seed=3", None).expect("a scene");
        let context = SourceContext::standalone(
            "street",
            Size::new(64, 64),
            Placement::default(),
            &StopToken::default(),
            Arc::new(NoFrames),
        );
        let handle = start(&config.sources[0], context).expect("a thread");
        let error = handle.join().expect_err("no factory").to_string();
        assert!(
            error.starts_with("synthetic://") && error.contains("SyntheticFactory"),
            "{error}"
        );
    }
}
