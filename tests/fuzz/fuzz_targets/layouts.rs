// SPDX-License-Identifier: Apache-2.0
//! Fuzz target: tensors of any kind against every output layout, through suppression, to detections in source pixels.
//!
//! The bytes draw a network and its output for one image; see [`drawn`]. A decoder may refuse the tensors. What it makes
//! of those that it takes must be as its documentation says, whatever their numbers are.

#![no_main]

mod drawn;
mod numbers;

use std::any::Any;

use jetwatch_detect::decode::{DecodeParams, Decoder};
use jetwatch_detect::decoders::{
    DecodeDiagnostics, MAX_SCORE, NetworkShape, OutputDecoder, TensorShape, TensorView,
};
use jetwatch_detect::layouts::OutputLayout;
use jetwatch_detect::layouts::ssd::{SsdActivation, SsdBackground, SsdParameters};
use jetwatch_detect::{Candidate, ClassFilter, nms};
use jetwatch_types::{Letterbox, Placement, Size, area, intersection_over_union};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::{Corpus, fuzz_target};

use drawn::Drawn;
use numbers::share;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    match decode_drawn(&mut Unstructured::new(bytes)) {
        Ok(()) => Corpus::Keep,
        Err(_) => Corpus::Reject,
    }
});

fn decode_drawn(bytes: &mut Unstructured<'_>) -> Result<()> {
    let (limits, lower) = limits(bytes)?;
    let letterbox = [side(bytes)?, side(bytes)?];
    let placements = [Placement::TopLeft, Placement::Center, Placement::Stretch];
    let placement = *bytes.choose(&placements)?;
    let kept: u16 = bytes.arbitrary()?;
    let drawn = Drawn::new(bytes)?;

    let shapes: Vec<TensorShape<'_>> = drawn.tensors.iter().map(|tensor| tensor.shape()).collect();
    let head = match drawn
        .layout
        .create_decoder(&NetworkShape::new(drawn.input, drawn.classes, &shapes))
    {
        Ok(head) => head,
        Err(mismatch) => {
            // One too few is told at the place where it is missing.
            assert!(mismatch.tensor <= shapes.len(), "{mismatch:?}");
            assert!(!mismatch.expected.is_empty() && !mismatch.advice.is_empty());
            return Ok(());
        }
    };
    let labels: Vec<String> = (0..drawn.classes)
        .map(|class| format!("c{class}"))
        .collect();
    let kept: Vec<String> = (0..drawn.classes)
        .filter(|class| kept >> class & 1 == 1)
        .map(|class| labels[class].clone())
        .collect();
    let filter = ClassFilter::new(&labels, &kept).expect("they are labels");
    let limits = DecodeParams { filter, ..limits };
    let tensors: Vec<TensorView<'_>> = drawn
        .tensors
        .iter()
        .map(|tensor| tensor.numbers())
        .collect();

    let (candidates, decoded) = run(&*head, &tensors, limits.score_threshold, &limits.filter);
    check_candidates(&candidates, &limits, drawn.classes);
    check_notes(&decoded, &tensors, &*drawn.layout);
    let (more, _) = run(&*head, &tensors, lower, &limits.filter);
    check_lower(&candidates, &more, limits.score_threshold, &*drawn.layout);
    check_suppression(&*head, candidates, &limits);

    let letterbox = Letterbox::new(
        Size::new(letterbox[0], letterbox[1]),
        drawn.input,
        placement,
    );
    check_detections(head, &tensors, &letterbox, &limits, decoded);
    Ok(())
}

/// DecodeParams of any configuration, and a threshold that is not above theirs.
fn limits(bytes: &mut Unstructured<'_>) -> Result<(DecodeParams, f32)> {
    let (score_threshold, other) = (share(bytes)?, share(bytes)?);
    let limits = DecodeParams {
        score_threshold: score_threshold.max(other),
        nms_iou: share(bytes)?,
        max_detections: *bytes.choose(&[300, 1, 2, 20, 10_000])?,
        filter: ClassFilter::new(&[], &[]).expect("nothing to look up"),
    };
    Ok((limits, score_threshold.min(other)))
}

fn side(bytes: &mut Unstructured<'_>) -> Result<u32> {
    Ok(*bytes.choose(&[640, 1, 2, 17, 333, 1920, 7680, 65_535])?)
}

