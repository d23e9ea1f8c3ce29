// SPDX-License-Identifier: Apache-2.0
//! Decoding and suppression of every output layout on one core: 8400 boxes of 80 classes, of which 300 pass the threshold and
//! belong to 60 objects. Layouts with suppression in the network are skipped: they hold some hundred boxes.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use std::sync::Arc;

use jetwatch_detect::decoders::boxes::BoxUnit;
use jetwatch_detect::decoders::{DType, DecodeDiagnostics, NetworkShape, TensorShape, TensorView};
use jetwatch_detect::layouts::darknet::grids::{DarknetGridsParameters, SizeFormula};
use jetwatch_detect::layouts::detectnet_v2::DetectNetParameters;
use jetwatch_detect::layouts::detr::{DetrActivation, DetrParameters};
use jetwatch_detect::layouts::fcos::{FcosParameters, FcosScore};
use jetwatch_detect::layouts::gfl::{CellCenter, GflParameters, GflTensors};
use jetwatch_detect::layouts::ssd::{SsdActivation, SsdBackground, SsdBoxes, SsdParameters};
use jetwatch_detect::layouts::{self, OutputLayout};
use jetwatch_detect::{ClassFilter, nms};
use jetwatch_types::Size;

const THRESHOLD: f32 = 0.3;
const IOU: f32 = 0.45;
const CLASSES: usize = 80;
const INPUT: Size = Size::new(640, 640);
/// Columns and rows of the grids of strides 8, 16 and 32.
const SIDES: [usize; 3] = [80, 40, 20];
const BOXES: usize = 80 * 80 + 40 * 40 + 20 * 20;
/// Half of a box's side in pixels; five of stride 16.
const HALF: f32 = 80.0;

/// Index in the output, class and score of the candidates: five neighboring cells of stride 16 per object.
fn objects() -> impl Iterator<Item = (usize, usize, f32)> {
    (0..60).flat_map(|object| {
        let (x, y) = (1 + object % 12 * 3, 2 + object / 12 * 7);
        let cells = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)];
        cells.into_iter().enumerate().map(move |(step, (dx, dy))| {
            (
                6400 + (y + dy) * 40 + x + dx,
                object,
                0.95 - step as f32 * 0.05,
            )
        })
    })
}

/// Center in pixels and stride of a cell.
fn cell(place: usize) -> [f32; 3] {
    let (first, side, stride) = match place {
        0..6400 => (0, 80, 8.0),
        6400..8000 => (6400, 40, 16.0),
        _ => (8000, 20, 32.0),
    };
    let (column, row) = ((place - first) % side, (place - first) / side);
    [
        (column as f32 + 0.5) * stride,
        (row as f32 + 0.5) * stride,
        stride,
    ]
}

