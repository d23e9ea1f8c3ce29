// SPDX-License-Identifier: Apache-2.0
//! A span of time of one source as one MP4 file: the fragments of its clips and pieces of continuous recording, one after the other. What
//! lies between two files is left out. Nothing is decoded; of each fragment its number and its time are changed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use jetwatch_archive::{Archive, Item, MediaKind, MediaState, Query};
use jetwatch_files::OFlags;
use jetwatch_media::mp4::{TIMESCALE, box_at};
use jetwatch_web::MediaStream;

/// Most files of each kind.
const MAX_FILES: usize = 1000;

/// Largest header of a file, and of a fragment, in bytes.
const MAX_HEADER: u64 = 1 << 20;

/// Files overlap by less than this where one follows the other.
const OVERLAP: Duration = Duration::from_millis(200);

/// Bytes that are read at a time.
const PIECE_BYTES: u64 = 64 * 1024;

/// The file of a span, which is read as it is sent.
pub(super) struct Export {
    archive: Archive,
    /// The last one first.
    files: Vec<Item>,
    span: (SystemTime, SystemTime),
    /// The file that is read, and the bytes of its data that are to be sent still.
    open: Option<Source>,
    /// Description of the images of the first file: others with another one cannot be in the same file.
    images: Option<Vec<u8>>,
    /// Number of the last fragment, and the end of the images so far: in ticks, and as the time that they show.
    number: u32,
    end: u64,
    shown: SystemTime,
}

/// A file that is read.
struct Source {
    file: File,
    from: SystemTime,
    /// Ticks per second of each track by its number.
    scales: Vec<(u32, u32)>,
    place: u64,
    length: u64,
    data: u64,
    /// The time of the first fragment that is sent, in ticks of images.
    begin: Option<u64>,
    /// Where it begins in the export.
    base: u64,
}

impl Export {
    /// What there is of `source` from `from` to `to`; `None`: nothing.
    pub(super) fn of(
        archive: &Archive,
        source: &str,
        from: SystemTime,
        to: SystemTime,
    ) -> Option<Self> {
        let of = |kind| Query {
            source: Some(source.to_owned()),
            kind: Some(kind),
            from: Some(from),
            to: Some(to),
            limit: MAX_FILES,
            ..Query::default()
        };
        let mut files = Vec::new();
        for kind in [MediaKind::Continuous, MediaKind::Clip] {
            files.extend(archive.items(&of(kind)).ok()?);
        }
        files.retain(|item| item.state == MediaState::Ready);
        files.sort_by_key(|item| item.from);
        // A file within one that is there adds nothing.
        let mut covered = SystemTime::UNIX_EPOCH;
        files.retain(|item| {
            let end = item.to.unwrap_or(item.from);
            let adds = end > covered;
            covered = covered.max(end);
            adds
        });
        files.reverse();
        (!files.is_empty()).then(|| Self {
            archive: archive.clone(),
            files,
            span: (from, to),
            open: None,
            images: None,
            number: 0,
            end: 0,
            // The first file begins where it is opened.
            shown: SystemTime::UNIX_EPOCH,
        })
    }

