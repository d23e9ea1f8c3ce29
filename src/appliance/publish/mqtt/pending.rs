// SPDX-License-Identifier: Apache-2.0
//! Messages of one publication, between the encoder and the queues.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::outbox::{Importance, Message, Tag};
use crate::{Publication, Reply};
use jetwatch_spool::Class;
use jetwatch_types::{EventKind, TrackId};

/// Time for which the picture of a track is kept for a subscriber that is away.
const TRACK_PICTURE_EXPIRY_S: u32 = 3600;

/// A message that is to be queued.
#[derive(Debug)]
pub(super) struct Pending {
    pub message: Message,
    pub importance: Importance,
    /// `None`: it is not numbered.
    pub tag: Option<Tag>,
}

/// `sent`, the reply on the topic of replies, once more for the response topic of its command.
pub(super) fn response(reply: &Reply, sent: Option<&Pending>) -> Option<Pending> {
    let (to, sent) = (reply.reply_to.as_ref()?, sent?);
    Some(Pending {
        message: Message {
            topic: to.topic.as_str().into(),
            payload: sent.message.payload.clone(),
            correlation: to.correlation.clone(),
            expires_in_s: None,
        },
        importance: sent.importance,
        tag: None,
    })
}

/// Seconds after which the broker drops a message without a number that waits for a subscriber.
pub(super) fn expires_in_s(record: &Publication<'_>) -> Option<u32> {
    let is_of_track = matches!(record, Publication::Snapshot { track: Some(_), .. });
    is_of_track.then_some(TRACK_PICTURE_EXPIRY_S)
}

/// What the spool has to know of the messages of `record`, numbered from `first_seq` on; nothing for messages without a number.
pub(super) fn tags_of(record: &Publication<'_>, first_seq: u64, at_ms: u64) -> Vec<Tag> {
    let tag = |class, track| Tag {
        seq: 0,
        at_ms,
        track,
        class,
    };
    let track_of = |source: &str, track: Option<TrackId>| {
        let mut hasher = DefaultHasher::new();
        (source, track.map(|track| track.0)).hash(&mut hasher);
        hasher.finish()
    };
    let tags: Vec<Tag> = match record {
        Publication::Events { source, events, .. } => events
            .iter()
            .map(|event| {
                let class = match event.kind {
                    EventKind::New => Class::New,
                    EventKind::Update => Class::Update,
                    EventKind::End => Class::End,
                };
                tag(class, track_of(source, Some(event.after.id)))
            })
            .collect(),
        Publication::Analytics { source, events, .. } => events
            .iter()
            .map(|message| tag(Class::Analytics, track_of(source, message.event.track)))
            .collect(),
        _ => Vec::new(),
    };
    let numbered = (first_seq..).zip(tags);
    numbered.map(|(seq, tag)| Tag { seq, ..tag }).collect()
}
