// SPDX-License-Identifier: Apache-2.0
//! What users of other projects reported of cameras over HTTPS, of log-ins over HTTP, and of streams over UDP, SRT and RTMP, tried here. Each row
//! names a public thread; the list with results is docs/src/field.md.

use crate::support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetwatch_config::{SourceConfig, SourceUri};
use jetwatch_types::SourceState;

use support::clips::Running;
use support::collector::{CollectedFrame, Collector, config, first_reason, http, rtsp};
use support::daemon::{Setup, Signal, start, terminate, wait_until_some};
use support::ffprobe::ffmpeg;
use support::http_camera::{Certificate, HttpCamera, LOGIN, certificate};
use support::ports::free_port;
use support::rtsp::RtspServer;

/// A source at an address, with a user where one is named.
fn source(location: String, login: Option<(&str, &str)>) -> SourceConfig {
    config(http(location, login))
}

/// The frames of a source, without a reconnect.
fn frames_at_once(collector: Collector, what: &str) -> Vec<CollectedFrame> {
    wait_until_some(what, || {
        let reasons = collector.offline_reasons();
        assert!(reasons.is_empty(), "{what}: {reasons:?}");
        (collector.count() >= 5).then_some(())
    });
    collector.stop().0
}

/// They are as bright as what the camera shows.
fn check_frames(collector: Collector, what: &str) {
    check_white(&frames_at_once(collector, what), what);
}

fn check_white(frames: &[CollectedFrame], what: &str) {
    // The image fills three quarters of the network's.
    assert!(frames.iter().all(|frame| frame.mean > 170.0), "{what}");
}

#[test]
fn https_cameras_with_an_own_authority_or_none_deliver_frames() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let authority = certificate(folder, "authority", "DNS:authority", None);
    let signed = certificate(folder, "signed", "IP:127.0.0.1", Some("authority"));
    let own = certificate(folder, "own", "IP:127.0.0.1", None);
    // (threads, certificate, authorities to trust, paths)
    #[rustfmt::skip]
    let cases: [(&str, &Certificate, &Path, &[&str]); 2] = [
        ("motioneyeos#626", &signed, &authority.certificate, &["still", "mjpeg", "ts", "digest/mjpeg", "redirect/basic/still", "hls", "redirect/digest/hls"]),
        ("double-take#598 hikvision_next#230", &own, &own.certificate, &["still", "mjpeg"]),
    ];
    for (threads, certificate, trusted, paths) in cases {
        let camera = HttpCamera::start(folder, Some(&certificate.with_key));
        let started = paths.iter().map(|path| {
            let mut source = source(camera.uri(path), Some(LOGIN));
            source.ca_file = Some(trusted.to_owned());
            (path, Collector::start(&source, usize::MAX))
        });
        for (path, collector) in started.collect::<Vec<_>>() {
            check_frames(collector, &format!("{threads}: {path}"));
        }
    }
    let key = own.with_key.display().to_string();
    let login = ["--user", "viewer", "--password", "s3cret"];
    let server = RtspServer::start(0, &[["--certificate", &key].as_slice(), &login].concat());
    let address = server.uri().replace("rtsp://", "rtsps://");
    let mut rtsps = config(rtsp(address, Some(("viewer", "s3cret"))));
    rtsps.ca_file = Some(own.certificate);
    frames_at_once(Collector::start(&rtsps, usize::MAX), "rtsps");
}

#[test]
fn https_cameras_that_are_not_trusted_say_what_to_set() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let own = certificate(folder, "own", "IP:127.0.0.1", None);
    let foreign = certificate(folder, "foreign", "DNS:www.camera.example", None);
    let empty = folder.join("empty.pem");
    std::fs::write(&empty, "no certificate").expect("the folder is writable");
    let secure = HttpCamera::start(folder, Some(&own.with_key));
    let named = HttpCamera::start(folder, Some(&foreign.with_key));
    let plain = HttpCamera::start(folder, None);
    let to_tls = |address: String| address.replace("http://", "https://");
    // (thread, address, ca_file, what the reason says)
    #[rustfmt::skip]
    let cases: [(&str, String, Option<PathBuf>, &[&str]); 7] = [
        ("hikvision_next#230", secure.uri("still"), None, &["not trusted (unknown-ca)", "set ca_file", "openssl s_client"]),
        ("defogger#9", named.uri("still"), Some(foreign.certificate.clone()), &["not trusted (bad-identity)", "/etc/hosts"]),
        ("another authority", secure.uri("still"), Some(foreign.certificate), &["unknown-ca", "set ca_file"]),
        ("a file without a certificate", secure.uri("still"), Some(empty), &["ca_file: cannot use", "it has no certificate"]),
        ("no such file", secure.uri("still"), Some(folder.join("none.pem")), &["ca_file: cannot use", "No such file"]),
        ("motionpie#292: no TLS at this port", to_tls(plain.uri("still")), None, &["TLS", "https:// there or http://"]),
        ("nothing listens", "https://127.0.0.1:9/still".to_owned(), None, &["Connection refused", "check the address"]),
    ];
    for (what, location, ca_file, wanted) in cases {
        let mut source = source(location, None);
        source.ca_file = ca_file;
        let reason = first_reason(&source);
        for part in wanted {
            assert!(reason.contains(part), "{what}: {part}: {reason}");
        }
    }
}

