//! Pictures that are wanted after the network, by a recording or by secondary networks: counted, so that never more than a few of these large pictures are alive, whoever lags.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jetwatch_types::Picture;

/// Hears of each view that is kept (1) or given back (-1), on the thread that does it.
pub type Watch = Arc<dyn Fn(isize) + Send + Sync>;

/// Keeps at most so many views.
#[derive(Clone)]
pub struct Shelf {
    kept: Arc<AtomicUsize>,
    most: usize,
    watch: Option<Watch>,
}

/// A view that is kept; its place is free when it is dropped.
pub struct KeptView {
    picture: Picture,
    kept: Arc<AtomicUsize>,
    watch: Option<Watch>,
}

impl Shelf {
    /// A shelf for `most` views.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            kept: Arc::default(),
            most,
            watch: None,
        }
    }

    /// Tells `watch` of every view from now on.
    #[must_use]
    pub fn watched(mut self, watch: Watch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Keeps a view; `None` when the shelf is full: then the view goes back to its pool.
    #[must_use]
    pub fn keep(&self, picture: Picture) -> Option<KeptView> {
        let most = self.most;
        let more = |kept: usize| (kept < most).then_some(kept + 1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.kept.fetch_update(set, fetch, more).ok()?;
        if let Some(watch) = &self.watch {
            watch(1);
        }
        Some(KeptView {
            picture,
            kept: Arc::clone(&self.kept),
            watch: self.watch.clone(),
        })
    }
}

impl Deref for KeptView {
    type Target = Picture;

    fn deref(&self) -> &Picture {
        &self.picture
    }
}

impl Drop for KeptView {
    fn drop(&mut self) {
        self.kept.fetch_sub(1, Ordering::AcqRel);
        if let Some(watch) = &self.watch {
            watch(-1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::Size;

    #[test]
    fn a_full_shelf_keeps_no_more_until_one_is_gone() {
        let picture = || Picture::new(Size::new(1, 1), 4, Box::new([0_u8; 4])).expect("4 bytes");
        let shelf = Shelf::new(2);
        let first = shelf.keep(picture()).expect("room");
        let second = shelf.clone().keep(picture()).expect("room");
        assert!(shelf.keep(picture()).is_none());
        assert_eq!(second.size, Size::new(1, 1));
        drop(first);
        assert!(shelf.keep(picture()).is_some());
    }
}
