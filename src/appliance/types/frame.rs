// SPDX-License-Identifier: Apache-2.0
//! One frame in the pipeline: the image and its metadata.

use std::any::Any;
use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use super::{Crop, PixelAspect, Size, SourceId, Xyxy};

/// Bytes per pixel. Every image in the pipeline is `BGRx` (blue, green, red, unused): VIC, nvvidconv and videoconvert can all
/// produce this layout, and one aligned 32-bit load reads a pixel.
pub const PIXEL_BYTES: usize = 4;

/// Metadata of a frame. Time is part of it: no later stage reads a clock to find out when a frame was captured.
#[derive(Debug, Clone, Copy)]
pub struct FrameMeta {
    /// Source of the frame.
    pub source: SourceId,
    /// Number of the frame in its source since the daemon's start, from 0; dropped frames count.
    pub seq: u64,
    /// Presentation timestamp of the media, where the container has one.
    pub pts: Option<Duration>,
    /// Wall-clock time at which the frame arrived in jetwatch.
    pub captured_at: SystemTime,
    /// The same instant on the monotonic clock, for latencies.
    pub received_at: Instant,
    /// Size of the image as the source delivered it, in pixels; boxes refer to it.
    pub source_size: Size,
}

/// Ground truth of one object: true box and identity. Known for synthetic scenes only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroundTruthBox {
    /// Identity, unique in the scene.
    pub id: u32,
    /// Class name as in COCO: `person`, `car`, `bus`, `truck`, `bicycle`, …
    pub label: &'static str,
    /// The visible extent in source pixels, clipped to the image.
    pub xyxy: Xyxy,
    /// Share of the object's pixels that is visible: neither occluded nor outside the image, 0 to 1.
    pub visible: f32,
}

/// Pixels in `BGRx`, scaled to the network's inner size (letterbox without its padding).
pub struct Image {
    /// Width and height in pixels.
    pub size: Size,
    /// Bytes from one row to the next, at least `size.width * PIXEL_BYTES`; 0 when the rows are not in CPU memory.
    pub stride: usize,
    /// Owner of the memory. Dropping it returns the memory to its pool.
    pixels: Pixels,
}

/// Memory of the pixels.
enum Pixels {
    /// In CPU memory.
    Rows(Box<dyn AsRef<[u8]> + Send + Sync>),
    /// In memory that only its producer and the detector can read.
    Handle(Box<dyn Any + Send + Sync>),
}

impl Image {
    /// Wraps memory of `size.height` rows of `stride` bytes; `None` when it is too small.
    pub fn new(
        size: Size,
        stride: usize,
        pixels: Box<dyn AsRef<[u8]> + Send + Sync>,
    ) -> Option<Self> {
        let row = size.width as usize * PIXEL_BYTES;
        let needed = match size.height as usize {
            0 => 0,
            rows => stride.checked_mul(rows - 1)?.checked_add(row)?,
        };
        (stride >= row && (*pixels).as_ref().len() >= needed).then_some(Self {
            size,
            stride,
            pixels: Pixels::Rows(pixels),
        })
    }

    /// An image whose pixels are not in CPU memory. `handle` identifies it to its reader. Only a detector that requested such
    /// images from its sources receives any.
    pub fn from_handle(size: Size, handle: impl Any + Send + Sync) -> Self {
        Self {
            size,
            stride: 0,
            pixels: Pixels::Handle(Box::new(handle)),
        }
    }

    /// Whether the rows are in CPU memory, so that [`row`](Self::row) works.
    #[must_use]
    pub fn is_cpu_readable(&self) -> bool {
        matches!(self.pixels, Pixels::Rows(_))
    }

    /// The handle of an image that is not in CPU memory, if its type is `H`.
    pub fn handle<H: Any>(&self) -> Option<&H> {
        match &self.pixels {
            Pixels::Rows(_) => None,
            Pixels::Handle(handle) => handle.downcast_ref(),
        }
    }

    /// Row `y` as `size.width` pixels of [`PIXEL_BYTES`] bytes.
    ///
    /// # Panics
    ///
    /// When `y` is not below the height, or when the rows are not in CPU memory.
    pub fn row(&self, y: u32) -> &[u8] {
        let Pixels::Rows(pixels) = &self.pixels else {
            panic!("rows requested of an image that is not in CPU memory");
        };
        assert!(
            y < self.size.height,
            "row {y} of an image with {} rows",
            self.size.height
        );
        let start = y as usize * self.stride;
        &(**pixels).as_ref()[start..start + self.size.width as usize * PIXEL_BYTES]
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}, stride {})", self.size, self.stride)
    }
}

/// A frame: pixels, metadata, and the ground truth where the source has one.
#[derive(Debug)]
pub struct Frame {
    /// Source, number, times, source size.
    pub meta: FrameMeta,
    /// Part of the source image that is in `image`; `None`: all of it.
    pub crop: Option<Crop>,
    /// Shape of the pixels of the source image.
    pub pixels: PixelAspect,
    /// The image at the letterbox's inner size.
    pub image: Image,
    /// The same image at source size, in CPU memory. Present only when a later stage requested it: crops for secondary
    /// networks, recording.
    pub full_image: Option<Image>,
    /// Ground truth of a synthetic scene; empty for every other source.
    pub truth: Vec<GroundTruthBox>,
}

impl FrameMeta {
    /// For tests: a frame captured at the epoch that arrives now.
    pub fn for_test(source: u16, seq: u64, source_size: Size) -> Self {
        Self {
            source: SourceId(source),
            seq,
            pts: None,
            captured_at: SystemTime::UNIX_EPOCH,
            received_at: Instant::now(),
            source_size,
        }
    }
}

impl Frame {
    /// For tests: an unscaled black frame.
    pub fn black(source: u16, seq: u64, size: Size) -> Self {
        let stride = size.width as usize * PIXEL_BYTES;
        let pixels = vec![0; stride * size.height as usize];
        Self {
            meta: FrameMeta::for_test(source, seq, size),
            crop: None,
            pixels: PixelAspect::default(),
            image: Image::new(size, stride, Box::new(pixels)).expect("whole rows"),
            full_image: None,
            truth: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_from_a_handle_returns_that_handle() {
        let size = Size {
            width: 3,
            height: 2,
        };
        let image = Image::from_handle(size, 7_u64);
        assert_eq!(image.handle::<u64>(), Some(&7));
        assert_eq!(image.handle::<u32>(), None);
        assert_eq!(format!("{image:?}"), "Image(3×2, stride 0)");
        let rows = Image::new(size, 12, Box::new(vec![0; 24])).expect("large enough");
        assert_eq!(rows.handle::<u64>(), None);
    }

    #[test]
    fn an_image_rejects_memory_that_is_too_small() {
        let size = Size {
            width: 3,
            height: 2,
        };
        assert!(Image::new(size, 12, Box::new(vec![0; 23])).is_none());
        assert!(Image::new(size, 11, Box::new(vec![0; 64])).is_none());
        let padded = Image::new(size, 16, Box::new((0..28).collect::<Vec<u8>>()))
            .expect("28 bytes are a row with padding and one without");
        assert_eq!(padded.row(1), (16..28).collect::<Vec<u8>>());
    }
}
