// SPDX-License-Identifier: Apache-2.0
//! Recovery of a hanging Jetson camera service: when to request its restart, and how.
//!
//! All CSI cameras go through `nvargus-daemon`, which runs as root. When it hangs, no reconnect helps, and jetwatch has no
//! permission to restart it (polkit on Ubuntu 20.04 cannot grant it for a single unit). So it requests a restart: it writes a
//! file that `jetwatch-argus.path` watches, and root's `jetwatch-argus.service` restarts the camera service.
//! The supervisor calls this after each failed session of a CSI source.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::supervisor::STEADY_AFTER;
use super::{SourceCounters, SourceError};
use jetwatch_types::Backoff;

/// File that requests a restart; the unit has the same path.
const REQUEST: &str = "/run/jetwatch/restart-argus";

/// Consecutive failed sessions with signs of a hanging service before a restart is requested.
const FAILURE_THRESHOLD: u32 = 2;

/// Minimum time between two requests, also after one that helped: the camera service needs some seconds to start, a restart
/// does not repair a broken camera, and the unit has a start limit.
const INITIAL_WAIT: Duration = Duration::from_secs(90);

/// Maximum time between requests; the wait doubles while restarts do not help.
const MAX_WAIT: Duration = Duration::from_secs(1800);

/// Requests in a row that may fail to help: a restart interrupts the cameras of all programs.
const MAX_REQUESTS: u32 = 3;

/// Texts of the camera element when the service does not respond, in lower case.
const HANG_SIGNS: [&str; 4] = ["timeout", "timed out", "cancelled", "disconnected"];

/// Texts that a sensor which is missing, or used by another program, causes as well (dusty-nv/jetson-utils#83,
/// JetsonHacksNano/CSI-Camera#31). They are signs of a hang only where a camera has delivered frames before.
const DOUBTFUL_SIGNS: [&str; 2] = ["ended the stream", "capturesession"];

/// Reaction to a failed session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// None: the camera may be the cause.
    Wait,
    /// None: the service works for another camera.
    OthersWork,
    /// None: restarts have not helped.
    GiveUp,
    /// The service hangs; its restart was requested a short time ago.
    AlreadyRequested,
    /// The service hangs; request a restart.
    Request,
}

/// Restart policy of the camera service. One for all sources of a daemon, since they share the service: while one of them
/// delivers frames, the service works.
#[derive(Debug)]
pub struct ArgusSupervisor {
    /// The request file; `None`: never request a restart, as in a check of the configuration.
    request: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Counters of the CSI sources.
    sources: Vec<Arc<SourceCounters>>,
    /// Frames of all CSI sources at the last failure.
    frames: u64,
    /// Failures since the last frame.
    failures: u32,
    requested_at: Option<Instant>,
    /// Requests since one has helped.
    in_vain: u32,
    /// Whether a session was steady since the last request.
    helped: bool,
    backoff: Backoff,
}

impl Default for State {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            frames: 0,
            failures: 0,
            requested_at: None,
            in_vain: 0,
            helped: false,
            backoff: Backoff::new(INITIAL_WAIT, MAX_WAIT),
        }
    }
}

impl State {
    /// Reaction to a session that failed at `now`. `hangs`: with signs of a hanging service. `was_online`: it had frames. `frames`: of all
    /// CSI sources so far.
    fn after_failure(
        &mut self,
        hangs: bool,
        was_online: bool,
        frames: u64,
        now: Instant,
    ) -> Action {
        let has_frames = std::mem::replace(&mut self.frames, frames) < frames;
        if has_frames {
            self.failures = 0;
        }
        if !hangs {
            return Action::Wait;
        }
        if has_frames && !was_online {
            return Action::OthersWork;
        }
        self.failures += 1;
        if self.failures < FAILURE_THRESHOLD {
            return Action::Wait;
        }
        if self
            .requested_at
            .is_some_and(|requested| now.saturating_duration_since(requested) < self.backoff.wait())
        {
            return Action::AlreadyRequested;
        }
        if self.requested_at.is_some() && !self.helped {
            self.backoff.advance();
            self.in_vain += 1;
        }
        if self.in_vain >= MAX_REQUESTS {
            return Action::GiveUp;
        }
        self.requested_at = Some(now);
        self.helped = false;
        self.failures = 0;
        Action::Request
    }

