// SPDX-License-Identifier: Apache-2.0
//! The archive as its callers see it: files, index, retention, and what a kill leaves.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn day(number: u64) -> SystemTime {
    UNIX_EPOCH + DAY * (20_000 + u32::try_from(number).expect("few days"))
}

fn open(folder: &Path, limits: Limits) -> (Archive, Healed) {
    // A process that another test starts has its lock, too, until it runs its program.
    for _ in 0..1000 {
        match Archive::open(folder, limits) {
            Err(ArchiveError::Locked { .. }) => std::thread::sleep(Duration::from_millis(10)),
            opened => return opened.expect("the folder can be used"),
        }
    }
    panic!("{} stays locked", folder.display());
}

/// A file of `bytes` bytes, taken at `from`.
fn add(archive: &Archive, kind: MediaKind, source: &str, from: SystemTime, bytes: usize) -> Item {
    let new = NewItem {
        label: Some("person".to_owned()),
        tracks: vec!["1.000000-gate-1".to_owned()],
        zones: vec!["door".to_owned()],
        region: Some([0.25, 0.5, 0.75, 1.0]),
        ..NewItem::new(kind, source, from)
    };
    let mut pending = archive.begin(new).expect("begun");
    let mut content = vec![7; bytes];
    content[bytes - 2..].copy_from_slice(&[0xff, 0xd9]);
    pending.write_all(&content).expect("written");
    let end = Finish::complete(from + Duration::from_secs(5));
    pending.finish(end).expect("finished")
}

#[test]
fn closed_archive_refuses_all_until_its_folder_can_be_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("missing/media");
    let archive = Archive::closed(&place, Limits::default());
    let clone = archive.clone();
    assert!(archive.reopen().is_err() && !clone.is_open());
    let item = || NewItem::new(MediaKind::Clip, "cam", SystemTime::UNIX_EPOCH);
    let refused = clone.begin(item()).map(|_| ());
    assert!(
        matches!(refused, Err(ArchiveError::Closed { .. })),
        "{refused:?}"
    );
    assert!(clone.items(&Query::default()).is_err());
    std::fs::create_dir(folder.path().join("missing")).expect("made");
    assert!(archive.reopen().expect("it can be made").is_nothing());
    let pending = clone.begin(item()).expect("it is open");
    pending
        .finish(Finish::complete(SystemTime::UNIX_EPOCH))
        .expect("kept");
    assert_eq!(archive.items(&Query::default()).expect("read").len(), 1);
    // This process holds it.
    let other = Archive::open(&place, Limits::default()).map(|_| ());
    assert!(
        matches!(other, Err(ArchiveError::Locked { .. })),
        "{other:?}"
    );
}

#[test]
fn files_are_listed_pinned_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, healed) = open(folder.path(), Limits::default());
    assert!(healed.is_nothing(), "{healed}");
    let clip = add(&archive, MediaKind::Clip, "gate", day(1), 100);
    let snapshot = add(&archive, MediaKind::Snapshot, "gate", day(2), 50);
    let other = add(&archive, MediaKind::Clip, "yard", day(3), 70);
    let list = |query: Query| -> Vec<MediaId> {
        let items = archive.items(&query).expect("listed");
        items.into_iter().map(|item| item.id).collect()
    };
    let ids = [&other, &snapshot, &clip].map(|item| item.id.clone());
    assert_eq!(list(Query::default()), ids);
    let gate = Query {
        source: Some("gate".to_owned()),
        label: Some("person".to_owned()),
        zone: Some("door".to_owned()),
        track: Some("1.000000-gate-1".to_owned()),
        ..Query::default()
    };
    assert_eq!(list(gate.clone()), ids[1..]);
    let clips = Query {
        kind: Some(MediaKind::Clip),
        ..gate
    };
    assert_eq!(list(clips), ids[2..]);
    let page = Query {
        before: Some(ids[0].clone()),
        limit: 1,
        ..Query::default()
    };
    assert_eq!(list(page), ids[1..2]);
    let times = Query {
        from: Some(day(1) + Duration::from_secs(6)),
        to: Some(day(2)),
        ..Query::default()
    };
    assert_eq!(list(times), ids[1..2]);

    assert_eq!(archive.get(&clip.id).expect("known"), clip);
    let path = archive.file_of(&clip).expect("below the folder");
    assert_eq!(fs::metadata(&path).expect("a file").len(), 100);
    assert!(archive.pin(&clip.id, true).expect("pinned").is_pinned);
    let refused = archive.remove(&clip.id, RemovalReason::Operator);
    assert!(matches!(refused, Err(ArchiveError::Pinned(_))));
    archive.pin(&clip.id, false).expect("unpinned");
    archive
        .remove(&clip.id, RemovalReason::Operator)
        .expect("removed");
    assert!(!path.exists());
    let gone = archive.get(&clip.id).expect("its row stays");
    assert_eq!(gone.reason, Some(RemovalReason::Operator));
    assert_eq!(gone.state, MediaState::Removed);
    assert!(archive.file_of(&gone).is_err());
    assert_eq!(list(Query::default()), ids[..2]);
}

