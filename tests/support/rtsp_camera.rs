// SPDX-License-Identifier: Apache-2.0
//! An RTSP camera that sends an H.264 stream over the control connection or over UDP, with the faults of real ones.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gstreamer::glib;
use sha2::{Digest, Sha256};

use super::ffprobe;
use super::rtsp::RtspServer;
use super::rtsp_output::Output;

/// Images per second.
pub const FPS: u32 = 10;

/// What a camera does wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// The session ends after this long of its [time](RtspCamera::played) without a request; RTCP does not count. Its timeout is two thirds
    /// of it, in whole seconds.
    CountsRequests(Duration),
    /// As before, and GET_PARAMETER does not count.
    CountsOptions(Duration),
    /// As before, and only GET_PARAMETER counts, once the stream plays.
    CountsParameter(Duration),
    /// Status of the answer to GET_PARAMETER.
    Parameter(u16),
    /// GET_PARAMETER is not answered.
    ParameterSilent,
    /// GET_PARAMETER closes the connection.
    ParameterCloses,
    /// GET_PARAMETER is not among the methods that it names.
    NoParameter,
    /// Answers have the number of the request before.
    WrongNumber,
    /// A blank follows the number in answers.
    BlankAfterNumber,
    /// More headers of the answer to PLAY.
    PlayHeaders(&'static str),
    /// It sends a request, ANNOUNCE, after the answer to PLAY.
    Announces,
    /// The status of its answers is a number alone.
    NoReason,
    /// An empty line is before the description, and does not count as a part of it.
    EmptyLine,
    /// The answer to SETUP names an SSRC before the channels.
    NamesSource,
    /// Lines of its answers end with a line feed alone.
    LineFeeds,
    /// Each answer has a header without a value.
    EmptyHeader,
    /// The description names a session.
    EarlySession,
    /// The video's control address, where `HOST` stands for the camera's, and what it adds up to; another one is not found.
    Control(&'static str, &'static str),
    /// Each packet of an image is marked as the last one, and parameter sets have the time of the image before.
    MarkedSets,
    /// What needs no fragments comes as one.
    WholeFragments,
    /// A keyframe and its parameter sets are one unit, with start codes between.
    StartCodes,
    /// Sender reports (RTCP) of another SSRC come where media does.
    MixedReports,
    /// Packets have a header extension, and padding.
    ExtendedPackets,
    /// Packets come before the answer to PLAY.
    EarlyPackets,
    /// The answer to SETUP names no session, that to PLAY does.
    LateSession,
    /// Every seventh packet is followed by bytes that are none.
    StrayBytes,
    /// A client joins where the stream is by the clock.
    Live,
    /// The SSRC changes with each keyframe.
    NewSource,
    /// The SSRC changes every two seconds, between two of them.
    TwoSources,
    /// Each packet comes behind one of another client's session, with another SSRC.
    OtherSession,
    /// It says goodbye (RTCP BYE) before each image.
    Goodbyes,
    /// It says goodbye after two seconds, and sends nothing more.
    Leaves,
    /// The payload type changes after two seconds.
    NewPayloadType,
    /// The payload type changes every two seconds, between two of them.
    TwoPayloadTypes,
    /// Sequence numbers and SSRC start over after two seconds.
    Restarts,
    /// Timestamps jump by this many seconds after two seconds.
    Jump(i32),
    /// All timestamps are the same.
    StandingTime,
    /// The second packet of each image of this number in its group is lost.
    Lost(usize),
    /// Every seventh packet is followed by one of 0 to 11 bytes, less than a header.
    EmptyPackets,
    /// The first image comes after this long.
    Late(Duration),
    /// No parameter sets in the description.
    NoParameterSets,
    /// The description is another one in these parts.
    Description(&'static [(&'static str, &'static str)]),
    /// Headers of the description, in place of Content-Base and Content-Type; `HOST` stands for its address.
    DescriptionHeaders(&'static str),
    /// The answer to DESCRIBE.
    Describe(u16),
    /// DESCRIBE is answered with 302, and the address of the camera at this port.
    Moved(u16),
    /// The answer to SETUP names other channels than were asked for, or none.
    Channels(Option<u8>),
    /// It answers 301 to requests whose address is not `rtsps://`, over TLS, too.
    WantsTls,
    /// Status of the answer to OPTIONS.
    Options(u16),
    /// Parameter sets are in the description, and not in the stream.
    DescribedSets,
    /// It sends over UDP only.
    UdpOnly,
    /// As before, and answers SETUP with this transport, for CLIENT and SERVER the ports.
    UdpAnswer(&'static str),
    /// Two video streams are described, and the first sends nothing.
    TwoStreams,
    /// It takes Digest with SHA-256 only, for the user `admin` with the password `p@ss:1`, and a nonce of each connection.
    Sha256,
    /// The nonce is another one every three seconds of its time, for OPTIONS as well, and the answer does not say that it is stale.
    NewNonces,
}

/// A camera that runs until the process ends.
pub struct RtspCamera {
    port: u16,
    /// What speaks TLS in front of it.
    tls: Option<RtspServer>,
    log: Arc<Log>,
}

/// What a camera has seen.
#[derive(Default)]
struct Log {
    requests: Mutex<Vec<String>>,
    /// Time of all sessions.
    ticks: AtomicU32,
}

/// The unit of a session's time. It is counted, not read from a clock: where a busy machine runs the camera late, its sessions last longer,
/// as its clients run late, too.
const TICK: Duration = Duration::from_millis(20);

struct Stream {
    faults: Vec<Fault>,
    /// NAL units of each image.
    images: Vec<Vec<Vec<u8>>>,
    started: Instant,
}

impl RtspCamera {
    /// Starts it with `stream`, a file in H.264's byte stream format.
    pub fn start(stream: &Path, faults: &[Fault]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let bytes = std::fs::read(stream).expect("the stream can be read");
        let stream = Arc::new(Stream {
            faults: faults.to_vec(),
            images: images_of(&bytes),
            started: Instant::now(),
        });
        let log: Arc<Log> = Arc::default();
        let seen = Arc::clone(&log);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (stream, log) = (Arc::clone(&stream), Arc::clone(&seen));
                thread::spawn(move || {
                    // Fails when the client has left.
                    let _ = serve(&client, port, &stream, &log);
                    let _ = client.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        Self {
            port,
            tls: None,
            log,
        }
    }

    /// The same over TLS, with the certificate and key in a file.
    pub fn over_tls(mut self, certificate: &Path) -> Self {
        let certificate = certificate.display().to_string();
        let arguments = [certificate.as_str(), &self.port.to_string()];
        self.tls = Some(RtspServer::start_script("tls_front.py", &arguments));
        self
    }

    /// Its address.
    pub fn uri(&self) -> String {
        match &self.tls {
            Some(front) => format!("rtsps://127.0.0.1:{}/live", front.port),
            None => format!("rtsp://127.0.0.1:{}/live", self.port),
        }
    }

    /// Its port, without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many requests of this method have come.
    pub fn requests(&self, method: &str) -> usize {
        let requests = self.log.requests.lock().unwrap();
        requests.iter().filter(|it| *it == method).count()
    }

    /// Time of its sessions.
    pub fn played(&self) -> Duration {
        TICK * self.log.ticks.load(Ordering::Relaxed)
    }
}

/// Makes a bright video with a box that moves, a keyframe every `group` images, and no B-frames.
pub fn bright_stream(folder: &Path, seconds: u32, group: u32) -> std::path::PathBuf {
    let path = folder.join(format!("bright-{group}.h264"));
    let source = format!("color=white:s=320x240:r={FPS}:d={seconds}");
    let drawn = "noise=alls=12:allf=t,drawbox=x=mod(t*80\\,280):y=90:w=40:h=40:c=yellow:t=fill";
    let group = group.to_string();
    let coded = format!(
        "-c:v libx264 -preset ultrafast -tune zerolatency -bf 0 -g {group} -keyint_min {group} -sc_threshold 0 -f h264"
    );
    let mut arguments = vec!["-f", "lavfi", "-i", &source, "-vf", drawn];
    arguments.extend(coded.split(' '));
    ffprobe::make(&arguments, &path);
    path
}

/// Whether a request has the credentials for [`Fault::Sha256`] (RFC 7616).
fn is_login(request: &str, nonce: &str) -> bool {
    let hash = |text: String| -> String {
        let digest = Sha256::digest(text.as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let value = |name: &str| {
        let (_, after) = request.split_once(&format!("{name}="))?;
        let value = after.trim_start_matches('"');
        Some(value[..value.find(['"', ',', '\r'])?].to_owned())
    };
    let answer = || {
        let mut words = request.split(' ');
        let (method, uri) = (words.next()?, words.next()?);
        let secret = hash("admin:IP Camera(12, 3):p@ss:1".to_owned());
        let what = hash(format!("{method}:{uri}"));
        let (count, cnonce) = (value("nc")?, value("cnonce")?);
        let wanted = hash(format!("{secret}:{nonce}:{count}:{cnonce}:auth:{what}"));
        Some(uri.starts_with("rtsp://127.0.0.1:") && value("response")? == wanted)
    };
    answer().unwrap_or(false)
}

fn kind(unit: &[u8]) -> u8 {
    unit.first().map_or(0, |byte| byte & 31)
}

fn is_keyframe(image: &[Vec<u8>]) -> bool {
    image.iter().any(|unit| kind(unit) == 5)
}

/// NAL units by image.
fn images_of(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut starts: Vec<usize> = Vec::new();
    for at in 0..bytes.len().saturating_sub(3) {
        if bytes[at..at + 3] == [0, 0, 1] {
            starts.push(at + 3);
        }
    }
    let mut images: Vec<Vec<Vec<u8>>> = vec![Vec::new()];
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(bytes.len(), |next| next - 3);
        let mut unit = bytes[start..end].to_vec();
        while unit.last() == Some(&0) {
            unit.pop();
        }
        let is_slice = |unit: &[u8]| matches!(kind(unit), 1 | 5);
        let begins = match kind(&unit) {
            1 | 5 => unit.get(1).is_some_and(|byte| byte & 0x80 != 0),
            6..=9 => true,
            _ => false,
        };
        let image = images.last_mut().expect("one is there");
        if begins && image.iter().any(|unit| is_slice(unit)) {
            images.push(vec![unit]);
        } else {
            image.push(unit);
        }
    }
    images
}

fn serve(
    client: &TcpStream,
    port: u16,
    stream: &Arc<Stream>,
    log: &Arc<Log>,
) -> std::io::Result<()> {
    let has = |fault: Fault| stream.faults.contains(&fault);
    let udp_answer = stream.faults.iter().find_map(|fault| match fault {
        Fault::UdpAnswer(answer) => Some(*answer),
        _ => None,
    });
    let is_udp = udp_answer.is_some() || has(Fault::UdpOnly);
    let writer = Arc::new(Mutex::new(client.try_clone()?));
    let patience = stream.faults.iter().find_map(|fault| match fault {
        Fault::CountsRequests(limit)
        | Fault::CountsOptions(limit)
        | Fault::CountsParameter(limit) => Some(*limit),
        _ => None,
    });
    let counts = |fault: fn(Duration) -> Fault| patience.is_some_and(|limit| has(fault(limit)));
    let counts_options = counts(Fault::CountsOptions);
    let counts_parameter = counts(Fault::CountsParameter);
    // While the client is connected.
    let is_served = Arc::new(());
    let since_request = Arc::new(AtomicU32::new(0));
    let (ticks, seen) = (Arc::clone(&since_request), Arc::clone(log));
    let (serving, connection) = (Arc::downgrade(&is_served), client.try_clone()?);
    thread::spawn(move || {
        while serving.upgrade().is_some() {
            thread::sleep(TICK);
            seen.ticks.fetch_add(1, Ordering::Relaxed);
            let idle = TICK * (ticks.fetch_add(1, Ordering::Relaxed) + 1);
            if patience.is_some_and(|limit| idle >= limit) {
                let _ = connection.shutdown(std::net::Shutdown::Both);
            }
        }
    });
    let timeout = patience.map_or(60, |limit| (limit.as_secs() * 2 / 3).max(1));
    let session = format!("Session: 12345678;timeout={timeout}\r\n");
    let mut is_playing = false;
    let mut reader = BufReader::new(client);
    // Where the stream is sent, once it is set up.
    let mut output = None;
    loop {
        let mut first = [0];
        reader.read_exact(&mut first)?;
        if first == *b"$" {
            let mut head = [0; 3];
            reader.read_exact(&mut head)?;
            let length = u16::from_be_bytes([head[1], head[2]]);
            std::io::copy(
                &mut (&mut reader).take(u64::from(length)),
                &mut std::io::sink(),
            )?;
            continue;
        }
        let mut request = String::from_utf8_lossy(&first).into_owned();
        while !request.ends_with("\r\n\r\n") {
            if reader.read_line(&mut request)? == 0 {
                return Ok(());
            }
        }
        let header = |name: &str| {
            let lines = request.lines();
            let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            values.next().unwrap_or_default().to_owned()
        };
        let length: u64 = header("Content-Length").parse().unwrap_or(0);
        std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
        let method = request.split(' ').next().unwrap_or_default().to_owned();
        log.requests.lock().unwrap().push(method.clone());
        let reply = |status: &str, headers: &str, body: &str| {
            let length = match body.len() {
                0 => String::new(),
                length => format!("Content-Length: {length}\r\n"),
            };
            let mut number = header("CSeq");
            if has(Fault::WrongNumber) {
                let asked: u32 = number.parse().unwrap_or(0);
                number = asked.saturating_sub(1).to_string();
            }
            if has(Fault::BlankAfterNumber) {
                number.push(' ');
            }
            let empty = if has(Fault::EmptyHeader) {
                "Server:\r\n"
            } else {
                ""
            };
            let status = match status.split_once(' ') {
                Some((number, _)) if has(Fault::NoReason) => number,
                _ => status,
            };
            let mut head =
                format!("RTSP/1.0 {status}\r\nCSeq: {number}\r\n{empty}{headers}{length}\r\n");
            if has(Fault::LineFeeds) {
                head = head.replace('\r', "");
            }
            if has(Fault::EmptyLine) && !body.is_empty() {
                head.push_str("\r\n");
            }
            let text = head + body;
            writer.lock().unwrap().write_all(text.as_bytes())
        };
        let time = TICK * log.ticks.load(Ordering::Relaxed);
        let age = if has(Fault::NewNonces) {
            time.as_secs() / 3
        } else {
            0
        };
        let nonce = format!("{:?}-{age}", client.peer_addr()?);
        let is_open = method == "OPTIONS" && !has(Fault::NewNonces);
        if has(Fault::Sha256) && !is_open && !is_login(&request, &nonce) {
            let demand = format!(
                "WWW-Authenticate: Digest realm=\"IP Camera(12, 3)\", nonce=\"{nonce}\", algorithm=SHA-256, qop=\"auth\"\r\n"
            );
            reply("401 Unauthorized", &demand, "")?;
            continue;
        }
        let is_counted = match method.as_str() {
            "GET_PARAMETER" => !counts_options,
            _ => !counts_parameter || !is_playing,
        };
        if is_counted {
            since_request.store(0, Ordering::Relaxed);
        }
        if has(Fault::WantsTls) && !request.contains(" rtsps://") {
            let location = format!("Location: rtsps://127.0.0.1:{port}/live\r\n");
            reply("301 Moved Permanently", &location, "")?;
            continue;
        }
        match method.as_str() {
            "OPTIONS" if stream.options().is_some() => {
                let status = stream.options().unwrap_or_default();
                reply(&format!("{status} No"), "", "")?;
            }
            "OPTIONS" => {
                let parameter = if has(Fault::NoParameter) {
                    ""
                } else {
                    ", GET_PARAMETER"
                };
                reply(
                    "200 OK",
                    &format!("Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN{parameter}\r\n"),
                    "",
                )?;
            }
            "DESCRIBE" => {
                let refused = stream.faults.iter().find_map(|fault| match fault {
                    Fault::Describe(status) => Some((*status, String::new())),
                    Fault::Moved(port) => {
                        let location = format!("Location: rtsp://127.0.0.1:{port}/moved\r\n");
                        Some((302, location))
                    }
                    _ => None,
                });
                match refused {
                    Some((status, headers)) => reply(&format!("{status} No"), &headers, "")?,
                    None => {
                        let headers = stream.faults.iter().find_map(|fault| match fault {
                            Fault::DescriptionHeaders(headers) => Some(*headers),
                            _ => None,
                        });
                        let usual =
                            "Content-Base: rtsp://HOST/live/\r\nContent-Type: application/sdp\r\n";
                        let host = format!("127.0.0.1:{port}");
                        let mut headers = headers.unwrap_or(usual).replace("HOST", &host);
                        if has(Fault::EarlySession) {
                            headers.push_str("Session: 12345678\r\n");
                        }
                        let description = stream.description().replace("HOST", &host);
                        reply("200 OK", &headers, &description)?;
                    }
                }
            }
            "SETUP" if !stream.is_there(&request) => reply("404 Not Found", "", "")?,
            "SETUP" if is_udp == header("Transport").contains("RTP/AVP/TCP") => {
                reply("461 Unsupported Transport", "", "")?;
            }
            "SETUP" if is_udp => {
                let asked = header("Transport");
                let (socket, transport) = if asked.contains("multicast") {
                    let socket = UdpSocket::bind("0.0.0.0:0")?;
                    let group = format!("239.255.{}.{}", port >> 8, port & 255);
                    socket.connect((group.as_str(), 5004))?;
                    (
                        socket,
                        format!("RTP/AVP;multicast;destination={group};port=5004-5005;ttl=1"),
                    )
                } else {
                    let socket = UdpSocket::bind("127.0.0.1:0")?;
                    // To the host that the request comes from, as cameras do.
                    let to = number_of(&asked, "client_port=");
                    socket.connect((client.peer_addr()?.ip(), to))?;
                    let port = socket.local_addr()?.port();
                    // As some do, it does not say where it sends from.
                    let answer = udp_answer
                        .unwrap_or("RTP/AVP;unicast;client_port=CLIENT;server_port=SERVER");
                    let answer = answer.replace("CLIENT", &format!("{to}-{}", to + 1));
                    (socket, answer.replace("SERVER", &format!("{port}-{port}")))
                };
                let transport = format!("Transport: {transport}\r\n");
                output = Some(Output::Udp(Arc::new(socket), Arc::downgrade(&is_served)));
                reply("200 OK", &format!("{transport}{session}"), "")?;
            }
            "SETUP" => {
                let asked = number_of(&header("Transport"), "interleaved=") as u8;
                let other = stream.faults.iter().find_map(|fault| match fault {
                    Fault::Channels(first) => Some(*first),
                    _ => None,
                });
                let first = other.flatten().unwrap_or(asked);
                // GStreamer 1.16 sets up media beside the video, too.
                let is_video = match has(Fault::TwoStreams) {
                    true => request.contains("/track2 "),
                    false => !request.contains("/track3 "),
                };
                if is_video {
                    output = Some(Output::Interleaved(Arc::clone(&writer), first));
                }
                let channels = match other {
                    Some(None) => String::new(),
                    _ => format!(";interleaved={first}-{}", first + 1),
                };
                let named = match has(Fault::NamesSource) {
                    true => "ssrc=22345684",
                    false => "unicast",
                };
                let transport = format!("Transport: RTP/AVP/TCP;{named}{channels}\r\n");
                let session = match has(Fault::LateSession) {
                    true => "",
                    false => &session,
                };
                reply("200 OK", &format!("{transport}{session}"), "")?;
            }
            "PLAY" => {
                if let Some(output) = output.as_ref().filter(|_| has(Fault::EarlyPackets)) {
                    output.write(
                        &[&[0x80, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1], &[9, 0x10][..]].concat(),
                    )?;
                }
                let more = stream.faults.iter().find_map(|fault| match fault {
                    Fault::PlayHeaders(headers) => Some(*headers),
                    _ => None,
                });
                reply(
                    "200 OK",
                    &format!("{session}{}", more.unwrap_or_default()),
                    "",
                )?;
                is_playing = true;
                let Some(output) = output.clone() else {
                    continue;
                };
                if has(Fault::Announces) {
                    let body = stream.description();
                    let text = format!(
                        "ANNOUNCE rtsp://127.0.0.1:{port}/live RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    writer.lock().unwrap().write_all(text.as_bytes())?;
                }
                let stream = Arc::clone(stream);
                thread::spawn(move || {
                    // Fails when the client has left.
                    let _ = stream.play(&output);
                });
            }
            "GET_PARAMETER" => {
                let status = stream.faults.iter().find_map(|fault| match fault {
                    Fault::Parameter(status) => Some(*status),
                    _ => None,
                });
                match status {
                    _ if has(Fault::ParameterCloses) => return Ok(()),
                    _ if has(Fault::ParameterSilent) => {}
                    Some(status) => reply(&format!("{status} No"), "", "")?,
                    None => reply("200 OK", &session, "")?,
                }
            }
            "TEARDOWN" => return reply("200 OK", "", ""),
            _ => reply("501 Not Implemented", "", "")?,
        }
    }
}

impl Stream {
    fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    fn options(&self) -> Option<u16> {
        self.faults.iter().find_map(|fault| match fault {
            Fault::Options(status) => Some(*status),
            _ => None,
        })
    }

    /// Whether a SETUP asks for what is described.
    fn is_there(&self, request: &str) -> bool {
        let mut wanted = self.faults.iter().filter_map(|fault| match fault {
            Fault::Control(_, whole) => Some(format!("{whole} ")),
            _ => None,
        });
        wanted.all(|wanted| request.contains(&wanted))
    }

    fn description(&self) -> String {
        let units: Vec<&Vec<u8>> = self.images[0].iter().collect();
        let sets = units.iter().filter(|unit| matches!(kind(unit), 7 | 8));
        let sets: Vec<String> = sets
            .map(|unit| glib::base64_encode(unit).to_string())
            .collect();
        let sets = match self.has(Fault::NoParameterSets) {
            true => String::new(),
            false => format!(";sprop-parameter-sets={}", sets.join(",")),
        };
        let has_two = self.has(Fault::NewPayloadType) || self.has(Fault::TwoPayloadTypes);
        let (types, second) = match has_two {
            true => (
                "96 98",
                "a=rtpmap:98 H264/90000\r\na=fmtp:98 packetization-mode=1\r\n",
            ),
            false => ("96", ""),
        };
        let video = |track: &str| {
            format!(
                "m=video 0 RTP/AVP {types}\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1{sets}\r\n{second}a=control:{track}\r\n"
            )
        };
        let other = match self.has(Fault::TwoStreams) {
            true => video("track2"),
            false => String::new(),
        };
        let control = self.faults.iter().find_map(|fault| match fault {
            Fault::Control(control, _) => Some(*control),
            _ => None,
        });
        let head = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=camera\r\nt=0 0\r\na=control:*\r\n";
        let mut text = format!("{head}{}{other}", video(control.unwrap_or("track1")));
        for fault in &self.faults {
            if let Fault::Description(parts) = fault {
                for (part, other) in *parts {
                    assert!(text.contains(part), "{part}: {text}");
                    text = text.replacen(part, other, 1);
                }
            }
        }
        text
    }

    fn play(&self, output: &Output) -> std::io::Result<()> {
        let late = self.faults.iter().find_map(|fault| match fault {
            Fault::Late(wait) => Some(*wait),
            _ => None,
        });
        thread::sleep(late.unwrap_or_default());
        let period = Duration::from_secs(1) / FPS;
        let begun = Instant::now();
        let first = match self.has(Fault::Live) {
            true => (self.started.elapsed().as_nanos() / period.as_nanos()) as usize,
            false => 0,
        };
        let (mut sequence, mut source, mut group, mut sent) = (1000_u16, 1_u32, 0, 0_usize);
        for count in 0.. {
            let image = &self.images[(first + count) % self.images.len()];
            let after = count >= 2 * FPS as usize;
            let is_second = (count / (2 * FPS as usize)).is_multiple_of(2);
            if self.has(Fault::TwoSources) {
                source = 1 + u32::from(is_second);
            }
            let is_leaving = after && self.has(Fault::Leaves);
            if is_leaving || self.has(Fault::Goodbyes) {
                output.say_goodbye(source)?;
            }
            if is_leaving {
                return Ok(());
            }
            if is_keyframe(image) {
                group = 0;
                source += u32::from(self.has(Fault::NewSource));
            }
            if self.has(Fault::Restarts) && count == 2 * FPS as usize {
                (sequence, source) = (1, 77);
            }
            let mut time = (count as u32).wrapping_mul(90_000 / FPS).wrapping_add(5000);
            for fault in &self.faults {
                match fault {
                    Fault::Jump(seconds) if after => {
                        time = time.wrapping_add_signed(seconds * 90_000)
                    }
                    Fault::StandingTime => time = 5000,
                    _ => {}
                }
            }
            let is_sent =
                |unit: &&Vec<u8>| !self.has(Fault::DescribedSets) || !matches!(kind(unit), 7 | 8);
            let mut units: Vec<Vec<u8>> = image.iter().filter(is_sent).cloned().collect();
            if self.has(Fault::StartCodes) && is_keyframe(image) {
                units = vec![units.join(&[0, 0, 0, 1][..])];
            }
            let is_other = self.has(Fault::NewPayloadType) && after
                || self.has(Fault::TwoPayloadTypes) && !is_second;
            let kind = if is_other { 98 } else { 96 };
            let max = match self.has(Fault::WholeFragments) {
                true => 0,
                false => MAX_PAYLOAD,
            };
            let packets: Vec<Vec<u8>> = (units.iter())
                .flat_map(|unit| packets_of(unit, max))
                .collect();
            let last = packets.len() - 1;
            if self.has(Fault::MixedReports) {
                let mut report = vec![0x80, 200, 0, 6, 0, 0, 0, 99];
                report.resize(28, 0);
                output.write(&report)?;
            }
            for (place, payload) in packets.iter().enumerate() {
                sequence = sequence.wrapping_add(1);
                if place == 1.min(last) && self.has(Fault::Lost(group)) {
                    continue;
                }
                let is_extended = self.has(Fault::ExtendedPackets);
                let first = if is_extended { 0xb0 } else { 0x80 };
                let is_marked = place == last || self.has(Fault::MarkedSets);
                let is_late = self.has(Fault::MarkedSets) && matches!(payload[0] & 31, 7 | 8);
                let before = if is_late { 90_000 / FPS } else { 0 };
                let mut packet = vec![first, kind | if is_marked { 0x80 } else { 0 }];
                packet.extend(sequence.to_be_bytes());
                packet.extend(time.wrapping_sub(before).to_be_bytes());
                packet.extend(source.to_be_bytes());
                if is_extended {
                    // ONVIF's replay extension has this number.
                    packet.extend([0xab, 0xac, 0, 1, 1, 2, 3, 4]);
                }
                packet.extend(payload);
                if is_extended {
                    packet.extend([0, 0, 0, 4]);
                }
                if self.has(Fault::OtherSession) {
                    let mut other = packet.clone();
                    other[8] = 0xf0;
                    other.truncate(60);
                    output.write(&other)?;
                }
                output.write(&packet)?;
                sent += 1;
                if self.has(Fault::EmptyPackets) && sent.is_multiple_of(7) {
                    output.write(&packet[..sent / 7 % 12])?;
                }
                if self.has(Fault::StrayBytes) && sent.is_multiple_of(7) {
                    output.write_stray(&packet[..40.min(packet.len())])?;
                }
            }
            group += 1;
            let due = period * (count as u32 + 1);
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        Ok(())
    }
}

/// The number behind `name` in a header.
fn number_of(header: &str, name: &str) -> u16 {
    let (_, rest) = header.split_once(name).unwrap_or_default();
    let digits = rest.split(['-', ';']).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

/// Bytes of a packet without its header.
const MAX_PAYLOAD: usize = 1300;

/// Payloads of RTP for a NAL unit, by RFC 6184: itself up to a length of `max`, or fragments of it.
fn packets_of(unit: &[u8], max: usize) -> Vec<Vec<u8>> {
    if unit.len() <= max {
        return vec![unit.to_vec()];
    }
    let pieces = unit[1..].chunks(MAX_PAYLOAD);
    let last = pieces.len() - 1;
    let fragment = |(index, piece): (usize, &[u8])| {
        let ends = if index == 0 { 0x80 } else { 0 } | if index == last { 0x40 } else { 0 };
        [&[unit[0] & 0xe0 | 28, kind(unit) | ends], piece].concat()
    };
    pieces.enumerate().map(fragment).collect()
}
