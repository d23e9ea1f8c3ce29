// SPDX-License-Identifier: Apache-2.0
//! Offers the page on a thread of its own, `web`, as configured.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::auth::{FirstUser, ShareLinks, Users, UsersCache};
use super::http::{MAX_ENCODED, Service, WorkThreads};
use super::{Backend, Hub, PictureBoard, WebError};
use jetwatch_config::{WebConfig, WebTlsConfig};
use jetwatch_http::{Listener, Settings, Socket, missing_protection};
use jetwatch_telemetry::{name_thread, thread_names};

const SETTINGS: Settings = Settings {
    subject: "the page",
    thread: thread_names::WEB,
    name_thread,
    // Work that may block, encoded streams, and a hash of a password.
    blocking_threads: (
        thread_names::WEB_FILES,
        WorkThreads::COUNT + MAX_ENCODED[0] + 1,
    ),
    max_connections: 192,
    max_head_bytes: 16 * 1024,
    max_headers: 64,
    head_timeout: Duration::from_secs(10),
    write_timeout: Duration::from_secs(15),
    connection_timeout: None,
};

/// The file in the folder of the state with the key of links.
const SHARE_KEY: &str = "share.key";

/// Offers the page until it is dropped.
#[derive(Debug)]
pub struct WebServer(Listener);

impl WebServer {
    /// Starts to listen on `listen`, or where that is taken on the next candidate of the configuration; returns when clients can
    /// connect. The address is written to the first of `files` that can be written. In the folder `state` is what later runs need.
    ///
    /// # Errors
    /// The port is taken, the address is not this machine's or open to the network without users and TLS, or a file cannot be used.
    pub fn start(
        config: &WebConfig,
        listen: SocketAddr,
        files: &[PathBuf],
        state: Option<&Path>,
        hub: Arc<Hub>,
        pictures: Arc<PictureBoard>,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, WebError> {
        check_open(config, listen)?;
        let users = open_users(config, listen)?;
        let tls = config.tls.as_ref().map(acceptor).transpose()?;
        let socket = bind_free(config, listen)?;
        let scheme = if config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let path = config.base_path.as_deref().unwrap_or_default();
        let url = format!("{scheme}://{}{path}/", socket.address);
        log::info!("the page is at {url}");
        let has_users = users
            .as_ref()
            .is_none_or(|cache| !cache.users().users().is_empty());
        let first = FirstUser::of_page(&url, has_users, files);
        let links = ShareLinks::open(state.map(|state| state.join(SHARE_KEY)));
        let service = Service::new(config, users, first, links, hub, pictures, backend)?;
        let listener =
            Listener::start(socket, SETTINGS, tls, service).map_err(|cause| WebError::Thread {
                name: thread_names::WEB,
                cause,
            })?;
        Ok(Self(listener))
    }

    /// The address, with the real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }
}

/// Checks that the page can be offered as [`WebServer::start`] would offer it: one text for each part, or why it cannot be.
pub fn check(config: &WebConfig) -> Vec<Result<String, WebError>> {
    let Some(listen) = config.listen else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    lines.push(check_open(config, listen).and_then(|()| {
        let socket = bind(listen)?;
        Ok(format!("the page can be at {}", socket.address))
    }));
    if let Some(path) = &config.users_file {
        lines.push(
            match open_users(config, listen).and_then(|_| Ok(Users::load_or_new(path)?)) {
                Ok(users) if users.users().is_empty() => Ok(format!(
                    "{}: no user yet; `jetwatch page` prints the link that makes the first one",
                    path.display()
                )),
                Ok(users) => {
                    let (users, tokens) = (users.users().len(), users.tokens().len());
                    Ok(format!(
                        "{}: {users} users, {tokens} tokens",
                        path.display()
                    ))
                }
                Err(error) => Err(error),
            },
        );
    }
    if let Some(tls) = &config.tls {
        lines.push(acceptor(tls).map(|_| "certificate and key of the page fit".to_owned()));
    }
    lines
}

fn check_open(config: &WebConfig, listen: SocketAddr) -> Result<(), WebError> {
    let protections = [
        ("users_file", config.users_file.is_some()),
        ("tls", config.tls.is_some()),
    ];
    match missing_protection(listen, protections) {
        Some(missing) => Err(WebError::OpenToNetwork {
            address: listen,
            missing,
        }),
        None => Ok(()),
    }
}

fn acceptor(tls: &WebTlsConfig) -> Result<jetwatch_http::TlsAcceptor, WebError> {
    jetwatch_http::acceptor(&tls.cert_file, &tls.key_file).map_err(WebError::Pem)
}

/// The users of the configuration. The first one may be made by a link where other machines do not reach the page.
fn open_users(config: &WebConfig, listen: SocketAddr) -> Result<Option<UsersCache>, WebError> {
    let path = config.users_file.as_deref();
    let users = path.map(|path| UsersCache::open(path, listen.ip().is_loopback()));
    Ok(users.transpose()?)
}

fn bind_free(config: &WebConfig, listen: SocketAddr) -> Result<Socket, WebError> {
    let others = config.candidates.iter().filter(|other| **other != listen);
    let first = bind(listen);
    others.fold(first, |bound, other| match bound {
        Err(WebError::PortInUse { .. }) => bind(*other),
        bound => bound,
    })
}

fn bind(address: SocketAddr) -> Result<Socket, WebError> {
    Socket::bind(address).map_err(|cause| match cause.kind() {
        ErrorKind::AddrInUse => WebError::PortInUse { address },
        _ => WebError::Listen { address, cause },
    })
}
