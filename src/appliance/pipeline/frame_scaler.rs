//! Scaling behind the queue, by the worker that prepares its batch: for the steps of `jetwatch bench --ablation` that show what it
//! costs. The daemon's sources scale, on the unit that is there for it.

use jetwatch_detect::Resizer;
use jetwatch_source::{PixelPool, PooledPixels};
use jetwatch_types::{Crop, Frame, Image, Letterbox, PIXEL_BYTES, Placement, Size};

/// What pictures are scaled for.
#[derive(Debug, Clone, Copy)]
pub(super) struct InputSize {
    /// Size of the network's input.
    pub(super) input: Size,
    /// How pictures lie in it.
    pub(super) placement: Placement,
}

/// Scales the frames of one worker.
pub(super) struct FrameScaler {
    input: InputSize,
    resampler: Resizer,
    pool: PixelPool,
    /// Rows without what lies between them.
    packed: Vec<u8>,
}

impl FrameScaler {
    pub(super) fn new(input: InputSize) -> Self {
        Self {
            input,
            resampler: Resizer::default(),
            pool: PixelPool::default(),
            packed: Vec::new(),
        }
    }

    /// Gives a frame its picture in the network's size. The one at source size becomes its view, where it `is_kept`.
    pub(super) fn resize(&mut self, frame: &mut Frame, is_kept: bool) {
        let InputSize { input, placement } = self.input;
        let inner =
            Letterbox::with_crop(frame.meta.source_size, frame.crop, input, placement).inner;
        let is_whole = frame.crop.is_none();
        if !frame.image.is_cpu_readable() || (is_whole && frame.image.size == inner && !is_kept) {
            return;
        }
        let part = frame.crop.unwrap_or(Crop {
            left: 0,
            top: 0,
            size: frame.image.size,
        });
        let scaled = self.scaled(&frame.image, part, inner);
        let stride = inner.width as usize * PIXEL_BYTES;
        let scaled =
            Image::new(inner, stride, Box::new(scaled)).expect("the memory is of this size");
        let full_image = std::mem::replace(&mut frame.image, scaled);
        frame.full_image = is_kept.then_some(full_image);
    }

    fn scaled(&mut self, image: &Image, part: Crop, inner: Size) -> PooledPixels {
        let bytes = |size: Size| size.width as usize * size.height as usize * PIXEL_BYTES;
        let mut scaled = self.pool.acquire(bytes(inner));
        self.packed.clear();
        self.packed.reserve(bytes(part.size));
        let left = part.left as usize * PIXEL_BYTES;
        let row = left..left + part.size.width as usize * PIXEL_BYTES;
        for y in part.top..part.top + part.size.height {
            self.packed.extend_from_slice(&image.row(y)[row.clone()]);
        }
        self.resampler
            .scale(&self.packed, part.size, inner, scaled.as_mut());
        scaled
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use jetwatch_types::FrameMeta;

    #[test]
    fn detector_gets_network_size_and_later_stages_full_size() {
        let size = Size::new(16, 8);
        // Rows with 8 bytes between them that are not part of the picture.
        let stride = 16 * PIXEL_BYTES + 8;
        let mut bytes = vec![9; stride * 8];
        for row in bytes.chunks_exact_mut(stride) {
            row[..16 * PIXEL_BYTES].fill(200);
        }
        let frame = || Frame {
            meta: FrameMeta::for_test(0, 0, size),
            crop: None,
            image: Image::new(size, stride, Box::new(bytes.clone())).expect("large enough"),
            full_image: None,
            truth: Vec::new(),
        };
        let mut scaler = FrameScaler::new(InputSize {
            input: Size::new(8, 8),
            placement: Placement::TopLeft,
        });
        for is_kept in [false, true] {
            let mut frame = frame();
            scaler.resize(&mut frame, is_kept);
            assert_eq!(
                frame.image.size,
                Size::new(8, 4),
                "its sides keep their ratio"
            );
            let pixels = frame.image.row(3).chunks_exact(PIXEL_BYTES);
            assert!(pixels.into_iter().all(|pixel| pixel[..3] == [200; 3]));
            assert_eq!(
                frame.full_image.map(|view| view.size),
                is_kept.then_some(size)
            );
        }
    }
}
