// SPDX-License-Identifier: Apache-2.0
//! What users of other projects reported of cameras, tried here. Each row names a public thread; the list with results is
//! docs/src/field.md.

use crate::support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use jetwatch_config::{RtspTransport, Secret, SourceUri};
use jetwatch_pixels::{ImageFormat, encode_rgb};
use jetwatch_types::{Size, SourceState};

use support::collector::{CollectedFrame, Collector, config};
use support::daemon::wait_until_some;
use support::ffprobe::ffmpeg;
use support::rtsp_camera::{FPS, Fault, RtspCamera, bright_stream};

const SECOND: Duration = Duration::from_secs(1);

fn rtsp(location: String) -> SourceUri {
    SourceUri::Rtsp {
        location,
        user: None,
        password: None,
        transport: RtspTransport::Tcp,
        latency: Duration::from_millis(100),
    }
}

fn http(location: String, login: Option<(&str, &str)>) -> SourceUri {
    SourceUri::Http {
        location,
        user: login.map(|(user, _)| user.to_owned()),
        password: login.map(|(_, password)| Secret::Inline(password.to_owned())),
        poll: Duration::from_millis(200),
    }
}

/// Waits until the source has given `count` frames.
fn wait_for_frames(source: &Collector, count: usize, what: &str) {
    wait_until_some(what, || (source.count() >= count).then_some(()));
}

/// No frame is grey: each is as bright as the camera's image.
fn check_whole(frames: &[CollectedFrame], what: &str) {
    for (index, frame) in frames.iter().enumerate() {
        // The image fills three quarters of the network's.
        assert!(
            frame.mean > 200.0,
            "{what}: frame {index} has {}",
            frame.mean
        );
    }
}

/// What a camera does, where that was reported, and how often it is connected again in the seconds that follow.
#[test]
fn rtsp_cameras_with_faults_deliver_whole_frames_without_a_reconnect() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 4, FPS);
    let strict = Fault::CountsRequests(6 * SECOND);
    let cases: &[(&str, &str, &[Fault], u64)] = &[
        (
            "counts requests",
            "mediamtx#2908 janus-gateway#693",
            &[strict],
            0,
        ),
        (
            "refuses them: 400",
            "retina#133",
            &[strict, Fault::Parameter(400)],
            0,
        ),
        (
            "refuses them: 405",
            "mediamtx#842",
            &[strict, Fault::Parameter(405)],
            0,
        ),
        (
            "refuses them: 454",
            "thingino-firmware#490",
            &[strict, Fault::Parameter(454)],
            0,
        ),
        (
            "refuses them: 551",
            "mediamtx#1066",
            &[strict, Fault::Parameter(551)],
            0,
        ),
        (
            "does not answer them",
            "go2rtc#2409",
            &[Fault::ParameterSilent],
            0,
        ),
        (
            "closes at the first",
            "SharpRTSP#63",
            &[Fault::ParameterCloses],
            1,
        ),
        (
            "does not offer them",
            "mediamtx#842",
            &[Fault::NoParameter],
            0,
        ),
        (
            "new SSRC with each keyframe",
            "gortsplib#687 retina#79",
            &[Fault::NewSource],
            0,
        ),
        (
            "new payload type",
            "RtspClientSharp#98 gortsplib#65",
            &[Fault::NewPayloadType],
            0,
        ),
        ("stream starts over", "gortsplib#480", &[Fault::Restarts], 0),
        ("time jumps back", "frigate#6922", &[Fault::Jump(-30)], 0),
        (
            "time jumps forward",
            "frigate#6922",
            &[Fault::Jump(3600)],
            0,
        ),
        (
            "time stands still",
            "thingino-firmware#640",
            &[Fault::StandingTime],
            0,
        ),
        (
            "packets are lost",
            "ha-video-vision#120",
            &[Fault::Lost(FPS as usize / 2)],
            0,
        ),
        ("empty packets", "mediamtx#1019", &[Fault::EmptyPackets], 0),
        (
            "first image after 7 s",
            "motion#1104 RTSPtoWeb#315",
            &[Fault::Late(7 * SECOND)],
            0,
        ),
        (
            "no parameter sets described",
            "mediamtx#2304",
            &[Fault::NoParameterSets],
            0,
        ),
        ("joined in mid-stream", "mediamtx#1327", &[Fault::Live], 0),
    ];
    let running = cases.iter().map(|(what, _, faults, _)| {
        let camera = RtspCamera::start(&stream, faults);
        let mut source = config(rtsp(camera.uri()));
        source.name = (*what).to_owned();
        source.stall_timeout = 10 * SECOND;
        // Longer than a closed connection is taken for an answer.
        source.reconnect_wait = SECOND + SECOND / 2;
        source.reconnect_max_wait = 3 * SECOND;
        (Collector::start(&source, usize::MAX), camera)
    });
    let running: Vec<_> = running.collect();
    // As long as three timeouts of the strictest.
    let begun = Instant::now();
    wait_until_some("three timeouts", || {
        (begun.elapsed() > 18 * SECOND).then_some(())
    });
    for ((what, thread, faults, reconnects), (source, camera)) in cases.iter().zip(running) {
        let found = source.counters.reconnects();
        let reasons = source.offline_reasons();
        assert_eq!(found, *reconnects, "{what} ({thread}): {reasons:?}");
        assert!(source.has_reached(SourceState::Online), "{what} ({thread})");
        let asked = camera.requests("GET_PARAMETER");
        assert_eq!(
            asked > 0,
            !faults.contains(&Fault::NoParameter),
            "{what} ({thread}): {asked}"
        );
        wait_for_frames(&source, 4 * FPS as usize, what);
        let (frames, _) = source.stop();
        check_whole(&frames, what);
    }
}

