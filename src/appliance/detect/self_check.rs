// SPDX-License-Identifier: Apache-2.0
//! Whether the boxes of a network are what its layout promises, judged on a made-up image when the network is loaded. Pure.
//!
//! Without it, a network that is read in the wrong unit finds nothing in silence: all of its boxes are a pixel wide, or
//! outside of the image. Real networks give boxes everywhere in an image, whatever it shows, if low scores count.

use std::path::Path;

use super::decoders::{DecodeDiagnostics, Mismatch};
use super::layouts::LayoutKind;
use super::model::ModelSpec;
use super::{Candidate, ClassFilter, DetectError, graph};
use jetwatch_pixels::{CHANNELS, Slot, TensorFormat};
use jetwatch_types::{PIXEL_BYTES, Size};

/// Fewer boxes say nothing.
const MIN_BOXES: usize = 20;

/// Boxes in pixels reach farther than the input's side divided by this.
const CORNER: f32 = 40.0;

/// A value of a made-up image.
pub(super) fn made_up_pixel(at: usize) -> u8 {
    (at * 37 % 251) as u8
}

/// The pixels `BGRx` of a made-up image of `size`.
pub(super) fn image_of(size: Size) -> Vec<u8> {
    let len = size.width as usize * size.height as usize * PIXEL_BYTES;
    // Blocks of different brightness.
    (0..len)
        .map(|at| made_up_pixel(at / (8 * PIXEL_BYTES)))
        .collect()
}

/// Fills the input with a made-up image in the usual range of pixels.
pub(super) fn write_image(slot: Slot<'_>, format: &TensorFormat) {
    // Blocks of different brightness.
    let pixel = |at: usize| made_up_pixel(at / 8);
    match slot {
        Slot::F32(values) => {
            let plane = (values.len() / CHANNELS).max(1);
            for (at, value) in values.iter_mut().enumerate() {
                let channel = (at / plane).min(CHANNELS - 1);
                *value = (f32::from(pixel(at)) - format.mean[channel]) * format.scale[channel];
            }
        }
        Slot::U8(values) => {
            for (at, value) in values.iter_mut().enumerate() {
                *value = pixel(at);
            }
        }
    }
}

/// Refuses boxes that the layout of `spec` does not allow; `decode` runs the network in `path` on the made-up image and adds all
/// candidates to the list.
///
/// # Errors
/// The run fails, or the boxes are impossible.
pub(super) fn check_network(
    spec: &ModelSpec,
    path: &Path,
    decode: impl FnOnce(&ClassFilter, &mut Vec<Candidate>) -> Result<DecodeDiagnostics, DetectError>,
) -> Result<(), DetectError> {
    let layout = &spec.output.layout;
    if layout.kind() != LayoutKind::Detector {
        return Ok(());
    }
    // What is suppressed already is little, so that its boxes say nothing.
    let wrong = if layout.rows_vary() {
        coarse_output(spec, path)
    } else {
        let mut candidates = Vec::new();
        let decoded = decode(&ClassFilter::new(&spec.labels, &[])?, &mut candidates)?;
        let has_scores = candidates.iter().any(|candidate| candidate.score > 0.0);
        let coarse = match has_scores && decoded.first_beyond_one.is_none() {
            true => None,
            false => coarse_output(spec, path),
        };
        coarse.or_else(|| check(&candidates, &decoded, spec.input.size))
    };
    match wrong {
        Some((found, mismatch)) => Err(DetectError::Tensor {
            path: path.to_owned(),
            tensor: format!("output `{}`", spec.output.tensors[mismatch.tensor]),
            found,
            expected: mismatch.expected,
            advice: mismatch.advice,
        }),
        None => Ok(()),
    }
}

/// What is wrong with the only output, where it is quantized so that its scores are lost.
fn coarse_output(spec: &ModelSpec, path: &Path) -> Option<(String, Mismatch)> {
    let [name] = spec.output.tensors.as_slice() else {
        return None;
    };
    let network = graph::read(path).ok()?;
    let mut outputs = network.outputs.iter();
    outputs.find(|output| output.name == *name && output.is_coarse)?;
    let mismatch = Mismatch {
        tensor: 0,
        expected: "boxes and scores with a scale each".to_owned(),
        advice: "quantize the network again without the operators that join and scale its boxes, such as with nodes_to_exclude of \
                 onnxruntime, or with models/quantize.py"
            .to_owned(),
    };
    let found = "boxes and scores that were quantized with one scale, so that no scores between 0 and 1 are left";
    Some((found.to_owned(), mismatch))
}

