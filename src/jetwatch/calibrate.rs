// SPDX-License-Identifier: Apache-2.0
//! `jetwatch calibrate`: frames of a camera or video as images, for INT8 calibration.

use std::io::{IsTerminal, Write, stderr};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use jetwatch_config::Config;
use jetwatch_eval::{CollectOptions, collect_frames};
use jetwatch_platform::SysRoot;
use jetwatch_source::gst;
use jetwatch_telemetry::{self as telemetry, StopToken};
use jetwatch_traffic::synthetic_factory;

use super::{Exit, parse_duration, signals};

/// The word for the first V4L2 camera.
const CAMERA: &str = "camera";

/// Below this number of images, measurements of accuracy say little.
const RECOMMENDED: usize = 100;

/// Write frames of a source as JPEG images, spread over time, for models/quantize.py and `jetwatch engine build`
#[derive(Debug, Args)]
pub(super) struct CalibrateArgs {
    /// Any source: rtsp://…, v4l2:///dev/video0, csi://0, a video file; `camera` is the first V4L2 camera
    #[arg(long, value_name = "URI")]
    source: String,
    /// Folder for the images; created when missing. Several sources may share it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Maximum number of images
    #[arg(long, value_name = "N", default_value = "200")]
    count: NonZero<u16>,
    /// Time from one image to the next, such as 10s or 5m; by default 10s for cameras, and all of a file at equal distances
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    every: Option<Duration>,
}

/// Collects the frames and prints a summary.
pub(super) fn run(args: &CalibrateArgs) -> Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let uri = match args.source.as_str() {
        CAMERA => first_camera()?,
        uri => uri.to_owned(),
    };
    // A configuration needs a model, which is not opened here.
    let config = Config::for_source(&uri, Some("none"))?;
    gst::init(&config.log.gst_debug)?;
    let stop = StopToken::default();
    signals::listen(stop.clone(), || ())?;
    let count = usize::from(args.count.get());
    let options = CollectOptions {
        source: &config.sources[0],
        count,
        every: args.every,
        folder: &args.out,
        synthetic: Some(synthetic_factory()),
    };
    let files = collect_frames(&options, &stop, &mut progress(count))?;
    println!(
        "{} images of {} in {}",
        files.len(),
        uri,
        args.out.display()
    );
    if files.len() < RECOMMENDED {
        println!(
            "Use {RECOMMENDED} or more in all, from every camera and from day and night: with fewer, a measured accuracy says little."
        );
    }
    println!(
        "Next: python models/quantize.py --model DIR --pictures {} --out DIR --update-model-yaml",
        args.out.display()
    );
    Ok(Exit::Success)
}

/// The URI of the V4L2 camera with the lowest number that can be opened.
fn first_camera() -> Result<String> {
    let names = SysRoot::default().names("/dev").unwrap_or_default();
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| name.strip_prefix("video")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    for number in &numbers {
        let device = format!("/dev/video{number}");
        // A camera has nodes for metadata as well, which offer no video.
        let offers = gst::camera_offers(&device).unwrap_or_default();
        if Path::new(&device).exists() && !offers.is_empty() {
            return Ok(format!("v4l2://{device}"));
        }
    }
    bail!(
        "found no V4L2 camera that can be opened among {} devices /dev/video*; plug one in, end the program that uses it, or give \
         the address of another source, such as --source rtsp://… or csi://0",
        numbers.len()
    )
}

/// Progress line on a terminal.
fn progress(total: usize) -> impl FnMut(usize) {
    let is_terminal = stderr().is_terminal();
    let mut shown = None;
    move |done| {
        if is_terminal && shown != Some(done) {
            shown = Some(done);
            // The progress line is optional: a failed write is ignored.
            let _ = write!(stderr(), "\x1b[K{done} of {total} images\r");
        }
    }
}
