// SPDX-License-Identifier: Apache-2.0
//! `layers.json` of `jetwatch bench --only layers`: the time of each layer of a network.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::run_tables::MS;
use super::summary::{RangeSummary, ReportSummary, Workload};
use super::table::Table;
use super::{ReportError, Result};

/// Measured layers.
#[derive(Debug, Deserialize)]
pub(super) struct Layers {
    #[serde(default)]
    runs: u64,
    #[serde(default)]
    mean_ms: f64,
    layers: Vec<Layer>,
    #[serde(default)]
    meta: Value,
}

#[derive(Debug, Deserialize)]
struct Layer {
    layer: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    precision: String,
    #[serde(default)]
    device: String,
    runs: u64,
    mean_ms: f64,
    share: f64,
}

impl Layers {
    /// Parses a file; `None` if it holds something else than layers.
    ///
    /// # Errors
    /// It has layers, but one of them lacks a key, or a value has another type.
    pub(super) fn parse(path: &Path, document: &Value) -> Result<Option<Self>> {
        if !document["layers"].is_array() {
            return Ok(None);
        }
        let parsed = Self::deserialize(document).map(Some);
        parsed.map_err(|error| {
            let reason = format!("its layers have another form: {error}");
            ReportError::Content(path.to_owned(), reason)
        })
    }

    fn detector(&self) -> Option<&str> {
        self.meta["versions"]["detector"].as_str()
    }

    /// What the layers ran on.
    pub(super) fn version(&self) -> String {
        match self.detector() {
            Some(detector) => format!("layers.json, {detector}"),
            None => "layers.json".to_owned(),
        }
    }

    /// All layers, the slowest first; then their sums by type, precision and device.
    pub(super) fn tables(&self) -> Vec<Table> {
        let mut layers: Vec<&Layer> = self.layers.iter().collect();
        layers.sort_by(|a, b| b.mean_ms.total_cmp(&a.mean_ms));
        let table = Table::of("layers", "Layers of the network, for one frame", &layers)
            .percent("Time", |layer| layer.share * 100.0)
            .ns("Avg", |layer| layer.mean_ms * MS)
            .plain("Precision", |layer| layer.precision.as_str())
            .plain("Device", |layer| layer.device.as_str())
            .plain("Type", |layer| layer.kind.as_str())
            .plain("Layer", |layer| layer.layer.as_str())
            .build();
        vec![table, self.sums()]
    }

    fn sums(&self) -> Table {
        let mut sums: BTreeMap<(&str, &str, &str), (f64, f64, u64)> = BTreeMap::new();
        for layer in &self.layers {
            let key = (&*layer.kind, &*layer.precision, &*layer.device);
            let sum = sums.entry(key).or_default();
            sum.0 += layer.share * 100.0;
            sum.1 += layer.mean_ms * MS;
            sum.2 += 1;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
        let title = "Layers by type, precision and device";
        Table::of("layer_types", title, &sums)
            .percent("Time", |(_, (share, ..))| *share)
            .ns("Total Time", |(_, (_, total, _))| *total)
            .plain("Layers", |(_, (.., count))| *count)
            .plain("Precision", |((_, precision, _), _)| *precision)
            .plain("Device", |((.., device), _)| *device)
            .plain("Type", |((kind, ..), _)| *kind)
            .build()
    }

    /// Summary for comparisons: a layer is a range. Its time counts as time on the CPU, which comparisons are made by, whatever
    /// device it ran on.
    pub(super) fn summary(self, title: &str) -> ReportSummary {
        let version = self.version();
        let mut workload = Workload::default();
        workload.add_notes(&self.meta);
        let ranges = self.layers.into_iter().map(|layer| {
            let mean = layer.mean_ms * MS;
            RangeSummary {
                name: layer.layer,
                count: Some(layer.runs),
                cpu_ns: mean,
                cpu_total_ns: mean * layer.runs as f64,
                median_ns: mean,
                max_ns: mean,
                ..RangeSummary::default()
            }
        });
        ReportSummary {
            title: title.to_owned(),
            version,
            ranges: ranges.collect(),
            workload,
            ..ReportSummary::default()
        }
    }
}

/// A `layers.json` in lines above its tables; empty if it is none.
#[must_use]
pub fn layers_summary(document: &Value) -> String {
    let Ok(found) = Layers::deserialize(document) else {
        return String::new();
    };
    let detector = found.detector().into_iter();
    let mut lines: Vec<String> = detector.map(|it| format!("Detector:  {it}")).collect();
    let (count, ms, runs) = (found.layers.len(), found.mean_ms, found.runs);
    let layers = format!("{count}, {ms:.3} ms for one frame, mean of {runs} runs");
    lines.push(format!("Layers:    {layers}"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Value {
        serde_json::from_str(json).expect("JSON")
    }

    #[test]
    fn layers_are_sorted_and_summed() {
        let json = r#"{"runs": 3, "mean_ms": 4.0, "meta": {"versions": {"detector": "onnx, net"}}, "layers": [
            {"layer": "a", "type": "Conv", "precision": "fp32", "device": "CPU", "runs": 3, "mean_ms": 1.0, "share": 0.25},
            {"layer": "b", "type": "Conv", "precision": "fp32", "device": "CPU", "runs": 3, "mean_ms": 3.0, "share": 0.75}]}"#;
        let path = Path::new("layers.json");
        assert_eq!(
            layers_summary(&of(json)),
            "Detector:  onnx, net\nLayers:    2, 4.000 ms for one frame, mean of 3 runs"
        );
        let layers = Layers::parse(path, &of(json))
            .expect("read")
            .expect("layers");
        let tables = layers.tables();
        assert_eq!(
            tables[0].to_csv(),
            "Time (%),Avg (ns),Precision,Device,Type,Layer\n75.0,3000000.0,fp32,CPU,Conv,b\n25.0,1000000.0,fp32,CPU,Conv,a\n"
        );
        assert!(
            tables[1]
                .to_csv()
                .ends_with("\n100.0,4000000.0,2,fp32,CPU,Conv\n")
        );
        assert_eq!(layers.version(), "layers.json, onnx, net");
        let summary = layers.summary("one");
        assert_eq!(summary.range("b").map(|range| range.cpu_ns), Some(3e6));

        assert!(
            Layers::parse(path, &of("{\"data\": {}}"))
                .expect("read")
                .is_none()
        );
        let error =
            Layers::parse(path, &of("{\"layers\": [{\"layer\": 3}]}")).expect_err("no layer");
        assert!(
            error.to_string().contains("its layers have another form"),
            "{error}"
        );
    }
}
