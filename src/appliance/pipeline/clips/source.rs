// SPDX-License-Identifier: Apache-2.0
//! The clips of one source in the tracking stage: the tracks that qualify, and the commands for the thread that writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use jetwatch_archive::{MediaId, MediaKind};
use jetwatch_config::{ClipTrigger, Config, SourceConfig};
use jetwatch_detect::{ClassFilter, DetectError};
use jetwatch_media::{
    ClipChange, ClipCommand, ClipLabel, ClipMachine, ClipTimes, Mark, SourceStream,
};
use jetwatch_publish::{AnalyticsMessage, track_identity};
use jetwatch_types::{
    AnalyticsEventKind, Classes, EventKind, FrameClock, FrameMeta, TrackEvent, TrackId,
};

use super::service::CommandSender;

/// The clips of one source.
pub(crate) struct SourceClips {
    name: String,
    machine: ClipMachine,
    times: ClipTimes,
    clock: FrameClock,
    /// By class, whether its tracks are recorded.
    classes: Vec<bool>,
    labels: Vec<String>,
    /// Places of the zones in the rules of the source that a track must have entered; empty: none.
    zones: Vec<usize>,
    stream: Arc<SourceStream>,
    commands: CommandSender,
    is_recording: Arc<AtomicBool>,
    /// Identity of the open clip.
    open: Option<String>,
    /// Label of its first track.
    label: Option<String>,
    trigger: ClipTrigger,
    /// The camera reports motion, or has since the last frame.
    in_motion: bool,
    has_moved: bool,
    /// Tracks of the open clip, with the identities of their events.
    tracks: Vec<(TrackId, String)>,
}

impl SourceClips {
    /// The clips of `source`, whose encoded video is in `stream`.
    ///
    /// # Errors
    /// A label that the model does not have.
    pub(super) fn new(
        config: &Config,
        source: &SourceConfig,
        classes: &Classes,
        stream: Arc<SourceStream>,
        commands: CommandSender,
        is_recording: Arc<AtomicBool>,
    ) -> Result<Self, DetectError> {
        let clips = &config.record.clips;
        let records = config.record.has_clips(source);
        let filter = ClassFilter::with_groups(classes, &clips.labels)?;
        let wanted = |name: &String| clips.zones.contains(name);
        let zones = source.rules.zones.iter().enumerate();
        let times = ClipTimes {
            pre_roll: clips.pre_roll,
            post_roll: clips.post_roll,
            max: clips.max,
        };
        Ok(Self {
            name: source.name.clone(),
            machine: ClipMachine::new(times),
            times,
            clock: match source.uri.is_live() {
                true => FrameClock::default(),
                false => FrameClock::with_media_time(),
            },
            classes: (0..)
                .zip(classes.labels())
                .map(|(class, _)| records && filter.accepts(class))
                .collect(),
            labels: classes.labels().to_vec(),
            zones: zones
                .filter(|(_, zone)| wanted(&zone.name))
                .map(|(place, _)| place)
                .collect(),
            stream,
            commands,
            is_recording,
            open: None,
            label: None,
            // A source may be recorded without clips.
            trigger: match records {
                true => config.record.clip_trigger(source),
                false => ClipTrigger::Objects,
            },
            in_motion: false,
            has_moved: false,
            tracks: Vec::new(),
        })
    }

    /// Identity of the clip that is being recorded; `None` also while the store fails.
    pub(crate) fn recording(&self) -> Option<&str> {
        let is_recording = self.is_recording.load(Ordering::Relaxed);
        self.open.as_deref().filter(|_| is_recording)
    }

