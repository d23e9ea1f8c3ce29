//! A limit of the frames in a pipeline: sources wait while it is reached.
//!
//! It wraps the [`FrameHandler`] of each source and observes the pipeline, so that the pipeline itself has no limit to ask.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use jetwatch_pipeline::PipelineObserver;
use jetwatch_source::{Flow, FrameHandler, ProcessingPlan};
use jetwatch_types::{Frame, FrameMeta, Image, SourceId, SourceState};

/// Longest wait at the end for crops and images in the pipeline.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Limits the frames, full images and crops in a pipeline.
pub(crate) struct InFlightLimit {
    /// Most frames, and most full images, in the pipeline.
    max_frames: usize,
    /// Most crops with secondary networks when one more frame is admitted.
    max_crops: usize,
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    /// Frames that were admitted and not yet processed.
    frames: usize,
    /// Crops that are with secondary networks.
    crops: usize,
    /// Images that are kept for drawing.
    full_images: usize,
    /// The run ends: every frame is admitted.
    is_open: bool,
}

impl InFlightLimit {
    /// No frame is admitted while there are `max_frames` frames or full images, or more than `max_crops` crops.
    pub(crate) fn new(max_frames: usize, max_crops: usize) -> Self {
        Self {
            max_frames,
            max_crops,
            counts: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits until a frame may enter, then passes it to `push`.
    fn acquire(&self, frame: Frame, push: impl FnOnce(Frame) -> Flow) -> Flow {
        let mut counts = self.counts.lock();
        while !counts.is_open && self.is_full(&counts) {
            self.changed.wait(&mut counts);
        }
        counts.frames += 1;
        drop(counts);
        let flow = push(frame);
        if flow == Flow::Stop {
            self.change(|counts| counts.frames = counts.frames.saturating_sub(1));
        }
        flow
    }

    /// Waits until no image is drawn and no crop is with a network, at most for `timeout`. Frames that no worker has taken do
    /// not count.
    fn drain(&self, timeout: Duration) {
        let is_busy = |counts: &mut Counts| counts.full_images > 0 || counts.crops > 0;
        self.changed
            .wait_while_for(&mut self.counts.lock(), is_busy, timeout);
    }

    fn is_full(&self, counts: &Counts) -> bool {
        counts.frames >= self.max_frames
            || counts.full_images >= self.max_frames
            || counts.crops > self.max_crops
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock());
        self.changed.notify_all();
    }
}

impl PipelineObserver for InFlightLimit {
    fn frame_processed(&self, crops: usize) {
        self.change(|counts| {
            counts.frames = counts.frames.saturating_sub(1);
            counts.crops = crops;
        });
    }

    fn crop_processed(&self, crops: usize) {
        self.change(|counts| counts.crops = crops);
    }

    fn full_images_changed(&self, change: isize) {
        self.change(|counts| counts.full_images = counts.full_images.saturating_add_signed(change));
    }

    fn stopping(&self) {
        self.change(|counts| counts.is_open = true);
    }

    fn workers_ended(&self) {
        self.drain(DRAIN_TIMEOUT);
    }
}

/// Admits the frames of a source to its own handler.
pub(crate) struct LimitedHandler {
    limit: Arc<InFlightLimit>,
    inner: Arc<dyn FrameHandler>,
}

impl LimitedHandler {
    /// Admits frames to `inner` within `limit`.
    pub(crate) fn new(limit: Arc<InFlightLimit>, inner: Arc<dyn FrameHandler>) -> Self {
        Self { limit, inner }
    }
}

impl FrameHandler for LimitedHandler {
    fn frame(&self, frame: Frame) -> Flow {
        self.limit.acquire(frame, |frame| self.inner.frame(frame))
    }

    fn should_skip(&self, source: SourceId) -> bool {
        self.inner.should_skip(source)
    }

    fn skipped(&self, meta: FrameMeta, full_image: Option<Image>) {
        self.inner.skipped(meta, full_image);
    }

