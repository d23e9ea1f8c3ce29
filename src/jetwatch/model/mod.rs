// SPDX-License-Identifier: Apache-2.0
//! `jetwatch model`: fetches and inspects networks, creates model folders, and serves image processing to other programs.

mod decode;
pub(crate) mod fetch;
mod init;
mod inspect;
mod list;
mod preprocess;
mod trial;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Exit;
use jetwatch_detect::layouts::ssd::SsdBackground;
use jetwatch_types::Size;

/// Arguments of `jetwatch model`.
#[derive(Debug, Args)]
pub(super) struct ModelArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the networks of the catalogue.
    List(ListArgs),
    /// Fetch a network of the catalogue into a model folder; interrupted downloads resume, length and hash are verified.
    Fetch(FetchArgs),
    /// Inspect an ONNX file, and report the runtimes that support it.
    Inspect(InspectArgs),
    /// Create a model folder for an ONNX file, with a description of detected and assumed properties.
    Init(InitArgs),
    /// Write images as input tensors of a network, processed as in the daemon, to a NumPy file.
    Preprocess(PreprocessArgs),
    /// Decode output tensors from standard input as in the daemon; models/quantize.py uses it.
    Decode(DecodeArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct FetchArgs {
    /// Name in the catalogue; by default that of the network for a first video.
    name: Option<String>,
    /// The model folder; by default models/NAME.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Fetch the same file from another address, such as a local mirror.
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Accept a file without a hash in the catalogue.
    #[arg(long)]
    accept_unverified: bool,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct InspectArgs {
    /// The ONNX file.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct InitArgs {
    /// The ONNX file.
    file: PathBuf,
    /// The model folder; by default models/NAME, after the file. The file is copied into it unless it is in it already.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Use this output layout instead of the most likely one.
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<String>,
    /// File with the class names in the network's order: one per line, or a list or map in YAML or JSON.
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Place of the background class among the scores of an SSD: first, last, or none where each score belongs to a class; default: none where there are as many labels as scores, else first.
    #[arg(long, value_name = "PLACE", value_parser = parse_background)]
    background: Option<SsdBackground>,
    /// Input size, where the network has a dynamic one.
    #[arg(long, value_name = "WIDTHxHEIGHT", value_parser = parse_size)]
    size: Option<Size>,
    /// Run the network on this picture, list what it finds, and write the picture with its boxes into the folder as boxes.jpg. Where several layouts or inputs fit alike, the one that is surest of what it finds is used.
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct PreprocessArgs {
    /// Model folder with its model.yaml.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// File with the path of an image (JPEG, PNG) in each line; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    list: PathBuf,
    /// The file for the array [images, 3, height, width] (.npy).
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Debug, Args)]
struct DecodeArgs {
    /// Model folder with its model.yaml; its networks are not opened.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
}

/// Runs the subcommand.
pub(super) fn run(args: &ModelArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List(args) => list::run(args),
        Command::Fetch(args) => fetch::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Init(args) => init::run(args),
        Command::Preprocess(args) => preprocess::run(args),
        Command::Decode(args) => decode::run(args),
    }
}

/// Parses `640x480`.
fn parse_size(text: &str) -> Result<Size, String> {
    let side = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|side| (1..=8192).contains(side))
    };
    text.split_once('x')
        .and_then(|(width, height)| Some(Size::new(side(width)?, side(height)?)))
        .ok_or_else(|| {
            format!("found {text:?}, expected width and height in pixels, such as 640x480")
        })
}

/// Parses `none`.
fn parse_background(text: &str) -> Result<SsdBackground, String> {
    let found = SsdBackground::ALL
        .into_iter()
        .find(|one| one.word() == text);
    found.ok_or_else(|| {
        let words = SsdBackground::ALL.map(SsdBackground::word);
        format!("found {text:?}, expected {}", words.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_is_a_place_or_none() {
        assert_eq!(parse_background("none"), Ok(SsdBackground::None));
        let error = parse_background("no").expect_err("no place");
        assert_eq!(error, "found \"no\", expected first, last, none");
    }

    #[test]
    fn sizes_are_width_and_height() {
        assert_eq!(parse_size("640x480"), Ok(Size::new(640, 480)));
        for text in [
            "",
            "640",
            "640x",
            "x480",
            "0x1",
            "640x480x3",
            "-1x2",
            "99999x1",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
