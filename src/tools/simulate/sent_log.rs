//! The list of the events that were made: lines of JSON, by which a consumer's table is compared.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::SimulateError;

/// One event.
#[derive(Serialize)]
struct Line<'a> {
    device: &'a str,
    spool: &'a str,
    seq: u64,
}

/// Counts events, and writes them where a file is given.
#[derive(Debug)]
pub(crate) struct SentLog {
    file: Option<(PathBuf, BufWriter<File>)>,
    events: u64,
    failure: Option<io::Error>,
}

impl SentLog {
    /// Creates the file at `path`, or empties it.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: Option<&Path>) -> Result<Self, SimulateError> {
        let file = match path {
            Some(path) => {
                let file = File::create(path).map_err(|source| SimulateError::Log {
                    path: path.to_owned(),
                    source,
                })?;
                Some((path.to_owned(), BufWriter::new(file)))
            }
            None => None,
        };
        Ok(Self {
            file,
            events: 0,
            failure: None,
        })
    }

    /// Notes the events with these numbers. The first failure to write is kept for [`finish`](Self::finish).
    pub fn note(&mut self, device: &str, spool: &str, numbers: std::ops::Range<u64>) {
        self.events += numbers.end - numbers.start;
        let Some((_, file)) = self.file.as_mut().filter(|_| self.failure.is_none()) else {
            return;
        };
        for seq in numbers {
            let line = Line { device, spool, seq };
            let written = serde_json::to_writer(&mut *file, &line)
                .map_err(io::Error::from)
                .and_then(|()| file.write_all(b"\n"));
            if let Err(error) = written {
                self.failure = Some(error);
                return;
            }
        }
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// A line could not be written.
    pub fn finish(&mut self) -> Result<(), SimulateError> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        match self.failure.take().map_or_else(|| file.flush(), Err) {
            Ok(()) => Ok(()),
            Err(source) => Err(SimulateError::Log {
                path: path.clone(),
                source,
            }),
        }
    }
}
