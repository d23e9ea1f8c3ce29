//! Pictures that are kept until the follower knows the tracks of their frame: at most so many at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::Config;
use crate::types::{Frame, Picture};

/// How many pictures may be kept at a time. Clones count together.
#[derive(Debug, Clone)]
pub(in crate::pipeline) struct Permits {
    kept: Arc<AtomicUsize>,
    most: usize,
}

/// A picture that is kept.
pub(in crate::pipeline) struct Pixels {
    picture: Picture,
    kept: Arc<AtomicUsize>,
}

impl Permits {
    /// Lets `most` pictures be kept at a time.
    pub(in crate::pipeline) fn new(most: usize) -> Self {
        Self {
            kept: Arc::default(),
            most,
        }
    }

    /// As many as the detector's workers have in hand at a time, and as many again on their way; `None` when `config` has no
    /// secondary network.
    pub(in crate::pipeline) fn for_config(config: &Config) -> Option<Self> {
        let in_hand = config.detector.workers * config.detector.batch_size;
        (!config.secondary.is_empty()).then(|| Self::new(2 * in_hand))
    }

    /// Keeps the picture of a frame: that at source size where there is one, else that at the network's. `None` when the
    /// processor cannot read it, or when enough are kept already: the frame then goes on without.
    pub(in crate::pipeline) fn keep(&self, frame: Frame) -> Option<Pixels> {
        let picture = frame.view.unwrap_or(frame.picture);
        if !picture.has_rows() {
            return None;
        }
        let one_more = |kept| (kept < self.most).then_some(kept + 1);
        self.kept
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        Some(Pixels {
            picture,
            kept: Arc::clone(&self.kept),
        })
    }
}

impl Pixels {
    /// The picture, whose rows the processor can read.
    pub(super) fn picture(&self) -> &Picture {
        &self.picture
    }
}

impl Drop for Pixels {
    fn drop(&mut self) {
        self.kept.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use super::*;
    use crate::types::{FrameMeta, Size, SourceId};

    fn frame(picture: Picture, view: Option<Picture>) -> Frame {
        let meta = FrameMeta {
            source: SourceId(0),
            seq: 0,
            pts: None,
            captured_at: SystemTime::UNIX_EPOCH,
            entered_at: Instant::now(),
            source_size: Size::new(4, 2),
        };
        Frame {
            meta,
            picture,
            view,
            truth: Vec::new(),
        }
    }

    fn rows(width: u32, height: u32) -> Picture {
        let bytes = vec![0; (width * height * 4) as usize];
        Picture::new(
            Size::new(width, height),
            width as usize * 4,
            Box::new(bytes),
        )
        .expect("the memory is large enough")
    }

    #[test]
    fn the_larger_picture_is_kept_and_never_more_than_allowed() {
        let permits = Permits::new(2);
        let view = permits
            .keep(frame(rows(2, 1), Some(rows(4, 2))))
            .expect("the first");
        assert_eq!(view.picture().size, Size::new(4, 2));
        let scaled = permits.keep(frame(rows(2, 1), None)).expect("the second");
        assert_eq!(scaled.picture().size, Size::new(2, 1));
        assert!(permits.keep(frame(rows(2, 1), None)).is_none(), "a third");
        drop(view);
        let elsewhere = Picture::elsewhere(Size::new(2, 1), ());
        assert!(permits.keep(frame(elsewhere, None)).is_none(), "no rows");
        assert!(
            permits.keep(frame(rows(2, 1), None)).is_some(),
            "one was given back"
        );
    }
}