    /// Opens the next file; what is to be sent of its header.
    fn open_next(&mut self) -> io::Result<Option<Bytes>> {
        let Some(item) = self.files.pop() else {
            return Ok(None);
        };
        let folder = self.archive.folder();
        let mut file = jetwatch_files::open_below(folder, &item.path, OFlags::RDONLY)?;
        let length = file.metadata()?.len();
        let mut header = Vec::new();
        let mut place = 0;
        while let Some((kind, size)) = box_at(&mut file, place, length)? {
            if &kind == b"moof" {
                break;
            }
            if size > MAX_HEADER {
                return Ok(Some(Bytes::new()));
            }
            header.extend(read_at(&mut file, place, size)?);
            place += size;
        }
        let images = find(
            &header,
            &[b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd"],
        );
        let images = images.map(<[u8]>::to_vec);
        let is_first = self.images.is_none();
        if images.is_none() || (!is_first && images != self.images) {
            return Ok(Some(Bytes::new()));
        }
        self.images = images;
        let mut source = Source {
            scales: scales(&header),
            file,
            from: item.from,
            place,
            length,
            data: 0,
            begin: None,
            base: self.end,
        };
        if is_first {
            source.skip_to(self.span.0)?;
        }
        self.open = Some(source);
        // How long it is, is not known yet.
        if let Some(length) = find(&header, &[b"moov", b"mvex", b"mehd"]) {
            let at = length.as_ptr() as usize - header.as_ptr() as usize;
            let end = at + length.len();
            header[at + 4..end].fill(0);
        }
        Ok(Some(match is_first {
            true => header.into(),
            false => Bytes::new(),
        }))
    }

    /// The next fragment of the file that is read, or of its data; `None`: the file has ended.
    fn read(&mut self) -> io::Result<Option<Bytes>> {
        let Some(source) = &mut self.open else {
            return Ok(None);
        };
        if source.data > 0 {
            let size = source.data.min(PIECE_BYTES);
            let piece = read_at(&mut source.file, source.place, size)?;
            source.place += size;
            source.data -= size;
            return Ok(Some(piece.into()));
        }
        let Some((kind, size)) = box_at(&mut source.file, source.place, source.length)? else {
            return Ok(None);
        };
        let begin = source.place;
        source.place += size;
        if &kind != b"moof" || size > MAX_HEADER {
            return Ok(Some(Bytes::new()));
        }
        let mut fragment = read_at(&mut source.file, begin, size)?;
        let Some((b"mdat", data)) = box_at(&mut source.file, source.place, source.length)?
            .as_ref()
            .map(|(kind, size)| (kind, *size))
        else {
            return Ok(None);
        };
        let Some(facts) = Facts::of(&fragment, &source.scales) else {
            source.place += data;
            return Ok(Some(Bytes::new()));
        };
        let at = source.from + ticks_span(facts.time);
        let is_first = source.begin.is_none();
        // The first one begins with a whole image, and shows nothing twice.
        let is_wanted = !is_first || (facts.is_key && at + OVERLAP >= self.shown);
        if at > self.span.1 {
            return Ok(None);
        }
        if !is_wanted {
            source.place += data;
            return Ok(Some(Bytes::new()));
        }
        let first = *source.begin.get_or_insert(facts.time);
        let Some(since) = facts.time.checked_sub(first) else {
            source.place += data;
            return Ok(Some(Bytes::new()));
        };
        let time = source.base.saturating_add(since);
        self.number += 1;
        facts.set(&mut fragment, self.number, time);
        if facts.is_images {
            self.end = self.end.max(time.saturating_add(facts.duration));
            self.shown = self.shown.max(at + ticks_span(facts.duration));
        }
        source.data = data;
        Ok(Some(fragment.into()))
    }
}

impl MediaStream for Export {
    fn next(&mut self) -> Option<Bytes> {
        loop {
            let read = match self.open {
                Some(_) => self.read(),
                None => match self.open_next() {
                    Ok(None) => return None,
                    opened => opened,
                },
            };
            match read {
                Ok(Some(piece)) if piece.is_empty() => {}
                Ok(Some(piece)) => return Some(piece),
                Ok(None) => self.open = None,
                Err(error) => {
                    // Deleted meanwhile, or not readable: the others follow.
                    log::debug!("a file is left out of an export: {error}");
                    self.open = None;
                }
            }
        }
    }
}

impl Source {
    /// Goes on to the last fragment with a whole image at the begin that shows `from`, however long before it that is.
    fn skip_to(&mut self, from: SystemTime) -> io::Result<()> {
        let mut place = self.place;
        while let Some((kind, size)) = box_at(&mut self.file, place, self.length)? {
            if &kind == b"moof" && size <= MAX_HEADER {
                let fragment = read_at(&mut self.file, place, size)?;
                let facts = Facts::of(&fragment, &self.scales).filter(|facts| facts.is_images);
                if let Some(facts) = facts {
                    if self.from + ticks_span(facts.time) > from {
                        break;
                    }
                    if facts.is_key {
                        self.place = place;
                    }
                }
            }
            place += size;
        }
        Ok(())
    }
}

/// What is known of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    is_images: bool,
    /// Its first image is a keyframe.
    is_key: bool,
    /// Its begin, and its length where it has images, in ticks of images.
    time: u64,
    duration: u64,
    /// Ticks per second of its track.
    scale: u32,
    /// Where its number and its time are.
    number_at: usize,
    time_at: usize,
}

