// SPDX-License-Identifier: Apache-2.0
//! A relay in this process between `rtspsrc` and an RTSP camera, for what `rtspsrc` does not do in any release that is supported.
//!
//! - It logs in: some cameras take Digest with SHA-256 alone (RFC 7616), `rtspsrc` knows MD5 and Basic.
//! - It keeps the session alive by OPTIONS, and by GET_PARAMETER where the camera offers it: some count only one of them. Since GStreamer 1.18,
//!   `rtspsrc` sends none over TCP while media comes. The relay waits for no answer. It answers GET_PARAMETER, the keep-alive of
//!   `rtspsrc`, in place of the camera, and its OPTIONS, which some cameras refuse from those who are not logged in.
//! - It asks for `rtsps://` addresses over TLS, where `rtspsrc` asks for `rtsp://`, and names the channels of a SETUP where its answer does not.
//!
//! ```text
//!   rtspsrc ─► 127.0.0.1:PORT ─► requests, with the camera's address and credentials; keep-alives ─► camera, also over TLS
//!           ◄─ answers and media, but for demands for credentials and answers to keep-alives ◄────┘
//! ```
//!
//! Media over UDP comes to `rtspsrc` directly: the camera sends it to the host that the connection comes from.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gio::prelude::*;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;

use crate::SourceError;
use crate::digest::{Challenge, Login};

use super::build::RTSP;
use super::diagnostics::SessionDiagnostics;
use super::tls;

/// Longest line, and most bytes of a message but for media: a server may send anything.
const MAX_MESSAGE: u64 = 256 << 10;

/// Bytes that are read at a time.
const BLOCK: usize = 64 << 10;

/// Characters of the longest method.
const MAX_METHOD: usize = 24;

/// Requests whose answer may be awaited at a time.
const MAX_PENDING: usize = 8;

/// Maximum time between keep-alives: half of the shortest timeout of cameras in use, 8 s.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(4);

/// Number of the first of the relay's own requests; `rtspsrc` counts from 1.
const FIRST_KEEP_ALIVE: u32 = 1_000_000_000;

/// Ports of RTSP where the address has none, without TLS and with it.
const DEFAULT_PORTS: [u16; 2] = [554, 322];

/// An RTSP camera.
pub(super) struct Camera {
    /// An `rtsp://` or `rtsps://` address without credentials.
    pub(super) location: String,
    /// The authorities to trust.
    pub(super) ca_file: Option<PathBuf>,
}

impl Camera {
    fn connect(&self) -> Result<gio::SocketConnection, SourceError> {
        let connected = tls::connect(&self.location, DEFAULT_PORTS, self.ca_file.as_deref(), true)?;
        connected.map_err(|error| SourceError::Element {
            element: RTSP.to_owned(),
            message: error.message().trim_end_matches('.').to_owned(),
            hint: Some(
                "check the address, that the camera is on, and whether it speaks rtsps:// or rtsp://",
            ),
        })
    }
}

/// Whether GET_PARAMETER is sent to a camera.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum GetParameter {
    /// Where the camera offers it.
    #[default]
    Offered,
    /// OPTIONS alone did not hold the session: some count GET_PARAMETER only, and do not offer it.
    Tried,
    /// The camera refuses it, does not answer it, or closes the connection at it.
    Refused,
}

/// Relays sessions to one camera while it exists.
pub(super) struct RtspRelay {
    port: u16,
    is_closed: Arc<AtomicBool>,
}

