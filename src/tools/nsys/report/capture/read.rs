// SPDX-License-Identifier: Apache-2.0
//! Rows of the database to a capture: one pass over each table, tables in parallel on separate threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use foldhash::HashMap;

use super::super::interner::{Interner, position_or_push};
use super::super::schema::{CALLS, COPIES, Export, GRAPHS, KERNELS, NVTX, SETS, TableShape, WAITS};
use super::super::stages::stage_of_range;
use super::super::{ReportError, Result};
use super::fields::{Fields, for_each_row, number};
use super::names::{Categories, RangeNames, StringTable, process_of, system_names};
use super::{
    Call, Capture, Kind, Launch, Name, Operation, Range, Stream, Style, Thread, ThreadIndex,
    TimeWindow, Transfer,
};

/// Receives the progress of reading: rows read, and rows in all. Called from several threads.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Rows after which progress is reported, and which a power of two makes cheap to ask for.
const PROGRESS_INTERVAL_ROWS: u64 = 1 << 17;

/// nsys's numbers of events. Those of `NVTXT` are ranges that were added to a report afterwards.
const PUSH_POP: i64 = 59;
const START_END: i64 = 60;
const ADDED_PUSH_POP: i64 = 70;
const ADDED_START_END: i64 = 71;
const CATEGORY: i64 = 33;
const THREAD_NAME: i64 = 39;
const DOMAIN: i64 = 75;

/// nsys's number for a call of the operating system's libraries, next to marks of other classes in the same table.
const WAIT_CLASS: i64 = 27;

/// Reads the events that overlap the window. Blocks; memory is about 40 bytes per row.
///
/// # Errors
/// The database is damaged, or has more threads or streams than can be numbered.
pub(crate) fn read(
    export: &Export,
    title: &str,
    window: TimeWindow,
    progress: Progress<'_>,
) -> Result<Capture> {
    let (texts, mut names) = StringTable::read(export)?;
    let kinds = ["copy", "memory set", "CUDA graph"].map(|text| {
        names.push(text.to_owned());
        names.len() as Name - 1
    });
    let shapes = [&NVTX, &CALLS, &KERNELS, &COPIES, &SETS, &GRAPHS, &WAITS];
    let mut total = 0;
    for shape in shapes.into_iter().filter(|shape| export.has(shape)) {
        export.require(shape)?;
        total += export.row_count(shape)?;
    }
    let source = Source {
        export,
        window,
        texts: &texts,
        names: &names,
        progress,
        done: AtomicU64::new(0),
        total,
    };
    if export.has(&NVTX)
        && !["text", "textId"]
            .iter()
            .any(|column| export.has_column(&NVTX, column))
    {
        return Err(export.no_column(&NVTX, "text"));
    }
    let (ranges, calls, operations) = thread::scope(|scope| {
        let calls = scope.spawn(|| source.calls());
        let operations = scope.spawn(|| source.operations(kinds));
        let ranges = source.ranges();
        (ranges, calls.join(), operations.join())
    });
    let ranges = ranges?;
    let calls = calls.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let operations = operations.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    progress(total, total);
    assemble(export, title, &texts, names, ranges, calls, operations)
}

fn assemble(
    export: &Export,
    title: &str,
    texts: &StringTable,
    mut names: Vec<String>,
    mut ranges: RangesRead,
    (mut calls, of_calls): (Capture, Interner<i64>),
    operations: Capture,
) -> Result<Capture> {
    let resolved = ranges.names.resolve(&ranges.domains, texts, &mut names);
    let (sources, of_category) = ranges.categories.sources();
    for range in &mut ranges.ranges {
        range.name = resolved[range.name as usize];
        range.source = of_category[usize::from(range.source)];
    }
    let mut threads = ranges.threads;
    let moved = of_calls.keys.iter();
    let moved = moved.map(|global| thread_index(export, &mut threads, *global));
    let moved: Vec<ThreadIndex> = moved.collect::<Result<_>>()?;
    for call in calls.calls.iter_mut().chain(&mut calls.waits) {
        call.thread = moved[usize::from(call.thread)];
    }
    for calls in [&mut calls.calls, &mut calls.waits] {
        // Rows of the database are almost in order, which a stable sort makes use of.
        calls.sort_by_key(|call| (call.thread, call.start));
    }
    let system_names = system_names(export, texts, &names)?;
    let mut by_nvtx = ranges.thread_names;
    let named = threads.keys.iter().map(|global| Thread {
        global: *global,
        name: (by_nvtx.remove(global))
            .or_else(|| system_names.get(global).cloned())
            .filter(|name| !name.is_empty()),
    });
    let named: Vec<Thread> = named.collect();
    Ok(Capture {
        title: title.to_owned(),
        version: export.version.clone(),
        command: export.command(),
        has_waits: export.has(&WAITS),
        threads: named,
        system_names,
        stages: names.iter().map(|name| stage_of_range(name)).collect(),
        names,
        sources,
        ranges: ranges.ranges,
        calls: calls.calls,
        waits: calls.waits,
        ..operations
    })
}