#[test]
fn refusals_of_rtsp_cameras_say_what_to_set() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 1, FPS);
    for (thread, fault, wanted) in [
        (
            "RTSPtoWeb#249 frigate#1907",
            Fault::UdpOnly,
            "transport: udp",
        ),
        (
            "webrtc-streamer#174",
            Fault::Describe(453),
            "serves no further client",
        ),
        (
            "unifi-cam-proxy#340",
            Fault::Describe(503),
            "serves no further client",
        ),
    ] {
        let camera = RtspCamera::start(&stream, &[fault]);
        let source = Collector::start(&config(rtsp(camera.uri())), usize::MAX);
        let reason = wait_until_some("a reason", || source.offline_reasons().first().cloned());
        assert!(reason.contains(wanted), "{thread}: {reason}");
        let _ = source.stop();
    }
}

/// Cameras whose log-in is set to Digest with SHA-256 alone.
#[test]
fn a_camera_that_takes_sha_256_only_is_logged_in_with() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 1, FPS);
    let camera = RtspCamera::start(&stream, &[Fault::Sha256]);
    let address = |password: &str| SourceUri::Rtsp {
        location: camera.uri(),
        user: Some("admin".to_owned()),
        password: Some(Secret::Inline(password.to_owned())),
        transport: RtspTransport::Tcp,
        latency: Duration::from_millis(100),
    };
    let source = Collector::start(&config(address("p@ss:1")), usize::MAX);
    wait_for_frames(&source, FPS as usize, "a second of frames");
    assert_eq!(source.offline_reasons(), Vec::<String>::new());
    check_whole(&source.stop().0, "SHA-256");
    let source = Collector::start(&config(address("wrong")), usize::MAX);
    let reason = wait_until_some("a reason", || source.offline_reasons().first().cloned());
    assert!(reason.contains("check user and password"), "{reason}");
    let _ = source.stop();
}

#[test]
fn a_silent_stream_of_several_can_be_passed_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 1, FPS);
    let camera = RtspCamera::start(&stream, &[Fault::TwoStreams]);
    let mut source = config(rtsp(camera.uri()));
    source.stall_timeout = 2 * SECOND;
    let silent = Collector::start(&source, usize::MAX);
    let reason = wait_until_some("a reason", || silent.offline_reasons().first().cloned());
    assert!(reason.contains("set track: 0, 1"), "{reason}");
    let _ = silent.stop();
    source.track = Some(1);
    source.stall_timeout = 20 * SECOND;
    let second = Collector::start(&source, usize::MAX);
    wait_for_frames(&second, FPS as usize, "a second of frames");
    check_whole(&second.stop().0, "the second stream");
}

