// SPDX-License-Identifier: Apache-2.0
//! Progress lines on a terminal: of a run, of the build of an engine, of a download. Without a terminal they are hidden.

use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use jetwatch_detect::engines::EngineState;
use jetwatch_publish::Stats;
use jetwatch_telemetry::{self as telemetry, StopToken};

const INTERVAL: Duration = Duration::from_secs(1);

/// A bar, then the text; the line is cut at the width of the terminal.
const BAR: &str = "[{bar:30.##-}] {wide_msg}";

/// The text alone.
const TEXT: &str = "{wide_msg}";

/// A bar of bytes with a known length.
const BYTES: &str = "[{bar:30.##-}] {percent:>3} %  {decimal_bytes} of {decimal_total_bytes}";

/// Bytes with an unknown length.
const UNKNOWN_BYTES: &str = "{decimal_bytes}";

/// All lines of the program: what is printed or logged meanwhile goes above them.
static LINES: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Calls `print` with the progress lines cleared, and draws them again.
pub(super) fn suspended<T>(print: impl FnOnce() -> T) -> T {
    match LINES.is_hidden() {
        true => print(),
        false => LINES.suspend(print),
    }
}

fn add(template: &str) -> ProgressBar {
    if !LINES.is_hidden() {
        telemetry::set_terminal_guard(|print| LINES.suspend(print));
    }
    LINES.add(ProgressBar::no_length().with_style(style(template)))
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a constant template that the tests parse")
}

/// Shows the line of a run until the stop, on a thread that ends with it. Does nothing when standard error is not a terminal.
pub(super) fn show(stop: StopToken, read_stats: impl Fn() -> Stats + Send + 'static) {
    if LINES.is_hidden() {
        return;
    }
    let spawned = thread::Builder::new()
        .name("progress".to_owned())
        .spawn(move || {
            let bar = add(TEXT);
            while !stop.wait(INTERVAL) {
                bar.set_message(line(&read_stats()));
            }
            bar.finish_and_clear();
        });
    if let Err(error) = spawned {
        log::warn!("cannot start the thread of the progress line: {error}");
    }
}

fn line(stats: &Stats) -> String {
    let dropped: u64 = stats.sources.iter().map(|source| source.dropped).sum();
    let tracks: usize = stats.sources.iter().map(|source| source.tracks).sum();
    let seconds = stats.uptime.as_secs();
    format!(
        "{:02}:{:02}:{:02}  {} frames  {:.1} frames/s (inference only {:.1})  {tracks} tracks  {dropped} dropped  {:.2} ms CPU/frame  {} MiB",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        stats.detected_frames,
        stats.fps,
        stats.inference_fps,
        stats.cpu_ms_per_frame,
        stats.rss_bytes >> 20,
    )
}

/// The progress of the build of an engine. Dropping it clears the line.
pub(super) struct BuildProgress(ProgressBar);

impl BuildProgress {
    pub(super) fn start() -> Self {
        Self(add(TEXT))
    }

    /// Shows `state`; a state without progress leaves the line as it is.
    pub(super) fn show(&self, state: &EngineState) {
        let clock = |elapsed: &Duration| {
            let seconds = elapsed.as_secs();
            format!("{:02}:{:02}", seconds / 60, seconds % 60)
        };
        match state {
            EngineState::Building {
                elapsed,
                done,
                steps,
                phase,
            } if *steps > 0 => {
                self.0.set_style(style(BAR));
                self.0.set_length(u64::from(*steps));
                self.0.set_position(u64::from(*done));
                let phase: String = phase.chars().filter(|c| !c.is_control()).collect();
                self.0.set_message(format!("{} {phase}", clock(elapsed)));
            }
            EngineState::Building { elapsed, .. } => self.0.set_message(format!(
                "building for {}; this version of TensorRT reports no progress",
                clock(elapsed)
            )),
            EngineState::Waiting { elapsed } => self.0.set_message(format!(
                "waiting for {} for another jetwatch process that builds in the same folder",
                clock(elapsed)
            )),
            EngineState::Missing { .. } | EngineState::Ready { .. } => {}
        }
    }
}

impl Drop for BuildProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The progress of a download. Dropping it clears the line.
pub(super) struct DownloadProgress(ProgressBar);

impl DownloadProgress {
    pub(super) fn start() -> Self {
        Self(add(UNKNOWN_BYTES))
    }

    /// `bytes` are there, of `length` in all where that is known.
    pub(super) fn show(&self, bytes: u64, length: Option<u64>) {
        if let Some(length) = length
            && self.0.length() != Some(length)
        {
            self.0.set_style(style(BYTES));
            self.0.set_length(length);
        }
        self.0.set_position(bytes);
    }
}

impl Drop for DownloadProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        for template in [BAR, TEXT, BYTES, UNKNOWN_BYTES] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn build_progress_shows_steps_or_elapsed_time() {
        let building = |done, steps| EngineState::Building {
            elapsed: Duration::from_secs(75),
            done,
            steps,
            phase: "Timing\u{1b}".to_owned(),
        };
        let progress = BuildProgress(ProgressBar::hidden());
        progress.show(&building(0, 0));
        let text = progress.0.message();
        assert!(text.starts_with("building for 01:15"), "{text}");
        progress.show(&building(2, 4));
        assert_eq!((progress.0.position(), progress.0.length()), (2, Some(4)));
        assert_eq!(progress.0.message(), "01:15 Timing");
    }

    #[test]
    fn download_progress_takes_the_length_when_it_is_known() {
        let progress = DownloadProgress(ProgressBar::hidden());
        progress.show(1_500_000, None);
        let bar = &progress.0;
        assert_eq!((bar.position(), bar.length()), (1_500_000, None));
        progress.show(2_000_000, Some(2_000_000));
        assert_eq!((bar.position(), bar.length()), (2_000_000, Some(2_000_000)));
    }

    #[test]
    fn progress_line_has_units() {
        let stats = Stats {
            uptime: Duration::from_secs(3_723),
            detected_frames: 42,
            fps: 29.97,
            cpu_ms_per_frame: 9.5,
            ..Stats::default()
        };
        let text = line(&stats);
        assert!(
            text.starts_with("01:02:03  42 frames  30.0 frames/s"),
            "{text}"
        );
        assert!(text.contains("9.50 ms CPU/frame"), "{text}");
    }
}
