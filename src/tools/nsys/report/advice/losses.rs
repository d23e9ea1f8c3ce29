// SPDX-License-Identifier: Apache-2.0
//! Rules about what is lost. They come first: a pipeline that loses messages is not well, however fast its stages are.

use jetwatch_telemetry::{OutputReport, Stage, thread_names};

use super::limits::{SECONDARY_ADVICE, SECONDARY_KEYS};
use super::{Cause, Rule, percent, rule};
use crate::report::metrics::CaptureMetrics;

/// Share of its messages that still wait at the end of a run, from which an output falls behind.
const BEHIND: f64 = 0.1;

/// Fewer waiting messages say nothing.
const MIN_WAITING: u64 = 20;

/// An output, by the names of its threads, and what is said where it loses something.
pub(super) struct OutputLoss {
    threads: &'static [&'static str],
    text: &'static str,
}

impl OutputLoss {
    /// The finding and its evidence; `None` where nothing is lost and nothing piles up.
    pub(super) fn evaluate(&self, metrics: &CaptureMetrics) -> Option<(String, String)> {
        let run = &metrics.run;
        let is_own = |output: &&OutputReport| {
            let thread = output.name.split_whitespace().next().unwrap_or_default();
            self.threads.contains(&thread)
        };
        let own = || run.outputs.iter().filter(is_own);
        let is_behind = |output: &&OutputReport| {
            let limit = (output.accepted as f64 * BEHIND).max(MIN_WAITING as f64);
            output.queued as f64 > limit
        };
        let lost = own().filter(|output| output.lost > 0);
        let (found, text) = match lost.max_by_key(|output| output.lost) {
            Some(output) => (output, self.text.to_owned()),
            None => {
                let behind = own().filter(is_behind).max_by_key(|output| output.queued)?;
                let text = format!(
                    "{} falls behind: what it is given waits longer and longer",
                    behind.name
                );
                (behind, text)
            }
        };
        let of_all = match found.accepted {
            0 => String::new(),
            all => format!(" of {all}"),
        };
        let busy = found.busy_ms / (run.duration_s.max(1e-3) * 1e3);
        Some((
            text,
            format!(
                "{} lost {}{of_all} {}; {} waited at the end of the run, {} at most; it was at work, or held by its receiver, for {} of the time",
                found.name,
                found.lost,
                found.items,
                found.queued,
                found.max_queued.max(found.queued),
                percent(busy.min(1.0))
            ),
        ))
    }
}

/// The rule about one output.
const fn lost(
    name: &'static str,
    threads: &'static [&'static str],
    text: &'static str,
    advice: &'static str,
    keys: &'static str,
) -> Rule {
    let cause = Cause::Lost(OutputLoss { threads, text });
    rule(name, &[], advice, keys, cause)
}

/// Threads that publish to MQTT brokers.
const MQTT: &[&str] = &[
    thread_names::MQTT,
    thread_names::MQTT_STATES,
    thread_names::MQTT_FRIGATE,
    thread_names::MQTT_DEEPSTREAM,
    thread_names::SPOOL,
];

/// Rules about losses: outputs, frames, crops.
#[rustfmt::skip]
pub(super) const LOSSES: &[Rule] = &[
    lost("messages_lost", MQTT, "messages are lost on the way to the MQTT broker",
        "the broker or the network to it is too slow, or away: see its log and `jetwatch doctor`; let a spool keep messages meanwhile, and publish less often",
        "publish.mqtt.spool publish.mqtt.queue_messages publish.update_interval_ms publish.detections"),
    lost("lines_lost", &[thread_names::JSON_LINES], "JSON lines are lost: their reader or their disk is too slow",
        "read the pipe faster, write to a faster disk, or publish less often",
        "publish.json_lines.path publish.update_interval_ms publish.detections"),
    lost("webhook_events_lost", &[thread_names::WEBHOOK], "events for a webhook are lost: its endpoint is too slow, or refuses them",
        "make the endpoint answer faster, choose fewer events for it, or keep them longer in its spool",
        "publish.webhooks[].events publish.webhooks[].timeout_s publish.webhooks[].spool"),
    lost("recorded_frames_lost", &[thread_names::RECORD], "frames are missing in the recording: drawing and encoding are too slow",
        "record fewer sources, make the images smaller at the camera, or encode in hardware",
        "sources sources[].uri").in_hardware("record fewer sources, or make the images smaller at the camera"),
    lost("clip_images_lost", &[thread_names::MEDIA], "images are missing in clips: the disk is too slow",
        "write to a faster disk, or record fewer sources",
        "record.folder record.clips record.continuous"),
    lost("snapshots_left_out", &[thread_names::SNAPSHOT], "better pictures of tracks are left out: encoding them is too slow",
        "make the pictures smaller or less fine, or take pictures of fewer sources and labels",
        "record.snapshots.max_width record.snapshots.quality record.snapshots.labels sources[].snapshots"),
    lost("page_pictures_left_out", &[thread_names::WEB_PICTURES], "pictures of the page are left out: drawing and encoding them is too slow",
        "give the page smaller pictures, or fewer of them a second",
        "web.preview.max_width web.preview.max_fps"),
    rule("frames_dropped", &[],
        "the limiting stage says why; where it cannot be faster, skip frames evenly instead", "detector.interval sources[].max_fps",
        Cause::Found("frames of live sources are dropped: the pipeline does not keep up", |metrics| {
            let run = &metrics.run;
            let most = run.sources.iter().max_by_key(|source| source.dropped);
            run.drops_frames().then(|| {
                let all = run.frames + run.dropped;
                let most = most.filter(|source| source.dropped > 0);
                let most = most.map_or_else(String::new, |source| {
                    format!(", most of them from {} ({})", source.name, source.dropped)
                });
                format!("newer frames replaced {} of {all} ({}){most}", run.dropped, percent(run.dropped as f64 / all as f64))
            })
        })),
    rule("frames_late", &[Stage::Input], "decode in hardware, give the decoder more threads, or play the file more slowly",
        "sources[].decoder sources[].decoder_threads sources[].playback_fps",
        Cause::Varies(|metrics| {
            let late = Some(metrics.run.late()).filter(|late| *late > 0)?;
            let text = format!("decoding: {late} frames could not be given in time");
            Some((text, "a file that is played at a pace was behind it".to_owned()))
        })),
    rule("crops_dropped", &[Stage::Secondary], SECONDARY_ADVICE, SECONDARY_KEYS,
        Cause::Varies(|metrics| {
            let networks = metrics.run.secondary.iter().filter(|network| network.drops());
            let worst = networks.max_by(|a, b| a.dropped_crops.total_cmp(&b.dropped_crops))?;
            Some((
                format!("crops for {} are dropped: objects go without its result", worst.name),
                format!("its queue was full for {} of {} crops", worst.dropped_crops, worst.crops + worst.dropped_crops),
            ))
        })),
];
