// SPDX-License-Identifier: Apache-2.0
//! Postprocessing for all runtimes: splits a batch into runs and turns the outputs of a run into detections per frame.

use std::sync::Arc;

use super::DetectError;
use super::decode::{DecodeParams, Decoder};
use super::decoders::{DecodeDiagnostics, ElementIndex, OutputDecoder, TensorView};
use super::layouts::keys::MAX_TENSORS;
use super::model::ModelSpec;
use jetwatch_types::{Detection, Frame, FrameMeta, Letterbox};

/// Decodes the frames of a run. Values that a correct network cannot give are errors.
#[derive(Debug)]
pub(super) struct Postprocessor {
    decoder: Decoder,
    /// Names of the outputs in the layout's order.
    tensors: Vec<String>,
    first_class: usize,
    labels: usize,
    /// One for each frame of the batch, where the layout gives embeddings.
    embeddings: Vec<Arc<[f32]>>,
}

impl Postprocessor {
    /// For networks as `spec` describes them; `output_decoder` reads their outputs.
    pub(super) fn new(
        spec: &ModelSpec,
        output_decoder: Box<dyn OutputDecoder>,
        params: DecodeParams,
    ) -> Self {
        Self {
            decoder: Decoder::new(output_decoder, params),
            tensors: spec.output.tensors.clone(),
            first_class: spec.output.layout.first_class() as usize,
            labels: spec.labels.len(),
            embeddings: Vec::new(),
        }
    }

    /// Forgets the embeddings of the batch before.
    pub(super) fn begin_batch(&mut self) {
        self.embeddings.clear();
    }

    /// The embeddings of the frames that were processed since [`begin_batch`](Self::begin_batch), each of length 1.
    pub(super) fn embeddings(&self) -> &[Arc<[f32]>] {
        &self.embeddings
    }

    /// Replaces `results` by the detections of `frames`, in source pixels. `letterboxes` has one entry per frame. `outputs`
    /// holds the tensors of all frames, in the layout's order.
    ///
    /// # Errors
    /// A value is not finite, a score is above 1, or a class has no label.
    pub(super) fn process(
        &mut self,
        frames: &[Frame],
        letterboxes: &[Letterbox],
        outputs: &[TensorView<'_>],
        results: &mut [Vec<Detection>],
    ) -> Result<(), DetectError> {
        let mut parts = [TensorView::F32(&[]); MAX_TENSORS];
        let parts = &mut parts[..outputs.len()];
        for (index, ((frame, letterbox), detections)) in
            frames.iter().zip(letterboxes).zip(results).enumerate()
        {
            for (part, output) in parts.iter_mut().zip(outputs) {
                *part = output.part(index, frames.len());
            }
            let decoded = self.decoder.decode(parts, letterbox, detections);
            self.check_values(&decoded, parts, &frame.meta)?;
            if let Some(vector) = self.decoder.embedding(parts) {
                self.embeddings.push(unit_vector(vector));
            }
        }
        Ok(())
    }

    /// The first value of an output that a correct network cannot give is the error.
    fn check_values(
        &self,
        decoded: &DecodeDiagnostics,
        outputs: &[TensorView<'_>],
        meta: &FrameMeta,
    ) -> Result<(), DetectError> {
        let (tensors, source_id, seq) = (&self.tensors, meta.source, meta.seq);
        let at = |element: ElementIndex| {
            let tensor = tensors[element.tensor].clone();
            let value = outputs[element.tensor].format_value(element.index);
            (tensor, element.index, value)
        };
        if let Some(tensor) = decoded.other_rows {
            return Err(DetectError::OtherRows {
                source_id,
                seq,
                tensor: tensors[tensor].clone(),
                numbers: outputs[tensor].len(),
                of_first: outputs[0].len(),
                first: tensors[0].clone(),
            });
        }
        if let Some((tensor, index, value)) = decoded.first_non_finite.map(at) {
            return Err(DetectError::NotFinite {
                source_id,
                seq,
                tensor,
                index,
                value,
                boxes: decoded.non_finite,
            });
        }
        if let Some((tensor, index, value)) = decoded.first_beyond_one.map(at) {
            return Err(DetectError::BeyondOne {
                source_id,
                seq,
                tensor,
                index,
                value,
            });
        }
        if let Some((tensor, index, value)) = decoded.first_unknown_class.map(at) {
            return Err(DetectError::NoLabel {
                source_id,
                seq,
                tensor,
                index,
                value,
                first_class: self.first_class,
                labels: self.labels,
            });
        }
        Ok(())
    }
}

/// The vector scaled to length 1; zeros stay zeros.
fn unit_vector(vector: &[f32]) -> Arc<[f32]> {
    let square: f64 = vector.iter().map(|value| f64::from(*value).powi(2)).sum();
    let factor = match square > 0.0 {
        true => square.sqrt().recip(),
        false => 0.0,
    };
    vector
        .iter()
        .map(|value| (f64::from(*value) * factor) as f32)
        .collect()
}

/// Splits a batch of 1 to `max_frames` frames into runs of at most `slots` frames. Calls `run` for each, with the lists for
/// its results.
///
/// # Errors
/// The batch is empty or has more than `max_frames` frames, or `run` fails.
pub(super) fn run_chunked(
    batch: &[Frame],
    results: &mut Vec<Vec<Detection>>,
    max_frames: usize,
    slots: usize,
    mut run: impl FnMut(&[Frame], &mut [Vec<Detection>]) -> Result<(), DetectError>,
) -> Result<(), DetectError> {
    if batch.is_empty() || batch.len() > max_frames {
        let found = batch.len();
        return Err(DetectError::BatchSize {
            found,
            most: max_frames,
        });
    }
    results.resize_with(batch.len(), Vec::new);
    for (frames, results) in batch.chunks(slots).zip(results.chunks_mut(slots)) {
        run(frames, results)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_get_length_one() {
        assert_eq!(*unit_vector(&[3.0, -4.0]), [0.6, -0.8]);
        assert_eq!(*unit_vector(&[0.0, 0.0]), [0.0, 0.0]);
        assert_eq!(*unit_vector(&[1e30, 0.0]), [1.0, 0.0]);
    }
}