#[test]
fn folders_and_files_are_neither_made_nor_removed_through_links() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, _) = open(folder.path(), Limits::default());
    let clip = add(&archive, MediaKind::Clip, "gate", day(1), 100);
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(folder.path().join("gate"), &elsewhere).expect("moved");
    for source in ["gate", "yard"] {
        let link = folder.path().join(source);
        std::os::unix::fs::symlink(&elsewhere, link).expect("linked");
        let begun = archive.begin(NewItem::new(MediaKind::Clip, source, day(2)));
        assert!(begun.map(|_| ()).is_err(), "{source}");
    }
    let removed = archive.remove(&clip.id, RemovalReason::Operator);
    assert!(removed.is_err(), "{removed:?}");
    // The one of the clip alone, which is as it was.
    let days: Vec<_> = fs::read_dir(&elsewhere).expect("there").flatten().collect();
    assert_eq!(days.len(), 1, "{days:?}");
    assert_eq!(fs::read_dir(days[0].path()).expect("there").count(), 1);
}

#[test]
fn other_process_lists_and_removes_and_the_writer_announces_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = Archive::attach(folder.path(), Limits::default());
    assert!(matches!(none, Err(ArchiveError::NoArchive { .. })));
    let (archive, _) = open(folder.path(), Limits::default());
    let second = Archive::open(folder.path(), Limits::default());
    assert!(matches!(second, Err(ArchiveError::Locked { .. })));
    let (sender, changes) = std::sync::mpsc::channel();
    archive.observe(Box::new(move |item| {
        sender.send((item.state, item.reason)).expect("received");
    }));
    let item = add(&archive, MediaKind::Clip, "gate", day(1), 10);
    let pending = archive
        .begin(NewItem::new(MediaKind::Clip, "gate", day(2)))
        .expect("begun");
    let beside = Archive::attach(folder.path(), Limits::default()).expect("it is there");
    assert_eq!(beside.differences().expect("compared"), []);
    let busy = beside.remove(pending.id(), RemovalReason::Operator);
    assert!(matches!(busy, Err(ArchiveError::Busy(_))));
    beside
        .remove(&item.id, RemovalReason::Operator)
        .expect("removed");
    assert_eq!(archive.announce_removals().expect("announced"), 1);
    assert_eq!(archive.announce_removals().expect("announced"), 0);
    pending.discard().expect("discarded");
    let seen: Vec<_> = changes.try_iter().collect();
    let wanted = [
        (MediaState::Recording, None),
        (MediaState::Ready, None),
        (MediaState::Recording, None),
        (MediaState::Removed, Some(RemovalReason::Operator)),
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn retention_deletes_by_age_and_size_and_keeps_pinned_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits {
        max_age: Some(DAY * 7),
        max_bytes_per_source: Some(1000),
        ..Limits::default()
    };
    let (archive, _) = open(folder.path(), limits);
    let old = add(&archive, MediaKind::Clip, "gate", day(0), 10);
    let kept = add(&archive, MediaKind::Clip, "gate", day(0), 10);
    archive.pin(&kept.id, true).expect("pinned");
    let snapshot = add(&archive, MediaKind::Snapshot, "gate", day(7), 300);
    let clip = add(&archive, MediaKind::Clip, "gate", day(6), 500);
    let newer = add(&archive, MediaKind::Clip, "gate", day(7), 400);
    add(&archive, MediaKind::Clip, "yard", day(7), 1000);
    let removed = archive.enforce(day(8)).expect("enforced");
    let what: Vec<_> = removed
        .iter()
        .map(|item| (item.id.clone(), item.reason))
        .collect();
    let size = Some(RemovalReason::SourceBytes);
    // A snapshot goes before an older clip.
    assert_eq!(
        what,
        [(old.id, Some(RemovalReason::Age)), (snapshot.id, size)]
    );
    let _ = (clip, newer);
    assert_eq!(archive.enforce(day(8)).expect("enforced"), []);
    let usage = archive.usage(day(8)).expect("counted");
    assert_eq!(usage.pinned_bytes, 10);
    assert_eq!(usage.bytes_of(MediaKind::Clip), 10 + 500 + 400 + 1000);
    assert_eq!(usage.bytes_of(MediaKind::Snapshot), 0);
    // 1700 bytes in one day.
    assert_eq!(usage.bytes_per_day, Some(1700.0));
    assert!(usage.days_left.is_some_and(|days| days > 1.0));
}

