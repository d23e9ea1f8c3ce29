// SPDX-License-Identifier: Apache-2.0
//! One attempt: a request that resumes at the end of the partial file, and its result.

use std::io::{self, Read};
use std::time::Duration;

use jetwatch_config::redact;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, Timeout};

use super::FetchError;
use super::download::{Download, Progress, RetryPolicy};
use super::partial::Partial;

/// Maximum length of a file whose length is not known in advance.
const MAX_BYTES: u64 = 4 << 30;

/// Maximum wait that a server may request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Why an attempt failed.
pub(super) enum AttemptError {
    /// Another attempt may succeed; after the wait, if the server requests one.
    Transient(String, Option<Duration>),
    /// Another attempt would fail in the same way.
    Permanent(FetchError),
}

impl From<FetchError> for AttemptError {
    fn from(error: FetchError) -> Self {
        Self::Permanent(error)
    }
}

/// A client with the system's certificate authorities, which know those of a company's proxy, and with the proxies of the
/// environment (`ALL_PROXY`, `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`).
pub(super) fn agent(url: &str, policy: &RetryPolicy) -> Agent {
    let found = rustls_native_certs::load_native_certs();
    for error in found.errors {
        log::debug!("ignoring a certificate authority of the system: {error}");
    }
    let authorities: Vec<Certificate<'static>> = found
        .certs
        .iter()
        .map(|authority| Certificate::from_der(authority).to_owned())
        .collect();
    // Without system authorities, the client's built-in list of public ones is used.
    let roots = if authorities.is_empty() {
        RootCerts::WebPki
    } else {
        RootCerts::from(authorities)
    };
    Agent::config_builder()
        .http_status_as_error(false)
        // No redirection from https to http.
        .https_only(url.starts_with("https://"))
        .user_agent(concat!("jetwatch/", env!("CARGO_PKG_VERSION")))
        // Without content encoding: lengths and ranges count the file's own bytes.
        .accept_encoding("identity")
        .tls_config(TlsConfig::builder().root_certs(roots).build())
        .timeout_resolve(Some(policy.connect))
        .timeout_connect(Some(policy.connect))
        .timeout_recv_response(Some(policy.stall))
        .timeout_per_read(Some(policy.stall))
        .timeout_per_write(Some(policy.stall))
        .build()
        .into()
}

