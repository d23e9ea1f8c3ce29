// SPDX-License-Identifier: Apache-2.0
//! An HTTP server with one file that answers with given faults, one connection after the other.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How to answer one request. The last answer of a list repeats.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The file, or the requested part.
    File,
    /// The file or part, but the connection ends after this many of its bytes.
    CutAfter(usize),
    /// The whole file, whatever was requested.
    Whole,
    /// The whole file with this length in the header.
    Announced(usize),
    /// The whole file without any length.
    Unannounced,
    /// Other bytes of the same length.
    Other,
    /// A part that was not requested.
    WrongPart,
    /// A status without a file; headers end with CRLF each.
    Status(u16, &'static str),
    /// Another address.
    Redirect(String),
    /// Nothing, for ever.
    Silent,
    /// This many bytes, then nothing for ever.
    SilentAfter(usize),
}

/// A running server. Its threads end with the test's process.
pub struct FileServer {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FileServer {
    /// Serves `file` under every path; `tag` is its entity tag.
    pub fn start(file: Vec<u8>, tag: &'static str, answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&requests);
        thread::spawn(move || {
            let mut answers = answers.into_iter().peekable();
            for client in listener.incoming().flatten() {
                let answer = answers.next().expect("there is an answer");
                if answers.peek().is_none() {
                    answers = vec![answer.clone()].into_iter().peekable();
                }
                let (file, received) = (file.clone(), Arc::clone(&received));
                // A silent answer must not keep the next request waiting.
                thread::spawn(move || respond(client, &file, tag, &answer, &received));
            }
        });
        Self { port, requests }
    }

    /// Address of the file.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/models/net.onnx", self.port)
    }

    /// The request headers, in lower case.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no thread panicked").clone()
    }
}

fn respond(
    mut client: TcpStream,
    file: &[u8],
    tag: &str,
    answer: &Answer,
    received: &Mutex<Vec<String>>,
) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match client.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    received
        .lock()
        .expect("no thread panicked")
        .push(head.clone());
    let value = |name: &str| {
        head.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let is_same = value("if-range").is_none_or(|wanted| wanted == tag.to_lowercase());
    let asked = value("range").filter(|_| is_same).and_then(|range| {
        range
            .strip_prefix("bytes=")?
            .strip_suffix('-')?
            .parse()
            .ok()
    });
    let start: usize = asked.unwrap_or(0);
    if start >= file.len() {
        let _ =
            client.write_all(b"HTTP/1.1 416 Range Not Satisfiable\r\ncontent-length: 0\r\n\r\n");
        return;
    }
    let part = &file[start..];
    let fields = format!("etag: {tag}\r\nconnection: close\r\n");
    let whole = |len: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\n{fields}\r\n");
    let ranged = if asked.is_some() {
        let (last, total) = (file.len() - 1, file.len());
        format!(
            "HTTP/1.1 206 Partial Content\r\ncontent-length: {}\r\ncontent-range: bytes {start}-{last}/{total}\r\n{fields}\r\n",
            part.len()
        )
    } else {
        whole(file.len())
    };
    let (head, body): (String, Vec<u8>) = match answer {
        Answer::File => (ranged, part.to_vec()),
        Answer::CutAfter(len) | Answer::SilentAfter(len) => {
            (ranged, part[..*len.min(&part.len())].to_vec())
        }
        Answer::Whole => (whole(file.len()), file.to_vec()),
        Answer::Announced(len) => (whole(*len), file.to_vec()),
        Answer::Unannounced => (format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), file.to_vec()),
        Answer::Other => (whole(file.len()), vec![7; file.len()]),
        Answer::WrongPart => (
            ranged.replace(&format!("bytes {start}-"), "bytes 3-"),
            part.to_vec(),
        ),
        Answer::Status(status, more) => (
            format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n{more}\r\n"),
            Vec::new(),
        ),
        Answer::Redirect(to) => (
            format!(
                "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            ),
            Vec::new(),
        ),
        Answer::Silent => (String::new(), Vec::new()),
    };
    let _ = client.write_all(head.as_bytes());
    let _ = client.write_all(&body);
    if matches!(answer, Answer::Silent | Answer::SilentAfter(_)) {
        // Longer than any test: the client must give up.
        thread::sleep(Duration::from_secs(600));
    }
}

/// A CONNECT proxy that records its requests.
pub struct Tunnel {
    port: u16,
    tunnels: Arc<Mutex<Vec<String>>>,
}

impl Tunnel {
    /// Starts it. Every tunnel leads to `target`, whatever host was requested.
    pub fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let tunnels = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&tunnels);
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n")
                    && client.read(&mut byte).is_ok_and(|len| len == 1)
                {
                    head.push(byte[0]);
                }
                received
                    .lock()
                    .expect("no thread panicked")
                    .push(String::from_utf8_lossy(&head).into_owned());
                let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)) else {
                    continue;
                };
                if client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").is_err() {
                    continue;
                }
                let (mut back_from, mut back_to) = (
                    server.try_clone().expect("a copy"),
                    client.try_clone().expect("a copy"),
                );
                thread::spawn(move || std::io::copy(&mut client, &mut server));
                thread::spawn(move || {
                    let _ = std::io::copy(&mut back_from, &mut back_to);
                    let _ = back_to.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        Self { port, tunnels }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Its requests.
    pub fn connect_requests(&self) -> Vec<String> {
        self.tunnels.lock().expect("no thread panicked").clone()
    }
}