/// The number of a thread.
fn thread_index(export: &Export, threads: &mut Interner<i64>, global: i64) -> Result<ThreadIndex> {
    let number = ThreadIndex::try_from(threads.number(global));
    number.map_err(|_| too_many(export, "threads"))
}

fn too_many(export: &Export, what: &str) -> ReportError {
    let reason = format!(
        "it has events of more than 65536 {what}; select a part of it with --from and --until"
    );
    ReportError::Content(export.source.clone(), reason)
}

/// Source of rows.
struct Source<'a> {
    export: &'a Export,
    window: TimeWindow,
    texts: &'a StringTable,
    names: &'a [String],
    progress: Progress<'a>,
    done: AtomicU64,
    total: u64,
}

#[derive(Default)]
struct RangesRead {
    ranges: Vec<Range>,
    names: RangeNames,
    threads: Interner<i64>,
    domains: HashMap<(i64, i64), String>,
    thread_names: HashMap<i64, String>,
    categories: Categories,
}

impl Source<'_> {
    /// Calls `take` with each row of a table; does nothing without the table.
    fn rows(
        &self,
        shape: &'static TableShape,
        mut take: impl FnMut(&Fields<'_>) -> Result<()>,
    ) -> Result<()> {
        if !self.export.has(shape) {
            return Ok(());
        }
        let mut read: u64 = 0;
        for_each_row(self.export, shape, "", |fields| {
            take(fields)?;
            read += 1;
            if read.is_multiple_of(PROGRESS_INTERVAL_ROWS) {
                let done = self
                    .done
                    .fetch_add(PROGRESS_INTERVAL_ROWS, Ordering::Relaxed)
                    + PROGRESS_INTERVAL_ROWS;
                (self.progress)(done.min(self.total), self.total);
            }
            Ok(())
        })
    }

    fn ranges(&self) -> Result<RangesRead> {
        const TEXT: usize = 4;
        let mut read = RangesRead::default();
        // An open range ends with the last event, which is known after all were read.
        let mut last = i64::MIN;
        let mut open: Vec<usize> = Vec::new();
        self.rows(&NVTX, |fields| {
            let start = fields.required(0)?;
            let end = fields.optional(1)?;
            last = last.max(start).max(end.unwrap_or(start));
            let kind = fields.required(2)?;
            let global = fields.required(3)?;
            let domain = fields.optional(6)?.unwrap_or(0);
            let style = match kind {
                PUSH_POP | ADDED_PUSH_POP => Style::PushPop,
                START_END | ADDED_START_END => Style::StartEnd,
                DOMAIN | THREAD_NAME | CATEGORY => {
                    let text = fields.text(TEXT)?;
                    let text = match fields.optional(5)?.and_then(|id| self.texts.find(id)) {
                        Some(name) if text.is_empty() => self.names[name as usize].clone(),
                        _ => String::from_utf8_lossy(text).into_owned(),
                    };
                    if kind == DOMAIN {
                        read.domains
                            .entry((process_of(global), domain))
                            .or_insert(text);
                    } else if kind == CATEGORY {
                        let number = fields.optional(12)?.unwrap_or(0);
                        read.categories.named(global, domain, number, text);
                    } else {
                        read.thread_names.insert(global, text);
                    }
                    return Ok(());
                }
                _ => return Ok(()),
            };
            if !self.window.overlaps(start, end.unwrap_or(i64::MAX)) {
                return Ok(());
            }
            // A text that is registered comes first, as with nsys; an unknown id does not count.
            let name = match fields.optional(5)? {
                Some(id) if self.texts.find(id).is_some() => {
                    read.names.registered(global, domain, id)
                }
                _ => read.names.inline(global, domain, fields.text(TEXT)?),
            };
            // Exports of 2021 write zero without another thread.
            let other = fields.optional(7)?.unwrap_or(0);
            let across = other != 0 && style == Style::StartEnd;
            let payload = (8..12).find_map(|at| fields.optional(at).ok().flatten());
            if end.is_none() {
                open.push(read.ranges.len());
            }
            read.ranges.push(Range {
                start,
                end: end.unwrap_or(start),
                name,
                row: u32::try_from(fields.number()).unwrap_or(u32::MAX),
                payload: number(payload, 0, u32::MAX),
                thread: thread_index(self.export, &mut read.threads, global)?,
                style: if across { Style::CrossThread } else { style },
                source: match fields.optional(12)? {
                    None | Some(0) => 0,
                    Some(category) => read.categories.number(global, domain, category),
                },
            });
            Ok(())
        })?;
        for at in open {
            read.ranges[at].end = last;
        }
        Ok(read)
    }

    /// Calls of CUDA and of the operating system's libraries, and the threads that they refer to.
    fn calls(&self) -> Result<(Capture, Interner<i64>)> {
        let mut read = Capture::default();
        let mut threads: Interner<i64> = Interner::default();
        let mut call =
            |fields: &Fields<'_>, name: usize, correlation: u32| -> Result<Option<Call>> {
                let (start, end) = (fields.required(0)?, fields.required(1)?);
                if !self.window.overlaps(start, end) {
                    return Ok(None);
                }
                Ok(Some(Call {
                    start,
                    end,
                    name: self.texts.name(fields.required(name)?),
                    correlation,
                    thread: thread_index(self.export, &mut threads, fields.required(2)?)?,
                }))
            };
        self.rows(&CALLS, |fields| {
            read.calls.extend(call(fields, 4, fields.correlation(3)?)?);
            Ok(())
        })?;
        self.rows(&WAITS, |fields| {
            if fields.optional(4)?.is_none_or(|class| class == WAIT_CLASS) {
                read.waits.extend(call(fields, 3, 0)?);
            }
            Ok(())
        })?;
        Ok((read, threads))
    }

    /// Operations of GPUs with their details and streams.
    fn operations(&self, [copy, set, graph]: [Name; 3]) -> Result<Capture> {
        let mut read = Capture::default();
        let mut known: HashMap<Launch, u32> = HashMap::default();
        self.rows(&KERNELS, |fields| {
            let size = |at| number(fields.optional(at).ok().flatten(), 0, i32::MAX);
            let launch = Launch {
                grid: [8, 9, 10].map(size),
                block: [11, 12, 13].map(size),
            };
            let name = self.texts.name(fields.required(3)?);
            let detail = *known.entry(launch).or_insert_with(|| {
                read.launches.push(launch);
                read.launches.len() as u32 - 1
            });
            self.operation(fields, 4, (Kind::Kernel, name, detail), &mut read)?;
            Ok(())
        })?;
        let place = |fields: &Fields<'_>, at| Ok(number(fields.optional(at)?, -1, -1));
        let mut moved = |fields: &Fields<'_>, at, (kind, name), transfer| -> Result<()> {
            let detail = read.transfers.len() as u32;
            if self.operation(fields, at, (kind, name, detail), &mut read)? {
                read.transfers.push(transfer);
            }
            Ok(())
        };
        self.rows(&COPIES, |fields| {
            let ends = (fields.optional(11)?, fields.optional(12)?);
            let transfer = Transfer {
                bytes: fields.required(3)?,
                direction: place(fields, 4)?,
                source: place(fields, 9)?,
                target: place(fields, 10)?,
                within_device: ends.0.is_some() && ends.0 == ends.1,
                context: number(fields.optional(7)?, 0, u32::MAX),
            };
            moved(fields, 5, (Kind::Copy, copy), transfer)
        })?;
        self.rows(&SETS, |fields| {
            let transfer = Transfer {
                bytes: fields.required(3)?,
                direction: -1,
                source: -1,
                target: place(fields, 8)?,
                within_device: true,
                context: number(fields.optional(6)?, 0, u32::MAX),
            };
            moved(fields, 4, (Kind::Set, set), transfer)
        })?;
        self.rows(&GRAPHS, |fields| {
            self.operation(fields, 3, (Kind::Graph, graph, 0), &mut read)?;
            Ok(())
        })?;
        Ok(read)
    }

    /// What all tables of a GPU have in common; from `at` on stand process, device, context and stream. Returns whether it is in the window.
    fn operation(
        &self,
        fields: &Fields<'_>,
        at: usize,
        (kind, name, detail): (Kind, Name, u32),
        read: &mut Capture,
    ) -> Result<bool> {
        let (start, end) = (fields.required(0)?, fields.required(1)?);
        if !self.window.overlaps(start, end) {
            return Ok(false);
        }
        let stream = Stream {
            process: fields.optional(at)?,
            device: fields.optional(at + 1)?.unwrap_or(0),
            number: fields.optional(at + 3)?.unwrap_or(0),
        };
        // Operations of one stream come in runs.
        let last = read.operations.last().map(|last| last.stream);
        let stream = match last {
            Some(last) if read.streams[usize::from(last)] == stream => last,
            _ => u16::try_from(position_or_push(&mut read.streams, stream))
                .map_err(|_| too_many(self.export, "CUDA streams"))?,
        };
        read.operations.push(Operation {
            start,
            end,
            correlation: fields.correlation(2)?,
            name,
            detail,
            stream,
            kind,
        });
        Ok(true)
    }
}
