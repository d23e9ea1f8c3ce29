// SPDX-License-Identifier: Apache-2.0
//! Samples of call stacks as hot functions: nsys interrupts running threads at intervals and keeps their stacks.
//!
//! A function's self time has the samples in which it ran itself, its total time those in which it was on the stack. Times are
//! samples multiplied by the median interval between two samples of one thread.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::super::Result;
use super::super::capture::fields::for_each_row;
use super::super::interner::{Interner, position_or_push};
use super::super::schema::{SAMPLE_FRAMES, SAMPLES};
use super::super::table::Table;
use super::AnalysisContext;

/// Stands for all functions of a module that have no symbol.
const UNRESOLVED: i64 = -1;

/// Samples of one function in one group of threads.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    own: u64,
    total: u64,
}

/// Group, symbol and module.
type Key = (u32, i64, i64);

/// The frames of one sample.
#[derive(Debug, Default)]
struct Stack {
    sample: i64,
    group: Option<u32>,
    frames: Vec<(i64, i64)>,
}

impl Stack {
    /// Counts each function once, however often it is on the stack.
    fn count(&mut self, counts: &mut HashMap<Key, Counts>) {
        self.frames.sort_unstable();
        self.frames.dedup();
        if let Some(group) = self.group {
            for (symbol, module) in &self.frames {
                counts.entry((group, *symbol, *module)).or_default().total += 1;
            }
        }
        self.frames.clear();
    }
}

pub(in crate::report) fn functions(data: &AnalysisContext<'_>) -> Result<Table> {
    let samples = Samples::read(data)?;
    let mut counts: HashMap<Key, Counts> = HashMap::new();
    let mut stack = Stack {
        sample: i64::MIN,
        ..Stack::default()
    };
    for_each_row(data.export, &SAMPLE_FRAMES, "", |fields| {
        let sample = fields.required(0)?;
        if sample != stack.sample {
            stack.count(&mut counts);
            stack.sample = sample;
            stack.group = samples.group_of(sample);
        }
        let Some(group) = stack.group else {
            return Ok(());
        };
        let (symbol, module) = (fields.required(1)?, fields.required(2)?);
        let depth = fields.required(3)?;
        let is_unresolved = fields.optional(4)?.unwrap_or(0) != 0;
        let is_special = fields.optional(5)?.unwrap_or(0) != 0;
        let symbol = if is_unresolved { UNRESOLVED } else { symbol };
        if depth == 0 {
            counts.entry((group, symbol, module)).or_default().own += 1;
        }
        // Entries such as `[Max depth]` are no functions.
        if depth == 0 || !is_special {
            stack.frames.push((symbol, module));
        }
        Ok(())
    })?;
    stack.count(&mut counts);
    table(data, &samples, counts)
}

fn table(
    data: &AnalysisContext<'_>,
    samples: &Samples,
    counts: HashMap<Key, Counts>,
) -> Result<Table> {
    let mut found: Vec<(Key, Counts)> = counts.into_iter().collect();
    found.sort_by_key(|(key, counts)| (Reverse((counts.own, counts.total)), *key));
    let ids: Vec<i64> = found
        .iter()
        .take(data.rows)
        .flat_map(|((_, symbol, module), _)| [*symbol, *module])
        .collect();
    let texts = data.texts(&ids)?;
    let share = |group: u32, count: u64| {
        let all = samples.in_group[group as usize].max(1);
        count as f64 * 100.0 / all as f64
    };
    let time = |count: u64| count as f64 * samples.interval;
    Ok(Table::unnamed(&found)
        .limit(data.rows)
        .plain("Threads", |((group, ..), _)| {
            samples.groups[*group as usize].as_str()
        })
        .percent("Self", |((group, ..), counts)| share(*group, counts.own))
        .ns("Self Time", |(_, counts)| time(counts.own))
        .percent("Total", |((group, ..), counts)| share(*group, counts.total))
        .ns("Total Time", |(_, counts)| time(counts.total))
        .plain("Samples", |(_, counts)| counts.own)
        .plain("Function", |((_, symbol, _), _)| match symbol {
            &UNRESOLVED => "[no symbol]",
            symbol => texts[symbol].as_str(),
        })
        .plain("Module", |((.., module), _)| {
            let module = &texts[module];
            module.rsplit('/').next().unwrap_or(module)
        })
        .build())
}

/// All samples of the window.
#[derive(Debug, Default)]
struct Samples {
    /// Id and group, by id.
    ids: Vec<(i64, u32)>,
    /// Names of groups of threads.
    groups: Vec<String>,
    /// Number of samples of each group.
    in_group: Vec<u64>,
    /// Median interval between two samples of one thread, in ns.
    interval: f64,
}

impl Samples {
    fn read(data: &AnalysisContext<'_>) -> Result<Self> {
        let mut threads: Interner<i64> = Interner::default();
        let mut last: Vec<i64> = Vec::new();
        let mut ids: Vec<(i64, u32)> = Vec::new();
        let mut intervals: Vec<i64> = Vec::new();
        for_each_row(data.export, &SAMPLES, "", |fields| {
            let (id, start) = (fields.required(0)?, fields.required(1)?);
            let Some(global) = fields.optional(2)? else {
                return Ok(());
            };
            if !data.window.overlaps(start, start) {
                return Ok(());
            }
            let thread = threads.number(global);
            last.resize(threads.keys.len(), start);
            let last = &mut last[thread as usize];
            if start > *last {
                intervals.push(start - *last);
            }
            *last = start;
            ids.push((id, thread));
            Ok(())
        })?;
        let mut groups: Vec<String> = Vec::new();
        let group = |global: &i64| {
            let name = group_name(&data.thread_title(*global));
            position_or_push(&mut groups, name) as u32
        };
        let of_thread: Vec<u32> = threads.keys.iter().map(group).collect();
        let mut in_group = vec![0; groups.len()];
        for (_, thread) in &mut ids {
            *thread = of_thread[*thread as usize];
            in_group[*thread as usize] += 1;
        }
        ids.sort_unstable();
        let middle = intervals.len() / 2;
        intervals.sort_unstable();
        let interval = intervals.get(middle).copied().unwrap_or(0);
        Ok(Self {
            ids,
            groups,
            in_group,
            interval: interval as f64,
        })
    }

    fn group_of(&self, sample: i64) -> Option<u32> {
        let place = self.ids.binary_search_by_key(&sample, |(id, _)| *id).ok()?;
        Some(self.ids[place].1)
    }
}

/// Threads whose names differ in numbers are one group: `detect-0` and `detect-1` are `detect-*`.
fn group_name(title: &str) -> String {
    let mut name = String::with_capacity(title.len());
    for letter in title.chars() {
        if !letter.is_ascii_digit() {
            name.push(letter);
        } else if !name.ends_with('*') {
            name.push('*');
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_grouped_by_names_without_numbers() {
        assert_eq!(group_name("detect-10"), "detect-*");
        assert_eq!(group_name("multiqueue0:src"), "multiqueue*:src");
        assert_eq!(group_name("thread 4321"), "thread *");
        assert_eq!(group_name("track"), "track");
    }

    #[test]
    fn recursion_counts_once() {
        let mut counts = HashMap::new();
        let mut stack = Stack {
            sample: 1,
            group: Some(0),
            frames: vec![(7, 1), (8, 1), (7, 1)],
        };
        stack.count(&mut counts);
        assert_eq!(counts[&(0, 7, 1)].total, 1);
        assert!(stack.frames.is_empty());
    }
}