impl Facts {
    /// Of a `moof` as the daemon writes it.
    fn of(fragment: &[u8], scales: &[(u32, u32)]) -> Option<Self> {
        let at = |path: &[&[u8; 4]]| {
            let found = find(fragment, path)?;
            Some((found, found.as_ptr() as usize - fragment.as_ptr() as usize))
        };
        let (_, number_at) = at(&[b"moof", b"mfhd"])?;
        let (header, _) = at(&[b"moof", b"traf", b"tfhd"])?;
        let (times, time_at) = at(&[b"moof", b"traf", b"tfdt"])?;
        let (run, _) = at(&[b"moof", b"traf", b"trun"])?;
        let track = word(header, 4)?;
        let scale = scales.iter().find(|(number, _)| *number == track)?.1.max(1);
        let time = u64::from_be_bytes(times.get(4..12)?.try_into().ok()?);
        let is_images = track == 1;
        // Number and place of the data, then duration, size, flags and composition of each image.
        let count = word(run, 4)? as usize;
        let mut duration = 0;
        if is_images {
            for image in 0..count {
                duration += u64::from(word(run, 12 + 16 * image)?);
            }
        }
        // Bit 16: it is no keyframe.
        let is_key = is_images && word(run, 12 + 8)? & 0x1_0000 == 0;
        Some(Self {
            is_images,
            is_key,
            time: scaled(time, TIMESCALE, scale),
            duration,
            scale,
            number_at: number_at + 4,
            time_at: time_at + 4,
        })
    }

    /// Sets its number, and its time in ticks of images.
    fn set(self, fragment: &mut [u8], number: u32, time: u64) {
        let time = scaled(time, self.scale, TIMESCALE);
        fragment[self.number_at..self.number_at + 4].copy_from_slice(&number.to_be_bytes());
        fragment[self.time_at..self.time_at + 8].copy_from_slice(&time.to_be_bytes());
    }
}

/// `time` in other ticks: `to` of them are as long as `from` of its own.
fn scaled(time: u64, to: u32, from: u32) -> u64 {
    let time = u128::from(time) * u128::from(to) / u128::from(from.max(1));
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// Ticks of images as a span of time, for a day at most: the times of a damaged file may be anything.
fn ticks_span(ticks: u64) -> Duration {
    Duration::from_millis((ticks / u64::from(TIMESCALE / 1000)).min(86_400_000))
}

/// Ticks per second of each track of a header, by the numbers that the daemon gives: 1, and 2 for sound.
fn scales(header: &[u8]) -> Vec<(u32, u32)> {
    let Some(movie) = find(header, &[b"moov"]) else {
        return Vec::new();
    };
    let tracks = boxes(movie).filter(|(kind, _)| kind == b"trak");
    let scale = |track: &[u8]| {
        let header = find(track, &[b"mdia", b"mdhd"])?;
        // Times of 32 or 64 bits come before it.
        word(header, if header.first() == Some(&1) { 20 } else { 12 })
    };
    let scales = tracks.map(|(_, track)| scale(track).unwrap_or(TIMESCALE));
    (1..).zip(scales).collect()
}

/// The boxes that `bytes` consists of: kind and contents.
fn boxes(bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let size = word(rest, 0)? as usize;
        let kind = rest.get(4..8)?.try_into().ok()?;
        let contents = rest.get(8..size)?;
        rest = &rest[size..];
        Some((kind, contents))
    })
}