    fn state_changed(&self, source: SourceId, state: SourceState, reason: Option<String>) {
        self.inner.state_changed(source, state, reason);
    }

    fn ended(&self, source: SourceId) {
        self.inner.ended(source);
    }

    fn plan(&self, plan: &ProcessingPlan) {
        self.inner.plan(plan);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::Size;

    fn is_full(limit: &InFlightLimit) -> bool {
        limit.is_full(&limit.counts.lock())
    }

    fn frame() -> Frame {
        Frame::black(0, 0, Size::new(1, 1))
    }

    #[test]
    fn serial_mode_leaves_nothing_of_the_previous_frame() {
        let limit = InFlightLimit::new(1, 0);
        assert_eq!(limit.acquire(frame(), |_| Flow::Continue), Flow::Continue);
        assert!(is_full(&limit), "it is in the pipeline");
        limit.full_images_changed(1);
        limit.frame_processed(2);
        assert!(
            is_full(&limit),
            "two crops and an image are in the pipeline"
        );
        limit.crop_processed(0);
        assert!(is_full(&limit), "it is not drawn");
        limit.full_images_changed(-1);
        assert!(!is_full(&limit));
        // A frame that was refused is not in the pipeline.
        assert_eq!(limit.acquire(frame(), |_| Flow::Stop), Flow::Stop);
        assert!(!is_full(&limit));
    }

    #[test]
    fn limit_admits_as_many_frames_as_configured() {
        let limit = InFlightLimit::new(2, 4);
        limit.acquire(frame(), |_| Flow::Continue);
        assert!(!is_full(&limit));
        limit.acquire(frame(), |_| Flow::Continue);
        assert!(is_full(&limit));
        limit.frame_processed(4);
        assert!(!is_full(&limit), "one frame, and few crops");
        limit.crop_processed(5);
        assert!(is_full(&limit));
    }

    #[test]
    fn drain_returns_when_images_and_crops_are_done() {
        let limit = InFlightLimit::new(2, 4);
        // No worker takes this frame any more.
        limit.acquire(frame(), |_| Flow::Continue);
        limit.full_images_changed(1);
        limit.frame_processed(1);
        std::thread::scope(|scope| {
            let draining = scope.spawn(|| limit.drain(Duration::from_secs(60)));
            limit.full_images_changed(-1);
            limit.crop_processed(0);
            draining.join().expect("no panic");
        });
        limit.drain(Duration::from_secs(60));
    }

    #[test]
    fn open_limit_wakes_waiting_threads() {
        let limit = InFlightLimit::new(1, 0);
        limit.acquire(frame(), |_| Flow::Continue);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| limit.acquire(frame(), |_| Flow::Stop));
            limit.stopping();
            assert_eq!(waiting.join().expect("no panic"), Flow::Stop);
        });
    }

    /// Counts the frames that reach it, and the skip decisions that it is asked for.
    #[derive(Default)]
    struct CountingHandler(Mutex<(usize, usize)>);

    impl FrameHandler for CountingHandler {
        fn frame(&self, _frame: Frame) -> Flow {
            self.0.lock().0 += 1;
            Flow::Continue
        }

        fn should_skip(&self, _source: SourceId) -> bool {
            self.0.lock().1 += 1;
            true
        }
    }

    #[test]
    fn limited_handler_forwards_to_inner_handler() {
        let (limit, inner) = (
            Arc::new(InFlightLimit::new(2, 0)),
            Arc::new(CountingHandler::default()),
        );
        let handler = LimitedHandler::new(Arc::clone(&limit), Arc::clone(&inner) as _);
        assert_eq!(handler.frame(frame()), Flow::Continue);
        assert!(handler.should_skip(SourceId(0)));
        assert_eq!(*inner.0.lock(), (1, 1));
        assert_eq!(limit.counts.lock().frames, 1);
    }
}
