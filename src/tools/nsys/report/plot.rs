//! Plot data of a capture: stage times, utilization over time, and a reduced timeline.

use serde::Serialize;

use super::capture::Capture;
use super::tables::AnalysisContext;

/// Number of points of utilization over time.
const POINTS: usize = 600;
/// A row of the timeline shows at most about twice as many blocks: what is closer together than this part of the capture is one block.
const RESOLUTION: i64 = 3_000;
/// Maximum number of rows of a timeline.
const MAX_TRACKS: usize = 48;
/// Maximum nesting depth of displayed ranges.
const MAX_DEPTH: u16 = 4;

/// Plot data of one report. Times are in ns from `start`.
#[derive(Debug, Serialize)]
pub struct Plot {
    /// Begin, in ns of the capture.
    start: i64,
    /// Length in ns.
    length: i64,
    /// Names, by the indices in blocks.
    names: Vec<String>,
    /// Bars of ranges: name, mean on the CPU, mean on the GPU, in ns.
    gpus: Vec<Gpu>,
    /// Rows of the timeline: threads with their ranges, then streams of GPUs.
    tracks: Vec<Track>,
}

#[derive(Debug, Serialize)]
struct Gpu {
    title: String,
    /// Share of each part of the time in which it was busy, 0 to 1.
    shares: Vec<f32>,
}

#[derive(Debug, Serialize)]
struct Track {
    title: String,
    /// Begin, end, name, and how many events are in it.
    blocks: Vec<(i64, i64, u32, u32)>,
}

impl Plot {
    /// Of a capture.
    #[must_use]
    pub fn from_capture(context: &AnalysisContext<'_>) -> Self {
        let capture = context.capture;
        let (from, until) = capture.span().unwrap_or_default();
        let mut tracks = range_tracks(context, from, until);
        tracks.extend(stream_tracks(capture, from, until));
        tracks.truncate(MAX_TRACKS);
        let gpus = context.busy().iter().map(|busy| Gpu {
            title: format!("GPU {} of process {}", busy.device, busy.process),
            shares: busy
                .shares((from, until), POINTS)
                .into_iter()
                // Four digits are enough for a screen.
                .map(|share| ((share * 1e4).round() / 1e4) as f32)
                .collect(),
        });
        let mut plot = Self {
            start: from,
            length: (until - from).max(1),
            names: Vec::new(),
            gpus: gpus.collect(),
            tracks,
        };
        plot.retain_used_names(capture);
        plot
    }

    /// Numbers names again: a capture has more of them than a page shows.
    fn retain_used_names(&mut self, capture: &Capture) {
        let mut numbers = std::collections::HashMap::new();
        for block in self.tracks.iter_mut().flat_map(|track| &mut track.blocks) {
            let names = &mut self.names;
            block.2 = *numbers.entry(block.2).or_insert_with(|| {
                names.push(capture.name(block.2).to_owned());
                names.len() as u32 - 1
            });
        }
    }
}

/// Appends an event to a row, or to its last block if both are too short to be distinguished.
fn push(blocks: &mut Vec<(i64, i64, u32, u32)>, (start, end, name): (i64, i64, u32), least: i64) {
    if let Some(last) = blocks.last_mut() {
        let is_close = start - last.1 < least;
        let is_short = last.1 - last.0 < least || end - start < least;
        if is_close && is_short {
            // The name of the longer one stays.
            if end - start > last.1 - last.0 {
                last.2 = name;
            }
            last.1 = last.1.max(end);
            last.3 += 1;
            return;
        }
    }
    blocks.push((start, end, name, 1));
}

fn range_tracks(context: &AnalysisContext<'_>, from: i64, until: i64) -> Vec<Track> {
    let capture = context.capture;
    let nesting = context.nesting();
    let least = ((until - from) / RESOLUTION).max(1);
    let levels = usize::from(MAX_DEPTH);
    let mut blocks: Vec<Vec<(i64, i64, u32, u32)>> =
        vec![Vec::new(); capture.threads.len() * levels];
    for at in &nesting.order {
        let level = nesting.level[*at as usize];
        if level < MAX_DEPTH {
            let range = &capture.ranges[*at as usize];
            let track = usize::from(range.thread) * levels + usize::from(level);
            let event = (range.start - from, range.end - from, range.name);
            push(&mut blocks[track], event, least);
        }
    }
    let titled = blocks.into_iter().enumerate().map(|(index, blocks)| {
        let thread = capture.threads[index / levels].title();
        let title = match index % levels {
            0 => thread,
            level => format!("{thread} +{level}"),
        };
        Track { title, blocks }
    });
    let mut tracks: Vec<Track> = titled.filter(|track| !track.blocks.is_empty()).collect();
    tracks.sort_by(|a, b| a.title.cmp(&b.title));
    tracks
}

fn stream_tracks(capture: &Capture, from: i64, until: i64) -> Vec<Track> {
    let least = ((until - from) / RESOLUTION).max(1);
    let mut order: Vec<u32> = (0..capture.operations.len() as u32).collect();
    let key = |at: u32| {
        let done = &capture.operations[at as usize];
        &capture.streams[usize::from(done.stream)]
    };
    order.sort_by_key(|at| (key(*at), capture.operations[*at as usize].start));
    let mut tracks: Vec<Track> = Vec::new();
    let mut last = None;
    for at in order {
        let done = &capture.operations[at as usize];
        if last.replace(key(at)) != Some(key(at)) {
            tracks.push(Track {
                title: format!("GPU {} stream {}", key(at).device, key(at).number),
                blocks: Vec::new(),
            });
        }
        if let Some(track) = tracks.last_mut() {
            let event = (done.start - from, done.end - from, done.name);
            push(&mut track.blocks, event, least);
        }
    }
    tracks
}

#[cfg(test)]
mod tests {
    use super::push;

    #[test]
    fn adjacent_short_events_are_merged() {
        let mut blocks = Vec::new();
        for event in [(0, 3, 1), (5, 9, 2), (11, 12, 1), (50, 90, 3), (92, 190, 4)] {
            push(&mut blocks, event, 10);
        }
        assert_eq!(blocks, [(0, 12, 2, 3), (50, 90, 3, 1), (92, 190, 4, 1)]);
    }
}
