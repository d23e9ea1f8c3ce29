// SPDX-License-Identifier: Apache-2.0
//! Cameras for the page, before they are in the configuration: found on the network, and opened for some seconds to see what they send.
//! One search or test at a time, on a thread of its own; what it finds is kept until the next one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;
use serde_json::{Value, json};

use jetwatch_config::{Config, Secret, SourceConfig, SourceUri};
use jetwatch_pixels::encode_bgrx_jpeg;
use jetwatch_source::{
    self as source, Flow, FrameHandler, ProcessingPlan, SourceContext, StepKind,
};
use jetwatch_telemetry::{self as telemetry, StopToken, thread_names};
use jetwatch_types::{
    AccessUnit, AudioFormat, Frame, Placement, Size, SourceId, SourceState, StreamFormat,
};
use jetwatch_web::{CameraFinder, CameraQuery, NewCamera};

use crate::threads::wait_until;

/// Frames per second that are suggested where a camera gives more: enough for the tracker.
pub const SUGGESTED_MAX_FPS: f64 = 15.0;

/// Longest look at a stream after its first image.
const LOOK: Duration = Duration::from_secs(8);

/// Shortest look, for the rate and for sound, which comes beside the video.
const MIN_LOOK: Duration = Duration::from_secs(3);

/// Maximum wait for the thread at the end of the daemon.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum wait for the end of a stream that was looked at.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// The picture fits into this size.
const PICTURE: Size = Size {
    width: 640,
    height: 640,
};
const PICTURE_QUALITY: u8 = 85;

/// A JPEG file.
type Picture = Arc<[u8]>;

/// Searches and tests.
pub(super) struct Cameras {
    finder: Option<CameraFinder>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// What runs, and what ends it.
    running: Option<(&'static str, StopToken, Receiver<()>)>,
    /// What the last search found, as `jetwatch discover --json` prints it.
    found: Option<Value>,
    /// What the last test has shown.
    tested: Option<Value>,
    picture: Option<Picture>,
}

impl Cameras {
    pub(super) fn new(finder: Option<CameraFinder>) -> Self {
        Self {
            finder,
            state: Arc::default(),
        }
    }

    /// Begins a search, or asks the camera at an address. Does not wait for its end.
    ///
    /// # Errors
    /// A search or a test runs already, or this run offers none.
    pub(super) fn find(&self, query: CameraQuery) -> Result<(), String> {
        let finder = self.finder.clone();
        let finder = finder.ok_or("this run offers no search; run `jetwatch discover`")?;
        self.begin("find", move |_, state| {
            let found = finder(&query);
            state.lock().found = Some(found);
        })
    }

    /// Begins a test of the stream of `camera`. Does not wait for its end.
    ///
    /// # Errors
    /// A search or a test runs already, or the camera is none of those that the page takes.
    pub(super) fn test(&self, camera: &NewCamera) -> Result<(), String> {
        let source = source_of(camera)?;
        self.begin("test", move |stop, state| {
            let (tested, picture) = match look_at(&source, stop) {
                Ok((tested, picture)) => (tested, picture),
                Err(reason) => (json!({ "error": reason }), None),
            };
            let mut state = state.lock();
            state.tested = Some(tested);
            state.picture = picture;
        })
    }

    fn begin(
        &self,
        what: &'static str,
        work: impl FnOnce(&StopToken, &Mutex<State>) + Send + 'static,
    ) -> Result<(), String> {
        let mut state = self.state.lock();
        if state.running.is_some() {
            return Err("a search or a test runs already; wait for its end".to_owned());
        }
        let (shared, stop) = (Arc::clone(&self.state), StopToken::default());
        let (end, ended) = bounded::<()>(0);
        let token = stop.clone();
        let started = std::thread::Builder::new()
            .name(thread_names::WEB_CAMERAS.to_owned())
            .spawn(move || {
                telemetry::name_thread(thread_names::WEB_CAMERAS);
                work(&token, &shared);
                shared.lock().running = None;
                drop(end);
            });
        started.map_err(|error| format!("cannot start a thread: {error}"))?;
        match what {
            "test" => (state.tested, state.picture) = (None, None),
            _ => state.found = None,
        }
        state.running = Some((what, stop, ended));
        Ok(())
    }