#[test]
fn a_client_that_joins_at_any_moment_gets_whole_frames_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 6, 3 * FPS);
    let camera = RtspCamera::start(&stream, &[Fault::Live]);
    let begun = Instant::now();
    let joined = (0..8).map(|number| {
        let due = Duration::from_millis(number * 375);
        wait_until_some("the next moment", || (begun.elapsed() >= due).then_some(()));
        Collector::start(&config(rtsp(camera.uri())), usize::MAX)
    });
    for (number, source) in joined.collect::<Vec<_>>().into_iter().enumerate() {
        wait_for_frames(&source, FPS as usize, "a second of frames");
        check_whole(&source.stop().0, &format!("joined at moment {number}"));
    }
}

/// Serves `answers`, the n-th to the n-th request and the last to all further ones: head, and what follows at intervals of 40 ms.
fn serve_http(answers: Vec<(String, Vec<Vec<u8>>)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().flatten().enumerate() {
            let (head, pieces) = answers[number.min(answers.len() - 1)].clone();
            std::thread::spawn(move || {
                let mut client = client;
                let _ = client.read(&mut [0; 4096]);
                let mut write = |bytes: &[u8]| client.write_all(bytes).is_ok();
                if !write(head.as_bytes()) {
                    return;
                }
                for piece in pieces {
                    if !write(&piece) {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(40));
                }
            });
        }
    });
    format!("http://{address}/video")
}

fn head(content_type: &str) -> String {
    format!("HTTP/1.0 200 OK\r\nContent-Type: {content_type}\r\n\r\n")
}

fn jpeg() -> Vec<u8> {
    let pixels = vec![230; 160 * 120 * 3];
    encode_rgb(ImageFormat::Jpeg, Size::new(160, 120), &pixels).expect("a small image")
}

/// As nginx-rtmp and Reolink's cameras send it: sound, which is not decoded, comes for a while before the first image (go2rtc#916).
#[test]
fn flv_that_begins_with_sound_delivers_frames() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("camera.flv");
    ffmpeg(
        "-f lavfi -i sine=d=2 -f lavfi -i testsrc2=s=320x180:r=25:d=2 -map 0 -map 1 -c:v libx264 -c:a libmp3lame -ar 44100",
        &path,
    );
    let flv = std::fs::read(path).expect("a file");
    // Tags follow the header of 9 bytes, each behind the length of the one before: type, length in three bytes, and seven more.
    let mut tags = Vec::new();
    let mut at = 13;
    while at < flv.len() {
        let length = [0, flv[at + 1], flv[at + 2], flv[at + 3]];
        let end = at + 11 + u32::from_be_bytes(length) as usize + 4;
        tags.push(at..end);
        at = end;
    }
    let first = |kind| tags.iter().find(|tag| flv[tag.start] == kind).cloned();
    let (sound, image) = (first(8).expect("sound"), first(9).expect("an image"));
    let mut pieces = vec![flv[..image.start].to_vec()];
    pieces.extend(vec![flv[sound].to_vec(); 10]);
    pieces.extend(flv[image.start..].chunks(20_000).map(<[u8]>::to_vec));
    let address = serve_http(vec![(head("video/x-flv"), pieces)]);
    let source = Collector::start(&config(http(address, None)), usize::MAX);
    wait_for_frames(&source, 25, "frames behind the sound");
    assert_eq!(source.offline_reasons(), Vec::<String>::new());
    let _ = source.stop();
}

