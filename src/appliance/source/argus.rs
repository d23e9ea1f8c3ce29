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

/// Texts of the camera element when the service does not respond, in lower case. Often there is none and the stream ends.
const HANG_SIGNS: [&str; 6] = [
    "ended the stream",
    "timeout",
    "timed out",
    "cancelled",
    "disconnected",
    "capturesession",
];

/// Reaction to a failed session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// None: the camera may be the cause.
    Wait,
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
            helped: false,
            backoff: Backoff::new(INITIAL_WAIT, MAX_WAIT),
        }
    }
}

impl State {
    /// Reaction to a session that failed at `now`. `hangs`: with signs of a hanging service. `frames`: of all CSI sources so far.
    fn after_failure(&mut self, hangs: bool, frames: u64, now: Instant) -> Action {
        if std::mem::replace(&mut self.frames, frames) < frames {
            self.failures = 0;
        }
        if !hangs {
            return Action::Wait;
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
        }
        self.requested_at = Some(now);
        self.helped = false;
        self.failures = 0;
        Action::Request
    }

    /// Records a steady session: an earlier request helped.
    fn after_steady_work(&mut self) {
        self.helped = true;
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

    /// Handles a CSI session that failed with `error`; `steady`: after it had delivered frames for a good while. Requests a
    /// restart when the service must be the cause. Returns a text to append to the error.
    pub(super) fn on_failure(
        &self,
        error: &SourceError,
        steady: bool,
        now: Instant,
    ) -> Option<String> {
        let action = {
            let mut state = self.state();
            if steady {
                state.after_steady_work();
            }
            let frames = state.sources.iter().map(|source| source.frames()).sum();
            state.after_failure(is_hung(error), frames, now)
        };
        let by_hand = "restart it: sudo systemctl restart nvargus-daemon";
        match (action, &self.request) {
            (Action::Wait, _) => None,
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
    match error {
        SourceError::Stalled { .. } | SourceError::Empty => true,
        SourceError::Element { message, .. } => {
            let message = message.to_ascii_lowercase();
            HANG_SIGNS.iter().any(|sign| message.contains(sign))
        }
        _ => false,
    }
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

    #[test]
    fn argus_restart_is_requested_after_two_failures_and_rate_limited() {
        let start = Instant::now();
        let mut state = State::default();
        let mut fails_at =
            |seconds| state.after_failure(true, 0, start + Duration::from_secs(seconds));
        assert_eq!(fails_at(0), Action::Wait);
        assert_eq!(fails_at(5), Action::Request);
        assert_eq!(fails_at(10), Action::Wait);
        assert_eq!(fails_at(20), Action::AlreadyRequested);
        assert_eq!(fails_at(96), Action::Request);
        // The wait has doubled.
        assert_eq!(fails_at(200), Action::Wait);
        assert_eq!(fails_at(270), Action::AlreadyRequested);
        assert_eq!(fails_at(277), Action::Request);
        // A service that works for some seconds after each restart is not restarted more often than after the first wait.
        let mut requests = Vec::new();
        for seconds in 280..880 {
            state.after_steady_work();
            let action = state.after_failure(true, 0, start + Duration::from_secs(seconds));
            if action == Action::Request {
                requests.push(seconds);
            }
        }
        assert_eq!(requests, [367, 457, 547, 637, 727, 817]);
    }

    #[test]
    fn frames_of_any_camera_reset_argus_failures() {
        let restarts = ArgusSupervisor::disabled();
        let other = Arc::new(SourceCounters::default());
        restarts.add_source(&Arc::default());
        restarts.add_source(&other);
        for _ in 0..4 {
            other.next_seq();
            assert_eq!(restarts.on_failure(&stall(), false, Instant::now()), None);
        }
        assert!(
            restarts
                .on_failure(&stall(), false, Instant::now())
                .is_some()
        );
    }

    #[test]
    fn only_specific_failures_count_as_argus_hang() {
        assert!(is_hung(&stall()));
        assert!(is_hung(&element_error("CANCELLED (Argus Error Status)")));
        assert!(is_hung(&element_error("Failed to create CaptureSession")));
        assert!(is_hung(&element_error("the source ended the stream")));
        assert!(is_hung(&SourceError::Empty));
        assert!(!is_hung(&element_error("Internal data stream error")));
        assert!(!is_hung(&SourceError::Init(String::new())));
        let mut state = State::default();
        for _ in 0..4 {
            let action = state.after_failure(false, 0, Instant::now());
            assert_eq!(action, Action::Wait);
        }
    }

    #[test]
    fn the_request_is_a_file_with_the_reason_and_a_check_writes_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("restart-argus");
        let restarts = ArgusSupervisor::with_request_file(Some(file.clone()));
        let now = Instant::now();
        assert_eq!(restarts.on_failure(&stall(), false, now), None);
        let text = restarts
            .on_failure(&stall(), false, now)
            .expect("the service hangs");
        assert!(
            text.contains("restart from jetwatch-argus.service"),
            "{text}"
        );
        let written = fs::read_to_string(&file).expect("the request");
        assert!(written.contains("no frame for 5000 ms"), "{written}");

        let missing =
            ArgusSupervisor::with_request_file(Some(folder.path().join("no/restart-argus")));
        missing.on_failure(&stall(), false, now);
        let text = missing
            .on_failure(&stall(), false, now)
            .expect("the service hangs");
        assert!(
            text.contains("sudo systemctl restart nvargus-daemon"),
            "{text}"
        );

        let check = ArgusSupervisor::disabled();
        check.on_failure(&stall(), false, now);
        let text = check
            .on_failure(&stall(), false, now)
            .expect("the service hangs");
        assert!(text.contains("restart it"), "{text}");
    }
}
