//! Pictures that are wanted after the network, by a recording or by secondary networks: counted, so that never more than a few of these large pictures are alive, whoever lags.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jetwatch_types::Image;

/// Hears of each view that is kept (1) or given back (-1), on the thread that does it.
pub type BudgetObserver = Arc<dyn Fn(isize) + Send + Sync>;

/// Keeps at most so many views.
#[derive(Clone)]
pub struct ImageBudget {
    in_use: Arc<AtomicUsize>,
    max: usize,
    observer: Option<BudgetObserver>,
}

/// A view that is kept; its place is free when it is dropped.
pub struct BudgetedImage {
    image: Image,
    in_use: Arc<AtomicUsize>,
    observer: Option<BudgetObserver>,
}

impl ImageBudget {
    /// A shelf for `max` views.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            in_use: Arc::default(),
            max,
            observer: None,
        }
    }

    /// Tells `observer` of every view from now on.
    #[must_use]
    pub fn with_observer(mut self, observer: BudgetObserver) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Keeps a view; `None` when the shelf is full: then the view goes back to its pool.
    #[must_use]
    pub fn try_acquire(&self, image: Image) -> Option<BudgetedImage> {
        let max = self.max;
        let more = |kept: usize| (kept < max).then_some(kept + 1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.in_use.fetch_update(set, fetch, more).ok()?;
        if let Some(watch) = &self.observer {
            watch(1);
        }
        Some(BudgetedImage {
            image,
            in_use: Arc::clone(&self.in_use),
            observer: self.observer.clone(),
        })
    }
}

impl Deref for BudgetedImage {
    type Target = Image;

    fn deref(&self) -> &Image {
        &self.image
    }
}

impl Drop for BudgetedImage {
    fn drop(&mut self) {
        self.in_use.fetch_sub(1, Ordering::AcqRel);
        if let Some(watch) = &self.observer {
            watch(-1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::Size;

    #[test]
    fn a_full_budget_admits_no_image_until_one_is_released() {
        let picture = || Image::new(Size::new(1, 1), 4, Box::new([0_u8; 4])).expect("4 bytes");
        let shelf = ImageBudget::new(2);
        let first = shelf.try_acquire(picture()).expect("room");
        let second = shelf.clone().try_acquire(picture()).expect("room");
        assert!(shelf.try_acquire(picture()).is_none());
        assert_eq!(second.size, Size::new(1, 1));
        drop(first);
        assert!(shelf.try_acquire(picture()).is_some());
    }
}
