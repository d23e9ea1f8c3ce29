// SPDX-License-Identifier: Apache-2.0
//! The archive as the store of the recorder.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use jetwatch_archive::{
    Archive, Finish, Item, Limits, MediaId, MediaKind, MediaState, NewItem, Pending, Query,
};
use jetwatch_media::mp4::complete_length;
use jetwatch_media::{ClipFacts, ClipLabel, ClipStore, StoreError};

/// Newest files among which those are that were being written: more than there can be sources.
const MAX_REPAIRED: usize = 1000;

/// Cuts the files that were being written by a process that was killed to their last complete fragment: some players refuse the
/// damaged one behind it. Before the archive is opened, which then sees files that are complete as far as they go.
pub(crate) fn repair(folder: &Path) {
    // Without an index nothing was kept there; other problems show when it is opened.
    let Ok(archive) = Archive::attach(folder, Limits::default()) else {
        return;
    };
    let items = archive.items(&Query {
        limit: MAX_REPAIRED,
        ..Query::default()
    });
    let cut_off = |item: &Item| item.state == MediaState::Recording;
    for item in items.unwrap_or_default().into_iter().filter(cut_off) {
        // One that is gone or elsewhere is left to the archive.
        if let Ok(path) = archive.file_of(&item)
            && let Err(error) = cut(&path)
        {
            log::warn!("cannot repair {}: {error}", path.display());
        }
    }
}

fn cut(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let complete = complete_length(&mut file)?;
    // One without any fragment is left to the archive.
    if complete > 0 && complete < file.metadata()?.len() {
        file.set_len(complete)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Keeps clips in an archive.
pub(super) struct ArchiveStore {
    archive: Archive,
}

impl ArchiveStore {
    pub(super) const fn new(archive: Archive) -> Self {
        Self { archive }
    }
}

const fn kind_of(is_continuous: bool) -> MediaKind {
    match is_continuous {
        true => MediaKind::Continuous,
        false => MediaKind::Clip,
    }
}

impl ClipStore for ArchiveStore {
    type File = Pending;

    fn new_id(&mut self, is_continuous: bool, from: SystemTime) -> String {
        MediaId::new(kind_of(is_continuous), from).to_string()
    }

    fn begin(&mut self, label: &ClipLabel, from: SystemTime) -> Result<Pending, StoreError> {
        let item = NewItem {
            id: MediaId::parse(&label.id),
            label: label.label.clone(),
            tracks: label.tracks.clone(),
            ..NewItem::new(kind_of(label.is_continuous), &label.source, from)
        };
        Ok(self.archive.begin(item)?)
    }

    fn finish(
        &mut self,
        label: &ClipLabel,
        mut file: Pending,
        facts: &ClipFacts,
    ) -> Result<String, StoreError> {
        file.set_tracks(&label.tracks)?;
        let item = file.finish(Finish::complete(facts.to))?;
        Ok(item.path.display().to_string())
    }
}
