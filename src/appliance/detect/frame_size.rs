// SPDX-License-Identifier: Apache-2.0
//! Whether a frame has the size of the network's input. [`TensorWriter`](jetwatch_pixels::TensorWriter) writes it into the tensor.

use super::DetectError;
use jetwatch_types::{Frame, Letterbox, Placement, Size};

/// The letterbox of `frame` in the input.
///
/// # Errors
/// The image does not have the letterbox's inner size.
pub fn check_size(
    frame: &Frame,
    input: Size,
    placement: Placement,
) -> Result<Letterbox, DetectError> {
    let letterbox = Letterbox::with_crop(
        frame.meta.source_size,
        frame.crop,
        frame.pixels,
        input,
        placement,
    );
    if frame.image.size == letterbox.inner {
        return Ok(letterbox);
    }
    Err(DetectError::ImageSize {
        source_id: frame.meta.source,
        seq: frame.meta.seq,
        found: frame.image.size,
        expected: letterbox.inner,
        source_size: letterbox.source,
        input,
    })
}