/// Requests the missing bytes of `partial` and appends them, until the file is complete as far as its length is known.
pub(super) fn attempt(
    agent: &Agent,
    download: &Download<'_>,
    partial: &mut Partial,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<(), AttemptError> {
    let url = download.url;
    if download.bytes == Some(partial.len()) {
        return Ok(());
    }
    if download.bytes.is_some_and(|bytes| partial.len() > bytes) {
        partial.restart()?;
    }
    let start = partial.len();
    let mut request = agent.get(url);
    if start > 0 {
        request = request.header("range", format!("bytes={start}-"));
        // Without it the rest of a replaced file would be appended to the beginning of the old one.
        if let Some(validator) = partial.validator() {
            request = request.header("if-range", validator);
        }
    }
    let response = request
        .call()
        .map_err(|error| classify_error(url, &error))?;
    let header = |name: &str| {
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let status = response.status().as_u16();
    let announced = header("content-length").and_then(|len| len.parse::<u64>().ok());
    let total = match status {
        200 => {
            partial.restart()?;
            announced
        }
        206 => match range(header("content-range").as_deref()) {
            Some((first, total)) if first == start => {
                total.or_else(|| announced.map(|len| start.saturating_add(len)))
            }
            _ => {
                partial.restart()?;
                return Err(AttemptError::Transient(
                    "the server sent another range than requested".to_owned(),
                    None,
                ));
            }
        },
        416 => {
            partial.restart()?;
            return Err(AttemptError::Transient(
                "the server's file is shorter than the partial file".to_owned(),
                None,
            ));
        }
        408 | 429 | 500.. => {
            let asked = header("retry-after").and_then(|wait| wait.parse().ok());
            let asked = asked.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
            let text = FetchError::Status {
                url: url.to_owned(),
                status,
            }
            .to_string();
            // The last error already contains the address.
            let text = text
                .strip_prefix(&redact(url))
                .unwrap_or(&text)
                .trim_start_matches(": ");
            return Err(AttemptError::Transient(text.to_owned(), asked));
        }
        _ => {
            return Err(FetchError::Status {
                url: url.to_owned(),
                status,
            }
            .into());
        }
    };
    if let (Some(found), Some(expected)) = (total, download.bytes)
        && found != expected
    {
        let url = url.to_owned();
        return Err(FetchError::Length {
            url,
            found,
            expected,
        }
        .into());
    }
    if partial.len() == 0 {
        let weak = |tag: &String| !tag.starts_with("W/");
        let validator = header("etag")
            .filter(weak)
            .or_else(|| header("last-modified"));
        partial.save_source(url, validator.as_deref())?;
    }
    let wanted = download.bytes.or(total);
    receive(response.into_body(), url, wanted, partial, on_progress)
}

/// Appends the body to `partial`; `wanted` is the resulting length of the whole file, if known.
fn receive(
    body: Body,
    url: &str,
    wanted: Option<u64>,
    partial: &mut Partial,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<(), AttemptError> {
    let most = wanted.unwrap_or(MAX_BYTES);
    let mut reader = body.into_reader();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let len = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(AttemptError::Transient(broken(&error), None)),
        };
        if partial.len() + len as u64 > most {
            let found = partial.len() + len as u64;
            let url = url.to_owned();
            partial.restart()?;
            return Err(FetchError::Length {
                url,
                found,
                expected: most,
            }
            .into());
        }
        partial.append(&buffer[..len])?;
        on_progress(Progress::Received {
            bytes: partial.len(),
            of: wanted,
        });
    }
    match wanted {
        Some(wanted) if partial.len() < wanted => {
            let text = format!(
                "the connection ended after {} of {wanted} bytes",
                partial.len()
            );
            Err(AttemptError::Transient(text, None))
        }
        _ => Ok(()),
    }
}

fn broken(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    if matches!(inner, Some(ureq::Error::Timeout(_))) || error.kind() == io::ErrorKind::TimedOut {
        return "the server stopped sending".to_owned();
    }
    format!("the connection broke: {error}")
}

/// First byte and total length of `bytes 100-199/1000`.
fn range(text: Option<&str>) -> Option<(u64, Option<u64>)> {
    let (span, total) = text?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = span.split_once('-')?;
    Some((first.trim().parse().ok()?, total.trim().parse().ok()))
}

fn classify_error(url: &str, error: &ureq::Error) -> AttemptError {
    let refused = |reason: String| {
        let url = url.to_owned();
        AttemptError::Permanent(FetchError::Rejected { url, reason })
    };
    let passing = |text: String| AttemptError::Transient(text, None);
    match error {
        ureq::Error::HostNotFound | ureq::Error::Timeout(Timeout::Resolve) => passing(
            "the host name cannot be resolved: check the network; behind a proxy, set HTTPS_PROXY".to_owned(),
        ),
        ureq::Error::Timeout(Timeout::Connect) => {
            passing("the host does not respond; behind a proxy, set HTTPS_PROXY".to_owned())
        }
        ureq::Error::Timeout(_) => passing("the server does not respond".to_owned()),
        ureq::Error::ConnectProxyFailed(reason) => passing(format!("the proxy rejects the request: {reason}")),
        ureq::Error::Io(error) if is_name(error) => passing(format!(
            "the host name cannot be resolved ({error}): check the network; behind a proxy, set HTTPS_PROXY"
        )),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => refused(format!("{error}; expected an address such as https://HOST/PATH")),
        ureq::Error::TooManyRedirects | ureq::Error::RedirectFailed => {
            refused("redirection loop: more than 10 redirections".to_owned())
        }
        ureq::Error::RequireHttpsOnly(_) => {
            refused("it leads from https to http, where the file could be replaced in transit".to_owned())
        }
        ureq::Error::InvalidProxyUrl => refused(
            "the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY is not an address; expected http://HOST:PORT".to_owned(),
        ),
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => refused(format!(
            "the connection is not trusted: {error}; behind a proxy that inspects TLS, add its authority to the system's \
             (update-ca-certificates), and see that the clock is right"
        )),
        other => passing(format!("the connection broke: {other}")),
    }
}

/// Whether the host name could not be resolved; the error has it only as text.
fn is_name(error: &io::Error) -> bool {
    error.to_string().contains("lookup address")
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn content_range_is_parsed() {
        assert_eq!(range(Some("bytes 100-199/1000")), Some((100, Some(1000))));
        assert_eq!(range(Some("bytes 5-9/*")), Some((5, None)));
        for text in ["", "bytes", "bytes */1000", "100-199/1000", "bytes x-1/2"] {
            assert_eq!(range(Some(text)), None, "{text}");
        }
        assert_eq!(range(None), None);
    }
}
