// SPDX-License-Identifier: Apache-2.0
//! Limits the images kept after inference, for a recording or for secondary networks, so that a slow consumer cannot hold
//! more than a fixed number of full-size images.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::Image;

/// Interval in which a thread that waits for room checks whether it is still to wait.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Limits the number of kept images.
#[derive(Clone)]
pub struct ImageBudget {
    in_use: Arc<InUse>,
    max: usize,
}

/// The images in use, and who waits for one of them.
#[derive(Default)]
struct InUse {
    count: AtomicUsize,
    lock: Mutex<()>,
    released: Condvar,
}

/// A kept image; dropping it frees its slot.
pub struct BudgetedImage {
    image: Image,
    is_awaited: bool,
    in_use: Arc<InUse>,
}

impl ImageBudget {
    /// A budget of `max` images.
    pub fn new(max: usize) -> Self {
        Self {
            in_use: Arc::default(),
            max,
        }
    }

    /// Keeps an image; `None` when the budget is used up: the image returns to its pool.
    pub fn try_acquire(&self, image: Image) -> Option<BudgetedImage> {
        let max = self.max;
        let more = |in_use: usize| (in_use < max).then_some(in_use + 1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.in_use.count.fetch_update(set, fetch, more).ok()?;
        Some(self.budgeted(image, false))
    }

    /// Keeps an image even when the budget is used up, for a source whose reader [waits](Self::wait_for_room) instead: no
    /// consumer may drop it.
    pub fn acquire(&self, image: Image) -> BudgetedImage {
        self.in_use.count.fetch_add(1, Ordering::AcqRel);
        self.budgeted(image, true)
    }

    /// Blocks while the budget is used up, until `gives_up` returns true, which is asked ten times a second.
    pub fn wait_for_room(&self, gives_up: &dyn Fn() -> bool) {
        let is_full = || self.in_use.count.load(Ordering::Acquire) >= self.max;
        if !is_full() {
            return;
        }
        let mut lock = self.in_use.lock.lock();
        while is_full() && !gives_up() {
            self.in_use.released.wait_for(&mut lock, CHECK_INTERVAL);
        }
    }

    fn budgeted(&self, image: Image, is_awaited: bool) -> BudgetedImage {
        BudgetedImage {
            image,
            is_awaited,
            in_use: Arc::clone(&self.in_use),
        }
    }
}

impl BudgetedImage {
    /// Whether the reader of its source waits until it is released, so that it need not be dropped.
    pub fn is_awaited(&self) -> bool {
        self.is_awaited
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
        self.in_use.count.fetch_sub(1, Ordering::AcqRel);
        // Under the lock, or a thread that has just found the budget full would miss it.
        drop(self.in_use.lock.lock());
        self.in_use.released.notify_all();
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

    #[test]
    fn a_reader_waits_until_an_image_is_released() {
        let image = || Image::new(Size::new(1, 1), 4, Box::new([0_u8; 4])).expect("4 bytes");
        let budget = ImageBudget::new(1);
        budget.wait_for_room(&|| panic!("there is room"));
        let first = budget.acquire(image());
        let second = budget.acquire(image());
        assert!(first.is_awaited() && budget.try_acquire(image()).is_none());
        drop(first);
        budget.wait_for_room(&|| true);
        let (asked, checks) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                budget.wait_for_room(&move || {
                    let _ = asked.send(());
                    false
                });
            });
            checks.recv().expect("it waits, and asks");
            drop(second);
            waiter.join().expect("it goes on");
        });
        assert!(
            !budget
                .try_acquire(image())
                .expect("a free slot")
                .is_awaited()
        );
    }
}
