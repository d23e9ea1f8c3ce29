// SPDX-License-Identifier: Apache-2.0
//! Decodes output tensors that another program computed, as the daemon does: decoders, suppression, source pixels.
//!
//! `models/quantize.py` runs changed copies of a network itself and needs the daemon's detections of them. One session serves a
//! whole search. The protocol is binary with headers of one line of JSON each:
//!
//! ```text
//!   at the start   ->  the model: one line, see `Greeting`
//!   request  <-  one line, see `Request`, then the bytes of its tensors, little-endian, in the order of the header
//!   reply    ->  one line, see `Reply`, then `count` records of RECORD_LEN bytes;
//!                or one line {"error": TEXT} when the tensors do not fit model.yaml
//! ```
//!
//! A record is the index in the output (uint32), the class (uint32), the score (float32) and left, top, right and bottom
//! (float32 each), little-endian. Called by `jetwatch model decode`.

use std::io::{BufRead, Read, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use jetwatch_detect::decode::{DecodeParams, Decoder};
use jetwatch_detect::decoders::{
    DType, DecodeDiagnostics, NetworkShape, OutputDecoder, TensorShape, TensorView,
};
use jetwatch_detect::layouts::LayoutKind;
use jetwatch_detect::model::{InputElement, ModelSpec};
use jetwatch_detect::{Candidate, ClassFilter};
use jetwatch_types::{Detection, Letterbox, Size, Xyxy};

/// Version of the protocol.
const PROTOCOL: u32 = 1;

/// Bytes of one record of a reply.
const RECORD_LEN: usize = 28;

/// Maximum size of one tensor: that of a request is read into memory before it is checked.
const MAX_TENSOR_BYTES: usize = 1 << 30;

/// The index of a detection after suppression, which has no place in the output any more.
const NO_CELL: u32 = u32::MAX;

/// The model, as its `model.yaml` describes it.
#[derive(Serialize)]
struct Greeting<'a> {
    protocol: u32,
    name: &'a str,
    input: InputOf<'a>,
    /// Names of the output tensors, in the order in which a request gives them.
    outputs: &'a [String],
    /// Whether the network classifies: each class is a box over the whole image.
    classifier: bool,
    labels: &'a [String],
    /// Pairs of a class and a further name of it.
    covers: &'a [(u16, String)],
    score_threshold: f32,
    nms_iou: f32,
    max_detections: usize,
    files: Vec<FileOf<'a>>,
}

#[derive(Serialize)]
struct InputOf<'a> {
    name: &'a str,
    /// `float32` or `uint8`.
    element: &'static str,
    width: u32,
    height: u32,
    sizes_name: Option<&'a str>,
    scales_name: Option<&'a str>,
}

#[derive(Serialize)]
struct FileOf<'a> {
    precision: &'a str,
    path: &'a Path,
}

/// The outputs of one image.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// Width and height of the source image in pixels.
    image: (u32, u32),
    /// The tensors in the order of the greeting's `outputs`.
    tensors: Vec<TensorHeader>,
    score_threshold: f32,
    nms_iou: f32,
    max_detections: usize,
    /// Whether all candidates are wanted, before suppression and in input pixels, instead of detections in source pixels.
    candidates: bool,
}

/// Type and shape of one tensor, as the network gives it: with its batch axis of 1.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorHeader {
    element: Element,
    shape: Vec<usize>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Element {
    Float32,
    Int32,
    Int64,
}

#[derive(Serialize)]
struct Reply {
    count: usize,
    /// Whether the index of a candidate is a place in the output that means the same in every image: false for networks that
    /// give a list of objects.
    cells: bool,
    /// The first value for which the daemon would stop; such boxes are left out.
    invalid: Option<&'static str>,
}

#[derive(Serialize)]
struct Failure {
    error: String,
}

