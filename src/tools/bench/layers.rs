// SPDX-License-Identifier: Apache-2.0
//! The time of each layer of a network, with type, precision and device: a table, and `layers.json`.

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
