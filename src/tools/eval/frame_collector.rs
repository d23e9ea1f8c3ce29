// SPDX-License-Identifier: Apache-2.0
//! Frames of a source as JPEG files, spread over time: images of the user's own scene for `models/quantize.py` and for
//! `jetwatch engine build --calibration-images`. Called by `jetwatch calibrate`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use parking_lot::Mutex;

use jetwatch_config::{SourceConfig, SourceUri};
use jetwatch_pipeline::PipelineError;
use jetwatch_pixels::ImageFormat;
use jetwatch_source::image_file::write_rgb;
use jetwatch_source::{
    self as source, Flow, FrameHandler, ImageSize, SourceContext, SourceError, SyntheticFactory,
};
use jetwatch_telemetry::StopToken;
use jetwatch_types::{Frame, Image, PIXEL_BYTES, Placement};

/// Interval of a live source unless another is given.
const LIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Interval at which the end of the source is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Which frames are collected, and where they go.
pub struct CollectOptions<'a> {
    /// The source.
    pub source: &'a SourceConfig,
    /// Maximum number of images, at least 1.
    pub count: usize,
    /// Time from one image to the next. `None`: 10 s for live sources; for a file, images are spread over all of it.
    pub every: Option<Duration>,
    /// Folder of the images; created if it does not exist.
    pub folder: &'a Path,
    /// Makes `synthetic://` sources.
    pub synthetic: Option<SyntheticFactory>,
}

/// Collects frames until there are enough, the source ends, or `stop` is set. Returns the files in the order of time; `progress` is
/// called with their number so far.
///
/// # Errors
/// The folder cannot be created, a file cannot be written, or the source fails or has no frame.
pub fn collect_frames(
    options: &CollectOptions<'_>,
    stop: &StopToken,
    progress: &mut dyn FnMut(usize),
) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(options.folder)
        .with_context(|| format!("cannot create {}", options.folder.display()))?;
    let is_live = options.source.uri.is_live();
    let every = options.every.or(is_live.then_some(LIVE_INTERVAL));
    let collector = Arc::new(FrameCollector {
        stop: stop.clone(),
        is_live,
        state: Mutex::new(State {
            schedule: Schedule::new(every, options.count.max(1)),
            began: None,
            files: Vec::new(),
            rgb: Vec::new(),
            prefix: options.folder.join(prefix(&options.source.uri)),
            failure: None,
        }),
    });
    let mut context = SourceContext::standalone(
        &options.source.name,
        // The size of a network is of no meaning here: images come as the source has them.
        jetwatch_types::Size::new(64, 64),
        Placement::Stretch,
        stop,
        Arc::clone(&collector) as Arc<dyn FrameHandler>,
    );
    context.image_size = ImageSize::Source;
    context.synthetic.clone_from(&options.synthetic);
    let handle = source::start(options.source, context).map_err(|cause| PipelineError::Thread {
        name: format!("source-{}", options.source.name),
        cause,
    })?;
    while !handle.is_finished() {
        progress(collector.state.lock().files.len().min(options.count));
        std::thread::sleep(POLL_INTERVAL);
    }
    handle.join().map_err(PipelineError::Source)?;
    let mut state = collector.state.lock();
    if let Some(error) = state.failure.take() {
        return Err(error);
    }
    let kept = spread(state.files.len(), options.count.max(1));
    state.keep(&kept)?;
    progress(state.files.len());
    if state.files.is_empty() {
        return Err(PipelineError::Source(SourceError::Empty).into());
    }
    Ok(std::mem::take(&mut state.files))
}

/// Beginning of the file names, different for each call, so that several cameras may share a folder.
fn prefix(uri: &SourceUri) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |time| time.as_secs());
    format!("{}-{seconds}-{}", uri.kind(), std::process::id())
}

/// Which of the frames are kept.
struct Schedule {
    interval: Duration,
    /// Whether the interval grows, so that the images cover a source of unknown length.
    grows: bool,
    count: usize,
    next: Duration,
}

/// What to do with a frame.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Skip,
    Keep,
    /// Keep it after every second of the images so far was removed.
    ThinAndKeep,
}

impl Schedule {
    fn new(every: Option<Duration>, count: usize) -> Self {
        Self {
            interval: every.unwrap_or_default(),
            grows: every.is_none(),
            count,
            next: Duration::ZERO,
        }
    }

    /// Decides on the frame at `time` since the first one, when `kept` images exist.
    fn decide(&mut self, time: Duration, kept: usize) -> Action {
        if time < self.next {
            return Action::Skip;
        }
        if self.grows && kept >= 2 * self.count {
            // Of twice the number every second is dropped: what is left lies twice as far apart.
            self.interval = match self.interval {
                Duration::ZERO => 2 * time / u32::try_from(kept).unwrap_or(u32::MAX),
                interval => 2 * interval,
            };
            self.next = time + self.interval;
            return Action::ThinAndKeep;
        }
        self.next = if self.interval.is_zero() {
            Duration::ZERO
        } else {
            time + self.interval
        };
        Action::Keep
    }

    fn is_full(&self, kept: usize) -> bool {
        !self.grows && kept >= self.count
    }
}

