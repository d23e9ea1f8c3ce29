// SPDX-License-Identifier: Apache-2.0
//! Timelines of a pipeline as the daemon records it, from a simulation with known times: threads, queues and waits are those of
//! ARCHITECTURE.md, and every number is chosen by the test.
//!
//! Written as an export of nsys, so that `jetwatch report` reads it. Times are in µs.
#![allow(dead_code)]

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use rusqlite::{Connection, params};

use super::nsys_export::PROCESS;

/// Times of one pipeline, in µs.
#[derive(Debug, Clone)]
pub struct Timing {
    /// Sources; live ones drop, files wait.
    pub sources: usize,
    pub live: bool,
    /// Period of a live source; of a file the time to read one image.
    pub input: i64,
    pub video_decode: i64,
    pub scale: i64,
    pub source: i64,
    pub workers: usize,
    pub batch_size: usize,
    pub batch_timeout: i64,
    /// Of one batch.
    pub tensor: i64,
    pub infer: i64,
    pub decode: i64,
    /// Of one frame.
    pub track: i64,
    pub publish: i64,
    /// Of one batch of crops, of which each frame has one; zero: none.
    pub secondary: i64,
    /// Of one drawn frame; zero: none.
    pub render: i64,
    /// Results that may wait for the tracking stage.
    pub track_depth: usize,
    /// Additional time of the first batch.
    pub first_batch: i64,
    /// Length of the timeline.
    pub length: i64,
    /// As earlier versions recorded: no `enqueue`, no `send_results`, and no work in elements.
    pub is_old: bool,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            sources: 1,
            live: false,
            input: 300,
            video_decode: 2_000,
            scale: 1_000,
            source: 300,
            workers: 1,
            batch_size: 1,
            batch_timeout: 0,
            tensor: 500,
            infer: 3_000,
            decode: 300,
            track: 300,
            publish: 200,
            secondary: 0,
            render: 0,
            track_depth: 16,
            first_batch: 0,
            length: 6_000_000,
            is_old: false,
        }
    }
}

/// Time of an operation that does not wait, in µs.
const SHORT: i64 = 5;

/// Free places at which the reader of a file goes on.
const RESUME: usize = 2;

struct Range {
    thread: String,
    stage: &'static str,
    start: i64,
    end: i64,
    payload: i64,
}

#[derive(Clone, Copy)]
enum Actor {
    /// Brings its next image from this time on.
    Source {
        index: usize,
        produced: i64,
    },
    /// Has an image since this time.
    Enqueue {
        index: usize,
        since: i64,
        waited: bool,
    },
    /// Waits for frames since this time; has taken some until the deadline.
    Batch {
        index: usize,
        since: i64,
        taken: usize,
        deadline: i64,
    },
    /// Passes results on since this time.
    Send {
        index: usize,
        since: i64,
        left: usize,
    },
    Track,
    SecondaryWait {
        since: i64,
    },
    Render,
}

struct Simulation<'t> {
    timing: &'t Timing,
    ranges: Vec<Range>,
    queues: Vec<usize>,
    results: usize,
    crops: usize,
    drawn: usize,
    filling: Option<usize>,
    is_first: bool,
    /// When each actor goes on; `None`: when something changes.
    actors: Vec<(Option<i64>, Actor)>,
    order: VecDeque<usize>,
}

