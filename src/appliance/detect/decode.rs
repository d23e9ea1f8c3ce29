// SPDX-License-Identifier: Apache-2.0
//! From the raw output of one image to its detections: decoding, suppression, mapping to source pixels. Pure.

use super::decoders::{DecodeDiagnostics, OutputDecoder, TensorView};
use super::{Candidate, ClassFilter, nms};
use jetwatch_types::{Detection, Letterbox, area};

/// Parameters that the configuration may override.
#[derive(Debug, Clone)]
pub struct DecodeParams {
    /// Minimum score, 0 to 1.
    pub score_threshold: f32,
    /// IoU above which the lower-scored of two boxes of one class is dropped, 0 to 1.
    pub nms_iou: f32,
    /// Maximum number of detections in one frame.
    pub max_detections: usize,
    /// Classes that are kept.
    pub filter: ClassFilter,
}

/// Turns raw output into detections. Its working memory is reused from frame to frame.
#[derive(Debug)]
pub struct Decoder {
    output_decoder: Box<dyn OutputDecoder>,
    params: DecodeParams,
    candidates: Vec<Candidate>,
}

impl Decoder {
    /// A decoder for the layout that `output_decoder` reads.
    pub fn new(output_decoder: Box<dyn OutputDecoder>, params: DecodeParams) -> Self {
        Self {
            output_decoder,
            params,
            candidates: Vec::new(),
        }
    }

    /// Replaces `detections` by those in `tensors`, the output of one image in the layout's order: in source pixels,
    /// clipped to the image, best first.
    ///
    /// Returns the invalid values that were found; the caller decides whether the detections may be used.
    ///
    /// # Panics
    /// `tensors` do not have the shapes that the output decoder was made for.
    pub fn decode(
        &mut self,
        tensors: &[TensorView<'_>],
        letterbox: &Letterbox,
        detections: &mut Vec<Detection>,
    ) -> DecodeDiagnostics {
        let Self {
            output_decoder,
            params,
            candidates,
        } = self;
        let decoded =
            output_decoder.decode(tensors, params.score_threshold, &params.filter, candidates);
        if output_decoder.needs_suppression() {
            nms::non_max_suppression(candidates, params.nms_iou, params.max_detections);
        } else {
            nms::rank(candidates, params.max_detections);
        }
        detections.clear();
        detections.extend(candidates.iter().filter_map(|candidate| {
            let xyxy = letterbox.to_source(&candidate.xyxy);
            // A box inside the padding has no area after clipping.
            (area(&xyxy) > 0.0).then_some(Detection {
                class: candidate.class,
                score: candidate.score,
                xyxy,
            })
        }));
        decoded
    }

    /// The vector in `tensors`, the output of one image; `None` where the layout has none.
    pub fn embedding<'t>(&self, tensors: &[TensorView<'t>]) -> Option<&'t [f32]> {
        self.output_decoder.embedding(tensors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::{DType, NetworkShape, TensorShape};
    use crate::model_yaml::tests::{FULL, parse};
    use jetwatch_types::Size;

    #[test]
    fn boxes_are_mapped_to_source_pixels_and_clipped_at_padding() {
        // Input 96×64, two labels, centered: 96×24 of an image of 384×96 lie at row 20.
        let spec = parse(FULL).expect("it is right");
        let letterbox = Letterbox::new(Size::new(384, 96), spec.input.size, spec.input.placement);
        assert_eq!((letterbox.inner, letterbox.top), (Size::new(96, 24), 20));
        let filter = ClassFilter::new(&spec.labels, &[]).expect("nothing to look up");
        let params = DecodeParams {
            score_threshold: 0.3,
            nms_iou: 0.5,
            max_detections: 10,
            filter,
        };
        let shape = TensorShape {
            element: DType::F32,
            axes: &[126, 7],
        };
        let output_decoder =
            spec.output
                .layout
                .create_decoder(&NetworkShape::new(spec.input.size, 2, &[shape]));
        let mut decoder = Decoder::new(output_decoder.expect("the shape is right"), params);

        let mut output = vec![0.0; 126 * 7];
        // Stride 32: column 1, row 0, center 32+16, 16+8: half of it above the image.
        output[121 * 7..122 * 7].copy_from_slice(&[0.5, 0.75, 0.0, 0.0, 1.0, 0.0, 0.6]);
        // Stride 8: column 0, row 0: all of it above the image.
        output[..7].copy_from_slice(&[0.5, 0.5, 0.0, 0.0, 1.0, 0.9, 0.0]);
        let mut detections = vec![Detection {
            class: 5,
            score: 1.0,
            xyxy: [0.0; 4],
        }];
        let decoded = decoder.decode(&[TensorView::F32(&output)], &letterbox, &mut detections);
        assert_eq!(decoded, DecodeDiagnostics::default());
        let wanted = [Detection {
            class: 1,
            score: 0.6,
            xyxy: [128.0, 0.0, 256.0, 80.0],
        }];
        assert_eq!(detections, wanted);
    }
}