/// Indices of at most `count` of `found` images, at equal distances.
fn spread(found: usize, count: usize) -> Vec<usize> {
    let wanted = found.min(count);
    (0..wanted).map(|place| place * found / wanted).collect()
}

/// Writes the frames that the schedule keeps. Runs on the thread of the source.
struct FrameCollector {
    stop: StopToken,
    is_live: bool,
    state: Mutex<State>,
}

struct State {
    schedule: Schedule,
    /// Time of the first frame: on the clock, and in the media.
    began: Option<(Instant, Option<Duration>)>,
    files: Vec<PathBuf>,
    rgb: Vec<u8>,
    prefix: PathBuf,
    failure: Option<anyhow::Error>,
}

impl FrameHandler for FrameCollector {
    fn frame(&self, frame: Frame) -> Flow {
        let mut state = self.state.lock();
        match state.take(&frame, self.is_live) {
            Ok(()) if !state.schedule.is_full(state.files.len()) => Flow::Continue,
            result => {
                state.failure = result.err();
                self.stop.stop();
                Flow::Stop
            }
        }
    }
}

impl State {
    fn take(&mut self, frame: &Frame, is_live: bool) -> anyhow::Result<()> {
        let meta = &frame.meta;
        let (began, first_pts) = *self.began.get_or_insert((meta.received_at, meta.pts));
        // A file is read faster than it plays: its own time counts.
        let media_time = meta.pts.zip(first_pts).filter(|_| !is_live);
        let time = match media_time {
            Some((pts, first)) => pts.saturating_sub(first),
            None => meta.received_at.saturating_duration_since(began),
        };
        match self.schedule.decide(time, self.files.len()) {
            Action::Skip => return Ok(()),
            Action::Keep => {}
            Action::ThinAndKeep => {
                let kept: Vec<usize> = (0..self.files.len()).step_by(2).collect();
                self.keep(&kept)?;
            }
        }
        let path = PathBuf::from(format!("{}-{:08}.jpg", self.prefix.display(), meta.seq));
        fill_rgb(&frame.image, &mut self.rgb);
        write_rgb(&path, ImageFormat::Jpeg, frame.image.size, &self.rgb)
            .with_context(|| format!("cannot write {}", path.display()))?;
        self.files.push(path);
        Ok(())
    }

    /// Removes all files but those with the indices `kept`, which grow.
    fn keep(&mut self, kept: &[usize]) -> anyhow::Result<()> {
        let mut remaining = Vec::with_capacity(kept.len());
        for (index, path) in self.files.drain(..).enumerate() {
            if kept.binary_search(&index).is_ok() {
                remaining.push(path);
            } else {
                fs::remove_file(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        self.files = remaining;
        Ok(())
    }
}

/// Replaces `rgb` by the pixels of `image` without padding.
fn fill_rgb(image: &Image, rgb: &mut Vec<u8>) {
    rgb.clear();
    for y in 0..image.size.height {
        let (pixels, _) = image.row(y).as_chunks::<PIXEL_BYTES>();
        rgb.extend(
            pixels
                .iter()
                .flat_map(|[blue, green, red, _]| [*red, *green, *blue]),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times, in seconds, of the images that are left of `frames` frames, one each second.
    fn kept(mut schedule: Schedule, frames: u64) -> Vec<u64> {
        let mut kept = Vec::new();
        for second in 0..frames {
            match schedule.decide(Duration::from_secs(second), kept.len()) {
                Action::Skip => continue,
                Action::Keep => {}
                Action::ThinAndKeep => kept = kept.into_iter().step_by(2).collect(),
            }
            kept.push(second);
            if schedule.is_full(kept.len()) {
                break;
            }
        }
        kept
    }

    #[test]
    fn an_interval_gives_the_first_images_at_that_distance() {
        let schedule = Schedule::new(Some(Duration::from_secs(10)), 4);
        assert_eq!(kept(schedule, 1000), [0, 10, 20, 30]);
    }

    #[test]
    fn without_an_interval_the_images_cover_the_whole_file() {
        for frames in [3, 8, 9, 100, 997, 10_000] {
            let all = kept(Schedule::new(None, 4), frames);
            let chosen: Vec<u64> = spread(all.len(), 4)
                .into_iter()
                .map(|place| all[place])
                .collect();
            assert_eq!(chosen.len(), 4.min(frames as usize), "{frames}: {all:?}");
            let gaps = chosen.windows(2).map(|pair| pair[1] - pair[0]);
            let end = frames - chosen[chosen.len() - 1];
            let (most, least) = (gaps.clone().max(), gaps.min());
            // No part of the file is left out: neither between two images nor at the end.
            assert!(
                most.is_none_or(|most| most * 2 <= frames + 2),
                "{frames}: {chosen:?}"
            );
            assert!(end * 2 <= frames + 2, "{frames}: {chosen:?}");
            assert!(least.is_none_or(|least| least > 0), "{frames}: {chosen:?}");
        }
    }

    #[test]
    fn images_are_chosen_at_equal_distances() {
        assert_eq!(spread(10, 5), [0, 2, 4, 6, 8]);
        assert_eq!(spread(3, 5), [0, 1, 2]);
        assert_eq!(spread(0, 5), Vec::<usize>::new());
    }
}
