// SPDX-License-Identifier: Apache-2.0
//! Recorded detections of the networks of a configuration, compared with what the back-end of this machine finds. Called by
//! `jetwatch check`, and by `jetwatch update` through it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use jetwatch_config::{Backend, Config, DetectorConfig};
use jetwatch_detect::model::ModelSpec;
use jetwatch_detect::{self as detect, DetectError};
use jetwatch_eval::{Golden, detections_of, golden_frames};
use jetwatch_pipeline as pipeline;
use jetwatch_telemetry::{Recorder, with_causes};
use jetwatch_traffic::synthetic_factory;

use super::check_report::CheckReport;
use super::detector::{GOLDEN, MIN_SHARE, agreement_with, for_golden, other_images};

/// A comparison that did not fail, in words.
enum Comparison {
    /// The network finds what was recorded.
    Matches(String),
    /// There is nothing to compare with.
    Impossible(String),
}

/// Adds a result for each network of `config` whose folder has recorded detections, or is the detector's and among `required`. The
/// detections must be found again. A record of test images that this version does not draw is unknown; for folders in `required`
/// it is wrong, and so is a missing record.
pub fn check_recorded(config: &Config, required: &[PathBuf], report: &mut CheckReport) {
    for (index, network) in pipeline::all_networks(config).iter().enumerate() {
        let Some(folder) = &network.model else {
            continue;
        };
        // The truth of a drawn scene says nothing of a network.
        if network.backend == Backend::Scripted {
            continue;
        }
        let is_required = required.contains(folder);
        let is_needed = is_required && index == 0;
        if !is_needed && !folder.join(GOLDEN).exists() {
            continue;
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let what = format!("recorded {name}");
        match compare(network, folder) {
            Ok(Comparison::Matches(text)) => report.ok(&what, &text),
            Ok(Comparison::Impossible(text)) if !is_required => report.unknown(&what, &text),
            Ok(Comparison::Impossible(text)) => report.failed(&what, &text),
            Err(error) => report.failed(&what, &with_causes(error.as_ref())),
        }
    }
}

/// Compares what the network of `settings` finds with what was recorded in `folder`.
fn compare(settings: &DetectorConfig, folder: &Path) -> anyhow::Result<Comparison> {
    let path = folder.join(GOLDEN);
    if !path.exists() {
        return Ok(Comparison::Impossible(format!(
            "{} is missing; write it with `jetwatch doctor --detector --model DIR --record DIR/{GOLDEN}`",
            path.display()
        )));
    }
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let golden = Golden::parse(&text).with_context(|| path.display().to_string())?;
    let prepared = detect::load(&for_golden(settings), &Recorder::default())?;
    let spec = ModelSpec::load(folder).map_err(DetectError::Model)?;
    let first = spec.files.first().map(|file| file.precision.as_str());
    // A precision without a file in the folder, such as fp16, is compared with that of its first file.
    let set = prepared
        .precision()
        .and_then(|precision| golden.set(precision))
        .or_else(|| golden.set(first?));
    let Some(set) = set else {
        bail!(
            "{} has no detections in the precision of the model's first file; record them again",
            path.display()
        );
    };
    let frames = golden_frames(&prepared, &synthetic_factory())?;
    if let Some(text) = other_images(&frames, set) {
        return Ok(Comparison::Impossible(text));
    }
    let found = agreement_with(set, &detections_of(&prepared, &frames)?);
    let text = format!(
        "{}: {:.1} % of {} and {:.1} % of {} recorded confident boxes match on {} images, expected {:.0} %",
        prepared.describe(),
        100.0 * found.first.share(),
        found.first.boxes,
        100.0 * found.second.share(),
        found.second.boxes,
        found.images,
        100.0 * MIN_SHARE
    );
    if found.second.boxes == 0 {
        return Ok(Comparison::Impossible(format!(
            "{text}; a record without detections proves nothing"
        )));
    }
    if found.share() < MIN_SHARE {
        bail!("{text}");
    }
    Ok(Comparison::Matches(text))
}
