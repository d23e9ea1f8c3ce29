// SPDX-License-Identifier: Apache-2.0
//! The init segment: what a player must know before the first fragment.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jetwatch_types::{AudioFormat, VideoCodec};

use super::boxes::{words, write, write_full};
use super::fragment::ticks;
use super::sound::{SOUND_TRACK, sound_track};
use crate::parameter_sets::ParameterSets;
use crate::ring::RingUnit;
use crate::timeline::UnitTime;
use crate::{h264, h265};

/// Ticks of a file's clock per second: that of RTP video.
pub const TIMESCALE: u32 = 90_000;

/// Seconds from 1904, where the clock of MP4 begins, to 1970.
const EPOCH_1904: u64 = 2_082_844_800;

/// No rotation, no scaling.
const MATRIX: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

/// Resolution of an image in dots per inch that means nothing: 72, in 16.16.
const DPI: u32 = 0x48_0000;

/// The init segment of a stream whose first unit is `first`, with these parameter sets. Its time of arrival is the time of
/// creation, and the presentation begins with its image. `sound`: of a second track.
pub fn init_segment(
    sets: &ParameterSets,
    first: &RingUnit,
    sound: Option<&AudioFormat>,
) -> Vec<u8> {
    let since_1970 = first
        .unit
        .captured_at
        .duration_since(SystemTime::UNIX_EPOCH);
    let created = since_1970.unwrap_or_default().as_secs() + EPOCH_1904;
    let mut out = Vec::with_capacity(1024);
    write(&mut out, b"ftyp", |out| {
        out.extend(b"iso6");
        words(out, &[512]);
        out.extend(b"iso6iso5isommp41");
    });
    write(&mut out, b"moov", |out| {
        write_full(out, b"mvhd", 1, 0, |out| {
            times(out, created);
            words(out, &[TIMESCALE, 0, 0, 0x1_0000, 0x0100_0000, 0, 0]);
            words(out, &MATRIX);
            words(
                out,
                &[0, 0, 0, 0, 0, 0, SOUND_TRACK + u32::from(sound.is_some())],
            );
        });
        track(out, sets, created, first.time);
        if let Some(format) = sound {
            sound_track(out, format, created);
        }
        write(out, b"mvex", |out| {
            write_full(out, b"mehd", 1, 0, |out| words(out, &[0, 0]));
            for track in 1..=1 + u32::from(sound.is_some()) {
                write_full(out, b"trex", 0, 0, |out| words(out, &[track, 1, 0, 0, 0]));
            }
        });
    });
    out
}

/// Sets the duration in `init`, an init segment: players show it before they have read all fragments.
pub fn set_duration(init: &mut [u8], duration: Duration) {
    let ticks = duration.as_nanos() * u128::from(TIMESCALE) / 1_000_000_000;
    let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
    let place = init.windows(4).rposition(|kind| kind == b"mehd");
    if let Some(field) = place.and_then(|place| init.get_mut(place + 8..place + 16)) {
        field.copy_from_slice(&ticks.to_be_bytes());
    }
}

/// Times of creation and change.
fn times(out: &mut Vec<u8>, created: u64) {
    out.extend(created.to_be_bytes());
    out.extend(created.to_be_bytes());
}

fn track(out: &mut Vec<u8>, sets: &ParameterSets, created: u64, first: UnitTime) {
    let size = sets.size;
    write(out, b"trak", |out| {
        track_header(out, created, 1, 0, [size.width << 16, size.height << 16]);
        // Streams that reorder images show the first one later than it is decoded.
        let delay = ticks(first.pts - first.dts);
        if let Ok(delay) = u32::try_from(delay)
            && delay > 0
        {
            write(out, b"edts", |out| {
                // One entry to the end, at normal speed.
                write_full(out, b"elst", 0, 0, |out| {
                    words(out, &[1, 0, delay, 0x1_0000])
                });
            });
        }
        write(out, b"mdia", |out| {
            media_header(out, created, TIMESCALE, b"vide");
            write(out, b"minf", |out| {
                write_full(out, b"vmhd", 0, 1, |out| out.extend([0; 8]));
                sample_tables(out, |out| sample_entry(out, sets));
            });
        });
    });
}

/// `tkhd`: number of the track, its volume and its size.
pub(super) fn track_header(
    out: &mut Vec<u8>,
    created: u64,
    track: u32,
    volume: u32,
    size: [u32; 2],
) {
    write_full(out, b"tkhd", 1, 3, |out| {
        times(out, created);
        words(out, &[track, 0, 0, 0, 0, 0, 0, volume]);
        words(out, &MATRIX);
        words(out, &size);
    });
}

