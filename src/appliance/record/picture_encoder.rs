// SPDX-License-Identifier: Apache-2.0
//! Pictures as JPEG: by an element of GStreamer where there is one, otherwise by the program itself.
//!
//! A Jetson's encoder is preferred, then libjpeg-turbo, which takes half the time of the program. Small pictures are encoded by the
//! program: that takes less time than the way through a pipeline. An element that fails is not used again in this run.

use std::collections::VecDeque;

use bytes::Bytes;
use jetwatch_pixels::encode_bgrx_jpeg;
use jetwatch_types::Size;

use crate::jpeg_pipeline::{JpegElement, JpegPipeline};

/// Pictures with fewer pixels are encoded by the program.
const MIN_ELEMENT_PIXELS: u64 = 640 * 360;

/// Sizes whose pipelines are kept: sources have few.
const MAX_PIPELINES: usize = 4;

/// Encodes pictures of one quality; keeps what it needs for that from one to the next.
pub struct PictureEncoder {
    quality: u8,
    /// Elements that have not failed, the preferred one first; `None`: before the first picture that is large enough.
    elements: Option<VecDeque<JpegElement>>,
    /// The newest is the last.
    pipelines: Vec<JpegPipeline>,
}

impl PictureEncoder {
    /// Of this quality, 1 to 100. Cheap: an element is opened for the first picture.
    pub const fn new(quality: u8) -> Self {
        Self {
            quality,
            elements: None,
            pipelines: Vec::new(),
        }
    }

    /// A `BGRx` image, rows without padding, as a JPEG file with half the colors in both directions; `None` for a size that JPEG does
    /// not have.
    pub fn encode(&mut self, size: Size, pixels: &[u8]) -> Option<Bytes> {
        let count = u64::from(size.width) * u64::from(size.height);
        let is_even = size.width.is_multiple_of(2) && size.height.is_multiple_of(2);
        if count >= MIN_ELEMENT_PIXELS && is_even {
            while let Some(element) = self.elements().front().copied() {
                match self.encode_by(element, size, pixels) {
                    Ok(jpeg) => return Some(jpeg),
                    Err(error) => {
                        self.elements().pop_front();
                        let next = self.elements().front();
                        let next = next.map_or("the program", |element| element.name());
                        log::warn!("pictures are encoded by {next} from now on: {error}");
                        self.pipelines.clear();
                    }
                }
            }
        }
        encode_bgrx_jpeg(size, pixels, self.quality).map(Bytes::from)
    }

    fn elements(&mut self) -> &mut VecDeque<JpegElement> {
        self.elements.get_or_insert_with(JpegElement::available)
    }

    fn encode_by(
        &mut self,
        element: JpegElement,
        size: Size,
        pixels: &[u8],
    ) -> Result<Bytes, String> {
        match self.pipelines.iter().position(|found| found.size() == size) {
            Some(place) => {
                let last = self.pipelines.remove(place);
                self.pipelines.push(last);
            }
            None => {
                if self.pipelines.len() == MAX_PIPELINES {
                    self.pipelines.remove(0);
                }
                let opened = JpegPipeline::open(element, size, self.quality)?;
                self.pipelines.push(opened);
            }
        }
        let pipeline = self.pipelines.last_mut().ok_or("no pipeline")?;
        pipeline.encode(pixels)
    }
}

/// The element that encodes large pictures; `None`: the program does.
pub fn picture_element() -> Option<&'static str> {
    let elements = JpegElement::available();
    elements.front().map(|element| element.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_all_sizes_are_files_where_there_is_no_element() {
        let mut encoder = PictureEncoder::new(80);
        encoder.elements = Some(VecDeque::new());
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
