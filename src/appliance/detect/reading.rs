//! What is the same whichever runtime it is: a batch in runs, and the outputs of a run to the detections of its frames.

use super::DetectError;
use super::decode::{Decoder, Limits};
use super::layout::spec::MOST_TENSORS;
use super::layout::{Decoded, Head, Numbers, Place};
use super::model::ModelSpec;
use jetwatch_types::{Detection, Frame, FrameMeta, Letterbox};

/// Decodes the frames of a run and refuses numbers that no sound network gives.
#[derive(Debug)]
pub(super) struct Reading {
    decoder: Decoder,
    /// Names of the outputs in the layout's order.
    tensors: Vec<String>,
    labels: usize,
}

impl Reading {
    /// Of networks that `spec` describes, whose outputs `head` reads.
    pub(super) fn new(spec: &ModelSpec, head: Box<dyn Head>, limits: Limits) -> Self {
        Self {
            decoder: Decoder::new(head, limits),
            tensors: spec.output.tensors.clone(),
            labels: spec.labels.len(),
        }
    }

    /// Replaces `results` by the detections of `frames`, which lay in the run's slots as `letterboxes` say. `outputs` are
    /// those of all frames, in the layout's order.
    pub(super) fn read(
        &mut self,
        frames: &[Frame],
        letterboxes: &[Letterbox],
        outputs: &[Numbers<'_>],
        results: &mut [Vec<Detection>],
    ) -> Result<(), DetectError> {
        let mut parts = [Numbers::F32(&[]); MOST_TENSORS];
        let parts = &mut parts[..outputs.len()];
        for (index, ((frame, letterbox), detections)) in
            frames.iter().zip(letterboxes).zip(results).enumerate()
        {
            for (part, output) in parts.iter_mut().zip(outputs) {
                *part = output.part(index, frames.len());
            }
            let decoded = self.decoder.decode(parts, letterbox, detections);
            sound(&decoded, parts, &frame.meta, &self.tensors, self.labels)?;
        }
        Ok(())
    }
}

/// Cuts a batch of 1 to `most` frames into runs of at most `slots` and gives each to `run`, with the lists for its results.
pub(super) fn in_runs(
    batch: &[Frame],
    results: &mut Vec<Vec<Detection>>,
    most: usize,
    slots: usize,
    mut run: impl FnMut(&[Frame], &mut [Vec<Detection>]) -> Result<(), DetectError>,
) -> Result<(), DetectError> {
    if batch.is_empty() || batch.len() > most {
        let found = batch.len();
        return Err(DetectError::BatchSize { found, most });
    }
    results.resize_with(batch.len(), Vec::new);
    for (frames, results) in batch.chunks(slots).zip(results.chunks_mut(slots)) {
        run(frames, results)?;
    }
    Ok(())
}

/// Refuses an output that holds numbers which no sound network gives.
fn sound(
    decoded: &Decoded,
    outputs: &[Numbers<'_>],
    meta: &FrameMeta,
    tensors: &[String],
    labels: usize,
) -> Result<(), DetectError> {
    let (source_id, seq) = (meta.source, meta.seq);
    let at = |place: Place| {
        let tensor = tensors[place.tensor].clone();
        let value = outputs[place.tensor].written(place.index);
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
