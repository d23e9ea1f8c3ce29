// SPDX-License-Identifier: Apache-2.0
//! A message from the encoder to the socket, and what is known of it beside its bytes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use jetwatch_spool::Class;
use jetwatch_types::{EventKind, TrackId};

use super::wall_clock::shifted;
use crate::{Publication, Reply};

/// Time for which the picture of a track is kept for a subscriber that is away.
const TRACK_PICTURE_EXPIRY_S: u32 = 3600;

/// A topic, its payload, and how it is queued.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub topic: Arc<str>,
    pub payload: Bytes,
    /// MQTT 5: correlation data of the request to which this is the response.
    pub correlation: Option<Box<[u8]>>,
    /// MQTT 5: seconds after which the broker drops it from the queue of a subscriber that is away; `None`: as its number says.
    pub expires_in_s: Option<u32>,
    pub importance: Importance,
    /// `None`: it is not numbered.
    pub tag: Option<Tag>,
}

impl Message {
    /// An essential message without a number.
    pub fn new(topic: Arc<str>, payload: Bytes) -> Self {
        Self {
            topic,
            payload,
            correlation: None,
            expires_in_s: None,
            importance: Importance::Essential,
            tag: None,
        }
    }

    /// The same with a number.
    pub fn tagged(self, tag: Tag) -> Self {
        Self {
            importance: match tag.class {
                Class::Update => Importance::Update,
                _ => Importance::Essential,
            },
            tag: Some(tag),
            ..self
        }
    }
}

/// Whether another message makes this one dispensable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Importance {
    /// An update of a track: dropped first when the queue is full.
    Update,
    /// Begin and end of a track, and all others: no later message says it again.
    Essential,
}

/// What the spool knows of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    /// Its number.
    pub seq: u64,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: u64,
    /// Stands for its track.
    pub track: u64,
    pub class: Class,
    /// It is in the log.
    pub is_stored: bool,
}

impl Tag {
    /// The same with another time.
    pub fn shifted(self, ms: i64) -> Self {
        Self {
            at_ms: shifted(self.at_ms, ms),
            ..self
        }
    }
}

/// `sent`, the reply on the topic of replies, once more for the response topic of its command.
pub(super) fn response(reply: &Reply, sent: Option<&Message>) -> Option<Message> {
    let (to, sent) = (reply.reply_to.as_ref()?, sent?);
    Some(Message {
        topic: to.topic.as_str().into(),
        correlation: to.correlation.clone(),
        ..sent.clone()
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
        is_stored: false,
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
