// SPDX-License-Identifier: Apache-2.0
//! `jetwatch model decode`: serves the daemon's decoders to a program that runs the network itself.

use std::io::{BufReader, BufWriter, stdin, stdout};

use jetwatch_detect::DetectError;
use jetwatch_detect::model::ModelSpec;
use jetwatch_models::serve_decoding;
use jetwatch_pipeline::PipelineError;

use super::{DecodeArgs, Exit};

/// Serves until standard input ends.
pub(super) fn run(args: &DecodeArgs) -> anyhow::Result<Exit> {
    let spec = ModelSpec::load(&args.model)
        .map_err(|error| PipelineError::from(DetectError::from(error)))?;
    serve_decoding(
        &spec,
        BufReader::new(stdin().lock()),
        BufWriter::new(stdout().lock()),
    )?;
    Ok(Exit::Success)
}
