//! `jetwatch model fetch`: a network of the catalogue into a model folder.

use std::io::{IsTerminal, Write, stderr};

use jetwatch_models::model_zoo::Progress;
use jetwatch_models::{FetchOptions, ModelFetch};
use jetwatch_telemetry as telemetry;

use super::{Exit, FetchArgs};

/// Fetches the file, then completes the folder, and prints what was verified.
pub(super) fn run(args: &FetchArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let fetch = ModelFetch::new(&FetchOptions {
        name: &args.name,
        folder: args.into.as_deref(),
        url: args.from.as_deref(),
        accept_unverified: args.accept_unverified,
        force: args.force,
    })?;
    let entry = fetch.entry();
    println!("{}: {}", entry.name, fetch.url());
    let fetched = fetch.download(&mut ProgressLine::default().into_callback())?;
    let what = if fetched.was_present {
        "is there already"
    } else {
        "fetched"
    };
    println!(
        "{what}: {}, SHA-256 {}",
        fetch.path().display(),
        fetched.sha256
    );
    match &entry.sha256 {
        Some(_) => println!("its hash is the one in the catalogue: {}", entry.verified),
        None => println!(
            "NOT VERIFIED: the catalogue knows no hash for it; compare the one above with what others have"
        ),
    }
    let spec = fetch.complete(fetched.sha256)?;
    println!(
        "license: {} ({}); terms of the repository, see there",
        spec.license.spdx, spec.license.source
    );
    println!("use it: detector.model: {}", fetch.folder().display());
    Ok(Exit::Success)
}

/// The progress line on a terminal; without one, only failures are printed.
#[derive(Default)]
struct ProgressLine {
    drawn_bytes: u64,
}

impl ProgressLine {
    fn into_callback(mut self) -> impl FnMut(Progress) {
        let is_terminal = stderr().is_terminal();
        move |progress| match progress {
            Progress::Received { bytes, of } if is_terminal => self.draw(bytes, of),
            Progress::Received { .. } => {}
            Progress::Waiting { reason, wait } => {
                self.drawn_bytes = 0;
                let clear = if is_terminal { "\x1b[K" } else { "" };
                eprintln!(
                    "{clear}{reason}; next attempt in {:.0} s",
                    wait.as_secs_f64().ceil()
                );
            }
        }
    }

    /// Draws when a hundredth, or half a megabyte, has come since the last time.
    fn draw(&mut self, bytes: u64, of: Option<u64>) {
        let step = of.map_or(500_000, |of| of / 100).max(1);
        if bytes < self.drawn_bytes.saturating_add(step) && Some(bytes) != of {
            return;
        }
        self.drawn_bytes = bytes;
        let _ = write!(stderr(), "\x1b[K{}\r", bar(bytes, of));
        if Some(bytes) == of {
            let _ = write!(stderr(), "\x1b[K");
        }
    }
}

fn bar(bytes: u64, of: Option<u64>) -> String {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    match of {
        Some(of) if of > 0 => {
            let full = usize::try_from(bytes.min(of) * 30 / of).unwrap_or(30);
            format!(
                "[{}{}] {:3} %  {:.1} of {:.1} MB",
                "#".repeat(full),
                " ".repeat(30 - full),
                bytes.min(of) * 100 / of,
                megabytes(bytes),
                megabytes(of)
            )
        }
        _ => format!("{:.1} MB", megabytes(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_bar_grows_with_received_bytes() {
        assert_eq!(
            bar(0, Some(2_000_000)),
            format!("[{}]   0 %  0.0 of 2.0 MB", " ".repeat(30))
        );
        assert_eq!(
            bar(2_000_000, Some(2_000_000)),
            format!("[{}] 100 %  2.0 of 2.0 MB", "#".repeat(30))
        );
        assert_eq!(bar(1_500_000, None), "1.5 MB");
    }
}