    /// Records a steady session: an earlier request helped.
    fn after_steady_work(&mut self) {
        self.helped = true;
        self.in_vain = 0;
        self.backoff.reset();
    }
}

impl ArgusSupervisor {
    /// For the daemon: requests restarts through the file that the systemd unit watches.
    #[must_use]
    pub fn with_restart_unit() -> Self {
        Self::with_request_file(Some(PathBuf::from(REQUEST)))
    }

    /// For a check: a hanging service is only reported.
    #[must_use]
    pub fn disabled() -> Self {
        Self::with_request_file(None)
    }

    fn with_request_file(request: Option<PathBuf>) -> Self {
        Self {
            request,
            state: Mutex::default(),
        }
    }

    /// Adds a source; its frames prove that the service works.
    pub(super) fn add_source(&self, counters: &Arc<SourceCounters>) {
        self.state().sources.push(Arc::clone(counters));
    }

    /// Handles a CSI session that failed with `error` after it had delivered frames for `online`. Requests a restart when the service
    /// must be the cause. Returns a text to append to the error.
    pub(super) fn on_failure(
        &self,
        error: &SourceError,
        online: Option<Duration>,
        now: Instant,
    ) -> Option<String> {
        let action = {
            let mut state = self.state();
            if online.is_some_and(|online| online >= STEADY_AFTER) {
                state.after_steady_work();
            }
            let frames = state.sources.iter().map(|source| source.frames()).sum();
            let hangs = is_hung(error) || frames > 0 && is_doubtful(error);
            state.after_failure(hangs, online.is_some(), frames, now)
        };
        let by_hand = "restart it: sudo systemctl restart nvargus-daemon";
        match (action, &self.request) {
            (Action::Wait, _) => None,
            (Action::OthersWork, _) => Some(format!(
                "another CSI camera works, so check this one's cable; if nvargus-daemon is the cause, {by_hand}, which interrupts all cameras"
            )),
            (Action::GiveUp, Some(_)) => Some(format!(
                "nvargus-daemon does not respond, and {MAX_REQUESTS} restarts did not help; check the cable and the sensor, or reboot"
            )),
            (_, None) => Some(format!("nvargus-daemon does not respond; {by_hand}")),
            (Action::AlreadyRequested, _) => Some(
                "nvargus-daemon does not respond, and its restart was already requested".to_owned(),
            ),
            (Action::Request, Some(request)) => Some(match fs::write(request, format!("{error}\n")) {
                Ok(()) => {
                    "nvargus-daemon does not respond; requested its restart from jetwatch-argus.service"
                        .to_owned()
                }
                Err(cause) => format!(
                    "nvargus-daemon does not respond, and {} cannot be written ({cause}); {by_hand}",
                    request.display()
                ),
            }),
        }
    }
}

