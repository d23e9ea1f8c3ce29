// SPDX-License-Identifier: Apache-2.0
//! What users of other projects reported of cameras, tried here. Each row names a public thread; the list with results is
//! docs/src/field.md.

use crate::support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use jetwatch_config::{RtspTransport, SourceUri};
use jetwatch_pixels::{ImageFormat, encode_rgb};
use jetwatch_types::{Size, SourceState};

use support::collector::{CollectedFrame, Collector, config, first_reason, http, rtsp};
use support::daemon::wait_until_some;
use support::ffprobe::ffmpeg;
use support::http_camera::{Certificate, certificate};
use support::rtsp_camera::{FPS, Fault, RtspCamera, bright_stream};

const SECOND: Duration = Duration::from_secs(1);

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
    let counts_options = Fault::CountsOptions(6 * SECOND);
    #[rustfmt::skip]
    let cases: &[(&str, &[Fault])] = &[
        ("mediamtx#2908 janus-gateway#693: counts requests", &[strict]),
        ("retina#133: refuses them with 400", &[strict, Fault::Parameter(400)]),
        ("mediamtx#842: refuses them with 405", &[strict, Fault::Parameter(405)]),
        ("thingino-firmware#490: refuses them with 454", &[strict, Fault::Parameter(454)]),
        ("mediamtx#1066: refuses them with 551", &[strict, Fault::Parameter(551)]),
        ("go2rtc#2409: does not answer them", &[Fault::ParameterSilent]),
        ("go2rtc#2409: does not answer them, and counts requests", &[Fault::CountsRequests(8 * SECOND), Fault::ParameterSilent]),
        ("SharpRTSP#63 janus-gateway#1407: refuses them with 501, and counts OPTIONS only", &[counts_options, Fault::Parameter(501)]),
        ("the same with 405", &[counts_options, Fault::Parameter(405)]),
        ("the same with 454", &[counts_options, Fault::Parameter(454)]),
        ("does not answer them, and counts OPTIONS only", &[Fault::CountsOptions(8 * SECOND), Fault::ParameterSilent]),
        ("answers them, and counts OPTIONS only", &[counts_options]),
        ("go2rtc#2409: counts GET_PARAMETER only", &[Fault::CountsParameter(6 * SECOND)]),
        ("html5_rtsp_player#73: the same, and does not offer it", &[Fault::CountsParameter(6 * SECOND), Fault::NoParameter]),
        ("SharpRTSP#63: closes at the first", &[Fault::ParameterCloses]),
        ("retina#133: answers have the number of the request before", &[strict, Fault::WrongNumber]),
        ("gortsplib#437: a blank follows the number", &[strict, Fault::BlankAfterNumber]),
        ("gortsplib#549: sends ANNOUNCE after PLAY", &[strict, Fault::Announces]),
        ("mediamtx#840: the session is named by the answer to PLAY", &[strict, Fault::LateSession]),
        ("mediamtx#842: does not offer them", &[Fault::NoParameter]),
        ("mediamtx#842: does not offer them, and counts requests", &[strict, Fault::NoParameter]),
        ("media-stream-library-js#646: an address with parameters", &[
            Fault::DescriptionHeaders("Content-Base: rtsp://HOST/1?mode=Live&seek=0/\r\nContent-Type: application/sdp\r\n"),
            Fault::Control("track1", "/1?mode=Live&seek=0/track1"),
        ]),
        ("a live stream with an end", &[Fault::PlayHeaders("Range: npt=0.000-4.000\r\n")]),
        ("a live stream with a speed of 0", &[Fault::PlayHeaders("Scale: 0.0\r\nSpeed: 0.0\r\n")]),
        ("SharpRTSP#126: each log-in is refused after a while", &[strict, Fault::Sha256, Fault::NewNonces]),
        ("OvenMediaEngine#1936 janus-gateway#1922: lines end with a line feed", &[strict, Fault::LineFeeds]),
        ("gortsplib#807: a status without a text", &[strict, Fault::NoReason]),
        ("mediamtx#2304: no parameter sets described", &[Fault::NoParameterSets]),
    ];
    check_sessions(cases, &stream, RtspTransport::Tcp, None);
}

