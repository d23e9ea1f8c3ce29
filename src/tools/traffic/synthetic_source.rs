// SPDX-License-Identifier: Apache-2.0
//! The drawn scene as a source: in real time like a camera, or as fast as the handler takes frames, like a file.

use std::time::{Duration, Instant, SystemTime};

use jetwatch_config::{Pacing, SyntheticScene};
use jetwatch_pixels::Resizer;
use jetwatch_source::gst::RawEncoder;
use jetwatch_source::{
    Flow, FullImage, RateLimiter, SessionEnd, Source, SourceContext, SourceError, SyntheticOptions,
};
use jetwatch_telemetry::{Level, Stage};
use jetwatch_types::{Frame, FrameMeta, Image, PIXEL_BYTES, PixelAspect, PixelPool, Region, Size};

use super::crop_resize::crop_resize;
use super::scene::Scene;

/// A source whose frames are drawn, with their ground truth.
pub struct SyntheticSource {
    scene: Scene,
    settings: SyntheticScene,
    pool: PixelPool,
    resizer: Resizer,
    /// For full images, from the first one on: a scene keeps its backdrop in one size only.
    full_image: Option<(Scene, PixelPool)>,
    rate_limiter: Option<RateLimiter>,
    loop_at_end: bool,
    roi: Option<Region>,
}

impl SyntheticSource {
    /// A source of the scene with these parameters.
    pub fn new(settings: &SyntheticScene, options: SyntheticOptions) -> Self {
        Self {
            scene: Scene::new(settings),
            settings: settings.clone(),
            pool: PixelPool::default(),
            resizer: Resizer::default(),
            full_image: None,
            rate_limiter: options.max_fps.map(RateLimiter::new),
            loop_at_end: options.loop_at_end,
            roi: options.roi,
        }
    }

    /// Media time of frame `index`.
    fn time_of(&self, index: u64) -> Duration {
        let nanoseconds = index.saturating_mul(1_000_000_000);
        Duration::from_nanos(nanoseconds / u64::from(self.settings.fps.max(1)))
    }

    /// Metadata of a frame that is captured now. Takes the next sequence number.
    fn meta(&self, pts: Duration, context: &SourceContext) -> FrameMeta {
        FrameMeta {
            source: context.id,
            seq: context.counters.next_seq(),
            pts: Some(pts),
            captured_at: SystemTime::now(),
            received_at: Instant::now(),
            source_size: Size::new(self.settings.width, self.settings.height),
        }
    }

    /// Draws frame `index` at the letterbox's inner size, with its truth in source pixels. `None` where an image has the wrong size.
    fn draw(&mut self, index: u64, meta: FrameMeta, context: &SourceContext) -> Option<Frame> {
        let source_size = meta.source_size;
        let _whole = context.recorder.batch(Level::Source, 1);
        let _range = context
            .recorder
            .range_with_payload(Stage::Source, 1, meta.seq);
        let crop = self.roi.and_then(|roi| roi.to_crop(source_size));
        let inner = context.output_size(source_size, crop, PixelAspect::default());
        let part = context.source_crop(crop);
        let is_wanted = match context.full_image {
            FullImage::None => false,
            FullImage::SourceSize => true,
            FullImage::OnDemand => context.handler.wants_full_image(context.id),
        };
        let mut full_image = match (is_wanted, part) {
            (false, None) => None,
            // The part is cropped from the full image.
            _ => Some(self.paint_full_image(index)?),
        };
        let image = match (part, &full_image) {
            (Some(crop), Some(whole)) => {
                crop_resize(&mut self.resizer, whole, crop, inner, &self.pool)?
            }
            _ => paint(&mut self.scene, index, inner, &self.pool)?,
        };
        if !is_wanted {
            full_image = None;
        }
        let mut truth = Vec::with_capacity(self.settings.objects as usize);
        self.scene.truth_into(index, &mut truth);
        if let Some(crop) = crop {
            truth.retain_mut(|object| {
                let Some((inside, share)) = crop.inside(&object.xyxy) else {
                    return false;
                };
                let [x, y] = [crop.left as f32, crop.top as f32];
                object.xyxy = [inside[0] + x, inside[1] + y, inside[2] + x, inside[3] + y];
                object.visible *= share;
                true
            });
        }
        // Drawing takes the place of exposure: a frame is captured when it is drawn.
        let meta = FrameMeta {
            captured_at: SystemTime::now(),
            received_at: Instant::now(),
            ..meta
        };
        Some(Frame {
            meta,
            crop,
            pixels: PixelAspect::default(),
            image,
            full_image,
            truth,
        })
    }

    /// Draws frame `index` at source size.
    fn paint_full_image(&mut self, index: u64) -> Option<Image> {
        let settings = &self.settings;
        let (scene, pool) = self
            .full_image
            .get_or_insert_with(|| (Scene::new(settings), PixelPool::default()));
        paint(
            scene,
            index,
            Size::new(settings.width, settings.height),
            pool,
        )
    }

