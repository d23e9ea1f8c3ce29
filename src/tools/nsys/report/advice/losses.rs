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

/// Share of the time at work below which an output is not too slow: what it is given is refused, or its receiver is away.
const SELDOM_AT_WORK: f64 = 0.5;

/// An output, by the names of its threads, and what is said where it loses something, or falls behind.
pub(super) struct OutputLoss {
    threads: &'static [&'static str],
    /// Whether it is said of an output that is too slow, or of one that is refused; `None`: of both.
    slow: Option<bool>,
    text: &'static str,
}

/// Whether what an output is given waits longer and longer.
fn is_behind(output: &OutputReport) -> bool {
    let limit = (output.accepted as f64 * BEHIND).max(MIN_WAITING as f64);
    output.queued as f64 > limit
}

/// Whether an output loses something, or falls behind.
pub(super) fn limits(metrics: &CaptureMetrics) -> bool {
    let mut outputs = metrics.run.outputs.iter();
    metrics.run.loses() || outputs.any(is_behind)
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
        let lost = own().filter(|output| output.lost > 0);
        let lost = lost.max_by_key(|output| output.lost);
        let behind = own().filter(|output| is_behind(output));
        let found = lost.or_else(|| behind.max_by_key(|output| output.queued))?;
        let busy = found.busy_ms / (run.duration_s.max(1e-3) * 1e3);
        let is_slow = busy >= SELDOM_AT_WORK;
        let text = match found.lost > 0 || self.slow == Some(false) {
            _ if self.slow.is_some_and(|slow| slow != is_slow) => return None,
            true => self.text.to_owned(),
            false => format!(
                "{} falls behind: what it is given waits longer and longer",
                found.name
            ),
        };
        let of_all = match found.accepted {
            0 => String::new(),
            all => format!(" of {all}"),
        };
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

/// The rule about one output that is too slow, refused, or either.
const fn lost(
    name: &'static str,
    threads: &'static [&'static str],
    slow: Option<bool>,
    [text, advice, keys]: [&'static str; 3],
) -> Rule {
    let cause = Cause::Lost(OutputLoss {
        threads,
        slow,
        text,
    });
    rule(name, &[], advice, keys, cause)
}

/// Threads that publish to MQTT brokers.
const MQTT: &[&str] = &[
    thread_names::MQTT,
    thread_names::MQTT_STATES,
    thread_names::MQTT_FRIGATE,
    thread_names::MQTT_DEEPSTREAM,
];

/// Rules about losses: outputs, frames, crops.
#[rustfmt::skip]
pub(super) const LOSSES: &[Rule] = &[
    lost("messages_lost", &[thread_names::SPOOL], None, ["messages are lost: the spool is full, or its disk is",
        "see in the log why messages wait in it; give it more space (max_bytes, max_age) on a disk that has it, and publish less often", "publish.mqtt.spool publish.update_interval_ms publish.detections"]),
    lost("messages_lost", MQTT, Some(true), ["messages are lost on the way to the MQTT broker: it, or the network to it, is too slow",
        "see the log of the broker and `jetwatch doctor`; let a spool keep messages meanwhile, and publish less often", "publish.mqtt.spool publish.mqtt.queue_messages publish.update_interval_ms publish.detections"]),
    lost("messages_lost", MQTT, Some(false), ["messages are lost, or wait: the MQTT broker is away, or refuses them",
        "see its answers in the log, and `jetwatch doctor`; let a spool keep messages meanwhile", "publish.mqtt.broker publish.mqtt.user publish.mqtt.spool publish.mqtt.queue_messages"]),
    lost("lines_lost", &[thread_names::JSON_LINES], Some(true), ["JSON lines are lost: their reader or their disk is too slow",
        "read the pipe faster, write to a faster disk, or publish less often", "publish.json_lines.path publish.update_interval_ms publish.detections"]),
    lost("lines_lost", &[thread_names::JSON_LINES], Some(false), ["JSON lines are lost, or wait: writing them fails",
        "free space on the disk, or start the reader again; the log has the error", "publish.json_lines.path"]),
    lost("webhook_events_lost", &[thread_names::WEBHOOK], Some(true), ["events for a webhook are lost: its endpoint is too slow",
        "make the endpoint answer faster, choose fewer events for it, or keep them longer in its spool", "publish.webhooks[].events publish.webhooks[].timeout_s publish.webhooks[].spool"]),
    lost("webhook_events_lost", &[thread_names::WEBHOOK], Some(false), ["events for a webhook are lost, or wait: its endpoint is away, or refuses them",
        "see its answers in the log, and correct the endpoint or url, headers and secret here", "publish.webhooks[].url publish.webhooks[].headers publish.webhooks[].secret_file"]),
    lost("recorded_frames_lost", &[thread_names::RECORD], Some(true), ["frames are missing in the recording: drawing and encoding are too slow",
        "record fewer sources, make the images smaller at the camera, or encode in hardware", "sources sources[].uri"]).in_hardware("record fewer sources, or make the images smaller at the camera"),
    lost("recorded_frames_lost", &[thread_names::RECORD], Some(false), ["frames are missing in the recording: it has failed, or frames came in bursts",
        "see the log, and whether the disk has space", "sources"]),
    lost("clip_images_lost", &[thread_names::MEDIA], Some(true), ["images are missing in clips: the disk is too slow",
        "write to a faster disk, or record fewer sources", "record.folder record.clips record.continuous"]),
    lost("clip_images_lost", &[thread_names::MEDIA], Some(false), ["images are missing in clips: they could not be written, or not in time",
        "see the log; free space, or change record.retention; play files with playback_fps, and give the program more of the CPU", "record.folder record.retention sources[].playback_fps"]),
    lost("snapshots_left_out", &[thread_names::SNAPSHOT], Some(true), ["better pictures of tracks are left out: encoding them is too slow",
        "make the pictures smaller or less fine, or take pictures of fewer sources and labels", "record.snapshots.max_width record.snapshots.quality record.snapshots.labels sources[].snapshots"]),
    lost("snapshots_left_out", &[thread_names::SNAPSHOT], Some(false), ["pictures of tracks are not kept: they cannot be written",
        "free space, or change record.retention; the log has the error", "record.folder record.retention"]),
    lost("page_pictures_left_out", &[thread_names::WEB_PICTURES], None, ["pictures of the page are left out: drawing and encoding them is too slow",
        "give the page smaller pictures, or fewer of them a second", "web.preview.max_width web.preview.max_fps"]),
    rule("source_lost", &[Stage::Input],
        "see the log, which says why; a network that loses packets needs transport: tcp, a lower bit rate, or another cable",
        "sources[].uri sources[].stall_timeout_ms sources[].reconnect_max_wait_ms",
        Cause::Varies(|metrics| {
            let lost = metrics.run.lost_sources();
            let worst = lost.first()?;
            let (frames, times) = (worst.frames.max(worst.detected), worst.reconnects);
            let text = match frames {
                0 => "a source could not be opened",
                _ if times > 0 => "a source was away: its frames are missing",
                _ => "images of a source are lost on the way",
            };
            let counts = [
                ("times that it was opened again", times),
                ("images that could not be decoded, since something before them was lost", worst.behind_loss),
                ("other sources with losses", lost.len() as u64 - 1),
            ];
            let counts = counts.iter().filter(|(_, count)| *count > 0);
            let counts = counts.map(|(what, count)| format!("; {what}: {count}"));
            let evidence = format!("{} gave {frames} frames in the whole run{}", worst.name, counts.collect::<String>());
            Some((text.to_owned(), evidence))
        })),
    rule("frames_dropped", &[],
        "the limiting stage says why; where it cannot be faster, skip frames evenly instead", "detector.interval sources[].max_fps",
        Cause::Found("frames of live sources are dropped: the pipeline does not keep up", |metrics| {
            let run = &metrics.run;
            let most = run.sources.iter().max_by_key(|source| source.dropped);
            run.drops_frames().then(|| {
                let all = run.frames + run.dropped;
                let most = most.filter(|source| source.dropped > 0 && run.sources.len() > 1);
                let most = most.map_or_else(String::new, |source| {
                    // The counts of sources hold the warm-up.
                    format!(", most of them from {} ({})", source.name, source.dropped.min(run.dropped))
                });
                format!("newer frames replaced {} of {all} ({}){most}", run.dropped, percent(run.dropped as f64 / all as f64))
            })
        })),
    rule("frames_late", &[Stage::Input], "keep other programs from its cores, and measure again: decoding has time left", "",
        Cause::Varies(|metrics| {
            let late = Some(metrics.run.late()).filter(|late| *late > 0 && metrics.sources_have_time)?;
            let text = format!("{late} frames could not be given in time, since other programs took the CPU");
            Some((text, "a file that is played at a pace was behind it".to_owned()))
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