impl Simulation<'_> {
    fn add(&mut self, thread: &str, stage: &'static str, start: i64, end: i64) {
        self.add_frames(thread, stage, start, end, 1);
    }

    fn add_frames(
        &mut self,
        thread: &str,
        stage: &'static str,
        start: i64,
        end: i64,
        frames: usize,
    ) {
        self.ranges.push(Range {
            thread: thread.to_owned(),
            stage,
            start,
            end,
            payload: frames as i64,
        });
    }

    fn depth(&self) -> usize {
        match self.timing.live {
            true => 1,
            false => self.timing.batch_size + 2,
        }
    }

    fn source_thread(&self, index: usize) -> String {
        match (self.timing.is_old, self.timing.live) {
            (true, _) => format!("multiqueue{index}:src"),
            (false, true) => format!("camera-{index}"),
            (false, false) => format!("file-{index}"),
        }
    }

    /// Lets an actor go on at `now`; returns its next state and time, and whether others may go on.
    fn act(&mut self, now: i64, actor: Actor) -> (Option<i64>, Actor, bool) {
        let t = self.timing.clone();
        match actor {
            Actor::Source { index, produced } => {
                let thread = self.source_thread(index);
                // A camera has a period; a file is read after the last image.
                let at = match t.live {
                    true => (produced + t.input).max(now),
                    false => now + t.input,
                };
                if at > now && t.live {
                    return (
                        Some(at),
                        Actor::Source {
                            index,
                            produced: at - t.input,
                        },
                        false,
                    );
                }
                let decoded = at + t.video_decode;
                let scaled = decoded + t.scale;
                if !t.is_old {
                    self.add(&thread, "video_decode", at, decoded);
                    self.add(&thread, "scale", decoded, scaled);
                }
                let end = scaled + t.source;
                let start = if t.is_old { decoded } else { scaled };
                self.add(&thread, "source", start, end);
                let next = Actor::Enqueue {
                    index,
                    since: end,
                    waited: false,
                };
                (Some(end), next, false)
            }
            Actor::Enqueue {
                index,
                since,
                waited,
            } => {
                let places = if waited { RESUME } else { 1 };
                if self.queues[index] + places > self.depth() {
                    if !t.live {
                        let next = Actor::Enqueue {
                            index,
                            since,
                            waited: true,
                        };
                        return (None, next, false);
                    }
                    self.queues[index] -= 1;
                }
                self.queues[index] += 1;
                let end = now + SHORT;
                if !t.is_old {
                    let thread = self.source_thread(index);
                    self.add(&thread, "enqueue", since, end);
                }
                // The image came when the camera made it, not when it was decoded.
                let work = t.video_decode + t.scale + t.source;
                let produced = since - work;
                (Some(end), Actor::Source { index, produced }, true)
            }
            Actor::Batch {
                index,
                since,
                mut taken,
                mut deadline,
            } => {
                let is_mine = self.filling.is_none_or(|filling| filling == index);
                if !is_mine || (taken == 0 && self.queues.iter().all(|queue| *queue == 0)) {
                    return (None, actor, false);
                }
                if taken == 0 {
                    deadline = now + t.batch_timeout;
                }
                let before = taken;
                while taken < t.batch_size && self.queues.iter().any(|queue| *queue > 0) {
                    for _ in 0..self.order.len() {
                        let source = self.order[0];
                        self.order.rotate_left(1);
                        if self.queues[source] > 0 {
                            self.queues[source] -= 1;
                            taken += 1;
                            break;
                        }
                    }
                }
                if taken < t.batch_size && now < deadline {
                    self.filling = Some(index);
                    let next = Actor::Batch {
                        index,
                        since,
                        taken,
                        deadline,
                    };
                    return (Some(deadline), next, taken > before);
                }
                self.filling = None;
                let thread = format!("detect-{index}");
                let mut at = now + SHORT;
                self.add_frames(&thread, "batch", since, at, t.batch_size);
                let first = if std::mem::take(&mut self.is_first) {
                    t.first_batch
                } else {
                    0
                };
                for (stage, time) in [
                    ("tensor", t.tensor),
                    ("infer", t.infer + first),
                    ("decode", t.decode),
                ] {
                    self.add_frames(&thread, stage, at, at + time, taken);
                    at += time;
                }
                let next = Actor::Send {
                    index,
                    since: at,
                    left: taken,
                };
                (Some(at), next, true)
            }
            Actor::Send {
                index,
                since,
                mut left,
            } => {
                let before = left;
                while left > 0 && self.results < t.track_depth {
                    self.results += 1;
                    left -= 1;
                }
                if left > 0 {
                    return (None, Actor::Send { index, since, left }, left < before);
                }
                let end = now + SHORT;
                if !t.is_old {
                    self.add(&format!("detect-{index}"), "send_results", since, end);
                }
                let next = Actor::Batch {
                    index,
                    since: end,
                    taken: 0,
                    deadline: 0,
                };
                (Some(end), next, true)
            }
            Actor::Track => {
                if self.results == 0 {
                    return (None, actor, false);
                }
                self.results -= 1;
                let tracked = now + t.track;
                let end = tracked + t.publish;
                self.add("track", "track", now, tracked);
                self.add("track", "publish", tracked, end);
                // Queues of crops and of images to draw drop what does not fit.
                self.crops = (self.crops + usize::from(t.secondary > 0)).min(16);
                self.drawn = (self.drawn + usize::from(t.render > 0)).min(4);
                (Some(end), Actor::Track, true)
            }
            Actor::SecondaryWait { since } => {
                if self.crops == 0 {
                    return (None, actor, false);
                }
                self.crops -= 1;
                let end = now + t.secondary;
                self.add("sgie-light-0", "secondary_wait", since, now);
                self.add("sgie-light-0", "secondary", now, end);
                (Some(end), Actor::SecondaryWait { since: end }, true)
            }
            Actor::Render => {
                if self.drawn == 0 {
                    return (None, actor, false);
                }
                self.drawn -= 1;
                let end = now + t.render;
                self.add("record", "render", now, end);
                self.add("record", "encode", end, end + SHORT);
                (Some(end + SHORT), Actor::Render, true)
            }
        }
    }

    fn run(mut self) -> Vec<Range> {
        loop {
            let due = self
                .actors
                .iter()
                .enumerate()
                .filter_map(|(at, (time, _))| Some(((*time)?, at)))
                .min();
            let Some((now, at)) = due.filter(|(now, _)| *now < self.timing.length) else {
                return self.ranges;
            };
            let (next, actor, wakes) = self.act(now, self.actors[at].1);
            self.actors[at] = (next, actor);
            if wakes {
                for (other, (time, _)) in self.actors.iter_mut().enumerate() {
                    if other != at {
                        *time = Some(time.map_or(now, |time| time));
                    }
                }
                // One that waits for more frames looks again.
                for (time, actor) in &mut self.actors {
                    if matches!(actor, Actor::Batch { taken, .. } if *taken > 0) {
                        *time = Some(now);
                    }
                }
            }
        }
    }
}

