// SPDX-License-Identifier: Apache-2.0
//! JPEG images out of a stream of bytes, such as Motion JPEG over HTTP. What is between the images is skipped: boundaries, headers and
//! lengths, which cameras send wrong, double or not at all.

use crate::jpeg_markers::{END, SCAN, START, has_no_length};

/// Maximum length of an image, in bytes.
const MAX_IMAGE: usize = 32 << 20;
/// Images without an end that a stream may send before they are taken as they are: some encoders leave the end marker out.
const MAX_CUT: u64 = 3;

/// Where the next byte belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Between images.
    #[default]
    Outside,
    /// At a marker.
    Marker(usize),
    /// In coded data.
    Scan(usize),
}

/// Cuts a stream into JPEG images.
#[derive(Debug, Default)]
pub struct JpegStream {
    bytes: Vec<u8>,
    place: Place,
    images: u64,
    cut: u64,
    skipped: u64,
}

impl JpegStream {
    /// Appends `bytes` and gives each image that is whole now to `image`.
    pub fn push(&mut self, bytes: &[u8], mut image: impl FnMut(Vec<u8>)) {
        self.bytes.extend_from_slice(bytes);
        while let Some(found) = self.step() {
            if let Some(found) = found {
                self.images += 1;
                image(found);
            }
        }
        if self.bytes.len() > MAX_IMAGE {
            self.skipped += self.bytes.len() as u64;
            self.bytes.clear();
            self.place = Place::Outside;
        }
    }

    /// Whole images so far.
    pub fn images(&self) -> u64 {
        self.images
    }

    /// Images so far that ended before their last byte.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Bytes so far that belong to no image.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// One step; `None`: more bytes are needed.
    fn step(&mut self) -> Option<Option<Vec<u8>>> {
        match self.place {
            Place::Outside => {
                let start = self
                    .bytes
                    .windows(3)
                    .position(|it| it == [0xff, START, 0xff]);
                // The last two may be the begin of a start.
                let until = start.unwrap_or(self.bytes.len().saturating_sub(2));
                self.skip(until);
                start?;
                self.place = Place::Marker(2);
            }
            Place::Marker(at) => match *self.bytes.get(at..at + 2)? {
                [0xff, 0xff] => self.place = Place::Marker(at + 1),
                [0xff, START] => self.cut_at(at),
                // An end without a scan is not an image.
                [0xff, END] => self.restart(at + 2),
                [0xff, marker] if has_no_length(marker) => self.place = Place::Marker(at + 2),
                [0xff, marker] if marker >= 0xc0 => {
                    let length = self.bytes.get(at + 2..at + 4)?;
                    let next = at + 2 + usize::from(u16::from_be_bytes([length[0], length[1]]));
                    if next > self.bytes.len() {
                        return None;
                    }
                    self.place = match marker {
                        SCAN => Place::Scan(next),
                        _ => Place::Marker(next),
                    };
                }
                _ => {
                    self.cut += 1;
                    self.restart(2);
                }
            },
            Place::Scan(at) => {
                let rest = &self.bytes[at.min(self.bytes.len())..];
                let marker = rest
                    .windows(2)
                    .position(|it| it[0] == 0xff && !matches!(it[1], 0x00 | 0xff | 0xd0..=0xd7));
                let Some(marker) = marker.map(|found| at + found) else {
                    self.place = Place::Scan(self.bytes.len().saturating_sub(1).max(at));
                    return None;
                };
                match self.bytes[marker + 1] {
                    END => {
                        let rest = self.bytes.split_off(marker + 2);
                        self.place = Place::Outside;
                        return Some(Some(std::mem::replace(&mut self.bytes, rest)));
                    }
                    START
                        if self.images == self.cut.saturating_sub(MAX_CUT)
                            && self.cut >= MAX_CUT =>
                    {
                        let rest = self.bytes.split_off(marker);
                        let mut found = std::mem::replace(&mut self.bytes, rest);
                        found.extend([0xff, 0xd9]);
                        self.cut += 1;
                        self.place = Place::Marker(2);
                        return Some(Some(found));
                    }
                    START => self.cut_at(marker),
                    _ => self.place = Place::Marker(marker),
                }
            }
        }
        Some(None)
    }