/// What is wrong with `candidates`, which are all boxes of an image, whatever their score, for an input of `size`; `None`
/// where nothing speaks against them.
fn check(
    candidates: &[Candidate],
    decoded: &DecodeDiagnostics,
    size: Size,
) -> Option<(String, Mismatch)> {
    let wrong = |found: String, tensor, expected: &str, advice: &str| {
        let (expected, advice) = (expected.to_owned(), advice.to_owned());
        Some((
            found,
            Mismatch {
                tensor,
                expected,
                advice,
            },
        ))
    };
    if let Some(element) = decoded.first_beyond_one {
        return wrong(
            format!(
                "a score outside of 0 to 1 at index {} for a made-up image",
                element.index
            ),
            element.tensor,
            "scores from 0 to 1",
            "export the network with its sigmoid or softmax, or set output.activation in model.yaml where the layout has it; or set \
             output.layout to that of the network; networks for poses, faces or rotated boxes (OBB) have points or angles there: \
             export a detection network",
        );
    }
    // A few may be those of rows that no image of a camera gives.
    if let Some(element) = decoded.first_non_finite
        && decoded.non_finite > candidates.len()
    {
        return wrong(
            format!(
                "{} of {} boxes with NaN or infinity, from index {} on, for a made-up image",
                decoded.non_finite,
                decoded.non_finite + candidates.len(),
                element.index
            ),
            element.tensor,
            "finite numbers",
            "an overflow in reduced precision or a broken export: choose another detector.precision, or export the network again",
        );
    }
    // Rows without a score only fill the tensor.
    let is_filled = |candidate: &&Candidate| candidate.score > 0.0 && candidate.xyxy != [0.0; 4];
    let candidates: Vec<&Candidate> = candidates.iter().filter(is_filled).collect();
    if candidates.len() < MIN_BOXES {
        return None;
    }
    // The farthest edge of each box from the upper left corner.
    let reach = |candidate: &&Candidate| {
        (candidate.xyxy.into_iter()).fold(0.0, |most: f32, edge| most.max(edge.abs()))
    };
    let mut reaches: Vec<f32> = candidates.iter().map(reach).collect();
    reaches.sort_unstable_by(f32::total_cmp);
    let most = reaches[reaches.len() * 9 / 10];
    if most > 0.0 && most <= (size.width.min(size.height) as f32 / CORNER).max(2.0) {
        return wrong(
            format!("boxes within {most:.1} pixels of the upper left corner for a made-up image"),
            0,
            &format!("boxes in pixels of the input, {size}"),
            "the network gives boxes as shares of the image or of a cell: set output.boxes_are to normalized in model.yaml where the \
             layout has it, or output.layout to that of the network, or export the network with boxes in pixels",
        );
    }
    let (width, height) = (size.width as f32, size.height as f32);
    let is_far = |candidate: &&&Candidate| {
        let [left, top, right, bottom] = candidate.xyxy;
        let is_far = |low: f32, high: f32, side: f32| {
            ((low + high) / 2.0 / side - 0.5).abs() > 4.0 || high - low > 20.0 * side
        };
        is_far(left, right, width) || is_far(top, bottom, height)
    };
    let far = candidates.iter().filter(is_far).count();
    if far * 2 > candidates.len() {
        return wrong(
            format!(
                "{far} of {} boxes far outside of the image, for a made-up one",
                candidates.len()
            ),
            0,
            &format!("boxes in an input of {size}"),
            "check output.layout, input.width and input.height in model.yaml, and output.boxes_are where the layout has it: boxes in \
             pixels are not normalized",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::ElementIndex;

    fn boxes(unit: f32) -> Vec<Candidate> {
        let at = |cell: u32| {
            let [x, y] = [cell % 8, cell / 8].map(|place| place as f32 / 8.0 * unit);
            Candidate {
                cell,
                class: 0,
                score: 0.001,
                xyxy: [x, y, x + 0.1 * unit, y + 0.2 * unit],
            }
        };
        (0..64).map(at).collect()
    }

    #[test]
    fn boxes_in_another_unit_are_told() {
        let size = Size::new(320, 320);
        let fine = DecodeDiagnostics::default();
        let advice = |candidates: &[Candidate], decoded| {
            check(candidates, &decoded, size)
                .map(|(found, mismatch)| format!("{found}: {}", mismatch.advice))
        };
        assert_eq!(advice(&boxes(320.0), fine), None);
        let unit = advice(&boxes(1.0), fine).expect("too small");
        assert!(
            unit.contains("within 1.1 pixels") && unit.contains("boxes_are to normalized"),
            "{unit}"
        );
        let far = advice(&boxes(320.0 * 320.0), fine).expect("too large");
        assert!(far.starts_with("64 of 64 boxes far outside"), "{far}");
        let wide = |candidate: Candidate| Candidate {
            xyxy: [-1e5, -1e5, 1e5, 1e5],
            ..candidate
        };
        let wide: Vec<Candidate> = boxes(320.0).into_iter().map(wide).collect();
        let wide = advice(&wide, fine).expect("too wide");
        assert!(wide.starts_with("64 of 64 boxes far outside"), "{wide}");
        // Few boxes, or none with an extent, say nothing.
        assert_eq!(advice(&boxes(1.0)[..19], fine), None);
        assert_eq!(advice(&boxes(0.0), fine), None);
        let broken = |non_finite| DecodeDiagnostics {
            non_finite,
            first_non_finite: Some(ElementIndex {
                tensor: 0,
                index: 5,
            }),
            ..fine
        };
        assert_eq!(advice(&boxes(320.0), broken(64)), None);
        let overflow = advice(&boxes(320.0), broken(65)).expect("no numbers");
        assert!(
            overflow.starts_with("65 of 129 boxes with NaN") && overflow.contains("precision"),
            "{overflow}"
        );
        let beyond = DecodeDiagnostics {
            first_beyond_one: Some(ElementIndex {
                tensor: 1,
                index: 7,
            }),
            ..fine
        };
        let logits = advice(&boxes(320.0), beyond).expect("no probability");
        assert!(
            logits.contains("at index 7") && logits.contains("output.activation"),
            "{logits}"
        );
    }
}
