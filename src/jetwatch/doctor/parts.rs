//! The parts of an examination, and how each is run: on a thread of its own, for a limited time.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};

use super::subject::Subject;
use super::{broker, cameras, engine, libraries, platform, power, profiling, service, video};
use crate::lines::{Line, Lines};

/// What can be examined alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// The configuration file.
    Config,
    /// Machine, release, memory, disk, clock.
    Platform,
    /// NVIDIA's libraries, ONNX Runtime, GStreamer.
    Libraries,
    /// GStreamer's elements and their properties.
    Elements,
    /// Scaling and decoding, each unit against the processor.
    Scaling,
    /// Cameras and who may use them.
    Cameras,
    /// GPU, engines, and the detector at work.
    Engine,
    /// Settings of the machine, and what slows it down.
    Power,
    /// Who may profile, and with what.
    Profiling,
    /// systemd's unit and the journal.
    Service,
    /// The broker.
    Broker,
}

impl Part {
    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Platform => "platform",
            Self::Libraries => "libraries",
            Self::Elements => "elements",
            Self::Scaling => "scaling",
            Self::Cameras => "cameras",
            Self::Engine => "engine",
            Self::Power => "power",
            Self::Profiling => "profiling",
            Self::Service => "service",
            Self::Broker => "broker",
        }
    }

    /// Longest that it may take.
    fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Engine => 180,
            Self::Scaling => 90,
            Self::Libraries | Self::Elements | Self::Cameras | Self::Power | Self::Broker => 60,
            Self::Config | Self::Platform | Self::Profiling | Self::Service => 30,
        })
    }

    /// Examines it, on another thread, and takes the results as they come.
    pub(super) fn examine(self, subject: &Arc<Subject>, lines: &mut Lines) -> anyhow::Result<()> {
        let (sender, results) = unbounded();
        let subject = Arc::clone(subject);
        let body = move || self.run(&subject, &mut Lines::of_part(self.name(), sender));
        thread::Builder::new()
            .name(self.name().to_owned())
            .spawn(body)?;
        collect(self.name(), &results, self.limit(), lines);
        Ok(())
    }

    fn run(self, subject: &Subject, lines: &mut Lines) {
        match self {
            Self::Config => subject.examine_config(lines),
            Self::Platform => platform::examine(subject, lines),
            Self::Libraries => libraries::examine(subject, lines),
            Self::Elements => video::examine_elements(subject, lines),
            Self::Scaling => video::examine_scaling(subject, lines),
            Self::Cameras => cameras::examine(subject, lines),
            Self::Engine => engine::examine(subject, lines),
            Self::Power => power::examine(subject, lines),
            Self::Profiling => profiling::examine(subject, lines),
            Self::Service => service::examine(subject, lines),
            Self::Broker => broker::examine(subject, lines),
        }
    }
}

/// Takes the results of a part until it has ended, or its time is over.
fn collect(part: &'static str, results: &Receiver<Line>, limit: Duration, lines: &mut Lines) {
    let deadline = Instant::now() + limit;
    loop {
        match results.recv_deadline(deadline) {
            Ok(line) => lines.take(line),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = limit.as_secs();
                lines.take(Line {
                    part: Some(part),
                    state: "unknown",
                    what: part.to_owned(),
                    text: format!(
                        "not examined to its end within {seconds} s: what comes after the lines before hangs; ask for it alone with `--only {part}`"
                    ),
                });
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_hangs_is_unknown_and_the_examination_goes_on() {
        let (sender, results) = unbounded();
        Lines::of_part("cameras", sender.clone()).ok("camera /dev/video0", "it is here");
        let mut lines = Lines::default();
        // The other end stays open: nobody says that this was all.
        collect("cameras", &results, Duration::from_millis(1), &mut lines);
        let found: Vec<(&str, &str)> = lines
            .all()
            .iter()
            .map(|line| (line.state, line.what.as_str()))
            .collect();
        assert_eq!(
            found,
            [("ok", "camera /dev/video0"), ("unknown", "cameras")]
        );
        assert!(lines.is_right());
        drop(sender);
    }

    #[test]
    fn a_part_that_ends_says_what_it_found() {
        let (sender, results) = unbounded();
        Lines::of_part("broker", sender).wrong("broker", "it is away");
        let mut lines = Lines::default();
        collect("broker", &results, Duration::from_secs(60), &mut lines);
        assert_eq!((lines.all().len(), lines.is_right()), (1, false));
    }
}