impl RtspRelay {
    /// Relays to `camera`; without `login`, it passes demands for credentials on. `diagnostics` get why it cannot be connected to, and
    /// `get_parameter` what it makes of that method, for later sessions.
    ///
    /// # Errors
    /// There is no port or no thread to be had.
    pub(super) fn start(
        mut camera: Camera,
        login: Option<Login>,
        diagnostics: Arc<SessionDiagnostics>,
        get_parameter: Arc<Mutex<GetParameter>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&is_closed);
        thread::Builder::new()
            .name("rtsp-relay".to_owned())
            .spawn(move || {
                for client in listener.incoming().flatten() {
                    if closed.load(Ordering::Acquire) {
                        return;
                    }
                    if !is_of_this_user(&client) {
                        log::debug!("another user of this machine was refused an RTSP session");
                        continue;
                    }
                    let connection = match camera.connect() {
                        Ok(connection) => connection,
                        Err(error) => {
                            // `rtspsrc` would try once more.
                            drop(listener);
                            return diagnostics.set_failure(error);
                        }
                    };
                    let mut moved = None;
                    let relayed = relay(
                        client,
                        &connection,
                        &camera,
                        login.as_ref(),
                        &get_parameter,
                        &mut moved,
                    );
                    if let Err(error) = relayed {
                        log::debug!("a relayed RTSP session ended: {error}");
                    }
                    if let Some(location) = moved {
                        camera.location = location;
                    }
                }
            })?;
        Ok(Self { port, is_closed })
    }

    /// The address for `rtspsrc` in place of `location`.
    pub(super) fn address(&self, location: &str) -> String {
        let (_, path) = tls::split(location);
        format!("rtsp://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for RtspRelay {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Release);
        // Its thread waits for a connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// One session, until one side closes; `moved` becomes the address that the camera sends clients to.
fn relay(
    mut client: TcpStream,
    connection: &gio::SocketConnection,
    camera: &Camera,
    login: Option<&Login>,
    get_parameter: &Mutex<GetParameter>,
    moved: &mut Option<String>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let socket = connection.socket();
    // That of connecting is for all calls.
    socket.set_timeout(0);
    let input = connection.input_stream();
    let input = input
        .dynamic_cast_ref::<gio::PollableInputStream>()
        .ok_or_else(|| io::Error::other("it cannot be polled"))?;
    let mut output = connection.output_stream().into_write();
    let address = connection.remote_address().ok();
    let address = address.and_then(|it| it.downcast::<gio::InetSocketAddress>().ok());
    let mut session = Session {
        location: &camera.location,
        host: address.map(|it| it.address().to_str().to_string()),
        local: client.local_addr()?.to_string(),
        login,
        moved,
        challenge: None,
        is_let_in: None,
        pending: VecDeque::new(),
        kept: None,
        count: 0,
        offers: None,
        is_awaited: false,
        get_parameter,
        to_camera: Vec::new(),
        to_client: Vec::new(),
    };
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    let mut block = vec![0; BLOCK];
    loop {
        let mut sides = [
            PollFd::new(&client, PollFlags::IN),
            PollFd::new(&socket, PollFlags::IN),
        ];
        let wait = Timespec::try_from(session.until_keep_alive()).map_err(io::Error::other)?;
        match poll(&mut sides, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [from_client, from_camera] = sides.map(|side| !side.revents().is_empty());
        if from_client {
            let len = client.read(&mut block)?;
            if len == 0 {
                return Ok(());
            }
            requests.extend_from_slice(&block[..len]);
            Part::take(&mut requests, |part| session.request(part))?;
        }
        if from_camera {
            // TLS may hold more than what the socket shows.
            loop {
                match input.read_nonblocking(&mut block, gio::Cancellable::NONE) {
                    Ok(len @ 1..) => answers.extend_from_slice(&block[..len as usize]),
                    Err(error) if error.matches(gio::IOErrorEnum::WouldBlock) => break,
                    end => {
                        session.closed();
                        return end.map(|_| ()).map_err(io::Error::other);
                    }
                }
                Part::take(&mut answers, |part| session.answer(part))?;
                client.write_all(&session.to_client)?;
                session.to_client.clear();
            }
        }
        session.keep_alive();
        output.write_all(&session.to_camera)?;
        session.to_camera.clear();
        client.write_all(&session.to_client)?;
        session.to_client.clear();
    }
}

/// Whether the other end of `client` belongs to the user of this process: the relay logs in for whoever connects. Where the kernel does not
/// say it, it counts as one.
fn is_of_this_user(client: &TcpStream) -> bool {
    let ports = client
        .peer_addr()
        .and_then(|peer| Ok((peer.port(), client.local_addr()?.port())));
    let (Ok((from, to)), Ok(table)) = (ports, fs::read_to_string("/proc/net/tcp")) else {
        return true;
    };
    owner_of(&table, from, to).is_none_or(|user| user == geteuid().as_raw())
}

/// The user whose connection goes from port `from` to port `to` of the IPv4 loopback address, by the kernel's table of them.
fn owner_of(table: &str, from: u16, to: u16) -> Option<u32> {
    let address = |port| format!("{:08X}:{port:04X}", u32::from_ne_bytes([127, 0, 0, 1]));
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_it = words.next()? == address(from) && words.next()? == address(to);
        words.nth(4)?.parse().ok().filter(|_| is_it)
    })
}

struct Session<'a> {
    /// Of the camera.
    location: &'a str,
    /// IP address of the camera.
    host: Option<String>,
    /// Address of the relay, which requests have in place of the camera's.
    local: String,
    login: Option<&'a Login>,
    moved: &'a mut Option<String>,
    /// The newest demand of the camera for credentials, and how often it was met.
    challenge: Option<(Challenge, u32)>,
    /// The credentials were accepted after they were last refused. `None`: never yet.
    is_let_in: Option<bool>,
    /// Requests that were sent, by their numbers, and whether with credentials.
    pending: VecDeque<(String, Message, bool)>,
    /// The session, the time between keep-alives of one method, and when the next one is due.
    kept: Option<(String, Duration, Instant)>,
    /// Keep-alives so far: GET_PARAMETER has the odd ones.
    count: u32,
    /// Whether GET_PARAMETER is to be sent by the answer to OPTIONS.
    offers: Option<bool>,
    /// GET_PARAMETER was not answered yet.
    is_awaited: bool,
    get_parameter: &'a Mutex<GetParameter>,
    /// What is to be written.
    to_camera: Vec<u8>,
    to_client: Vec<u8>,
}

