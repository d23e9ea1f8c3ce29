//! Reads files out of a wheel: a ZIP archive whose SHA-256 was verified before.
//!
//! Only what wheels use: one volume, up to 65,534 files, stored or deflated. The list at the end of the archive is
//! read, then the file that it names.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;

/// Maximum length of a file that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Length of the record at the end of the archive, and the maximum of the comment behind it.
const END_BYTES: u64 = 22;
const MAX_COMMENT_BYTES: u64 = 0xffff;

/// Why a file of a wheel cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    /// The archive cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The wheel.
        path: PathBuf,
        /// The error of the operating system or of the decompression.
        source: io::Error,
    },
    /// It is not an archive of the kind that wheels are.
    #[error("{}: {what}, expected a wheel (a ZIP archive)", path.display())]
    Malformed {
        /// The wheel.
        path: PathBuf,
        /// What was found.
        what: &'static str,
    },
    /// It has no such file.
    #[error("{} has no file {member}", path.display())]
    Missing {
        /// The wheel.
        path: PathBuf,
        /// The file.
        member: String,
    },
}

/// The bytes of the file `member` of the wheel at `path`.
///
/// # Errors
/// See [`WheelError`].
pub fn read_member(path: &Path, member: &str) -> Result<Vec<u8>, WheelError> {
    let unreadable = |source| WheelError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let malformed = |what| WheelError::Malformed {
        path: path.to_owned(),
        what,
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let directory = directory(&mut file)
        .map_err(unreadable)?
        .ok_or_else(|| malformed("found no list of files"))?;
    let entry = Entries(&directory)
        .find(|entry| entry.name == member.as_bytes())
        .ok_or_else(|| WheelError::Missing {
            path: path.to_owned(),
            member: member.to_owned(),
        })?;
    if entry.len > MAX_BYTES {
        return Err(malformed("found a file of more than 256 MiB"));
    }
    // The header before the data repeats the name, and may have other extra fields.
    let mut header = [0; 30];
    file.seek(SeekFrom::Start(entry.offset))
        .and_then(|_| file.read_exact(&mut header))
        .map_err(unreadable)?;
    if !header.starts_with(b"PK\x03\x04") {
        return Err(malformed("found no file where the list says"));
    }
    let skipped = number(&header[26..28]) + number(&header[28..30]);
    let data = entry.offset + 30 + skipped;
    file.seek(SeekFrom::Start(data)).map_err(unreadable)?;
    let packed = file.take(entry.packed_len);
    let mut bytes = Vec::new();
    let read = match entry.method {
        0 => packed.take(MAX_BYTES).read_to_end(&mut bytes),
        8 => DeflateDecoder::new(packed)
            .take(MAX_BYTES)
            .read_to_end(&mut bytes),
        _ => return Err(malformed("found an unknown compression")),
    };
    read.map_err(unreadable)?;
    if bytes.len() as u64 != entry.len {
        return Err(malformed(
            "found a file of another length than the list says",
        ));
    }
    Ok(bytes)
}

/// The list of files; `None` if there is none.
fn directory(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let len = file.metadata()?.len();
    let tail_len = len.min(END_BYTES + MAX_COMMENT_BYTES);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(len - tail_len))?;
    file.take(tail_len).read_to_end(&mut tail)?;
    let end = tail
        .windows(END_BYTES as usize)
        .rposition(|record| record.starts_with(b"PK\x05\x06"));
    let Some(end) = end.map(|at| &tail[at..]) else {
        return Ok(None);
    };
    let (directory_len, offset) = (number(&end[12..16]), number(&end[16..20]));
    if offset + directory_len > len {
        return Ok(None);
    }
    let mut directory = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(directory_len).read_to_end(&mut directory)?;
    Ok(Some(directory))
}

/// One file of the list.
struct Entry<'a> {
    name: &'a [u8],
    method: u64,
    packed_len: u64,
    len: u64,
    offset: u64,
}

/// The files of the list; ends where it is damaged.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (header, rest) = self.0.split_at_checked(46)?;
        if !header.starts_with(b"PK\x01\x02") {
            return None;
        }
        let length = |at: usize| number(&header[at..at + 2]) as usize;
        let (name, rest) = rest.split_at_checked(length(28))?;
        let (_, rest) = rest.split_at_checked(length(30) + length(32))?;
        self.0 = rest;
        Some(Entry {
            name,
            method: number(&header[10..12]),
            packed_len: number(&header[20..24]),
            len: number(&header[24..28]),
            offset: number(&header[42..46]),
        })
    }
}

/// A whole number, lowest byte first.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with one stored file.
    fn archive(name: &str, bytes: &[u8]) -> Vec<u8> {
        let header = |signature: &[u8], more: &[u8]| {
            let mut header = signature.to_vec();
            header.extend(more);
            header
        };
        let lengths = [
            &(bytes.len() as u32).to_le_bytes()[..],
            &(bytes.len() as u32).to_le_bytes(),
            &(name.len() as u16).to_le_bytes(),
            &[0, 0],
        ]
        .concat();
        let mut archive = header(b"PK\x03\x04", &[0; 14]);
        archive.extend(&lengths);
        archive.extend(name.as_bytes());
        archive.extend(bytes);
        let start = archive.len();
        archive.extend(header(b"PK\x01\x02", &[0; 16]));
        archive.extend(&lengths);
        archive.extend([0; 14]);
        archive.extend(name.as_bytes());
        let directory_len = archive.len() - start;
        archive.extend(header(b"PK\x05\x06", &[0, 0, 0, 0, 1, 0, 1, 0]));
        archive.extend((directory_len as u32).to_le_bytes());
        archive.extend((start as u32).to_le_bytes());
        archive.extend([0, 0]);
        archive
    }

    #[test]
    fn stored_file_is_read_and_damage_is_reported() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("x.whl");
        let whole = archive("a/model", b"weights");
        std::fs::write(&path, &whole).expect("written");
        assert_eq!(
            read_member(&path, "a/model").expect("it is whole"),
            b"weights"
        );
        let error = read_member(&path, "b")
            .expect_err("no such file")
            .to_string();
        assert!(error.contains("has no file b"), "{error}");
        for len in 0..whole.len() {
            std::fs::write(&path, &whole[..len]).expect("written");
            let error = read_member(&path, "a/model")
                .expect_err("cut off")
                .to_string();
            assert!(error.contains("x.whl"), "{error}");
        }
    }
}
