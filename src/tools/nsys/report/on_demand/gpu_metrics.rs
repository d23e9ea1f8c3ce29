// SPDX-License-Identifier: Apache-2.0
//! Metrics that a GPU sampled (`nsys profile --gpu-metrics-device`): their mean, minimum and maximum over the window, and in its
//! parts.

use std::collections::{BTreeMap, HashMap};

use super::super::Result;
use super::super::capture::fields::for_each_row;
use super::super::schema::{GPU_METRIC_NAMES, GPU_METRICS};
use super::super::table::Table;
use super::AnalysisContext;

/// Bits of a type that number the GPU.
const GPU: i64 = 0xff;
/// Number of parts of the time with samples, as for the utilization of a GPU.
const PARTS: i64 = 30;

/// A metric: GPU, number, type.
type Key = (i64, i64, i64);

#[derive(Debug, Clone, Copy)]
struct Values {
    count: u64,
    sum: i64,
    min: i64,
    max: i64,
}

impl Values {
    const NONE: Self = Self {
        count: 0,
        sum: 0,
        min: i64::MAX,
        max: i64::MIN,
    };

    fn add(&mut self, value: i64) {
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
}

/// Calls `take` with the time, the metric and the value of each sample in the window.
fn for_each_sample(data: &AnalysisContext<'_>, mut take: impl FnMut(i64, Key, i64)) -> Result<()> {
    for_each_row(data.export, &GPU_METRICS, "", |fields| {
        let at = fields.required(0)?;
        if data.window.overlaps(at, at) {
            let (kind, metric) = (fields.required(1)?, fields.required(2)?);
            take(at, (kind & GPU, metric, kind), fields.required(3)?);
        }
        Ok(())
    })
}

/// Name of a metric by its type and number.
fn names(data: &AnalysisContext<'_>) -> Result<impl Fn(&Key) -> String> {
    let mut names: HashMap<(i64, i64), String> = HashMap::new();
    for_each_row(data.export, &GPU_METRIC_NAMES, "", |fields| {
        let text = String::from_utf8_lossy(fields.text(2)?).into_owned();
        names.insert((fields.required(0)?, fields.required(1)?), text);
        Ok(())
    })?;
    Ok(move |(_, metric, kind): &Key| {
        let name = names.get(&(*kind, *metric)).cloned();
        name.unwrap_or_else(|| format!("metric {metric}"))
    })
}

/// In equal parts of the time from the first sample to the last; parts without a sample are left out.
pub(in crate::report) fn course(data: &AnalysisContext<'_>) -> Result<Table> {
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for_each_sample(data, |at, _, _| {
        (first, last) = (first.min(at), last.max(at))
    })?;
    // So that the last sample lies in the last part.
    let width = (last.saturating_sub(first) / PARTS).max(0) + 1;
    table(data, Some((first, width)))
}

/// A row for each metric, in each of the parts from the first time on, which are as long as the second says; `None`: in one part.
pub(in crate::report) fn table(
    data: &AnalysisContext<'_>,
    parts: Option<(i64, i64)>,
) -> Result<Table> {
    let name = names(data)?;
    let mut found: BTreeMap<(Key, i64), Values> = BTreeMap::new();
    for_each_sample(data, |at, metric, value| {
        let part = parts.map_or(0, |(first, width)| (at - first) / width);
        let values = found.entry((metric, part)).or_insert(Values::NONE);
        values.add(value);
    })?;
    let rows: Vec<((Key, i64), Values)> = found.into_iter().collect();
    let mut columns = Table::unnamed(&rows);
    if parts.is_some() {
        columns = columns.limit(data.rows);
    }
    columns = columns
        .plain("GPU", |((metric, _), _)| metric.0)
        .plain("Metric", |((metric, _), _)| name(metric));
    if let Some((first, width)) = parts {
        columns = columns
            .ns("Start", move |((_, part), _)| first + part * width)
            .ns("Duration", move |_| width);
    }
    Ok(columns
        .plain("Avg", |(_, values)| values.sum as f64 / values.count as f64)
        .plain("Min", |(_, values)| values.min)
        .plain("Max", |(_, values)| values.max)
        .plain("Samples", |(_, values)| values.count)
        .build())
}
