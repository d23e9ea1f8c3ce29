// SPDX-License-Identifier: Apache-2.0
//! An HTTP endpoint that answers POST requests as it is set, and keeps what it received.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// How to answer one request. The last answer of a list repeats.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// A status, with further headers that end with CRLF each.
    Status(u16, &'static str),
    /// Nothing, for ever.
    Hang,
    /// The end of the connection.
    Close,
}

/// A request that was read to its end.
#[derive(Debug, Clone)]
pub struct Request {
    /// Path and query.
    pub target: String,
    /// By name in lower case.
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
    /// Status of the answer; `None`: there was none.
    pub status: Option<u16>,
}

impl Request {
    /// The value of a header, which must be there.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.unwrap_or_else(|| panic!("no header {name} in {:?}", self.headers))
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

/// A running endpoint. Its threads end with the test's process.
pub struct Endpoint {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Endpoint {
    /// Listens on any free port.
    pub fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Self::serve(listener, answers)
    }

    /// Answers on `listener`.
    pub fn serve(listener: TcpListener, answers: Vec<Answer>) -> Self {
        let port = listener.local_addr().expect("it is bound").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&requests);
        let answers = Arc::new(Mutex::new(answers));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (received, answers) = (Arc::clone(&received), Arc::clone(&answers));
                thread::spawn(move || respond(&client, &answers, &received));
            }
        });
        Self { port, requests }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address with a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("not poisoned").clone()
    }

    /// The requests that were accepted so far.
    pub fn accepted(&self) -> Vec<Request> {
        let requests = self.requests().into_iter();
        requests
            .filter(|request| request.status.is_some_and(|status| status < 300))
            .collect()
    }
}

/// Answers the requests of one connection until it ends.
fn respond(client: &TcpStream, answers: &Mutex<Vec<Answer>>, received: &Mutex<Vec<Request>>) {
    let mut reader = BufReader::new(client);
    while let Some(mut request) = read(&mut reader) {
        let answer = {
            let mut answers = answers.lock().expect("not poisoned");
            match answers.len() {
                1 => answers[0],
                _ => answers.remove(0),
            }
        };
        if let Answer::Status(status, _) = answer {
            request.status = Some(status);
        }
        received.lock().expect("not poisoned").push(request);
        match answer {
            Answer::Status(status, headers) => {
                let text = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: 2\r\n\r\nok");
                if (&*client).write_all(text.as_bytes()).is_err() {
                    return;
                }
            }
            Answer::Hang => loop {
                thread::park();
            },
            Answer::Close => return,
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|bytes| *bytes > 0)?;
    let target = line.strip_prefix("POST ")?.split(' ').next()?.to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request {
        target,
        headers,
        body,
        status: None,
    })
}
