// SPDX-License-Identifier: Apache-2.0
//! The built engines, and a run of the detector.

use super::check_report::CheckReport;
use super::context::DoctorContext;
use super::detector;
use jetwatch_detect::engines::{EngineCache, ListedState, device};

pub(super) fn run(context: &DoctorContext, report: &mut CheckReport) {
    let config = match &context.detector {
        Ok(config) => config,
        Err(error) => {
            report.failed("model", error);
            return;
        }
    };
    let folder = &config.detector.tensorrt.engines;
    match EngineCache::new(folder).list() {
        Ok(engines) if engines.is_empty() => report.unknown(
            "engines",
            &format!(
                "none in {} yet; build one with `jetwatch engine build --config FILE`",
                folder.display()
            ),
        ),
        Ok(engines) => {
            for engine in engines {
                let what = format!(
                    "engine {}",
                    engine
                        .path
                        .file_name()
                        .unwrap_or_default()
                        .to_string_lossy()
                );
                match engine.state {
                    ListedState::Whole => {
                        let manifest = engine.manifest.map(|manifest| manifest.recipe);
                        let text = manifest.map_or_else(String::new, |of| {
                            format!(
                                "{} in {} for {}, by {} {}",
                                of.model, of.precision, of.gpu, of.builder, of.builder_version
                            )
                        });
                        report.ok(&what, &format!("whole: {text}"));
                    }
                    ListedState::Damaged(why) | ListedState::Incomplete(why) => {
                        report.failed(
                            &what,
                            &format!(
                                "{why}; remove it and build it again with `jetwatch engine build`"
                            ),
                        );
                    }
                }
            }
        }
        Err(error) => context.unreadable(report, "engines", &error.to_string()),
    }
    if let Ok(memory) = device().and_then(|device| Ok(device.memory()?)) {
        let (free, total) = (memory.free >> 20, memory.total >> 20);
        report.ok(
            "memory of the GPU",
            &format!("{free} MiB of {total} MiB are free"),
        );
    }
    if !context.daemons.is_empty() {
        report.unknown("detector", "a check would disturb the running daemon: stop it (sudo systemctl stop jetwatch), then `jetwatch doctor --detector`");
        return;
    }
    if let Err(error) = detector::run(config, report) {
        let text = jetwatch_telemetry::with_causes(error.as_ref());
        match config.detector.model.is_none() {
            true => report.unknown("detector", &text),
            false => report.failed("detector", &text),
        }
    }
}
