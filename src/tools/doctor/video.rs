// SPDX-License-Identifier: Apache-2.0
//! GStreamer elements, and scaling and decoding by each unit, compared with the expected images.

use super::check_report::CheckReport;
use super::context::{DoctorContext, NO_JETSON};
use super::test_clip::{TestClip, TestClipError};
use super::video_selftest::{self, Change, ScalingResult};
use jetwatch_files::Sha256Digest;
use jetwatch_pixels::encode_bgrx_jpeg;
use jetwatch_platform::{UnitElement, VideoUnits};
use jetwatch_source::{self as source, ELEMENTS, ElementState, inspect_element};
use jetwatch_types::Size;

/// Largest mean difference, over samples of 0 to 255, of a scaled image from that of the CPU: rounding and filters differ;
/// other colors or a shifted image differ more.
const MAX_DIFFERENCE: f64 = 4.0;

/// The same for images that were JPEG files: coarser, and of another range where a unit keeps that of JPEG.
const MAX_JPEG_DIFFERENCE: f64 = 8.0;

/// Size of the images of these checks: a daemon's pictures of this size are encoded by the Jetson.
const JPEG_SIZE: Size = Size::new(640, 360);

/// What to do about an image that is not the expected one.
const REMEDY: &str =
    "compare the release of L4T with the table in the documentation, and report a bug";

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
                report.not_applicable(&what, NO_JETSON);
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
    let is_jetson = context.machine.is_jetson();
    let reference = video_selftest::test_scaling(None);
    match &reference {
        Ok(outcome) => report.ok("scaling by the CPU", &speed(outcome.ms_per_image)),
        Err(error) => report.failed("scaling by the CPU", error),
    }
    for (name, unit) in [("VIC", &units.vic), ("GPU", &units.gpu)] {
        let what = format!("scaling by the {name}");
        match (unit, &reference) {
            (Err(_), _) if !is_jetson => report.not_applicable(&what, NO_JETSON),
            (Err(reason), _) => report.unknown(&what, reason),
            (Ok(_), Err(_)) => report.unknown(&what, "there is no image to compare it with"),
            (Ok(unit), Ok(reference)) => match video_selftest::test_scaling(Some(*unit)) {
                Ok(outcome) => {
                    compare(report, &what, &outcome, &reference.samples, MAX_DIFFERENCE);
                }
                Err(error) => report.failed(&what, &error),
            },
        }
    }
    for (what, change) in [
        ("rotating by the VIC", Change::Rotate),
        ("cutting by the VIC", Change::Cut),
    ] {
        let Some(vic) = on_jetson(report, what, is_jetson, &units.vic) else {
            continue;
        };
        let outcomes = video_selftest::test_change(change, None)
            .and_then(|wanted| Ok((wanted, video_selftest::test_change(change, Some(vic))?)));
        match outcomes {
            Ok((wanted, outcome)) => {
                compare(report, what, &outcome, &wanted.samples, MAX_DIFFERENCE);
            }
            Err(error) => report.failed(what, &error),
        }
    }
    check_jpeg(report, is_jetson, &units);
    check_encoding(report, context, &units);
    let clip = TestClip::load(&context.test_clip);
    check_decoding(report, "decoding by the CPU", None, &clip);
    match (&units.decoder, &units.vic) {
        (Ok(decoder), Ok(converter)) => {
            let units = Some((*decoder, *converter));
            check_decoding(report, "decoding by NVDEC", units, &clip);
        }
        _ if !is_jetson => report.not_applicable("decoding by NVDEC", NO_JETSON),
        (Err(reason), _) | (_, Err(reason)) => report.unknown("decoding by NVDEC", reason),
    }
}

/// The unit; adds why there is none.
fn on_jetson<T: Copy>(
    report: &mut CheckReport,
    what: &str,
    is_jetson: bool,
    unit: &Result<T, String>,
) -> Option<T> {
    match unit {
        Ok(unit) => return Some(*unit),
        Err(_) if !is_jetson => report.not_applicable(what, NO_JETSON),
        Err(reason) => report.unknown(what, reason),
    }
    None
}

/// The shades of an image of [`JPEG_SIZE`]: gray, from dark to bright, so that no color matrix matters.
fn gray_shades() -> impl Iterator<Item = u8> + Clone {
    let shade = |x: u32| (64 + x * 128 / JPEG_SIZE.width) as u8;
    (0..JPEG_SIZE.height).flat_map(move |_| (0..JPEG_SIZE.width).map(shade))
}

/// Encodes video on NVENC, and decodes it on NVDEC.
fn check_encoding(report: &mut CheckReport, context: &DoctorContext, units: &VideoUnits) {
    let what = "encoding by NVENC";
    if context.machine.units.nvenc == Some(false) {
        report.not_applicable(what, "this Jetson has no NVENC: the CPU encodes");
        return;
    }
    let is_jetson = context.machine.is_jetson();
    let (Some(decoder), Ok(vic)) = (
        on_jetson(report, what, is_jetson, &units.decoder),
        &units.vic,
    ) else {
        return;
    };
    let gray: Vec<u8> = gray_shades().collect();
    let pixels: Vec<u8> = gray
        .iter()
        .flat_map(|&gray| [gray, gray, gray, 255])
        .collect();
    let wanted: Vec<u8> = gray.iter().flat_map(|&gray| [gray; 3]).collect();
    match video_selftest::test_encoding(*vic, decoder, JPEG_SIZE, &pixels) {
        Ok(outcome) => compare(report, what, &outcome, &wanted, MAX_JPEG_DIFFERENCE),
        Err(error) => report.failed(what, &error),
    }
}

