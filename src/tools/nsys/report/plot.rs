// SPDX-License-Identifier: Apache-2.0
//! Plot data of a capture: stage times, utilization over time, and a reduced timeline.

use serde::Serialize;

use super::blocks::{Block, least, push_block};
use super::capture::{CallKind, Capture, Name};
use super::interner::Interner;
use super::on_demand::Schedule;
use super::tables::AnalysisContext;

/// Number of points of utilization over time.
const POINTS: usize = 600;
/// Maximum number of rows of a timeline.
const MAX_TRACKS: usize = 160;
/// Maximum nesting depth of displayed ranges.
const MAX_DEPTH: usize = 4;

/// Plot data of one report. Times are in ns from `start`.
#[derive(Debug, Serialize)]
pub(crate) struct Plot {
    /// Begin, in ns of the capture.
    start: i64,
    /// Length in ns.
    length: i64,
    /// Names, by the indices in blocks.
    names: Vec<String>,
    /// Bars of ranges: name, mean on the CPU, mean on the GPU, in ns.
    gpus: Vec<Gpu>,
    /// Rows of the timeline: threads with their ranges and calls, projected ranges, then streams of GPUs, then cores.
    tracks: Vec<Track>,
}

#[derive(Debug, Serialize)]
struct Gpu {
    title: String,
    /// Share of each part of the time in which it was busy, 0 to 1.
    shares: Vec<f32>,
}

/// Kinds of rows, which a reader of the page shows or hides together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
enum TrackKind {
    /// Ranges of a thread.
    #[default]
    Ranges,
    /// Ranges of a thread, projected onto the GPU.
    Projected,
    /// Calls of CUDA by a thread.
    CudaCalls,
    /// Calls of the operating system's libraries by a thread.
    OsCalls,
    /// Operations of a GPU.
    Gpu,
    /// Threads on a core.
    Cores,
}

/// Numbers of names with their sources.
type Labels = Interner<(Name, u8)>;

#[derive(Debug, Serialize)]
struct Track {
    title: String,
    kind: TrackKind,
    /// Whether the page hides it at first.
    hidden: bool,
    blocks: Vec<Block>,
}

impl Plot {
    /// Of a capture.
    pub(crate) fn from_capture(context: &AnalysisContext<'_>) -> Self {
        let capture = context.capture;
        let (from, until) = capture.span().unwrap_or_default();
        let mut labels = Labels::default();
        let mut tracks = thread_tracks(context, &mut labels, from, until);
        tracks.extend(stream_tracks(capture, &mut labels, from, until));
        // Four digits are enough for a screen.
        let rounded = |share: f64| ((share * 1e4).round() / 1e4) as f32;
        let gpus = context.busy.iter().map(|busy| {
            let shares = busy.shares((from, until), POINTS).into_iter();
            let title = format!("GPU {} of process {}", busy.device, busy.process);
            let shares = shares.map(rounded).collect();
            Gpu { title, shares }
        });
        let mut plot = Self {
            start: from,
            length: (until - from).max(1),
            names: Vec::new(),
            gpus: gpus.collect(),
            tracks,
        };
        plot.limit_tracks();
        plot.retain_used_names(capture, &labels);
        plot
    }

    /// Adds a row for each core: the threads that ran on it.
    pub(super) fn add_cores(&mut self, schedule: &Schedule) {
        let first = self.names.len() as u32;
        self.names.extend_from_slice(&schedule.titles);
        self.tracks.extend(schedule.cores.iter().map(|core| {
            let moved = core.blocks.iter().map(|(start, end, name, count)| {
                (start - self.start, end - self.start, name + first, *count)
            });
            Track {
                title: format!("core {}", core.number),
                kind: TrackKind::Cores,
                hidden: false,
                blocks: moved
                    .filter(|(start, end, ..)| *end > 0 && *start < self.length)
                    .collect(),
            }
        }));
    }

    /// Drops rows beyond the limit, those that are hidden first.
    fn limit_tracks(&mut self) {
        let mut excess = self.tracks.len().saturating_sub(MAX_TRACKS);
        self.tracks.reverse();
        self.tracks.retain(|track| {
            let is_dropped = excess > 0 && track.hidden;
            excess -= usize::from(is_dropped);
            !is_dropped
        });
        self.tracks.reverse();
        self.tracks.truncate(MAX_TRACKS);
    }

