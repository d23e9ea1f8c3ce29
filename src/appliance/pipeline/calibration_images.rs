// SPDX-License-Identifier: Apache-2.0
//! Images of a folder as input of TensorRT's calibration, decoded, scaled and normalized like the frames of the daemon.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::PipelineError;
use jetwatch_config::Config;
use jetwatch_detect::engines::{CalibrationInput, EngineError};
use jetwatch_detect::model::{InputElement, ModelSpec};
use jetwatch_detect::{DetectError, check_size};
use jetwatch_pixels::{Slot, TensorWriter};
use jetwatch_source::{self as source, Flow, FrameHandler, SourceContext, SourceHandle};
use jetwatch_telemetry::StopToken;
use jetwatch_types::Frame;

/// Images are read when TensorRT asks for them, which may be minutes apart.
const STALL_TIMEOUT: Duration = Duration::from_secs(600);

/// Batches of the images in a folder, in the order of their names. Images that do not fill the last batch are left out.
pub struct CalibrationImages {
    spec: ModelSpec,
    batch: usize,
    writer: TensorWriter,
    tensor: Vec<f32>,
    stop: StopToken,
    /// `None` when it has ended or is to end.
    source: Option<(Receiver<Frame>, SourceHandle)>,
    delivered: usize,
}

/// Sends the frames of the source to the calibrator, which reads them one at a time.
struct FrameSender(Sender<Frame>);

impl FrameHandler for FrameSender {
    fn frame(&self, frame: Frame) -> Flow {
        match self.0.send(frame) {
            Ok(()) => Flow::Continue,
            // The receiver is dropped when no more images are needed.
            Err(_) => Flow::Stop,
        }
    }
}

impl CalibrationImages {
    /// Starts to read the JPEG and PNG files in `folder`, in batches of `batch` images (1 or more), scaled for the network of
    /// `spec`. A file that cannot be read is a warning.
    ///
    /// # Errors
    /// The input of the network is not float32, or the folder cannot be opened as a source.
    pub fn start(folder: &Path, spec: &ModelSpec, batch: usize) -> Result<Self, PipelineError> {
        if spec.input.element != InputElement::Float32 {
            let model = spec.name.clone();
            return Err(DetectError::from(EngineError::CalibratesFloats { model }).into());
        }
        let uri = format!("images:{}", folder.display());
        let model = spec.folder.display().to_string();
        let config = Config::for_source(&uri, Some(&model))?;
        let mut images = config.sources[0].clone();
        "calibration".clone_into(&mut images.name);
        images.stall_timeout = STALL_TIMEOUT;
        source::gst::init(&config.log.gst_debug)?;
        let stop = StopToken::default();
        let (sender, frames) = bounded(1);
        let context = SourceContext::standalone(
            &images.name,
            spec.input.size,
            spec.input.placement,
            &stop,
            Arc::new(FrameSender(sender)),
        );
        let source = source::start(&images, context).map_err(|cause| PipelineError::Thread {
            name: format!("source-{}", images.name),
            cause,
        })?;
        let writer = TensorWriter::new(spec.input.format(), batch);
        let tensor = vec![0.0; batch * writer.slot_len()];
        Ok(Self {
            spec: spec.clone(),
            batch,
            writer,
            tensor,
            stop,
            source: Some((frames, source)),
            delivered: 0,
        })
    }

    /// Number of images delivered so far.
    pub fn delivered(&self) -> usize {
        self.delivered
    }

    /// Ends the source; returns its error.
    fn end(&mut self) -> Result<(), String> {
        let Some((frames, source)) = self.source.take() else {
            return Ok(());
        };
        self.stop.stop();
        drop(frames);
        source.join().map_err(|error| error.to_string())
    }
}

impl CalibrationInput for CalibrationImages {
    fn batch_size(&self) -> usize {
        self.batch
    }

