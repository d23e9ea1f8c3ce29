//! One picture on its way through the chain, with the data that rides along.

use std::any::Any;
use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use super::{Crop, Size, SourceId, Xyxy};

/// Bytes of one pixel: every picture in the chain is `BGRx` (blue, green, red, unused), the layout that the VIC, nvvidconv
/// and videoconvert all give, and that one aligned 32-bit load reads.
pub const PIXEL_BYTES: usize = 4;

/// What is known of a frame besides its pixels. Time is data here: nothing downstream asks a clock when a frame was taken.
#[derive(Debug, Clone, Copy)]
pub struct FrameMeta {
    /// Which source it came from.
    pub source: SourceId,
    /// Number of the frame in its source since the daemon's start, from 0, counting dropped frames too.
    pub seq: u64,
    /// Position in the media, where the container gives one.
    pub pts: Option<Duration>,
    /// Wall-clock time at which the frame reached jetwatch.
    pub captured_at: SystemTime,
    /// The same moment on the monotonic clock, for latencies.
    pub received_at: Instant,
    /// Size of the picture as the source delivered it, in pixels; boxes refer to it.
    pub source_size: Size,
}

/// The true place and identity of an object, known for synthetic scenes only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroundTruthBox {
    /// Identity over the whole scene.
    pub id: u32,
    /// Name of its class, as in COCO: `person`, `car`, `bus`, `truck`, `bicycle`, …
    pub label: &'static str,
    /// The visible extent in source pixels, clipped to the picture.
    pub xyxy: Xyxy,
    /// Share of the object's pixels that is neither occluded nor outside the picture, 0 to 1.
    pub visible: f32,
}

/// Pixels in `BGRx`, scaled to the network's inner size (letterbox without its padding).
pub struct Image {
    /// Width and height in pixels.
    pub size: Size,
    /// Bytes from one row to the next, at least `size.width * PIXEL_BYTES`; 0 when the rows lie elsewhere.
    pub stride: usize,
    /// Whoever lent the memory gets it back when this is dropped.
    pixels: Pixels,
}

/// Where the rows lie.
enum Pixels {
    /// In memory of the processor.
    Rows(Box<dyn AsRef<[u8]> + Send + Sync>),
    /// In memory that only its maker and the detector know how to read.
    Handle(Box<dyn Any + Send + Sync>),
}

impl Image {
    /// Wraps memory of `size.height` rows of `stride` bytes; `None` when it is too small for them.
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

    /// A picture whose pixels do not lie in the processor's memory. `handle` is what its reader knows it by; only a detector that
    /// asked its sources for such pictures gets any.
    pub fn from_handle(size: Size, handle: impl Any + Send + Sync) -> Self {
        Self {
            size,
            stride: 0,
            pixels: Pixels::Handle(Box::new(handle)),
        }
    }

    /// Whether [`row`](Self::row) works: the rows lie in the processor's memory.
    #[must_use]
    pub fn is_cpu_readable(&self) -> bool {
        matches!(self.pixels, Pixels::Rows(_))
    }

    /// What a picture that lies elsewhere is known by, if it is an `H`.
    #[must_use]
    pub fn handle<H: Any>(&self) -> Option<&H> {
        match &self.pixels {
            Pixels::Rows(_) => None,
            Pixels::Handle(handle) => handle.downcast_ref(),
        }
    }

    /// Row `y` as `size.width` pixels of [`PIXEL_BYTES`] bytes. Panics when `y` is not below the height, and when the rows lie
    /// elsewhere.
    #[must_use]
    pub fn row(&self, y: u32) -> &[u8] {
        let Pixels::Rows(pixels) = &self.pixels else {
            panic!("a picture that is not in the processor's memory was asked for its rows");
        };
        assert!(
            y < self.size.height,
            "row {y} of a picture with {} rows",
            self.size.height
        );
        let start = y as usize * self.stride;
        &(**pixels).as_ref()[start..start + self.size.width as usize * PIXEL_BYTES]
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Picture({}, stride {})", self.size, self.stride)
    }
}

/// A frame: pixels, their story, and the truth where the source knows it.
#[derive(Debug)]
pub struct Frame {
    /// Source, number, times, source size.
    pub meta: FrameMeta,
    /// The part of the source's picture that `image_size` shows; `None`: all of it.
    pub crop: Option<Crop>,
    /// The picture at the letterbox's inner size.
    pub image: Image,
    /// The same picture at the size in which the source delivered it, where a later step asked the source for it: crops for
    /// secondary networks, rendering. It lies in the processor's memory.
    pub full_image: Option<Image>,
    /// Ground truth of a synthetic scene; empty for every other source.
    pub truth: Vec<GroundTruthBox>,
}

#[cfg(any(test, feature = "test-support"))]
impl FrameMeta {
    /// Of a test's frame that was taken at the epoch and enters now.
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

#[cfg(any(test, feature = "test-support"))]
impl Frame {
    /// A test's frame, unscaled.
    pub fn black(source: u16, seq: u64, size: Size) -> Self {
        let stride = size.width as usize * PIXEL_BYTES;
        let pixels = vec![0; stride * size.height as usize];
        Self {
            meta: FrameMeta::for_test(source, seq, size),
            crop: None,
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
        assert_eq!(format!("{image:?}"), "Picture(3×2, stride 0)");
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
            .expect("28 bytes hold a padded row and a bare one");
        assert_eq!(padded.row(1), (16..28).collect::<Vec<u8>>());
    }
}
