// SPDX-License-Identifier: Apache-2.0
//! The thread `onvif-NAME`: follows the motion that the camera of a source reports. Nothing waits for it: a camera that does not answer
//! it may send video all the same.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jetwatch_config::{SourceConfig, SourceUri};
use jetwatch_onvif::{
    Interrupt, Login, MotionState, OnvifError, Subscription, device_service, host,
};
use jetwatch_telemetry::{FailureLog, StopToken};

use super::PipelineError;
use super::threads::{spawn, wait_until};

/// Wait after a failure; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Maximum wait after a failure.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Wait after a refusal that only a person can change. Cameras lock a user after a few attempts, for five minutes mostly.
const REFUSED_WAIT: Duration = Duration::from_secs(600);

/// Minimum time from one request to the next without a message: some cameras answer at once with nothing.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Subscribes once to the events of the camera of `source`; `None`: it follows none. For `jetwatch check`.
///
/// # Errors
/// Why its motion cannot be followed.
pub fn check_motion(source: &SourceConfig) -> Option<Result<String, String>> {
    source.onvif.as_ref()?;
    let check = || {
        let (device, login) = camera(source)?;
        let (ca_file, never) = (source.ca_file.as_deref(), Interrupt::default());
        let opened = Subscription::open(&device, login.as_ref(), ca_file, &never);
        let mut subscription = opened.map_err(|error| error.to_string())?;
        let pulled = subscription.pull();
        subscription.close();
        pulled.map_err(|error| error.to_string())?;
        Ok(device)
    };
    Some(check())
}

/// The device service of the camera of a source, and the login for it as it is now.
fn camera(source: &SourceConfig) -> Result<(String, Option<Login>), String> {
    let onvif = source.onvif.as_ref().ok_or("it has no onvif")?;
    let (location, user, password) = match &source.uri {
        SourceUri::Rtsp {
            location,
            user,
            password,
            ..
        }
        | SourceUri::Http {
            location,
            user,
            password,
            ..
        } => (location.as_str(), user.as_ref(), password.as_ref()),
        _ => ("", None, None),
    };
    let address = onvif.address.as_deref().unwrap_or_else(|| host(location));
    let device = device_service(address).map_err(|error| error.to_string())?;
    let own = onvif
        .credentials
        .as_ref()
        .map(|own| (&own.user, &own.password));
    let login = own.or(user.zip(password)).map(|(user, password)| {
        let password = password.read().map_err(|error| error.to_string())?;
        let user = user.clone();
        Ok::<_, String>(Login { user, password })
    });
    Ok((device, login.transpose()?))
}

/// Whether only a person can change this.
fn is_final(error: &OnvifError) -> bool {
    use OnvifError::{NeedsLogin, NoEvents, Refused};
    matches!(error, Refused { .. } | NeedsLogin { .. } | NoEvents { .. })
}

/// The thread of a source that follows motion.
pub(super) struct Following {
    thread: JoinHandle<()>,
    interrupt: Interrupt,
}

impl Following {
    /// Begins its end: it waits for no message, and ends its subscription. Its token was stopped before.
    pub(super) fn end(&self) {
        self.interrupt.request();
    }

    /// Waits until its subscription has ended. One whose camera does not answer is left behind.
    pub(super) fn wait(&self, by: Instant) {
        wait_until(by, || self.thread.is_finished());
    }
}

/// Starts the thread for `source`, if it follows motion. `changed` receives each begin and end; false: the tracking stage has ended.
pub(super) fn start(
    source: &SourceConfig,
    stop: StopToken,
    changed: impl FnMut(bool) -> bool + Send + 'static,
) -> Result<Option<Following>, PipelineError> {
    if source.onvif.is_none() {
        return Ok(None);
    }
    let interrupt = Interrupt::default();
    let follower = Follower {
        source: source.clone(),
        stop,
        interrupt: interrupt.clone(),
        state: MotionState::default(),
        was_on: false,
        is_logged: false,
        changed,
    };
    let thread = spawn(&format!("onvif-{}", source.name), move || follower.run())?;
    Ok(Some(Following { thread, interrupt }))
}

