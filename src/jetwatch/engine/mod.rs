//! `jetwatch engine`: what TensorRT builds of a network for this machine's GPU: build it, look into it, list what there is.

mod build;
mod inspect;
mod list;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Exit;
use jetwatch_detect::engines::Layers;

/// What `jetwatch engine` is told.
#[derive(Debug, Args)]
pub(super) struct EngineArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the engine of a model and keep it where the daemon finds it. Takes minutes on a Jetson.
    Build(Box<BuildArgs>),
    /// Say what an engine file is, without loading it.
    Inspect(InspectArgs),
    /// List the engines that were built, and whether they are whole.
    List(ListArgs),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["config", "model"]))]
struct BuildArgs {
    /// Build the engine that this configuration file asks for; the other options change what it says.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Build the engine of this model folder, with the settings that a configuration has by default.
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// What it computes in: fp32, fp16 or int8; by default the model's first.
    #[arg(long, value_name = "NAME")]
    precision: Option<String>,
    /// Most pictures in one run; detector.batch_size.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    batch: Option<u16>,
    /// Detectors that run side by side; detector.workers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    workers: Option<u16>,
    /// Number of the DLA core that runs what it can of the network, from 0.
    #[arg(long, value_name = "CORE", value_parser = clap::value_parser!(u32).range(0..=15))]
    dla: Option<u32>,
    /// With --dla: the GPU runs what the DLA cannot (the default).
    #[arg(long, overrides_with = "no_gpu_fallback")]
    gpu_fallback: bool,
    /// With --dla: refuse a network that the DLA cannot run whole.
    #[arg(long, overrides_with = "gpu_fallback")]
    no_gpu_fallback: bool,
    /// Memory that a layer may use while it computes.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    workspace: Option<u64>,
    /// Calibrate the fp32 network with the JPEG and PNG files in this folder, some hundred of what the cameras see (TensorRT 8 and 10).
    #[arg(long, value_name = "DIR")]
    calibration_images: Option<PathBuf>,
    /// Calibration cache: read, or written with --calibration-images; by default MODEL.calibration beside the engines.
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Folder of the engines.
    #[arg(long, value_name = "DIR")]
    engines: Option<PathBuf>,
    /// TensorRT's library, or the folder that holds it.
    #[arg(long, value_name = "PATH")]
    tensorrt: Option<PathBuf>,
    /// Copy the engine, with its manifest beside it, to this file too.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Build also when the engine is there.
    #[arg(long)]
    force: bool,
    /// Remove engines that differ from this one in the version of TensorRT alone.
    #[arg(long)]
    prune: bool,
    /// Build for any GPU of this compute capability, such as 8.6, without one (TensorRT-RTX alone).
    #[arg(long, value_name = "X.Y", value_parser = parse_capability)]
    compute_capability: Option<(u32, u32)>,
}

#[derive(Debug, Args)]
struct InspectArgs {
    /// The file.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Load it into this machine's TensorRT and GPU and tell its layers. An engine holds machine code: only one that you trust.
    #[arg(long)]
    load: bool,
    /// With --load: TensorRT's library, or the folder that holds it.
    #[arg(long, value_name = "PATH", requires = "load")]
    tensorrt: Option<PathBuf>,
    /// With --load: the DLA core to load it for.
    #[arg(long, value_name = "CORE", requires = "load")]
    dla: Option<u32>,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Take the folder from this configuration file.
    #[arg(short, long, value_name = "FILE", conflicts_with = "engines")]
    config: Option<PathBuf>,
    /// Folder of the engines.
    #[arg(long, value_name = "DIR")]
    engines: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Does what it is told.
pub(super) fn run(args: &EngineArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Build(args) => build::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::List(args) => list::run(args),
    }
}

/// Reads `8.6`.
fn parse_capability(text: &str) -> Result<(u32, u32), String> {
    let part = |text: &str| text.parse().ok().filter(|part: &u32| *part < 100);
    text.split_once('.')
        .and_then(|(major, minor)| Some((part(major)?, part(minor)?)))
        .ok_or_else(|| format!("found {text:?}, expected two numbers, such as 8.6"))
}

/// Layers by precision and device as a line, and what fell back from a DLA as more of them.
fn describe_layers(layers: &Layers) -> String {
    /// Most layers that are named.
    const MAX_LAYERS: usize = 20;
    let counts = |counts: &std::collections::BTreeMap<String, usize>| {
        let counts: Vec<String> = counts
            .iter()
            .map(|(word, count)| format!("{word} {count}"))
            .collect();
        counts.join(", ")
    };
    let mut text = format!(
        "{} layers by what they give: {}; by device: {}",
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
            text += &format!(", and {more} more (--json names all)");
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
            "2 layers by what they give: fp16 1, int8 1; by device: DLA 1, GPU 1\n           fell back to the GPU: resize"
        );
    }
}
