//! Scaling on the CPU by the inference worker, for the steps of `jetwatch bench --ablation` that measure its cost. The daemon's
//! sources scale, on the scaler of the machine.

use jetwatch_detect::{DetectError, Detector};
use jetwatch_pipeline::{DetectorContext, FrameScaler};
use jetwatch_telemetry::Stage;
use jetwatch_types::{Detection, Frame};

/// Scales frames with images of source size, then runs another detector on them.
pub(crate) struct ScalingDetector {
    inner: Box<dyn Detector>,
    context: DetectorContext,
    scaler: FrameScaler,
    scaled: Vec<Frame>,
}

impl ScalingDetector {
    /// Scales for `inner`, whose input `context` describes.
    pub(crate) fn new(inner: Box<dyn Detector>, context: &DetectorContext) -> Self {
        Self {
            inner,
            context: context.clone(),
            scaler: FrameScaler::new(context.input, context.placement),
            scaled: Vec::new(),
        }
    }

    /// Whether the image of `frame` already is what the network reads, or only the network can read it.
    fn is_ready(&self, frame: &Frame) -> bool {
        !frame.image.is_cpu_readable()
            || (frame.crop.is_none() && frame.image.size == self.scaler.inner_size(frame))
    }
}

impl Detector for ScalingDetector {
    fn detect(
        &mut self,
        batch: &[Frame],
        results: &mut Vec<Vec<Detection>>,
    ) -> Result<(), DetectError> {
        if batch.iter().all(|frame| self.is_ready(frame)) {
            return self.inner.detect(batch, results);
        }
        self.scaled.clear();
        {
            let recorder = self.context.recorder.clone();
            let _range = recorder.range(Stage::Tensor, batch.len());
            for frame in batch {
                self.scaled.push(self.scaler.scale(frame));
            }
        }
        let result = self.inner.detect(&self.scaled, results);
        // Their pixels go back to the pool.
        self.scaled.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use jetwatch_telemetry::Recorder;
    use jetwatch_types::{FrameMeta, Image, PIXEL_BYTES, PixelAspect, Placement, Size};

    /// Size and last row of each image that a detector was given.
    type SeenImages = Arc<Mutex<Vec<(Size, Vec<u8>)>>>;

    struct RecordingDetector(SeenImages);

    impl Detector for RecordingDetector {
        fn detect(
            &mut self,
            batch: &[Frame],
            results: &mut Vec<Vec<Detection>>,
        ) -> Result<(), DetectError> {
            let mut seen = self.0.lock().expect("not poisoned");
            for Frame { image, .. } in batch {
                seen.push((image.size, image.row(image.size.height - 1).to_vec()));
            }
            results.clear();
            results.resize(batch.len(), Vec::new());
            Ok(())
        }
    }

    fn frame(size: Size) -> Frame {
        // Rows with 8 bytes between them that are not part of the image.
        let row = size.width as usize * PIXEL_BYTES;
        let stride = row + 8;
        let mut bytes = vec![9; stride * size.height as usize];
        for line in bytes.chunks_exact_mut(stride) {
            line[..row].fill(200);
        }
        Frame {
            meta: FrameMeta::for_test(0, 0, size),
            crop: None,
            pixels: PixelAspect::default(),
            image: Image::new(size, stride, Box::new(bytes)).expect("large enough"),
            full_image: None,
            truth: Vec::new(),
        }
    }

    #[test]
    fn detector_gets_network_size_and_later_stages_full_size() {
        let seen = SeenImages::default();
        let context = DetectorContext {
            input: Size::new(8, 8),
            placement: Placement::TopLeft,
            recorder: Recorder::default(),
        };
        let inner = Box::new(RecordingDetector(Arc::clone(&seen)));
        let mut detector = ScalingDetector::new(inner, &context);
        // The second image has the size of the network.
        let batch = [frame(Size::new(16, 8)), frame(Size::new(8, 4))];
        let mut results = Vec::new();
        detector.detect(&batch, &mut results).expect("it detects");
        detector
            .detect(&batch[1..], &mut results)
            .expect("it detects");
        assert_eq!(results.len(), 1);
        let seen = seen.lock().expect("not poisoned");
        assert_eq!(seen.len(), 3);
        for (size, row) in seen.iter() {
            assert_eq!(*size, Size::new(8, 4), "its sides keep their ratio");
            let mut pixels = row.chunks_exact(PIXEL_BYTES);
            assert!(pixels.all(|pixel| pixel[..3] == [200; 3]));
        }
        assert_eq!(batch[0].image.size, Size::new(16, 8));
    }
}
