//! The camera service of a Jetson that hangs: when to ask for its restart, and how.
//!
//! All CSI cameras go through `nvargus-daemon`, which belongs to root. When it hangs, no reconnect helps, and the daemon has
//! no right to restart it (systemd 245 with Ubuntu 20.04's polkit knows no right for one unit alone). So it asks: it writes a
//! file, which `jetwatch-argus.path` watches, and root's `jetwatch-argus.service` restarts the camera service.
//! Called by the supervisor, once a failed session of a CSI source.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::SourceError;

/// The file that asks; the unit has the same path.
const REQUEST: &str = "/run/jetwatch/restart-argus";

/// Sessions that must fail one after the other in the way of a service that hangs.
const FAILURES: u32 = 2;

/// From one request to the next: the camera service needs some seconds to come back, and a broken camera is not mended by it.
const FIRST_WAIT: Duration = Duration::from_secs(60);

/// Longest wait between requests; it doubles from the first while nothing helps.
const LONGEST_WAIT: Duration = Duration::from_secs(1800);

/// What the element says when the service behind it does not answer, in lower case.
const SIGNS: [&str; 5] = [
    "timeout",
    "timed out",
    "cancelled",
    "disconnected",
    "capturesession",
];

/// What follows from a failed session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Nothing: it may be the camera.
    Wait,
    /// The service hangs; it was asked for a restart not long ago.
    Asked,
    /// The service hangs.
    Ask,
}

/// One for all sources of a daemon, since they share the service.
#[derive(Debug)]
pub struct ArgusRestarts {
    /// `None`: nobody is asked, as in a check of the configuration.
    request: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    failures: u32,
    asked_at: Option<Instant>,
    wait: Duration,
}

impl Default for State {
    fn default() -> Self {
        Self {
            failures: 0,
            asked_at: None,
            wait: FIRST_WAIT,
        }
    }
}

impl State {
    /// A session ended at `now`, `hangs` being whether it looked like a service that hangs.
    fn after_failure(&mut self, hangs: bool, now: Instant) -> Verdict {
        if !hangs {
            return Verdict::Wait;
        }
        self.failures += 1;
        if self.failures < FAILURES {
            return Verdict::Wait;
        }
        if self
            .asked_at
            .is_some_and(|asked| now.saturating_duration_since(asked) < self.wait)
        {
            return Verdict::Asked;
        }
        if self.asked_at.is_some() {
            self.wait = (self.wait * 2).min(LONGEST_WAIT);
        }
        self.asked_at = Some(now);
        self.failures = 0;
        Verdict::Ask
    }

    fn after_frames(&mut self) {
        self.failures = 0;
    }

    fn after_steady_work(&mut self) {
        *self = Self::default();
    }
}

impl ArgusRestarts {
    /// For the daemon: asks through the file that the system's unit watches.
    #[must_use]
    pub fn by_unit() -> Self {
        Self::through(Some(PathBuf::from(REQUEST)))
    }

    /// For a check: a hanging service is told, and left alone.
    #[must_use]
    pub fn never() -> Self {
        Self::through(None)
    }

    fn through(request: Option<PathBuf>) -> Self {
        Self {
            request,
            state: Mutex::default(),
        }
    }

    /// The session delivered frames: the service answers. `steady`: it did for a good while, so that an earlier request helped.
    pub(super) fn works(&self, steady: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if steady {
            state.after_steady_work();
        } else {
            state.after_frames();
        }
    }