/// The same of what the packets are.
#[test]
fn streams_with_faults_deliver_whole_frames_without_a_reconnect() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 4, FPS);
    #[rustfmt::skip]
    let cases: &[(&str, &[Fault])] = &[
        ("retina#46: packets come before the answer to PLAY", &[Fault::EarlyPackets]),
        ("gortsplib#653: bytes between the packets", &[Fault::StrayBytes]),
        ("gortsplib#687 retina#79: new SSRC with each keyframe", &[Fault::NewSource]),
        ("ZLMediaKit#899: switches between two SSRCs", &[Fault::TwoSources]),
        ("retina#17 motion#1265 ZLMediaKit#748: packets of another session", &[Fault::OtherSession]),
        ("sipsorcery#536: says goodbye and goes on", &[Fault::Goodbyes]),
        ("the same, and switches between two SSRCs", &[Fault::Goodbyes, Fault::TwoSources]),
        ("RtspClientSharp#98 gortsplib#65: new payload type", &[Fault::NewPayloadType]),
        ("switches between two payload types", &[Fault::TwoPayloadTypes]),
        ("androidx/media#1225 sipsorcery#608: extensions and padding", &[Fault::ExtendedPackets]),
        ("retina#13: each packet is marked, and sets have the time before", &[Fault::MarkedSets]),
        ("gortsplib#649: fragments that are whole", &[Fault::WholeFragments]),
        ("retina#68 retina#108: start codes in a unit", &[Fault::StartCodes]),
        ("ZLMediaKit#2247 ZLMediaKit#861: reports between media, of another SSRC", &[Fault::MixedReports]),
        ("gortsplib#480: stream starts over", &[Fault::Restarts]),
        ("frigate#6922: time jumps back", &[Fault::Jump(-30)]),
        ("frigate#6922: time jumps forward", &[Fault::Jump(3600)]),
        ("thingino-firmware#640: time stands still", &[Fault::StandingTime]),
        ("ha-video-vision#120: packets are lost", &[Fault::Lost(FPS as usize / 2)]),
        ("mediamtx#1019: packets that are empty or end in their header", &[Fault::EmptyPackets]),
        ("motion#1104 RTSPtoWeb#315: first image after 7 s", &[Fault::Late(7 * SECOND)]),
        ("mediamtx#1327: joined in mid-stream", &[Fault::Live]),
    ];
    check_sessions(cases, &stream, RtspTransport::Tcp, None);
}

/// What holds a session in the clear holds one over TLS.
#[test]
fn cameras_over_tls_are_kept_alive() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 4, FPS);
    let certificate = certificate(folder.path(), "camera", "IP:127.0.0.1", None);
    #[rustfmt::skip]
    let cases: &[(&str, &[Fault])] = &[
        ("counts requests", &[Fault::CountsRequests(6 * SECOND), Fault::Parameter(405)]),
        ("refuses GET_PARAMETER with 501, and counts OPTIONS only", &[Fault::CountsOptions(6 * SECOND), Fault::Parameter(501)]),
        ("does not answer it, and counts OPTIONS only", &[Fault::CountsOptions(8 * SECOND), Fault::ParameterSilent]),
        ("answers it, and counts OPTIONS only", &[Fault::CountsOptions(6 * SECOND)]),
        ("closes at the first", &[Fault::ParameterCloses]),
        ("mediamtx#5236: wants rtsps:// in each request", &[Fault::WantsTls]),
        ("does not offer it, and counts requests", &[Fault::CountsRequests(6 * SECOND), Fault::NoParameter]),
    ];
    check_sessions(cases, &stream, RtspTransport::Tcp, Some(&certificate));
}