impl Session<'_> {
    /// Passes on what `rtspsrc` sends.
    fn request(&mut self, part: Part<'_>) {
        match part {
            Part::Media(bytes) => self.to_camera.extend_from_slice(bytes),
            // An answer to a request of the camera.
            Part::Message(answer) if answer.start.starts_with("RTSP/") => {
                self.to_camera.extend(answer.bytes(None));
            }
            Part::Message(request)
                if ["GET_PARAMETER ", "OPTIONS "]
                    .iter()
                    .any(|it| request.start.starts_with(it)) =>
            {
                // After a connection that was closed, the session of one over UDP goes on with the next one.
                if let (None, Some(session)) = (&self.kept, request.header("session")) {
                    self.kept = Some((session.to_owned(), KEEP_ALIVE_INTERVAL, Instant::now()));
                }
                let number = request.header("cseq").unwrap_or_default();
                let methods = "OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN, GET_PARAMETER";
                let answer =
                    format!("RTSP/1.0 200 OK\r\nCSeq: {number}\r\nPublic: {methods}\r\n\r\n");
                self.to_client.extend(answer.into_bytes());
            }
            Part::Message(mut request) => {
                let (host, _) = tls::split(self.location);
                request.start = request.start.replacen(&self.local, host, 1);
                if self.location.starts_with("rtsps:") {
                    request.start = request.start.replacen(" rtsp:", " rtsps:", 1);
                }
                self.send(request);
            }
        }
    }

    /// Passes on what the camera sends.
    fn answer(&mut self, part: Part<'_>) {
        let mut answer = match part {
            Part::Media(bytes) => return self.to_client.extend_from_slice(bytes),
            Part::Message(answer) => answer,
        };
        if !answer.start.starts_with("RTSP/") {
            return self.to_client.extend(answer.bytes(None));
        }
        let Some((number, request, had_login)) = self.pending_for(&answer) else {
            return;
        };
        if let Some(request) = self.retried(&request, had_login, &answer) {
            return self.send(request);
        }
        if had_login && answer.status() != Some("401") {
            self.is_let_in = Some(true);
        }
        if let Ok(number @ FIRST_KEEP_ALIVE..) = number.parse() {
            return self.kept_alive(number, &answer);
        }
        if answer.header("cseq") != Some(&number) {
            answer.remove("cseq:");
            answer.headers.push(format!("CSeq: {number}"));
        }
        let is_moved = answer.status().is_some_and(|it| it.starts_with("30"));
        // Credentials for TLS are not sent without it.
        let is_as_safe = |to: &&str| to.starts_with("rtsps:") || self.location.starts_with("rtsp:");
        let location = answer.header("location").filter(|_| is_moved);
        let location = location.filter(is_as_safe);
        if let Some(location) = location.map(str::to_owned) {
            let (_, path) = tls::split(&location);
            answer.remove("location:");
            answer
                .headers
                .push(format!("Location: rtsp://{}{path}", self.local));
            *self.moved = Some(location);
        }
        if let Some(header) = answer.header("session") {
            let (session, interval) = session_of(header);
            let known = self.kept.as_ref().map(|(_, interval, _)| *interval);
            let interval = interval.or(known).unwrap_or(KEEP_ALIVE_INTERVAL);
            self.kept = Some((session.to_owned(), interval, Instant::now() + interval / 2));
        }
        if let Some(host) = &self.host {
            answer.complete_transport(host);
        }
        answer.name_channels(&request);
        // It is live, whatever it says of an end and a speed: `rtspsrc` would end the stream.
        if request.start.starts_with("PLAY ") {
            for name in ["range:", "scale:", "speed:"] {
                answer.remove(name);
            }
        }
        self.to_client.extend(answer.bytes(None));
    }

    /// Time to the next keep-alive.
    fn until_keep_alive(&self) -> Duration {
        let due = self.kept.as_ref().map(|(_, _, due)| *due);
        due.map_or(KEEP_ALIVE_INTERVAL, |due| {
            due.saturating_duration_since(Instant::now())
        })
    }

    /// Sends a keep-alive where one is due.
    fn keep_alive(&mut self) {
        let Some((session, interval, due)) = &mut self.kept else {
            return;
        };
        let now = Instant::now();
        if now < *due {
            return;
        }
        *due = now + *interval / 2;
        let number = FIRST_KEEP_ALIVE + self.count;
        self.count += 1;
        let method = match number % 2 {
            0 => "OPTIONS",
            _ => {
                let mut state = self.get_parameter.lock();
                if self.is_awaited {
                    *state = GetParameter::Refused;
                }
                match *state {
                    GetParameter::Offered if self.offers != Some(true) => return,
                    GetParameter::Refused => return,
                    GetParameter::Offered | GetParameter::Tried => {}
                }
                self.is_awaited = true;
                "GET_PARAMETER"
            }
        };
        let request = Message {
            start: format!("{method} {} RTSP/1.0", self.location),
            headers: vec![format!("CSeq: {number}"), format!("Session: {session}")],
            body: Vec::new(),
        };
        self.send(request);
    }

    /// The camera answers the keep-alive `number`.
    fn kept_alive(&mut self, number: u32, answer: &Message) {
        let status = answer.status();
        if number.is_multiple_of(2) {
            let mut methods = answer.values("public");
            let is_offered = methods.any(|it| it.to_ascii_uppercase().contains("GET_PARAMETER"));
            self.offers = Some(is_offered || status != Some("200"));
            return;
        }
        self.is_awaited = false;
        // Cameras that know no such parameter answer 451.
        if !matches!(status, Some("200" | "451")) {
            *self.get_parameter.lock() = GetParameter::Refused;
        }
    }

    /// The camera has closed the connection.
    fn closed(&mut self) {
        let mut state = self.get_parameter.lock();
        *state = match *state {
            _ if self.is_awaited => GetParameter::Refused,
            GetParameter::Offered if self.offers == Some(false) => GetParameter::Tried,
            known => known,
        };
    }

    /// Sends `request`, with credentials where the camera has asked for them.
    fn send(&mut self, request: Message) {
        let mut words = request.start.split(' ');
        let (method, uri) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let header = self.challenge.as_mut().and_then(|(challenge, count)| {
            *count += 1;
            challenge.answer(self.login?, method, uri, *count)
        });
        self.to_camera.extend(request.bytes(header.as_deref()));
        if let Some(number) = request.header("cseq").map(str::to_owned) {
            self.pending.push_back((number, request, header.is_some()));
            while self.pending.len() > MAX_PENDING {
                self.pending.pop_front();
            }
        }
    }

    /// The request that was answered, with its number, and whether it had credentials. Some cameras write another number, or none: it is the
    /// oldest one then.
    fn pending_for(&mut self, answer: &Message) -> Option<(String, Message, bool)> {
        let number = answer.header("cseq");
        let mut pending = self.pending.iter();
        let at = pending.position(|(known, ..)| number == Some(known));
        self.pending.remove(at.unwrap_or(0))
    }

    /// The request that is to be sent again, where `answer` asks for credentials. `None`: the answer is passed on, also where they were
    /// refused.
    fn retried(&mut self, request: &Message, had_login: bool, answer: &Message) -> Option<Message> {
        if answer.status() != Some("401") || self.login.is_none() {
            return None;
        }
        let challenge = Challenge::best(answer.challenges())?;
        if had_login {
            // Some demand new credentials after a while, and do not say that theirs were stale.
            let was_let_in = self.is_let_in.replace(false);
            if !was_let_in.unwrap_or(challenge.is_stale) {
                return None;
            }
        }
        self.challenge = Some((challenge, 0));
        Some(request.clone())
    }
}

