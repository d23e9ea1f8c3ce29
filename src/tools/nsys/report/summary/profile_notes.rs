// SPDX-License-Identifier: Apache-2.0
//! What `jetwatch profile` notes next to a profile: the daemon's own numbers with the conditions of the profile.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::ReportSummary;

/// Extension of the file next to a report or its export.
const EXTENSION: &str = "stats.json";

/// Key of the conditions in that file, which `jetwatch profile` adds.
pub const PROFILE_KEY: &str = "profile";

/// The statistics of the run that stand next to the report `path`, with the conditions of the profile.
pub(crate) fn noted_run(path: &Path) -> Option<Value> {
    let bytes = fs::read(path.with_extension(EXTENSION)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

impl ReportSummary {
    /// Adds what `stats`, the statistics next to the report, say: what its series varies, its configuration, and the CPU time of
    /// a frame.
    pub(crate) fn add_profile_notes(&mut self, stats: &Value) {
        let notes = &stats[PROFILE_KEY];
        let text = |key: &str| notes[key].as_str().map(str::to_owned);
        self.workload.config = text("config_hash");
        self.workload.base = text("base_hash");
        let varied = notes["varied"].as_object().into_iter().flatten();
        self.workload.varied = varied
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        let cpu_ms = stats["cpu_ms_per_frame"].as_f64();
        if let Some(throughput) = &mut self.throughput {
            throughput.cpu_ns = cpu_ms.map(|ms| ms * 1e6);
            throughput.latency = Deserialize::deserialize(&stats["latency"]).unwrap_or_default();
            throughput.occupancy =
                Deserialize::deserialize(&stats["occupancy"]).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Throughput;
    use super::*;

    #[test]
    fn notes_next_to_a_report_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let report = folder.path().join("p-batch04.sqlite");
        let mut summary = ReportSummary {
            throughput: Some(Throughput::default()),
            ..ReportSummary::default()
        };
        assert_eq!(noted_run(&report), None, "there is no file");
        fs::write(
            folder.path().join("p-batch04.stats.json"),
            r#"{"cpu_ms_per_frame": 2.5, "profile": {"base_hash": "x", "config_hash": "y", "varied": {"detector.batch_size": "4"}}}"#,
        )
        .expect("written");
        summary.add_profile_notes(&noted_run(&report).expect("a file"));
        assert_eq!(summary.workload.varied["detector.batch_size"], "4");
        assert_eq!(summary.workload.base.as_deref(), Some("x"));
        assert_eq!(
            summary.throughput.and_then(|found| found.cpu_ns),
            Some(2.5e6)
        );
    }
}
