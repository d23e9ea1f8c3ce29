// SPDX-License-Identifier: Apache-2.0
//! A page of the list of kept files: pictures together with the clips that show the same track.
//!
//! The files of a page are those after the last file of the page before, by time and id, so that a file that is added or deleted
//! between two requests moves no other into a page twice, or past it. A clip begins before its pictures: where the end of a page comes
//! between them, the clip is shown with its picture, on the earlier page.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use jetwatch_archive::{Archive, ArchiveError, Item, MediaId, MediaKind, MediaState, Query};
use jetwatch_web::{MediaPage, MediaQuery, MediaSort};

/// Longest time from the begin of a clip to a picture in it that is looked for.
const CLIP_SPAN: Duration = Duration::from_secs(900);

/// Most clips and pictures around a page that are looked at.
const MAX_NEIGHBOURS: usize = 500;

/// The page of `archive` that `query` wants.
///
/// # Errors
/// The index cannot be read.
pub(super) fn page(archive: &Archive, query: &MediaQuery) -> Result<MediaPage, ArchiveError> {
    let of = |kind| Query {
        source: query.source.clone(),
        label: query.label.clone(),
        zone: query.zone.clone(),
        kind: Some(kind),
        from: query.from,
        to: query.to,
        ..Query::default()
    };
    let kinds: &[MediaKind] = match query.sort {
        MediaSort::Events => &[MediaKind::Snapshot, MediaKind::Clip],
        MediaSort::Continuous => &[MediaKind::Continuous],
    };
    let before = query.before.as_deref().map(MediaId::parse);
    let before = match before {
        // An id of no file: there is nothing after it.
        Some(None) => return Ok(MediaPage::default()),
        before => before.flatten(),
    };
    let mut files = Vec::new();
    for kind in kinds {
        let (limit, before) = (query.limit, before.clone());
        files.extend(archive.items(&Query {
            limit,
            before,
            ..of(*kind)
        })?);
    }
    sort(&mut files);
    let is_full = files.len() >= query.limit && query.limit > 0;
    files.truncate(query.limit);
    let next = files.last().filter(|_| is_full);
    let next = next.map(|last| last.id.as_str().to_owned());
    let (mut clips, mut shown) = (Vec::new(), Vec::new());
    if query.sort == MediaSort::Events {
        if let Some(last) = files.last().filter(|_| is_full) {
            // Clips that began before the page, of pictures in it.
            clips = archive.items(&Query {
                from: last.from.checked_sub(CLIP_SPAN),
                to: Some(last.from),
                limit: MAX_NEIGHBOURS,
                before: Some(last.id.clone()),
                ..of(MediaKind::Clip)
            })?;
        }
        if before.is_some()
            && let Some(first) = files.first()
        {
            // Pictures of earlier pages, of clips in it.
            shown = archive.items(&Query {
                from: Some(first.from),
                to: first.from.checked_add(CLIP_SPAN),
                limit: MAX_NEIGHBOURS,
                ..of(MediaKind::Snapshot)
            })?;
            shown.retain(|picture| !files.iter().any(|file| file.id == picture.id));
        }
    }
    let items = grouped(&files, &clips, &shown);
    Ok(MediaPage { items, next })
}

fn sort(files: &mut [Item]) {
    files.sort_by(|a, b| (b.from, b.id.as_str()).cmp(&(a.from, a.id.as_str())));
}

/// Pictures of `files` with the clips that show the same track, of `files` or of `earlier`; the other clips and recordings of `files` on
/// their own, but for those of which `shown` has a picture. In the order of `files`.
fn grouped(files: &[Item], earlier: &[Item], shown: &[Item]) -> Vec<Value> {
    let is_there = |item: &&Item| item.state == MediaState::Ready;
    let is_picture = |item: &&Item| item.kind == MediaKind::Snapshot;
    let clips: Vec<&Item> = files.iter().chain(earlier).filter(is_there).collect();
    let clip_of = |picture: &Item| {
        let mut clips = clips.iter().filter(|clip| !is_picture(clip));
        clips.find(|clip| is_same(clip, picture)).copied()
    };
    let pictures: Vec<&Item> = files.iter().chain(shown).filter(is_there).collect();
    let has_picture = |clip: &Item| {
        let mut pictures = pictures.iter().filter(|picture| is_picture(picture));
        pictures.any(|picture| is_same(clip, picture))
    };
    let described = |item: &Item| match item.kind {
        MediaKind::Snapshot => Some(described(item, Some(item), clip_of(item))),
        _ if has_picture(item) => None,
        _ => Some(described(item, None, Some(item))),
    };
    files
        .iter()
        .filter(is_there)
        .filter_map(described)
        .collect()
}

