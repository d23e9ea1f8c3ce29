//! Metrics that a GPU sampled (`nsys profile --gpu-metrics-device`): their mean, minimum and maximum over the window.

use std::collections::{BTreeMap, HashMap};

use super::super::ReportError;
use super::super::schema::{GPU_METRIC_NAMES, GPU_METRICS};
use super::super::table::{Table, unitless};
use super::OnDemand;

/// Bits of a type that number the GPU.
const GPU: i64 = 0xff;

#[derive(Debug, Clone, Copy)]
struct Values {
    count: u64,
    sum: i64,
    min: i64,
    max: i64,
}

pub(super) fn sum(data: &OnDemand<'_>) -> Result<Table, ReportError> {
    let mut names: HashMap<(i64, i64), String> = HashMap::new();
    data.rows(&GPU_METRIC_NAMES, "", |fields| {
        let text = String::from_utf8_lossy(fields.text(2)?).into_owned();
        names.insert((fields.required(0)?, fields.required(1)?), text);
        Ok(())
    })?;
    let mut found: BTreeMap<(i64, i64, i64), Values> = BTreeMap::new();
    data.rows(&GPU_METRICS, "", |fields| {
        let at = fields.required(0)?;
        if !data.window.overlaps(at, at) {
            return Ok(());
        }
        let (kind, metric) = (fields.required(1)?, fields.required(2)?);
        let value = fields.required(3)?;
        let values = found.entry((kind & GPU, metric, kind)).or_insert(Values {
            count: 0,
            sum: 0,
            min: value,
            max: value,
        });
        values.count += 1;
        values.sum += value;
        values.min = values.min.min(value);
        values.max = values.max.max(value);
        Ok(())
    })?;
    let columns = [
        unitless("GPU"),
        unitless("Metric"),
        unitless("Avg"),
        unitless("Min"),
        unitless("Max"),
        unitless("Samples"),
    ];
    let mut table = Table::new("gpu_metric_util_sum", "Metrics of GPUs", &columns);
    table
        .rows
        .extend(found.into_iter().map(|((gpu, metric, kind), values)| {
            let name = names.remove(&(kind, metric));
            vec![
                gpu.into(),
                name.unwrap_or_else(|| format!("metric {metric}")).into(),
                (values.sum as f64 / values.count as f64).into(),
                values.min.into(),
                values.max.into(),
                values.count.into(),
            ]
        }));
    Ok(table)
}
