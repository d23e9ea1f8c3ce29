// SPDX-License-Identifier: Apache-2.0
//! Whole lines only: a partial line of a failed write is cut off, or at least terminated, before the next line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a file's path is compared with the open file.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Destination of the bytes. Implementations: a file or pipe, and in tests a disk that fails on command.
pub(super) trait Output: Write {
    /// Opens the file again if another one, or none, is at its path.
    fn follow_path(&mut self) {}

    /// Removes the last `bytes` bytes; an error where that cannot be done (a pipe).
    fn truncate_partial(&mut self, bytes: u64) -> io::Result<()>;
}

/// Writes lines to an output.
#[derive(Debug)]
pub(super) struct LineWriter<O> {
    output: O,
    /// Bytes of an unfinished line at the end of the output.
    partial_bytes: u64,
}

impl<O: Output> LineWriter<O> {
    pub fn new(output: O) -> Self {
        Self {
            output,
            partial_bytes: 0,
        }
    }

    /// Writes `buffer`, which holds whole lines.
    ///
    /// # Errors
    /// The number of lines that are in the output, and the error of the output.
    pub fn write(&mut self, buffer: &[u8]) -> Result<(), (u64, io::Error)> {
        self.output.follow_path();
        if self.partial_bytes > 0 {
            self.repair().map_err(|error| (0, error))?;
        }
        let mut written = 0;
        let error = loop {
            match self.output.write(&buffer[written..]) {
                Ok(0) => break io::Error::from(io::ErrorKind::WriteZero),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break error,
            }
            if written >= buffer.len() {
                return Ok(());
            }
        };
        let whole = buffer[..written]
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        self.partial_bytes = (written - whole) as u64;
        if self.partial_bytes > 0 && self.output.truncate_partial(self.partial_bytes).is_ok() {
            // Truncate at once where possible, so that readers see whole lines, and the bytes are free for other programs.
            self.partial_bytes = 0;
        }
        let lines = buffer[..whole]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count();
        Err((lines as u64, error))
    }

    /// Writes all buffered bytes to the operating system.
    ///
    /// # Errors
    /// As the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn repair(&mut self) -> io::Result<()> {
        if self.output.truncate_partial(self.partial_bytes).is_err() {
            self.output.write_all(b"\n")?;
        }
        self.partial_bytes = 0;
        Ok(())
    }
}

/// A file of the operating system.
#[derive(Debug)]
pub(super) struct FileOutput {
    file: File,
    /// Path of a regular file, and when it was last compared with the open file.
    regular: Option<(PathBuf, Instant)>,
}

impl FileOutput {
    /// A regular file opened for appending at `path`. A last line that a crash left unfinished is ended.
    pub fn file(mut file: File, path: &Path) -> Self {
        if !ends_with_line_break(path) {
            // On a full disk this fails, and so will the first line, which the sink reports.
            let _ = file.write_all(b"\n");
        }
        Self {
            file,
            regular: Some((path.to_owned(), Instant::now())),
        }
    }

    /// Whether it is a regular file, whose writes return in bounded time.
    pub fn is_regular(&self) -> bool {
        self.regular.is_some()
    }

    /// A pipe, terminal or device.
    pub fn pipe(file: File) -> Self {
        Self {
            file,
            regular: None,
        }
    }

    /// The file that is to be written from now on, if it is another one.
    fn replacement(&self, path: &Path) -> io::Result<Option<File>> {
        let open = self.file.metadata()?;
        let is_same = |found: &fs::Metadata| (found.dev(), found.ino()) == (open.dev(), open.ino());
        match fs::metadata(path) {
            Ok(found) if is_same(&found) => return Ok(None),
            Ok(found) if !found.is_file() => {
                return Err(io::Error::other("it is no file any more"));
            }
            _ => {}
        }
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(jetwatch_files::target_of(path)?)
            .map(Some)
    }
}

/// True also for an empty file and for one that may be written but not read.
fn ends_with_line_break(path: &Path) -> bool {
    let mut last = [b'\n'];
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)
    });
    read.is_err() || last == *b"\n"
}

impl Write for FileOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Output for FileOutput {
    fn follow_path(&mut self) {
        let Some((path, checked)) = &mut self.regular else {
            return;
        };
        if checked.elapsed() < CHECK_INTERVAL {
            return;
        }
        *checked = Instant::now();
        let path = path.clone();
        match self.replacement(&path) {
            Ok(None) => {}
            Ok(Some(file)) => {
                log::info!(output:% = path.display(); "the file of the JSON lines was moved or removed: a new one was created");
                self.file = file;
            }
            Err(error) => log::warn!(
                output:% = path.display();
                "the file of the JSON lines was moved or removed, and a new one cannot be created: {error}; lines go on into the old one"
            ),
        }
    }

    fn truncate_partial(&mut self, bytes: u64) -> io::Result<()> {
        if self.regular.is_none() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let length = self.file.metadata()?.len();
        self.file.set_len(length.saturating_sub(bytes))
    }
}
