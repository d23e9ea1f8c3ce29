//! How the chain is laid out: the daemon's own way, and the ways that `jetwatch bench --ablation` compares it with.
//!
//! The daemon drops what the recording and secondary networks cannot keep up with. In the ablation nothing is dropped, so that
//! every step does the whole of its work: a gate bounds the frames that are in the chain, and the sources wait before it.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use parking_lot::{Condvar, Mutex, MutexGuard};

use jetwatch_config::{Config, SourceConfig};
use jetwatch_record::{ImageBudget, OverflowPolicy, Recording};
use jetwatch_source::{Flow, FullImage, ImageSize};
use jetwatch_types::Frame;

use super::CHANNEL_DEPTH;
use super::sources;
use super::track::TrackInput;

/// Batches of each worker that may be in the chain at once in the ablation: one that is formed, one in the network, one behind it.
const BATCHES_IN_FLIGHT: usize = 3;

/// Batches of crops of each worker that may wait in the ablation: a track whose crop waits is not cut anew, so that a long queue
/// would be less work.
const CROP_BATCHES: usize = 2;

/// Which way the chain goes. The default is the daemon's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExecutionMode {
    /// How frames follow each other.
    pub backpressure: Backpressure,
    /// Where pictures get the size that the network wants.
    pub scale_at: ScaleAt,
}

/// How frames follow each other through the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backpressure {
    /// Queues between the threads; what is beside the chain drops what it cannot keep up with.
    #[default]
    Drop,
    /// Queues between the threads; the sources wait for all others, and nothing is dropped.
    Block,
    /// The next frame is taken when the one before has been published, drawn, and looked at by every network.
    Serial,
}

/// Where pictures get the size that the network wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScaleAt {
    /// In the source, on the unit that is there for it.
    #[default]
    Source,
    /// Behind the queue, by the detector's worker on the processor, while it prepares its batch.
    Detector,
}

impl ExecutionMode {
    /// What sources are asked for, where a later step `results` at pictures.
    pub(super) fn image_requests(self, needs_full_image: bool) -> (ImageSize, FullImage) {
        match (self.scale_at, needs_full_image) {
            // The picture is as large as a view.
            (ScaleAt::Detector, _) => (ImageSize::Source, FullImage::None),
            (ScaleAt::Source, true) => (ImageSize::Network, FullImage::SourceSize),
            (ScaleAt::Source, false) => (ImageSize::Network, FullImage::None),
        }
    }

    /// Whether the recording may drop frames.
    pub(super) fn overflow_policy(self) -> OverflowPolicy {
        match self.backpressure {
            Backpressure::Drop => OverflowPolicy::Drop,
            Backpressure::Block | Backpressure::Serial => OverflowPolicy::Block,
        }
    }

    /// The way of results to the follower.
    pub(super) fn input_channel(self) -> (Sender<TrackInput>, Receiver<TrackInput>) {
        match self.backpressure {
            Backpressure::Drop => bounded(CHANNEL_DEPTH),
            // The gate bounds it. Else the follower, who waits for nobody, could not be waited for.
            Backpressure::Block | Backpressure::Serial => unbounded(),
        }
    }

    /// Whether a source's lane replaces frames that nobody has taken.
    pub(super) fn drops_frames(self, source: &SourceConfig) -> bool {
        self.backpressure == Backpressure::Drop && source.uri.is_live()
    }

    /// The gate of a chain.
    pub(super) fn in_flight_limit(self, config: &Config) -> InFlightLimit {
        let batches = max_in_flight(config);
        let networks = config.secondary.iter();
        let crops = networks.map(|network| CROP_BATCHES * network.workers * network.batch_size);
        let (room, crops) = match self.backpressure {
            Backpressure::Drop => return InFlightLimit::default(),
            Backpressure::Serial => (1, 0),
            Backpressure::Block => (
                BATCHES_IN_FLIGHT * batches + config.sources.len(),
                crops.sum(),
            ),
        };
        InFlightLimit::new(room, crops)
    }

    /// Where pictures are kept for later steps; `None` where none looks at them.
    pub(super) fn image_budget(
        self,
        config: &Config,
        records: bool,
        in_flight: &InFlightLimit,
    ) -> Option<ImageBudget> {
        let in_hand = max_in_flight(config);
        if !records && config.secondary.is_empty() {
            return None;
        }
        Some(match (self.backpressure, records) {
            (Backpressure::Drop, true) => {
                Recording::image_budget(in_hand + sources::max_skipped(config), in_hand)
            }
            // As many as are in hand at a time, and as many again on their way.
            (Backpressure::Drop, false) => ImageBudget::new(2 * in_hand),
            (Backpressure::Block | Backpressure::Serial, _) => in_flight.image_budget(),
        })
    }
}

/// Most frames that the detector's workers are through with at once.
pub(super) fn max_in_flight(config: &Config) -> usize {
    config.detector.workers * config.detector.batch_size
}

/// Before which sources wait while enough frames are in the chain. The default lets all of them through. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct InFlightLimit {
    inner: Option<Arc<Inner>>,
}

struct Inner {
    /// Most frames inside.
    max_frames: usize,
    /// Most crops that are with networks when one more comes in.
    max_crops: usize,
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    /// Frames that were handed in and not yet published.
    frames: usize,
    /// Crops that are with secondary networks.
    crops: usize,
    /// Pictures that are kept, to be drawn.
    full_images: usize,
    /// It lets everybody through: the end has come.
    is_open: bool,
}