    fn next_batch(&mut self) -> Result<Option<&[f32]>, String> {
        let Some((frames, _)) = &self.source else {
            return Ok(None);
        };
        let mut written = 0;
        while written < self.batch {
            let Ok(frame) = frames.recv() else { break };
            let input = &self.spec.input;
            let letterbox = check_size(&frame, input.size, input.placement)
                .map_err(|error| error.to_string())?;
            let len = self.writer.slot_len();
            let slot = &mut self.tensor[written * len..(written + 1) * len];
            self.writer
                .write(written, Slot::F32(slot), &frame.image, &letterbox);
            written += 1;
        }
        if written == self.batch {
            self.delivered += written;
            return Ok(Some(&self.tensor));
        }
        self.end()?;
        if self.delivered == 0 {
            return Err(format!(
                "found {written} images that can be read, expected at least {}, one batch; give a folder with some hundred JPEG or \
                 PNG files that look like what the cameras see",
                self.batch
            ));
        }
        if written > 0 {
            log::info!("the last {written} images do not fill a batch and are left out");
        }
        Ok(None)
    }
}

impl Drop for CalibrationImages {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            log::debug!("the images ended with: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_pixels::ImageFormat;
    use jetwatch_source::image_file::write_rgb;
    use jetwatch_types::Size;

    fn street_nano() -> ModelSpec {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/street-nano");
        ModelSpec::load(&folder).expect("our model")
    }

    /// A folder with `count` gray images, each a little lighter than the one before, and a file that is no image.
    fn images(count: u8) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let size = Size::new(64, 48);
        for index in 0..count {
            let gray = vec![10 * (index + 1); size.width as usize * size.height as usize * 3];
            let path = folder.path().join(format!("{index}.png"));
            write_rgb(&path, ImageFormat::Png, size, &gray).expect("written");
        }
        std::fs::write(folder.path().join("0-broken.jpg"), "no picture").expect("written");
        folder
    }

    #[test]
    fn calibration_delivers_full_batches_in_order() {
        let (spec, folder) = (street_nano(), images(5));
        let mut input = CalibrationImages::start(folder.path(), &spec, 2).expect("it starts");
        let plane = (spec.input.size.width * spec.input.size.height) as usize;
        let mut values = Vec::new();
        while let Some(batch) = input.next_batch().expect("they can be read") {
            assert_eq!(batch.len(), 2 * 3 * plane);
            // The middle of the first plane is inside the image.
            let middle = |slot: usize| {
                batch[slot * 3 * plane + plane / 2 + spec.input.size.width as usize / 2]
            };
            values.extend([middle(0), middle(1)]);
        }
        let value = |gray: f32| (gray - spec.input.mean[0]) * spec.input.scale[0];
        assert_eq!(values.len(), 4, "the fifth fills no batch");
        for (found, gray) in values.iter().zip([10.0, 20.0, 30.0, 40.0]) {
            assert!(
                (found - value(gray)).abs() <= 1.5 * spec.input.scale[0].abs(),
                "{values:?}"
            );
        }
        assert_eq!(input.delivered(), 4);
        assert!(input.next_batch().expect("the end stays the end").is_none());
    }

    #[test]
    fn too_few_images_and_a_missing_folder_are_errors() {
        let (spec, folder) = (street_nano(), images(1));
        let mut input = CalibrationImages::start(folder.path(), &spec, 2).expect("it starts");
        let error = input.next_batch().expect_err("one is too few");
        assert!(
            error.starts_with("found 1 images that can be read, expected at least 2"),
            "{error}"
        );
        let gone = folder.path().join("gone");
        let mut input = CalibrationImages::start(&gone, &spec, 2).expect("it starts");
        let error = input.next_batch().expect_err("there is no folder");
        assert!(error.contains("gone"), "{error}");
    }

    #[test]
    fn dropping_the_input_ends_its_source() {
        let (spec, folder) = (street_nano(), images(5));
        let mut input = CalibrationImages::start(folder.path(), &spec, 1).expect("it starts");
        input
            .next_batch()
            .expect("one can be read")
            .expect("there is one");
        drop(input);
    }
}
