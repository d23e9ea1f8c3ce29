// SPDX-License-Identifier: Apache-2.0
//! A network as the bytes of the fuzzer draw it: a layout with its parameters, an input, and the tensors of one picture.
//!
//! Most networks drawn have the tensors that their layout wants, or nothing behind the checks of a head would be reached;
//! some have an axis or a type too few, too many or changed. It judges nothing. Called by the target `layouts`.

use std::sync::Arc;

use jetwatch_detect::decoders::DType;
use jetwatch_detect::decoders::boxes::BoxUnit;
use jetwatch_detect::layouts::darknet::grids::{DarknetGridsParameters, SizeFormula};
use jetwatch_detect::layouts::detectnet_v2::DetectNetParameters;
use jetwatch_detect::layouts::detr::{DetrActivation, DetrParameters};
use jetwatch_detect::layouts::fcos::{FcosParameters, FcosScore};
use jetwatch_detect::layouts::gfl::{CellCenter, GflParameters, GflTensors};
use jetwatch_detect::layouts::ssd::{SsdActivation, SsdBackground, SsdBoxes, SsdParameters};
use jetwatch_detect::layouts::yolo_nas::YoloNasForm;
use jetwatch_detect::layouts::yolov8_raw::{DistancesAre, GridsBeginWith, RawHead};
use jetwatch_detect::layouts::{self, OutputLayout};
use jetwatch_types::Size;
use libfuzzer_sys::arbitrary::{Result, Unstructured};

use super::numbers::Tensor;

use DType::{F32, I32, I64};

/// Longest side of an input, in pixels, and most classes: more would only be slower.
const MAX_SIDE: u32 = 96;
const MAX_CLASSES: usize = 10;

/// Most rows of a tensor whose rows are the exporter's choice.
const MAX_ROWS: usize = 150;

/// A network and what it gives for one picture.
#[derive(Debug)]
pub struct Drawn {
    pub layout: Arc<dyn OutputLayout>,
    pub input: Size,
    pub classes: usize,
    pub tensors: Vec<Tensor>,
}

impl Drawn {
    /// Fails when a tensor would be too large.
    pub fn new(bytes: &mut Unstructured<'_>) -> Result<Self> {
        let classes = bytes.int_in_range(1..=MAX_CLASSES)?;
        // Every layout's multiple divides 32; those with a smaller one take any size.
        let side = |bytes: &mut Unstructured<'_>, multiple: u32| -> Result<u32> {
            Ok(bytes
                .int_in_range(32..=MAX_SIDE)?
                .next_multiple_of(multiple))
        };
        let family = bytes.int_in_range(0..=18)?;
        let multiple = match family {
            0 | 1 | 5 => 32,
            14 | 15 => 16,
            _ => 1,
        };
        let input = Size::new(side(bytes, multiple)?, side(bytes, multiple)?);
        let (layout, mut shapes) = layout(bytes, family, input, classes)?;
        assert_eq!(layout.side_multiple(), multiple, "{layout:?}");
        // Three of four draws spoil nothing.
        for _ in 6..=bytes.int_in_range(0..=7)? {
            spoil(bytes, &mut shapes)?;
        }
        let tensors = shapes
            .into_iter()
            .map(|(element, axes)| Tensor::new(bytes, element, axes, classes))
            .collect::<Result<_>>()?;
        Ok(Self {
            layout,
            input,
            classes,
            tensors,
        })
    }
}

type Shapes = Vec<(DType, Vec<usize>)>;