/// The session that a header names, and the time between its keep-alives where it names a timeout: half of it at most.
fn session_of(header: &str) -> (&str, Option<Duration>) {
    let (session, rest) = header.split_once(';').unwrap_or((header, ""));
    let timeout = rest.split_once("timeout=").map_or("", |(_, rest)| rest);
    let seconds = timeout.split(';').next().unwrap_or_default();
    let seconds = seconds.trim().parse().ok().filter(|it| *it > 0);
    let interval = seconds.map(|it| (Duration::from_secs(it) / 2).min(KEEP_ALIVE_INTERVAL));
    (session.trim(), interval)
}

/// What a connection carries.
enum Part<'a> {
    /// One packet of media, or a report about it.
    Media(&'a [u8]),
    Message(Message),
}

/// How many of these bytes belong to no part: some cameras send a rest of a packet.
fn stray(bytes: &[u8]) -> usize {
    let word = |byte: &u8| !(byte.is_ascii_uppercase() || *byte == b'_');
    let is_part = match bytes.first() {
        None | Some(b'$' | b'\r' | b'\n') => true,
        // A method, or `RTSP/1.0`.
        Some(_) => match bytes.iter().position(word) {
            Some(end) => end > 2 && matches!(bytes[end], b' ' | b'/'),
            None => bytes.len() < MAX_METHOD,
        },
    };
    if is_part {
        return 0;
    }
    let begins = |at: &usize| match &bytes[*at..] {
        // RTP and RTCP have version 2, and cameras few channels.
        [b'$', channel, _, _, version, ..] => *channel < 8 && version >> 6 == 2,
        [b'$', channel, ..] => *channel < 8,
        [b'$'] => true,
        rest => rest.starts_with(b"RTSP/") || b"RTSP/".starts_with(rest),
    };
    (1..bytes.len()).find(begins).unwrap_or(bytes.len())
}