    /// Another image begins at `at`: the one before is not whole.
    fn cut_at(&mut self, at: usize) {
        self.cut += 1;
        self.skip(at);
        self.place = Place::Marker(2);
    }

    fn restart(&mut self, at: usize) {
        self.skip(at);
        self.place = Place::Outside;
    }

    fn skip(&mut self, count: usize) {
        self.skipped += count as u64;
        self.bytes.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use jetwatch_types::Size;

    use super::*;
    use crate::codec::{ImageFormat, encode_rgb};

    fn image(side: u32) -> Vec<u8> {
        let samples: Vec<u8> = (0..3 * side.pow(2)).map(|n| (n * 37 % 251) as u8).collect();
        encode_rgb(ImageFormat::Jpeg, Size::new(side, side), &samples).expect("a size of JPEG")
    }

    /// Images found in `stream`, when it comes in pieces of `size` bytes.
    fn found(stream: &[u8], size: usize) -> (Vec<Vec<u8>>, JpegStream) {
        let (mut images, mut cutter) = (Vec::new(), JpegStream::default());
        for piece in stream.chunks(size) {
            cutter.push(piece, |image| images.push(image));
        }
        (images, cutter)
    }

    #[test]
    fn images_are_found_whatever_is_between_them() {
        let (a, b) = (image(40), image(24));
        // Public reports of each: esp32cam#67 and Tasmota#12376 (no boundary before the first part), multipart-stream-rs#2 and
        // node-mjpeg-proxy#8 (boundaries of all kinds), MissionPlanner#3603 (lengths that are wrong or missing), go2rtc#545 (parts of
        // other kinds), mjpg-streamer#100 (an empty part).
        for between in [
            "",
            "\r\n--myboundary\r\nContent-Type: image/jpeg\r\nContent-Length: 9\r\n\r\n",
            "Content-Type: image/jpeg\r\nContent-Length: 17\r\n\r\n",
            "\r\n--video boundary--\r\n\r\n",
            "\r\n--x\r\nContent-Type: audio/g711\r\nX-Audio: 1\r\n\r\n\u{7f}\u{7f}\r\n--x\r\n\r\n",
        ] {
            let mut stream = Vec::new();
            for image in [&a, &b, &a] {
                stream.extend_from_slice(between.as_bytes());
                stream.extend_from_slice(image);
            }
            stream.extend_from_slice(between.as_bytes());
            for size in [1, 7, 1000, stream.len()] {
                let (images, cutter) = found(&stream, size);
                let wanted = [a.clone(), b.clone(), a.clone()];
                assert_eq!(images, wanted, "{between:?} by {size}");
                assert_eq!((cutter.images(), cutter.cut()), (3, 0), "{between:?}");
            }
        }
    }

    #[test]
    fn a_cut_image_costs_itself_alone() {
        let whole = image(40);
        for length in [3, 20, whole.len() / 2, whole.len() - 1] {
            let stream = [&whole[..], &whole[..length], &whole[..], &whole[..]].concat();
            for size in [1, 64, stream.len()] {
                let (images, cutter) = found(&stream, size);
                assert_eq!(images, vec![whole.clone(); 3], "cut at {length}");
                assert_eq!(cutter.cut(), 1, "cut at {length}");
            }
        }
    }

    #[test]
    fn images_of_an_encoder_that_writes_no_end_are_taken() {
        let whole = image(40);
        let stream = whole[..whole.len() - 2].repeat(6);
        let (images, _) = found(&stream, 100);
        // Those after the first three, but the last.
        assert_eq!(images, vec![whole; 2]);
    }

    #[test]
    fn a_stream_without_images_takes_no_memory() {
        let (images, cutter) = found(&vec![0xff; 3 << 20], 1 << 16);
        assert!(images.is_empty() && cutter.bytes.len() <= 2);
        assert!(cutter.skipped() > 3_000_000);
    }
}
