// SPDX-License-Identifier: Apache-2.0
//! A `launch:` fragment as the first half of a pipeline.
//!
//! The fragment is parsed into a bin as `gst-launch-1.0` parses it, so that what waits there for a demuxer's pads is linked by
//! GStreamer. Its video is what is left open: a pad that no element of the fragment takes, or, where there is none, the first
//! video that a demuxer or `decodebin` adds. It is linked to jetwatch's `decodebin`, which decodes it if necessary.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use crate::SourceError;
use crate::elements::{creation_lock, make, sink_kind};

use super::decode::media_type;
use super::diagnostics::SessionDiagnostics;
use super::introspect::{sink_pad_of, upstream_pad};
use super::launch_line;
use super::messages::without_secrets;

/// Limit of elements between an open end and the pad that waits for a demuxer, above any fragment.
const MAX_WALK: usize = 200;

/// Media type of packets; a field states what they carry.
const RTP: &str = "application/x-rtp";

/// A parsed fragment in a pipeline.
pub(super) struct LaunchBin {
    /// Sink pad of the `decodebin` that takes the video.
    input: gst::Pad,
    diagnostics: Arc<SessionDiagnostics>,
    /// Sink pads of the fragment that wait for a demuxer.
    waiting: Vec<gst::Pad>,
    /// The pad of `waiting` whose data reach the only open end.
    entry: Option<gst::Pad>,
    /// `entry`, once sound was taken away from it, and video that came before that.
    exchange: Mutex<Exchange>,
    /// Whether video of a demuxer is taken that no element of the fragment takes.
    takes_unlinked: bool,
    /// Video was linked to `input`.
    is_taken: AtomicBool,
    /// Open ends whose media are not known yet.
    undecided: AtomicUsize,
    /// Demuxers that may add pads still.
    pending: AtomicUsize,
    /// Pads that demuxers have added: element and media type.
    streams: Mutex<Vec<(String, String)>>,
}

/// A place for video and video for it, whichever comes first.
#[derive(Default)]
struct Exchange {
    entry: Option<gst::Pad>,
    video: Option<gst::Pad>,
}

/// Adds `fragment` to `pipeline` and connects its video to the sink pad of `decode`.
///
/// # Errors
/// It cannot be parsed, or nothing of it can be video.
pub(super) fn add(
    pipeline: &gst::Pipeline,
    fragment: &str,
    decode: &gst::Element,
    diagnostics: &Arc<SessionDiagnostics>,
) -> Result<Arc<LaunchBin>, SourceError> {
    let text = launch_line::with_open_end(fragment, &sink_kind);
    let parsed = {
        let _one_at_a_time = creation_lock();
        gst::parse::bin_from_description(&text, false)
    };
    let bin = parsed.map_err(|error| SourceError::Launch(without_value(error.message())))?;
    pipeline
        .add(&bin)
        .map_err(|error| SourceError::Build(error.to_string()))?;
    let input = decode
        .static_pad("sink")
        .ok_or_else(|| SourceError::Build("decodebin has no sink pad".to_owned()))?;

    let elements = elements_of(&bin);
    let demuxers: Vec<&gst::Element> = elements.iter().filter(|e| adds_pads(e)).collect();
    let unlinked = |pads: Vec<gst::Pad>| pads.into_iter().filter(|pad| !pad.is_linked());
    // An element with another input, such as a text overlay, needs not have all.
    let waits = |element: &&gst::Element| element.sink_pads().iter().all(|pad| !pad.is_linked());
    let waiting: Vec<gst::Pad> = elements
        .iter()
        .filter(waits)
        .flat_map(|element| element.sink_pads())
        .collect();
    if let (Some(pad), []) = (waiting.first(), demuxers.as_slice()) {
        return Err(SourceError::Launch(format!(
            "{} has no input",
            owner_of(pad)
        )));
    }
    let open = elements
        .iter()
        .flat_map(|element| unlinked(element.src_pads()));
    let (open, never_video): (Vec<_>, Vec<_>) = open.partition(may_be_video);
    if open.is_empty() && demuxers.is_empty() {
        return Err(SourceError::Launch(match never_video.first() {
            Some(pad) => format!("it ends in {} of {}", media_type(pad), owner_of(pad)),
            None => "no free source pad".to_owned(),
        }));
    }
    let entry = match open.as_slice() {
        [pad] => waiting_before(pad).filter(|sink| waiting.contains(sink)),
        _ => None,
    };
    let launch = Arc::new(LaunchBin {
        input,
        diagnostics: Arc::clone(diagnostics),
        waiting,
        entry,
        exchange: Mutex::default(),
        takes_unlinked: open.is_empty(),
        is_taken: AtomicBool::new(false),
        undecided: AtomicUsize::new(open.len()),
        pending: AtomicUsize::new(demuxers.len()),
        streams: Mutex::default(),
    });
    for pad in &never_video {
        discard(pad)?;
    }
    for pad in &open {
        launch.watch(pad);
    }
    if let [pad] = open.as_slice() {
        // At once, so that caps are negotiated with what follows.
        pad.link_maybe_ghosting(&launch.input)
            .map_err(|error| SourceError::Launch(error.to_string()))?;
    }
    for demuxer in demuxers {
        let ends = Arc::downgrade(&launch);
        demuxer.connect_no_more_pads(move |demuxer| {
            if let Some(launch) = ends.upgrade()
                && launch.pending.fetch_sub(1, Ordering::AcqRel) == 1
                && let Some(reason) = launch.failure(false)
            {
                launch.end(demuxer, reason);
            }
        });
        let launch = Arc::downgrade(&launch);
        // After GStreamer's handlers, which the parser has connected: what they link is linked here.
        demuxer.connect_pad_added(move |demuxer, pad| {
            if let Some(launch) = launch.upgrade()
                && pad.direction() == gst::PadDirection::Src
            {
                launch.on_pad_added(demuxer, pad);
            }
        });
    }
    Ok(launch)
}