/// Whether both are about the same track.
fn is_same(clip: &Item, picture: &Item) -> bool {
    clip.source == picture.source
        && clip
            .tracks
            .iter()
            .any(|track| picture.tracks.contains(track))
}

fn described(item: &Item, picture: Option<&Item>, clip: Option<&Item>) -> Value {
    let ms = |at: SystemTime| {
        at.duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64)
    };
    let id = |item: Option<&Item>| item.map(|item| item.id.as_str().to_owned());
    let is_pinned = |item: Option<&Item>| item.is_some_and(|item| item.is_pinned);
    json!({
        "source": item.source,
        "label": item.label,
        "started_ms": ms(item.from),
        "ended_ms": item.to.map(ms),
        "zones": item.zones,
        "events": item.tracks,
        "snapshot": id(picture),
        "clip": id(clip),
        "bytes": clip.or(picture).map_or(0, |item| item.bytes),
        "pinned": is_pinned(picture) || is_pinned(clip),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use jetwatch_archive::{Finish, Limits, NewItem};

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
    }

    /// Files a picture or video of `track` that begins at `seconds`.
    fn keep(archive: &Archive, kind: MediaKind, seconds: u64, track: &str) {
        let item = NewItem {
            tracks: vec![track.to_owned()],
            ..NewItem::new(kind, "gate", at(seconds))
        };
        let pending = archive.begin(item).expect("a folder");
        fs::write(pending.path(), b"x").expect("written");
        let end = Finish::complete(at(seconds + 8));
        pending.finish(end).expect("filed");
    }

    /// Of each item: its track, whether it has a picture, and whether it has a clip.
    fn titles(page: &MediaPage) -> Vec<(String, bool, bool)> {
        let title = |item: &Value| {
            let track = item["events"][0].as_str().unwrap_or_default().to_owned();
            (track, !item["snapshot"].is_null(), !item["clip"].is_null())
        };
        page.items.iter().map(title).collect()
    }

    #[test]
    fn pages_of_any_size_have_each_item_once_and_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (archive, _) = Archive::open(folder.path(), Limits::default()).expect("new");
        for number in 0..7 {
            // A clip begins 5 s before its picture; pictures of the next track come between them.
            keep(&archive, MediaKind::Clip, 4 * number, &number.to_string());
            if number != 3 {
                let seconds = 4 * number + 5;
                keep(&archive, MediaKind::Snapshot, seconds, &number.to_string());
            }
            keep(&archive, MediaKind::Continuous, 4 * number, "");
        }
        let title = |number: u64| (number.to_string(), number != 3, true);
        for limit in 1..=15 {
            let mut found = Vec::new();
            let mut query = MediaQuery {
                limit,
                ..MediaQuery::default()
            };
            loop {
                let page = page(&archive, &query).expect("readable");
                found.extend(titles(&page));
                query.before = page.next;
                if query.before.is_none() {
                    break;
                }
            }
            found.sort_unstable();
            let wanted: Vec<_> = (0..7).map(title).collect();
            assert_eq!(found, wanted, "{limit} files a page");
        }
        let query = MediaQuery {
            sort: MediaSort::Continuous,
            limit: 5,
            ..MediaQuery::default()
        };
        let first = page(&archive, &query).expect("readable");
        assert_eq!((first.items.len(), first.next.is_some()), (5, true));
        let query = MediaQuery {
            before: Some("no id".to_owned()),
            ..query
        };
        let none = page(&archive, &query).expect("readable");
        assert_eq!((none.items.len(), none.next), (0, None));
    }
}
