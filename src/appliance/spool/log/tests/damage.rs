// SPDX-License-Identifier: Apache-2.0
//! Tests of a log whose files are torn, damaged or of another version.

use std::os::unix::fs::FileExt;

use super::*;
use crate::record;

#[test]
fn tail_cut_at_every_byte_loses_only_the_records_in_it() {
    let folder = folder();
    let (mut log, _) = open_with(&folder, UNSYNCED);
    let mut ends = vec![HEADER_BYTES as u64];
    for seq in 1..=4 {
        append(&mut log, [seq]);
        ends.push(log.bytes());
    }
    kill(log);
    let path = folder.path().join("log").join(segment::name(1));
    let whole = fs::read(&path).expect("the segment");
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).expect("written");
        let (mut log, opened) = open_with(&folder, UNSYNCED);
        let kept = ends
            .iter()
            .filter(|&&end| end <= cut as u64)
            .count()
            .saturating_sub(1);
        assert_eq!(
            seqs(&mut log),
            (1..=kept as u64).collect::<Vec<_>>(),
            "at {cut}"
        );
        let torn = match cut as u64 {
            cut if cut < HEADER_BYTES as u64 => 0,
            cut => cut - ends[kept],
        };
        assert_eq!(opened.torn_bytes, torn, "at {cut}");
        // It is written on behind the cut.
        let next = log.next_seq();
        append(&mut log, [next]);
        let mut expected: Vec<u64> = (1..=kept as u64).collect();
        expected.push(next);
        assert_eq!(seqs(&mut log), expected, "at {cut}");
        drop(log);
        for name in files(&folder) {
            fs::remove_file(folder.path().join("log").join(name)).expect("removed");
        }
    }
}

#[test]
fn every_flipped_bit_loses_at_most_its_own_record() {
    let folder = folder();
    let (mut log, _) = open_with(&folder, UNSYNCED);
    append(&mut log, 1..=12);
    kill(log);
    let place = folder.path().join("log");
    let path = place.join(segment::name(1));
    let whole = fs::read(&path).expect("the segment");
    for at in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        fs::write(&path, &bytes).expect("written");
        let (mut log, opened) = open_with(&folder, UNSYNCED);
        let found = seqs(&mut log);
        if at / 8 >= HEADER_BYTES {
            assert!(found.len() >= 11, "bit {at}: {found:?}");
            assert!(found.len() == 12 || opened.torn_bytes > 0 || opened.damaged == [path.clone()]);
        } else if found.is_empty() {
            let aside = opened.damaged.len() + opened.other_versions.len();
            assert_eq!(aside, 1, "bit {at}");
        } else {
            assert_eq!(found.len(), 12, "bit {at}: a byte that means nothing");
        }
        drop(log);
        for name in files(&folder) {
            fs::remove_file(place.join(name)).expect("removed");
        }
        fs::remove_file(place.join(cursor::NAME)).expect("removed");
    }
}

#[test]
fn damaged_segment_is_put_aside_when_it_is_done_and_its_loss_is_known() {
    let folder = folder();
    let (mut log, _) = open(&folder);
    for seq in 1..=200 {
        append(&mut log, [seq]);
    }
    drop(log);
    let names = files(&folder);
    assert!(names.len() > 2, "{names:?}");
    let path = folder.path().join("log").join(&names[1]);
    let mut bytes = fs::read(&path).expect("the segment");
    // Without the summary, so that all of it is read; and one bit in the middle.
    let length = bytes.len() - 150;
    bytes.truncate(length);
    bytes[length / 2] ^= 4;
    fs::write(&path, &bytes).expect("written");
    let (mut log, opened) = open(&folder);
    assert_eq!(opened.damaged, [path]);
    assert_ne!(opened.torn_bytes, 0);
    let (records, gap) = log.read(0, 1000, 1 << 20).expect("readable");
    let gap = gap.expect("a record is missing");
    assert_eq!(
        (gap.from, gap.others, gap.reason),
        (gap.to, 1, GapReason::Damaged)
    );
    assert!(!records.iter().any(|record| record.seq == gap.from));
    assert!(records.len() > 190, "{}", records.len());
    log.ack(200);
    log.trim().expect("trimmed");
    assert_eq!(files(&folder), [format!("{}.damaged", names[1])]);
}

