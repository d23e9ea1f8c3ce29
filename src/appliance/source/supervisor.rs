//! Keeps one source alive: opens it, and reopens it with growing waits when it fails or stalls.
//!
//! Sessions and retries are separate: `Source::run_once` is one session and may fail; this loop decides what follows.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jetwatch_config::{SourceConfig, SourceUri};
use jetwatch_telemetry as telemetry;
use jetwatch_types::SourceState;

use super::image_folder::ImageFolderSource;
use super::{
    SessionEnd, Source, SourceContext, SourceError, gst::GstSource, synthetic::SyntheticSource,
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
    let opened = config.clone();
    spawn(config, context, move || match &opened.uri {
        SourceUri::Synthetic(scene) => {
            let source =
                SyntheticSource::new(scene, opened.loop_at_end).with_max_fps(opened.max_fps);
            Box::new(source.with_roi(opened.roi))
        }
        SourceUri::Images(folder) => Box::new(ImageFolderSource::from_folder(&opened, folder)),
        _ => Box::new(GstSource::new(&opened)),
    })
}

/// Starts the source that `make` creates, on a thread named `source-NAME`; `config` controls the retries.
pub(super) fn spawn(
    config: &SourceConfig,
    context: SourceContext,
    make: impl FnOnce() -> Box<dyn Source> + Send + 'static,
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
            let result = supervise(make().as_mut(), &config, &context);
            context.heartbeat.idle();
            context.handler.ended(context.id);
            result
        })?;
    Ok(SourceHandle { thread })
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
    let mut wait = config.reconnect_wait;
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
        let mut text = error.to_string();
        if error.is_permanent(live) {
            log::error!(source = context.name.as_str(); "failed: {text}");
            context
                .handler
                .state_changed(context.id, SourceState::Offline, Some(text));
            return Err(error);
        }
        let is_steady = online_since
            .get()
            .is_some_and(|since| since.elapsed() >= STEADY_AFTER);
        if is_steady {
            wait = config.reconnect_wait;
        }
        if is_csi && let Some(fault) = context.argus.on_failure(&error, is_steady, Instant::now()) {
            text = format!("{text}; {fault}");
        }
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
        wait = (wait * 2).min(config.reconnect_max_wait);
        context.counters.reconnects.fetch_add(1, Ordering::Relaxed);
        context
            .handler
            .state_changed(context.id, SourceState::Connecting, None);
    }
}
