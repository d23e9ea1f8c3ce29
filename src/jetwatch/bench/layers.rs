//! `jetwatch bench --only layers`: the time of each layer of an engine.

use anyhow::bail;
use serde_json::json;

use jetwatch_bench::bench_layers;
use jetwatch_config::Config;

use super::super::Exit;

/// Measures the layers and prints one JSON object, the slowest layer first.
pub(super) fn run(config: &Config, preload: usize, runs: usize) -> anyhow::Result<Exit> {
    let Some(mut layers) = bench_layers(config, preload, runs)? else {
        bail!(
            "only TensorRT tells the times of layers, and this detector is another one; set detector.backend to `tensorrt`"
        );
    };
    layers.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
    let all_ms: f64 = layers.iter().map(|layer| layer.total_ms).sum();
    let each: Vec<_> = layers
        .iter()
        .map(|layer| {
            json!({
                "layer": layer.name,
                "runs": layer.runs,
                "mean_ms": layer.total_ms / f64::from(layer.runs.max(1)),
                "share": layer.total_ms / all_ms.max(f64::MIN_POSITIVE),
            })
        })
        .collect();
    let document = json!({
        "runs": runs,
        "mean_ms": all_ms / runs as f64,
        "layers": each,
    });
    println!("{document:#}");
    Ok(Exit::Success)
}
