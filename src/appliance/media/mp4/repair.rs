// SPDX-License-Identifier: Apache-2.0
//! The end of a file that was cut off, by a kill or by a power cut. Some players refuse a file whose last fragment is damaged.

use std::io::{self, Read, Seek, SeekFrom};

/// Length of the part of a file that ends with its last complete fragment; 0 without one. Contents are not read, only the
/// headers of boxes.
///
/// # Errors
/// The file cannot be read.
pub fn complete_length(file: &mut (impl Read + Seek)) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    let (mut place, mut complete) = (0_u64, 0);
    while let Some((kind, size)) = box_at(file, place, length)? {
        place += size;
        if matches!(&kind, b"mdat" | b"mfra") {
            complete = place;
        }
    }
    Ok(complete)
}

/// Kind and size of the box at `place` of a file of `length` bytes; `None` without a whole one.
///
/// # Errors
/// The file cannot be read.
pub fn box_at(
    file: &mut (impl Read + Seek),
    place: u64,
    length: u64,
) -> io::Result<Option<([u8; 4], u64)>> {
    if length.saturating_sub(place) < 8 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(place))?;
    let mut header = [0; 8];
    file.read_exact(&mut header)?;
    let [a, b, c, d, kind @ ..] = header;
    let size = u64::from(u32::from_be_bytes([a, b, c, d]));
    // A power cut may leave zeros.
    Ok((size >= 8 && place + size <= length).then_some((kind, size)))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn file_is_complete_up_to_its_last_whole_data() {
        let part = |kind: &[u8; 4], length: usize| {
            let mut part = (length as u32).to_be_bytes().to_vec();
            part.extend(kind);
            part.resize(length, 7);
            part
        };
        let parts = [
            part(b"moov", 20),
            part(b"moof", 30),
            part(b"mdat", 50),
            part(b"moof", 30),
            part(b"mdat", 50),
            part(b"mfra", 16),
        ];
        let file = parts.concat();
        for (cut, expected) in [
            (0, 0),
            (7, 0),
            (99, 0),
            (100, 100),
            (131, 100),
            (179, 100),
            (180, 180),
            (195, 180),
            (196, 196),
        ] {
            let length = complete_length(&mut Cursor::new(&file[..cut]));
            assert_eq!(length.expect("in memory"), expected, "{cut}");
        }
        let zeros = [&file[..100], &[0; 40]].concat();
        let length = complete_length(&mut Cursor::new(zeros));
        assert_eq!(length.expect("in memory"), 100);
    }
}