/// The same where media comes over UDP.
#[test]
fn streams_over_udp_are_kept_alive() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 4, FPS);
    let (strict, counts_options) = (
        Fault::CountsRequests(6 * SECOND),
        Fault::CountsOptions(6 * SECOND),
    );
    #[rustfmt::skip]
    let cases: &[(&str, &[Fault])] = &[
        ("counts requests", &[Fault::UdpOnly, strict]),
        ("refuses GET_PARAMETER with 405", &[Fault::UdpOnly, strict, Fault::Parameter(405)]),
        ("counts OPTIONS only, and refuses it with 405", &[Fault::UdpOnly, counts_options, Fault::Parameter(405)]),
        ("the same with 454", &[Fault::UdpOnly, counts_options, Fault::Parameter(454)]),
        ("the same with 501", &[Fault::UdpOnly, counts_options, Fault::Parameter(501)]),
        ("counts OPTIONS only, and does not answer it", &[Fault::UdpOnly, Fault::CountsOptions(8 * SECOND), Fault::ParameterSilent]),
        ("does not offer it, and counts requests", &[Fault::UdpOnly, strict, Fault::NoParameter]),
        ("answers it, and counts OPTIONS only", &[Fault::UdpOnly, counts_options]),
        ("closes at the first", &[Fault::UdpOnly, Fault::ParameterCloses]),
        ("switches between two SSRCs", &[Fault::UdpOnly, Fault::TwoSources]),
        ("says goodbye and goes on", &[Fault::UdpOnly, Fault::Goodbyes]),
    ];
    check_sessions(cases, &stream, RtspTransport::Udp, None);
}

/// The address of a camera whose media comes by this transport.
fn rtsp_over(by: RtspTransport, location: String, login: Option<(&str, &str)>) -> SourceUri {
    let mut uri = rtsp(location, login);
    if let SourceUri::Rtsp { transport, .. } = &mut uri {
        *transport = by;
    }
    uri
}

/// Runs a source for each of these cameras as long as three timeouts of the strictest, and checks that none is connected to again, but those
/// that show only at the end of a session what they want.
fn check_sessions(
    cases: &[(&str, &[Fault])],
    stream: &Path,
    transport: RtspTransport,
    certificate: Option<&Certificate>,
) {
    // More at once than this take the time that they count from each other on a busy machine.
    for cases in cases.chunks(8) {
        check_sessions_at_once(cases, stream, transport, certificate);
    }
}

fn check_sessions_at_once(
    cases: &[(&str, &[Fault])],
    stream: &Path,
    transport: RtspTransport,
    certificate: Option<&Certificate>,
) {
    let running = cases.iter().map(|(_, faults)| {
        let mut camera = RtspCamera::start(stream, faults);
        if let Some(certificate) = certificate {
            camera = camera.over_tls(&certificate.with_key);
        }
        let login = faults
            .contains(&Fault::Sha256)
            .then_some(("admin", "p@ss:1"));
        let mut source = config(rtsp_over(transport, camera.uri(), login));
        source.ca_file = certificate.map(|it| it.certificate.clone());
        source.stall_timeout = 20 * SECOND;
        // Longer than a closed connection is taken for an answer.
        source.reconnect_wait = SECOND + SECOND / 2;
        source.reconnect_max_wait = 3 * SECOND;
        (Collector::start(&source, usize::MAX), camera)
    });
    let running: Vec<_> = running.collect();
    for ((what, faults), (source, camera)) in cases.iter().zip(running) {
        let has = |fault: Fault| faults.contains(&fault);
        let counts_parameter = (faults.iter()).any(|it| matches!(it, Fault::CountsParameter(_)));
        // What it wants shows at the end of the first session.
        let is_learned = has(Fault::ParameterCloses) || counts_parameter && has(Fault::NoParameter);
        let wanted = u64::from(is_learned);
        wait_until_some(what, || {
            (source.counters.reconnects() >= wanted).then_some(())
        });
        let end = camera.played() * u32::from(is_learned) + 18 * SECOND;
        wait_until_some("three timeouts", || (camera.played() > end).then_some(()));
        // More than a stream has before it returns to an earlier SSRC.
        source.wait_for_frames(8 * FPS as usize, what);
        let reasons = source.offline_reasons();
        let seen = source.counters.reconnects();
        assert_eq!(seen, wanted, "{what}: {reasons:?}");
        assert!(source.has_reached(SourceState::Online), "{what}");
        let is_asked = camera.requests("GET_PARAMETER") > 0;
        let is_offered = !has(Fault::NoParameter);
        assert_eq!(is_asked, is_offered || counts_parameter, "{what}");
        let (frames, _) = source.stop();
        check_whole(&frames, what);
    }
}