/// The layout with this number, and tensors that fit it.
fn layout(
    bytes: &mut Unstructured<'_>,
    family: u32,
    input: Size,
    classes: usize,
) -> Result<(Arc<dyn OutputLayout>, Shapes)> {
    let rows = |bytes: &mut Unstructured<'_>| bytes.int_in_range(0..=MAX_ROWS);
    let (layout, shapes): (Arc<dyn OutputLayout>, Vec<Vec<usize>>) = match family {
        0 => {
            let rows = [8, 16, 32].map(|stride| cells(input, stride)).iter().sum();
            (
                Arc::new(layouts::yolox::YoloxForm::Rows),
                vec![vec![rows, 5 + classes]],
            )
        }
        1 => {
            let strides = strides(bytes, 8, 3)?;
            (
                Arc::new(layouts::yolox::YoloxForm::Grids),
                planes(input, &strides, 5 + classes),
            )
        }
        2 => (
            Arc::new(layouts::yolov5::Rows {
                mask_coefficients: 2,
            }),
            vec![vec![rows(bytes)?, 7 + classes]],
        ),
        3 => {
            let transposed = bytes.arbitrary()?;
            let mut shape = vec![6 + classes, rows(bytes)?];
            if transposed {
                shape.reverse();
            }
            let planes = layouts::yolov8::Planes {
                transposed,
                mask_coefficients: 2,
                box_unit: BoxUnit::Pixels,
            };
            (Arc::new(planes), vec![shape])
        }
        4 => {
            let rows = rows(bytes)?;
            let boxes = match bytes.arbitrary()? {
                true => vec![rows, 1, 4],
                false => vec![rows, 4],
            };
            (
                Arc::new(layouts::darknet::DecodedBoxes),
                vec![boxes, vec![rows, classes]],
            )
        }
        5 => darknet_grids(bytes, input, classes)?,
        6 => {
            let strides = strides(bytes, 4, 5)?;
            let score = *bytes.choose(&[FcosScore::Class, FcosScore::Centerness])?;
            let mut shapes = planes(input, &strides, classes);
            shapes.extend(planes(input, &strides, 4));
            if score == FcosScore::Centerness {
                shapes.extend(planes(input, &strides, 1));
            }
            let grids = strides.len();
            (Arc::new(FcosParameters { grids, score }), shapes)
        }
        7 => {
            let activations = [
                DetrActivation::Sigmoid,
                DetrActivation::Softmax,
                DetrActivation::None,
            ];
            let activation = *bytes.choose(&activations)?;
            let no_object = bytes.arbitrary()?;
            let rows = rows(bytes)?;
            let parameters = DetrParameters::Queries {
                activation,
                no_object,
            };
            let has_rest = no_object || activation == DetrActivation::Softmax;
            let columns = classes + usize::from(has_rest);
            (
                Arc::new(parameters),
                vec![vec![rows, columns], vec![rows, 4]],
            )
        }
        8 => (
            Arc::new(DetrParameters::Joined),
            vec![vec![rows(bytes)?, 4 + classes]],
        ),
        9 => return ranked(bytes),
        11 | 12 => gfl(bytes, family == 11, input, classes)?,
        10 | 13 => (
            Arc::new(layouts::finished::FinishedRows::paddle()),
            vec![vec![rows(bytes)?, 6]],
        ),
        14 => {
            let parameters = DetectNetParameters {
                box_norm: *bytes.choose(&[35.0, 0.01, 1000.0])?,
                offset: *bytes.choose(&[0.5, -64.0, 64.0])?,
            };
            let stride = *bytes.choose(&[16, 8, 32])?;
            let mut shapes = planes(input, &[stride], classes);
            shapes.extend(planes(input, &[stride], 4 * classes));
            (Arc::new(parameters), shapes)
        }
        15 => {
            let (h, w) = (bytes.int_in_range(0..=14)?, bytes.int_in_range(0..=14)?);
            (
                Arc::new(layouts::fastestdet::Planes),
                vec![vec![5 + classes, h, w]],
            )
        }
        16 => ssd(bytes, classes)?,
        17 => {
            let rows = rows(bytes)?;
            let (form, shapes) = match bytes.int_in_range(0..=2)? {
                0 => (YoloNasForm::Joined, vec![vec![rows, 4 + classes]]),
                1 => (
                    YoloNasForm::Separate,
                    vec![vec![rows, 4], vec![rows, classes]],
                ),
                _ => (
                    YoloNasForm::Separate,
                    vec![vec![rows, 4], vec![classes, rows]],
                ),
            };
            (Arc::new(form), shapes)
        }
        _ => raw_head(bytes, input, classes)?,
    };
    Ok((layout, shapes.into_iter().map(|axes| (F32, axes)).collect()))
}

