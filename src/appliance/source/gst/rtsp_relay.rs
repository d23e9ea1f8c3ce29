// SPDX-License-Identifier: Apache-2.0
//! A relay in this process between `rtspsrc` and an RTSP camera, for what `rtspsrc` does not do in any release that is supported. TCP only.
//!
//! - It logs in: some cameras take Digest with SHA-256 alone (RFC 7616), `rtspsrc` knows MD5 and Basic.
//! - It keeps the session alive by OPTIONS, which all cameras know, and waits for no answer.
//!
//! ```text
//!   rtspsrc ─► 127.0.0.1:PORT ─► requests, with the camera's address and credentials; keep-alives ─► camera
//!           ◄─ answers and media, but for demands for credentials and answers to keep-alives ◄────┘
//! ```

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::digest::{Challenge, Login, Scheme};

/// Time to connect, and of one answer to the question how the camera asks for credentials.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longest line, and most bytes of a message but for media: a server may send anything.
const MAX_MESSAGE: u64 = 256 << 10;

/// Requests whose answer may be awaited at a time.
const MAX_PENDING: usize = 8;

/// Maximum time between keep-alives: half of the shortest timeout of cameras in use, 8 s.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(4);

/// Number of the relay's own requests; `rtspsrc` counts from 1.
const KEEP_ALIVE: &str = "1000000000";

/// Port of RTSP where the address has none.
const DEFAULT_PORT: u16 = 554;

/// Relays sessions to one camera while it exists.
pub(super) struct RtspRelay {
    port: u16,
    is_closed: Arc<AtomicBool>,
}

impl RtspRelay {
    /// Relays to the camera at `location`, an `rtsp://` address without credentials; without `login`, it passes demands for them on.
    ///
    /// # Errors
    /// There is no port or no thread to be had.
    pub(super) fn start(location: &str, login: Option<Login>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let is_closed = Arc::new(AtomicBool::new(false));
        let (closed, location) = (Arc::clone(&is_closed), location.to_owned());
        thread::Builder::new()
            .name("rtsp-relay".to_owned())
            .spawn(move || {
                for client in listener.incoming() {
                    if closed.load(Ordering::Acquire) {
                        return;
                    }
                    let relayed = client.and_then(|client| relay(client, &location, &login));
                    if let Err(error) = relayed {
                        log::debug!("a relayed RTSP session ended: {error}");
                    }
                }
            })?;
        Ok(Self { port, is_closed })
    }

