// SPDX-License-Identifier: Apache-2.0
//! The ways to read the figures, as configured: started and stopped together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::listener::listen;
use super::text_file::{TextFile, check_text_file};
use super::{MetricsError, WriteFigures};
use jetwatch_config::MetricsConfig;
use jetwatch_http::Listener;

/// The listener and the text file. Both end when it is dropped, which takes some seconds at most.
pub struct Exporter {
    listener: Option<Listener>,
    _text_file: Option<TextFile>,
}

impl Exporter {
    /// Starts what `config` names, with the figures that `write` gives. `interval` is that of the text file.
    ///
    /// # Errors
    /// The address cannot be listened on, a file cannot be used, or no thread can be started.
    pub fn start(
        config: &MetricsConfig,
        device: &str,
        interval: Duration,
        write: WriteFigures,
    ) -> Result<Self, MetricsError> {
        let listener = match config.listen {
            Some(address) => Some(listen(config, address, Arc::clone(&write))?),
            None => None,
        };
        let text_file = match &config.text_file {
            Some(path) => Some(TextFile::start(path, device, interval, write)?),
            None => None,
        };
        Ok(Self {
            listener,
            _text_file: text_file,
        })
    }

    /// The address of the listener, with the real port; `None` where nothing listens.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(Listener::local_addr)
    }
}

/// What [`Exporter::start`] would find: a line for each thing that is configured. Listens for a moment, and changes no file.
#[must_use]
pub fn check(config: &MetricsConfig) -> Vec<Result<String, MetricsError>> {
    let mut lines = Vec::new();
    if let Some(address) = config.listen {
        let write: WriteFigures = Arc::new(|_, _| {});
        lines.push(listen(config, address, write).map(|listener| {
            drop(listener);
            let scheme = match config.tls {
                Some(_) => "https",
                None => "http",
            };
            let token = match config.token_file {
                Some(_) => "with a token",
                None => "without a token",
            };
            format!("{scheme}://{address}/metrics is free, {token}")
        }));
    }
    if let Some(path) = &config.text_file {
        let line = || format!("{} can be written", path.display());
        lines.push(check_text_file(path).map(|()| line()));
    }
    lines
}