    /// Ends a test that runs. A search ends by itself: its requests have time-outs.
    pub(super) fn stop(&self) {
        let running = self.state.lock().running.take();
        if let Some((what, stop, ended)) = running {
            stop.stop();
            if what == "test" {
                // It sends nothing.
                let _ = ended.recv_timeout(STOP_TIMEOUT);
            }
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let state = self.state.lock();
        json!({
            "available": self.finder.is_some(),
            "running": state.running.as_ref().map(|(what, ..)| what),
            "found": state.found,
            "tested": state.tested,
        })
    }

    /// The picture of the last test.
    pub(super) fn picture(&self) -> Option<Picture> {
        self.state.lock().picture.clone()
    }
}

/// The source that `camera` would be, with its password within.
///
/// # Errors
/// It is not a camera of the network, or its keys are wrong.
pub(super) fn source_of(camera: &NewCamera) -> Result<SourceConfig, String> {
    let mut item = json!({"name": camera.name, "uri": camera.uri});
    if let Some(fps) = camera.max_fps {
        item["max_fps"] = json!(fps);
    }
    if let Some(file) = &camera.ca_file {
        item["ca_file"] = json!(file);
    }
    if let Some(motion) = &camera.motion {
        item["onvif"] = json!({"events": "motion", "address": motion.address});
        if let Some(input) = &motion.input {
            item["onvif"]["input"] = json!(input);
        }
    }
    // JSON is YAML. The login follows below: a password may look like a placeholder, which no file may have.
    let text = json!({"sources": [item], "detector": {"model": "any"}}).to_string();
    let config = Config::from_str("the camera", &text).map_err(|error| {
        let problems = error.problems().iter().map(|problem| {
            let expected = problem.expected.as_deref();
            let expected = expected.map_or_else(String::new, |it| format!(", expected {it}"));
            format!("{}{expected}", problem.what)
        });
        let problems: Vec<String> = problems.collect();
        match problems.is_empty() {
            true => error.to_string(),
            false => problems.join("; "),
        }
    })?;
    let source = config.sources.into_iter().next();
    let mut source = source.ok_or("the camera has no address")?;
    match &mut source.uri {
        SourceUri::Rtsp { user, password, .. } | SourceUri::Http { user, password, .. } => {
            if user.is_some() || password.is_some() {
                return Err("user and password have fields of their own, so that they are not written into the configuration; take them out of the address".to_owned());
            }
            if let Some(name) = &camera.user {
                *user = Some(name.clone());
                *password = Some(Secret::Inline(camera.password.clone().unwrap_or_default()));
            }
            Ok(source)
        }
        _ => Err(
            "the page takes cameras of the network: rtsp://, rtsps://, http:// or https://; write other sources into the configuration"
                .to_owned(),
        ),
    }
}

/// The item of the configuration's list `sources` for `camera`; the password is in `password_file`.
pub(super) fn item_yaml(camera: &NewCamera, password_file: &str) -> String {
    let mut text = format!("- name: {}\n  uri: {}\n", camera.name, json!(camera.uri));
    if let Some(user) = &camera.user {
        let lines = format!(
            "  user: {}\n  password_file: {}\n",
            json!(user),
            json!(password_file)
        );
        text += &lines;
    }
    if let Some(file) = &camera.ca_file {
        text += &format!("  ca_file: {}\n", json!(file));
    }
    if let Some(fps) = camera.max_fps {
        text += &format!("  max_fps: {fps}\n");
    }
    if let Some(motion) = &camera.motion {
        let address = json!(motion.address);
        text += &format!("  onvif:\n    events: motion\n    address: {address}\n");
        if let Some(input) = &motion.input {
            text += &format!("    input: {}\n", json!(input));
        }
    }
    text
}

/// What a stream has shown so far.
#[derive(Default)]
struct Shown {
    size: Option<Size>,
    first_image: Option<Instant>,
    last_image: Option<Instant>,
    images: u32,
    picture: Option<Picture>,
    format: Option<StreamFormat>,
    decoder: Option<String>,
    units: u32,
    /// Media time of the first and of the last encoded image.
    span: Option<(Duration, Duration)>,
    /// Media times of the first two key frames.
    key_frames: Vec<Duration>,
    first_key_frame: Option<Instant>,
    sound: Option<AudioFormat>,
    failure: Option<String>,
}

impl Shown {
    /// Whether it has all that a stream may show.
    fn is_complete(&self) -> bool {
        let is_long = self.first_image.is_some_and(|at| at.elapsed() >= MIN_LOOK);
        is_long && self.key_frames.len() > 1
    }