/// A request or an answer.
#[derive(Clone)]
struct Message {
    start: String,
    headers: Vec<String>,
    body: Vec<u8>,
}

impl<'a> Part<'a> {
    /// Takes those that are complete from `bytes`.
    fn take(bytes: &mut Vec<u8>, mut each: impl FnMut(Part<'_>)) -> io::Result<()> {
        let mut rest = bytes.as_slice();
        let mut left;
        let result = loop {
            rest = &rest[stray(rest)..];
            left = rest.len();
            match Part::read(&mut rest) {
                Ok(part) => each(part),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        bytes.drain(..bytes.len() - left);
        result
    }

    fn read(from: &mut &'a [u8]) -> io::Result<Self> {
        let end = || io::Error::from(io::ErrorKind::UnexpectedEof);
        if let [b'$', rest @ ..] = *from {
            let [_, high, low, ..] = *rest else {
                return Err(end());
            };
            let len = 4 + usize::from(u16::from_be_bytes([high, low]));
            let (bytes, rest) = from.split_at_checked(len).ok_or_else(end)?;
            *from = rest;
            return Ok(Self::Media(bytes));
        }
        let mut left = MAX_MESSAGE;
        let mut line = || -> io::Result<String> {
            let mut bytes = Vec::new();
            let len = from.by_ref().take(left).read_until(b'\n', &mut bytes)? as u64;
            if !bytes.ends_with(b"\n") {
                return Err(match len == left {
                    true => io::Error::other("a message is too large"),
                    false => io::ErrorKind::UnexpectedEof.into(),
                });
            }
            left -= len;
            Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
        };
        let start = loop {
            let start = line()?;
            // Some servers send empty lines between messages.
            if !start.is_empty() {
                break start;
            }
        };
        let mut headers = Vec::new();
        loop {
            let header = line()?;
            if header.is_empty() {
                break;
            }
            headers.push(header);
        }
        let mut message = Message {
            start,
            headers,
            body: Vec::new(),
        };
        let len: u64 = message
            .header("content-length")
            .and_then(|len| len.parse().ok())
            .unwrap_or(0);
        if len > MAX_MESSAGE {
            return Err(io::Error::other("a message is too large"));
        }
        message.body.resize(len as usize, 0);
        from.read_exact(&mut message.body)?;
        Ok(Self::Message(message))
    }
}

impl Message {
    /// The first value of the header `name`, in lower case.
    fn header(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter_map(move |header| {
            let (found, value) = header.split_once(':')?;
            found
                .trim()
                .eq_ignore_ascii_case(name)
                .then(|| value.trim())
        })
    }

    /// Removes the header `name`, in lower case and with its colon.
    fn remove(&mut self, name: &str) {
        (self.headers).retain(|header| !header.to_ascii_lowercase().starts_with(name));
    }

    /// Adds to the answer to a SETUP over UDP what it lacks: that it is for this client alone, since `rtspsrc` takes it for multicast else,
    /// and the address that media comes from, since it sends its reports to the relay's else.
    fn complete_transport(&mut self, host: &str) {
        let source = format!(";source={host}");
        for header in &mut self.headers {
            let lower = header.to_ascii_lowercase();
            if lower.starts_with("transport:") && lower.contains("client_port=") {
                let lacking = |word: &str, text| if lower.contains(word) { "" } else { text };
                let unicast = lacking("unicast", ";unicast");
                let source = lacking("source=", source.as_str());
                *header = format!("{}{unicast}{source}", header.replace("; ", ";"));
            }
        }
    }

    /// Adds the channels that were asked for to the answer to a SETUP over this connection that has none: `rtspsrc` would drop all media.
    fn name_channels(&mut self, request: &Self) {
        let asked = request.header("transport").unwrap_or_default();
        let mut asked = asked.split([';', ',']);
        let asked = asked.find(|it| it.starts_with("interleaved="));
        let (Some(asked), Some("200")) = (asked, self.status()) else {
            return;
        };
        for header in &mut self.headers {
            let text = header.to_ascii_lowercase();
            if text.starts_with("transport:") && !text.contains("interleaved=") {
                header.push_str(&format!(";{asked}"));
            }
        }
    }

    /// Status of an answer.
    fn status(&self) -> Option<&str> {
        self.start.split(' ').nth(1)
    }

    fn challenges(&self) -> Vec<Challenge> {
        (self.values("www-authenticate").map(Challenge::parse)).collect()
    }

    fn bytes(&self, authorization: Option<&str>) -> Vec<u8> {
        let mut text = format!("{}\r\n", self.start);
        for header in &self.headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        if let Some(value) = authorization {
            text.push_str("Authorization: ");
            text.push_str(value);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        [text.into_bytes(), self.body.clone()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_taken_when_they_are_complete() {
        let all = b"$\x00\x00\x02ab\r\nRTSP/1.0 200 OK\r\nCSeq: 7\r\nContent-Length: 3\r\n\r\nxyz$\x01\x00\x00";
        let (mut bytes, mut parts) = (Vec::new(), Vec::new());
        for byte in all {
            bytes.push(*byte);
            let each = |part: Part<'_>| match part {
                Part::Media(media) => parts.push(media.to_vec()),
                Part::Message(message) => parts.push(message.bytes(None)),
            };
            Part::take(&mut bytes, each).expect("nothing is wrong");
        }
        assert_eq!(parts.concat(), [&all[..6], &all[8..]].concat());
        assert_eq!((parts.len(), bytes.len()), (3, 0));
    }

    #[test]
    fn bytes_that_belong_to_no_part_are_passed_over() {
        let (media, answer) = (b"$\x00\x00\x02\x80x", b"RTSP/1.0 200 OK\r\n\r\n");
        for between in [b"\x80\x60$$\nab".as_slice(), b"K", b"K$$$", b"RT SP/"] {
            let mut bytes = [&media[..], between, media, between, answer].concat();
            let mut count = 0;
            Part::take(&mut bytes, |_| count += 1).expect("nothing is wrong");
            assert_eq!((count, bytes.len()), (3, 0), "{between:?}");
        }
    }

    #[test]
    fn answers_to_setup_name_the_camera_where_media_comes_over_udp() {
        #[rustfmt::skip]
        let cases = [
            ("Transport: RTP/AVP;client_port=4-5", "Transport: RTP/AVP;client_port=4-5;unicast;source=1.2.3.4"),
            ("transport: RTP/AVP; unicast; client_port=4-5;source=5.6.7.8", "transport: RTP/AVP;unicast;client_port=4-5;source=5.6.7.8"),
            ("Transport: RTP/AVP/TCP;interleaved=0-1", "Transport: RTP/AVP/TCP;interleaved=0-1"),
        ];
        for (before, after) in cases {
            let mut answer = Message {
                start: "RTSP/1.0 200 OK".to_owned(),
                headers: vec![before.to_owned()],
                body: Vec::new(),
            };
            answer.complete_transport("1.2.3.4");
            assert_eq!(answer.headers, [after]);
        }
    }

    #[test]
    fn connections_of_other_users_are_refused() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let client = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        let (accepted, from) = listener.accept().expect("a connection");
        assert!(is_of_this_user(&accepted));
        let table = fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
        let own = geteuid().as_raw();
        assert_eq!(owner_of(&table, from.port(), port), Some(own));
        let other = table.replace(&format!(" {own} "), " 12345 ");
        assert_eq!(owner_of(&other, from.port(), port), Some(12345));
        drop(client);
    }

    #[test]
    fn sessions_are_kept_at_half_of_their_timeout() {
        for (header, session, milliseconds) in [
            ("12;timeout=5", "12", Some(2500)),
            ("ab; timeout=7 ;x=1", "ab", Some(3500)),
            ("12;timeout=60", "12", Some(4000)),
            ("12;timeout=0", "12", None),
            ("12", "12", None),
        ] {
            let wanted = (session, milliseconds.map(Duration::from_millis));
            assert_eq!(session_of(header), wanted);
        }
    }

    #[test]
    fn messages_without_end_are_refused() {
        for bytes in [
            vec![b'x'; 300 << 10],
            b"RTSP/1.0 200 OK\r\nContent-Length: 99999999\r\n\r\n".to_vec(),
            b"RTSP/1.0 200 OK\r\nCSe".to_vec(),
            b"$\x00\x00\xff".to_vec(),
        ] {
            assert!(Part::read(&mut bytes.as_slice()).is_err());
        }
    }
}