impl LaunchBin {
    /// Why no video has arrived, as far as the fragment is the reason; `None`: it has, or something else is the reason. Before the
    /// end of the session, branches that have got nothing yet are no reason where others are open.
    pub(super) fn failure(&self, at_end: bool) -> Option<String> {
        if self.is_taken.load(Ordering::Acquire) {
            return None;
        }
        let streams = self.streams.lock();
        if streams.is_empty() {
            return None;
        }
        let mut found = String::new();
        for (index, (element, media)) in streams.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            let _ = write!(found, "{comma}{media} of {element}");
        }
        let is_certain = at_end || self.takes_unlinked || self.entry.is_some();
        let has_video = streams.iter().any(|(_, media)| is_video(media));
        if is_certain && !has_video {
            return Some(no_video(&found));
        }
        let unlinked = match &self.entry {
            Some(entry) => Some(entry).filter(|pad| !pad.is_linked()),
            None if self.takes_unlinked || !at_end => None,
            None => self.waiting.iter().find(|pad| !pad.is_linked()),
        };
        unlinked.map(|pad| {
            format!(
                "launch fragment: {} got no stream that it accepts (found: {found}); put an element before it that accepts one of \
                 these, or leave it out: encoded video is decoded",
                owner_of(pad)
            )
        })
    }

    /// Decides what an open end is by its first caps: video is linked, everything else is discarded.
    fn watch(self: &Arc<Self>, pad: &gst::Pad) {
        let launch = Arc::downgrade(self);
        let is_decided = AtomicBool::new(false);
        pad.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |pad, info| {
            let media = match info.event().map(|event| event.view()) {
                Some(gst::EventView::Caps(event)) => Some(name_of(event.caps())),
                // Bytes of a file have no caps, which come before the segment: decodebin finds out what they are.
                Some(gst::EventView::Segment(_)) => Some("unknown".to_owned()),
                _ => None,
            };
            if let (Some(media), Some(launch)) = (media, launch.upgrade())
                && !is_decided.swap(true, Ordering::AcqRel)
            {
                launch.decide(pad, media);
            }
            gst::PadProbeReturn::Ok
        });
    }

    fn decide(&self, pad: &gst::Pad, media: String) {
        let is_last = self.undecided.fetch_sub(1, Ordering::AcqRel) == 1;
        let linked = if !is_video(&media) {
            self.diagnostics.add_other_stream(media);
            match pad.is_linked() {
                true => Ok(()),
                false => discard(pad).map_err(|error| error.to_string()),
            }
        } else if self.is_taken.swap(true, Ordering::AcqRel) {
            discard(pad).map_err(|error| error.to_string())
        } else if pad.is_linked() {
            Ok(())
        } else {
            pad.link_maybe_ghosting(&self.input)
                .map_err(|error| error.to_string())
        };
        let problem = linked.err().or_else(|| {
            let has_none = is_last && !self.is_taken.load(Ordering::Acquire);
            has_none.then(|| no_video(&self.diagnostics.other_streams().join(", ")))
        });
        if let (Some(reason), Some(element)) = (problem, pad.parent_element()) {
            self.end(&element, reason);
        }
    }

    /// Handles a pad that a demuxer has added, after GStreamer has linked what waited for it.
    fn on_pad_added(&self, demuxer: &gst::Element, pad: &gst::Pad) {
        let media = media_of(pad);
        self.streams
            .lock()
            .push((demuxer.name().to_string(), media.clone()));
        let mut exchange = self.exchange.lock();
        let mut target = None;
        if let Some(peer) = pad.peer() {
            // An element that accepts anything, such as a queue, got the sound, and not the video of the same demuxer.
            if is_video(&media) || self.entry.as_ref() != Some(&peer) || pad.unlink(&peer).is_err()
            {
                return;
            }
            exchange.entry = Some(peer);
        } else if !is_video(&media) {
            self.diagnostics.add_other_stream(media);
            return;
        } else if !self.takes_unlinked {
            exchange.video.get_or_insert_with(|| pad.clone());
        } else if !self.is_taken.swap(true, Ordering::AcqRel) {
            target = Some((pad.clone(), self.input.clone()));
        }
        if exchange.entry.is_some() && exchange.video.is_some() {
            target = exchange.video.take().zip(exchange.entry.take());
        }
        drop(exchange);
        if let Some((video, target)) = target
            && let Err(error) = video.link_maybe_ghosting(&target)
        {
            let name = demuxer.name();
            self.end(
                demuxer,
                format!("launch fragment: video of {name}: {error}"),
            );
        }
    }

    /// Ends the session with an error of jetwatch.
    fn end(&self, element: &gst::Element, reason: String) {
        self.diagnostics.reject(reason.clone());
        gst::element_error!(element, gst::CoreError::Negotiation, ("{reason}"));
    }
}