#[test]
fn space_that_cannot_stay_free_stops_recording_until_it_can() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, _) = open(folder.path(), Limits::default());
    let pinned = add(&archive, MediaKind::Clip, "gate", day(0), 10);
    archive.pin(&pinned.id, true).expect("pinned");
    let snapshot = add(&archive, MediaKind::Snapshot, "gate", day(1), 10);
    drop(archive);
    let limits = Limits {
        min_free_bytes: u64::MAX,
        ..Limits::default()
    };
    let (archive, _) = open(folder.path(), limits);
    let removed = archive.enforce(day(2)).expect("enforced");
    assert_eq!(removed.len(), 1);
    assert_eq!(removed[0].id, snapshot.id);
    assert_eq!(removed[0].reason, Some(RemovalReason::FreeSpace));
    assert!(archive.is_full());
    assert_eq!(archive.enforce(day(2)).expect("enforced"), []);
    assert!(archive.is_full());
    let refused = archive.begin(NewItem::new(MediaKind::Clip, "gate", day(2)));
    assert!(matches!(refused, Err(ArchiveError::Full { .. })));
    drop(archive);
    let (archive, _) = open(folder.path(), Limits::default());
    archive.enforce(day(2)).expect("enforced");
    assert!(!archive.is_full());
    archive
        .begin(NewItem::new(MediaKind::Clip, "gate", day(2)))
        .expect("there is room");
}

/// Sums that are kept in step are those of the files.
fn check_usage(archive: &Archive) {
    let all = Query {
        limit: 1000,
        ..Query::default()
    };
    let items = archive.items(&all).expect("listed");
    let of = |kind| items.iter().filter(move |item| item.kind == kind);
    let usage = archive.usage(day(10)).expect("read");
    for kind in MediaKind::ALL {
        let sum: u64 = of(kind).map(|item| item.bytes).sum();
        assert_eq!(usage.bytes_of(kind), sum, "{kind:?}");
    }
    let files: u64 = (usage.sources.iter().flat_map(|source| &source.kinds))
        .map(|usage| usage.files)
        .sum();
    assert_eq!(files, items.len() as u64);
    let pinned = items.iter().filter(|item| item.is_pinned);
    assert_eq!(
        usage.pinned_bytes,
        pinned.map(|item| item.bytes).sum::<u64>()
    );
    let oldest = usage
        .sources
        .iter()
        .filter_map(|source| source.oldest)
        .min();
    assert_eq!(oldest, items.iter().map(|item| item.from).min());
}

