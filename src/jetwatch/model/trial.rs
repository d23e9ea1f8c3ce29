// SPDX-License-Identifier: Apache-2.0
//! `jetwatch model init --image`: what a network finds in a picture, as lines and as a picture with boxes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use jetwatch_config::{Backend, Config};
use jetwatch_eval::detections_of;
use jetwatch_pipeline::{PipelineError, preload_frames};
use jetwatch_pixels::{Canvas, Color, Colors, Painter, decode, encode_bgrx_jpeg, exif};
use jetwatch_telemetry::Recorder;
use jetwatch_types::{Detection, PIXEL_BYTES, Size};

/// Quality of the written picture.
const QUALITY: u8 = 90;

/// What a network finds in one picture.
pub(super) struct PictureTrial {
    /// Boxes in pixels of the picture, best first.
    pub(super) detections: Vec<Detection>,
    labels: Vec<String>,
    /// Of the picture.
    size: Size,
}

/// Boxes of a network whose unit is right reach farther than a side of the picture divided by this.
const CORNER: f32 = 40.0;

impl PictureTrial {
    /// Runs the network in `folder` on the picture `image`, as the daemon does.
    pub(super) fn run(folder: &Path, image: &Path) -> anyhow::Result<Self> {
        let mut config = Config::for_source(path(image)?, Some(path(folder)?))?;
        config.detector.backend = Backend::Onnx;
        let factory = jetwatch_detect::load(&config.detector, &Recorder::default())?;
        let frames = preload_frames(&config.sources[0], &factory, 1, None)
            .with_context(|| format!("cannot read {}", image.display()))?;
        let detections = detections_of(&factory, &frames[..1]).map_err(|error| match error {
            PipelineError::Image { cause, .. } => anyhow::Error::from(*cause),
            other => other.into(),
        });
        let detections = detections?.pop();
        Ok(Self {
            detections: detections.unwrap_or_default(),
            labels: factory.labels().to_vec(),
            size: frames[0].meta.source_size,
        })
    }

    /// The sum of the scores: a network that is read right is surer of what it sees. 0 if all boxes are in the upper left corner.
    pub(super) fn sureness(&self) -> f32 {
        let corner = self.size.width.min(self.size.height) as f32 / CORNER;
        let is_far = |found: &Detection| found.xyxy.iter().any(|edge| *edge > corner);
        if !self.detections.iter().any(is_far) {
            return 0.0;
        }
        // An empty `sum` would be shown as -0.0.
        (self.detections.iter()).fold(0.0, |sum, found| sum + found.score)
    }

    /// One line for each detection: label, score, and left, top, width and height in pixels.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.detections.iter().map(|found| {
            let [left, top, right, bottom] = found.xyxy;
            format!(
                "{} {:.2} at {left:.0},{top:.0}, {:.0}x{:.0}",
                self.label(found),
                found.score,
                right - left,
                bottom - top
            )
        })
    }

    fn label(&self, found: &Detection) -> &str {
        self.labels
            .get(usize::from(found.class))
            .map_or("?", String::as_str)
    }

    /// Writes the picture with the boxes into `folder`; returns its path.
    pub(super) fn draw(&self, folder: &Path, image: &Path) -> anyhow::Result<PathBuf> {
        let bytes = fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
        let orientation = exif::orientation(&bytes);
        let decoded = decode(bytes).map_err(anyhow::Error::msg)?;
        let mut picture = exif::upright(decoded, orientation);
        let size = picture.size;
        let stride = size.width as usize * PIXEL_BYTES;
        if let Some(mut canvas) = Canvas::bgrx(size, &mut picture.pixels, stride) {
            let painter = Painter::for_size(size);
            for found in &self.detections {
                let fill = canvas.color_fill(Color::for_class(found.class), 255);
                painter.draw_boxes(&mut canvas, &[(found.xyxy, fill)]);
                let colors = Colors {
                    background: fill,
                    text: canvas.color_fill(Color::BLACK, 255),
                };
                let text = format!("{} {:.0}%", self.label(found), found.score * 100.0);
                let [left, top, ..] = found.xyxy;
                painter.draw_label(&mut canvas, left as i32, top as i32, &text, &colors);
            }
        }
        let jpeg = encode_bgrx_jpeg(size, &picture.pixels, QUALITY)
            .with_context(|| format!("JPEG has no size of {size}"))?;
        let written = folder.join("boxes.jpg");
        fs::write(&written, jpeg).with_context(|| format!("cannot write {}", written.display()))?;
        Ok(written)
    }
}

fn path(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8; rename it", path.display()))
}