    fn rate(&self) -> Option<f64> {
        let (count, span) = match self.span {
            Some((first, last)) if self.units > 1 && last > first => (self.units, last - first),
            _ => (self.images, self.last_image? - self.first_image?),
        };
        let seconds = span.as_secs_f64();
        (count > 1 && seconds > 0.0).then(|| f64::from(count - 1) / seconds)
    }
}

/// Notes what the source brings, and says that it did.
struct Look {
    shown: Mutex<Shown>,
    changed: Sender<()>,
}

impl Look {
    fn note(&self, note: impl FnOnce(&mut Shown)) {
        note(&mut self.shown.lock());
        // One that waits there says the same.
        let _ = self.changed.try_send(());
    }
}

impl FrameHandler for Look {
    fn frame(&self, frame: Frame) -> Flow {
        self.note(|shown| {
            let now = Instant::now();
            shown.size = Some(frame.meta.source_size);
            shown.first_image.get_or_insert(now);
            shown.last_image = Some(now);
            shown.images += 1;
            if shown.picture.is_none() {
                let image = &frame.image;
                let rows: Vec<u8> = (0..image.size.height)
                    .flat_map(|y| image.row(y).iter().copied())
                    .collect();
                shown.picture = encode_bgrx_jpeg(image.size, &rows, PICTURE_QUALITY).map(Arc::from);
            }
        });
        Flow::Continue
    }

    fn state_changed(&self, _: SourceId, state: SourceState, reason: Option<String>) {
        if state == SourceState::Offline {
            let reason = reason.unwrap_or_else(|| "offline".to_owned());
            self.note(|shown| shown.failure = Some(reason));
        }
    }

    fn stream_started(&self, _: SourceId, format: StreamFormat) {
        self.note(|shown| shown.format = Some(format));
    }

    fn access_unit(&self, _: SourceId, unit: AccessUnit) {
        self.note(|shown| {
            shown.units += 1;
            if unit.is_keyframe {
                shown.first_key_frame.get_or_insert_with(Instant::now);
            }
            let Some(pts) = unit.pts else { return };
            let (first, last) = shown.span.unwrap_or((pts, pts));
            shown.span = Some((first.min(pts), last.max(pts)));
            if unit.is_keyframe && shown.key_frames.len() < 2 {
                shown.key_frames.push(pts);
            }
        });
    }

    fn audio_started(&self, _: SourceId, format: AudioFormat) {
        self.note(|shown| shown.sound = Some(format));
    }