    /// Processes the events of a frame before they are published.
    pub(crate) fn step<'e>(
        &mut self,
        meta: &FrameMeta,
        events: &[TrackEvent],
        analytics: impl Iterator<Item = &'e AnalyticsMessage>,
    ) {
        let now = self.clock.step(meta);
        if let Some(change) = self.machine.advance(now) {
            self.change(change, meta, Duration::ZERO);
        }
        let in_motion = std::mem::take(&mut self.has_moved) || self.in_motion;
        if self.trigger != ClipTrigger::Objects
            && let Some(change) = self.machine.motion(in_motion, now)
        {
            self.label = None;
            self.change(change, meta, self.times.pre_roll);
        }
        for event in events {
            if event.kind == EventKind::New && self.zones.is_empty() {
                let id = event.after.id;
                self.qualify(
                    meta,
                    now,
                    id,
                    event.after.class,
                    event.started_at,
                    event.duration,
                );
            }
        }
        for message in analytics {
            if let AnalyticsEventKind::ZoneEntered { zone } = message.event.kind
                && self.zones.contains(&zone)
                && let (Some(id), Some(class), Some(started_at)) =
                    (message.event.track, message.event.class, message.started_at)
            {
                self.qualify(meta, now, id, class, started_at, Duration::ZERO);
            }
        }
        for event in events.iter().filter(|event| event.kind == EventKind::End) {
            let lost = event
                .ended_at
                .and_then(|ended| event.frame_at.duration_since(ended).ok());
            let seen = now.saturating_sub(lost.unwrap_or_default());
            self.machine.track_ended(event.after.id, seen);
        }
        self.commands.flush();
    }

    /// The camera reports motion, or its end; the next frame counts as the one of it.
    pub(crate) fn set_motion(&mut self, on: bool) {
        self.in_motion = on;
        self.has_moved |= on;
    }

    /// The frame is processed. A track that is not confirmed yet began `before` it at the earliest.
    pub(crate) fn set_processed(&self, meta: &FrameMeta, before: Duration) {
        let needed = meta.pts.map(|pts| pts.saturating_sub(before));
        self.stream.set_needed(needed);
    }

    /// A track that began `before` this frame is recorded, if its class is.
    fn qualify(
        &mut self,
        meta: &FrameMeta,
        now: Duration,
        track: TrackId,
        class: u16,
        started_at: SystemTime,
        before: Duration,
    ) {
        if !self
            .classes
            .get(usize::from(class))
            .is_some_and(|wanted| *wanted)
            || self.machine.is_live(track)
            || (self.trigger == ClipTrigger::Motion && self.open.is_none())
        {
            return;
        }
        let identity = track_identity(started_at, &self.name, track);
        let change = self.machine.track_qualified(track, now);
        if change.is_none()
            && let Some(clip) = &self.open
        {
            self.commands.send(ClipCommand::Track {
                clip: clip.clone(),
                track: identity.clone(),
            });
        }
        self.tracks.push((track, identity));
        if let Some(change) = change {
            self.label = self.labels.get(usize::from(class)).cloned();
            self.change(change, meta, self.times.pre_roll + before);
        }
    }

    fn change(&mut self, change: ClipChange, meta: &FrameMeta, pre_roll: Duration) {
        let mark = Mark {
            pts: meta.pts,
            captured_at: meta.captured_at,
        };
        if change != ClipChange::Opened {
            self.close(Some(mark));
        }
        if change == ClipChange::Closed {
            return;
        }
        let machine = &self.machine;
        self.tracks.retain(|(track, _)| machine.is_live(*track));
        let id = MediaId::new(MediaKind::Clip, meta.captured_at).to_string();
        self.open = Some(id.clone());
        self.stream.request_clip();
        self.commands.send(ClipCommand::Open {
            label: ClipLabel {
                id,
                is_continuous: false,
                source: self.name.clone(),
                label: self.label.clone(),
                tracks: self.tracks.iter().map(|(_, id)| id.clone()).collect(),
            },
            stream: Arc::clone(&self.stream),
            at: mark,
            pre_roll,
        });
    }

    /// Ends the clip with all tracks: no frame continues those before.
    pub(crate) fn finish(&mut self) {
        if self.machine.finish().is_some() {
            self.close(None);
        }
        self.tracks.clear();
        self.commands.flush();
    }

    fn close(&mut self, at: Option<Mark>) {
        if let Some(clip) = self.open.take() {
            self.commands.send(ClipCommand::Close { clip, at });
        }
    }

    /// The source is removed.
    pub(crate) fn remove(&mut self) {
        self.finish();
        self.commands.send(ClipCommand::Remove {
            source: self.name.clone(),
        });
        self.commands.flush();
    }
}