/// A week of 10 files an hour: what is left is what the limits allow, whatever the order of calls.
#[test]
fn week_of_files_stays_within_its_limits() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits {
        max_age: Some(DAY * 2),
        max_bytes_per_source: Some(20_000),
        ..Limits::default()
    };
    let (archive, _) = open(folder.path(), limits);
    let begin = day(0);
    let mut removed = 0;
    for step in 0..7 * 24 {
        let now = begin + Duration::from_secs(3600) * step;
        for kind in MediaKind::ALL {
            add(&archive, kind, "gate", now, 100 + step as usize);
        }
        removed += archive.enforce(now).expect("enforced").len();
        if step % 10 == 0 {
            let newest = archive.items(&Query::default()).expect("listed");
            for is_pinned in [true, false] {
                archive.pin(&newest[0].id, is_pinned).expect("changed");
                check_usage(&archive);
            }
        }
    }
    let now = begin + DAY * 7;
    let items = archive
        .items(&Query {
            limit: 1000,
            ..Query::default()
        })
        .expect("listed");
    assert_eq!(items.len() + removed, 7 * 24 * 3);
    assert!(items.iter().map(|item| item.bytes).sum::<u64>() <= 20_000);
    assert!(items.iter().all(|item| item.from + DAY * 2 >= now - DAY));
    assert_eq!(archive.differences().expect("compared"), []);
}

#[test]
fn what_a_kill_leaves_is_healed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, _) = open(folder.path(), Limits::default());
    let root = archive.folder().to_owned();
    let whole = add(&archive, MediaKind::Clip, "gate", day(1), 100);
    let gone = add(&archive, MediaKind::Clip, "gate", day(1), 100);
    let leftover = add(&archive, MediaKind::Clip, "gate", day(1), 100);
    let longer = add(&archive, MediaKind::Clip, "gate", day(1), 100);
    let unindexed = add(&archive, MediaKind::Snapshot, "gate", day(1), 100);
    let half = add(&archive, MediaKind::Snapshot, "gate", day(1), 100);
    let begin = |bytes: &[u8]| {
        let mut pending = archive
            .begin(NewItem::new(MediaKind::Clip, "gate", day(1)))
            .expect("begun");
        pending.write_all(bytes).expect("written");
        pending
    };
    let (cut, empty) = (begin(b"abc"), begin(b""));
    fs::remove_file(root.join(&gone.path)).expect("removed");
    fs::write(root.join(&longer.path), [1; 30]).expect("written");
    fs::write(root.join(&half.path), [1; 30]).expect("written");
    archive
        .with_index(|index| {
            index.mark_removed(&leftover.id, RemovalReason::Age, day(2))?;
            for id in [&unindexed.id, &half.id] {
                index.execute("DELETE FROM items WHERE id = ?", [id.as_str()])?;
            }
            Ok(())
        })
        .expect("changed");
    assert_eq!(archive.differences().expect("compared").len(), 7);
    let (cut_id, empty_id) = (cut.id().clone(), empty.id().clone());
    // The end of the process: no destructor runs. The lock goes with it, here with the archive's last clone.
    let lock_path = root.join("lock");
    std::mem::forget((cut, empty));
    drop(archive);
    fs::remove_file(lock_path).expect("the lock of the process that is gone");
    let (archive, healed) = open(folder.path(), Limits::default());
    let wanted = Healed {
        indexed: 1,
        missing: 1,
        incomplete: 1,
        deleted: 3,
        resized: 1,
        put_aside: None,
        took: healed.took,
    };
    assert_eq!(healed, wanted);
    assert_eq!(archive.get(&whole.id).expect("known"), whole);
    let item = archive.get(&gone.id).expect("known");
    assert_eq!(item.reason, Some(RemovalReason::Missing));
    let item = archive.get(&cut_id).expect("known");
    assert!(item.is_incomplete && item.state == MediaState::Ready && item.bytes == 3);
    let item = archive.get(&empty_id).expect("known");
    assert_eq!(item.reason, Some(RemovalReason::Unusable));
    let item = archive.get(&unindexed.id).expect("found again");
    assert_eq!((item.kind, item.bytes), (MediaKind::Snapshot, 100));
    assert!(!root.join(&half.path).exists() && !root.join(&leftover.path).exists());
    assert_eq!(archive.differences().expect("compared"), []);
}

fn archive_log(index: &Path) -> PathBuf {
    index.with_extension("sqlite-wal")
}

