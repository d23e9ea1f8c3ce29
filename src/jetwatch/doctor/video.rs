//! GStreamer's elements, and what they do: scaling and decoding by each unit, against what must come out.

use super::subject::Subject;
use crate::lines::Lines;
use jetwatch_platform::VideoUnits;
use jetwatch_source::gst::trial::{self, Outcome};
use jetwatch_source::{self as source, ELEMENTS, ElementState, examine_element};

/// Most that scaled pictures may differ from the processor's, as the mean over samples of 0 to 255: rounding and filters differ,
/// other colors or a shifted picture differ more.
const MOST_DIFFERENCE: f64 = 4.0;

pub(super) fn examine_elements(subject: &Subject, lines: &mut Lines) {
    if let Err(error) = source::gst::init("*:1") {
        lines.wrong("GStreamer", &error.to_string());
        return;
    }
    let is_jetson = subject.machine.is_jetson();
    for facts in ELEMENTS {
        let state = examine_element(facts);
        let what = format!("element {}", facts.name);
        match state {
            ElementState::Missing if facts.is_of_l4t() && !is_jetson => {
                lines.unknown(&what, "not here: this machine is no Jetson");
            }
            ElementState::Missing => {
                let text = format!(
                    "missing; install it with: sudo apt install {}",
                    facts.package
                );
                lines.wrong(&what, &text);
            }
            ElementState::Present {
                version,
                properties,
                wrong,
            } if wrong.is_empty() => {
                let properties: Vec<String> = properties
                    .iter()
                    .map(|(name, kind)| format!("{name} ({kind})"))
                    .collect();
                let list = match properties.is_empty() {
                    true => String::new(),
                    false => format!(", {}", properties.join(", ")),
                };
                lines.ok(&what, &format!("version {version}{list}"));
            }
            ElementState::Present { version, wrong, .. } => {
                let text = format!(
                    "version {version}: {}; expected GStreamer 1.16 or newer, and the package {} of the same release as the rest of the system",
                    wrong.join(", "),
                    facts.package
                );
                lines.wrong(&what, &text);
            }
        }
    }
}

pub(super) fn examine_scaling(subject: &Subject, lines: &mut Lines) {
    let units = VideoUnits::of(&subject.machine);
    let reference = trial::scale(None);
    match &reference {
        Ok(outcome) => lines.ok("scaling by the CPU", &speed(outcome)),
        Err(error) => lines.wrong("scaling by the CPU", error),
    }
    for (name, unit) in [("VIC", &units.vic), ("GPU", &units.gpu)] {
        let what = format!("scaling by the {name}");
        match (unit, &reference) {
            (Err(reason), _) => lines.unknown(&what, reason),
            (Ok(_), Err(_)) => lines.unknown(&what, "there is nothing to compare it with"),
            (Ok(unit), Ok(reference)) => match trial::scale(Some(*unit)) {
                Ok(outcome) => compare(lines, &what, &outcome, &reference.samples, MOST_DIFFERENCE),
                Err(error) => lines.wrong(&what, &error),
            },
        }
    }
    match trial::decode(None) {
        Ok((outcome, wanted)) => compare(lines, "decoding by the CPU", &outcome, &wanted, 0.0),
        Err(error) => lines.unknown("decoding by the CPU", &error),
    }
    match (&units.decoder, &units.vic) {
        (Ok(decoder), Ok(converter)) => match trial::decode(Some((*decoder, *converter))) {
            Ok((outcome, wanted)) => {
                compare(lines, "decoding by NVDEC", &outcome, &wanted, 0.0);
            }
            Err(error) => lines.wrong("decoding by NVDEC", &error),
        },
        (Err(reason), _) | (_, Err(reason)) => lines.unknown("decoding by NVDEC", reason),
    }
}

fn compare(lines: &mut Lines, what: &str, outcome: &Outcome, wanted: &[u8], most: f64) {
    let Some(difference) = trial::difference(&outcome.samples, wanted) else {
        let text = format!(
            "the picture has {} samples, expected {}",
            outcome.samples.len(),
            wanted.len()
        );
        lines.wrong(what, &text);
        return;
    };
    let text = format!(
        "{}, mean difference {difference:.2} of 255 (expected at most {most})",
        speed(outcome)
    );
    if difference <= most {
        lines.ok(what, &text);
    } else {
        lines.wrong(what, &format!("{text}: the picture is not the one that was sent; compare the release of L4T with the table in the README, and report it"));
    }
}

fn speed(outcome: &Outcome) -> String {
    format!(
        "{:.2} ms a picture, with its way there and back",
        outcome.ms_per_picture
    )
}
