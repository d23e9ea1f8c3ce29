//! How the chain is laid out: the daemon's own way, and the ways that `jetwatch bench --ablation` compares it with.
//!
//! The daemon drops what the recording and secondary networks cannot keep up with. In the ablation nothing is dropped, so that
//! every step does the whole of its work: a gate bounds the frames that are in the chain, and the sources wait before it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use jetwatch_config::{Config, SourceConfig};
use jetwatch_record::{Lag, Recording, Shelf};
use jetwatch_source::{Flow, PictureWish, ViewWish};
use jetwatch_types::Frame;

use super::NEWS_DEPTH;
use super::follow::News;
use super::intervals;

/// Batches of each worker that may be in the chain at once in the ablation: one that is formed, one in the network, one behind it.
const BATCHES_INSIDE: usize = 3;

/// Batches of crops of each worker that may wait in the ablation: a track whose crop waits is not cut anew, so that a long queue
/// would be less work.
const CROP_BATCHES: usize = 2;

/// Which way the chain goes. The default is the daemon's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Course {
    /// How frames follow each other.
    pub turns: Turns,
    /// Where pictures get the size that the network wants.
    pub scaling: ScalingPlace,
}

/// How frames follow each other through the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Turns {
    /// Queues between the threads; what is beside the chain drops what it cannot keep up with.
    #[default]
    Live,
    /// Queues between the threads; the sources wait for all others, and nothing is dropped.
    Patient,
    /// The next frame is taken when the one before has been published, drawn, and looked at by every network.
    OneByOne,
}

/// Where pictures get the size that the network wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScalingPlace {
    /// In the source, on the unit that is there for it.
    #[default]
    Source,
    /// Behind the queue, by the detector's worker on the processor, while it prepares its batch.
    Detector,
}

impl Course {
    /// What sources are asked for, where a later step `looks` at pictures.
    pub(super) fn wishes(self, looks: bool) -> (PictureWish, ViewWish) {
        match (self.scaling, looks) {
            // The picture is as large as a view.
            (ScalingPlace::Detector, _) => (PictureWish::SourceSize, ViewWish::Nothing),
            (ScalingPlace::Source, true) => (PictureWish::ForNetwork, ViewWish::SourceSize),
            (ScalingPlace::Source, false) => (PictureWish::ForNetwork, ViewWish::Nothing),
        }
    }

    /// Whether the recording may drop frames.
    pub(super) fn lag(self) -> Lag {
        match self.turns {
            Turns::Live => Lag::Drops,
            Turns::Patient | Turns::OneByOne => Lag::Waits,
        }
    }

    /// The way of results to the follower.
    pub(super) fn news(self) -> (Sender<News>, Receiver<News>) {
        match self.turns {
            Turns::Live => bounded(NEWS_DEPTH),
            // The gate bounds it. Else the follower, who waits for nobody, could not be waited for.
            Turns::Patient | Turns::OneByOne => unbounded(),
        }
    }

    /// Whether a source's lane replaces frames that nobody has taken.
    pub(super) fn replaces(self, source: &SourceConfig) -> bool {
        self.turns == Turns::Live && source.uri.is_live()
    }

    /// The gate of a chain.
    pub(super) fn gate(self, config: &Config) -> Gate {
        let batches = burst(config);
        let networks = config.secondary.iter();
        let crops = networks.map(|network| CROP_BATCHES * network.workers * network.batch_size);
        let (room, crops) = match self.turns {
            Turns::Live => return Gate::default(),
            Turns::OneByOne => (1, 0),
            Turns::Patient => (BATCHES_INSIDE * batches + config.sources.len(), crops.sum()),
        };
        Gate::of(room, crops)
    }

    /// Where pictures are kept for later steps; `None` where none looks at them.
    pub(super) fn shelf(self, config: &Config, records: bool, gate: &Gate) -> Option<Shelf> {
        let in_hand = burst(config);
        if !records && config.secondary.is_empty() {
            return None;
        }
        Some(match (self.turns, records) {
            (Turns::Live, true) => {
                Recording::shelf(in_hand + intervals::most_carried(config), in_hand)
            }
            // As many as are in hand at a time, and as many again on their way.
            (Turns::Live, false) => Shelf::new(2 * in_hand),
            (Turns::Patient | Turns::OneByOne, _) => gate.shelf(),
        })
    }
}

/// Most frames that the detector's workers are through with at once.
pub(super) fn burst(config: &Config) -> usize {
    config.detector.workers * config.detector.batch_size
}

/// Before which sources wait while enough frames are in the chain. The default lets all of them through. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Gate {
    inner: Option<Arc<Inner>>,
}

struct Inner {
    /// Most frames inside.
    room: usize,
    /// Most crops that are with networks when one more comes in.
    crops: usize,
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Default)]
struct Inside {
    /// Frames that were handed in and not yet published.
    frames: usize,
    /// Crops that are with secondary networks.
    crops: usize,
    /// Pictures that are kept, to be drawn.
    views: usize,
    /// It lets everybody through: the end has come.
    is_open: bool,
}

