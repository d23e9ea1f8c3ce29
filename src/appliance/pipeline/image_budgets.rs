//! Which images are kept after inference, for a recording or for secondary networks.
//!
//! Those of live sources compete for a limited number, and are dropped where it is used up. Where frames are recorded, those of
//! files are all kept: their readers wait until earlier ones are drawn. Each kind has a number of its own, so that a file
//! does not take the places of a camera.

use jetwatch_types::{BudgetedImage, Image, ImageBudget};

/// The budgets of a run. Cheap to clone.
#[derive(Clone)]
pub(super) struct ImageBudgets {
    live: ImageBudget,
    /// `None`: images of files are dropped, too.
    files: Option<ImageBudget>,
}

impl ImageBudgets {
    pub(super) fn new(live: ImageBudget, files: Option<ImageBudget>) -> Self {
        Self { live, files }
    }

    /// Keeps an image of a live source or of a file; `None`: it is dropped.
    pub(super) fn keep(&self, image: Image, is_live: bool) -> Option<BudgetedImage> {
        match &self.files {
            Some(files) if !is_live => Some(files.acquire(image)),
            _ => self.live.try_acquire(image),
        }
    }

    /// Blocks the reader of a file while too many of its images are kept, until `gives_up` returns true.
    pub(super) fn wait_for_room(&self, gives_up: &dyn Fn() -> bool) {
        if let Some(files) = &self.files {
            files.wait_for_room(gives_up);
        }
    }
}