/// The numbers of one tensor.
enum Numbers {
    F32(Vec<f32>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

/// Serves requests from `input` until it ends.
///
/// # Errors
/// A request is not as described above, or reading or writing fails. Tensors that do not fit the model are no error: the
/// reply says so.
pub fn serve_decoding(
    spec: &ModelSpec,
    mut input: impl BufRead,
    mut output: impl Write,
) -> anyhow::Result<()> {
    write_line(&mut output, &greeting(spec))?;
    output.flush()?;
    let mut session = DecodeSession::new(spec)?;
    let (mut line, mut records) = (String::new(), Vec::new());
    loop {
        line.clear();
        if input.read_line(&mut line).context("standard input")? == 0 {
            return Ok(());
        }
        let request: Request = serde_json::from_str(&line).with_context(|| {
            format!("standard input: expected a request in JSON, found {line:?}")
        })?;
        let tensors = request.tensors.iter().map(|header| header.read(&mut input));
        let tensors: Vec<Numbers> = tensors.collect::<Result<_, _>>()?;
        match session.decode(&request, &tensors, &mut records) {
            Ok(reply) => {
                write_line(&mut output, &reply)?;
                output.write_all(&records)?;
            }
            Err(error) => write_line(&mut output, &Failure { error })?,
        }
        output.flush()?;
    }
}

fn write_line(output: &mut impl Write, line: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(line).context("cannot write a reply as JSON")?;
    Ok(writeln!(output, "{text}")?)
}

fn greeting(spec: &ModelSpec) -> Greeting<'_> {
    let input = &spec.input;
    Greeting {
        protocol: PROTOCOL,
        name: &spec.name,
        input: InputOf {
            name: &input.name,
            element: match input.element {
                InputElement::Float32 => "float32",
                InputElement::Uint8 => "uint8",
            },
            width: input.size.width,
            height: input.size.height,
            sizes_name: input.sizes_name.as_deref(),
            scales_name: input.scales_name.as_deref(),
        },
        outputs: &spec.output.tensors,
        classifier: spec.output.layout.kind() == LayoutKind::Classifier,
        labels: &spec.labels,
        covers: &spec.covers,
        score_threshold: spec.score_threshold,
        nms_iou: spec.nms_iou,
        max_detections: spec.max_detections,
        files: spec
            .files
            .iter()
            .map(|file| FileOf {
                precision: &file.precision,
                path: &file.path,
            })
            .collect(),
    }
}

/// Decoders of one model, kept from request to request as long as the shapes are the same.
struct DecodeSession<'a> {
    spec: &'a ModelSpec,
    filter: ClassFilter,
    /// For candidates.
    output_decoder: Option<(Shapes, Box<dyn OutputDecoder>)>,
    /// For detections, with the parameters that it was created for.
    decoder: Option<(Shapes, (f32, f32, usize), Decoder)>,
    candidates: Vec<Candidate>,
    detections: Vec<Detection>,
}

/// Types and axes of the outputs, without the batch axis.
type Shapes = Vec<(DType, Vec<usize>)>;

impl<'a> DecodeSession<'a> {
    fn new(spec: &'a ModelSpec) -> anyhow::Result<Self> {
        Ok(Self {
            spec,
            filter: ClassFilter::new(&spec.labels, &[])?,
            output_decoder: None,
            decoder: None,
            candidates: Vec::new(),
            detections: Vec::new(),
        })
    }

    /// Replaces `records` by the bytes of the reply. The error is one sentence.
    fn decode(
        &mut self,
        request: &Request,
        tensors: &[Numbers],
        records: &mut Vec<u8>,
    ) -> Result<Reply, String> {
        let shapes = self.shapes(request)?;
        let views: Vec<TensorView<'_>> = tensors.iter().map(Numbers::view).collect();
        records.clear();
        let output_decoder = match self.output_decoder.take() {
            Some((known, decoder)) if known == shapes => decoder,
            _ => self.create(&shapes)?,
        };
        let cells = output_decoder.needs_suppression();
        let decoded = if request.candidates {
            let decoded = output_decoder.decode(
                &views,
                request.score_threshold,
                &self.filter,
                &mut self.candidates,
            );
            for found in &self.candidates {
                push_record(records, found.cell, found.class, found.score, &found.xyxy);
            }
            decoded
        } else {
            let decoded = self.detect(&shapes, &views, request)?;
            for found in &self.detections {
                push_record(records, NO_CELL, found.class, found.score, &found.xyxy);
            }
            decoded
        };
        self.output_decoder = Some((shapes, output_decoder));
        Ok(Reply {
            count: records.len() / RECORD_LEN,
            cells,
            invalid: invalid(&decoded),
        })
    }

