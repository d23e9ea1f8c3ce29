// SPDX-License-Identifier: Apache-2.0
//! Media files that are not whole: their own sizes tell, for ISO base media (MP4, MOV), Matroska and RIFF (AVI).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// What a file lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The end.
    End {
        /// Bytes that are there.
        has: u64,
        /// Bytes that it says it has, at least.
        of: u64,
    },
    /// The index of an MP4 file (`moov`), which is at its end; nothing can be read without it.
    Index,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::End { has, of } => write!(
                f,
                "the file is cut: it has {has} bytes of at least {of}, and its last images are missing"
            ),
            Self::Index => {
                f.write_str("the file is cut or was never finished: its index (moov) is missing")
            }
        }
    }
}

/// `None`: the file is whole, or does not tell.
pub(crate) fn find(path: &Path) -> Option<Cut> {
    let mut file = File::open(path).ok()?;
    let len = file.metadata().ok()?.len();
    find_in(&mut file, len).ok().flatten()
}

fn find_in(file: &mut (impl Read + Seek), len: u64) -> io::Result<Option<Cut>> {
    let mut start = [0; 12];
    file.read_exact(&mut start)?;
    let cut = |of: u64| (of > len).then_some(Cut::End { has: len, of });
    match &start {
        [b'R', b'I', b'F', b'F', a, b, c, d, ..] => {
            Ok(cut(8 + u64::from(u32::from_le_bytes([*a, *b, *c, *d]))))
        }
        [0x1a, 0x45, 0xdf, 0xa3, ..] => Ok(matroska_len(file)?.and_then(cut)),
        [_, _, _, _, kind @ ..] if kind.starts_with(b"ftyp") => boxes(file, len),
        _ => Ok(None),
    }
}

/// Walks the outer boxes of ISO/IEC 14496-12.
fn boxes(file: &mut (impl Read + Seek), len: u64) -> io::Result<Option<Cut>> {
    let (mut at, mut has_index, mut has_media) = (0_u64, false, false);
    while at + 8 <= len {
        file.seek(SeekFrom::Start(at))?;
        let mut head = [0; 8];
        file.read_exact(&mut head)?;
        let [a, b, c, d, kind @ ..] = head;
        has_index |= &kind == b"moov";
        has_media |= &kind == b"mdat";
        let size = match u32::from_be_bytes([a, b, c, d]) {
            // To the end of the file.
            0 => len - at,
            1 => {
                let mut large = [0; 8];
                file.read_exact(&mut large)?;
                u64::from_be_bytes(large)
            }
            size => u64::from(size),
        };
        if size < 8 {
            return Ok(None);
        }
        at = at.saturating_add(size);
    }
    Ok(match (has_media, has_index) {
        (true, false) => Some(Cut::Index),
        _ if at > len => Some(Cut::End { has: len, of: at }),
        _ => None,
    })
}

/// Where the segment of a Matroska file ends (RFC 8794, RFC 9559); `None`: it does not tell.
fn matroska_len(file: &mut (impl Read + Seek)) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(4))?;
    let Some(header) = element_size(file)? else {
        return Ok(None);
    };
    let header = i64::try_from(header).map_err(io::Error::other)?;
    file.seek(SeekFrom::Current(header))?;
    let mut id = [0; 4];
    file.read_exact(&mut id)?;
    if id != [0x18, 0x53, 0x80, 0x67] {
        return Ok(None);
    }
    let size = element_size(file)?;
    let begin = file.stream_position()?;
    Ok(size.map(|size| begin.saturating_add(size)))
}

/// A size of variable length; `None`: it is unknown, as in a stream.
fn element_size(file: &mut impl Read) -> io::Result<Option<u64>> {
    let mut first = [0];
    file.read_exact(&mut first)?;
    let more = first[0].leading_zeros() as usize;
    if more > 7 {
        return Ok(None);
    }
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes[8 - more..])?;
    let value = u64::from_be_bytes(bytes);
    let high = u64::from(first[0]) & (0x7f >> more);
    let value = value | high << (8 * more);
    let unknown = (1 << (7 * (more + 1))) - 1;
    Ok((value != unknown).then_some(value))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn found(bytes: &[u8], len: u64) -> Option<Cut> {
        find_in(&mut Cursor::new(bytes), len).unwrap_or_default()
    }

    fn mp4_box(kind: &[u8; 4], content: usize) -> Vec<u8> {
        let size = u32::try_from(8 + content).expect("it is small");
        [&size.to_be_bytes(), &kind[..], &vec![0; content]].concat()
    }

    #[test]
    fn sizes_of_containers_tell_what_is_missing() {
        let (ftyp, moov, mdat) = (
            mp4_box(b"ftyp", 8),
            mp4_box(b"moov", 20),
            mp4_box(b"mdat", 90),
        );
        let mp4 = |parts: [&[u8]; 3]| parts.concat();
        let (fast, late) = (mp4([&ftyp, &moov, &mdat]), mp4([&ftyp, &mdat, &moov]));
        let large = [
            &1_u32.to_be_bytes(),
            b"mdat",
            &98_u64.to_be_bytes()[..],
            &[0; 82],
        ]
        .concat();
        let open = mp4([&ftyp, &moov, &[0, 0, 0, 0, b'm', b'd', b'a', b't', 1]]);
        let avi = [b"RIFF", &92_u32.to_le_bytes()[..], &[0; 92]].concat();
        let ebml = [0x1a, 0x45, 0xdf, 0xa3, 0x83, 1, 2, 3];
        let segment = |size: &[u8]| [&ebml[..], &[0x18, 0x53, 0x80, 0x67], size, &[0; 50]].concat();
        let (mkv, stream) = (
            segment(&[0x40, 50]),
            segment(&[0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        );
        let whole = [
            &fast,
            &late,
            &mp4([&ftyp, &moov, &large]),
            &open,
            &avi,
            &mkv,
            &stream,
        ];
        for file in whole {
            assert_eq!(found(file, file.len() as u64), None, "{file:?}");
        }
        let cut_at = |file: &[u8], len: usize| found(&file[..len], len as u64);
        let end = |has, of| Some(Cut::End { has, of });
        assert_eq!(cut_at(&fast, 70), end(70, 142));
        assert_eq!(cut_at(&late, 70), Some(Cut::Index));
        assert_eq!(cut_at(&mp4([&ftyp, &moov, &large]), 70), end(70, 142));
        assert_eq!(cut_at(&avi, 70), end(70, 100));
        assert_eq!(cut_at(&mkv, 60), end(60, 64));
        assert_eq!(cut_at(&stream, 30), None);
        for file in whole {
            for len in 0..file.len() {
                // No length makes it fail.
                let _ = cut_at(file, len);
            }
        }
        assert_eq!(found(&[0; 64], 64), None);
    }
}
