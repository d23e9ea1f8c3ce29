// SPDX-License-Identifier: Apache-2.0
//! The orientation that cameras and phones write into JPEG files, by the EXIF standard (tag 0x0112).

use jetwatch_types::Size;

use crate::BgrxImage;

/// The orientation of a JPEG file, 1 to 8; 1, which is upright, where it names none.
pub fn orientation(file: &[u8]) -> u8 {
    read(file)
        .filter(|found| (1..=8).contains(found))
        .unwrap_or(1)
}

fn read(file: &[u8]) -> Option<u8> {
    let mut at = 2;
    loop {
        let [0xff, marker @ 0xe0..=0xef] = *file.get(at..at + 2)? else {
            return None;
        };
        let length = u16::from_be_bytes([*file.get(at + 2)?, *file.get(at + 3)?]);
        let segment = file.get(at + 4..at + 2 + usize::from(length))?;
        if let (0xe1, Some(tiff)) = (marker, segment.strip_prefix(b"Exif\0\0")) {
            return of_tiff(tiff);
        }
        at += 2 + usize::from(length);
    }
}

fn of_tiff(tiff: &[u8]) -> Option<u8> {
    let is_little = tiff.starts_with(b"II");
    let number = |at: usize, length: usize| {
        let bytes = tiff.get(at..at.checked_add(length)?)?.iter();
        let fold = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
        Some(match is_little {
            true => bytes.rev().fold(0, fold),
            false => bytes.fold(0, fold),
        })
    };
    let directory = number(4, 4)?;
    let entries = number(directory, 2)?;
    let mut entries = (0..entries).map(|index| directory + 2 + index * 12);
    let entry = entries.find(|entry| number(*entry, 2) == Some(0x0112))?;
    u8::try_from(number(entry + 8, 2)?).ok()
}

/// `image` as it is to be shown by this orientation, 1 to 8.
pub fn upright(image: BgrxImage, orientation: u8) -> BgrxImage {
    if orientation <= 1 {
        return image;
    }
    let Size { width, height } = image.size;
    let size = match orientation >= 5 {
        true => Size::new(height, width),
        false => image.size,
    };
    let (from, _) = image.pixels.as_chunks::<4>();
    let mut pixels = Vec::with_capacity(image.pixels.len());
    for y in 0..size.height {
        for x in 0..size.width {
            // Where the pixel at (x, y) of the upright image is in the file.
            let (column, row) = match orientation {
                2 => (width - 1 - x, y),
                3 => (width - 1 - x, height - 1 - y),
                4 => (x, height - 1 - y),
                5 => (y, x),
                6 => (y, height - 1 - x),
                7 => (width - 1 - y, height - 1 - x),
                _ => (width - 1 - y, x),
            };
            pixels.extend(from[row as usize * width as usize + column as usize]);
        }
    }
    BgrxImage { size, pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A JPEG file's begin, with an orientation behind another segment.
    fn file(is_little: bool, value: u16) -> Vec<u8> {
        let two = |number: u16| {
            if is_little {
                number.to_le_bytes()
            } else {
                number.to_be_bytes()
            }
        };
        let four = |number: u32| {
            if is_little {
                number.to_le_bytes()
            } else {
                number.to_be_bytes()
            }
        };
        let tiff = [
            if is_little { b"II".as_slice() } else { b"MM" },
            &two(42),
            &four(8),
            &two(2),
            &[&two(0x010f)[..], &two(2), &four(1), &four(0)].concat(),
            &[&two(0x0112)[..], &two(3), &four(1), &two(value), &two(0)].concat(),
        ]
        .concat();
        let exif = [b"Exif\0\0".as_slice(), &tiff].concat();
        let length = (exif.len() as u16 + 2).to_be_bytes();
        [
            &[0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xe1][..],
            &length,
            &exif,
            &[0xff, 0xdb],
        ]
        .concat()
    }

    #[test]
    fn orientation_is_read_in_both_byte_orders_and_never_beyond_the_file() {
        for is_little in [true, false] {
            for value in 1..=8 {
                assert_eq!(orientation(&file(is_little, value)), value as u8);
            }
            assert_eq!(orientation(&file(is_little, 0)), 1, "not an orientation");
            let whole = file(is_little, 6);
            for length in 0..whole.len() {
                let _ = orientation(&whole[..length]);
            }
        }
    }

    #[test]
    fn images_are_turned_as_the_standard_says() {
        // Rows of the file for the upright image [a b c / d e f], by orientation.
        let stored = [
            "abc/def", "cba/fed", "fed/cba", "def/abc", "ad/be/cf", "cf/be/ad", "fc/eb/da",
            "da/eb/fc",
        ];
        for (index, rows) in stored.iter().enumerate() {
            let size = Size::new(
                rows.find('/').unwrap_or(0) as u32,
                rows.split('/').count() as u32,
            );
            let pixels = rows
                .bytes()
                .filter(|byte| *byte != b'/')
                .flat_map(|byte| [byte; 4])
                .collect();
            let turned = upright(BgrxImage { size, pixels }, index as u8 + 1);
            let text: Vec<u8> = turned.pixels.chunks(4).map(|pixel| pixel[0]).collect();
            let wanted = (Size::new(3, 2), b"abcdef".as_slice());
            assert_eq!((turned.size, text.as_slice()), wanted, "{}", index + 1);
        }
    }
}
