//! `jetwatch bench`: measure parts of the chain.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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
}

/// Measures and prints one JSON object.
pub(super) fn run(args: &BenchArgs) -> anyhow::Result<Exit> {
    let config = Config::load(&args.config)?;
    telemetry::start_logging(log::LevelFilter::Warn);
    let Part::Detect = args.only;
    let numbers = pipeline::detector_alone(
        &config,
        usize::from(args.preload),
        args.warmup_frames,
        args.frames,
    )?;
    println!("{}", serde_json::to_string_pretty(&numbers)?);
    Ok(Exit::Success)
}
