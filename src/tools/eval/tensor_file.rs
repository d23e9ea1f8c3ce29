// SPDX-License-Identifier: Apache-2.0
//! Images as input tensors of a network, scaled, padded and normalized by the daemon's elements, in a file of NumPy.
//!
//! For programs that run the network themselves, such as `models/quantize.py`. Called by `jetwatch model preprocess`.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;

use jetwatch_config::Config;
use jetwatch_detect::model::{InputElement, ModelSpec};
use jetwatch_detect::{DetectError, check_size};
use jetwatch_pipeline::PipelineError;
use jetwatch_pixels::{Slot, TensorWriter};
use jetwatch_source::{self as source, Flow, FrameHandler, SourceContext};
use jetwatch_telemetry::StopToken;
use jetwatch_types::{Frame, Size};

use crate::evaluator::image_index;

/// Timeout of one image.
const IMAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Alignment of the numbers in a file of NumPy.
const ALIGNMENT: usize = 64;

/// The state of an image that the source has neither delivered nor rejected.
const NOT_DECODED: &str = "no image was decoded";

/// Size in pixels of each image, in the order of the files; the reason as text where an image cannot be read, whose tensor
/// is then zeros.
pub type ImageSizes = Vec<Result<Size, String>>;

/// Writes the tensors of `files` for the network of the model folder `model` to `out`, as an array `[files, 3, height, width]` of
/// float32 or uint8, whichever the network takes. Blocks until all are written.
///
/// # Errors
/// The model cannot be read, the source cannot be started, or writing fails. Unreadable images are no error.
pub fn write_tensors(
    model: &Path,
    files: Arc<[PathBuf]>,
    out: &Path,
) -> anyhow::Result<ImageSizes> {
    let spec =
        ModelSpec::load(model).map_err(|error| PipelineError::from(DetectError::from(error)))?;
    // The folder is a placeholder: the files are given as a list.
    let mut config = Config::for_source("images:.", Some(&model.display().to_string()))?;
    source::gst::init(&config.log.gst_debug).map_err(PipelineError::Source)?;
    let mut images = config.sources.remove(0);
    images.stall_timeout = IMAGE_TIMEOUT;
    let file = File::create(out).with_context(|| format!("cannot write {}", out.display()))?;
    let target = Arc::new(Mutex::new(
        Target::new(file, &spec, files.len())
            .with_context(|| format!("cannot write {}", out.display()))?,
    ));
    let stop = StopToken::default();
    let input = spec.input.clone();
    let context = SourceContext::standalone(
        &images.name,
        input.size,
        input.placement,
        &stop,
        Arc::new(TensorSink {
            spec,
            target: Arc::clone(&target),
        }),
    );
    let rejecting = Arc::clone(&target);
    let unreadable = move |index: usize, _: &Path, reason: &str| {
        rejecting.lock().sizes[index] = Err(reason.to_owned());
    };
    let handle = source::start_image_source(&images, files, Arc::new(unreadable), context)
        .map_err(|cause| PipelineError::Thread {
            name: format!("source-{}", images.name),
            cause,
        })?;
    let ended = handle.join();
    let mut target = target.lock();
    // Where no image can be read, the source fails as a whole; each image has its own reason then.
    if !target
        .sizes
        .iter()
        .all(|size| matches!(size, Err(reason) if reason != NOT_DECODED))
    {
        ended.map_err(PipelineError::Source)?;
    }
    if let Some(error) = target.failure.take() {
        return Err(error).with_context(|| format!("cannot write {}", out.display()));
    }
    target
        .file
        .flush()
        .with_context(|| format!("cannot write {}", out.display()))?;
    Ok(std::mem::take(&mut target.sizes))
}

/// The file, and what is known of its images.
struct Target {
    file: BufWriter<File>,
    /// Bytes before the first tensor.
    header_len: u64,
    writer: TensorWriter,
    tensor: Tensor,
    bytes: Vec<u8>,
    sizes: ImageSizes,
    failure: Option<anyhow::Error>,
}

/// The memory of one tensor, the same for all images: the writer remembers its padding.
enum Tensor {
    F32(Vec<f32>),
    U8(Vec<u8>),
}

impl Target {
    fn new(file: File, spec: &ModelSpec, images: usize) -> io::Result<Self> {
        let writer = TensorWriter::new(spec.input.format(), 1);
        let len = writer.slot_len();
        let (tensor, element, width) = match spec.input.element {
            InputElement::Float32 => (Tensor::F32(vec![0.0; len]), "<f4", 4),
            InputElement::Uint8 => (Tensor::U8(vec![0; len]), "|u1", 1),
        };
        let header = npy_header(element, images, spec.input.size);
        let header_len = header.len() as u64;
        file.set_len(header_len + (images * len * width) as u64)?;
        let mut file = BufWriter::new(file);
        file.write_all(&header)?;
        let missing = || Err(NOT_DECODED.to_owned());
        Ok(Self {
            file,
            header_len,
            writer,
            tensor,
            bytes: Vec::new(),
            sizes: (0..images).map(|_| missing()).collect(),
            failure: None,
        })
    }

