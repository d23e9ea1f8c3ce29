// SPDX-License-Identifier: Apache-2.0
//! TLS of `https://` and `rtsps://`: the authorities to trust, and why a server over HTTP cannot be spoken to, which `souphttpsrc` does not say
//! since GStreamer 1.20. Called by [`http`](super::http), [`rtsp_relay`](super::rtsp_relay),
//! [`session`](super::session), and for the requests of ONVIF.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gio::prelude::*;
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::SourceError;

use super::http::HTTP;

/// Longest wait for a server that is asked why it cannot be spoken to.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The authorities in a PEM file.
///
/// # Errors
/// It cannot be read, or has no certificate.
pub(super) fn authorities(ca_file: &Path) -> Result<gio::TlsDatabase, SourceError> {
    let unusable = |reason: &str| {
        let path = ca_file.display();
        SourceError::Refused(format!(
            "ca_file: cannot use {path}: {reason}; expected a PEM file with certificates that the daemon may read"
        ))
    };
    // A file without a certificate is accepted where it is used.
    let pem = std::fs::read(ca_file).map_err(|error| unusable(&error.to_string()))?;
    // A database takes no relative path.
    let ca_file = std::fs::canonicalize(ca_file).map_err(|error| unusable(&error.to_string()))?;
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    if !pem.windows(BEGIN.len()).any(|window| window == BEGIN) {
        return Err(unusable("it has no certificate"));
    }
    let database = gio::TlsFileDatabase::new(ca_file);
    database
        .map(Cast::upcast)
        .map_err(|error| unusable(error.message()))
}

/// What [`trust`] was given so far.
struct Trusted {
    files: BTreeSet<PathBuf>,
    pem: Vec<u8>,
    /// Databases read theirs when they are used first.
    read_by_databases: Vec<File>,
}

static TRUSTED: Mutex<Trusted> = Mutex::new(Trusted {
    files: BTreeSet::new(),
    pem: Vec::new(),
    read_by_databases: Vec::new(),
});

/// Trusts the authorities in `ca_file` beside the system's wherever this process uses none of a source's own: the elements that fetch the
/// files of a playlist cannot be given a database.
///
/// # Errors
/// The file cannot be used.
pub(super) fn trust(ca_file: &Path) -> Result<(), String> {
    const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";
    let mut trusted = TRUSTED.lock();
    trusted.files.insert(ca_file.to_owned());
    let mut pem = std::fs::read(SYSTEM).unwrap_or_default();
    for path in &trusted.files {
        // One that is gone has an error of its own at the next start of its source.
        pem.extend(std::fs::read(path).unwrap_or_default());
        pem.push(b'\n');
    }
    if pem == trusted.pem {
        return Ok(());
    }
    let unusable =
        |error: &dyn Display| format!("ca_file: cannot use {}: {error}", ca_file.display());
    let file =
        memfd_create("authorities", MemfdFlags::CLOEXEC).map_err(|error| unusable(&error))?;
    let mut file = File::from(file);
    file.write_all(&pem).map_err(|error| unusable(&error))?;
    let database = gio::TlsFileDatabase::new(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .map_err(|error| unusable(&error))?;
    gio::TlsBackend::default().set_default_database(Some(&database));
    trusted.read_by_databases.push(file);
    trusted.pem = pem;
    Ok(())
}

/// Host with port, and the rest of an address.
pub(super) fn split(location: &str) -> (&str, &str) {
    let rest = location
        .split_once("://")
        .map_or(location, |(_, rest)| rest);
    rest.find(['/', '?'])
        .map_or((rest, ""), |at| rest.split_at(at))
}

/// Connects to the server at `location`, over TLS where its scheme says so; `ports` are those without TLS and with it where the address has
/// none. `with_proxy`: by the proxy of the system, if it has one. Blocks for some seconds at most.
///
/// # Errors
/// Its certificate or the file of authorities cannot be used; the inner error: any other reason.
pub fn connect(
    location: &str,
    ports: [u16; 2],
    ca_file: Option<&Path>,
    with_proxy: bool,
) -> Result<Result<gio::SocketConnection, gio::glib::Error>, SourceError> {
    let is_tls = location.starts_with("https:") || location.starts_with("rtsps:");
    let client = gio::SocketClient::new();
    client.set_timeout(u32::try_from(TIMEOUT.as_secs()).unwrap_or(5));
    client.set_tls(is_tls);
    client.set_enable_proxy(with_proxy);
    let authorities = ca_file.map(authorities).transpose()?;
    let problem: Arc<Mutex<Option<String>>> = Arc::default();
    let found = Arc::clone(&problem);
    client.connect_event(move |_, event, _, connection| {
        let connection = connection.and_then(|it| it.downcast_ref::<gio::TlsConnection>());
        if let (gio::SocketClientEvent::TlsHandshaking, Some(tls)) = (event, connection) {
            if authorities.is_some() {
                tls.set_database(authorities.as_ref());
            }
            let found = Arc::clone(&found);
            tls.connect_accept_certificate(move |_, _, errors| {
                let names: Vec<_> = errors.iter_names().map(|(name, _)| name).collect();
                *found.lock() = Some(names.join(", ").to_lowercase().replace('_', "-"));
                false
            });
        }
    });
    let (host, _) = split(location);
    let port = ports[usize::from(is_tls)];
    let connected = client.connect_to_host(host, port, gio::Cancellable::NONE);
    match problem.lock().take() {
        Some(reasons) => Err(SourceError::Certificate { reasons }),
        None => Ok(connected),
    }
}

/// Connects to the server of an `http://` or `https://` address once more. `None`: it can be connected to. Blocks for some seconds at most.
pub(super) fn connection_error(location: &str, ca_file: Option<&Path>) -> Option<SourceError> {
    let error = match connect(location, [80, 443], ca_file, true) {
        Ok(connected) => connected.err()?,
        Err(error) => return Some(error),
    };
    let is_tls_error = error.kind::<gio::TlsError>().is_some();
    Some(SourceError::Element {
        element: HTTP.to_owned(),
        message: error.message().trim_end_matches('.').to_owned(),
        hint: Some(match is_tls_error {
            true => "check the port, and whether the server speaks https:// there or http://",
            false => "check the address, and that the server is on",
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn addresses_are_split_behind_the_port() {
        assert_eq!(split("rtsp://h:8554/a?b=c"), ("h:8554", "/a?b=c"));
        assert_eq!(split("rtsp://h"), ("h", ""));
    }
}
