// SPDX-License-Identifier: Apache-2.0
//! Connections to a camera for its requests, over TLS where the address says so, with the authorities that the source trusts: those of
//! GIO, as for video. The TLS of the HTTP client does not take a certificate that is signed by itself.

use std::path::PathBuf;
use std::sync::Arc;

use gio::glib::{self, thread_guard::ThreadGuard};
use gio::prelude::*;
use gio::{Cancellable, IOErrorEnum, SocketConnection};
use jetwatch_source::gst::tls;
use parking_lot::Mutex;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// Ends a request that waits for an event, from another thread. Other requests come to their end: a camera that is asked for a
/// subscription makes it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Of connections that are made from now on.
    cancellable: Cancellable,
    is_waiting: bool,
    is_requested: bool,
}

impl Interrupt {
    /// Ends the request that waits, and each further one that would.
    pub fn request(&self) {
        let mut state = self.0.lock();
        state.is_requested = true;
        if state.is_waiting {
            state.cancellable.cancel();
        }
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.0.lock().is_requested
    }

    /// Runs `work`, whose request waits for an event; `None`: its end was requested before.
    pub(crate) fn waiting<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        {
            let mut state = self.0.lock();
            if state.is_requested {
                return None;
            }
            state.is_waiting = true;
        }
        let done = work();
        let mut state = self.0.lock();
        state.is_waiting = false;
        // What is asked for next gets a connection of its own.
        if state.cancellable.is_cancelled() {
            state.cancellable = Cancellable::new();
        }
        Some(done)
    }
}

/// Connects to a camera.
#[derive(Debug, Default)]
pub(crate) struct Connect {
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) interrupt: Interrupt,
}

/// A connection, for one thread.
pub(crate) struct Connection {
    stream: ThreadGuard<SocketConnection>,
    is_tls: bool,
    buffers: LazyBuffers,
    cancellable: Cancellable,
}

impl Connector for Connect {
    type Out = Connection;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Connection>, Error> {
        let location = details.uri.to_string();
        let connected = tls::connect(&location, [80, 443], self.ca_file.as_deref(), false);
        let stream = connected
            .map_err(|error| Error::Other(Box::new(error)))?
            .map_err(|error| failure(&error, details.timeout))?;
        Ok(Some(Connection {
            stream: ThreadGuard::new(stream),
            is_tls: details.needs_tls(),
            buffers: LazyBuffers::new(
                details.config.input_buffer_size(),
                details.config.output_buffer_size(),
            ),
            cancellable: self.interrupt.0.lock().cancellable.clone(),
        }))
    }
}

impl Connection {
    fn set_timeout(&self, timeout: NextTimeout) {
        let seconds = timeout.not_zero().map_or(0, |left| left.as_secs() + 1);
        let socket = self.stream.socket();
        socket.set_timeout(u32::try_from(seconds).unwrap_or(0));
    }
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.set_timeout(timeout);
        let output = self.stream.output_stream();
        let bytes = &self.buffers.output()[..amount];
        let written = output.write_all(bytes, Some(&self.cancellable));
        match written.map_err(|error| failure(&error, timeout))? {
            (_, None) => Ok(()),
            (_, Some(error)) => Err(failure(&error, timeout)),
        }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.set_timeout(timeout);
        let input = self.stream.input_stream();
        let read = input.read(self.buffers.input_append_buf(), Some(&self.cancellable));
        let count = read.map_err(|error| failure(&error, timeout))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    /// Whether it can be used again: nothing is to be read from one that is idle, but its end.
    fn is_open(&mut self) -> bool {
        let socket = self.stream.socket();
        let ready = SocketExt::condition_check(&socket, glib::IOCondition::IN);
        ready.is_empty() && !self.cancellable.is_cancelled()
    }

    fn is_tls(&self) -> bool {
        self.is_tls
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

fn failure(error: &glib::Error, timeout: NextTimeout) -> Error {
    match error.kind::<IOErrorEnum>() {
        Some(IOErrorEnum::TimedOut) => Error::Timeout(timeout.reason),
        _ => Error::Io(std::io::Error::other(
            error.message().trim_end_matches('.').to_owned(),
        )),
    }
}
