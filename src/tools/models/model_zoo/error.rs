//! Why a file could not be fetched.

use std::io;
use std::path::PathBuf;

use jetwatch_files::Sha256Digest;

/// Why a file could not be fetched. Under the file's name there is nothing, or what was there before.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The server refuses.
    #[error("{url}: the server answers {status}, expected 200: {}", meaning(*status))]
    Status {
        /// The address.
        url: String,
        /// The status code.
        status: u16,
    },
    /// The server has a file of another length.
    #[error(
        "{url}: found {found} bytes, expected {expected}: the file was replaced, or a proxy answered with its own page; nothing \
         was kept"
    )]
    Length {
        /// The address.
        url: String,
        /// What the server announces or sends.
        found: u64,
        /// What is known.
        expected: u64,
    },
    /// The bytes are not those of the file.
    #[error(
        "{url}: found SHA-256 {found}, expected {expected}: the file was damaged on the way or replaced; nothing was kept; try \
         again, and if the hash stays the same do not use the file"
    )]
    Hash {
        /// The address.
        url: String,
        /// Of the bytes that came.
        found: Sha256Digest,
        /// What is known.
        expected: Sha256Digest,
    },
    /// All attempts failed.
    #[error("{url}: given up after {attempts} attempts: {reason}{}", kept(*part_bytes))]
    RetriesExhausted {
        /// The address.
        url: String,
        /// How often it was tried.
        attempts: u32,
        /// What went wrong last.
        reason: String,
        /// Bytes that a next call starts from.
        part_bytes: u64,
    },
    /// The address, the proxy's address or the connection's security is wrong: trying again cannot help.
    #[error("{url}: {reason}")]
    Rejected {
        /// The address.
        url: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}{}", path.display(), advice(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process fetches the same file.
    #[error("{} is being written by another jetwatch: wait for it to end", path.display())]
    Busy {
        /// The unfinished file.
        path: PathBuf,
    },
}

fn meaning(status: u16) -> &'static str {
    match status {
        401 | 403 => {
            "access is denied, here or by a proxy; fetch the file by hand and give its address with --from"
        }
        404 | 410 => {
            "the file is not there any more; look where its authors publish it and give the address with --from"
        }
        407 => "the proxy wants a password: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT",
        429 => "too many requests; try again later",
        500.. => "the server is out of order; try again later",
        _ => "this was not expected; try again later, or give another address with --from",
    }
}

fn kept(bytes: u64) -> String {
    if bytes == 0 {
        return String::new();
    }
    format!("; {bytes} bytes are kept, call it again to go on from there")
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free disk space, or choose another folder with --into, and call it again to go on"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; choose a folder that you may write to with --into"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let cases = [
            (
                write(io::ErrorKind::StorageFull),
                "m/x.onnx.part: no storage space; free disk space",
            ),
            (
                write(io::ErrorKind::PermissionDenied),
                "may write to with --into",
            ),
            (
                status(404),
                "answers 404, expected 200: the file is not there any more",
            ),
            (status(503), "out of order"),
            (status(407), "HTTPS_PROXY="),
            (
                given_up,
                "after 6 attempts: the server sent nothing for 30 s; 7 bytes are kept",
            ),
        ];
        for (error, wanted) in cases {
            assert!(
                error.to_string().contains(wanted),
                "{error}\ninstead of\n{wanted}"
            );
        }
    }
}