fn run(
    head: &dyn OutputDecoder,
    tensors: &[TensorView<'_>],
    threshold: f32,
    filter: &ClassFilter,
) -> (Vec<Candidate>, DecodeDiagnostics) {
    // What an earlier picture left must go.
    let mut candidates = vec![Candidate {
        cell: u32::MAX,
        class: u16::MAX,
        score: f32::NAN,
        xyxy: [f32::NAN; 4],
    }];
    let decoded = head.decode(tensors, threshold, filter, &mut candidates);
    (candidates, decoded)
}

fn check_candidates(candidates: &[Candidate], limits: &DecodeParams, classes: usize) {
    for candidate in candidates {
        let scores = limits.score_threshold..=1.0;
        assert!(
            scores.contains(&candidate.score),
            "{candidate:?}, {limits:?}"
        );
        assert!(usize::from(candidate.class) < classes, "{candidate:?}");
        assert!(limits.filter.accepts(candidate.class), "{candidate:?}");
        let is_bounded = candidate.xyxy.iter().all(|edge| edge.is_finite());
        assert!(is_bounded, "{candidate:?}");
    }
    let in_order = candidates.is_sorted_by(|a, b| a.cell < b.cell);
    assert!(in_order, "{candidates:?}");
}

/// What is noted can be looked up, and is what it is called.
fn check_notes(decoded: &DecodeDiagnostics, tensors: &[TensorView<'_>], layout: &dyn OutputLayout) {
    assert_eq!(decoded.non_finite > 0, decoded.first_non_finite.is_some());
    let places = [
        decoded.first_non_finite,
        decoded.first_beyond_one,
        decoded.first_unknown_class,
    ];
    for place in places.into_iter().flatten() {
        assert!(
            place.index < tensors[place.tensor].len(),
            "{decoded:?}, {layout:?}"
        );
        assert!(!tensors[place.tensor].format_value(place.index).is_empty());
    }
    if let Some(place) = decoded.first_beyond_one {
        let TensorView::F32(numbers) = tensors[place.tensor] else {
            panic!("a score that is whole: {decoded:?}, {layout:?}");
        };
        let score = numbers[place.index];
        assert!(score.is_finite(), "{decoded:?}, {layout:?}");
        assert!(score < 0.0 || score > MAX_SCORE, "{score}: {layout:?}");
    }
}

/// A lower threshold gives the same boxes and others below the higher one.
fn check_lower(high: &[Candidate], low: &[Candidate], threshold: f32, layout: &dyn OutputLayout) {
    let mut rest = low.iter();
    for candidate in high {
        assert!(
            rest.any(|other| other == candidate),
            "{candidate:?}: {layout:?}"
        );
    }
    // Scores up to this are multiplied with others, so that a factor below the threshold is not looked at though the
    // product would pass.
    let surely = threshold * MAX_SCORE * 1.01;
    // The mean of logits beyond all reason is rounded by more than their softmax leaves room for.
    let is_rough = (layout as &dyn Any)
        .downcast_ref::<SsdParameters>()
        .is_some_and(|parameters| {
            parameters.activation == SsdActivation::Softmax
                && parameters.background == SsdBackground::None
        });
    if is_rough {
        return;
    }
    let mut rest = high.iter();
    for candidate in low.iter().filter(|candidate| candidate.score >= surely) {
        assert!(
            rest.any(|other| other == candidate),
            "{candidate:?} lost: {layout:?}"
        );
    }
}

fn check_suppression(head: &dyn OutputDecoder, candidates: Vec<Candidate>, limits: &DecodeParams) {
    let mut kept = candidates.clone();
    if head.needs_suppression() {
        nms::non_max_suppression(&mut kept, limits.nms_iou, limits.max_detections);
    } else {
        nms::rank(&mut kept, limits.max_detections);
    }
    assert!(kept.len() <= limits.max_detections);
    assert!(kept.is_sorted_by(|a, b| a.score >= b.score), "{kept:?}");
    assert!(kept.iter().all(|kept| candidates.contains(kept)));
    assert!(kept.iter().all(|kept| area(&kept.xyxy) > 0.0));
    let has_box = candidates
        .iter()
        .any(|candidate| area(&candidate.xyxy) > 0.0);
    assert_eq!(!kept.is_empty(), has_box, "{kept:?} of {candidates:?}");
    if !head.needs_suppression() {
        return;
    }
    // Beyond these the areas are rounded to nothing or to infinity.
    let is_usual = |candidate: &&Candidate| (1e-6..1e12).contains(&area(&candidate.xyxy));
    let usual: Vec<&Candidate> = kept.iter().filter(is_usual).take(40).collect();
    for (place, a) in usual.iter().enumerate() {
        for b in usual[..place].iter().filter(|b| a.class == b.class) {
            let iou = intersection_over_union(&a.xyxy, &b.xyxy);
            assert!(iou <= limits.nms_iou + 1e-4, "{iou}: {a:?}, {b:?}");
        }
    }
}

fn check_detections(
    head: Box<dyn OutputDecoder>,
    tensors: &[TensorView<'_>],
    letterbox: &Letterbox,
    limits: &DecodeParams,
    decoded: DecodeDiagnostics,
) {
    let mut decoder = Decoder::new(head, limits.clone());
    let mut detections = Vec::new();
    assert_eq!(decoder.decode(tensors, letterbox, &mut detections), decoded);
    assert!(detections.len() <= limits.max_detections);
    assert!(detections.is_sorted_by(|a, b| a.score >= b.score));
    let [width, height] = [letterbox.source.width, letterbox.source.height].map(|side| side as f32);
    for detection in &detections {
        let [left, top, right, bottom] = detection.xyxy;
        let is_inside = 0.0 <= left && left < right && right <= width;
        assert!(is_inside, "{detection:?} in {letterbox:?}");
        assert!(
            0.0 <= top && top < bottom && bottom <= height,
            "{detection:?} in {letterbox:?}"
        );
    }
    let first = detections.clone();
    assert_eq!(decoder.decode(tensors, letterbox, &mut detections), decoded);
    assert_eq!(
        detections, first,
        "the same picture gives the same detections"
    );
}
