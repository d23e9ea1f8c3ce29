//! DOT graphs of a source's pipeline, written by jetwatch, so that no environment variable is needed at the start.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use gstreamer as gst;
use gstreamer::prelude::*;

/// Number in the file names, so that they sort by time.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes `FOLDER/NUMBER-SOURCE-WHY.dot`. A folder that is not writable is logged as a warning.
pub(super) fn dump(folder: Option<&Path>, source: &str, why: &str, pipeline: &gst::Pipeline) {
    let Some(folder) = folder else { return };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("{number:05}-{source}-{why}.dot"));
    let graph = pipeline.debug_to_dot_data(gst::DebugGraphDetails::all());
    if let Err(error) = fs::create_dir_all(folder).and_then(|()| fs::write(&path, graph.as_str())) {
        log::warn!(source; "cannot write {}: {error}; choose a writable folder with --dot", path.display());
    }
}
