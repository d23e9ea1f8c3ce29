// SPDX-License-Identifier: Apache-2.0
//! Which images are kept after inference, for a recording or for secondary networks.
//!
//! Those of live sources compete for a limited number, and are dropped where it is used up. Where frames are recorded, those of
//! files are all kept: their readers wait until earlier ones are drawn. Each kind has a number of its own, so that a file
//! does not take the places of a camera.

use jetwatch_config::{Config, Interval};
use jetwatch_record::Recording;
use jetwatch_types::{BudgetedImage, Image, ImageBudget};

use super::web::HELD_IMAGES;

/// The budgets of a run. Cheap to clone.
#[derive(Clone)]
pub(super) struct ImageBudgets {
    live: ImageBudget,
    /// `None`: images of files are dropped, too.
    files: Option<ImageBudget>,
    /// Whether later stages need the image of each frame, and not only of those for pictures of the page.
    needs_each: bool,
}

impl ImageBudgets {
    pub(super) fn new(live: ImageBudget, files: Option<ImageBudget>) -> Self {
        Self {
            live,
            files,
            needs_each: true,
        }
    }

    /// Whether later stages need the image of each frame, and not only of those for pictures of the page.
    pub(super) fn needs_each(&self) -> bool {
        self.needs_each
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

/// Limits the images that are kept for later stages; `None` where no stage needs them.
pub(super) fn image_budgets(config: &Config, records: bool) -> Option<ImageBudgets> {
    let has_page = config.web.listen.is_some();
    let needs_each = records || !config.secondary.is_empty() || config.has_snapshots();
    if !needs_each && !has_page {
        return None;
    }
    let held = if has_page { HELD_IMAGES } else { 0 };
    let mut in_flight = max_in_flight(config);
    if config.tracker.appearance.is_some() {
        // As many wait for the network for the appearance, and one is with each of its workers.
        in_flight += max_in_flight(config);
        in_flight += config
            .secondary
            .iter()
            .map(|network| network.workers)
            .max()
            .unwrap_or(0);
    }
    let budget = match records {
        true => Recording::image_budget(in_flight + max_skipped(config) + held, in_flight),
        // As many as the workers complete at a time, and as many again in the channel.
        false => ImageBudget::new(2 * in_flight + held),
    };
    let files = records.then(|| Recording::budget_of_files(max_in_flight(config)));
    Some(ImageBudgets {
        needs_each,
        ..ImageBudgets::new(budget, files)
    })
}

/// Maximum number of frames that the inference workers complete at once.
pub(super) fn max_in_flight(config: &Config) -> usize {
    config.detector.workers * config.detector.batch_size
}

/// Maximum number of skipped frames that may wait for a frame with inference, over all sources.
fn max_skipped(config: &Config) -> usize {
    let of_source = |source| match config.detector.interval_of(source) {
        Interval::Frames(frames) => frames,
        Interval::Adaptive => config.detector.max_interval,
    };
    config
        .sources
        .iter()
        .map(|source| of_source(source) as usize)
        .sum()
}
