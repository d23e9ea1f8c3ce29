//! GStreamer's elements, and scaling and decoding by each unit, compared with the expected images.

use super::check_report::CheckReport;
use super::context::DoctorContext;
use super::video_selftest::{self, TestResult};
use jetwatch_platform::VideoUnits;
use jetwatch_source::{self as source, ELEMENTS, ElementState, inspect_element};

/// Largest mean difference, over samples of 0 to 255, of a scaled image from that of the CPU: rounding and filters differ;
/// other colors or a shifted image differ more.
const MAX_DIFFERENCE: f64 = 4.0;

pub(super) fn check_elements(context: &DoctorContext, report: &mut CheckReport) {
    if let Err(error) = source::gst::init("*:1") {
        report.failed("GStreamer", &error.to_string());
        return;
    }
    let is_jetson = context.machine.is_jetson();
    for facts in ELEMENTS {
        let state = inspect_element(facts);
        let what = format!("element {}", facts.name);
        match state {
            ElementState::Missing if facts.is_from_l4t() && !is_jetson => {
                report.unknown(&what, "not here: this machine is not a Jetson");
            }
            ElementState::Missing => {
                let text = format!(
                    "missing; install it with: sudo apt install {}",
                    facts.package
                );
                report.failed(&what, &text);
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
                report.ok(&what, &format!("version {version}{list}"));
            }
            ElementState::Present { version, wrong, .. } => {
                let text = format!(
                    "version {version}: {}; expected GStreamer 1.16 or newer, and the package {} of the same release as the rest of the system",
                    wrong.join(", "),
                    facts.package
                );
                report.failed(&what, &text);
            }
        }
    }
}

pub(super) fn check_scaling(context: &DoctorContext, report: &mut CheckReport) {
    let units = VideoUnits::for_machine(&context.machine);
    let reference = video_selftest::test_scaling(None);
    match &reference {
        Ok(outcome) => report.ok("scaling by the CPU", &speed(outcome)),
        Err(error) => report.failed("scaling by the CPU", error),
    }
    for (name, unit) in [("VIC", &units.vic), ("GPU", &units.gpu)] {
        let what = format!("scaling by the {name}");
        match (unit, &reference) {
            (Err(reason), _) => report.unknown(&what, reason),
            (Ok(_), Err(_)) => report.unknown(&what, "there is nothing to compare it with"),
            (Ok(unit), Ok(reference)) => match video_selftest::test_scaling(Some(*unit)) {
                Ok(outcome) => compare(report, &what, &outcome, &reference.samples, MAX_DIFFERENCE),
                Err(error) => report.failed(&what, &error),
            },
        }
    }
    match video_selftest::test_decoding(None) {
        Ok((outcome, wanted)) => compare(report, "decoding by the CPU", &outcome, &wanted, 0.0),
        Err(error) => report.unknown("decoding by the CPU", &error),
    }
    match (&units.decoder, &units.vic) {
        (Ok(decoder), Ok(converter)) => {
            match video_selftest::test_decoding(Some((*decoder, *converter))) {
                Ok((outcome, wanted)) => {
                    compare(report, "decoding by NVDEC", &outcome, &wanted, 0.0);
                }
                Err(error) => report.failed("decoding by NVDEC", &error),
            }
        }
        (Err(reason), _) | (_, Err(reason)) => report.unknown("decoding by NVDEC", reason),
    }
}

fn compare(report: &mut CheckReport, what: &str, outcome: &TestResult, wanted: &[u8], max: f64) {
    let Some(difference) = video_selftest::difference(&outcome.samples, wanted) else {
        let text = format!(
            "the image has {} samples, expected {}",
            outcome.samples.len(),
            wanted.len()
        );
        report.failed(what, &text);
        return;
    };
    let text = format!(
        "{}, mean difference {difference:.2} of 255 (expected at most {max})",
        speed(outcome)
    );
    if difference <= max {
        report.ok(what, &text);
    } else {
        report.failed(what, &format!("{text}: the image is not the expected one; compare the release of L4T with the table in the README, and report it"));
    }
}

fn speed(outcome: &TestResult) -> String {
    format!("{:.2} ms a picture, copies included", outcome.ms_per_image)
}