#[test]
fn log_ins_over_http_are_done_and_refusals_are_not_repeated() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let camera = HttpCamera::start(folder.path(), None);
    #[rustfmt::skip]
    let cases = [
        ("zoneminder#30 OctoPrint#4931 homebridge-camera-ffmpeg#1453", "digest/still"),
        ("plugin.video.surveillanceroom#13", "digest/mjpeg"),
        ("scrypted#891", "basic/still"),
        ("a redirect to a log-in", "redirect/digest/mjpeg"),
        ("a transport stream", "digest/ts"),
        ("a playlist and its files", "redirect/digest/hls"),
    ];
    let started = cases.map(|(what, path)| {
        let source = source(camera.uri(path), Some(LOGIN));
        (what, Collector::start(&source, usize::MAX))
    });
    for (what, collector) in started {
        check_frames(collector, what);
    }
    #[rustfmt::skip]
    let cases = [
        ("IpCamera#11: a wrong password", "digest/still", Some(("admin", "wrong")), 2),
        ("a wrong password, Basic", "basic/mjpeg", Some(("admin", "wrong")), 2),
        ("none", "digest/mjpeg", None, 1),
    ];
    let camera = HttpCamera::start(folder.path(), None);
    for (what, path, login, most) in cases {
        let reason = first_reason(&source(camera.uri(path), login));
        assert!(
            reason.contains("check user and password"),
            "{what}: {reason}"
        );
        assert!(!reason.contains("wrong"), "{what}: {reason}");
        let answers = camera.answers().into_iter();
        let refused = answers
            .filter(|line| *line == format!("/{path} 401"))
            .count();
        assert!((1..=most).contains(&refused), "{what}: {refused}");
    }
    // go2rtc#2344: SHA-256.
    let reason = first_reason(&source(camera.uri("sha256/still"), Some(LOGIN)));
    assert_has!(reason => "MD5");
}

/// Playlists as other players could not read them: fragments of MP4, and a stream that starts over.
#[test]
fn playlists_of_several_kinds_deliver_their_segments() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let video = "-f lavfi -i color=white:s=160x120:r=25:d=2 -c:v libx264 -pix_fmt yuv420p -g 25";
    let fragments = "-f hls -hls_time 1 -hls_list_size 0 -hls_segment_type fmp4";
    ffmpeg(&format!("{video} {fragments}"), &path("fragments.m3u8"));
    for (name, offset) in [("first.ts", 500), ("second.ts", 0)] {
        ffmpeg(
            &format!("{video} -output_ts_offset {offset} -f mpegts"),
            &path(name),
        );
    }
    let head = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:2\n#EXTINF:2.0,\nfirst.ts\n";
    let rest = "#EXT-X-DISCONTINUITY\n#EXTINF:2.0,\nsecond.ts?token=a%20b\n#EXT-X-ENDLIST\n";
    std::fs::write(path("restarts.m3u8"), [head, rest].concat()).expect("written");
    let sound = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=64000,CODECS=\"mp4a.40.2\"\nsound.m3u8\n";
    let small = "#EXT-X-STREAM-INF:BANDWIDTH=300000\nnone.m3u8\n";
    let large = "#EXT-X-STREAM-INF:BANDWIDTH=800000\nfragments.m3u8\n";
    let all = [sound, small, large].concat();
    std::fs::write(path("variants.m3u8"), all).expect("written");
    let port = free_port();
    let shown = folder.path().display();
    let _server = Running::start(
        "python3",
        &format!("-m http.server {port} --bind 127.0.0.1 --directory {shown}"),
    );
    let gone = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nnone.ts\n#EXT-X-ENDLIST\n";
    std::fs::write(path("gone.m3u8"), gone).expect("written");
    let running = [
        ("streamlink#3328", "fragments.m3u8", 45),
        ("hls.js#3044", "restarts.m3u8", 90),
        ("shaka-player#861 ExoPlayer#721", "variants.m3u8", 45),
    ]
    .map(|(what, name, frames)| {
        let address = format!("http://127.0.0.1:{port}/{name}");
        let collector = Collector::start(&source(address, None), usize::MAX);
        (what, frames, collector)
    });
    for (what, frames, collector) in running {
        // Until the server listens, there is another reason.
        wait_until_some(what, || {
            let reasons = collector.offline_reasons();
            reasons.into_iter().find(|reason| reason.contains("ended"))
        });
        let found = collector.stop().0;
        assert!(found.len() >= frames, "{what}: {}", found.len());
        check_white(&found, what);
    }
    let reason = first_reason(&source(format!("http://127.0.0.1:{port}/gone.m3u8"), None));
    assert_has!(reason => "File not found (404)", "/none.ts (");
    assert!(!reason.contains("GstPipeline"), "{reason}");
}

