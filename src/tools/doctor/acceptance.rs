// SPDX-License-Identifier: Apache-2.0
//! The acceptance test of a box: what was never seen on a real Jetson (`docs/src/verification.md`), each with the results that show it.
//!
//! It judges the results of the other checks and makes none of its own. Called for `jetwatch doctor --report`.

use serde::Serialize;

use super::check_report::{CheckResult, CheckState};

/// A promise, and how it did on this box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Acceptance {
    /// What is promised.
    pub promise: &'static str,
    /// The worst state of its results: `unknown` also where there are none.
    pub state: CheckState,
    /// The results, by what they checked.
    pub by: Vec<String>,
}

/// What is promised, and the beginnings of what the results that show it have checked.
const PROMISES: [(&str, &[&str]); 16] = [
    (
        "H.264 is decoded on NVDEC, bit for bit",
        &["decoding by NVDEC"],
    ),
    ("images are scaled on the VIC", &["scaling by the VIC"]),
    (
        "rotated video is upright by the VIC",
        &["rotating by the VIC"],
    ),
    (
        "regions of interest are cut by the VIC",
        &["cutting by the VIC"],
    ),
    ("Motion JPEG is decoded on NVJPG", &["decoding by NVJPG"]),
    ("pictures are encoded by nvjpegenc", &["pictures by NVJPG"]),
    (
        "video of cameras is encoded on NVENC",
        &["encoding by NVENC"],
    ),
    ("elements have the properties that are set", &["element nv"]),
    (
        "libcuda and TensorRT are those of the release",
        &["libcuda", "TensorRT"],
    ),
    (
        "TensorRT finds what was recorded",
        &["tensorrt", "tensorrt against recorded"],
    ),
    (
        "USB and CSI cameras can be opened by the daemon",
        &["camera /dev/", "permission /dev/", "nvargus-daemon"],
    ),
    ("settings of `tune` are in force", &["setting "]),
    (
        "sensors can be read, and nothing throttles",
        &["throttling", "readings", "over-current"],
    ),
    ("schedules have their time zones", &["time zones"]),
    (
        "events reach the broker and come back",
        &["message to the broker and back"],
    ),
    (
        "the service runs under its watchdog",
        &["jetwatch.service", "watchdog"],
    ),
];

/// How each promise did, by the results of all checks.
pub(super) fn judge(results: &[CheckResult]) -> Vec<Acceptance> {
    let rank = |state: CheckState| match state {
        CheckState::NotApplicable => 0,
        CheckState::Ok => 1,
        CheckState::Unknown => 2,
        CheckState::Wrong => 3,
    };
    let judge_one = |(promise, starts): &(&'static str, &[&str])| {
        let is_of_it = |result: &&CheckResult| {
            let mut starts = starts.iter();
            starts.any(|start| result.what.starts_with(start))
        };
        let found: Vec<&CheckResult> = results.iter().filter(is_of_it).collect();
        let worst = found.iter().map(|result| result.state);
        Acceptance {
            promise,
            state: worst
                .max_by_key(|state| rank(*state))
                .unwrap_or(CheckState::Unknown),
            by: found.iter().map(|result| result.what.clone()).collect(),
        }
    };
    PROMISES.iter().map(judge_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(state: CheckState, what: &str) -> CheckResult {
        CheckResult {
            part: None,
            state,
            what: what.to_owned(),
            text: String::new(),
        }
    }

    #[test]
    fn promise_is_as_good_as_its_worst_result() {
        let judged = judge(&[
            result(CheckState::Ok, "decoding by NVDEC"),
            result(CheckState::Ok, "libcuda"),
            result(CheckState::Unknown, "TensorRT"),
            result(CheckState::Ok, "permission /dev/video0"),
            result(CheckState::Wrong, "camera /dev/video1"),
            result(CheckState::NotApplicable, "scaling by the VIC"),
        ]);
        let state = |start: &str| {
            let found = judged.iter().find(|one| one.promise.starts_with(start));
            found.expect("a promise").state
        };
        assert_eq!(state("H.264"), CheckState::Ok);
        assert_eq!(state("libcuda and"), CheckState::Unknown);
        assert_eq!(state("USB and CSI"), CheckState::Wrong);
        assert_eq!(state("images are scaled"), CheckState::NotApplicable);
        // What was not checked is not proven.
        assert_eq!(state("Motion JPEG"), CheckState::Unknown);
    }
}