/// Decodes a JPEG file on NVJPG, and encodes one.
fn check_jpeg(report: &mut CheckReport, is_jetson: bool, units: &VideoUnits) {
    let (decoding, pictures) = ("decoding by NVJPG", "pictures by NVJPG");
    let rows = gray_shades();
    let pixels: Vec<u8> = rows
        .clone()
        .flat_map(|gray| [gray, gray, gray, 255])
        .collect();
    let chroma = (JPEG_SIZE.width * JPEG_SIZE.height / 2) as usize;
    if let (Some(decoders), Some(vic)) = (
        on_jetson(report, decoding, is_jetson, &units.jpeg_decoders),
        units.vic.as_ref().ok(),
    ) {
        let planes: Vec<u8> = rows.clone().chain(vec![128; chroma]).collect();
        let file = encode_bgrx_jpeg(JPEG_SIZE, &pixels, 95).unwrap_or_default();
        let mut tried = decoders.iter().map(|decoder| {
            let outcome = video_selftest::test_jpeg(*decoder, *vic, JPEG_SIZE, &file);
            outcome.map_err(|error| format!("{}: {error}", decoder.element))
        });
        let best = tried.next().unwrap_or_else(|| Err("no decoder".to_owned()));
        match best.or_else(|error| tried.find_map(Result::ok).ok_or(error)) {
            Ok(outcome) => compare(report, decoding, &outcome, &planes, MAX_JPEG_DIFFERENCE),
            Err(error) => report.failed(decoding, &error),
        }
    }
    if let Some(vic) = on_jetson(report, pictures, is_jetson, &units.vic) {
        let wanted: Vec<u8> = rows.flat_map(|gray| [gray; 3]).collect();
        match video_selftest::test_pictures(vic, JPEG_SIZE, &pixels) {
            Ok(outcome) => compare(report, pictures, &outcome, &wanted, MAX_JPEG_DIFFERENCE),
            Err(error) => report.failed(pictures, &error),
        }
    }
}

/// Decodes the clip, and compares every image with the expected one. The decoder of the CPU may be missing, `units` may not.
fn check_decoding(
    report: &mut CheckReport,
    what: &str,
    units: Option<(UnitElement, UnitElement)>,
    clip: &Result<TestClip, TestClipError>,
) {
    let clip = match clip {
        Ok(clip) => clip,
        Err(TestClipError::Missing(folder)) => {
            let text = format!(
                "there is no test clip in {}; install the package, or make one with `jetwatch test-clip --out DIR` and use it with `jetwatch doctor --test-clip DIR`",
                folder.display()
            );
            report.unknown(what, &text);
            return;
        }
        Err(TestClipError::Damaged(text)) => {
            let text = format!("the test clip is damaged: {text}; install the package again");
            report.failed(what, &text);
            return;
        }
    };
    let result = match video_selftest::test_decoding(units, clip) {
        Ok(result) => result,
        Err(error) if units.is_none() => {
            report.unknown(what, &error);
            return;
        }
        Err(error) => {
            report.failed(what, &error);
            return;
        }
    };
    let text = format!(
        "{}, {} images",
        speed(result.ms_per_image),
        clip.images.len()
    );
    match different_images(&result.images, &clip.images) {
        None => report.ok(what, &format!("{text}, every sample as expected")),
        Some(different) => {
            report.failed(what, &format!("{text}: {different}; {REMEDY}"));
        }
    }
}

/// Which decoded images are not the expected ones, counted from 1; `None` when all are equal.
fn different_images(found: &[Sha256Digest], expected: &[Sha256Digest]) -> Option<String> {
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Some(format!("{found} images, expected {expected}"));
    }
    let numbers = found.iter().zip(expected).zip(1..);
    let numbers: Vec<String> = numbers
        .filter(|((found, expected), _)| found != expected)
        .map(|(_, number): (_, usize)| number.to_string())
        .collect();
    (!numbers.is_empty()).then(|| format!("not the expected images: {}", numbers.join(", ")))
}

fn compare(
    report: &mut CheckReport,
    what: &str,
    outcome: &ScalingResult,
    wanted: &[u8],
    max_difference: f64,
) {
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
        "{}, mean difference {difference:.2} of 255 (expected at most {max_difference})",
        speed(outcome.ms_per_image)
    );
    if difference <= max_difference {
        report.ok(what, &text);
    } else {
        report.failed(
            what,
            &format!("{text}: the image is not the expected one; {REMEDY}"),
        );
    }
}

fn speed(ms_per_image: f64) -> String {
    format!("{ms_per_image:.2} ms per image, with copies")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_is_compared() {
        let expected: Vec<_> = (0..4_u8).map(|image| Sha256Digest::of(&[image])).collect();
        assert_eq!(different_images(&expected, &expected), None);
        let mut found = expected.clone();
        found.swap(0, 2);
        let text = different_images(&found, &expected).expect("two differ");
        assert_eq!(text, "not the expected images: 1, 3");
        let text = different_images(&expected[1..], &expected).expect("one is missing");
        assert_eq!(text, "3 images, expected 4");
    }
}
