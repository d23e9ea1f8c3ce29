//! From one picture's raw output to its detections: decoding, suppression, and the way back to source pixels. Pure.

use super::decoders::{DecodeDiagnostics, OutputDecoder, TensorView};
use super::{Candidate, ClassFilter, nms};
use jetwatch_types::{Detection, Letterbox, area};

/// What the configuration may say differently from the model.
#[derive(Debug, Clone)]
pub struct DecodeParams {
    /// Least score, 0 to 1.
    pub score_threshold: f32,
    /// Overlap above which the worse of two boxes of one class is dropped, 0 to 1.
    pub nms_iou: f32,
    /// Most detections in one frame.
    pub max_detections: usize,
    /// Classes that are kept.
    pub filter: ClassFilter,
}

/// Turns raw output into detections; keeps its working memory from frame to frame.
#[derive(Debug)]
pub struct Decoder {
    output_decoder: Box<dyn OutputDecoder>,
    params: DecodeParams,
    candidates: Vec<Candidate>,
}

impl Decoder {
    /// A decoder for what `decoder` reads.
    #[must_use]
    pub fn new(output_decoder: Box<dyn OutputDecoder>, params: DecodeParams) -> Self {
        Self {
            output_decoder,
            params,
            candidates: Vec::new(),
        }
    }

    /// Replaces `detections` by those in `tensors`, the output of one picture in the layout's order: in source pixels,
    /// clipped to the picture, best first.
    ///
    /// What the output holds besides is returned; the caller decides whether the detections may be used. Panics when
    /// `tensors` are not those that the head was made for.
    pub fn decode(
        &mut self,
        tensors: &[TensorView<'_>],
        letterbox: &Letterbox,
        detections: &mut Vec<Detection>,
    ) -> DecodeDiagnostics {
        let Self {
            output_decoder: head,
            params: limits,
            candidates,
        } = self;
        let decoded = head.decode(tensors, limits.score_threshold, &limits.filter, candidates);
        if head.needs_suppression() {
            nms::non_max_suppression(candidates, limits.nms_iou, limits.max_detections);
        } else {
            nms::rank(candidates, limits.max_detections);
        }
        detections.clear();
        detections.extend(candidates.iter().filter_map(|candidate| {
            let xyxy = letterbox.to_source(&candidate.xyxy);
            // A box that lies in the padding has nothing left of it.
            (area(&xyxy) > 0.0).then_some(Detection {
                class: candidate.class,
                score: candidate.score,
                xyxy,
            })
        }));
        decoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::{DType, TensorShape};
    use crate::model_yaml::tests::{FULL, parse};
    use jetwatch_types::Size;

    #[test]
    fn boxes_are_mapped_to_source_pixels_and_clipped_at_padding() {
        // Input 96×64, two labels, centered: 96×24 of a picture of 384×96 lie at row 20.
        let spec = parse(FULL).expect("it is right");
        let letterbox = Letterbox::new(Size::new(384, 96), spec.input.size, spec.input.placement);
        assert_eq!((letterbox.inner, letterbox.top), (Size::new(96, 24), 20));
        let filter = ClassFilter::new(&spec.labels, &[]).expect("nothing to look up");
        let limits = DecodeParams {
            score_threshold: 0.3,
            nms_iou: 0.5,
            max_detections: 10,
            filter,
        };
        let shape = TensorShape {
            element: DType::F32,
            axes: &[126, 7],
        };
        let head = spec
            .output
            .layout
            .create_decoder(spec.input.size, 2, &[shape]);
        let mut decoder = Decoder::new(head.expect("the shape is right"), limits);

        let mut output = vec![0.0; 126 * 7];
        // Stride 32: column 1, row 0, center 32+16, 16+8: half of it above the picture.
        output[121 * 7..122 * 7].copy_from_slice(&[0.5, 0.75, 0.0, 0.0, 1.0, 0.0, 0.6]);
        // Stride 8: column 0, row 0: all of it above the picture.
        output[..7].copy_from_slice(&[0.5, 0.5, 0.0, 0.0, 1.0, 0.9, 0.0]);
        let mut detections = vec![Detection {
            class: 5,
            score: 1.0,
            xyxy: [0.0; 4],
        }];
        let decoded = decoder.decode(&[TensorView::F32(&output)], &letterbox, &mut detections);
        assert_eq!(decoded, DecodeDiagnostics::default());
        assert_eq!(
            detections,
            [Detection {
                class: 1,
                score: 0.6,
                xyxy: [128.0, 0.0, 256.0, 80.0]
            }]
        );
    }
}
