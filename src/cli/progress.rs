//! One line on a terminal that says how the run goes.

use std::io::{IsTerminal, Write, stderr};
use std::thread;
use std::time::Duration;

use crate::publish::Stats;
use crate::source::StopToken;

const EVERY: Duration = Duration::from_secs(1);

/// Shows the line until the stop, on a thread that ends with it. Does nothing when standard error is no terminal.
pub(super) fn show(stop: StopToken, glance: impl Fn() -> Stats + Send + 'static) {
    if !stderr().is_terminal() {
        return;
    }
    let shown = thread::Builder::new()
        .name("progress".to_owned())
        .spawn(move || {
            while !stop.wait(EVERY) {
                // The cursor stays at the line's start, so that a log line overwrites it instead of following it.
                let _ = write!(stderr(), "\x1b[K{}\r", line(&glance()));
            }
            let _ = write!(stderr(), "\x1b[K");
        });
    if let Err(error) = shown {
        log::warn!("no progress line: {error}");
    }
}

fn line(stats: &Stats) -> String {
    let dropped: u64 = stats.sources.iter().map(|source| source.dropped).sum();
    let tracks: usize = stats.sources.iter().map(|source| source.tracks).sum();
    let seconds = stats.uptime.as_secs();
    format!(
        "{:02}:{:02}:{:02}  {} frames  {:.1} frames/s (network alone {:.1})  {tracks} tracks  {dropped} dropped  {:.2} ms CPU/frame  {} MiB",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_its_units() {
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
