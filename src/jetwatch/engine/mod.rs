// SPDX-License-Identifier: Apache-2.0
//! `jetwatch engine`: build, inspect and list TensorRT engines for this machine's GPU.

mod build;
mod inspect;
mod list;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Exit;
use jetwatch_config::MAX_CROP_BATCH_SIZE;
use jetwatch_detect::engines::Layers;

/// Arguments of `jetwatch engine`.
#[derive(Debug, Args)]
pub(super) struct EngineArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the engine of a model in the daemon's engine folder. Takes minutes on a Jetson.
    Build(Box<BuildArgs>),
    /// Inspect an engine file, by default without loading it.
    Inspect(InspectArgs),
    /// List the engines, and whether they are intact.
    List(ListArgs),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["config", "model"]))]
struct BuildArgs {
    /// Build the engine for this configuration file; the other options override it.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Build the engine of this model folder, with the default settings.
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Precision: fp32, fp16 or int8; by default the model's first.
    #[arg(long, value_name = "NAME")]
    precision: Option<String>,
    /// Maximum batch size; detector.batch_size, or that of a secondary network.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_CROP_BATCH_SIZE))]
    batch: Option<u16>,
    /// Number of parallel detectors; detector.workers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    workers: Option<u16>,
    /// DLA core for the layers that it supports, from 0.
    #[arg(long, value_name = "CORE", value_parser = clap::value_parser!(u32).range(0..=15))]
    dla: Option<u32>,
    /// With --dla: run unsupported layers on the GPU (the default).
    #[arg(long, overrides_with = "no_gpu_fallback")]
    gpu_fallback: bool,
    /// With --dla: refuse a network with layers that the DLA does not support.
    #[arg(long, overrides_with = "gpu_fallback")]
    no_gpu_fallback: bool,
    /// Workspace memory limit of a layer.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    workspace: Option<u64>,
    /// Calibrate the fp32 network with the JPEG and PNG files in this folder, some hundred typical images of the cameras (TensorRT 8 and 10).
    #[arg(long, value_name = "DIR")]
    calibration_images: Option<PathBuf>,
    /// Calibration cache: read, or written with --calibration-images; by default MODEL.calibration in the engine folder.
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Folder of the engines.
    #[arg(long, value_name = "DIR")]
    engines: Option<PathBuf>,
    /// Path of TensorRT's library, or its folder.
    #[arg(long, value_name = "PATH")]
    tensorrt: Option<PathBuf>,
    /// Copy the engine and its manifest to this file too.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Build even if the engine exists.
    #[arg(long)]
    force: bool,
    /// Remove engines that differ from this one only in the version of TensorRT.
    #[arg(long)]
    prune: bool,
    /// Build for any GPU of this compute capability, such as 8.6, without one (TensorRT-RTX only).
    #[arg(long, value_name = "X.Y", value_parser = parse_capability)]
    compute_capability: Option<(u32, u32)>,
}

#[derive(Debug, Args)]
struct InspectArgs {
    /// The engine file.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Load it with this machine's TensorRT and GPU and list its layers. An engine contains machine code: load only trusted ones.
    #[arg(long)]
    load: bool,
    /// With --load: path of TensorRT's library, or its folder.
    #[arg(long, value_name = "PATH", requires = "load")]
    tensorrt: Option<PathBuf>,
    /// With --load: the DLA core to load it for.
    #[arg(long, value_name = "CORE", requires = "load")]
    dla: Option<u32>,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Read the engine folder from this configuration file.
    #[arg(short, long, value_name = "FILE", conflicts_with = "engines")]
    config: Option<PathBuf>,
    /// Folder of the engines.
    #[arg(long, value_name = "DIR")]
    engines: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(super) fn run(args: &EngineArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Build(args) => build::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::List(args) => list::run(args),
    }
}

/// Parses `8.6`.
fn parse_capability(text: &str) -> Result<(u32, u32), String> {
    let part = |text: &str| text.parse().ok().filter(|part: &u32| *part < 100);
    text.split_once('.')
        .and_then(|(major, minor)| Some((part(major)?, part(minor)?)))
        .ok_or_else(|| format!("found {text:?}, expected two numbers, such as 8.6"))
}

/// Layers by precision and device in one line, then the layers that fell back from a DLA to the GPU.
fn describe_layers(layers: &Layers) -> String {
    /// Maximum number of layers that are named.
    const MAX_LAYERS: usize = 20;
    let counts = |counts: &std::collections::BTreeMap<String, usize>| {
        let counts: Vec<String> = counts
            .iter()
            .map(|(word, count)| format!("{word} {count}"))
            .collect();
        counts.join(", ")
    };
    let mut text = format!(
        "{} layers by output precision: {}; by device: {}",
        layers.total,
        counts(&layers.precision),
        counts(&layers.device)
    );
    if !layers.fell_back.is_empty() {
        let named: Vec<&str> = layers
            .fell_back
            .iter()
            .take(MAX_LAYERS)
            .map(String::as_str)
            .collect();
        let more = layers.fell_back.len().saturating_sub(MAX_LAYERS);
        text += &format!("\n           fell back to the GPU: {}", named.join(", "));
        if more > 0 {
            text += &format!(", and {more} more (--json lists all)");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_two_numbers() {
        assert_eq!(parse_capability("8.6"), Ok((8, 6)));
        assert_eq!(parse_capability("12.0"), Ok((12, 0)));
        for text in ["", "8", "86", "8.", ".6", "8.6.1", "a.b", "-8.6", "8.100"] {
            assert!(parse_capability(text).is_err(), "{text}");
        }
    }

    #[test]
    fn gpu_fallback_layers_are_listed() {
        let json = r#"{"Layers": [
            {"Name": "a", "LayerType": "DLA", "Precision": "Int8"}, {"Name": "resize", "LayerType": "Resize", "Precision": "Half"}
        ]}"#;
        let layers = Layers::read(json).expect("it has layers");
        assert_eq!(
            describe_layers(&layers),
            "2 layers by output precision: fp16 1, int8 1; by device: DLA 1, GPU 1\n           fell back to the GPU: resize"
        );
    }
}