/// koush/scrypted#1480: a doorbell that ends its session so left its clients waiting.
#[test]
fn a_goodbye_behind_the_last_packet_ends_the_session() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 4, FPS);
    for (by, faults) in [
        (RtspTransport::Tcp, [Fault::Leaves, Fault::Live]),
        (RtspTransport::Udp, [Fault::Leaves, Fault::UdpOnly]),
        (RtspTransport::Multicast, [Fault::Leaves, Fault::UdpOnly]),
    ] {
        let camera = RtspCamera::start(&stream, &faults);
        let mut source = config(rtsp_over(by, camera.uri(), None));
        source.stall_timeout = 60 * SECOND;
        let source = Collector::start(&source, usize::MAX);
        let reason = wait_until_some("the end", || source.offline_reasons().into_iter().next());
        assert_has!(reason => "ended");
        check_whole(&source.stop().0, "goodbye");
    }
}

/// AlexxIT/go2rtc#1881, and the camera that clients are sent to wants OPTIONS.
#[test]
fn a_camera_that_clients_are_sent_to_is_kept_alive() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 4, FPS);
    let wants_options = [Fault::CountsOptions(6 * SECOND), Fault::Parameter(405)];
    let other = RtspCamera::start(&stream, &wants_options);
    let camera = RtspCamera::start(&stream, &[Fault::Moved(other.port())]);
    let source = Collector::start(&config(rtsp(camera.uri(), None)), usize::MAX);
    wait_until_some("keep-alives over three timeouts", || {
        (other.requests("OPTIONS") > 9).then_some(())
    });
    assert_eq!(source.offline_reasons(), Vec::<String>::new());
    check_whole(&source.stop().0, "moved");
}

