//! Scales frames on the CPU to the size of a network for which no source has scaled them.
//!
//! Used by benchmarks. The daemon's sources scale, on the scaler of the machine.

use jetwatch_pixels::{Filter, Resizer};
use jetwatch_types::{
    Crop, Frame, Image, Letterbox, PIXEL_BYTES, PixelPool, Placement, PooledPixels, Size,
};

/// Scales frames for one network.
pub struct FrameScaler {
    input: Size,
    placement: Placement,
    resizer: Resizer,
    pool: PixelPool,
}

impl FrameScaler {
    /// Scales for a network with inputs of the size `input`, in pixels.
    #[must_use]
    pub fn new(input: Size, placement: Placement) -> Self {
        Self {
            input,
            placement,
            resizer: Resizer::default(),
            pool: PixelPool::default(),
        }
    }

    /// Size of the frame's image inside the letterbox, in pixels.
    #[must_use]
    pub fn inner_size(&self, frame: &Frame) -> Size {
        Letterbox::with_crop(
            frame.meta.source_size,
            frame.crop,
            frame.pixels,
            self.input,
            self.placement,
        )
        .inner
    }

    /// The frame with its image in the network's size, out of its full image, or of its image if that has the size of the source.
    ///
    /// # Panics
    /// The crop is not inside the image.
    pub fn scale(&mut self, frame: &Frame) -> Frame {
        let inner = self.inner_size(frame);
        let image = frame.full_image.as_ref().unwrap_or(&frame.image);
        let part = frame.crop.unwrap_or(Crop {
            left: 0,
            top: 0,
            size: image.size,
        });
        let scaled = self.scaled(image, part, inner);
        let stride = inner.width as usize * PIXEL_BYTES;
        Frame {
            meta: frame.meta,
            crop: frame.crop,
            pixels: frame.pixels,
            image: Image::new(inner, stride, Box::new(scaled)).expect("the memory is of this size"),
            full_image: None,
            truth: frame.truth.clone(),
        }
    }

    fn scaled(&mut self, image: &Image, part: Crop, inner: Size) -> PooledPixels {
        let bytes = inner.width as usize * inner.height as usize * PIXEL_BYTES;
        let mut scaled = self.pool.acquire(bytes);
        self.resizer
            .scale_part(image, part, inner, Filter::Triangle, scaled.as_mut());
        scaled
    }
}