#[test]
fn index_is_checked_after_a_kill_or_an_error_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, _) = open(folder.path(), Limits::default());
    add(&archive, MediaKind::Clip, "gate", day(1), 100);
    let path = archive.folder().join("index.sqlite");
    assert!(archive_log(&path).exists());
    assert_eq!(archive.items(&Query::default()).expect("read").len(), 1);
    drop(archive);
    // Both connections have ended.
    assert!(!archive_log(&path).exists());
    let mark = path.with_extension("sqlite.suspect");
    let (archive, _) = open(folder.path(), Limits::default());
    archive
        .with_index(|index| {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            index.error(rusqlite::Error::SqliteFailure(code, None));
            Ok(())
        })
        .expect("open");
    drop(archive);
    assert!(mark.exists());
    drop(open(folder.path(), Limits::default()));
    assert!(!mark.exists());
}

#[test]
fn index_damaged_by_a_power_cut_is_found_while_it_is_used_and_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, _) = open(folder.path(), Limits::default());
    add(&archive, MediaKind::Clip, "gate", day(1), 100);
    let index = archive.folder().join("index.sqlite");
    assert!(archive.check().expect("nothing to check"));
    drop(archive);
    let mut bytes = fs::read(&index).expect("read");
    let last = bytes.len() - 4096;
    bytes[last..].fill(b'x');
    fs::write(&index, bytes).expect("written");
    fs::write(archive_log(&index), "").expect("written");
    // One that looks at it before leaves the sign of the power cut.
    drop(Archive::attach(folder.path(), Limits::default()).expect("attached"));
    let (archive, healed) = open(folder.path(), Limits::default());
    assert!(healed.is_nothing(), "{healed}");
    assert!(!archive.check().expect("checked") && !archive.is_open());
    let healed = archive.reopen().expect("made again");
    assert_eq!((healed.indexed, healed.put_aside.is_some()), (1, true));
    assert_eq!(archive.items(&Query::default()).expect("read").len(), 1);
}

/// A list of a long past, and the sum of what was written, keep no picture waiting.
#[test]
fn lists_do_not_wait_for_a_change_nor_for_one_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, _) = open(folder.path(), Limits::default());
    add(&archive, MediaKind::Clip, "gate", day(1), 100);
    let count = || archive.items(&Query::default()).expect("read").len();
    assert_eq!(count(), 1);
    archive
        .with_index(|index| {
            index.execute("BEGIN IMMEDIATE", [])?;
            index.execute("UPDATE items SET state = 'removed'", [])?;
            assert_eq!((count(), archive.usage(day(2))?.sources.len()), (1, 1));
            index.execute("COMMIT", [])
        })
        .expect("changed");
    assert_eq!(count(), 0);
}