/// Descriptions and their headers as cameras write them.
#[test]
fn descriptions_that_are_not_as_they_should_be_are_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 4, FPS);
    let other = RtspCamera::start(&stream, &[]);
    #[rustfmt::skip]
    let cases: &[(&str, Fault)] = &[
        (
            "go2rtc#2316: a port and an address that are none",
            Fault::Description(&[(
                "m=video 0 RTP/AVP 96\r\n",
                "m=video -1353744643 RTP/AVP 96\r\nc=IN IP4 '&\u{fffd}\u{fffd}\r\n",
            )]),
        ),
        ("go2rtc#2245 go2rtc#679: three lines", Fault::Description(&[("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=camera\r\nt=0 0\r\na=control:*\r\n", "")])),
        ("go2rtc#1278: media of a kind that is none", Fault::Description(&[("a=control:track1\r\n", "a=control:track1\r\nm=vana 0 RTP/AVP 107\r\na=control:track3\r\n")])),
        (
            "go2rtc#1663: metadata, and lines that are cut",
            Fault::Description(&[(
                "a=control:track1\r\n",
                "a=control:track1\r\na=recvonly\r\nm=application 0 RTP/AVP 107\r\nc=IN\r\na=control:track3\r\na=rtpmap:107 vnd.onvif.metadata/90000\r\na=fmtp:107 DecoderTag=h3c-v3 RTCP=0\r\na=recvonly\r\n",
            )]),
        ),
        (
            "go2rtc#708: media of a maker's own",
            Fault::Description(&[(
                "a=control:track1\r\n",
                "a=control:track1\r\nm=application/MERCURY 0 RTP/AVP smart/1/90000\r\na=rtpmap:95 MERCURY/90000\r\na=control:track3\r\n",
            )]),
        ),
        ("mediamtx#2762: an origin without an address", Fault::Description(&[("o=- 1 1 IN IP4 127.0.0.1", "o=Channel1 3910280086 3910366486 IN IP4")])),
        ("mediamtx#127: an origin with a blank in its name", Fault::Description(&[("o=- 1 1 IN IP4", "o=RTSP Session 0 0 IN IP4")])),
        ("mediamtx#2473: no name", Fault::Description(&[("s=camera\r\n", "")])),
        ("mediamtx#5033: a connection that is cut", Fault::Description(&[("t=0 0\r\n", "c=IN \r\nt=0 0\r\n")])),
        ("mediamtx#2348: parameter sets that are none", Fault::Description(&[("sprop-parameter-sets=", "sprop-parameter-sets=AAAAAQ==,")])),
        ("retina#9: no control address of the session", Fault::Description(&[("a=control:*\r\n", "")])),
        ("gortsplib#72: other channels than asked for", Fault::Channels(Some(4))),
        ("gortsplib#142: no channels named", Fault::Channels(None)),
        ("retina#120: an SSRC before them", Fault::NamesSource),
        ("minisatip#1164: an empty line before it", Fault::EmptyLine),
        ("retina#42: parameter sets that are damaged", Fault::Description(&[("sprop-parameter-sets=", "sprop-parameter-sets=6QAMrOw=,aO48MA==,")])),
        ("moonfire-nvr#213: a blank at the end, and no rate", Fault::Description(&[("H264/90000\r\n", "H264/90000 \r\na=framerate:0S\r\n")])),
        ("mediamtx#95: two attributes on one line, and a range of clocks", Fault::Description(&[("a=control:*\r\n", "a=control:*a=recvonly\r\na=range:clock=20200908T132728Z-20200909T030844Z;clock=20200909T031019Z-20200909T103133Z\r\n")])),
        ("rtsp-client-android#90: sound of no type", Fault::Description(&[("a=control:track1\r\n", "a=control:track1\r\nm=audio 0 RTP/AVP (null)\r\nb=AS:64\r\na=rtpmap\r\na=control:track3\r\n")])),
        ("SharpRTSP#119: lines in another order", Fault::Description(&[("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=camera\r\n", "v=0\r\ni=camera\r\ns=camera\r\no=- 1 1 IN IP4 127.0.0.1\r\n")])),
        ("kerberos-io/agent#105: parameter sets that are empty", Fault::Description(&[("sprop-parameter-sets=", "sprop-parameter-sets=;more=")])),
        ("mediamtx#5861: parameter sets in the description only", Fault::DescribedSets),
        ("janus-gateway#1869: a control address with parameters", Fault::Control("rtsp://HOST/live/stream=1?videopsenabled=1", "/live/stream=1?videopsenabled=1")),
        ("mediamtx#368: a header without a value", Fault::EmptyHeader),
        ("ExoPlayer#9254: names a session", Fault::EarlySession),
        ("ZLMediaKit#1246: OPTIONS is forbidden", Fault::Options(403)),
        ("rtsp-simple-proxy#10: OPTIONS is not found", Fault::Options(404)),
        ("OPTIONS is not known", Fault::Options(501)),
        ("go2rtc#1881 mediamtx#150: moved to another port", Fault::Moved(other.port())),
        ("go2rtc#208: rtsp:// twice", Fault::DescriptionHeaders("Content-Base: rtsp://rtsp://HOST/live/\r\nContent-Type: application/sdp\r\n")),
        ("moonfire-nvr#356: no rtsp://", Fault::DescriptionHeaders("Content-Base: HOST/live/\r\nContent-Type: application/sdp\r\n")),
        ("moonfire-nvr#300: no type", Fault::DescriptionHeaders("Content-Base: rtsp://HOST/live/\r\n")),
    ];
    let running = cases.iter().map(|(what, fault)| {
        let camera = RtspCamera::start(&stream, &[*fault]);
        let source = Collector::start(&config(rtsp(camera.uri(), None)), usize::MAX);
        (what, source, camera)
    });
    let mut wrong = Vec::new();
    for (what, source, _camera) in running.collect::<Vec<_>>() {
        wait_until_some("frames, or a reason", || {
            let is_over = source.count() >= FPS as usize || !source.offline_reasons().is_empty();
            is_over.then_some(())
        });
        let reasons = source.offline_reasons();
        if !reasons.is_empty() {
            wrong.push(format!("{what}: {reasons:?}"));
        }
        check_whole(&source.stop().0, what);
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// OpenIPC/smolrtsp#31: blanks, and no port for reports. Others leave `unicast` out, which then means multicast.
#[test]
fn answers_to_setup_over_udp_may_lack_words() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 1, FPS);
    for answer in [
        "RTP/AVP/UDP; unicast; client_port=CLIENT",
        "RTP/AVP;client_port=CLIENT;server_port=SERVER",
        "RTP/AVP/UDP;client_port=CLIENT;mode=\"PLAY\"",
        "RTP/AVP;unicast;destination=127.0.0.1;source=127.0.0.1;client_port=CLIENT;server_port=SERVER;ssrc=",
    ] {
        let camera = RtspCamera::start(&stream, &[Fault::UdpAnswer(answer)]);
        let uri = rtsp_over(RtspTransport::Udp, camera.uri(), None);
        let source = Collector::start(&config(uri), usize::MAX);
        source.wait_for_frames(FPS as usize, answer);
        assert_eq!(source.offline_reasons(), Vec::<String>::new(), "{answer}");
        check_whole(&source.stop().0, answer);
    }
}