fn raw_head(
    bytes: &mut Unstructured<'_>,
    input: Size,
    classes: usize,
) -> Result<(Arc<dyn OutputLayout>, Vec<Vec<usize>>)> {
    let head = RawHead {
        are_joined: bytes.arbitrary()?,
        activation: *bytes.choose(&[DetrActivation::Sigmoid, DetrActivation::None])?,
        distances: *bytes.choose(&[
            DistancesAre::Strides,
            DistancesAre::Pixels,
            DistancesAre::CornerStrides,
        ])?,
        grids_begin_with: *bytes.choose(&[
            GridsBeginWith::Boxes,
            GridsBeginWith::BoxesAndMaximum,
            GridsBeginWith::Scores,
        ])?,
    };
    let strides = strides(bytes, 4, 4)?;
    let of_sides = 4 * bytes.int_in_range(1..=16)?;
    let mut shapes = match head.are_joined {
        true => {
            let maximum = usize::from(head.grids_begin_with == GridsBeginWith::BoxesAndMaximum);
            planes(input, &strides, of_sides + maximum + classes)
        }
        false => {
            let scores = planes(input, &strides, classes);
            [scores, planes(input, &strides, of_sides)].concat()
        }
    };
    if bytes.arbitrary()? {
        // Channels last.
        shapes.iter_mut().for_each(|axes| axes.rotate_left(1));
    }
    Ok((Arc::new(head), shapes))
}

fn darknet_grids(
    bytes: &mut Unstructured<'_>,
    input: Size,
    classes: usize,
) -> Result<(Arc<dyn OutputLayout>, Vec<Vec<usize>>)> {
    let mut strides = strides(bytes, 8, 3)?;
    if bytes.arbitrary()? {
        strides.reverse();
    }
    let mut parameters = DarknetGridsParameters {
        anchors: Vec::new(),
        scale_x_y: Vec::new(),
        sizes: *bytes.choose(&[SizeFormula::Exponential, SizeFormula::Square])?,
        activation: *bytes.choose(&[DetrActivation::Sigmoid, DetrActivation::None])?,
    };
    let are_rows: bool = bytes.arbitrary()?;
    let mut shapes = Vec::new();
    for stride in strides {
        let count = bytes.int_in_range(1..=3)?;
        let anchors: Vec<[f32; 2]> = (0..count)
            .map(|_| Ok(*bytes.choose(&[[10.0, 14.0], [1.0, 8192.0], [344.0, 319.0]])?))
            .collect::<Result<_>>()?;
        parameters.anchors.push(anchors);
        parameters.scale_x_y.push(*bytes.choose(&[1.0, 1.05, 2.0])?);
        shapes.extend(match are_rows {
            true => {
                let [h, w] = sides(input, stride);
                vec![vec![count, h, w, 5 + classes]]
            }
            false => planes(input, &[stride], count * (5 + classes)),
        });
    }
    Ok((Arc::new(parameters), shapes))
}

fn ranked(bytes: &mut Unstructured<'_>) -> Result<(Arc<dyn OutputLayout>, Shapes)> {
    let rows = bytes.int_in_range(0..=MAX_ROWS)?;
    let whole = *bytes.choose(&[I64, I32])?;
    let shapes = vec![(whole, vec![rows]), (F32, vec![rows, 4]), (F32, vec![rows])];
    Ok((Arc::new(DetrParameters::Ranked), shapes))
}

