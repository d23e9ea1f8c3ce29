// SPDX-License-Identifier: Apache-2.0
//! The time of each layer of a network, with type, precision and device: a table, and `layers.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use serde_json::{Value, json};

use super::BenchOptions;
use super::detector_only::profile_layers;
use super::results::write;
use super::system_info::SystemObserver;
use jetwatch_config::Config;

/// The name of the result.
const FILE: &str = "layers.json";

/// Measured layers.
#[derive(Debug)]
pub struct LayerRun {
    /// The document as written: `runs`, `mean_ms`, `layers` with the slowest first, and `meta`.
    pub document: Value,
    /// The file that holds the document.
    pub path: PathBuf,
}

/// Measures the layers of the network on single frames and writes `layers.json` into the output folder, which must exist.
///
/// # Errors
/// The detector has no network or cannot time its layers, it or the first source fails, or the file cannot be written.
pub fn measure_layers(args: &BenchOptions, config: &Config) -> anyhow::Result<LayerRun> {
    let runs = usize::try_from(args.max_frames().unwrap_or(super::DEFAULT_FRAMES))?;
    let observer = SystemObserver::start(&args.root, None);
    let mut found = profile_layers(config, usize::from(args.preload), runs, &args.output)?;
    let meta = observer.finish(args, Some(&found.detector));
    if found.layers.is_empty() {
        bail!(
            "the scripted detector has no layers; name a model with --model or detector.model, or another backend with \
             detector.backend"
        );
    }
    let layers = &mut found.layers;
    layers.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
    let all_ms: f64 = layers.iter().map(|layer| layer.total_ms).sum();
    let runs = layers.iter().map(|layer| layer.runs).max().unwrap_or(1);
    let each: Vec<_> = layers
        .iter()
        .map(|layer| {
            json!({
                "layer": layer.name,
                "type": layer.kind,
                "precision": layer.precision,
                "device": layer.device,
                "runs": layer.runs,
                "mean_ms": layer.total_ms / f64::from(layer.runs.max(1)),
                "share": layer.total_ms / all_ms.max(f64::MIN_POSITIVE),
            })
        })
        .collect();
    let document = json!({
        "runs": runs,
        "mean_ms": all_ms / f64::from(runs.max(1)),
        "layers": each,
        "meta": meta,
    });
    let path = args.output.join(FILE);
    write(&path, &document)?;
    Ok(LayerRun { document, path })
}

/// What [`measure_layers`] found, in lines above the tables of the report.
#[must_use]
pub fn layers_summary(document: &Value) -> String {
    let text = |layer: &Value, key: &str| layer[key].as_str().unwrap_or_default().to_owned();
    let share = |layer: &Value| layer["share"].as_f64().unwrap_or_default();
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let layers = document["layers"].as_array().map_or(&[][..], Vec::as_slice);
    let mut lines = Vec::new();
    if let Some(detector) = document["meta"]["versions"]["detector"].as_str() {
        lines.push(format!("Detector:  {detector}"));
    }
    lines.push(format!(
        "Layers:    {}, {:.3} ms for one frame, mean of {} runs",
        layers.len(),
        document["mean_ms"].as_f64().unwrap_or_default(),
        document["runs"]
    ));
    for (title, key) in [
        ("Precision:", "precision"),
        ("Device:", "device"),
        ("Type:", "type"),
    ] {
        let mut shares: BTreeMap<String, f64> = BTreeMap::new();
        for layer in layers {
            *shares.entry(text(layer, key)).or_default() += share(layer);
        }
        let mut shares: Vec<(String, f64)> = shares.into_iter().collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        let named = shares.iter().take(6).map(|(name, share)| {
            let name = if name.is_empty() { "unknown" } else { name };
            format!("{name} {}", percent(*share))
        });
        lines.push(format!(
            "{title:<11}{}",
            named.collect::<Vec<_>>().join(", ")
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precisions_devices_and_types_are_summed() {
        let mut layers = vec![
            json!({"layer": "stem + relu", "type": "CaskConvolution", "precision": "int8", "device": "GPU", "mean_ms": 0.6, "share": 0.6}),
        ];
        layers.extend((0..80).map(|at| {
            json!({"layer": format!("l{at}"), "type": "", "precision": "fp16", "device": "DLA", "mean_ms": 0.005, "share": 0.005})
        }));
        let document = json!({"runs": 7, "mean_ms": 1.0, "layers": layers});
        let text = layers_summary(&document);
        assert!(
            text.starts_with("Layers:    81, 1.000 ms for one frame, mean of 7 runs\n"),
            "{text}"
        );
        for line in [
            "Precision: int8 60.0 %, fp16 40.0 %\n",
            "Device:    GPU 60.0 %, DLA 40.0 %\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
