//! Limits the images kept after inference, for a recording or for secondary networks, so that a slow consumer cannot hold
//! more than a fixed number of full-size images.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Image;

/// Called for each image that is kept (1) or released (-1), on the calling thread.
pub type BudgetObserver = Arc<dyn Fn(isize) + Send + Sync>;

/// Limits the number of kept images.
#[derive(Clone)]
pub struct ImageBudget {
    in_use: Arc<AtomicUsize>,
    max: usize,
    observer: Option<BudgetObserver>,
}

/// A kept image; dropping it frees its slot.
pub struct BudgetedImage {
    image: Image,
    in_use: Arc<AtomicUsize>,
    observer: Option<BudgetObserver>,
}

impl ImageBudget {
    /// A budget of `max` images.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            in_use: Arc::default(),
            max,
            observer: None,
        }
    }

    /// Calls `observer` for every image from now on.
    #[must_use]
    pub fn with_observer(mut self, observer: BudgetObserver) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Keeps an image; `None` when the budget is used up: the image returns to its pool.
    #[must_use]
    pub fn try_acquire(&self, image: Image) -> Option<BudgetedImage> {
        let max = self.max;
        let more = |in_use: usize| (in_use < max).then_some(in_use + 1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.in_use.fetch_update(set, fetch, more).ok()?;
        if let Some(observer) = &self.observer {
            observer(1);
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
        if let Some(observer) = &self.observer {
            observer(-1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    #[test]
    fn a_full_budget_admits_no_image_until_one_is_released() {
        let image = || Image::new(Size::new(1, 1), 4, Box::new([0_u8; 4])).expect("4 bytes");
        let budget = ImageBudget::new(2);
        let first = budget.try_acquire(image()).expect("a free slot");
        let second = budget.clone().try_acquire(image()).expect("a free slot");
        assert!(budget.try_acquire(image()).is_none());
        assert_eq!(second.size, Size::new(1, 1));
        drop(first);
        assert!(budget.try_acquire(image()).is_some());
    }
}