/// Background of at most `max`, all numbers different.
fn noise(index: usize, max: f32) -> f32 {
    ((index as u32).wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0 * max
}

fn logit(score: f32) -> f32 {
    (score / (1.0 - score)).ln()
}

/// Rows of `before` numbers, which `head` returns for an index and its score (0 for the background), and of the classes,
/// whose values are computed from their scores.
fn rows(
    before: usize,
    head: impl Fn(usize, f32) -> Vec<f32>,
    class_score: impl Fn(f32) -> f32,
    value: impl Fn(f32) -> f32,
) -> Vec<f32> {
    let mut scores = vec![0.0; BOXES];
    let mut classes = vec![0; BOXES];
    for (place, class, score) in objects() {
        (scores[place], classes[place]) = (score, class);
    }
    let mut rows = Vec::with_capacity(BOXES * (before + CLASSES));
    for place in 0..BOXES {
        let head = head(place, scores[place]);
        assert_eq!(head.len(), before);
        rows.extend(head);
        rows.extend((0..CLASSES).map(|class| {
            let best = scores[place] > 0.0 && class == classes[place];
            value(if best {
                class_score(scores[place])
            } else {
                0.001 + noise(place * CLASSES + class, 0.1)
            })
        }));
    }
    rows
}

/// The same numbers with each column as a plane.
fn planes(rows: &[f32], row_len: usize) -> Vec<f32> {
    let plane = |column| rows.iter().skip(column).step_by(row_len).copied();
    (0..row_len).flat_map(plane).collect()
}

/// Rows of all boxes as the rows of each grid.
fn grids(rows: &[f32], row_len: usize) -> [&[f32]; 3] {
    let (first, rest) = rows.split_at(6400 * row_len);
    let (second, third) = rest.split_at(1600 * row_len);
    [first, second, third]
}

struct Case {
    name: &'static str,
    layout: Arc<dyn OutputLayout>,
    input: Size,
    tensors: Vec<(Vec<usize>, Vec<f32>)>,
}

fn case(
    name: &'static str,
    layout: Arc<dyn OutputLayout>,
    tensors: Vec<(Vec<usize>, Vec<f32>)>,
) -> Case {
    Case {
        name,
        layout,
        input: INPUT,
        tensors,
    }
}

/// Planes of each grid with their axes.
fn planes_from_grids(rows: &[f32], row_len: usize) -> Vec<(Vec<usize>, Vec<f32>)> {
    let grids = grids(rows, row_len).into_iter().zip(SIDES);
    grids
        .map(|(grid, side)| (vec![row_len, side, side], planes(grid, row_len)))
        .collect()
}

fn yolo() -> Vec<Case> {
    let objectness = |score: f32| if score > 0.0 { score } else { 0.1 };
    let full = |_: f32| 1.0;
    let same = |score: f32| score;
    let side = |stride: f32| (2.0 * HALF / stride).ln();
    let yolox = rows(
        5,
        |place, score| {
            let stride = cell(place)[2];
            vec![0.5, 0.5, side(stride), side(stride), objectness(score)]
        },
        full,
        same,
    );
    let center = |place: usize| {
        let [x, y, _] = cell(place);
        vec![x, y, 2.0 * HALF, 2.0 * HALF]
    };
    let yolov5 = rows(
        5,
        |place, score| [center(place), vec![objectness(score)]].concat(),
        full,
        same,
    );
    let yolov8 = planes(&rows(4, |place, _| center(place), same, same), 4 + CLASSES);
    let corners = |place: usize| {
        let [x, y, _] = cell(place);
        [x - HALF, y - HALF, x + HALF, y + HALF].map(|edge| edge / 640.0)
    };
    let darknet = rows(
        5,
        |_, score| vec![0.0, 0.0, 0.0, 0.0, logit(objectness(score).min(0.99))],
        |_| 0.999,
        logit,
    );
    let parameters = DarknetGridsParameters {
        anchors: vec![vec![[2.0 * HALF; 2]]; 3],
        scale_x_y: vec![1.05; 3],
        sizes: SizeFormula::Exponential,
        activation: DetrActivation::Sigmoid,
    };
    vec![
        case(
            "yolox",
            Arc::new(layouts::yolox::YoloxForm::Rows),
            vec![(vec![BOXES, 85], yolox.clone())],
        ),
        case(
            "yolox grids",
            Arc::new(layouts::yolox::YoloxForm::Grids),
            planes_from_grids(&yolox, 85),
        ),
        case(
            "yolov5",
            Arc::new(layouts::yolov5::Rows {
                mask_coefficients: 0,
            }),
            vec![(vec![BOXES, 85], yolov5)],
        ),
        case(
            "yolov8",
            Arc::new(layouts::yolov8::Planes {
                transposed: false,
                mask_coefficients: 0,
                box_unit: BoxUnit::Pixels,
            }),
            vec![(vec![84, BOXES], yolov8)],
        ),
        case(
            "yolov3 and yolov4 boxes",
            Arc::new(layouts::darknet::DecodedBoxes),
            vec![
                (vec![BOXES, 1, 4], (0..BOXES).flat_map(corners).collect()),
                (vec![BOXES, CLASSES], rows(0, |_, _| Vec::new(), same, same)),
            ],
        ),
        case(
            "yolov3 and yolov4 grids",
            Arc::new(parameters),
            planes_from_grids(&darknet, 85),
        ),
    ]
}

fn others() -> Vec<Case> {
    let same = |score: f32| score;
    let scores = rows(0, |_, _| Vec::new(), same, same);
    let distances = |place: usize| [HALF / cell(place)[2]; 4];
    let sides: Vec<f32> = (0..BOXES).flat_map(distances).collect();
    let fcos = [
        planes_from_grids(&scores, CLASSES),
        planes_from_grids(&sides, 4),
    ]
    .concat();
    // The root over its product with the background's scores stays below the threshold.
    let mut centerness: Vec<f32> = vec![0.5; BOXES];
    objects().for_each(|(place, ..)| centerness[place] = 0.9);
    let with_centerness = [fcos.clone(), planes_from_grids(&centerness, 1)].concat();
    // All the weight on the fifth of eight distances.
    let distribution = |_: usize| [[0.0, 0.0, 0.0, 0.0, 0.0, 20.0, 0.0, 0.0]; 4].concat();
    let distributions: Vec<f32> = (0..BOXES).flat_map(distribution).collect();
    let nanodet: Vec<f32> = scores
        .chunks(CLASSES)
        .zip(distributions.chunks(32))
        .flat_map(|(scores, sides)| [scores, sides].concat())
        .collect();
    let separate = |rows: &[f32], row_len: usize| {
        let part = |part: &[f32]| (vec![part.len() / row_len, row_len], part.to_vec());
        grids(rows, row_len).map(part).to_vec()
    };
    let gfl = |tensors, center| {
        Arc::new(GflParameters {
            tensors,
            reg_max: 7,
            center,
        })
    };
    let centers = |place: usize| {
        let [x, y, _] = cell(place);
        vec![x / 640.0, y / 640.0, HALF / 320.0, HALF / 320.0]
    };
    let boxes: Vec<f32> = (0..BOXES).flat_map(centers).collect();
    let anchors = boxes.as_chunks::<4>().0.to_vec();
    let softmax = rows(
        1,
        |_, score| vec![if score > 0.0 { 0.0 } else { 12.0 }],
        |score| score * 9.0 + 1.0,
        same,
    );
    let ssd = Arc::new(SsdParameters {
        boxes: SsdBoxes::Deltas {
            anchors,
            variances: [0.1, 0.1, 0.2, 0.2],
        },
        background: SsdBackground::First,
        activation: SsdActivation::Softmax,
    });
    let fcos_of = |score| Arc::new(FcosParameters { grids: 3, score });
    let queries = DetrParameters::Queries {
        activation: DetrActivation::Sigmoid,
        no_object: false,
    };
    vec![
        case("fcos", fcos_of(FcosScore::Class), fcos),
        case(
            "fcos with centerness",
            fcos_of(FcosScore::Centerness),
            with_centerness,
        ),
        case(
            "nanodet in one tensor",
            gfl(GflTensors::Joined, CellCenter::Corner),
            vec![(vec![BOXES, CLASSES + 32], nanodet)],
        ),
        case(
            "picodet",
            gfl(GflTensors::Separate { grids: 3 }, CellCenter::Middle),
            [separate(&scores, CLASSES), separate(&distributions, 32)].concat(),
        ),
        case(
            "detr, logits",
            Arc::new(queries),
            vec![
                (
                    vec![BOXES, CLASSES],
                    rows(0, |_, _| Vec::new(), same, logit),
                ),
                (vec![BOXES, 4], boxes.clone()),
            ],
        ),
        case(
            "detr, one tensor",
            Arc::new(DetrParameters::Joined),
            vec![(
                vec![BOXES, 84],
                rows(4, |place, _| centers(place), same, same),
            )],
        ),
        case(
            "ssd, softmax",
            ssd,
            vec![
                (vec![BOXES, 4], vec![0.0; BOXES * 4]),
                (vec![BOXES, 81], softmax),
            ],
        ),
        fastestdet(),
        detectnet_v2(),
    ]
}

/// One grid of 100 × 84 cells.
fn fastestdet() -> Case {
    let mut output: Vec<f32> = (0..85 * BOXES).map(|index| noise(index, 0.1)).collect();
    for object in 0..60 {
        for (step, (dx, dy)) in [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
            .into_iter()
            .enumerate()
        {
            let place = (1 + object / 12 * 16 + dy) * 100 + 1 + object % 12 * 8 + dx;
            output[place] = 0.95 - step as f32 * 0.05;
            output[3 * BOXES + place] = logit(HALF / 320.0);
            output[4 * BOXES + place] = logit(HALF / 320.0);
            output[(5 + object) * BOXES + place] = 0.9;
        }
    }
    case(
        "fastestdet",
        Arc::new(layouts::fastestdet::Planes),
        vec![(vec![85, 84, 100], output)],
    )
}

/// One grid of 120 × 70 cells, a plane of it for each class.
fn detectnet_v2() -> Case {
    let mut scores: Vec<f32> = (0..CLASSES * BOXES)
        .map(|index| noise(index, 0.1))
        .collect();
    for (place, class, score) in objects() {
        let (column, row) = ((place - 6400) % 40, (place - 6400) / 40);
        scores[class * BOXES + row * 120 + column] = score;
    }
    let boxes = vec![HALF / 35.0; 4 * CLASSES * BOXES];
    Case {
        input: Size::new(1920, 1120),
        ..case(
            "detectnet_v2",
            Arc::new(DetectNetParameters::default()),
            vec![
                (vec![CLASSES, 70, 120], scores),
                (vec![4 * CLASSES, 70, 120], boxes),
            ],
        )
    }
}

fn layouts(criterion: &mut Criterion) {
    let all = ClassFilter::new(&[], &[]).expect("nothing to look up");
    for case in yolo().into_iter().chain(others()) {
        let element = DType::F32;
        let shape = |(axes, _): &'_ (Vec<usize>, Vec<f32>)| axes.clone();
        let axes: Vec<Vec<usize>> = case.tensors.iter().map(shape).collect();
        let shapes: Vec<TensorShape<'_>> = axes
            .iter()
            .map(|axes| TensorShape { element, axes })
            .collect();
        let head = case
            .layout
            .create_decoder(&NetworkShape::new(case.input, CLASSES, &shapes))
            .unwrap_or_else(|mismatch| panic!("{}: {mismatch:?}", case.name));
        let tensors: Vec<TensorView<'_>> = case
            .tensors
            .iter()
            .map(|(_, numbers)| TensorView::F32(numbers))
            .collect();
        let mut candidates = Vec::new();
        let decoded = head.decode(&tensors, THRESHOLD, &all, &mut candidates);
        assert_eq!(
            (decoded, candidates.len()),
            (DecodeDiagnostics::default(), 300),
            "{}",
            case.name
        );
        let kept = if head.needs_suppression() { 60 } else { 300 };
        let suppress = |candidates: &mut Vec<_>| {
            if head.needs_suppression() {
                nms::non_max_suppression(candidates, IOU, 300);
            } else {
                nms::rank(candidates, 300);
            }
        };
        suppress(&mut candidates);
        assert_eq!(candidates.len(), kept, "{}", case.name);
        criterion.bench_function(&format!("decode and suppress, {}", case.name), |bench| {
            bench.iter(|| {
                let decoded = head.decode(black_box(&tensors), THRESHOLD, &all, &mut candidates);
                suppress(&mut candidates);
                (decoded, candidates.len())
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = layouts
}
criterion_main!(benches);
