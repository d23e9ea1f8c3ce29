// SPDX-License-Identifier: Apache-2.0
//! Downloads one file: attempts, waits, and the check at the end.

use std::path::Path;
use std::thread;
use std::time::Duration;

use jetwatch_files::Sha256Digest;
use jetwatch_types::Backoff;

use super::FetchError;
use super::partial::Partial;
use super::request::{self, AttemptError};

/// Maximum number of attempts, so that a server that sends a few bytes each time does not block for ever.
const MAX_ATTEMPTS: u32 = 100;

/// A file to download.
#[derive(Debug, Clone, Copy)]
pub struct Download<'a> {
    /// Address: `https://…`, or `http://…` if the hash is known.
    pub url: &'a str,
    /// Length in bytes, if known.
    pub bytes: Option<u64>,
    /// SHA-256 of its bytes, if it is known.
    pub sha256: Option<Sha256Digest>,
    /// Where it goes.
    pub path: &'a Path,
}

/// Attempts, waits and timeouts.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Maximum number of consecutive attempts without new bytes.
    pub attempts: u32,
    /// Wait after the first of them; it doubles with each further one.
    pub first_wait: Duration,
    /// Maximum wait.
    pub max_wait: Duration,
    /// Timeout of a connection.
    pub connect: Duration,
    /// Timeout without received bytes.
    pub stall: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 6,
            first_wait: Duration::from_secs(1),
            max_wait: Duration::from_secs(30),
            connect: Duration::from_secs(20),
            stall: Duration::from_secs(30),
        }
    }
}

/// Progress of a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Progress in bytes, and the total if it is known.
    Received {
        /// Bytes received so far, including earlier calls.
        bytes: u64,
        /// Length of the whole file.
        of: Option<u64>,
    },
    /// An attempt failed; the next one starts after the wait.
    Waiting {
        /// Why it failed.
        reason: String,
        /// Time until the next attempt.
        wait: Duration,
    },
}

/// A complete file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadResult {
    /// SHA-256 of its bytes.
    pub sha256: Sha256Digest,
    /// Whether it was there before, with the hash that is known.
    pub was_present: bool,
}

/// Downloads a file. Blocks until it is complete or every attempt has failed; `on_progress` receives the progress.
///
/// The bytes are written to `PATH.part`, which stays after an interruption, so that the next call resumes. It is renamed only
/// when length and hash are right, or unknown.
///
/// # Errors
/// The server rejects the request, all attempts failed, length or hash are wrong, or writing fails.
pub fn download(
    download: &Download<'_>,
    policy: &RetryPolicy,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<DownloadResult, FetchError> {
    if let (Some(expected), Ok(found)) = (download.sha256, Sha256Digest::of_file(download.path))
        && expected == found
    {
        return Ok(DownloadResult {
            sha256: found,
            was_present: true,
        });
    }
    let mut partial = Partial::open(download.path, download.url)?;
    let mut started_at = partial.len();
    loop {
        fetch_with_retries(download, policy, &mut partial, on_progress)?;
        let found = partial.sha256()?;
        match download.sha256 {
            Some(expected) if expected != found => {
                // Bytes of an earlier call may be of another version or damaged: then the whole file is downloaded again.
                if started_at > 0 {
                    log::warn!(
                        "{}: the partial file does not match; downloading the whole file again",
                        download.url
                    );
                    partial.restart()?;
                    started_at = 0;
                    continue;
                }
                partial.discard();
                return Err(FetchError::Hash {
                    url: download.url.to_owned(),
                    found,
                    expected,
                });
            }
            _ => {
                partial.finish()?;
                return Ok(DownloadResult {
                    sha256: found,
                    was_present: false,
                });
            }
        }
    }
}

/// Makes attempts until the file is complete.
fn fetch_with_retries(
    download: &Download<'_>,
    policy: &RetryPolicy,
    partial: &mut Partial,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<(), FetchError> {
    let agent = request::agent(download.url, policy);
    let (mut in_vain, mut most) = (0, partial.len());
    let mut backoff = Backoff::new(policy.first_wait, policy.max_wait);
    for attempts in 1.. {
        let (reason, asked) = match request::attempt(&agent, download, partial, on_progress) {
            Ok(()) => return Ok(()),
            Err(AttemptError::Permanent(error)) => return Err(error),
            Err(AttemptError::Transient(reason, asked)) => (reason, asked),
        };
        // A server that begins again each time brings nothing either.
        if partial.len() > most {
            backoff.reset();
            in_vain = 1;
        } else {
            in_vain += 1;
        }
        most = most.max(partial.len());
        if in_vain >= policy.attempts || attempts >= MAX_ATTEMPTS {
            return Err(FetchError::RetriesExhausted {
                url: download.url.to_owned(),
                attempts,
                reason,
                part_bytes: partial.len(),
            });
        }
        let doubled = backoff.advance();
        let wait = asked.unwrap_or(doubled);
        on_progress(Progress::Waiting { reason, wait });
        thread::sleep(wait);
    }
    unreachable!("the loop ends by returning")
}