/// The playlist of a live stream is fetched again and again, whatever its files are.
#[test]
fn a_live_playlist_whose_files_are_refused_says_which_and_how() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let camera = HttpCamera::start(folder.path(), None);
    for (path, wanted) in [
        ("404/live", "check the program that writes the playlist"),
        ("403/live", "check user and password"),
        ("503/live", "check the program that writes the playlist"),
    ] {
        let (status, _) = path.split_once('/').expect("a status");
        let mut source = source(camera.uri(path), None);
        source.stall_timeout = Duration::from_secs(60);
        let reason = first_reason(&source);
        let answer = format!("{status} to each of the last");
        assert_has!(reason => &answer, &format!("/{status}/segment"), wanted);
    }
}

/// hls.js#4309, ExoPlayer#2872: a program that writes a playlist is started again, and begins with its first number.
#[test]
fn a_live_playlist_that_starts_over_says_so_and_comes_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let camera = HttpCamera::start(folder.path(), None);
    let mut source = source(camera.uri("restarts"), None);
    source.stall_timeout = Duration::from_secs(3);
    let collector = Collector::start(&source, usize::MAX);
    // More than the files of the earlier numbers have.
    collector.wait_for_frames(400, "frames of the new numbers");
    // GStreamer 1.16 runs on.
    for reason in collector.offline_reasons() {
        assert_has!(reason => "it lists no new files", "EXT-X-MEDIA-SEQUENCE");
    }
    check_white(&collector.stop().0, "starts over");
}

/// How to send a white image to the source at `uri`, and the thread that asks for it.
struct Stream {
    what: &'static str,
    uri: String,
    program: &'static str,
    arguments: String,
    /// How the sender ends.
    end: Signal,
}

fn streams(folder: &Path) -> Vec<Stream> {
    let video = "videotestsrc is-live=true pattern=white ! video/x-raw,format=I420,width=160,height=120,framerate=25/1 \
                 ! x264enc tune=zerolatency key-int-max=5 speed-preset=ultrafast";
    let gst = |end, what, uri: String, sender: String| Stream {
        what,
        uri,
        program: "gst-launch-1.0",
        arguments: format!("{video} ! {sender}"),
        end,
    };
    let clip = folder.join("clip.flv");
    support::clips::gst_launch(&format!(
        "{} ! h264parse ! flvmux name=mux ! filesink location={} audiotestsrc num-buffers=900 ! avenc_aac ! aacparse ! mux.",
        video.replace("is-live=true", "num-buffers=500"),
        clip.display()
    ));
    let [unicast, group, rtp, caller, listener, rtmp] = std::array::from_fn(|_| free_port());
    vec![
        gst(
            Signal::STOP,
            "mediamtx#1481",
            format!("udp://127.0.0.1:{unicast}"),
            format!("mpegtsmux alignment=7 ! udpsink host=127.0.0.1 port={unicast}"),
        ),
        gst(
            Signal::KILL,
            "mediamtx#1481: a group",
            format!("udp://@239.255.7.7:{group}"),
            format!("mpegtsmux alignment=7 ! udpsink host=239.255.7.7 port={group}"),
        ),
        gst(
            Signal::STOP,
            "mediamtx#1515: in RTP",
            format!("udp://0.0.0.0:{rtp}"),
            format!("mpegtsmux alignment=7 ! rtpmp2tpay ! udpsink host=127.0.0.1 port={rtp}"),
        ),
        gst(
            Signal::KILL,
            "obs-studio#2453: as caller",
            format!("srt://127.0.0.1:{caller}?mode=caller&passphrase=hunter2-hunter2"),
            format!(
                "mpegtsmux alignment=7 ! srtsink uri=srt://127.0.0.1:{caller}?mode=listener&passphrase=hunter2-hunter2"
            ),
        ),
        gst(
            Signal::STOP,
            "srt#506 srt#882: as listener",
            format!("srt://:{listener}?mode=listener"),
            format!("mpegtsmux alignment=7 ! srtsink uri=srt://127.0.0.1:{listener}?mode=caller"),
        ),
        Stream {
            what: "frigate#3863: RTMP",
            uri: format!("rtmp://127.0.0.1:{rtmp}/live/camera"),
            program: "ffmpeg",
            arguments: format!(
                "-re -i {} -c copy -f flv -listen 1 rtmp://127.0.0.1:{rtmp}/live/camera",
                clip.display()
            ),
            end: Signal::STOP,
        },
    ]
}