/// The elements that the fragment names, in its order, also in its bins in parentheses; what elements consist of is theirs.
fn elements_of(bin: &gst::Bin) -> Vec<gst::Element> {
    let mut found = Vec::new();
    for element in bin.children().into_iter().rev() {
        let is_plain_bin = element
            .factory()
            .is_some_and(|factory| factory.name() == "bin");
        match element.downcast_ref::<gst::Bin>() {
            Some(inner) if is_plain_bin => found.extend(elements_of(inner)),
            _ => found.push(element),
        }
    }
    found
}

/// Whether source pads of an element come and go with the media.
fn adds_pads(element: &gst::Element) -> bool {
    element.pad_template_list().iter().any(|template| {
        template.direction() == gst::PadDirection::Src
            && template.presence() == gst::PadPresence::Sometimes
    })
}

/// Whether a pad that is not running yet can give anything but sound and text.
fn may_be_video(pad: &gst::Pad) -> bool {
    let caps = pad.query_caps(None);
    caps.is_any() || caps.is_empty() || caps.iter().any(|structure| is_video(structure.name()))
}

/// The unlinked sink pad from which data reach `pad` through elements of the fragment.
fn waiting_before(pad: &gst::Pad) -> Option<gst::Pad> {
    let mut from = pad.clone();
    for _ in 0..MAX_WALK {
        let element = from.parent_element()?;
        let sink = sink_pad_of(&from, &element)?;
        if !sink.is_linked() {
            return Some(sink);
        }
        from = upstream_pad(&sink)?;
    }
    None
}

/// An error of a launch line without the value of a property that cannot be set, which may be a secret.
fn without_value(error: &str) -> String {
    let end = error
        .find("\" to \"")
        .map_or(error.len(), |quote| quote + 1);
    without_secrets(error[..end].to_owned())
}

/// Links a pad to an element that discards its data: an element that cannot give them to anyone would end with an error.
fn discard(pad: &gst::Pad) -> Result<(), SourceError> {
    let build_error = |error: gst::glib::BoolError| SourceError::Build(error.to_string());
    let element = pad.parent_element();
    let bin = element
        .and_then(|element| element.parent())
        .and_then(|parent| parent.downcast::<gst::Bin>().ok());
    let bin = bin.ok_or_else(|| SourceError::Build("a pad has no bin".to_owned()))?;
    let name = format!("discard-{}-{}", owner_of(pad), pad.name());
    let sink = make("fakesink", &name)?;
    sink.set_property("sync", false);
    sink.set_property("async", false);
    bin.add(&sink).map_err(build_error)?;
    sink.sync_state_with_parent().map_err(build_error)?;
    let input = sink
        .static_pad("sink")
        .ok_or_else(|| SourceError::Build("fakesink has no sink pad".to_owned()))?;
    pad.link(&input)
        .map(|_| ())
        .map_err(|error| SourceError::Build(format!("{}: {error}", owner_of(pad))))
}

/// The media type of a pad; of packets of RTP, what they carry.
fn media_of(pad: &gst::Pad) -> String {
    let caps = pad.current_caps().unwrap_or_else(|| pad.query_caps(None));
    name_of(&caps)
}

fn name_of(caps: &gst::CapsRef) -> String {
    let Some(structure) = caps.structure(0).filter(|_| !caps.is_any()) else {
        return "unknown".to_owned();
    };
    let packets = (structure.name() == RTP)
        .then(|| structure.get::<String>("media").ok())
        .flatten();
    packets.map_or_else(
        || structure.name().to_string(),
        |media| format!("{media} in {RTP}"),
    )
}

/// Whether media of this type may be video: everything but sound, text and other data beside it.
fn is_video(media: &str) -> bool {
    const OTHERS: [&str; 11] = [
        "audio/",
        "audio in",
        "text/",
        "subpicture/",
        "closedcaption/",
        "meta/",
        "application in",
        "application/x-rtcp",
        "application/x-ssa",
        "application/x-ass",
        "application/x-kate",
    ];
    !OTHERS.iter().any(|other| media.starts_with(other))
}

fn no_video(found: &str) -> String {
    format!(
        "launch fragment: it has no video (found: {found}); it must end in raw or encoded video"
    )
}

fn owner_of(pad: &gst::Pad) -> String {
    pad.parent_element().map_or_else(
        || "an element".to_owned(),
        |element| element.name().to_string(),
    )
}