#[test]
fn bad_index_is_put_aside_and_rebuilt() {
    for damage in ["damaged", "other version", "missing"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (archive, _) = open(folder.path(), Limits::default());
        let item = add(&archive, MediaKind::Clip, "gate", day(1), 100);
        archive.pin(&item.id, true).expect("pinned");
        let other = add(&archive, MediaKind::Clip, "gate", day(2), 100);
        for is_pinned in [true, false] {
            archive.pin(&other.id, is_pinned).expect("pinned and not");
        }
        let index = archive.folder().join("index.sqlite");
        if damage == "other version" {
            let set = |index: &crate::index::Index| index.execute("PRAGMA user_version = 99", []);
            archive.with_index(set).expect("set");
        }
        drop(archive);
        match damage {
            "damaged" => fs::write(&index, [b'x'; 9000]).expect("written"),
            "missing" => fs::remove_file(&index).expect("removed"),
            _ => {}
        }
        let (archive, healed) = open(folder.path(), Limits::default());
        assert_eq!(healed.indexed, 2, "{damage}");
        assert_eq!(healed.put_aside.is_some(), damage != "missing", "{damage}");
        assert!(healed.put_aside.is_none_or(|path| path.is_file()));
        let again = archive.get(&item.id).expect("found again");
        assert_eq!((again.path, again.bytes), (item.path, 100), "{damage}");
        let other = archive.get(&other.id).expect("found again");
        assert!(again.is_pinned && !other.is_pinned, "{damage}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any sequence of actions leaves index and folder in agreement, and pinned files there.
    #[test]
    fn index_and_folder_agree(actions in proptest::collection::vec((0_u8..6, any::<u8>()), 1..30)) {
        let folder = tempfile::tempdir().expect("a folder");
        let limits = Limits { max_age: Some(DAY * 3), max_bytes_per_source: Some(500), ..Limits::default() };
        let (mut archive, _) = open(folder.path(), limits);
        let mut ids: Vec<MediaId> = Vec::new();
        let mut pinned: Vec<MediaId> = Vec::new();
        for (step, (action, value)) in actions.into_iter().enumerate() {
            let now = day(step as u64);
            let chosen = (!ids.is_empty()).then(|| ids[usize::from(value) % ids.len()].clone());
            match (action, chosen) {
                (0 | 1, _) => {
                    let kind = MediaKind::ALL[usize::from(value) % 3];
                    ids.push(add(&archive, kind, "gate", now, 2 + usize::from(value)).id);
                }
                (2, Some(id)) => {
                    if archive.pin(&id, true).is_ok() {
                        pinned.push(id);
                    }
                }
                (3, Some(id)) => {
                    let removed = archive.remove(&id, RemovalReason::Operator);
                    prop_assert!(removed.is_err() || !pinned.contains(&id));
                }
                (4, _) => {
                    archive.enforce(now).expect("enforced");
                }
                _ => {
                    drop(archive);
                    let (again, healed) = open(folder.path(), limits);
                    prop_assert!(healed.is_nothing());
                    archive = again;
                }
            }
        }
        prop_assert_eq!(archive.differences().expect("compared"), []);
        for id in pinned {
            let item = archive.get(&id).expect("known");
            prop_assert!(archive.file_of(&item).is_ok());
        }
    }
}

/// Name of the variable by which the test below starts itself as the process that is killed.
const WRITER_FOLDER: &str = "JETWATCH_TEST_ARCHIVE_FOLDER";

/// The process that is killed: it writes, pins and deletes until then. Not asked for, it does nothing.
#[test]
fn process_that_is_killed() {
    let Some(folder) = std::env::var_os(WRITER_FOLDER) else {
        return;
    };
    let limits = Limits {
        max_bytes_per_source: Some(40_000),
        ..Limits::default()
    };
    let (archive, _) = open(Path::new(&folder), limits);
    println!("open");
    for step in 0_u64.. {
        let now = SystemTime::now();
        let kind = MediaKind::ALL[usize::try_from(step % 3).expect("small")];
        let mut pending = archive
            .begin(NewItem::new(kind, "gate", now))
            .expect("begun");
        for _ in 0..4 {
            pending.write_all(&[7; 500]).expect("written");
        }
        pending.write_all(&[0xff, 0xd9]).expect("written");
        let item = pending.finish(Finish::complete(now)).expect("finished");
        println!("{}", item.id);
        if step % 5 == 0 {
            archive.enforce(now).expect("enforced");
        }
    }
}

#[test]
fn kill_at_any_time_leaves_what_the_next_start_heals() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().expect("a folder");
    let own = std::env::current_exe().expect("this program");
    let mut healed_times = 0;
    for round in 0_u32..30 {
        let mut child = Command::new(&own)
            .args(["--exact", "tests::process_that_is_killed", "--nocapture"])
            .env(WRITER_FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let opened = lines.find(|line| line.as_ref().is_ok_and(|line| line.ends_with("open")));
        assert!(opened.is_some(), "round {round}: it opens the archive");
        // What it has finished by then must be there afterwards.
        let mut finished = Vec::new();
        for line in lines
            .by_ref()
            .take(usize::try_from(round % 7).expect("small"))
        {
            finished.extend(MediaId::parse(&line.expect("text")));
        }
        std::thread::sleep(Duration::from_micros(u64::from(round * 7919 % 5000)));
        child.kill().expect("killed");
        child.wait().expect("ended");
        let (archive, healed) = open(folder.path(), Limits::default());
        assert_eq!(healed.put_aside, None, "round {round}");
        healed_times += u32::from(!healed.is_nothing());
        assert_eq!(
            archive.differences().expect("compared"),
            [],
            "round {round}"
        );
        for id in finished {
            let item = archive.get(&id).expect("it was finished");
            assert!(!item.is_incomplete, "round {round}");
            if item.state == MediaState::Ready {
                assert_eq!((item.bytes, archive.file_of(&item).is_ok()), (2002, true));
            }
        }
    }
    assert!(healed_times > 0, "no kill came while it wrote");
}

/// An object of `gate` that was seen for 5 s from `from` on.
fn seen(id: &str, from: SystemTime) -> Object {
    Object {
        id: id.to_owned(),
        source: "gate".to_owned(),
        label: Some("person".to_owned()),
        from,
        to: Some(from + Duration::from_secs(5)),
        score: Some(0.5),
        zones: vec!["door".to_owned()],
        is_reviewed: false,
        details: "{}".to_owned(),
    }
}

/// Ids of the objects that `query` finds, with the number of the files of each.
fn found(archive: &Archive, query: ObjectQuery) -> Vec<(String, usize)> {
    let query = ObjectQuery {
        limit: 100,
        ..query
    };
    let objects = archive.objects(&query).expect("listed");
    let title = |(object, files): (Object, Vec<Item>)| (object.id, files.len());
    objects.into_iter().map(title).collect()
}

#[test]
fn objects_have_one_row_each_with_all_their_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, _) = open(folder.path(), Limits::default());
    let track = "1.000000-gate-1";
    // A clip that is discarded leaves nothing.
    let new = NewItem {
        tracks: vec!["none".to_owned()],
        ..NewItem::new(MediaKind::Clip, "gate", day(1))
    };
    archive.begin(new).expect("begun").discard().expect("gone");
    let clip = add(&archive, MediaKind::Clip, "gate", day(1), 100);
    add(&archive, MediaKind::Snapshot, "gate", day(1), 50);
    add(&archive, MediaKind::Continuous, "gate", day(1), 50);
    assert_eq!(
        found(&archive, ObjectQuery::default()),
        [(track.to_owned(), 2)]
    );
    // What the pipeline notes takes the place of what the files say; it waits in memory.
    archive.note(seen(track, day(2)));
    archive.note(seen("other", day(3)));
    let all = [("other".to_owned(), 0), (track.to_owned(), 2)];
    assert_eq!(found(&archive, ObjectQuery::default()), all);
    let (object, _) = archive
        .objects(&ObjectQuery {
            before: Some("other".to_owned()),
            limit: 1,
            ..ObjectQuery::default()
        })
        .expect("listed")
        .remove(0);
    assert_eq!(object, seen(track, day(2)));
    type Set = fn(&mut ObjectQuery);
    let cases: [(Set, usize); 6] = [
        (|query| query.source = Some("yard".to_owned()), 0),
        (|query| query.label = Some("person".to_owned()), 2),
        (|query| query.zone = Some("door".to_owned()), 2),
        (|query| query.zone = Some("yard".to_owned()), 0),
        (|query| query.from = Some(day(3)), 1),
        (|query| query.to = Some(day(3)), 1),
    ];
    for (set, count) in cases {
        let mut query = ObjectQuery::default();
        set(&mut query);
        assert_eq!(found(&archive, query.clone()).len(), count, "{query:?}");
    }
    let marked = archive.review(&["other".to_owned(), "none".to_owned()], true);
    assert_eq!(marked.expect("marked"), 1);
    let is_new = ObjectQuery {
        is_new: true,
        ..ObjectQuery::default()
    };
    assert_eq!(found(&archive, is_new), all[1..]);
    let facets = archive.facets().expect("read");
    assert_eq!((facets.labels.len(), facets.zones.len()), (1, 1));
    // An object outlives its files.
    archive
        .remove(&clip.id, RemovalReason::Operator)
        .expect("removed");
    assert_eq!(found(&archive, ObjectQuery::default())[1].1, 1);
    let day_2 = archive.activity(day(2), day(4), 48).expect("read");
    assert_eq!(day_2["gate"].objects, [(0, 1), (24, 1)]);
    assert_eq!(day_2["gate"].video, []);
    // One by one, where the parts are not those of which counts are kept.
    let span = archive.activity(day(2) - DAY / 999, day(4) - DAY / 999, 48);
    assert_eq!(span.expect("read")["gate"].objects, day_2["gate"].objects);
    let day_1 = archive.activity(day(1), day(2), 24).expect("read");
    assert_eq!(
        day_1["gate"].video,
        [(day(1), day(1) + Duration::from_secs(5))]
    );
}

