// SPDX-License-Identifier: Apache-2.0
//! The rule about latency: live sources come at their own pace, so batches that wait for frames make results later and no more.

use jetwatch_telemetry::Stage;

use super::{Cause, Rule};

/// Waits below this are no reason to change a batch, in ms.
const SHORT_WAIT_MS: f64 = 5.0;

/// Batches are larger than the number of live sources.
pub(super) const BATCH_LATENCY: Rule = Rule {
    name: "batch_latency",
    cause: Cause::Varies(|metrics| {
        let run = &metrics.run;
        let frames = run.sources.iter().map(|source| source.detected as f64);
        // Sources of different rates, and those that are closed, seldom have frames at the same time.
        let most = frames.clone().fold(1.0, f64::max);
        let together = (frames.sum::<f64>() / most).round() as u64;
        let sources = run.sources.len();
        let is_live = sources > 0 && run.sources.iter().all(|source| source.live);
        let wait = run.latency.as_ref()?.part("wait")?;
        let is_too_large = is_live && run.batch_size > together.max(1) && !run.drops_frames();
        (is_too_large && wait.median_ms >= SHORT_WAIT_MS).then(|| {
            let rates = match together < sources as u64 {
                true => format!(
                    "; in the time of a frame of the fastest source, all of them have {together}"
                ),
                false => String::new(),
            };
            let sources = match sources {
                1 => "1 live source".to_owned(),
                count => format!("{count} live sources"),
            };
            (
                format!(
                    "batches of {} make frames of {sources} wait",
                    run.batch_size
                ),
                format!(
                    "{}; a frame waits {:.1} ms for its batch (median), 95 %: {:.1} ms{rates}",
                    run.describe_latency(),
                    wait.median_ms,
                    wait.p95_ms
                ),
            )
        })
    }),
    advice: "make batches no larger than the number of live sources of the same rate: detector.batch_size 1 for one camera; larger ones give no more frames, as the cameras set the pace",
    keys: "detector.batch_size detector.batch_timeout_ms",
    stages: &[Stage::Batch, Stage::Input],
    ..Rule::PLAIN
};
