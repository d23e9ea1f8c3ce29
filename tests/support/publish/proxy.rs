// SPDX-License-Identifier: Apache-2.0
//! A TCP proxy that breaks connections on command, possibly in the middle of packets.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Forwards one local port to another.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: u16,
    open: AtomicBool,
    /// Bytes from client to target after which the connection breaks; 0: never.
    cut_after: AtomicU64,
    cuts: AtomicU64,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts forwarding to `target` on 127.0.0.1.
    pub fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            target,
            open: AtomicBool::new(true),
            cut_after: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            streams: Mutex::new(Vec::new()),
        });
        let own = Arc::clone(&shared);
        // The thread ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if own.open.load(Ordering::SeqCst) {
                    own.serve(client);
                }
            }
        });
        Self { port, shared }
    }

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Breaks all connections and, until [`open`](Self::open), every new one.
    pub fn block(&self) {
        self.shared.open.store(false, Ordering::SeqCst);
        self.shared.cut_all();
    }

    /// Lets connections through again.
    pub fn open(&self) {
        self.shared.open.store(true, Ordering::SeqCst);
    }

    /// Breaks the connection each time that this many bytes have passed towards the target.
    pub fn cut_after(&self, bytes: u64) {
        self.shared.cut_after.store(bytes, Ordering::SeqCst);
    }

    /// How often a connection was broken by [`cut_after`](Self::cut_after).
    pub fn cut_count(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, client: TcpStream) {
        let Ok(target) = TcpStream::connect(("127.0.0.1", self.target)) else {
            return;
        };
        let copy = |stream: &TcpStream| stream.try_clone().expect("descriptors are left");
        self.streams
            .lock()
            .expect("not poisoned")
            .extend([copy(&client), copy(&target)]);
        if !self.open.load(Ordering::SeqCst) {
            self.cut_all();
        }
        let (client_in, target_out) = (copy(&client), copy(&target));
        let up = Arc::clone(self);
        let down = Arc::clone(self);
        thread::spawn(move || up.pump(client_in, target_out, true));
        thread::spawn(move || down.pump(target, client, false));
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream, counted: bool) {
        let mut buffer = [0; 1024];
        let mut passed = 0;
        while let Ok(bytes) = from.read(&mut buffer) {
            if bytes == 0 || to.write_all(&buffer[..bytes]).is_err() {
                break;
            }
            passed += bytes as u64;
            let limit = self.cut_after.load(Ordering::SeqCst);
            if counted && limit > 0 && passed >= limit {
                self.cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    fn cut_all(&self) {
        for stream in self.streams.lock().expect("not poisoned").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