/// The contents of the first box at `path`.
fn find<'b>(bytes: &'b [u8], path: &[&[u8; 4]]) -> Option<&'b [u8]> {
    path.iter().try_fold(bytes, |inside, kind| {
        let found = boxes(inside).find(|(found, _)| found == *kind);
        found.map(|(_, contents)| contents)
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read_at(file: &mut File, place: u64, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    file.seek(SeekFrom::Start(place))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: &[u8; 4], contents: &[u8]) -> Vec<u8> {
        let mut part = (contents.len() as u32 + 8).to_be_bytes().to_vec();
        part.extend(kind);
        part.extend(contents);
        part
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// A fragment of a track at `time` with two images.
    fn fragment(track: u32, time: u32, flags: u32) -> Vec<u8> {
        let inside = [
            part(b"tfhd", &words(&[0, track])),
            part(b"tfdt", &words(&[0x100_0000, 0, time])),
            part(
                b"trun",
                &words(&[0, 2, 0, 3000, 9, flags, 0, 3600, 9, 0x101_0000, 0]),
            ),
        ];
        let number = part(b"mfhd", &words(&[0, 7]));
        part(b"moof", &[number, part(b"traf", &inside.concat())].concat())
    }

    #[test]
    fn number_and_time_of_a_fragment_are_read_and_set() {
        let scales = [(1, TIMESCALE), (2, 48_000)];
        let mut images = fragment(1, 900, 0x200_0000);
        let facts = Facts::of(&images, &scales).expect("whole");
        assert!(facts.is_images && facts.is_key);
        assert_eq!((facts.time, facts.duration), (900, 6600));
        facts.set(&mut images, 40, 1 << 40);
        let facts = Facts::of(&images, &scales).expect("whole");
        assert_eq!(facts.time, 1 << 40);
        assert_eq!(
            find(&images, &[b"moof", b"mfhd"]).and_then(|found| word(found, 4)),
            Some(40)
        );
        assert!(
            !Facts::of(&fragment(1, 0, 0x101_0000), &scales)
                .expect("whole")
                .is_key
        );
        // Sound has ticks of its own.
        let mut sound = fragment(2, 48_000, 0);
        let facts = Facts::of(&sound, &scales).expect("whole");
        assert_eq!((facts.is_images, facts.time), (false, u64::from(TIMESCALE)));
        facts.set(&mut sound, 41, u64::from(2 * TIMESCALE));
        let times = find(&sound, &[b"moof", b"traf", b"tfdt"]).expect("there");
        assert_eq!(word(times, 8), Some(96_000));
    }

    /// A camera with a key frame every ten seconds: a span between two of them has the images from the first of them on.
    #[test]
    fn a_span_between_two_key_frames_begins_with_the_one_before_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let limits = jetwatch_archive::Limits::default();
        let (archive, _) = Archive::open(folder.path(), limits).expect("an archive");
        let from = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let item = jetwatch_archive::NewItem::new(MediaKind::Continuous, "gate", from);
        let mut file = archive.begin(item).expect("a file");
        let inside = [b"stsd", b"stbl", b"minf", b"mdia", b"trak", b"moov"];
        let header = inside
            .iter()
            .fold(b"avc1".to_vec(), |contents, kind| part(kind, &contents));
        let mut bytes = header;
        for second in 0..20 {
            let flags = if second % 10 == 0 {
                0x200_0000
            } else {
                0x101_0000
            };
            bytes.extend(fragment(1, second * TIMESCALE, flags));
            bytes.extend(part(b"mdat", &[second as u8]));
        }
        io::Write::write_all(&mut file, &bytes).expect("written");
        let end = from + Duration::from_secs(20);
        file.finish(jetwatch_archive::Finish::complete(end))
            .expect("kept");
        for (span, seconds) in [
            ([6_200, 6_400], 0..7),
            ([0, 100], 0..1),
            ([10_000, 10_000], 10..11),
            ([9_990, 11_500], 0..12),
            ([19_900, 20_000], 10..20),
        ] {
            let [first, last] = span.map(|ms| from + Duration::from_millis(ms));
            let mut export = Export::of(&archive, "gate", first, last).expect("there is a file");
            let mut sent = Vec::new();
            while let Some(piece) = export.next() {
                sent.extend(piece);
            }
            let data: Vec<u8> = boxes(&sent)
                .filter(|(kind, _)| kind == b"mdat")
                .map(|(_, data)| data[0])
                .collect();
            assert_eq!(data, seconds.collect::<Vec<u8>>(), "{span:?}");
        }
    }

    #[test]
    fn what_is_no_fragment_is_none() {
        let scales = [(1, TIMESCALE)];
        let whole = fragment(1, 900, 0);
        for cut in 0..whole.len() {
            assert_eq!(Facts::of(&whole[..cut], &scales), None, "{cut}");
        }
        assert_eq!(Facts::of(&fragment(3, 0, 0), &scales), None);
        assert_eq!(find(&[0; 40], &[b"moov"]), None);
    }
}