    /// The address for `rtspsrc` in place of `location`.
    pub(super) fn address(&self, location: &str) -> String {
        let (_, path) = split(location);
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

/// Whether the camera at `location` takes Digest with SHA-256 and nothing that `rtspsrc` knows. `false` where it cannot be asked.
pub(super) fn is_needed(location: &str) -> bool {
    challenges(location).is_ok_and(|challenges| {
        let offers = |scheme| challenges.iter().any(|it| it.scheme == scheme);
        offers(Scheme::Sha256) && !offers(Scheme::Md5) && !offers(Scheme::Basic)
    })
}

fn challenges(location: &str) -> io::Result<Vec<Challenge>> {
    let mut camera = connect(location)?;
    camera.set_read_timeout(Some(TIMEOUT))?;
    let accept = "Accept: application/sdp";
    camera.write_all(
        format!("DESCRIBE {location} RTSP/1.0\r\nCSeq: 1\r\n{accept}\r\n\r\n").as_bytes(),
    )?;
    match Part::read(&mut BufReader::new(camera))? {
        Part::Message(answer) => Ok(answer.challenges()),
        Part::Media(_) => Ok(Vec::new()),
    }
}

/// Host with port, and the rest of an address.
fn split(location: &str) -> (&str, &str) {
    let rest = location
        .split_once("://")
        .map_or(location, |(_, rest)| rest);
    rest.find(['/', '?'])
        .map_or((rest, ""), |at| rest.split_at(at))
}

fn connect(location: &str) -> io::Result<TcpStream> {
    let (host, _) = split(location);
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let addresses = match has_port {
        true => host.to_socket_addrs()?,
        false => (host.trim_matches(['[', ']']), DEFAULT_PORT).to_socket_addrs()?,
    };
    let mut last = io::Error::other("the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// One session, until one side closes.
fn relay(client: TcpStream, location: &str, login: &Option<Login>) -> io::Result<()> {
    let camera = connect(location)?;
    for stream in [&client, &camera] {
        stream.set_nodelay(true)?;
    }
    let session = Arc::new(Session {
        location: location.to_owned(),
        local: client.local_addr()?.to_string(),
        login: login.clone(),
        state: Mutex::default(),
    });
    let requests = {
        let (session, client) = (Arc::clone(&session), client.try_clone()?);
        let camera = camera.try_clone()?;
        thread::Builder::new()
            .name("rtsp-relay-out".to_owned())
            .spawn(move || {
                let _ = session.forward_requests(&client, &camera);
                let _ = camera.shutdown(Shutdown::Both);
            })?
    };
    let result = session.forward_answers(&camera, &client);
    let _ = client.shutdown(Shutdown::Both);
    let _ = camera.shutdown(Shutdown::Both);
    let _ = requests.join();
    result
}

struct Session {
    /// Of the camera.
    location: String,
    /// Address of the relay, which requests have in place of the camera's.
    local: String,
    login: Option<Login>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest demand of the camera for credentials, and how often it was met.
    challenge: Option<(Challenge, u32)>,
    /// Requests that were sent, by their numbers, and whether with credentials.
    pending: VecDeque<(String, Message, bool)>,
}

impl Session {
    fn forward_requests(&self, client: &TcpStream, mut camera: &TcpStream) -> io::Result<()> {
        let mut from = BufReader::new(client);
        loop {
            match Part::read(&mut from)? {
                Part::Media(bytes) => camera.write_all(&bytes)?,
                Part::Message(mut request) => {
                    let (host, _) = split(&self.location);
                    request.start = request.start.replacen(&self.local, host, 1);
                    let bytes = self.with_login(&request);
                    camera.write_all(&bytes)?;
                }
            }
        }
    }

    fn forward_answers(&self, mut camera: &TcpStream, mut client: &TcpStream) -> io::Result<()> {
        let mut from = BufReader::new(camera);
        // The session, the time between its keep-alives, and when the next one is due.
        let mut kept: Option<(String, Duration, Instant)> = None;
        loop {
            match Part::read(&mut from)? {
                Part::Media(bytes) => {
                    client.write_all(&bytes)?;
                    // Without media, `rtspsrc` sends its own.
                    if let Some((session, interval, due)) = &mut kept
                        && Instant::now() >= *due
                    {
                        *due = Instant::now() + *interval;
                        camera.write_all(&self.with_login(&self.keep_alive(session)))?;
                    }
                }
                Part::Message(answer) => match self.retried(&answer) {
                    Some(request) => camera.write_all(&request)?,
                    None if answer.header("cseq") == Some(KEEP_ALIVE) => {}
                    None => {
                        if let Some(header) = answer.header("session") {
                            let (session, interval) = session_of(header);
                            kept = Some((session.to_owned(), interval, Instant::now() + interval));
                        }
                        client.write_all(&answer.bytes(None))?;
                    }
                },
            }
        }
    }

    fn keep_alive(&self, session: &str) -> Message {
        Message {
            start: format!("OPTIONS {} RTSP/1.0", self.location),
            headers: vec![format!("CSeq: {KEEP_ALIVE}"), format!("Session: {session}")],
            body: Vec::new(),
        }
    }

    /// `request` with credentials, where the camera has asked for them.
    fn with_login(&self, request: &Message) -> Vec<u8> {
        let mut state = self.state.lock();
        let mut words = request.start.split(' ');
        let (method, uri) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let header = state.challenge.as_mut().and_then(|(challenge, count)| {
            *count += 1;
            challenge.answer(self.login.as_ref()?, method, uri, *count)
        });
        if let Some(number) = request.header("cseq") {
            let number = number.to_owned();
            let has_login = header.is_some();
            state
                .pending
                .push_back((number, request.clone(), has_login));
            while state.pending.len() > MAX_PENDING {
                state.pending.pop_front();
            }
        }
        drop(state);
        request.bytes(header.as_deref())
    }

    /// The request with credentials, where `answer` asks for them. `None`: the answer is passed on, also where they were refused.
    fn retried(&self, answer: &Message) -> Option<Vec<u8>> {
        let number = answer.header("cseq")?;
        let mut state = self.state.lock();
        let at = state
            .pending
            .iter()
            .position(|(known, ..)| known == number)?;
        let (_, request, had_login) = state.pending.remove(at)?;
        if answer.status() != Some("401") || self.login.is_none() {
            return None;
        }
        let challenge = Challenge::best(answer.challenges())?;
        if had_login && !challenge.is_stale {
            return None;
        }
        state.challenge = Some((challenge, 0));
        drop(state);
        Some(self.with_login(&request))
    }
}

/// The session that a header names, and the time between its keep-alives: half of its timeout at most.
fn session_of(header: &str) -> (&str, Duration) {
    let (session, rest) = header.split_once(';').unwrap_or((header, ""));
    let timeout = rest.split_once("timeout=").map_or("", |(_, rest)| rest);
    let seconds = timeout.split(';').next().map(str::trim).map(str::parse);
    let interval = match seconds {
        Some(Ok(seconds)) if seconds > 0 => Duration::from_secs(seconds) / 2,
        _ => KEEP_ALIVE_INTERVAL,
    };
    (session.trim(), interval.min(KEEP_ALIVE_INTERVAL))
}

/// What a connection carries.
enum Part {
    /// One packet of media, or a report about it.
    Media(Vec<u8>),
    Message(Message),
}

/// A request or an answer.
#[derive(Clone)]
struct Message {
    start: String,
    headers: Vec<String>,
    body: Vec<u8>,
}

impl Part {
    fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let first = from.fill_buf()?.first().copied();
        let first = first.ok_or(io::ErrorKind::UnexpectedEof)?;
        if first == b'$' {
            let mut bytes = vec![0; 4];
            from.read_exact(&mut bytes)?;
            let len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
            bytes.resize(4 + len, 0);
            from.read_exact(&mut bytes[4..])?;
            return Ok(Self::Media(bytes));
        }
        let mut left = MAX_MESSAGE;
        let mut line = || -> io::Result<String> {
            let mut bytes = Vec::new();
            let len = from.by_ref().take(left).read_until(b'\n', &mut bytes)? as u64;
            if !bytes.ends_with(b"\n") {
                return Err(io::Error::other("a message is cut or too large"));
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

    /// Status of an answer.
    fn status(&self) -> Option<&str> {
        self.start.split(' ').nth(1)
    }

    fn challenges(&self) -> Vec<Challenge> {
        let values = self.values("www-authenticate");
        values.map(Challenge::parse).collect()
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
    fn addresses_are_split_behind_the_port() {
        assert_eq!(split("rtsp://h:8554/a?b=c"), ("h:8554", "/a?b=c"));
        assert_eq!(split("rtsp://h"), ("h", ""));
    }

    #[test]
    fn sessions_are_kept_at_half_of_their_timeout() {
        for (header, session, milliseconds) in [
            ("12;timeout=5", "12", 2500),
            ("ab; timeout=7 ;x=1", "ab", 3500),
            ("12;timeout=60", "12", 4000),
            ("12;timeout=0", "12", 4000),
            ("12", "12", 4000),
        ] {
            let wanted = (session, Duration::from_millis(milliseconds));
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
