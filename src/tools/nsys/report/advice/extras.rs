// SPDX-License-Identifier: Apache-2.0
//! Rules about asynchronous stages: recording and secondary networks.

use jetwatch_telemetry::Stage;

use super::{Cause, Rule, limits, percent, rule};
use crate::report::metrics::{NetworkNotes, SecondaryBatches};

/// Share of the time below which a recording does not slow other stages down.
const NOTICEABLE: f64 = 0.3;

/// Share of the limiting stage's time in waits for cores from which they are its cause.
const WAITS_FOR_CORE: f64 = 0.1;

/// Fill of a batch below which waiting for it is useless.
const MIN_FILL: f64 = 0.5;

fn ms(ns: f64) -> String {
    format!("{:.1} ms", ns / 1e6)
}

/// Rendering costs more than inference.
#[rustfmt::skip]
pub(super) const RENDERING: Rule = rule("rendering_limit", &[Stage::Render, Stage::Encode],
    "omit --record, record fewer sources, make the images smaller at the camera, or encode in hardware", "sources sources[].uri",
    Cause::Varies(|metrics| {
        let found = metrics.rendering.as_ref()?;
        let whole = found.draw_ns + found.encoder_ns;
        let is_limit = limits::evidence(metrics, &[Stage::Render, Stage::Encode]).is_some();
        let is_slow = whole > found.infer_ns && found.share >= NOTICEABLE;
        let text = if is_slow { "rendering takes longer than inference" } else { "rendering is the limit of the recording" };
        (is_limit || is_slow).then(|| (text.to_owned(), format!(
            "drawing a frame takes {}, of which {} wait for the encoder, and the network {}; the recording was busy for {} of the time",
            ms(whole), ms(found.encoder_ns), ms(found.infer_ns), percent(found.share)
        )))
    })).in_hardware("omit --record, record fewer sources, or make the images smaller at the camera");

/// The threads of the limiting stage could run, and had no core.
#[rustfmt::skip]
pub(super) const CORES: Rule = rule("waits_for_core", &Stage::ALL,
    "use fewer threads than cores: fewer workers or threads per worker, software decoders with fewer threads; or move other programs to other cores (CPUAffinity in a unit of systemd)",
    "detector.workers detector.threads_per_worker sources[].decoder_threads",
    Cause::Varies(|metrics| {
        let found = metrics.core_wait.as_ref()?;
        let (stage, thread, cores) = (found.stage.name(), &found.thread, found.cores);
        let is_limit = metrics.limit.is_some_and(|limit| limit.stage == found.stage);
        let why = match found.has_states {
            true => "the kernel took it off its core while it could run",
            false => "it was off its core and in no call that waits",
        };
        (is_limit && found.share >= WAITS_FOR_CORE).then(|| (
            format!("{stage} waits for a CPU core: thread {thread} could run and did not"),
            format!(
                "{why}, for {} in {stage}; over all its threads this is {} of the stage's time; cores with recorded threads: {cores}, idle for {} of their time unless other programs ran there",
                ms(found.waited_ns as f64), percent(found.share), percent(found.idle)
            ),
        ))
    }));

/// Share of the objects without a crop from which they are reported.
const MANY: f64 = 0.5;

/// Objects that no secondary network sees.
#[rustfmt::skip]
pub(super) const WITHOUT_CROP: Rule = rule("objects_without_crop", &[],
    "where their crops would still show enough, lower min_object; else use a camera that is closer, or has more pixels",
    "secondary[].min_object sources[].uri",
    Cause::Varies(|metrics| {
        let share = |network: &NetworkNotes| {
            let all = (network.objects + network.small_objects).max(1);
            network.small_objects as f64 / all as f64
        };
        let networks = metrics.run.secondary.iter();
        let without = networks.filter(|it| share(it) >= MANY || it.frames_without_pixels > 0);
        let found = without.max_by(|a, b| share(a).total_cmp(&share(b)))?;
        let mut reasons = Vec::new();
        if found.small_objects > 0 {
            let (small, all) = (found.small_objects, found.objects + found.small_objects);
            let share = percent(share(found));
            reasons.push(format!("{share} of its objects were smaller than min_object ({small} of {all}, summed over the frames)"));
        }
        if found.frames_without_pixels > 0 {
            reasons.push(format!("the pixels of {} frames with objects could not be kept or read", found.frames_without_pixels));
        }
        let text = format!("many objects get no crop for {}", found.name);
        Some((text, reasons.join("; ")))
    }));

/// A batch is larger than the number of crops.
#[rustfmt::skip]
pub(super) const SECONDARY: Rule = rule("secondary_waits", &[],
    "set the batch size to the number of objects that arrive together, or reduce the wait",
    "secondary[].batch_size secondary[].batch_timeout_ms",
    Cause::Varies(|metrics| {
        let fill = |found: &SecondaryBatches| found.crops / found.batch_size.max(1) as f64;
        let waits = |found: &&SecondaryBatches| {
            found.batch_size > 1 && fill(found) < MIN_FILL && found.wait_ns >= found.work_ns
        };
        let waiting = metrics.secondary.iter().filter(waits);
        let worst = waiting.min_by(|a, b| fill(a).total_cmp(&fill(b)))?;
        Some((
            format!("the secondary batch of {} waits for objects", worst.name),
            format!(
                "a batch has {:.1} crops where {} fit, waits {}, and takes {}; a batch_size of {} would be full",
                worst.crops, worst.batch_size, ms(worst.wait_ns), ms(worst.work_ns), worst.suggested
            ),
        ))
    }));

/// Waits below this are no reason to change a batch, in ms.
const SHORT_WAIT_MS: f64 = 5.0;

/// Batches are larger than the number of live sources.
#[rustfmt::skip]
pub(super) const BATCH_LATENCY: Rule = rule("batch_latency", &[Stage::Batch, Stage::Input],
    "make batches no larger than the number of live sources of the same rate: detector.batch_size 1 for one camera; larger ones give no more frames, as the cameras set the pace",
    "detector.batch_size detector.batch_timeout_ms",
    Cause::Varies(|metrics| {
        let run = &metrics.run;
        let frames = run.sources.iter().map(|source| source.detected as f64);
        // Sources of different rates, and those that are closed, seldom have frames at the same time.
        let most = frames.clone().fold(1.0, f64::max);
        let together = (frames.sum::<f64>() / most).round() as u64;
        let sources = run.sources.len();
        let is_live = sources > 0 && run.sources.iter().all(|source| source.live);
        let wait = run.latency.as_ref()?.part("wait")?;
        let is_too_large = is_live && run.batch_size > together.max(1) && !run.drops_frames();
        let rates = match together < sources as u64 {
            true => format!("; in the time of a frame of the fastest source, all of them have {together}"),
            false => String::new(),
        };
        let plural = if sources == 1 { "" } else { "s" };
        (is_too_large && wait.median_ms >= SHORT_WAIT_MS).then(|| (
            format!("batches of {} make frames of {sources} live source{plural} wait", run.batch_size),
            format!(
                "{}; a frame waits {:.1} ms for its batch (median), 95 %: {:.1} ms{rates}",
                run.describe_latency(), wait.median_ms, wait.p95_ms
            ),
        ))
    }));