#[test]
fn segment_of_another_version_is_kept_under_another_name() {
    let folder = folder();
    let (mut log, _) = open(&folder);
    append(&mut log, 1..=3);
    drop(log);
    let path = folder.path().join("log").join(segment::name(1));
    let file = File::options()
        .write(true)
        .open(&path)
        .expect("the segment");
    file.write_all_at(&2_u32.to_le_bytes(), 8).expect("written");
    let content = fs::read(&path).expect("the segment");
    for _ in 0..2 {
        let (mut log, _) = open(&folder);
        assert_eq!(seqs(&mut log), Vec::<u64>::new());
        log.ack(log.next_seq());
        log.trim().expect("trimmed");
        drop(log);
        let aside = path.with_extension("seg.version-2");
        assert_eq!(fs::read(aside).expect("kept"), content);
    }
}

#[test]
fn torn_cursor_slot_leaves_the_older_one() {
    let folder = folder();
    let (mut log, _) = open_with(&folder, UNSYNCED);
    append(&mut log, 1..=50);
    for acked in [10, 20] {
        log.ack(acked);
        log.save().expect("saved");
    }
    kill(log);
    let path = folder.path().join("log").join(cursor::NAME);
    let whole = fs::read(&path).expect("the cursor");
    assert_eq!(whole.len(), 8192);
    // The second saving went into the first slot. Any part of it may be on the disk.
    for torn in 1..104 {
        let mut bytes = whole.clone();
        bytes[104 - torn..104].fill(0xa5);
        fs::write(&path, &bytes).expect("written");
        let (mut log, _) = open_with(&folder, UNSYNCED);
        assert_eq!(seqs(&mut log), (11..=50).collect::<Vec<_>>(), "{torn}");
        kill(log);
    }
    // Without any slot all is sent again, and numbers are still not used twice.
    fs::write(&path, vec![0; 8192]).expect("written");
    let (mut log, _) = open_with(&folder, UNSYNCED);
    assert_eq!(seqs(&mut log), (1..=50).collect::<Vec<_>>());
    assert_eq!(log.next_seq(), 51);
}

#[test]
fn files_with_impossible_numbers_open_and_are_written_on() {
    for number in [u64::MAX, u64::MAX - 1, 1 << 63] {
        let folder = folder();
        let place = folder.path().join("log");
        fs::create_dir(&place).expect("created");
        let mut bytes = segment::header(7, 1).to_vec();
        bytes.extend(batch([1]).bytes);
        record::write(&mut bytes, (number, 1), 0, 0, "t", b"{}");
        let summary: Vec<u8> = [number; 8].into_iter().flat_map(u64::to_le_bytes).collect();
        record::write(
            &mut bytes,
            (number, 1),
            0,
            record::SUMMARY_CLASS,
            "",
            &summary,
        );
        fs::write(place.join(segment::name(1)), &bytes).expect("written");
        fs::write(place.join(segment::name(number)), &bytes).expect("written");
        let mut disk = Disk::default();
        let (mut file, _) = CursorFile::open(&place, &mut disk, false).expect("created");
        let cursor = Cursor {
            acked: number,
            next_seq: number,
            ..Cursor::default()
        };
        file.save(&cursor, &mut disk, false).expect("written");
        drop(file);
        let (mut log, _) = open_with(&folder, UNSYNCED);
        assert_eq!(seqs(&mut log), [1], "{number}");
        let next = log.next_seq();
        append(&mut log, [next]);
        assert_eq!(seqs(&mut log), [1, next], "{number}");
    }
}

#[test]
fn records_that_two_segments_have_are_read_once() {
    let folder = folder();
    let place = folder.path().join("log");
    fs::create_dir(&place).expect("created");
    for (first, numbers) in [(1, [1, 2, 3, 4]), (3, [3, 4, 5, 6])] {
        let mut bytes = segment::header(7, first).to_vec();
        bytes.extend(batch(numbers).bytes);
        fs::write(place.join(segment::name(first)), &bytes).expect("written");
    }
    let (mut log, _) = open_with(&folder, UNSYNCED);
    assert_eq!(seqs(&mut log), [1, 2, 3, 4, 5, 6]);
}