    fn plan(&self, plan: &ProcessingPlan) {
        let decoder = plan.steps.iter().find(|step| step.kind == StepKind::Decode);
        self.note(|shown| shown.decoder = decoder.map(|step| step.element.clone()));
    }
}

/// Opens `source` for some seconds; what it shows, and its picture.
fn look_at(source: &SourceConfig, stop: &StopToken) -> Result<(Value, Option<Picture>), String> {
    let (changed, changes) = bounded(1);
    let look = Arc::new(Look {
        shown: Mutex::default(),
        changed,
    });
    let placement = Placement::default();
    let handler = Arc::clone(&look) as Arc<dyn FrameHandler>;
    let mut context = SourceContext::standalone(&source.name, PICTURE, placement, stop, handler);
    context.wants_access_units = true;
    context.wants_audio = true;
    let started = Instant::now();
    let handle = source::start(source, context)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let timeout = source.first_frame_timeout() + Duration::from_secs(1);
    let is_over =
        |shown: &Shown| shown.failure.is_some() || shown.is_complete() || stop.is_stopped();
    loop {
        let end = {
            let shown = look.shown.lock();
            if is_over(&shown) || handle.is_finished() {
                break;
            }
            shown.first_image.map_or(started + timeout, |at| at + LOOK)
        };
        if changes.recv_deadline(end) == Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    stop.stop();
    // Its failure is in what it has shown. A camera that does not answer at the end of its stream does not delay the result: the thread
    // ends by itself.
    wait_until(Instant::now() + CLOSE_TIMEOUT, || handle.is_finished());
    let mut shown = look.shown.lock();
    let Some(first_image) = shown.first_image else {
        let failure = shown.failure.take();
        return Err(failure.unwrap_or_else(|| format!("no image within {} s", timeout.as_secs())));
    };
    let rate = shown.rate();
    // Video that is not kept as it comes is encoded here: what that gives says nothing of the camera.
    let decoder = shown.decoder.clone().unwrap_or_default();
    let is_own = !decoder.contains("jpeg") && !decoder.contains("image");
    let format = shown.format.filter(|_| is_own);
    let key_frames = shown.key_frames.as_slice();
    let interval = match key_frames {
        [first, second] if is_own => second.checked_sub(*first),
        _ => None,
    };
    let since = |at: Instant| (at - started).as_secs_f64();
    let tested = json!({
        "codec": format.map_or(if is_own { decoder.as_str() } else { "JPEG" }, |format| format.codec.name()),
        "size": shown.size.map(|size| [size.width, size.height]),
        "frame_rate": rate,
        "sound": shown.sound.as_ref().map(|sound| format!("AAC, {} Hz, {} channel(s)", sound.sample_rate, sound.channels)),
        "first_image_s": since(first_image),
        "first_key_frame_s": shown.first_key_frame.filter(|_| is_own).map(since),
        "key_frame_interval_s": interval.map(|interval| interval.as_secs_f64()),
        "suggested_max_fps": rate.filter(|rate| *rate > SUGGESTED_MAX_FPS + 0.5).map(|_| SUGGESTED_MAX_FPS),
    });
    Ok((tested, shown.picture.take()))
}

#[cfg(test)]
mod tests {
    use jetwatch_web::CameraMotion;

    use super::*;

    fn camera(uri: &str) -> NewCamera {
        NewCamera {
            name: "gate".to_owned(),
            uri: uri.to_owned(),
            ..NewCamera::default()
        }
    }

    #[test]
    fn cameras_of_the_network_without_a_login_in_their_address_are_taken() {
        for uri in [
            "rtsp://10.0.0.5/1",
            "rtsps://10.0.0.5/1",
            "http://10.0.0.5/video",
            "https://10.0.0.5/video",
        ] {
            let mut camera = camera(uri);
            camera.user = Some("admin".to_owned());
            camera.password = Some("${SECRET}".to_owned());
            let source = source_of(&camera).expect(uri);
            let (SourceUri::Rtsp { password, .. } | SourceUri::Http { password, .. }) = source.uri
            else {
                panic!("{uri}");
            };
            assert_eq!(password, Some(Secret::Inline("${SECRET}".to_owned())));
        }
        #[rustfmt::skip]
        let cases = [
            ("rtsp://admin:secret@10.0.0.5/1", "fields of their own"),
            ("/etc/passwd", "cameras of the network"),
            ("file:///etc/passwd", "cameras of the network"),
            ("launch:filesrc location=/etc/passwd", "cameras of the network"),
            ("images:/etc", "cameras of the network"),
            ("udp://0.0.0.0:5000", "cameras of the network"),
            ("v4l2:///dev/video0", "cameras of the network"),
            ("gopher://10.0.0.5/1", "expected"),
            ("rtsp://", "expected"),
        ];
        for (uri, reason) in cases {
            let error = source_of(&camera(uri)).expect_err(uri);
            assert!(error.contains(reason), "{uri}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_item_has_no_password() {
        let mut camera = camera("rtsp://10.0.0.5/1?a=\"b\"");
        assert_eq!(
            item_yaml(&camera, "x"),
            "- name: gate\n  uri: \"rtsp://10.0.0.5/1?a=\\\"b\\\"\"\n"
        );
        camera.user = Some("a: b".to_owned());
        camera.password = Some("p".to_owned());
        camera.max_fps = Some(7.5);
        let motion = |address: &str| {
            Some(CameraMotion {
                address: address.to_owned(),
                input: Some("v: 1".to_owned()),
            })
        };
        camera.motion = motion("https://10.0.0.5");
        camera.ca_file = Some("own: 1.pem".into());
        assert!(item_yaml(&camera, "secrets/gate").ends_with(
            "\n  user: \"a: b\"\n  password_file: \"secrets/gate\"\n  ca_file: \"own: 1.pem\"\n  max_fps: 7.5\n  onvif:\n    \
             events: motion\n    address: \"https://10.0.0.5\"\n    input: \"v: 1\"\n"
        ));
        let onvif = source_of(&camera).expect("accepted").onvif.expect("set");
        assert_eq!(onvif.input.as_deref(), Some("v: 1"));
        camera.motion = motion("10.0.0.5");
        assert!(
            source_of(&camera)
                .is_err_and(|error| error.contains("only for addresses with https://"))
        );
        camera.ca_file = None;
        camera.motion = motion("rtsp://10.0.0.5");
        assert!(source_of(&camera).is_err_and(|error| error.contains("onvif")));
    }

    #[test]
    fn one_search_or_test_at_a_time() {
        let (begin, begun) = bounded::<()>(0);
        let finder = move |_: &CameraQuery| {
            let _ = begun.recv();
            json!({"cameras": []})
        };
        let cameras = Cameras::new(Some(Arc::new(finder)));
        cameras.find(CameraQuery::default()).expect("it is free");
        let error = cameras.test(&camera("rtsp://127.0.0.1:9/1"));
        assert!(error.is_err_and(|error| error.contains("already")));
        let ended = cameras.state.lock().running.clone().expect("it runs").2;
        drop(begin);
        let _ = ended.recv();
        assert_eq!(cameras.to_json()["found"], json!({"cameras": []}));
        let none = Cameras::new(None).find(CameraQuery::default());
        assert!(none.is_err_and(|error| error.contains("jetwatch discover")));
    }
}