    /// A CSI session failed with `error`. Asks for a restart when it must be the service; what to add to the error's text.
    pub(super) fn failed(&self, error: &SourceError, now: Instant) -> Option<String> {
        let verdict = self
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .after_failure(looks_hung(error), now);
        let by_hand = "restart it: sudo systemctl restart nvargus-daemon";
        match (verdict, &self.request) {
            (Verdict::Wait, _) => None,
            (_, None) => Some(format!("nvargus-daemon does not answer; {by_hand}")),
            (Verdict::Asked, _) => Some(
                "nvargus-daemon does not answer, and its restart was asked for already".to_owned(),
            ),
            (Verdict::Ask, Some(request)) => Some(match fs::write(request, format!("{error}\n")) {
                Ok(()) => {
                    "nvargus-daemon does not answer; asked jetwatch-argus.service for its restart"
                        .to_owned()
                }
                Err(cause) => format!(
                    "nvargus-daemon does not answer, and {} cannot be written ({cause}); {by_hand}",
                    request.display()
                ),
            }),
        }
    }
}

/// Whether a session failed as it does when the service hangs: no frame came, or the element says that nobody answers.
fn looks_hung(error: &SourceError) -> bool {
    match error {
        SourceError::Stalled { .. } => true,
        SourceError::Element { message, .. } => {
            let message = message.to_ascii_lowercase();
            SIGNS.iter().any(|sign| message.contains(sign))
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

    fn says(message: &str) -> SourceError {
        SourceError::Element {
            element: "camera".to_owned(),
            message: message.to_owned(),
            hint: None,
        }
    }

    #[test]
    fn a_hanging_service_is_asked_for_after_two_failures_and_then_rarely() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut state = State::default();
        assert_eq!(state.after_failure(true, at(0)), Verdict::Wait);
        assert_eq!(state.after_failure(true, at(5)), Verdict::Ask);
        assert_eq!(state.after_failure(true, at(10)), Verdict::Wait);
        assert_eq!(state.after_failure(true, at(20)), Verdict::Asked);
        assert_eq!(state.after_failure(true, at(66)), Verdict::Ask);
        // The wait has doubled.
        assert_eq!(state.after_failure(true, at(120)), Verdict::Wait);
        assert_eq!(state.after_failure(true, at(180)), Verdict::Asked);
        assert_eq!(state.after_failure(true, at(187)), Verdict::Ask);
        state.after_steady_work();
        assert_eq!(state.after_failure(true, at(190)), Verdict::Wait);
        assert_eq!(state.after_failure(true, at(191)), Verdict::Ask);
    }

    #[test]
    fn frames_between_two_stalls_mean_that_the_service_answers() {
        let now = Instant::now();
        let mut state = State::default();
        for _ in 0..4 {
            assert_eq!(state.after_failure(true, now), Verdict::Wait);
            state.after_frames();
        }
    }

    #[test]
    fn a_camera_that_is_not_there_is_no_hanging_service() {
        assert!(looks_hung(&stall()));
        assert!(looks_hung(&says("CANCELLED (Argus Error Status)")));
        assert!(looks_hung(&says("Failed to create CaptureSession")));
        assert!(!looks_hung(&says("Invalid camera device specified")));
        assert!(!looks_hung(&SourceError::Empty));
        let mut state = State::default();
        let now = Instant::now();
        for _ in 0..4 {
            assert_eq!(state.after_failure(false, now), Verdict::Wait);
        }
    }

    #[test]
    fn the_request_is_a_file_with_the_reason_and_a_check_asks_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("restart-argus");
        let restarts = ArgusRestarts::through(Some(file.clone()));
        let now = Instant::now();
        assert_eq!(restarts.failed(&stall(), now), None);
        let told = restarts.failed(&stall(), now).expect("it hangs");
        assert!(told.contains("asked jetwatch-argus.service"), "{told}");
        let written = fs::read_to_string(&file).expect("the request");
        assert!(written.contains("no frame for 5000 ms"), "{written}");

        let missing = ArgusRestarts::through(Some(folder.path().join("no/restart-argus")));
        missing.failed(&stall(), now);
        let told = missing.failed(&stall(), now).expect("it hangs");
        assert!(
            told.contains("sudo systemctl restart nvargus-daemon"),
            "{told}"
        );

        let check = ArgusRestarts::never();
        check.failed(&stall(), now);
        let told = check.failed(&stall(), now).expect("it hangs");
        assert!(told.contains("restart it"), "{told}");
    }
}
