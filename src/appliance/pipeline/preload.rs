// SPDX-License-Identifier: Apache-2.0
//! Loads the first frames of a source into memory, for callers that run a detector without a pipeline.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use jetwatch_config::SourceConfig;
use jetwatch_detect as detect;
use jetwatch_source::{self as source, Flow, FrameHandler, SourceContext, SyntheticFactory};
use jetwatch_telemetry::StopToken;
use jetwatch_types::Frame;

use super::PipelineError;

/// Keeps the first frames of a source, then stops it.
struct FirstFrames {
    kept: Arc<Mutex<Vec<Frame>>>,
    wanted: usize,
    stop: StopToken,
}

impl FrameHandler for FirstFrames {
    fn frame(&self, frame: Frame) -> Flow {
        let mut kept = self.kept.lock();
        kept.push(frame);
        if kept.len() < self.wanted {
            return Flow::Continue;
        }
        self.stop.stop();
        Flow::Stop
    }
}

/// The first `preload` frames of `source`, at least one, scaled for `prepared` by the elements of the daemon. Blocks until
/// they are loaded. `synthetic` opens a `synthetic://` source.
///
/// # Errors
/// The source cannot be opened, or has no frame.
pub fn preload_frames(
    source: &SourceConfig,
    prepared: &detect::DetectorFactory,
    preload: usize,
    synthetic: Option<&SyntheticFactory>,
) -> Result<Vec<Frame>, PipelineError> {
    let kept: Arc<Mutex<Vec<Frame>>> = Arc::default();
    let stop = StopToken::default();
    let handler = FirstFrames {
        kept: Arc::clone(&kept),
        wanted: preload.max(1),
        stop: stop.clone(),
    };
    let mut context = SourceContext::standalone(
        &source.name,
        prepared.input_size(),
        prepared.placement(),
        &stop,
        Arc::new(handler),
    );
    context.synthetic = synthetic.cloned();
    let handle = source::start(source, context).map_err(|cause| PipelineError::Thread {
        name: format!("source-{}", source.name),
        cause,
    })?;
    while !handle.is_finished() {
        std::thread::sleep(Duration::from_millis(2));
    }
    handle.join()?;
    let frames = std::mem::take(&mut *kept.lock());
    if frames.is_empty() {
        Err(source::SourceError::Empty.into())
    } else {
        Ok(frames)
    }
}
