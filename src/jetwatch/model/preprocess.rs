// SPDX-License-Identifier: Apache-2.0
//! `jetwatch model preprocess`: images as input tensors of a network, in a file of NumPy.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use serde_json::json;

use jetwatch_eval::{io, write_tensors};
use jetwatch_telemetry as telemetry;

use super::{Exit, PreprocessArgs};

/// Writes the tensors, and prints a line of JSON for each image. Unreadable images are reported there and are no failure.
pub(super) fn run(args: &PreprocessArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let list =
        io::read(&args.list).with_context(|| format!("cannot read {}", args.list.display()))?;
    let lines = list.lines().filter(|line| !line.is_empty());
    let files: Arc<[PathBuf]> = lines.map(PathBuf::from).collect();
    ensure!(
        !files.is_empty(),
        "{} is empty, expected the path of an image in each line",
        args.list.display()
    );
    let sizes = write_tensors(&args.model, Arc::clone(&files), &args.out)?;
    for (path, size) in files.iter().zip(sizes) {
        let line = match size {
            Ok(size) => json!({"file": path, "width": size.width, "height": size.height}),
            Err(reason) => json!({"file": path, "error": reason}),
        };
        println!("{line}");
    }
    Ok(Exit::Success)
}
