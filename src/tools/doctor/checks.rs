// SPDX-License-Identifier: Apache-2.0
//! The checks. Each runs on its own thread for a limited time.

use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};

use super::check_report::{CheckReport, CheckResult, CheckState};
use super::context::DoctorContext;
use super::{broker, cameras, engine, libraries, platform, power, profiling, service, video};

jetwatch_types::named_enum! {
    /// A check that can be run separately.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[allow(missing_docs)] // See `description`.
    pub enum Check {
        Config = "config",
        Platform = "platform",
        Libraries = "libraries",
        Elements = "elements",
        Scaling = "scaling",
        Cameras = "cameras",
        Engine = "engine",
        Power = "power",
        Profiling = "profiling",
        Service = "service",
        Broker = "broker",
    }

    /// The check's name on the command line.
    pub fn name, from_name;
}

impl FromStr for Check {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::from_name(name).ok_or_else(|| format!("found {name:?}, expected the name of a check"))
    }
}

impl Check {
    /// What it checks, for the help text.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Config => "The configuration file",
            Self::Platform => "Machine, release, memory, disk, clock",
            Self::Libraries => "NVIDIA libraries, ONNX Runtime, GStreamer",
            Self::Elements => "GStreamer elements and their properties",
            Self::Scaling => "Scaling and decoding, each unit compared with the CPU",
            Self::Cameras => "Cameras and their permissions",
            Self::Engine => "GPU, engines, and a run of the detector",
            Self::Power => "Settings of the machine, and throttling",
            Self::Profiling => "Permission to profile, and Nsight Systems",
            Self::Service => "The systemd unit and the journal",
            Self::Broker => "The broker",
        }
    }

    /// Maximum time of the check.
    fn timeout(self) -> Duration {
        Duration::from_secs(match self {
            Self::Engine => 180,
            Self::Scaling => 90,
            Self::Libraries | Self::Elements | Self::Cameras | Self::Power | Self::Broker => 60,
            Self::Config | Self::Platform | Self::Profiling | Self::Service => 30,
        })
    }

    /// Runs the check on another thread, and adds its results as they arrive.
    pub(super) fn run(
        self,
        context: &Arc<DoctorContext>,
        report: &mut CheckReport,
    ) -> anyhow::Result<()> {
        let (sender, results) = unbounded();
        let context = Arc::clone(context);
        let body = move || {
            // A send error means that the check has timed out and its results are no longer received.
            let send = move |result: &CheckResult| drop(sender.send(result.clone()));
            self.run_here(&context, &mut CheckReport::for_check(self.name(), send));
        };
        thread::Builder::new()
            .name(self.name().to_owned())
            .spawn(body)?;
        collect(self.name(), &results, self.timeout(), report);
        Ok(())
    }

    fn run_here(self, context: &DoctorContext, report: &mut CheckReport) {
        match self {
            Self::Config => context.check_config(report),
            Self::Platform => platform::run(context, report),
            Self::Libraries => libraries::run(context, report),
            Self::Elements => video::check_elements(context, report),
            Self::Scaling => video::check_scaling(context, report),
            Self::Cameras => cameras::run(context, report),
            Self::Engine => engine::run(context, report),
            Self::Power => power::run(context, report),
            Self::Profiling => profiling::run(context, report),
            Self::Service => service::run(context, report),
            Self::Broker => broker::run(context, report),
        }
    }
}

/// Adds the results of a check until it ends or times out.
fn collect(
    check: &'static str,
    results: &Receiver<CheckResult>,
    timeout: Duration,
    report: &mut CheckReport,
) {
    let deadline = Instant::now() + timeout;
    loop {
        match results.recv_deadline(deadline) {
            Ok(line) => report.merge(line),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = timeout.as_secs();
                report.merge(CheckResult {
                    part: Some(check),
                    state: CheckState::Unknown,
                    what: check.to_owned(),
                    text: format!(
                        "not finished within {seconds} s: the step after the results above hangs; run only this check with `--only {check}`"
                    ),
                });
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::Sender;

    use super::*;

    fn report_to(sender: &Sender<CheckResult>, check: &'static str) -> CheckReport {
        let sender = sender.clone();
        CheckReport::for_check(check, move |result| {
            sender.send(result.clone()).expect("received");
        })
    }

    #[test]
    fn name_of_each_check_parses() {
        for check in Check::ALL {
            assert_eq!(check.name().parse(), Ok(check));
        }
        assert!("camera".parse::<Check>().is_err());
    }

    #[test]
    fn hanging_check_is_unknown_and_others_continue() {
        let (sender, results) = unbounded();
        report_to(&sender, "cameras").ok("camera /dev/video0", "it is here");
        let mut lines = CheckReport::default();
        // The sender is still open: the check has not ended.
        collect("cameras", &results, Duration::from_millis(1), &mut lines);
        let found: Vec<(CheckState, &str)> = lines
            .all()
            .iter()
            .map(|line| (line.state, line.what.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (CheckState::Ok, "camera /dev/video0"),
                (CheckState::Unknown, "cameras")
            ]
        );
        assert!(lines.is_ok());
        drop(sender);
    }

    #[test]
    fn finished_check_reports_its_results() {
        let (sender, results) = unbounded();
        report_to(&sender, "broker").failed("broker", "it is away");
        drop(sender);
        let mut lines = CheckReport::default();
        collect("broker", &results, Duration::from_secs(60), &mut lines);
        assert_eq!((lines.all().len(), lines.is_ok()), (1, false));
    }
}
