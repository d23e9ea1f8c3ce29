// SPDX-License-Identifier: Apache-2.0
//! Errors of downloads.

use std::io;
use std::path::PathBuf;

use jetwatch_config::redact;
use jetwatch_files::Sha256Digest;

/// Why a file could not be fetched. Under the file's name there is nothing, or what was there before.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum FetchError {
    #[error("{}: the server returned {status}, expected 200: {}", redact(url), meaning(*status))]
    Status { url: String, status: u16 },
    #[error(
        "{}: found {found} bytes, expected {expected}: the file was replaced, or a proxy answered with its own page; nothing \
         was kept",
        redact(url)
    )]
    Length {
        url: String,
        found: u64,
        expected: u64,
    },
    #[error(
        "{}: found SHA-256 {found}, expected {expected}: the file was damaged in transit or replaced; nothing was kept; try \
         again, and if the hash stays the same do not use the file",
        redact(url)
    )]
    Hash {
        url: String,
        found: Sha256Digest,
        /// What is known.
        expected: Sha256Digest,
    },
    #[error("{}: failed after {attempts} attempts: {reason}{}", redact(url), kept(*part_bytes))]
    RetriesExhausted {
        url: String,
        attempts: u32,
        reason: String,
        part_bytes: u64,
    },
    /// The address, the proxy's address or the TLS connection is wrong: another attempt cannot help.
    #[error("{}: {reason}", redact(url))]
    Rejected { url: String, reason: String },
    #[error("cannot write {}: {source}{}", path.display(), advice(source))]
    Write { path: PathBuf, source: io::Error },
    #[error("{} is being written by another jetwatch: wait for it to end", path.display())]
    Busy { path: PathBuf },
}

fn meaning(status: u16) -> &'static str {
    match status {
        401 | 403 => {
            "access is denied by the server or a proxy; download the file manually and give its address with --from"
        }
        404 | 410 => {
            "the file no longer exists; find the address of its authors and give it with --from"
        }
        407 => "the proxy needs a password: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT",
        429 => "too many requests; try again later",
        500.. => "the server has an error; try again later",
        _ => "unexpected status; try again later, or give another address with --from",
    }
}

fn kept(bytes: u64) -> String {
    if bytes == 0 {
        return String::new();
    }
    format!("; {bytes} bytes are kept, run the command again to resume")
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free disk space, or choose another folder with --into, and run the command again to resume"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; choose a writable folder with --into"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_no_password_of_an_address() {
        let error = FetchError::Status {
            url: "https://user:secret@mirror.example/x.onnx".to_owned(),
            status: 404,
        };
        let text = error.to_string();
        assert!(
            text.contains("mirror.example") && !text.contains("secret"),
            "{text}"
        );
    }

    #[test]
    fn fetch_errors_include_advice() {
        let write = |kind: io::ErrorKind| FetchError::Write {
            path: "m/x.onnx.part".into(),
            source: kind.into(),
        };
        let status = |status| FetchError::Status {
            url: "https://h/x".to_owned(),
            status,
        };
        let given_up = FetchError::RetriesExhausted {
            url: "https://h/x".to_owned(),
            attempts: 6,
            reason: "the server sent nothing for 30 s".to_owned(),
            part_bytes: 7,
        };
        #[rustfmt::skip]
        let cases = [
            (write(io::ErrorKind::StorageFull), "m/x.onnx.part: no storage space; free disk space"),
            (write(io::ErrorKind::PermissionDenied), "writable folder with --into"),
            (status(404), "returned 404, expected 200: the file no longer exists"),
            (status(503), "has an error; try again"),
            (status(407), "HTTPS_PROXY="),
            (given_up, "after 6 attempts: the server sent nothing for 30 s; 7 bytes are kept"),
        ];
        for (error, wanted) in cases {
            assert!(
                error.to_string().contains(wanted),
                "{error}\ninstead of\n{wanted}"
            );
        }
    }
}
