// SPDX-License-Identifier: Apache-2.0
//! Messages in the shapes of other systems, beside our own: [`FrigateFormat`] and [`DeepStreamFormat`].
//!
//! A [`Format`] is pure: publications in, messages out, with the state that its shape needs. `mqtt/format_sink.rs` publishes the
//! messages, over a connection of its own. The shapes are described by `configs/frigate-*.schema.json` and
//! `configs/deepstream-*.schema.json`, which are written by hand from the documentation of these systems.

mod deepstream;
mod frigate;
mod identity;

use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use self::deepstream::DeepStreamFormat;
use self::frigate::FrigateFormat;
use super::{Publication, SourceInfo};
use jetwatch_config::{FormatConfig, FormatKind};
use jetwatch_types::Classes;

/// A message in the shape of another system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatMessage {
    /// Its topic.
    pub topic: Arc<str>,
    /// What is published.
    pub payload: Vec<u8>,
    /// How it is delivered.
    pub delivery: FormatDelivery,
}

/// How a message is delivered. None is retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatDelivery {
    /// QoS 1; it waits while the broker is away.
    Event,
    /// The same, and dropped before others when too many wait.
    Update,
    /// QoS 1; only the newest of its topic waits, and each connection begins with it.
    Latest,
    /// As an update, and the last one of a topic of [`Latest`](Self::Latest).
    Last,
    /// QoS 0; dropped while the broker is away.
    BestEffort,
}

/// The shape of another system.
pub trait Format: Send {
    /// A source was added.
    fn source_added(&mut self, source: &SourceInfo, out: &mut Vec<FormatMessage>);

    /// A source was removed; all of its tracks have ended.
    fn source_removed(&mut self, source: &str, now: SystemTime, out: &mut Vec<FormatMessage>);

    /// Appends the messages of `record` to `out`, and those that are due at `now`.
    fn encode(&mut self, record: &Publication<'_>, now: SystemTime, out: &mut Vec<FormatMessage>);

    /// The daemon ends: what is open ends.
    fn finish(&mut self, now: SystemTime, out: &mut Vec<FormatMessage>);

    /// Whether it needs the tracks of each frame.
    fn needs_frames(&self) -> bool {
        false
    }

    /// A topic that has `online` while the client is connected, `offline` as its last will and `stopped` after a clean end.
    fn availability(&self) -> Option<Arc<str>> {
        None
    }
}

/// The shape that `config` asks for. `version` is that of the program.
#[must_use]
pub fn format_of(
    config: &FormatConfig,
    device: &str,
    classes: &Classes,
    version: &str,
) -> Box<dyn Format> {
    match config.format {
        FormatKind::Frigate => Box::new(FrigateFormat::new(config, device, classes, version)),
        FormatKind::DeepStream => Box::new(DeepStreamFormat::new(config, device, classes, version)),
    }
}

/// `body` as JSON on one line.
fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("the bodies have text keys, and a Vec takes every byte")
}

/// The label of a class, as in our own messages.
fn label_of(classes: &Classes, class: u16) -> &str {
    classes.label(class).unwrap_or("(class without label)")
}

/// Whether `class` is one of `names`, which are labels or names of groups; no names mean all.
fn is_among(classes: &Classes, names: &[String], class: u16) -> bool {
    names.is_empty() || names.iter().any(|name| classes.includes(name, class))
}

/// How boxes are scaled: from the pixels of the source to those of the size in the configuration.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// Width and height; `None`: those of the source.
    size: Option<(u32, u32)>,
}

impl Scale {
    fn new(config: &FormatConfig) -> Self {
        Self {
            size: config.width.zip(config.height),
        }
    }

    /// Width and height of the image, and the box in it.
    fn apply(
        self,
        source: jetwatch_types::Size,
        xyxy: jetwatch_types::Xyxy,
    ) -> ((u32, u32), [f32; 4]) {
        let (from_w, from_h) = (source.width.max(1), source.height.max(1));
        let (width, height) = self.size.unwrap_or((from_w, from_h));
        let (fx, fy) = (width as f32 / from_w as f32, height as f32 / from_h as f32);
        let [left, top, right, bottom] = xyxy;
        let scaled = [left * fx, top * fy, right * fx, bottom * fy];
        // A number that JSON lacks cannot come from a tracker; a consumer gets 0 all the same.
        let finite = scaled.map(|edge| if edge.is_finite() { edge } else { 0.0 });
        ((width, height), finite)
    }
}

/// A box in whole pixels, inside of its image.
fn whole_pixels((width, height): (u32, u32), xyxy: [f32; 4]) -> [u32; 4] {
    let edge = |value: f32, max: u32| (value.round().max(0.0) as u32).min(max);
    let [left, top, right, bottom] = xyxy;
    [
        edge(left, width),
        edge(top, height),
        edge(right, width),
        edge(bottom, height),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::Size;

    #[test]
    fn boxes_are_scaled_to_the_size_of_the_configuration_and_stay_inside() {
        let source = Size::new(640, 480);
        let whole = Scale { size: None }.apply(source, [10.4, -3.0, 650.0, 470.6]);
        assert_eq!(whole_pixels(whole.0, whole.1), [10, 0, 640, 471]);
        let half = Scale {
            size: Some((320, 120)),
        };
        let (size, xyxy) = half.apply(source, [10.0, 20.0, 110.0, 220.0]);
        assert_eq!((size, xyxy), ((320, 120), [5.0, 5.0, 55.0, 55.0]));
        let (_, xyxy) = half.apply(source, [f32::NAN, 0.0, f32::INFINITY, 1.0]);
        assert_eq!(xyxy, [0.0, 0.0, 0.0, 0.25]);
    }
}
