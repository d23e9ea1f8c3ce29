// SPDX-License-Identifier: Apache-2.0
//! The answers to requests: figures at `/metrics` for who has the token, and nothing else. Does no network I/O.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;

use super::token::Token;
use super::{Form, WriteFigures, exposition};
use jetwatch_http::{Peer, is_own_host};
use jetwatch_telemetry::LogDedup;

/// What answers requests.
pub(super) struct Service {
    /// `None`: requests need none.
    token: Option<Token>,
    write: WriteFigures,
    /// Length of the last text, which the next one has about.
    length: Mutex<usize>,
    failures: Mutex<LogDedup>,
}

impl Service {
    pub(super) fn new(token: Option<Token>, write: WriteFigures) -> Self {
        Self {
            token,
            write,
            length: Mutex::new(0),
            failures: Mutex::default(),
        }
    }

    /// The answer to a request, whose body is not read. Reads the file of the token.
    fn respond<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if !matches!(path, "/" | "/metrics") {
            return plain(
                StatusCode::NOT_FOUND,
                "not found; the figures are at /metrics\n",
            );
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD are answered\n",
            );
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        if path == "/" {
            return plain(
                StatusCode::OK,
                "jetwatch: the figures for Prometheus are at /metrics\n",
            );
        }
        if let Some(refusal) = self.refuse(request) {
            return refusal;
        }
        let mut length = self.length.lock();
        // A little more, for counts that have gained a digit.
        let mut text = String::with_capacity(*length + 256);
        (self.write)(Form::Http, &mut text);
        *length = text.len();
        drop(length);
        let mut response = Response::new(Full::new(Bytes::from(text)));
        let content_type = HeaderValue::from_static(exposition::CONTENT_TYPE);
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }

    /// The answer to a request that may not read the figures; `None`: it may.
    fn refuse<B>(&self, request: &Request<B>) -> Option<Response<Full<Bytes>>> {
        // A name that an attacker points here would let pages of other sites read the figures.
        let host = request
            .headers()
            .get(HOST)
            .and_then(|host| host.to_str().ok());
        if self.token.is_none() && !host.is_none_or(|host| is_own_host(host, &[])) {
            return Some(plain(
                StatusCode::MISDIRECTED_REQUEST,
                "without metrics.token_file, expected localhost or an address as the host\n",
            ));
        }
        let header = request.headers().get(AUTHORIZATION);
        match self
            .token
            .as_ref()?
            .admits(header.map(HeaderValue::as_bytes))
        {
            Ok(true) => {
                self.failures.lock().reset();
                None
            }
            Ok(false) => {
                let mut response = plain(
                    StatusCode::UNAUTHORIZED,
                    "the bearer token is missing or wrong; see metrics.token_file\n",
                );
                let scheme = HeaderValue::from_static("Bearer realm=\"jetwatch\"");
                response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
                Some(response)
            }
            Err(error) => {
                let text = error.to_string();
                if let Some(repeats) = self.failures.lock().admit(&text) {
                    log::warn!(repeats; "{text}");
                }
                Some(plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the token cannot be read; see the log of jetwatch\n",
                ))
            }
        }
    }
}

impl jetwatch_http::Service for Service {
    type Body = Full<Bytes>;

    async fn answer(self: Arc<Self>, request: Request<Incoming>, _: Peer) -> Response<Full<Bytes>> {
        self.respond(&request)
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_without_a_token_are_for_local_names_only() {
        let service = Service::new(None, Arc::new(|_, text: &mut String| text.push('x')));
        #[rustfmt::skip]
        let cases = [
            (None, StatusCode::OK),
            (Some("localhost:9273"), StatusCode::OK),
            (Some("127.0.0.1"), StatusCode::OK),
            (Some("[::1]:9273"), StatusCode::OK),
            (Some("::1"), StatusCode::OK),
            (Some("evil.example:9273"), StatusCode::MISDIRECTED_REQUEST),
            (Some("127.0.0.1.evil.example"), StatusCode::MISDIRECTED_REQUEST),
            (Some(""), StatusCode::MISDIRECTED_REQUEST),
        ];
        for (host, expected) in cases {
            let mut request = Request::builder().uri("/metrics");
            if let Some(host) = host {
                request = request.header(HOST, host);
            }
            let answer = service.respond(&request.body(()).expect("a request"));
            assert_eq!(answer.status(), expected, "{host:?}");
        }
    }
}