/// The sender of each stops without a word or with its process, which is noticed, and another one begins.
#[test]
fn streams_over_udp_srt_and_rtmp_deliver_frames_also_after_the_sender_was_gone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let running = streams(folder.path()).into_iter().map(|stream| {
        let mut source = config(SourceUri::Stream(stream.uri.clone()));
        source.stall_timeout = Duration::from_secs(2);
        let collector = Collector::start(&source, usize::MAX);
        let sender = Running::start(stream.program, &stream.arguments);
        (stream, collector, sender)
    });
    let mut running = running.collect::<Vec<_>>();
    let wait_for = |(stream, collector, sender): &mut (Stream, Collector, Running), frames| {
        wait_until_some(stream.what, || {
            // A server of RTMP ends with its first client.
            sender.start_again_at_its_end();
            (collector.count() >= frames).then_some(())
        });
    };
    for stream in &mut running {
        wait_for(stream, 5);
        stream.2.signal(stream.0.end);
    }
    for (stream, collector, sender) in &mut running {
        wait_until_some(stream.what, || {
            let states = collector.states.lock().expect("not poisoned");
            (states.last()?.0 != SourceState::Online).then_some(())
        });
        sender.signal(Signal::KILL);
    }
    for stream in &mut running {
        let seen = stream.1.count();
        wait_for(stream, seen + 5);
    }
    for (stream, collector, _) in running {
        check_white(&collector.stop().0, stream.what);
    }
}

/// openfollow#147: a peer that refuses looked like one that is off.
#[test]
fn refusals_of_streams_say_what_to_check() {
    let port = free_port();
    let _sender = Running::start(
        "gst-launch-1.0",
        &format!(
            "videotestsrc is-live=true ! x264enc ! mpegtsmux ! srtsink uri=srt://127.0.0.1:{port}?mode=listener&passphrase=hunter2-hunter2"
        ),
    );
    #[rustfmt::skip]
    let cases = [
        (format!("srt://127.0.0.1:{port}?passphrase=another-secret"), "check passphrase="),
        (format!("srt://127.0.0.1:{port}?passphrase=short"), "10 to 79 characters"),
        ("rtmp://127.0.0.1:9/live/camera".to_owned(), "check that it is reachable"),
    ];
    for (uri, wanted) in cases {
        let collector = Collector::start(&config(SourceUri::Stream(uri.clone())), usize::MAX);
        // Until the sender listens, there is another reason.
        let reason = wait_until_some(&uri, || {
            let reasons = collector.offline_reasons();
            reasons.into_iter().find(|reason| reason.contains(wanted))
        });
        assert!(
            !reason.contains("secret") && !reason.contains("short"),
            "{reason}"
        );
        let _ = collector.stop();
    }
}

/// Passwords and passphrases of addresses are in no line of the log, at any level, and in no message.
#[test]
fn secrets_of_network_sources_are_not_logged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let camera = HttpCamera::start(folder.path(), None);
    let with_login = |path: &str| camera.uri(path).replace("://", "://admin:hunter2@");
    let addresses = [
        with_login("digest/still"),
        with_login("redirect/basic/mjpeg"),
        camera.uri("digest/still?usr=admin&pwd=hunter2"),
        "https://127.0.0.1:9/still?token=hunter2".to_owned(),
        format!(
            "srt://127.0.0.1:{}?mode=caller&passphrase=hunter2-srt",
            free_port()
        ),
        "rtmp://admin:hunter2@127.0.0.1:9/live/camera?token=hunter2".to_owned(),
    ];
    let sources = addresses.iter().enumerate();
    let sources: String = sources
        .map(|(number, uri)| format!("  - {{name: cam{number}, uri: '{uri}'}}\n"))
        .collect();
    let setup = Setup::new(&format!(
        "device: test\nlog: {{level: trace, gst_debug: '*:3'}}\nsources:\n{sources}detector: {{backend: onnx, model: {}/models/street-nano}}\n\
         publish: {{mqtt: off, json_lines: {{path: events.jsonl}}}}\n",
        env!("CARGO_MANIFEST_DIR"),
    ));
    let child = start(&mut setup.command("run"));
    wait_until_some("a refusal of each", || {
        let lines = setup.lines().into_iter();
        let offline = lines.filter(|line| line["state"] == "offline");
        let names: BTreeSet<_> = offline.map(|line| line["source"].to_string()).collect();
        (names.len() == addresses.len()).then_some(())
    });
    let log = terminate(child);
    let events = std::fs::read_to_string(setup.path("events.jsonl")).expect("it was written");
    for line in log.lines().chain(events.lines()) {
        assert!(!line.contains("hunter2"), "{line}");
    }
}