/// Simulates a pipeline, and writes its timeline as an export of nsys.
pub fn write(path: &Path, timing: &Timing) {
    let mut actors: Vec<(Option<i64>, Actor)> = Vec::new();
    for index in 0..timing.sources {
        // Cameras are not in step.
        let produced = index as i64 * 777 - timing.input;
        actors.push((Some(0), Actor::Source { index, produced }));
    }
    for index in 0..timing.workers {
        let batch = Actor::Batch {
            index,
            since: 0,
            taken: 0,
            deadline: 0,
        };
        actors.push((Some(0), batch));
    }
    actors.push((Some(0), Actor::Track));
    actors.push((Some(0), Actor::SecondaryWait { since: 0 }));
    actors.push((Some(0), Actor::Render));
    let simulation = Simulation {
        timing,
        ranges: Vec::new(),
        queues: vec![0; timing.sources],
        results: 0,
        crops: 0,
        drawn: 0,
        filling: None,
        is_first: true,
        actors,
        order: (0..timing.sources).collect(),
    };
    write_ranges(path, &simulation.run());
}

fn write_ranges(path: &Path, ranges: &[Range]) {
    let mut db = Connection::open(path).expect("a new database");
    db.execute_batch(
        "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
         CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER,
            textId INTEGER, domainId INTEGER, uint64Value INTEGER);",
    )
    .expect("tables");
    let transaction = db.transaction().expect("a transaction");
    let nvtx = "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId, uint64Value) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let none: Option<i64> = None;
    let mut threads: BTreeMap<&str, i64> = BTreeMap::new();
    for range in ranges {
        let next = PROCESS | (20 + threads.len() as i64);
        threads.entry(&range.thread).or_insert(next);
    }
    transaction
        .execute(
            nvtx,
            params![0, none, 75, "jetwatch", PROCESS | 20, 1, none],
        )
        .expect("the domain");
    for (name, id) in &threads {
        transaction
            .execute(nvtx, params![0, none, 39, name, id, 0, none])
            .expect("a thread");
    }
    for range in ranges {
        let thread = threads[range.thread.as_str()];
        let (start, end) = (range.start * 1_000, range.end * 1_000);
        transaction
            .execute(
                nvtx,
                params![start, end, 59, range.stage, thread, 1, range.payload],
            )
            .expect("a range");
    }
    transaction.commit().expect("written");
}