fn gfl(
    bytes: &mut Unstructured<'_>,
    is_joined: bool,
    input: Size,
    classes: usize,
) -> Result<(Arc<dyn OutputLayout>, Vec<Vec<usize>>)> {
    let reg_max = bytes.int_in_range(1..=16)?;
    let sides = 4 * (reg_max + 1);
    let strides = strides(bytes, 8, 4)?;
    let all: Vec<usize> = strides.iter().map(|stride| cells(input, *stride)).collect();
    let (tensors, center, shapes) = if is_joined {
        let shapes = vec![vec![all.iter().sum(), classes + sides]];
        (GflTensors::Joined, CellCenter::Corner, shapes)
    } else {
        let of = |len: usize| all.iter().map(move |cells| vec![*cells, len]);
        let shapes = of(classes).chain(of(sides)).collect();
        let grids = all.len();
        (GflTensors::Separate { grids }, CellCenter::Middle, shapes)
    };
    let parameters = GflParameters {
        tensors,
        reg_max,
        center,
    };
    Ok((Arc::new(parameters), shapes))
}

fn ssd(
    bytes: &mut Unstructured<'_>,
    classes: usize,
) -> Result<(Arc<dyn OutputLayout>, Vec<Vec<usize>>)> {
    let rows = bytes.int_in_range(0..=MAX_ROWS)?;
    let background = *bytes.choose(&[
        SsdBackground::First,
        SsdBackground::Last,
        SsdBackground::None,
    ])?;
    let activation = *bytes.choose(&[
        SsdActivation::Softmax,
        SsdActivation::Sigmoid,
        SsdActivation::None,
    ])?;
    let boxes = match bytes.int_in_range(0..=2)? {
        0 => SsdBoxes::Deltas {
            anchors: vec![[0.5, 0.25, *bytes.choose(&[0.3, 1e-6, 10.0])?, 0.2]; rows],
            variances: *bytes.choose(&[[0.1, 0.1, 0.2, 0.2], [100.0; 4]])?,
        },
        1 => SsdBoxes::Decoded(BoxUnit::Pixels),
        _ => SsdBoxes::Decoded(BoxUnit::Normalized),
    };
    let row_len = classes + usize::from(background != SsdBackground::None);
    let parameters = SsdParameters {
        boxes,
        background,
        activation,
    };
    Ok((
        Arc::new(parameters),
        vec![vec![rows, 4], vec![rows, row_len]],
    ))
}

/// Strides that double, from `first` on, at most `most` of them and at least one.
fn strides(bytes: &mut Unstructured<'_>, first: u32, most: u32) -> Result<Vec<u32>> {
    let count = most - bytes.int_in_range(0..=most - 1)?;
    Ok((0..count).map(|power| first << power).collect())
}

fn cells(input: Size, stride: u32) -> usize {
    (input.width.div_ceil(stride) * input.height.div_ceil(stride)) as usize
}

/// `[count, h, w]` for each stride.
fn planes(input: Size, strides: &[u32], count: usize) -> Vec<Vec<usize>> {
    let axes = |stride: &u32| {
        let [h, w] = sides(input, *stride);
        vec![count, h, w]
    };
    strides.iter().map(axes).collect()
}

/// Height and width of the grid of `stride`.
fn sides(input: Size, stride: u32) -> [usize; 2] {
    [input.height, input.width].map(|side| side.div_ceil(stride) as usize)
}

/// Changes one thing about the tensors.
fn spoil(bytes: &mut Unstructured<'_>, shapes: &mut Shapes) -> Result<()> {
    if shapes.is_empty() {
        return Ok(());
    }
    let place = bytes.choose_index(shapes.len())?;
    let (element, axes) = &mut shapes[place];
    match bytes.int_in_range(0..=6)? {
        0 => *element = *bytes.choose(&[F32, I32, I64])?,
        1 => axes.push(bytes.int_in_range(0..=4)?),
        2 => drop(axes.pop()),
        3 if !axes.is_empty() => {
            let axis = bytes.choose_index(axes.len())?;
            axes[axis] = bytes.int_in_range(0..=2 * MAX_ROWS)?;
        }
        4 => drop(shapes.remove(place)),
        5 => {
            let copy = shapes[place].clone();
            shapes.push(copy);
        }
        _ => axes.reverse(),
    }
    Ok(())
}
