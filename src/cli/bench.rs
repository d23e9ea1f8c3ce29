//! `jetwatch bench`: measure parts of the chain.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::config::Config;
use crate::pipeline;
use crate::telemetry;

use super::Exit;

/// What `jetwatch bench` is told.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// Configuration file: its first source gives the frames, its detector runs them.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Which part.
    #[arg(long, value_enum, default_value_t = Part::Detect)]
    only: Part,
    /// Frames to measure.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    frames: u64,
    /// Frames to run before measuring.
    #[arg(long, value_name = "N", default_value_t = 20)]
    warmup_frames: u64,
    /// Frames to load beforehand; they are used in turns.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    preload: u16,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Part {
    /// Tensor, network and decoding, on preloaded frames.
    Detect,
    /// Each layer of the network, run by run on single frames (TensorRT alone).
    Layers,
}

/// Measures and prints one JSON object.
pub(super) fn run(args: &BenchArgs) -> anyhow::Result<Exit> {
    let config = Config::load(&args.config)?;
    telemetry::start_logging(log::LevelFilter::Warn);
    if let Part::Layers = args.only {
        return layers(&config, args);
    }
    let numbers = pipeline::detector_alone(
        &config,
        usize::from(args.preload),
        args.warmup_frames,
        args.frames,
    )?;
    println!("{}", serde_json::to_string_pretty(&numbers)?);
    Ok(Exit::Success)
}

/// Measures the layers and prints one JSON object, the slowest layer first.
fn layers(config: &Config, args: &BenchArgs) -> anyhow::Result<Exit> {
    let runs = usize::try_from(args.frames)?;
    let Some(mut layers) = pipeline::layers_alone(config, usize::from(args.preload), runs)? else {
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
