//! Progress line on a terminal, of a run or of the build of an engine.

use std::io::{IsTerminal, Write, stderr};
use std::thread;
use std::time::Duration;

use jetwatch_detect::engines::EngineState;
use jetwatch_publish::Stats;
use jetwatch_telemetry::StopToken;

const INTERVAL: Duration = Duration::from_secs(1);

/// Shows the line until the stop, on a thread that ends with it. Does nothing when standard error is not a terminal.
pub(super) fn show(stop: StopToken, read_stats: impl Fn() -> Stats + Send + 'static) {
    if !stderr().is_terminal() {
        return;
    }
    let spawned = thread::Builder::new()
        .name("progress".to_owned())
        .spawn(move || {
            while !stop.wait(INTERVAL) {
                // The cursor stays at the line's start, so that a log line overwrites it instead of following it.
                let _ = write!(stderr(), "\x1b[K{}\r", line(&read_stats()));
            }
            let _ = write!(stderr(), "\x1b[K");
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

/// Shows the progress of a build when standard error is a terminal.
pub(super) fn show_build(state: &EngineState) {
    if stderr().is_terminal()
        && let Some(line) = build_line(state)
    {
        let _ = write!(stderr(), "\x1b[K{line}\r");
    }
}

/// Clears the line of [`show_build`].
pub(super) fn clear_build() {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\x1b[K");
    }
}

fn build_line(state: &EngineState) -> Option<String> {
    const WIDTH: u32 = 30;
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
            let full = (WIDTH * (*done).min(*steps) / steps) as usize;
            // The line must fit a terminal of 80 columns: a line that wraps cannot be overwritten.
            let phase: String = phase.chars().filter(|c| !c.is_control()).take(36).collect();
            Some(format!(
                "[{}{}] {} {phase}",
                "#".repeat(full),
                " ".repeat(WIDTH as usize - full),
                clock(elapsed)
            ))
        }
        EngineState::Building { elapsed, .. } => Some(format!(
            "building for {}; this version of TensorRT reports no progress",
            clock(elapsed)
        )),
        EngineState::Waiting { elapsed } => Some(format!(
            "waiting for {} for another jetwatch process that builds in the same folder",
            clock(elapsed)
        )),
        EngineState::Missing { .. } | EngineState::Ready { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_progress_shows_steps_or_elapsed_time() {
        let building = |done, steps| EngineState::Building {
            elapsed: Duration::from_secs(75),
            done,
            steps,
            phase: "Timing".to_owned(),
        };
        let bar = format!("[{}{}] 01:15 Timing", "#".repeat(15), " ".repeat(15));
        assert_eq!(build_line(&building(2, 4)), Some(bar));
        let line = build_line(&building(0, 0)).expect("time passes");
        assert!(line.starts_with("building for 01:15"), "{line}");
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