impl InFlightLimit {
    /// A gate that is full with `max_frames` frames or views, or with more than `max_crops` crops inside.
    fn new(max_frames: usize, max_crops: usize) -> Self {
        Self {
            inner: Some(Arc::new(Inner {
                max_frames,
                max_crops,
                counts: Mutex::default(),
                changed: Condvar::new(),
            })),
        }
    }

    /// Hands a frame in with `push` when there is room; waits for it.
    pub(super) fn acquire(&self, frame: Frame, push: impl FnOnce(Frame) -> Flow) -> Flow {
        let Some(inner) = &self.inner else {
            return push(frame);
        };
        let mut inside = inner.lock();
        while !inside.is_open && inner.is_full(&inside) {
            inner.changed.wait(&mut inside);
        }
        inside.frames += 1;
        drop(inside);
        let flow = push(frame);
        if flow == Flow::Stop {
            inner.change(|inside| inside.frames = inside.frames.saturating_sub(1));
        }
        flow
    }

    /// A frame was published, and so many crops are with networks now.
    pub(super) fn published(&self, crops: usize) {
        if let Some(inner) = &self.inner {
            inner.change(|inside| {
                inside.frames = inside.frames.saturating_sub(1);
                inside.crops = crops;
            });
        }
    }

    /// So many crops are with networks now.
    pub(super) fn set_crops(&self, crops: usize) {
        if let Some(inner) = &self.inner {
            inner.change(|inside| inside.crops = crops);
        }
    }

    /// Lets everybody through from now on.
    pub(super) fn open(&self) {
        if let Some(inner) = &self.inner {
            inner.change(|inside| inside.is_open = true);
        }
    }

    /// Waits until nothing is left to be drawn or looked at, at most for `timeout`. Frames that nobody has taken do not count.
    pub(super) fn drain(&self, timeout: Duration) {
        if let Some(inner) = &self.inner {
            let is_busy = |inside: &mut Counts| inside.full_images > 0 || inside.crops > 0;
            let mut inside = inner.lock();
            inner.changed.wait_while_for(&mut inside, is_busy, timeout);
        }
    }

    /// A shelf for as many views as there are, which count as being inside.
    fn image_budget(&self) -> ImageBudget {
        let gate = self.clone();
        ImageBudget::new(usize::MAX).with_observer(Arc::new(move |change| {
            if let Some(inner) = &gate.inner {
                inner.change(|inside| {
                    inside.full_images = inside.full_images.saturating_add_signed(change);
                });
            }
        }))
    }
}

impl Inner {
    fn is_full(&self, counts: &Counts) -> bool {
        counts.frames >= self.max_frames
            || counts.full_images >= self.max_frames
            || counts.crops > self.max_crops
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use jetwatch_types::{Image, Size};

    fn is_full(gate: &InFlightLimit) -> bool {
        let inner = gate.inner.as_ref().expect("it bounds");
        let inside = inner.lock();
        inner.is_full(&inside)
    }

    fn image() -> Image {
        Image::new(Size::new(1, 1), 4, Box::new([0; 4])).expect("four bytes")
    }

    fn frame() -> Frame {
        Frame::black(0, 0, Size::new(1, 1))
    }

    #[test]
    fn serial_mode_leaves_nothing_of_the_previous_frame() {
        let gate = InFlightLimit::new(1, 0);
        let shelf = gate.image_budget();
        assert_eq!(gate.acquire(frame(), |_| Flow::Continue), Flow::Continue);
        assert!(is_full(&gate), "it is in the chain");
        let view = shelf.try_acquire(image()).expect("there is room");
        gate.published(2);
        assert!(is_full(&gate), "two crops and a view are on their way");
        gate.set_crops(0);
        assert!(is_full(&gate), "it is not drawn");
        drop(view);
        assert!(!is_full(&gate));
        // One that was not wanted is not inside.
        assert_eq!(gate.acquire(frame(), |_| Flow::Stop), Flow::Stop);
        assert!(!is_full(&gate));
    }

    #[test]
    fn limit_admits_as_many_frames_as_configured() {
        let gate = InFlightLimit::new(2, 4);
        gate.acquire(frame(), |_| Flow::Continue);
        assert!(!is_full(&gate));
        gate.acquire(frame(), |_| Flow::Continue);
        assert!(is_full(&gate));
        gate.published(4);
        assert!(!is_full(&gate), "there is one, and a few crops wait");
        gate.set_crops(5);
        assert!(is_full(&gate));
    }

    #[test]
    fn drain_returns_when_images_and_crops_are_done() {
        let gate = InFlightLimit::new(2, 4);
        let shelf = gate.image_budget();
        // One that nobody takes any more.
        gate.acquire(frame(), |_| Flow::Continue);
        let view = shelf.try_acquire(image()).expect("there is room");
        gate.published(1);
        std::thread::scope(|scope| {
            let draining = scope.spawn(|| gate.drain(Duration::from_secs(60)));
            drop(view);
            gate.set_crops(0);
            draining.join().expect("no panic");
        });
        InFlightLimit::default().drain(Duration::from_secs(60));
    }

    #[test]
    fn open_limit_wakes_waiting_threads() {
        let gate = InFlightLimit::new(1, 0);
        gate.acquire(frame(), |_| Flow::Continue);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.acquire(frame(), |_| Flow::Stop));
            gate.open();
            assert_eq!(waiting.join().expect("no panic"), Flow::Stop);
        });
        // The daemon's own has no bounds.
        let live = InFlightLimit::default();
        for _ in 0..3 {
            assert_eq!(live.acquire(frame(), |_| Flow::Continue), Flow::Continue);
        }
    }
}