struct Follower<F> {
    source: SourceConfig,
    stop: StopToken,
    interrupt: Interrupt,
    state: MotionState,
    was_on: bool,
    /// That it is followed was logged, since the last failure that was.
    is_logged: bool,
    changed: F,
}

impl<F: FnMut(bool) -> bool> Follower<F> {
    fn run(mut self) {
        let mut log = FailureLog::default();
        let mut wait = FIRST_WAIT;
        while let Err((error, is_final)) = self.follow(&mut wait) {
            let now = Instant::now();
            if let Some(repeats) = log.admit(&error, now) {
                let source = self.source.name.as_str();
                self.is_logged = false;
                log::warn!(source, repeats; "motion of the camera is not known: {error}");
            }
            self.state = MotionState::default();
            let pause = if is_final { REFUSED_WAIT } else { wait };
            if !self.publish(now) || self.stop.wait(pause) {
                return;
            }
            wait = (wait * 2).min(MAX_WAIT);
        }
    }

    /// Follows one subscription until the stop. The error says whether only a person can change it.
    fn follow(&mut self, wait: &mut Duration) -> Result<(), (String, bool)> {
        let (device, login) = camera(&self.source).map_err(|error| (error, false))?;
        let ca_file = self.source.ca_file.as_deref();
        let opened = Subscription::open(&device, login.as_ref(), ca_file, &self.interrupt);
        let mut subscription = opened.map_err(|error| (error.to_string(), is_final(&error)))?;
        loop {
            let asked = Instant::now();
            let mut messages = match subscription.pull() {
                Ok(messages) => messages,
                Err(_) if self.stop.is_stopped() => {
                    subscription.close();
                    return Ok(());
                }
                Err(error) => {
                    // A camera that has forgotten it does not mind, and of others it frees the place.
                    if matches!(error, OnvifError::Fault { .. } | OnvifError::Answer { .. }) {
                        subscription.close();
                    }
                    return Err((error.to_string(), false));
                }
            };
            *wait = FIRST_WAIT;
            if !std::mem::replace(&mut self.is_logged, true) {
                log::info!(source = self.source.name.as_str(); "the motion of the camera is followed");
            }
            let onvif = self.source.onvif.as_ref();
            if let Some(input) = onvif.and_then(|onvif| onvif.input.as_ref()) {
                messages.retain(|motion| motion.is_of(input));
            }
            let rest = match messages.is_empty() {
                true => MIN_INTERVAL.saturating_sub(asked.elapsed()),
                false => Duration::ZERO,
            };
            let now = Instant::now();
            for message in messages {
                self.state.take(message, now);
                // Begin and end may come in one answer.
                self.publish(now);
            }
            if !self.publish(now) || self.stop.wait(rest) {
                subscription.close();
                return Ok(());
            }
        }
    }

    /// Publishes a change; false: the tracking stage has ended.
    fn publish(&mut self, now: Instant) -> bool {
        let is_on = self.state.is_on(now);
        is_on == std::mem::replace(&mut self.was_on, is_on) || (self.changed)(is_on)
    }
}

#[cfg(test)]
mod tests {
    use jetwatch_config::Config;

    #[test]
    fn onvif_has_the_host_and_the_login_of_its_source_where_it_has_no_others() {
        #[rustfmt::skip]
        let cases = [
            ("rtsp://cam:554/1?a=b", "", "http://cam/onvif/device_service", "u"),
            ("rtsp://[fd00::5]:554/1", "", "http://[fd00::5]/onvif/device_service", "u"),
            ("http://a/v.mjpg", ", address: 'b:8000'", "http://b:8000/onvif/device_service", "u"),
            ("rtsp://cam/1", ", user: o, password: q", "http://cam/onvif/device_service", "o"),
        ];
        for (uri, onvif, device, user) in cases {
            let yaml = format!(
                "sources: [{{name: a, uri: '{uri}', user: u, password: p, onvif: {{events: motion{onvif}}}}}]\ndetector: {{model: m}}\n"
            );
            let config =
                Config::from_str("f.yaml", &yaml).unwrap_or_else(|error| panic!("{error}"));
            let (found, login) = super::camera(&config.sources[0]).expect("it is complete");
            assert_eq!(
                (found.as_str(), login.expect("a login").user.as_str()),
                (device, user)
            );
        }
    }
}