impl ArgusSupervisor {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Whether a session failed with signs of a hanging service: no frame, or a typical error text.
fn is_hung(error: &SourceError) -> bool {
    matches!(error, SourceError::Stalled { .. }) || says_one_of(error, &HANG_SIGNS)
}

/// Whether a session failed as with a hanging service, or with a sensor that cannot be used.
fn is_doubtful(error: &SourceError) -> bool {
    matches!(error, SourceError::Empty) || says_one_of(error, &DOUBTFUL_SIGNS)
}

fn says_one_of(error: &SourceError, signs: &[&str]) -> bool {
    let SourceError::Element { message, .. } = error else {
        return false;
    };
    let message = message.to_ascii_lowercase();
    signs.iter().any(|sign| message.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stall() -> SourceError {
        SourceError::Stalled {
            waited: Duration::from_secs(5),
        }
    }

    fn element_error(message: &str) -> SourceError {
        SourceError::Element {
            element: "camera".to_owned(),
            message: message.to_owned(),
            hint: None,
        }
    }

    /// A camera fails until the service restarts (D3Engineering/d3-jetson-bsp#7, NVIDIA-AI-IOT/jetbot#1), or after it, too
    /// (goodrobots/maverick#994, goodrobots/visiond#6, Kurokesu/ar0234-jetson-driver#8).
    #[test]
    fn argus_restart_is_requested_after_two_failures_and_rate_limited() {
        let start = Instant::now();
        let mut state = State::default();
        let mut fails_at =
            |seconds| state.after_failure(true, false, 0, start + Duration::from_secs(seconds));
        assert_eq!(fails_at(0), Action::Wait);
        assert_eq!(fails_at(5), Action::Request);
        assert_eq!(fails_at(10), Action::Wait);
        assert_eq!(fails_at(20), Action::AlreadyRequested);
        assert_eq!(fails_at(96), Action::Request);
        // The wait has doubled.
        assert_eq!(fails_at(200), Action::Wait);
        assert_eq!(fails_at(270), Action::AlreadyRequested);
        assert_eq!(fails_at(277), Action::Request);
        // Three restarts did not help.
        assert_eq!(fails_at(600), Action::Wait);
        assert_eq!(fails_at(640), Action::GiveUp);
        assert_eq!(fails_at(6000), Action::GiveUp);
        // A service that works for some seconds after each restart is not restarted more often than after the first wait.
        let mut requests = Vec::new();
        for seconds in 6001..6601 {
            state.after_steady_work();
            let now = start + Duration::from_secs(seconds);
            let action = state.after_failure(true, true, 0, now);
            if action == Action::Request {
                requests.push(seconds);
            }
        }
        assert_eq!(requests, [6001, 6091, 6181, 6271, 6361, 6451, 6541]);
    }

    #[test]
    fn frames_of_any_camera_reset_argus_failures() {
        let restarts = ArgusSupervisor::disabled();
        let other = Arc::new(SourceCounters::default());
        restarts.add_source(&Arc::default());
        restarts.add_source(&other);
        let fail = || restarts.on_failure(&stall(), None, Instant::now());
        for _ in 0..4 {
            other.next_seq();
            // OE4T/meta-tegra#943: one of two sensors.
            let text = fail().expect("a remedy");
            assert!(text.starts_with("another CSI camera works"), "{text}");
        }
        assert_eq!(fail(), None);
        let text = fail().expect("the service hangs");
        assert!(
            text.starts_with("nvargus-daemon does not respond"),
            "{text}"
        );
    }

    #[test]
    fn only_specific_failures_count_as_argus_hang() {
        assert!(is_hung(&stall()));
        assert!(is_hung(&element_error("CANCELLED (Argus Error Status)")));
        assert!(is_hung(&element_error(
            "Connecting to nvargus-daemon timed out"
        )));
        for doubtful in [
            element_error("Failed to create CaptureSession"),
            element_error("the camera driver ended the stream without an image"),
            SourceError::Empty,
        ] {
            assert!(!is_hung(&doubtful), "{doubtful}");
            // A sensor that is missing, or that another program uses: nothing to restart.
            let restarts = ArgusSupervisor::disabled();
            let camera = Arc::new(SourceCounters::default());
            restarts.add_source(&camera);
            let fail = |online| restarts.on_failure(&doubtful, online, Instant::now());
            for _ in 0..4 {
                assert_eq!(fail(None), None, "{doubtful}");
            }
            camera.next_seq();
            let found = [fail(Some(Duration::ZERO)), fail(None)];
            assert!(found[1].is_some(), "{doubtful}: it worked before");
        }
        assert!(!is_hung(&element_error("Internal data stream error")));
        assert!(!is_hung(&SourceError::Init(String::new())));
        let mut state = State::default();
        for _ in 0..4 {
            let action = state.after_failure(false, false, 0, Instant::now());
            assert_eq!(action, Action::Wait);
        }
    }

    #[test]
    fn the_request_is_a_file_with_the_reason_and_a_check_writes_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("restart-argus");
        let restarts = ArgusSupervisor::with_request_file(Some(file.clone()));
        let now = Instant::now();
        assert_eq!(restarts.on_failure(&stall(), None, now), None);
        let text = restarts
            .on_failure(&stall(), None, now)
            .expect("the service hangs");
        assert!(
            text.contains("restart from jetwatch-argus.service"),
            "{text}"
        );
        let written = fs::read_to_string(&file).expect("the request");
        assert!(written.contains("no frame for 5000 ms"), "{written}");

        let missing =
            ArgusSupervisor::with_request_file(Some(folder.path().join("no/restart-argus")));
        missing.on_failure(&stall(), None, now);
        let text = missing
            .on_failure(&stall(), None, now)
            .expect("the service hangs");
        assert!(
            text.contains("sudo systemctl restart nvargus-daemon"),
            "{text}"
        );

        let check = ArgusSupervisor::disabled();
        check.on_failure(&stall(), None, now);
        let text = check
            .on_failure(&stall(), None, now)
            .expect("the service hangs");
        assert!(text.contains("restart it"), "{text}");
    }
}