    /// Numbers names again: a capture has more of them than a page shows.
    fn retain_used_names(&mut self, capture: &Capture, labels: &Labels) {
        let mut used = Interner::default();
        for block in self.tracks.iter_mut().flat_map(|track| &mut track.blocks) {
            block.2 = used.number(block.2);
        }
        let names = used.keys.iter().map(|label| {
            let (name, source) = labels.keys[*label as usize];
            match (capture.name(name), &capture.sources[usize::from(source)]) {
                (name, _) if source == 0 => name.to_owned(),
                (name, source) => format!("{name} ({source})"),
            }
        });
        self.names = names.collect();
    }
}

/// What a row of a thread is: thread, kind and depth.
type RowKey = (u16, TrackKind, usize);

/// Rows of threads by name: their ranges, the same projected onto the GPU, and their calls. Calls of threads without ranges are
/// hidden at first.
fn thread_tracks(
    context: &AnalysisContext<'_>,
    labels: &mut Labels,
    from: i64,
    until: i64,
) -> Vec<Track> {
    let capture = context.capture;
    let nesting = &context.nesting;
    let least = least((from, until));
    let mut keys: Interner<RowKey> = Interner::default();
    // By the number of the key.
    let mut rows: Vec<Vec<Block>> = Vec::new();
    let mut push = |key: RowKey, start: i64, end: i64, name: u32| {
        let number = keys.number(key) as usize;
        rows.resize_with(keys.keys.len(), Vec::new);
        push_block(&mut rows[number], (start - from, end - from, name), least);
    };
    let mut projections: Vec<_> = context.projections.iter().collect();
    projections.sort_by_key(|projected| projected.start);
    let ranges = nesting.order.iter().map(|at| {
        let range = &capture.ranges[*at as usize];
        (*at, TrackKind::Ranges, range.start, range.end)
    });
    let projected = projections.iter();
    let projected = projected.map(|it| (it.range, TrackKind::Projected, it.start, it.end));
    for (at, kind, start, end) in ranges.chain(projected) {
        let level = nesting.around(at).take(MAX_DEPTH).count();
        if level < MAX_DEPTH {
            let range = &capture.ranges[at as usize];
            let label = labels.number((range.name, range.source));
            push((range.thread, kind, level), start, end, label);
        }
    }
    for thread in (0..=u16::MAX).take(capture.threads.len()) {
        for (kind, track) in [
            (CallKind::Cuda, TrackKind::CudaCalls),
            (CallKind::System, TrackKind::OsCalls),
        ] {
            for call in capture.calls_of(kind, thread) {
                let (start, end) = (call.start.max(from), call.end.min(until));
                let label = labels.number((call.name, 0));
                push((thread, track, 0), start, end, label);
            }
        }
    }
    let mut found: Vec<_> = keys.keys.into_iter().zip(rows).collect();
    let title = |thread: u16| capture.thread(thread).title();
    found.sort_by_cached_key(|(key, _)| (title(key.0), *key));
    let of_ranges = found.iter().map(|((thread, kind, _), _)| (*thread, *kind));
    let of_ranges: Vec<(u16, TrackKind)> = of_ranges.collect();
    let tracks = found.into_iter().map(|((thread, kind, level), blocks)| {
        let what = match kind {
            TrackKind::Projected => " on GPU",
            TrackKind::CudaCalls => " CUDA",
            TrackKind::OsCalls => " OS",
            TrackKind::Ranges | TrackKind::Gpu | TrackKind::Cores => "",
        };
        let depth = Some(level).filter(|level| *level > 0);
        let depth = depth.map_or_else(String::new, |level| format!(" +{level}"));
        Track {
            title: format!("{}{what}{depth}", title(thread)),
            kind,
            hidden: !of_ranges.contains(&(thread, TrackKind::Ranges)),
            blocks,
        }
    });
    tracks.collect()
}

fn stream_tracks(capture: &Capture, labels: &mut Labels, from: i64, until: i64) -> Vec<Track> {
    let least = least((from, until));
    let mut order: Vec<u32> = (0..capture.operations.len() as u32).collect();
    let key = |at: u32| {
        let done = &capture.operations[at as usize];
        capture.stream(done)
    };
    order.sort_by_key(|at| (key(*at), capture.operations[*at as usize].start));
    let streams = order.chunk_by(|a, b| key(*a) == key(*b));
    let tracks = streams.map(|operations| {
        let mut blocks = Vec::new();
        for at in operations {
            let done = &capture.operations[*at as usize];
            let label = labels.number((done.name, 0));
            let block = (done.start - from, done.end - from, label);
            push_block(&mut blocks, block, least);
        }
        let stream = key(operations[0]);
        Track {
            title: format!("GPU {} stream {}", stream.device, stream.number),
            kind: TrackKind::Gpu,
            hidden: false,
            blocks,
        }
    });
    tracks.collect()
}