    /// Delivers frame `index` without an image for the network.
    fn skip_frame(
        &mut self,
        index: u64,
        meta: FrameMeta,
        context: &SourceContext,
        skipped_image: FullImage,
    ) -> Result<(), SourceError> {
        let full_image = match skipped_image {
            FullImage::None | FullImage::OnDemand => None,
            FullImage::SourceSize => Some(self.paint_full_image(index).ok_or_else(wrong_size)?),
        };
        context.handler.skipped(meta, full_image);
        Ok(())
    }
}

fn wrong_size() -> SourceError {
    SourceError::Build("a synthetic image has the wrong size".to_owned())
}

/// Draws frame `index` at one size.
fn paint(scene: &mut Scene, index: u64, size: Size, pool: &PixelPool) -> Option<Image> {
    let stride = size.width as usize * PIXEL_BYTES;
    let mut pixels = pool.acquire(stride * size.height as usize);
    scene.draw(index, size, pixels.as_mut(), stride);
    Image::new(size, stride, Box::new(pixels))
}

impl Source for SyntheticSource {
    fn run_once(
        &mut self,
        context: &SourceContext,
        first_frame: &dyn Fn(),
    ) -> Result<SessionEnd, SourceError> {
        let is_live = self.settings.pacing == Pacing::Realtime;
        let encoder = RawEncoder::of(context, is_live);
        let result = self.draw_all(context, encoder.as_deref(), first_frame);
        if let Some(encoder) = encoder {
            encoder.finish();
        }
        result
    }
}

impl SyntheticSource {
    /// Delivers frames until the end of the session; `encoder` gets those that are recorded.
    fn draw_all(
        &mut self,
        context: &SourceContext,
        encoder: Option<&RawEncoder>,
        first_frame: &dyn Fn(),
    ) -> Result<SessionEnd, SourceError> {
        let period = Duration::from_secs(1) / self.settings.fps.max(1);
        let is_live = self.settings.pacing == Pacing::Realtime;
        let mut due = Instant::now();
        // Timestamps go on while frames are missed, as those of a camera.
        let mut missed = Duration::ZERO;
        let mut index = 0;
        let mut announced = false;
        loop {
            if self.settings.frames.is_some_and(|frames| index >= frames) {
                if !self.loop_at_end || index == 0 {
                    return if index == 0 {
                        Err(SourceError::Empty)
                    } else {
                        Ok(SessionEnd::EndOfMedia)
                    };
                }
                index = 0;
            }
            if is_live {
                if context
                    .stop
                    .wait(due.saturating_duration_since(Instant::now()))
                {
                    return Ok(SessionEnd::Stopped);
                }
                let next = next_tick(due, period, Instant::now());
                missed += next - due - period;
                due = next;
            } else if context.stop.is_stopped() {
                return Ok(SessionEnd::Stopped);
            }
            let time = self.time_of(index);
            if self
                .rate_limiter
                .as_mut()
                .is_some_and(|limiter| !limiter.admit(time))
            {
                index += 1;
                continue;
            }
            context.heartbeat.busy();
            let meta = self.meta(time + missed, context);
            if let Some(encoder) = encoder
                && let Some(pts) = encoder.admit(meta.pts)
            {
                let image = self.paint_full_image(index).ok_or_else(wrong_size)?;
                encoder.push(&image, pts, meta.captured_at);
            }
            // The first frame is always drawn, so that a source that cannot draw fails at once.
            if announced
                && let Some(skipped_image) = context.skipped_image
                && context.handler.should_skip(context.id)
            {
                self.skip_frame(index, meta, context, skipped_image)?;
                index += 1;
                continue;
            }
            let frame = self.draw(index, meta, context).ok_or_else(wrong_size)?;
            if !announced {
                announced = true;
                // The first frame draws the backdrop too: the schedule starts after it.
                let next = Instant::now() + period;
                if is_live {
                    missed += next.saturating_duration_since(due);
                    due = next;
                }
                first_frame();
            }
            context.heartbeat.idle();
            if context.handler.frame(frame) == Flow::Stop {
                return Ok(SessionEnd::Stopped);
            }
            index += 1;
        }
    }
}

/// When the frame after the one due at `due` is due. As with a camera, frames missed while the handler blocked never
/// come, and the phase stays.
fn next_tick(due: Instant, period: Duration, now: Instant) -> Instant {
    let next = due + period;
    let behind = now.saturating_duration_since(next);
    let missed = (behind.as_nanos() / period.as_nanos().max(1)) as u32;
    if behind.is_zero() {
        next
    } else {
        next + period * (missed + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synthetic_source_keeps_rate_and_skips_missed_frames() {
        let period = Duration::from_millis(10);
        let due = Instant::now();
        let tick = |late_ms| next_tick(due, period, due + Duration::from_millis(late_ms)) - due;
        assert_eq!(tick(0), period);
        assert_eq!(tick(9), period, "late, but before the next frame");
        assert_eq!(tick(11), 2 * period);
        assert_eq!(tick(35), 4 * period);
    }
}
