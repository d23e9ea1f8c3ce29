//! Rules about what works beside the chain: the recording and secondary networks.

use super::{Rule, percent};
use crate::report::metrics::SecondaryBatches;

/// A recording that is at work for less of the time than this takes nothing away that is missed elsewhere.
const NOTICEABLE: f64 = 0.3;

/// A batch that is filled to less than this share waits in vain.
const MIN_FILL: f64 = 0.5;

fn ms(ns: f64) -> String {
    format!("{:.1} ms", ns / 1e6)
}

/// Pictures cost more than what is found in them.
pub(super) const RENDERING: Rule = Rule {
    name: "rendering_limit",
    evaluate: |metrics| {
        let found = metrics.rendering.as_ref()?;
        let whole = found.draw_ns + found.encoder_ns;
        (whole > found.infer_ns && found.share >= NOTICEABLE).then(|| {
            (
                "rendering takes longer than inference".to_owned(),
                format!(
                    "drawing a frame takes {}, of which {} wait for the encoder, and the network {}; the recording was at work for {} of the time",
                    ms(whole),
                    ms(found.encoder_ns),
                    ms(found.infer_ns),
                    percent(found.share)
                ),
            )
        })
    },
    advice: "leave --record out, record fewer sources, make the pictures smaller at the camera, or encode in hardware",
    keys: &["sources", "sources[].uri"],
};

/// A batch is larger than what there is to look at.
pub(super) const SECONDARY: Rule = Rule {
    name: "secondary_waits",
    evaluate: |metrics| {
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
                worst.crops,
                worst.batch_size,
                ms(worst.wait_ns),
                ms(worst.work_ns),
                worst.suggested
            ),
        ))
    },
    advice: "make the batch as large as what comes together, or wait less for it",
    keys: &["secondary[].batch_size", "secondary[].batch_timeout_ms"],
};