#[test]
fn cameras_over_http_deliver_images_whatever_is_around_them() {
    let image = jpeg();
    let part = |before: &str, after: &str| [before.as_bytes(), &image, after.as_bytes()].concat();
    let many = |piece: Vec<u8>| vec![piece; 400];
    let multipart = "multipart/x-mixed-replace; boundary=";
    let length = image.len();
    let cases: Vec<(&str, String, Vec<Vec<u8>>)> = vec![
        (
            "Motion#807",
            head(&format!("{multipart}frame")),
            many(part(
                &format!("--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {length}\r\n\r\n"),
                "\r\n",
            )),
        ),
        (
            "esp32cam#67: the boundary comes last",
            head(&format!("{multipart}123")),
            many(part(
                &format!("Content-Type: image/jpeg\r\nContent-Length: {length}\r\n\r\n"),
                "\r\n--123\r\n",
            )),
        ),
        (
            "multipart-stream-rs#2: another boundary",
            head(&format!("{multipart}\"--x\"")),
            many(part("----y\r\nContent-Type: image/jpeg\r\n\r\n", "\r\n")),
        ),
        (
            "mjpeg-proxy#12: a blank within it",
            head("multipart/x-mixed-replace;boundary=video boundary--"),
            many(part("--video boundary--\r\n\r\n", "")),
        ),
        (
            "MissionPlanner#3603: a length that is wrong",
            head(&format!("{multipart}f")),
            many(part(
                &format!("--f\r\nContent-Length: {}\r\n\r\n", length - 2),
                "\r\n",
            )),
        ),
        (
            "sim-use#131: no multipart",
            head("image/jpeg"),
            many(part("", "")),
        ),
        (
            "camera_proxy#5: no type",
            "HTTP/1.0 200 OK\r\n\r\n".to_owned(),
            many(part("--b\r\n\r\n", "\r\n")),
        ),
        (
            "go2rtc#545: other parts between",
            head(&format!("{multipart}d")),
            many(part(
                "--d\r\nContent-Type: audio/g711\r\n\r\nabc\r\n--d\r\nContent-Type: image/jpeg\r\n\r\n",
                "\r\n",
            )),
        ),
        (
            "mjpg-streamer#100: cut images",
            head(&format!("{multipart}f")),
            (0..400)
                .map(|n| match n % 2 {
                    0 => part("--f\r\n\r\n", "\r\n"),
                    _ => [b"--f\r\n\r\n", &image[..length / 2]].concat(),
                })
                .collect(),
        ),
        (
            "a still image, fetched again",
            head("image/jpeg"),
            vec![image.clone()],
        ),
        (
            "a still image of a slow camera",
            head("image/jpeg"),
            image.chunks(300).map(<[u8]>::to_vec).collect(),
        ),
    ];
    let running = cases.into_iter().map(|(what, head, pieces)| {
        let source = config(http(serve_http(vec![(head, pieces)]), None));
        (what, Collector::start(&source, usize::MAX))
    });
    for (what, source) in running.collect::<Vec<_>>() {
        wait_for_frames(&source, 5, what);
        assert_eq!(
            source.counters.reconnects(),
            0,
            "{what}: {:?}",
            source.offline_reasons()
        );
        check_whole(&source.stop().0, what);
    }
}

#[test]
fn answers_over_http_that_are_no_video_are_told() {
    let not_found = "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
    let refused = "HTTP/1.0 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"cam\"\r\nContent-Length: 0\r\n\r\n".to_owned();
    let parts = vec![
        [
            b"--x\r\nContent-Type: video/x-h264\r\n\r\n".as_slice(),
            &[7; 60_000]
        ]
        .concat();
        200
    ];
    for (thread, head, pieces, wanted) in [
        ("motioneye#1281", not_found, vec![], "404"),
        ("frigate#5927", refused, vec![], "check user and password"),
        (
            "go2rtc#676",
            head("multipart/x-mixed-replace; boundary=x"),
            parts,
            "no JPEG image",
        ),
    ] {
        let login = Some(("admin", "p@ss"));
        let source = Collector::start(
            &config(http(serve_http(vec![(head, pieces)]), login)),
            usize::MAX,
        );
        let reason = wait_until_some(thread, || source.offline_reasons().first().cloned());
        assert!(reason.contains(wanted), "{thread}: {reason}");
        let _ = source.stop();
    }
}
