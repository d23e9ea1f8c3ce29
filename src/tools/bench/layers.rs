//! The time of each layer of an engine.

use anyhow::bail;
use serde_json::{Value, json};

use jetwatch_config::Config;
use jetwatch_pipeline as pipeline;

/// Measures the layers of the network on single frames, `runs` times; one JSON object, the slowest layer first.
///
/// # Errors
/// The detector is not TensorRT, or it or the first source fails.
pub fn measure_layers(config: &Config, preload: usize, runs: usize) -> anyhow::Result<Value> {
    let Some(mut layers) = pipeline::bench_layers(
        config,
        preload,
        runs,
        Some(&jetwatch_traffic::synthetic_factory()),
    )?
    else {
        bail!(
            "only TensorRT reports the times of layers, and this detector is another one; set detector.backend to `tensorrt`"
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
    Ok(json!({
        "runs": runs,
        "mean_ms": all_ms / runs as f64,
        "layers": each,
    }))
}