impl Gate {
    /// A gate that is full with `room` frames or views, or with more than `crops` crops inside.
    fn of(room: usize, crops: usize) -> Self {
        Self {
            inner: Some(Arc::new(Inner {
                room,
                crops,
                inside: Mutex::default(),
                changed: Condvar::new(),
            })),
        }
    }

    /// Hands a frame in with `offer` when there is room; waits for it.
    pub(super) fn pass(&self, frame: Frame, offer: impl FnOnce(Frame) -> Flow) -> Flow {
        let Some(inner) = &self.inner else {
            return offer(frame);
        };
        let mut inside = inner.lock();
        while !inside.is_open && inner.is_full(&inside) {
            inside = inner
                .changed
                .wait(inside)
                .unwrap_or_else(PoisonError::into_inner);
        }
        inside.frames += 1;
        drop(inside);
        let flow = offer(frame);
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
    pub(super) fn looked(&self, crops: usize) {
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

    /// Waits until nothing is left to be drawn or looked at, at most for `patience`. Frames that nobody has taken do not count.
    pub(super) fn drain(&self, patience: Duration) {
        if let Some(inner) = &self.inner {
            let is_busy = |inside: &mut Inside| inside.views > 0 || inside.crops > 0;
            let waited = inner
                .changed
                .wait_timeout_while(inner.lock(), patience, is_busy);
            drop(waited);
        }
    }

    /// A shelf for as many views as there are, which count as being inside.
    fn shelf(&self) -> Shelf {
        let gate = self.clone();
        Shelf::new(usize::MAX).watched(Arc::new(move |change| {
            if let Some(inner) = &gate.inner {
                inner.change(|inside| {
                    inside.views = inside.views.saturating_add_signed(change);
                });
            }
        }))
    }
}

impl Inner {
    fn is_full(&self, inside: &Inside) -> bool {
        inside.frames >= self.room || inside.views >= self.room || inside.crops > self.crops
    }

    fn change(&self, change: impl FnOnce(&mut Inside)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use jetwatch_types::{Picture, Size};

    fn is_full(gate: &Gate) -> bool {
        let inner = gate.inner.as_ref().expect("it bounds");
        let inside = inner.lock();
        inner.is_full(&inside)
    }

    fn picture() -> Picture {
        Picture::new(Size::new(1, 1), 4, Box::new([0; 4])).expect("four bytes")
    }

    fn frame() -> Frame {
        Frame::black(0, 0, Size::new(1, 1))
    }

    #[test]
    fn one_by_one_nothing_of_the_frame_before_is_left() {
        let gate = Gate::of(1, 0);
        let shelf = gate.shelf();
        assert_eq!(gate.pass(frame(), |_| Flow::Continue), Flow::Continue);
        assert!(is_full(&gate), "it is in the chain");
        let view = shelf.keep(picture()).expect("there is room");
        gate.published(2);
        assert!(is_full(&gate), "two crops and a view are on their way");
        gate.looked(0);
        assert!(is_full(&gate), "it is not drawn");
        drop(view);
        assert!(!is_full(&gate));
        // One that was not wanted is not inside.
        assert_eq!(gate.pass(frame(), |_| Flow::Stop), Flow::Stop);
        assert!(!is_full(&gate));
    }

    #[test]
    fn a_gate_lets_as_many_in_as_it_has_room_for() {
        let gate = Gate::of(2, 4);
        gate.pass(frame(), |_| Flow::Continue);
        assert!(!is_full(&gate));
        gate.pass(frame(), |_| Flow::Continue);
        assert!(is_full(&gate));
        gate.published(4);
        assert!(!is_full(&gate), "there is one, and a few crops wait");
        gate.looked(5);
        assert!(is_full(&gate));
    }

    #[test]
    fn a_gate_is_drained_when_all_is_drawn_and_looked_at() {
        let gate = Gate::of(2, 4);
        let shelf = gate.shelf();
        // One that nobody takes any more.
        gate.pass(frame(), |_| Flow::Continue);
        let view = shelf.keep(picture()).expect("there is room");
        gate.published(1);
        std::thread::scope(|scope| {
            let draining = scope.spawn(|| gate.drain(Duration::from_secs(60)));
            drop(view);
            gate.looked(0);
            draining.join().expect("no panic");
        });
        Gate::default().drain(Duration::from_secs(60));
    }

    #[test]
    fn an_open_gate_lets_go_who_waits() {
        let gate = Gate::of(1, 0);
        gate.pass(frame(), |_| Flow::Continue);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.pass(frame(), |_| Flow::Stop));
            gate.open();
            assert_eq!(waiting.join().expect("no panic"), Flow::Stop);
        });
        // The daemon's own has no bounds.
        let live = Gate::default();
        for _ in 0..3 {
            assert_eq!(live.pass(frame(), |_| Flow::Continue), Flow::Continue);
        }
    }
}