#[test]
fn objects_are_kept_over_a_restart_and_found_in_files_of_earlier_versions() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, _) = open(folder.path(), Limits::default());
    add(&archive, MediaKind::Clip, "gate", day(1), 100);
    archive.note(seen("noted", day(2)));
    drop(archive);
    let (archive, _) = open(folder.path(), Limits::default());
    let all = [("noted".to_owned(), 0), ("1.000000-gate-1".to_owned(), 1)];
    assert_eq!(found(&archive, ObjectQuery::default()), all);
    drop(archive);
    // As an earlier version has left it.
    let connection = rusqlite::Connection::open(folder.path().join("index.sqlite"));
    let connection = connection.expect("opened");
    let sql = "DROP TABLE totals; DROP TRIGGER total_added; DROP TRIGGER total_changed; DROP TRIGGER total_forgotten; \
               DROP TABLE written; DROP TRIGGER written_added; DROP TRIGGER written_changed; DROP TABLE object_counts; \
               DROP INDEX by_end; DROP INDEX by_worth; DROP INDEX by_worth_of_source; DROP INDEX removed; \
               DROP TRIGGER file_added; DROP TRIGGER file_found; DROP TRIGGER file_changed; DROP TRIGGER file_forgotten; \
               DROP TABLE objects; DROP TABLE object_details; DROP TABLE object_files;";
    connection.execute_batch(sql).expect("dropped");
    drop(connection);
    let (archive, healed) = open(folder.path(), Limits::default());
    assert!(healed.is_nothing(), "{healed}");
    assert_eq!(found(&archive, ObjectQuery::default()), all[1..]);
    let activity = archive.activity(day(1), day(2), 288);
    assert_eq!(activity.expect("read")["gate"].objects, [(0, 1)]);
    check_usage(&archive);
    // An index that is lost: the file is an object of its own.
    drop(archive);
    fs::write(folder.path().join("index.sqlite"), "no index").expect("written");
    let (archive, _) = open(folder.path(), Limits::default());
    assert_eq!(found(&archive, ObjectQuery::default()).len(), 1);
    assert_eq!(found(&archive, ObjectQuery::default())[0].1, 1);
}

