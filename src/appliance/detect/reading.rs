//! What is the same whichever runtime it is: a batch in runs, and the outputs of a run to the detections of its frames.

use super::DetectError;
use super::decode::{DecodeParams, Decoder};
use super::decoders::spec::MAX_TENSORS;
use super::decoders::{DecodeDiagnostics, ElementIndex, OutputDecoder, TensorView};
use super::model::ModelSpec;
use jetwatch_types::{Detection, Frame, FrameMeta, Letterbox};

/// Decodes the frames of a run and refuses numbers that no sound network gives.
#[derive(Debug)]
pub(super) struct Postprocessor {
    decoder: Decoder,
    /// Names of the outputs in the layout's order.
    tensors: Vec<String>,
    labels: usize,
}

impl Postprocessor {
    /// Of networks that `model_spec` describes, whose outputs `decoder` reads.
    pub(super) fn new(
        spec: &ModelSpec,
        head: Box<dyn OutputDecoder>,
        limits: DecodeParams,
    ) -> Self {
        Self {
            decoder: Decoder::new(head, limits),
            tensors: spec.output.tensors.clone(),
            labels: spec.labels.len(),
        }
    }

    /// Replaces `results` by the detections of `frames`, which lay in the run's slots as `letterboxes` say. `outputs` are
    /// those of all frames, in the layout's order.
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
            check_values(&decoded, parts, &frame.meta, &self.tensors, self.labels)?;
        }
        Ok(())
    }
}

/// Cuts a batch of 1 to `max` frames into runs of at most `slots` and gives each to `run_on_thread`, with the lists for its results.
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

/// Refuses an output that holds numbers which no sound network gives.
fn check_values(
    decoded: &DecodeDiagnostics,
    outputs: &[TensorView<'_>],
    meta: &FrameMeta,
    tensors: &[String],
    labels: usize,
) -> Result<(), DetectError> {
    let (source_id, seq) = (meta.source, meta.seq);
    let at = |place: ElementIndex| {
        let tensor = tensors[place.tensor].clone();
        let value = outputs[place.tensor].format_value(place.index);
        (tensor, place.index, value)
    };
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
            labels,
        });
    }
    Ok(())
}