    /// Replaces `detections` by those of the image, in source pixels.
    fn detect(
        &mut self,
        shapes: &Shapes,
        views: &[TensorView<'_>],
        request: &Request,
    ) -> Result<DecodeDiagnostics, String> {
        let wanted = (
            request.score_threshold,
            request.nms_iou,
            request.max_detections,
        );
        let mut decoder = match self.decoder.take() {
            Some((known, params, decoder)) if known == *shapes && params == wanted => decoder,
            _ => {
                let params = DecodeParams {
                    score_threshold: request.score_threshold,
                    nms_iou: request.nms_iou,
                    max_detections: request.max_detections,
                    filter: self.filter.clone(),
                };
                Decoder::new(self.create(shapes)?, params)
            }
        };
        let (width, height) = request.image;
        let input = &self.spec.input;
        let letterbox = Letterbox::new(Size::new(width, height), input.size, input.placement);
        let decoded = decoder.decode(views, &letterbox, &mut self.detections);
        self.decoder = Some((shapes.clone(), wanted, decoder));
        Ok(decoded)
    }

    /// The shapes of the request without the batch axis.
    fn shapes(&self, request: &Request) -> Result<Shapes, String> {
        let names = &self.spec.output.tensors;
        if request.tensors.len() != names.len() {
            return Err(format!(
                "found {} tensors, expected {}: {}",
                request.tensors.len(),
                names.len(),
                names.join(", ")
            ));
        }
        let axes_of_run: Vec<&[usize]> = request
            .tensors
            .iter()
            .map(|header| header.shape.as_slice())
            .collect();
        let axes = self.spec.output.axes_of_image(&axes_of_run, 1);
        let axes = axes.map_err(|tensor| {
            format!(
                "output `{}` has the shape {:?}, expected one image: [1, …]",
                names[tensor], axes_of_run[tensor]
            )
        })?;
        let tensors = request.tensors.iter().zip(axes);
        Ok(tensors
            .map(|(header, axes)| (header.element.into(), axes.to_vec()))
            .collect())
    }

    fn create(&self, shapes: &Shapes) -> Result<Box<dyn OutputDecoder>, String> {
        let of_each: Vec<TensorShape<'_>> = shapes
            .iter()
            .map(|(element, axes)| TensorShape {
                element: *element,
                axes,
            })
            .collect();
        let (size, labels) = (self.spec.input.size, self.spec.labels.len());
        let layout = &self.spec.output.layout;
        layout
            .create_decoder(&NetworkShape::new(size, labels, &of_each))
            .map_err(|mismatch| {
                let name = self.spec.output.tensors.get(mismatch.tensor);
                let found = of_each
                    .get(mismatch.tensor)
                    .map_or("none".to_owned(), ToString::to_string);
                format!(
                    "output `{}` is {found} for each image, expected {}: {}",
                    name.map_or("", String::as_str),
                    mismatch.expected,
                    mismatch.advice
                )
            })
    }
}

fn push_record(records: &mut Vec<u8>, cell: u32, class: u16, score: f32, xyxy: &Xyxy) {
    records.extend(cell.to_le_bytes());
    records.extend(u32::from(class).to_le_bytes());
    records.extend(score.to_le_bytes());
    for side in xyxy {
        records.extend(side.to_le_bytes());
    }
}

/// What the daemon would stop for.
fn invalid(decoded: &DecodeDiagnostics) -> Option<&'static str> {
    if decoded.first_non_finite.is_some() {
        Some("a number that is not finite")
    } else if decoded.first_beyond_one.is_some() {
        Some("a score outside of 0 to 1")
    } else if decoded.first_unknown_class.is_some() {
        Some("a class without a label")
    } else {
        None
    }
}

impl From<Element> for DType {
    fn from(element: Element) -> Self {
        match element {
            Element::Float32 => Self::F32,
            Element::Int32 => Self::I32,
            Element::Int64 => Self::I64,
        }
    }
}

impl TensorHeader {
    /// Reads the numbers that follow the header.
    fn read(&self, input: &mut impl Read) -> anyhow::Result<Numbers> {
        let width = match self.element {
            Element::Float32 | Element::Int32 => 4,
            Element::Int64 => 8,
        };
        let len = self
            .shape
            .iter()
            .try_fold(width, |product: usize, axis| product.checked_mul(*axis));
        let Some(len) = len.filter(|len| *len <= MAX_TENSOR_BYTES) else {
            bail!(
                "standard input: a tensor of shape {:?} is larger than {MAX_TENSOR_BYTES} bytes",
                self.shape
            );
        };
        let mut bytes = Vec::new();
        input
            .take(len as u64)
            .read_to_end(&mut bytes)
            .context("standard input")?;
        ensure!(
            bytes.len() == len,
            "standard input: ended after {} of {len} bytes of a tensor of shape {:?}",
            bytes.len(),
            self.shape
        );
        let (of_four, _) = bytes.as_chunks::<4>();
        Ok(match self.element {
            Element::Float32 => {
                Numbers::F32(of_four.iter().map(|b| f32::from_le_bytes(*b)).collect())
            }
            Element::Int32 => {
                Numbers::I32(of_four.iter().map(|b| i32::from_le_bytes(*b)).collect())
            }
            Element::Int64 => {
                let (of_eight, _) = bytes.as_chunks::<8>();
                Numbers::I64(of_eight.iter().map(|b| i64::from_le_bytes(*b)).collect())
            }
        })
    }
}

impl Numbers {
    fn view(&self) -> TensorView<'_> {
        match self {
            Self::F32(numbers) => TensorView::F32(numbers),
            Self::I32(numbers) => TensorView::I32(numbers),
            Self::I64(numbers) => TensorView::I64(numbers),
        }
    }
}

#[cfg(test)]
mod tests;
