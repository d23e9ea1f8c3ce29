// SPDX-License-Identifier: Apache-2.0
//! Lines of JSON about the events that were made and about those that the broker has taken: a consumer's table is compared with them. Each
//! line is passed to the operating system before the run goes on, so that a kill of the process takes none.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::SimulateError;

/// An event that was made.
#[derive(Debug, Serialize, Deserialize)]
struct Made<'a> {
    device: &'a str,
    spool: &'a str,
    seq: u64,
}

/// An event that the broker has acknowledged.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Acknowledged<'a> {
    /// Name of the device.
    pub device: &'a str,
    /// Identity of the numbering.
    pub spool: &'a str,
    /// Its number.
    pub seq: u64,
    /// When it was made, in milliseconds since 1970.
    pub made_ms: u64,
    /// When the acknowledgement came, in milliseconds since 1970.
    pub acked_ms: u64,
    /// From the last write to the acknowledgement, in ms.
    pub ack_ms: f64,
}

/// A file of lines. The first failure to write is kept for [`finish`](Self::finish).
#[derive(Debug)]
struct Lines {
    option: &'static str,
    path: PathBuf,
    file: File,
    line: Vec<u8>,
    failure: Option<io::Error>,
}

impl Lines {
    /// Opens the file of `option` at `path`; it is emptied unless the run `goes_on` with an earlier one, whose last line may be cut.
    fn open(option: &'static str, path: &Path, goes_on: bool) -> Result<Self, SimulateError> {
        let open = || {
            let mut file = File::options()
                .create(true)
                .read(true)
                .write(true)
                .truncate(!goes_on)
                .open(path)?;
            let whole = length_of_whole_lines(&file)?;
            file.set_len(whole)?;
            file.seek(SeekFrom::Start(whole))?;
            Ok(file)
        };
        Ok(Self {
            option,
            path: path.to_owned(),
            file: open().map_err(|source| error(option, path, source))?,
            line: Vec::new(),
            failure: None,
        })
    }

    fn append(&mut self, line: &impl Serialize) {
        if self.failure.is_some() {
            return;
        }
        self.line.clear();
        let written = serde_json::to_writer(&mut self.line, line)
            .map_err(io::Error::from)
            .and_then(|()| {
                self.line.push(b'\n');
                self.file.write_all(&self.line)
            });
        self.failure = written.err();
    }

    fn finish(&mut self) -> Result<(), SimulateError> {
        match self.failure.take() {
            Some(failure) => Err(error(self.option, &self.path, failure)),
            None => Ok(()),
        }
    }
}

fn error(option: &'static str, path: &Path, source: io::Error) -> SimulateError {
    SimulateError::Log {
        option,
        path: path.to_owned(),
        source,
    }
}

/// Bytes up to the end of the last line that has one.
fn length_of_whole_lines(file: &File) -> io::Result<u64> {
    let (mut whole, mut line) = (0, Vec::new());
    let mut reader = BufReader::new(file);
    loop {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line)? as u64;
        if bytes == 0 || !line.ends_with(b"\n") {
            return Ok(whole);
        }
        whole += bytes;
    }
}

/// Counts events, and writes them where a file is given.
#[derive(Debug)]
pub(crate) struct MadeLog {
    lines: Option<Lines>,
    events: u64,
    /// Number of the last line of each device, of an earlier run.
    last: HashMap<String, u64>,
}

impl MadeLog {
    /// Opens the file at `path`, if there is one. A run that `goes_on` adds to its lines.
    ///
    /// # Errors
    /// It cannot be written, or has other lines.
    pub fn open(path: Option<&Path>, goes_on: bool) -> Result<Self, SimulateError> {
        let mut last = HashMap::new();
        let lines = match path {
            Some(path) => {
                let option = "--log";
                let lines = Lines::open(option, path, goes_on)?;
                last = last_numbers(path).map_err(|source| error(option, path, source))?;
                Some(lines)
            }
            None => None,
        };
        Ok(Self {
            lines,
            events: 0,
            last,
        })
    }

    /// Adds the events that are in the spool of a device, before number `next`, and not in the file: a kill was between the two.
    pub fn go_on(&mut self, device: &str, spool: &str, next: u64) {
        let last = self.last.remove(device).unwrap_or(0);
        self.append(device, spool, last + 1..next);
    }

    /// Notes the events with these numbers.
    pub fn note(&mut self, device: &str, spool: &str, numbers: Range<u64>) {
        self.events += numbers.end - numbers.start;
        self.append(device, spool, numbers);
    }

    fn append(&mut self, device: &str, spool: &str, numbers: Range<u64>) {
        if let Some(lines) = &mut self.lines {
            for seq in numbers {
                lines.append(&Made { device, spool, seq });
            }
        }
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// # Errors
    /// A line could not be written.
    pub fn finish(&mut self) -> Result<(), SimulateError> {
        self.lines.as_mut().map_or(Ok(()), Lines::finish)
    }
}

/// The last number of each device.
fn last_numbers(path: &Path) -> io::Result<HashMap<String, u64>> {
    let mut last: HashMap<String, u64> = HashMap::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        let Made { device, seq, .. } = serde_json::from_str(&line)?;
        match last.get_mut(device) {
            Some(known) => *known = seq.max(*known),
            None => drop(last.insert(device.to_owned(), seq)),
        }
    }
    Ok(last)
}

/// Writes the events that the broker has acknowledged.
#[derive(Debug)]
pub(crate) struct AckLog(Mutex<Lines>);

impl AckLog {
    /// Opens the file at `path`. A run that `goes_on` adds to its lines.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(path: &Path, goes_on: bool) -> Result<Self, SimulateError> {
        Lines::open("--acks", path, goes_on).map(|lines| Self(Mutex::new(lines)))
    }

    /// Notes one.
    pub fn note(&self, line: &Acknowledged<'_>) {
        self.0.lock().append(line);
    }

    /// # Errors
    /// A line could not be written.
    pub fn finish(&self) -> Result<(), SimulateError> {
        self.0.lock().finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_that_goes_on_adds_what_a_kill_has_cut() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("made.jsonl");
        let mut log = MadeLog::open(Some(&path), true).expect("it is created");
        log.go_on("a", "7", 1);
        log.note("a", "7", 1..3);
        log.note("b", "8", 1..2);
        log.finish().expect("it is written");
        let whole = std::fs::read_to_string(&path).expect("the lines");
        std::fs::write(&path, format!("{whole}{{\"device\":\"a\",\"sp")).expect("a cut line");
        let mut log = MadeLog::open(Some(&path), true).expect("it is opened");
        log.go_on("a", "7", 5);
        log.go_on("b", "8", 2);
        log.note("a", "7", 5..6);
        log.finish().expect("it is written");
        assert_eq!(log.events(), 1);
        let line = |seq| format!("{{\"device\":\"a\",\"spool\":\"7\",\"seq\":{seq}}}\n");
        let wanted: String = [3, 4, 5].map(line).concat();
        let lines = std::fs::read_to_string(&path).expect("the lines");
        assert_eq!(lines, whole + &wanted);
        drop(MadeLog::open(Some(&path), false).expect("it is emptied"));
        assert_eq!(std::fs::read(&path).expect("the lines"), b"");
    }

    #[test]
    fn file_of_another_kind_is_an_error_with_its_option() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("made.jsonl");
        std::fs::write(&path, "a table\n").expect("it is written");
        let error = MadeLog::open(Some(&path), true).expect_err("no JSON");
        assert!(error.to_string().contains("--log"), "{error}");
    }
}