    fn write(&mut self, frame: &Frame, spec: &ModelSpec) -> anyhow::Result<()> {
        let index = image_index(&frame.meta);
        let letterbox = check_size(frame, spec.input.size, spec.input.placement)?;
        self.bytes.clear();
        match &mut self.tensor {
            Tensor::F32(tensor) => {
                self.writer
                    .write(0, Slot::F32(tensor), &frame.image, &letterbox);
                self.bytes
                    .extend(tensor.iter().flat_map(|number| number.to_le_bytes()));
            }
            Tensor::U8(tensor) => {
                self.writer
                    .write(0, Slot::U8(tensor), &frame.image, &letterbox);
                self.bytes.extend_from_slice(tensor);
            }
        }
        let start = self.header_len + (index * self.bytes.len()) as u64;
        self.file.seek(SeekFrom::Start(start))?;
        self.file.write_all(&self.bytes)?;
        self.sizes[index] = Ok(frame.meta.source_size);
        Ok(())
    }
}

/// The header of NumPy's format 1.0 for an array `[images, 3, height, width]` in C order.
fn npy_header(element: &str, images: usize, size: Size) -> Vec<u8> {
    const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
    let mut text = format!(
        "{{'descr': '{element}', 'fortran_order': False, 'shape': ({images}, 3, {}, {}), }}",
        size.height, size.width
    );
    // Two bytes of length; the text ends with a line feed.
    let unpadded = MAGIC.len() + 2 + text.len() + 1;
    let padding = unpadded.next_multiple_of(ALIGNMENT) - unpadded;
    text.extend(std::iter::repeat_n(' ', padding));
    text.push('\n');
    let mut header = MAGIC.to_vec();
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.as_bytes());
    header
}

/// Writes each image as it comes.
struct TensorSink {
    spec: ModelSpec,
    target: Arc<Mutex<Target>>,
}

impl FrameHandler for TensorSink {
    fn frame(&self, frame: Frame) -> Flow {
        let mut target = self.target.lock();
        match target.write(&frame, &self.spec) {
            Ok(()) => Flow::Continue,
            Err(error) => {
                target.failure = Some(error);
                Flow::Stop
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jetwatch_pixels::ImageFormat;
    use jetwatch_source::image_file::write_rgb;

    use super::*;

    #[test]
    fn tensors_are_padded_and_normalized_and_unreadable_images_are_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/street-nano");
        let spec = ModelSpec::load(&model).expect("our model");
        let size = Size::new(64, 48);
        let mut files = Vec::new();
        for gray in [100_u8, 200] {
            let path = folder.path().join(format!("{gray}.png"));
            let pixels = vec![gray; size.width as usize * size.height as usize * 3];
            write_rgb(&path, ImageFormat::Png, size, &pixels).expect("written");
            files.push(path);
        }
        files.insert(1, folder.path().join("missing.jpg"));
        let out = folder.path().join("tensors.npy");
        let sizes = write_tensors(&model, files.into(), &out).expect("it is written");
        assert_eq!(sizes[0], Ok(size));
        assert_eq!(sizes[2], Ok(size));
        assert!(sizes[1].is_err(), "{sizes:?}");
        let bytes = std::fs::read(&out).expect("readable");
        let header = npy_header("<f4", 3, spec.input.size);
        assert_eq!(header.len() % ALIGNMENT, 0);
        assert_eq!(bytes[..header.len()], header);
        let plane = spec.input.size.width as usize * spec.input.size.height as usize;
        assert_eq!(bytes.len(), header.len() + 3 * 3 * plane * 4);
        let number = |image: usize, place: usize| {
            let start = header.len() + 4 * (image * 3 * plane + place);
            f32::from_le_bytes(bytes[start..start + 4].try_into().expect("four bytes"))
        };
        let near = |value: f32, gray: f32| (value * 255.0 - gray).abs() <= 1.5;
        // 4:3 in 16:9 at the top left: the right side is padding.
        assert!(near(number(0, 0), 100.0) && near(number(2, 0), 200.0));
        let right = spec.input.size.width as usize - 1;
        assert!(near(number(0, right), f32::from(spec.input.padding)));
        assert_eq!(number(1, 0), 0.0);

        let nothing = [folder.path().join("missing.jpg")];
        let sizes = write_tensors(&model, nothing.into(), &out).expect("a list of reasons");
        assert!(
            matches!(&sizes[..], [Err(reason)] if reason.contains("No such file")),
            "{sizes:?}"
        );
    }
}
