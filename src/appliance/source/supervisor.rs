//! Keeps one source alive: opens it, and reopens it with growing waits when it fails or stalls.
//!
//! Sessions and retries are separate: `Source::run_once` is one session and may fail; this loop decides what follows.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jetwatch_config::{SourceConfig, SourceUri, SyntheticScene};
use jetwatch_telemetry as telemetry;
use jetwatch_types::{Backoff, SourceState};

use super::image_folder::ImageFolderSource;
use super::{
    SessionEnd, Source, SourceContext, SourceError, SyntheticFactory, SyntheticOptions,
    gst::GstSource,
};

/// A session that delivered frames for at least this long resets the wait.
const STEADY_AFTER: Duration = Duration::from_secs(10);

/// A running source.
pub struct SourceHandle {
    thread: JoinHandle<Result<(), SourceError>>,
}

impl SourceHandle {
    /// Whether the thread of the source has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
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
pub(super) fn spawn(
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
    let thread = thread::Builder::new()
        .name(thread_name.clone())
        .spawn(move || {
            telemetry::name_thread(&thread_name);
            let result = match make() {
                Ok(mut source) => supervise(source.as_mut(), &config, &context),
                Err(error) => Err(fail(error, &context)),
            };
            context.heartbeat.idle();
            context.handler.ended(context.id);
            result
        })?;
    Ok(SourceHandle { thread })
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

fn supervise(
    source: &mut dyn Source,
    config: &SourceConfig,
    context: &SourceContext,
) -> Result<(), SourceError> {
    let live = config.uri.is_live();
    let is_csi = matches!(config.uri, SourceUri::Csi { .. });
    if is_csi {
        context.argus.add_source(&context.counters);
    }
    let mut backoff = Backoff::new(config.reconnect_wait, config.reconnect_max_wait);
    context
        .handler
        .state_changed(context.id, SourceState::Connecting, None);
    loop {
        context.heartbeat.busy();
        let online_since: Cell<Option<Instant>> = Cell::new(None);
        let result = source.run_once(context, &|| {
            online_since.set(Some(Instant::now()));
            log::info!(source = context.name.as_str(); "online");
            context
                .handler
                .state_changed(context.id, SourceState::Online, None);
        });
        let error = match result {
            Ok(SessionEnd::Stopped) => {
                context.handler.state_changed(
                    context.id,
                    SourceState::Ended,
                    Some("stopped".to_owned()),
                );
                return Ok(());
            }
            Ok(SessionEnd::EndOfMedia)
                if !live || matches!(config.uri, SourceUri::Synthetic(_)) =>
            {
                log::info!(source = context.name.as_str(), frames = context.counters.frames(); "end of media");
                context
                    .handler
                    .state_changed(context.id, SourceState::Ended, None);
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
        let is_steady = online_since
            .get()
            .is_some_and(|since| since.elapsed() >= STEADY_AFTER);
        if is_steady {
            backoff.reset();
        }
        if is_csi && let Some(fault) = context.argus.on_failure(&error, is_steady, Instant::now()) {
            text = format!("{text}; {fault}");
        }
        let wait = backoff.advance();
        log::warn!(source = context.name.as_str(), retry_ms = wait.as_millis() as u64; "{text}");
        context
            .handler
            .state_changed(context.id, SourceState::Offline, Some(text));
        context.heartbeat.idle();
        if context.stop.wait(wait) {
            context.handler.state_changed(
                context.id,
                SourceState::Ended,
                Some("stopped".to_owned()),
            );
            return Ok(());
        }
        context.counters.reconnects.fetch_add(1, Ordering::Relaxed);
        context
            .handler
            .state_changed(context.id, SourceState::Connecting, None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jetwatch_config::Config;
    use jetwatch_types::{Frame, Placement, Size};

    use super::*;
    use crate::{Flow, FrameHandler, StopToken};

    struct NoFrames;

    impl FrameHandler for NoFrames {
        fn frame(&self, _frame: Frame) -> Flow {
            Flow::Stop
        }
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