#[test]
fn refusals_of_rtsp_cameras_say_what_to_set() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 1, FPS);
    #[rustfmt::skip]
    let cases = [
        ("RTSPtoWeb#249 frigate#1907", Fault::UdpOnly, "transport: udp"),
        ("webrtc-streamer#174", Fault::Describe(453), "serves no further client"),
        ("unifi-cam-proxy#340", Fault::Describe(503), "serves no further client"),
        ("sound alone", Fault::Description(&[("m=video", "m=audio")]), "no video stream (found: audio)"),
    ];
    for (thread, fault, wanted) in cases {
        let camera = RtspCamera::start(&stream, &[fault]);
        let reason = first_reason(&config(rtsp(camera.uri(), None)));
        assert!(reason.contains(wanted), "{thread}: {reason}");
    }
    let camera = RtspCamera::start(&stream, &[]);
    let mut source = config(rtsp(camera.uri(), None));
    source.track = Some(3);
    assert_has!(first_reason(&source) => "track is 3, but the camera offers 1 video streams");
    let page = serve_http(vec![(head("text/html"), Vec::new())]).replace("http:", "rtsp:");
    let reason = first_reason(&config(rtsp(page, None)));
    assert_has!(reason => "does not speak RTSP; check the port");
}

/// Cameras whose log-in is set to Digest with SHA-256 alone.
#[test]
fn a_camera_that_takes_sha_256_only_is_logged_in_with() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 1, FPS);
    let camera = RtspCamera::start(&stream, &[Fault::Sha256]);
    let address = |password: &str| rtsp(camera.uri(), Some(("admin", password)));
    let source = Collector::start(&config(address("p@ss:1")), usize::MAX);
    source.wait_for_frames(FPS as usize, "a second of frames");
    assert_eq!(source.offline_reasons(), Vec::<String>::new());
    check_whole(&source.stop().0, "SHA-256");
    let reason = first_reason(&config(address("wrong")));
    assert_has!(reason => "check user and password");
}

#[test]
fn a_silent_stream_of_several_can_be_passed_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stream = bright_stream(folder.path(), 1, FPS);
    let camera = RtspCamera::start(&stream, &[Fault::TwoStreams]);
    let mut source = config(rtsp(camera.uri(), None));
    source.stall_timeout = 2 * SECOND;
    let reason = first_reason(&source);
    assert_has!(reason => "set track: 0, 1");
    source.track = Some(1);
    source.stall_timeout = 20 * SECOND;
    let second = Collector::start(&source, usize::MAX);
    second.wait_for_frames(FPS as usize, "a second of frames");
    check_whole(&second.stop().0, "the second stream");
}

#[test]
fn a_client_that_joins_at_any_moment_gets_whole_frames_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let group = 12;
    let stream = bright_stream(folder.path(), group, group * FPS);
    let camera = RtspCamera::start(&stream, &[Fault::Live]);
    let begun = Instant::now();
    // Points of the group in no order, in tenths of a second.
    let points = (0..20).map(|number| number * 37 % 120);
    let mut moments: Vec<Duration> = points.map(|it| Duration::from_millis(it * 100)).collect();
    moments.sort();
    let mut moments = moments.into_iter().peekable();
    let mut joined: Vec<(Instant, Collector, Option<Duration>)> = Vec::new();
    wait_until_some("a frame of each", || {
        if moments.next_if(|due| begun.elapsed() >= *due).is_some() {
            let source = Collector::start(&config(rtsp(camera.uri(), None)), usize::MAX);
            joined.push((Instant::now(), source, None));
        }
        for (at, source, wait) in &mut joined {
            if wait.is_none() && source.count() > 0 {
                *wait = Some(at.elapsed());
            }
        }
        let have_frames = joined.iter().all(|(.., wait)| wait.is_some());
        (have_frames && moments.peek().is_none()).then_some(())
    });
    let longest = joined.iter().filter_map(|(.., wait)| *wait).max();
    println!("a group of {group} s: the first frame after {longest:?} at most");
    for (number, (_, source, _)) in joined.into_iter().enumerate() {
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
    source.wait_for_frames(25, "frames behind the sound");
    assert_eq!(source.offline_reasons(), Vec::<String>::new());
    let _ = source.stop();
}

