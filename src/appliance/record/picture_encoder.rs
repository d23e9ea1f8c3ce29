//! Pictures as JPEG: by the encoder of a Jetson where there is one, otherwise by the program itself.
//!
//! The element is taken where GStreamer has it, as for video. Small pictures are encoded by the program: that takes less time than the way
//! through a pipeline. An encoder that fails is not used again in this run.

use bytes::Bytes;
use gstreamer as gst;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use jetwatch_types::Size;

use crate::hardware_jpeg::{self, JpegPipeline};

/// Pictures with fewer pixels are encoded by the program.
const MIN_HARDWARE_PIXELS: u64 = 640 * 360;

/// Sizes whose pipelines are kept: sources have few.
const MAX_PIPELINES: usize = 4;

/// Encodes pictures of one quality; keeps what it needs for that from one to the next.
pub struct PictureEncoder {
    quality: u8,
    /// Whether the hardware is tried; `None`: before the first picture that is large enough.
    has_hardware: Option<bool>,
    /// The newest is the last.
    pipelines: Vec<JpegPipeline>,
}

impl PictureEncoder {
    /// Of this quality, 1 to 100. Cheap: the hardware is opened for the first picture.
    #[must_use]
    pub const fn new(quality: u8) -> Self {
        Self {
            quality,
            has_hardware: None,
            pipelines: Vec::new(),
        }
    }

    /// A `BGRx` image, rows without padding, as a JPEG file with half the colors in both directions; `None` for a size that JPEG does
    /// not have.
    pub fn encode(&mut self, size: Size, pixels: &[u8]) -> Option<Bytes> {
        let count = u64::from(size.width) * u64::from(size.height);
        let is_even = size.width.is_multiple_of(2) && size.height.is_multiple_of(2);
        if count >= MIN_HARDWARE_PIXELS
            && is_even
            && *self.has_hardware.get_or_insert_with(is_available)
        {
            match self.encode_in_hardware(size, pixels) {
                Ok(jpeg) => return Some(jpeg),
                Err(error) => {
                    log::warn!("pictures are encoded by the program from now on: {error}");
                    self.has_hardware = Some(false);
                    self.pipelines.clear();
                }
            }
        }
        encode_by_program(size, pixels, self.quality)
    }

    fn encode_in_hardware(&mut self, size: Size, pixels: &[u8]) -> Result<Bytes, String> {
        match self.pipelines.iter().position(|found| found.size() == size) {
            Some(place) => {
                let last = self.pipelines.remove(place);
                self.pipelines.push(last);
            }
            None => {
                if self.pipelines.len() == MAX_PIPELINES {
                    self.pipelines.remove(0);
                }
                self.pipelines.push(JpegPipeline::open(size, self.quality)?);
            }
        }
        let pipeline = self.pipelines.last_mut().ok_or("no pipeline")?;
        pipeline.encode(pixels)
    }
}

/// The element that encodes large pictures; `None`: the program does.
#[must_use]
pub fn picture_element() -> Option<&'static str> {
    is_available().then_some(hardware_jpeg::ELEMENT)
}

fn is_available() -> bool {
    let is_installed = |element: &&str| gst::ElementFactory::find(element).is_some();
    gst::init().is_ok() && hardware_jpeg::ELEMENTS.iter().all(is_installed)
}

/// The same as [`PictureEncoder::encode`], in any quality, without hardware.
pub(crate) fn encode_by_program(size: Size, pixels: &[u8], quality: u8) -> Option<Bytes> {
    let (width, height) = (size.width.try_into().ok()?, size.height.try_into().ok()?);
    let mut file = Vec::with_capacity(pixels.len() / 16);
    let mut encoder = Encoder::new(&mut file, quality);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    encoder
        .encode(pixels, width, height, ColorType::Bgra)
        .ok()?;
    file.shrink_to_fit();
    Some(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_all_sizes_are_files_where_there_is_no_hardware() {
        let mut encoder = PictureEncoder::new(80);
        encoder.has_hardware = Some(false);
        for (width, height) in [(64, 48), (640, 360), (641, 361)] {
            let size = Size::new(width, height);
            let pixels = vec![90; (width * height * 4) as usize];
            let jpeg = encoder.encode(size, &pixels).expect("a size that JPEG has");
            assert!(jpeg.starts_with(&[0xff, 0xd8]) && jpeg.ends_with(&[0xff, 0xd9]));
        }
        let none = encoder.encode(Size::new(70_000, 1), &vec![0; 280_000]);
        assert_eq!(none, None);
    }
}