/// `mdhd` and `hdlr`: ticks per second, and the kind of the media.
pub(super) fn media_header(out: &mut Vec<u8>, created: u64, timescale: u32, kind: &[u8; 4]) {
    write_full(out, b"mdhd", 1, 0, |out| {
        times(out, created);
        // No duration; the language is not determined.
        words(out, &[timescale, 0, 0, 0x55c4_0000]);
    });
    write_full(out, b"hdlr", 0, 0, |out| {
        words(out, &[0]);
        out.extend_from_slice(kind);
        words(out, &[0, 0, 0]);
        out.extend(b"jetwatch\0");
    });
}

/// `dinf` and `stbl`: the data are in this file, and all samples are in fragments.
pub(super) fn sample_tables(out: &mut Vec<u8>, entry: impl FnOnce(&mut Vec<u8>)) {
    write(out, b"dinf", |out| {
        write_full(out, b"dref", 0, 0, |out| {
            words(out, &[1]);
            write_full(out, b"url ", 0, 1, |_| ());
        });
    });
    write(out, b"stbl", |out| {
        write_full(out, b"stsd", 0, 0, |out| {
            words(out, &[1]);
            entry(out);
        });
        for kind in [b"stts", b"stsc", b"stco"] {
            write_full(out, kind, 0, 0, |out| words(out, &[0]));
        }
        write_full(out, b"stsz", 0, 0, |out| words(out, &[0, 0]));
    });
}

fn sample_entry(out: &mut Vec<u8>, sets: &ParameterSets) {
    let kind = match sets.codec {
        VideoCodec::H264 => b"avc1",
        VideoCodec::H265 => b"hvc1",
    };
    write(out, kind, |out| {
        out.extend([0, 0, 0, 0, 0, 0, 0, 1]);
        out.extend([0; 16]);
        let side = |side: u32| u16::try_from(side).unwrap_or(u16::MAX).to_be_bytes();
        out.extend(side(sets.size.width));
        out.extend(side(sets.size.height));
        words(out, &[DPI, DPI, 0]);
        // One image per sample, no name of an encoder, 24 bits per pixel.
        out.extend([0, 1]);
        out.extend([0; 32]);
        out.extend([0, 24, 0xff, 0xff]);
        match sets.codec {
            VideoCodec::H264 => write(out, b"avcC", |out| avc_configuration(out, sets)),
            VideoCodec::H265 => write(out, b"hvcC", |out| hevc_configuration(out, sets)),
        }
    });
}

/// `AVCDecoderConfigurationRecord` of ISO/IEC 14496-15.
fn avc_configuration(out: &mut Vec<u8>, sets: &ParameterSets) {
    let Some(first) = sets.sequence.first() else {
        return;
    };
    let byte = |at: usize| first.get(at).copied().unwrap_or_default();
    out.extend([1, byte(1), byte(2), byte(3), 0xff]);
    // At most 31 sequence and 255 picture parameter sets, as the stream itself.
    out.push(0xe0 | count(&sets.sequence, 31));
    with_lengths(out, &sets.sequence, 31);
    out.push(count(&sets.picture, 255));
    with_lengths(out, &sets.picture, 255);
    if let Some(chroma) = h264::Sequence::parse(first).and_then(|sequence| sequence.chroma) {
        out.extend([
            0xfc | chroma.format as u8,
            0xf8 | chroma.luma_bits as u8,
            0xf8 | chroma.chroma_bits as u8,
            0,
        ]);
    }
}

/// `HEVCDecoderConfigurationRecord` of ISO/IEC 14496-15.
fn hevc_configuration(out: &mut Vec<u8>, sets: &ParameterSets) {
    let first = sets.sequence.first();
    let Some(sequence) = first.and_then(|first| h265::Sequence::parse(first)) else {
        return;
    };
    out.push(1);
    out.extend(sequence.profile);
    // Spatial segmentation and parallelism are not known.
    out.extend([0xf0, 0, 0xfc]);
    out.push(0xfc | sequence.chroma_format);
    out.push(0xf8 | sequence.luma_bits);
    out.push(0xf8 | sequence.chroma_bits);
    // The mean rate is not known; lengths have 4 bytes.
    out.extend([0, 0]);
    out.push(sequence.temporal_layers << 3 | u8::from(sequence.is_temporally_nested) << 2 | 3);
    let arrays = [(32, &sets.video), (33, &sets.sequence), (34, &sets.picture)];
    out.push(arrays.len() as u8);
    for (kind, units) in arrays {
        // All of them are here.
        out.extend([0x80 | kind, 0, count(units, 255)]);
        with_lengths(out, units, 255);
    }
}

fn count(units: &[Arc<[u8]>], max: usize) -> u8 {
    units.len().min(max) as u8
}

fn with_lengths(out: &mut Vec<u8>, units: &[Arc<[u8]>], max: usize) {
    for unit in units.iter().take(max) {
        // Longer ones are refused where they are read.
        out.extend((unit.len() as u16).to_be_bytes());
        out.extend_from_slice(unit);
    }
}