#[test]
fn old_objects_without_files_leave_with_their_age() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits {
        max_age: Some(DAY),
        ..Limits::default()
    };
    let (archive, _) = open(folder.path(), limits);
    let pinned = add(&archive, MediaKind::Clip, "gate", day(1), 100);
    archive.pin(&pinned.id, true).expect("pinned");
    archive.note(seen("old", day(1)));
    archive.note(seen("new", day(5)));
    archive.enforce(day(5)).expect("enforced");
    archive.enforce(day(5)).expect("enforced");
    let left = [("new".to_owned(), 0), ("1.000000-gate-1".to_owned(), 1)];
    assert_eq!(found(&archive, ObjectQuery::default()), left);
}

#[test]
fn objects_in_memory_are_limited() {
    let archive = Archive::in_memory().expect("memory");
    for number in 0..5000_u64 {
        archive.note(seen(
            &number.to_string(),
            day(1) + Duration::from_secs(number),
        ));
        if number % 1000 == 0 {
            archive.write_noted().expect("written");
        }
    }
    archive.write_noted().expect("written");
    let all = ObjectQuery {
        limit: 1000,
        ..ObjectQuery::default()
    };
    assert_eq!(archive.objects(&all).expect("listed")[0].0.id, "4999");
    let last = ObjectQuery {
        to: Some(day(1) + Duration::from_secs(3000)),
        ..all
    };
    assert_eq!(archive.objects(&last).expect("listed").len(), 0);
}