#[test]
fn cameras_over_http_deliver_images_whatever_is_around_them() {
    let image = jpeg();
    let length = image.len();
    let part = |before: &str, after: &str| [before.as_bytes(), &image, after.as_bytes()].concat();
    let typed =
        |length: usize| format!("Content-Type: image/jpeg\r\nContent-Length: {length}\r\n\r\n");
    let audio =
        "--d\r\nContent-Type: audio/g711\r\n\r\nabc\r\n--d\r\nContent-Type: image/jpeg\r\n\r\n";
    let parts = |boundary: &str| head(&format!("multipart/x-mixed-replace; boundary={boundary}"));
    let no_type = "HTTP/1.0 200 OK\r\n\r\n".to_owned();
    let blank = head("multipart/x-mixed-replace;boundary=video boundary--");
    let jpeg_type = "Content-Type: image/jpeg\r\n\r\n";
    let many_headers = "--f\r\nX-Status: 0\r\nX-Tags:\r\nX-Flags: 0\r\nDate: 01-01-2011 03:30:45 AM IO_00000000_PT_003_000\r\nContent-Type: image/jpeg\r\n\r\n";
    let broken_headers = "HTTP/1.1 200 OK\r\nServer: GoaHead\r\nTue, 12 Jun 2012 01:56:34 GMT\r\nExpires: Thu, %d %d %d %d:%d:%d GMT\r\n\
        Content-Type:multipart/x-mixed-replace;boundary=f\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=f\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = |bytes: Vec<u8>| {
        let size = format!("{:x}\r\n", bytes.len());
        [size.as_bytes(), &bytes, b"\r\n"].concat()
    };
    #[rustfmt::skip]
    let many = [
        ("Motion#807", parts("frame"), part(&format!("--frame\r\n{}", typed(length)), "\r\n")),
        ("esp32cam#67: the boundary comes last", parts("123"), part(&typed(length), "\r\n--123\r\n")),
        ("multipart-stream-rs#2: another boundary", parts("\"--x\""), part("----y\r\nContent-Type: image/jpeg\r\n\r\n", "\r\n")),
        ("mjpeg-proxy#12: a blank within it", blank, part("--video boundary--\r\n\r\n", "")),
        ("MissionPlanner#3603: a length that is wrong", parts("f"), part(&format!("--f\r\n{}", typed(length - 2)), "\r\n")),
        ("sim-use#131: no multipart", head("image/jpeg"), part("", "")),
        ("camera_proxy#5: no type", no_type, part("--b\r\n\r\n", "\r\n")),
        ("go2rtc#545: other parts between", parts("d"), part(audio, "\r\n")),
        ("node-mjpeg-test-server#1: other bytes between", parts("f"), part(&format!("--f\r\n{jpeg_type}"), "\r\n\r\n6b5\r\n")),
        ("OctoPrint-Obico#151: a length that is larger", parts("f"), part(&format!("--f\r\n{}", typed(length + 300)), "\r\n")),
        ("flutter_mjpeg#41: a length that is not a number", parts("f"), part("--f\r\nContent-Length: abc\r\nContent-Type: image/jpeg\r\n\r\n", "\r\n")),
        ("viseron#355: no line end behind the boundary", parts("--jpgboundary"), part(&format!("--jpgboundary{}", typed(length)), "\r\n")),
        ("motioneye#733: no dashes before the boundary", parts("f"), part(&format!("f\r\n{}", typed(length)), "\r\n")),
        ("line feeds alone", parts("f"), part(&format!("--f\r\n{}", typed(length)).replace('\r', ""), "\n")),
        ("SimpleCV#93 Paparazzo.js#11: many headers, and a long one", parts("f"), part(many_headers, "\r\n")),
        ("core#14960 cc-fw-tools#108: headers that are none", broken_headers.to_owned(), part(&format!("--f\r\n{}", typed(length)), "\r\n")),
        ("esp32-camera#146: in chunks", chunked.to_owned(), chunk(part(&format!("--f\r\n{}", typed(length)), "\r\n"))),
        ("mjpg-streamer#100: cut images", parts("f"), [part("--f\r\n\r\n", "\r\n--f\r\n\r\n"), image[..length / 2].to_vec()] .concat()),
    ];
    let mut cases = many
        .map(|(what, head, piece)| (what, head, vec![piece; 400]))
        .to_vec();
    let mut begun = vec![b"\0\xff\xd8 stray\r\n\r\n".to_vec()];
    begun.extend(vec![
        part(&format!("--f\r\n{}", typed(length)), "\r\n");
        400
    ]);
    cases.push(("other bytes before the first boundary", parts("f"), begun));
    let both = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\nContent-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    cases.push((
        "Prusa-Firmware-ESP32-Cam#136: a still image in chunks, with a length",
        both,
        vec![chunk(image.clone()), b"0\r\n\r\n".to_vec()],
    ));
    let slow = image.chunks(300).map(<[u8]>::to_vec).collect();
    cases.push((
        "a still image, fetched again",
        head("image/jpeg"),
        vec![image.clone()],
    ));
    cases.push(("a still image of a slow camera", head("image/jpeg"), slow));
    let mut cases: Vec<(&str, Vec<_>)> = (cases.into_iter())
        .map(|(what, head, pieces)| (what, vec![(head, pieces)]))
        .collect();
    let still = (head("image/jpeg"), vec![image.clone()]);
    let empty = (
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
        Vec::new(),
    );
    let answers = [&still, &empty, &still, &empty, &empty, &still].map(Clone::clone);
    cases.push((
        "motioneye#601: an empty answer now and then",
        answers.to_vec(),
    ));
    let running = cases.into_iter().map(|(what, answers)| {
        let source = config(http(serve_http(answers), None));
        (what, Collector::start(&source, usize::MAX))
    });
    for (what, source) in running.collect::<Vec<_>>() {
        source.wait_for_frames(5, what);
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
    let announced = "HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=f\r\nContent-Length: 99999999\r\n\r\n".to_owned();
    let part = [b"--f\r\n\r\n", &jpeg()[..]].concat();
    let collector = Collector::start(
        &config(http(serve_http(vec![(announced, vec![part; 9])]), None)),
        usize::MAX,
    );
    let reason = wait_until_some("its end", || collector.offline_reasons().into_iter().next());
    assert_has!(reason => "before the length that it announced");
    let gone = "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
    let still = (head("image/jpeg"), vec![jpeg()]);
    let mut source = config(http(serve_http(vec![still, (gone, Vec::new())]), None));
    source.stall_timeout = 2 * SECOND;
    let collector = Collector::start(&source, usize::MAX);
    let reason = wait_until_some("a reason", || {
        collector.offline_reasons().into_iter().next()
    });
    assert_has!(reason => "404");
    #[rustfmt::skip]
    let cases = [
        ("motioneye#1281", not_found, vec![], "404"),
        ("frigate#5927", refused, vec![], "check user and password"),
        ("homebridge-camera-ffmpeg#1091", head("text/html"), vec![b"<html><body>Log in</body></html>".to_vec()], "this is text (text/html)"),
        ("go2rtc#676", head("multipart/x-mixed-replace; boundary=x"), parts, "no JPEG image"),
        ("an error in JSON", head("application/json"), vec![b"{\"error\": \"not logged in\"}".to_vec()], "this is text (application/json)"),
        ("an error without a type", "HTTP/1.0 200 OK\r\n\r\n".to_owned(), vec![b"camera busy\n".to_vec()], "this is text (of no kind)"),
        ("an image of another kind", head("image/png"), vec![b"\x89PNG\r\n\x1a\n".to_vec()], "the server sends PNG"),
        ("an image of another kind in boxes", head("image/avif"), vec![b"\0\0\0\x20ftypavif\0\0\0\0".to_vec()], "the server sends AVIF"),
    ];
    for (thread, head, pieces, wanted) in cases {
        let address = serve_http(vec![(head, pieces)]);
        let reason = first_reason(&config(http(address, Some(("admin", "p@ss")))));
        assert!(reason.contains(wanted), "{thread}: {reason}");
    }
}
