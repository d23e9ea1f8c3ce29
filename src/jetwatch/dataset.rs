// SPDX-License-Identifier: Apache-2.0
//! `jetwatch dataset`: labeled images of the built-in street, in formats for training tools and `jetwatch eval`.
//!
//! Arguments, progress line and summary; `jetwatch_traffic` draws the scenes and writes the files.

use std::io::{IsTerminal, Write, stderr};
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;

use anyhow::Result;
use clap::{Args, ValueEnum};

use jetwatch_traffic::dataset::{self, DatasetGenerator, DatasetSettings, LABELS, LabelMerge};
use jetwatch_types::Size;

use super::Exit;

/// Write labeled images of built-in street scenes, for training and for `jetwatch eval`
#[derive(Debug, Args)]
pub(super) struct DatasetArgs {
    /// Folder for the images and annotations.json; created when missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of scenes; each with its own appearance
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    scenes: u64,
    /// Number of images per scene, at well-separated times
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    images: u32,
    /// Seed of the first scene; scene n has seed + n
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Width and height in pixels
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "640x384", value_parser = parse_size)]
    size: Size,
    /// Minimum and maximum number of objects in a scene, on average over time
    #[arg(long, value_name = "MIN-MAX", default_value = "3-14", value_parser = parse_range)]
    objects: (u32, u32),
    /// Merge several labels into one, such as vehicle=car,bus,truck; may be given several times
    #[arg(long, value_name = "NAME=LABEL,…", value_parser = parse_merge)]
    merge: Vec<LabelMerge>,
    /// Write objects with a smaller visible share, from 0 to 1, as `iscrowd`: ignored by the evaluation
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = parse_share)]
    least_visible: f32,
    /// Write objects with a shorter side, in pixels, as `iscrowd` too
    #[arg(long, value_name = "PIXELS", default_value_t = 6.0)]
    least_side: f32,
    /// Format of the images
    #[arg(long, value_enum, default_value_t = ImageFormat::Jpeg)]
    format: ImageFormat,
    /// Number of drawing threads; by default one for each core
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Option<u64>,
}

/// Values of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImageFormat {
    /// Quality 92, as cameras write
    Jpeg,
    /// Lossless
    Png,
}

/// Generates the dataset and prints a summary.
pub(super) fn run(args: &DatasetArgs) -> Result<Exit> {
    let settings = DatasetSettings {
        folder: args.out.clone(),
        scenes: args.scenes,
        generator: DatasetGenerator {
            first_seed: args.seed,
            images_per_scene: args.images,
            size: args.size,
            objects: args.objects,
        },
        merges: args.merge.clone(),
        min_visible: args.least_visible,
        min_side: args.least_side,
        format: match args.format {
            ImageFormat::Jpeg => jetwatch_pixels::ImageFormat::Jpeg,
            ImageFormat::Png => jetwatch_pixels::ImageFormat::Png,
        },
        threads: args.threads.map_or_else(
            || thread::available_parallelism().map_or(1, NonZero::get),
            |threads| threads as usize,
        ),
    };
    let summary = dataset::write(&settings, |done| show_progress(done, args.scenes))?;
    println!(
        "{} images of {} scenes with {} objects in {}",
        summary.images,
        args.scenes,
        summary.objects,
        args.out.display()
    );
    Ok(Exit::Success)
}

fn show_progress(done: u64, scenes: u64) {
    let mut stderr = stderr();
    if !stderr.is_terminal() || (!done.is_multiple_of(16) && done != scenes) {
        return;
    }
    let end = if done == scenes { "\n" } else { "" };
    // The progress line is optional: a failed write is ignored.
    let _ = write!(stderr, "\rscene {done} of {scenes}{end}");
}

fn parse_size(text: &str) -> Result<Size, String> {
    let side = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|side| (16..=4096).contains(side))
    };
    text.split_once(['x', '×'])
        .and_then(|(width, height)| Some(Size::new(side(width)?, side(height)?)))
        .ok_or_else(|| {
            format!("found {text:?}, expected width and height from 16 to 4096, such as 640x384")
        })
}

fn parse_range(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number <= 64);
    let (min, max) = text.split_once('-').unwrap_or((text, text));
    number(min)
        .zip(number(max))
        .filter(|(min, max)| min <= max)
        .ok_or_else(|| {
            format!("found {text:?}, expected two whole numbers from 0 to 64, such as 3-14")
        })
}

fn parse_share(text: &str) -> Result<f32, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("found {text:?}, expected a number from 0 to 1"))
}

fn parse_merge(text: &str) -> Result<LabelMerge, String> {
    let expected = || {
        format!(
            "found {text:?}, expected NAME=LABEL,… with labels out of {}",
            LABELS.join(", ")
        )
    };
    let (name, labels) = text.split_once('=').ok_or_else(expected)?;
    let labels: Option<Vec<&'static str>> = labels
        .split(',')
        .map(|label| LABELS.into_iter().find(|known| *known == label.trim()))
        .collect();
    match labels {
        Some(labels) if !name.trim().is_empty() => Ok(LabelMerge {
            name: name.trim().to_owned(),
            labels,
        }),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_arguments_are_rejected_with_expected_format() {
        assert_eq!(parse_size("640x384"), Ok(Size::new(640, 384)));
        for text in ["640", "8x8", "640x", "9000x9000", "-1x5"] {
            let error = parse_size(text).expect_err(text);
            assert!(error.contains("640x384"), "{error}");
        }
        assert_eq!(parse_range("3-14"), Ok((3, 14)));
        assert_eq!(parse_range("5"), Ok((5, 5)));
        for text in ["9-3", "a-b", "1-900", ""] {
            assert!(parse_range(text).is_err(), "{text}");
        }
        let merge = parse_merge("vehicle=car, bus,truck").expect("it is right");
        assert_eq!(merge.labels, ["car", "bus", "truck"]);
        for text in ["vehicle", "=car", "x=plane", "x="] {
            let error = parse_merge(text).expect_err(text);
            assert!(error.contains("motorcycle"), "{error}");
        }
    }
}
