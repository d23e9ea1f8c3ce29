// SPDX-License-Identifier: Apache-2.0
//! Which of several video tracks is taken: the one that `track` names, else the one that looks like the video, not a cover or a preview.
//! Called by [`decode`](super::decode).

use std::cmp::Reverse;
use std::sync::Arc;

use gstreamer as gst;
use gstreamer::glib;
use gstreamer::prelude::*;
use parking_lot::Mutex;

/// Least rate of a video, in frames per second; previews and covers have less.
const MIN_FPS: f64 = 2.0;

/// The tracks that a `decodebin` finds, in their order.
#[derive(Default)]
pub(super) struct Tracks {
    /// The number of `track`.
    chosen: Option<u32>,
    found: Mutex<Vec<Track>>,
}

#[derive(Clone)]
struct Track {
    /// Of its stream.
    id: glib::GString,
    /// Of the encoded stream, as far as they are known.
    caps: gst::Caps,
    /// Where it leaves the demuxer.
    pad: glib::WeakRef<gst::Pad>,
}

/// What is taken, and what is said of it.
pub(super) struct Choice {
    pub(super) pad: gst::Pad,
    /// `None`: there is one track only.
    pub(super) note: Option<String>,
}

impl Tracks {
    pub(super) fn new(chosen: Option<u32>) -> Arc<Self> {
        Arc::new(Self {
            chosen,
            ..Self::default()
        })
    }

    /// Notes the streams that `decode` finds.
    pub(super) fn observe(self: &Arc<Self>, decode: &gst::Element) {
        let tracks = Arc::clone(self);
        decode.connect("autoplug-continue", false, move |values| {
            let pad = values.get(1).and_then(|pad| pad.get::<gst::Pad>().ok());
            let caps = values.get(2).and_then(|caps| caps.get::<gst::Caps>().ok());
            if let (Some(pad), Some(caps)) = (pad, caps) {
                tracks.add(&pad, caps);
            }
            // What `decodebin` does with it stays its own matter.
            Some(true.to_value())
        });
    }

    fn add(&self, pad: &gst::Pad, caps: gst::Caps) {
        let Some(id) = pad.stream_id() else { return };
        let mut found = self.found.lock();
        let is_raw = caps
            .structure(0)
            .is_some_and(|it| it.name() == "video/x-raw");
        match found.iter_mut().find(|track| track.id == id) {
            Some(_) if is_raw => {}
            Some(track) => track.caps = caps,
            None => found.push(Track {
                id,
                caps,
                pad: pad.downgrade(),
            }),
        }
    }

    /// Which of `pads`, the video pads of one `decodebin`, is taken. The others are not decoded any more.
    ///
    /// # Errors
    /// `track` names none of them.
    pub(super) fn choose(&self, pads: &[gst::Pad]) -> Result<Option<Choice>, String> {
        if pads.is_empty() {
            return Ok(None);
        }
        let mut tracks: Vec<(usize, &gst::Pad, Option<Track>)> = pads
            .iter()
            .map(|pad| {
                let id = pad.stream_id();
                let found = self.found.lock();
                let at = found
                    .iter()
                    .position(|track| Some(&track.id) == id.as_ref());
                let track = at.map(|at| found[at].clone());
                (at.unwrap_or(usize::MAX), pad, track)
            })
            .collect();
        tracks.sort_by_key(|(at, ..)| *at);
        let looks: Vec<Look> = tracks
            .iter()
            .map(|(_, pad, track)| Look::of(pad, track.as_ref()))
            .collect();
        let list = || {
            let list = looks.iter().enumerate();
            let list: Vec<String> = list.map(|(at, look)| format!("{at}: {look}")).collect();
            list.join("; ")
        };
        let taken = match self.chosen {
            Some(number) => number as usize,
            None => {
                let best = (0..looks.len()).max_by_key(|at| (looks[*at].rank(), Reverse(*at)));
                best.unwrap_or(0)
            }
        };
        let Some((_, pad, _)) = tracks.get(taken) else {
            return Err(format!(
                "track is {taken}, but the media has these video tracks: {}",
                list()
            ));
        };
        for (at, (_, _, track)) in tracks.iter().enumerate() {
            let pad = track.as_ref().and_then(|track| track.pad.upgrade());
            if let Some(pad) = pad.filter(|_| at != taken) {
                let data = gst::PadProbeType::BUFFER | gst::PadProbeType::BUFFER_LIST;
                pad.add_probe(data, |_, _| gst::PadProbeReturn::Drop);
            }
        }
        let note = (tracks.len() > 1).then(|| {
            let set = match self.chosen {
                Some(_) => "as set by track",
                None => "to take another, set track",
            };
            format!(
                "takes video track {taken}, {set}; the tracks are {}",
                list()
            )
        });
        Ok(Some(Choice {
            pad: (*pad).clone(),
            note,
        }))
    }
}

/// What a track looks like.
#[derive(Debug, Clone, PartialEq)]
struct Look {
    codec: String,
    size: Option<(i32, i32)>,
    /// In frames per second; `None`: it varies.
    fps: Option<f64>,
}

impl Look {
    fn of(pad: &gst::Pad, track: Option<&Track>) -> Self {
        let raw = pad.current_caps();
        let all = [track.map(|track| track.caps.clone()), raw];
        let fields: Vec<&gst::StructureRef> = all
            .iter()
            .flatten()
            .filter_map(|caps| caps.structure(0))
            .collect();
        let number = |name| fields.iter().find_map(|it| it.get::<i32>(name).ok());
        let rate = fields
            .iter()
            .find_map(|it| it.get::<gst::Fraction>("framerate").ok());
        let codec = fields.first().map_or("unknown", |it| it.name().as_str());
        let codec = codec
            .trim_start_matches("video/")
            .trim_start_matches("image/");
        Self {
            codec: codec.trim_start_matches("x-").to_owned(),
            size: number("width").zip(number("height")),
            fps: rate
                .filter(|rate| rate.numer() > 0)
                .map(|rate| f64::from(rate.numer()) / f64::from(rate.denom())),
        }
    }

    /// The greatest is the video.
    fn rank(&self) -> (bool, bool, i64) {
        let is_video = !matches!(self.codec.as_str(), "jpeg" | "png" | "bmp" | "gif");
        let is_moving = self.fps.is_none_or(|fps| fps >= MIN_FPS);
        let area = self
            .size
            .map_or(0, |(width, height)| i64::from(width) * i64::from(height));
        (is_video, is_moving, area)
    }
}

impl std::fmt::Display for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.codec)?;
        if let Some((width, height)) = self.size {
            write!(f, " {width}×{height}")?;
        }
        match self.fps {
            Some(fps) => write!(f, " {fps:.3} frames/s"),
            None => f.write_str(" variable rate"),
        }
    }
}
