// SPDX-License-Identifier: Apache-2.0
//! The head of YOLOv5 and YOLOv7 before its decoding: three anchors in each cell of each grid. Pure; [`grids`] decodes it as it
//! does Darknet's.
//!
//! ```text
//! [3, h, w, 5 + C]       the maps of the training's head
//! [3·(5 + C), h, w]      the same before they are divided, perhaps behind a sigmoid (Rockchip's model zoo)
//! ```
//!
//! [`grids`]: super::darknet::grids

use std::sync::Arc;

use jetwatch_config::Section;

use super::darknet::grids::{DarknetGridsParameters, SizeFormula};
use super::darknet::{AnchorsKey, anchors_form, anchors_of};
use super::keys::{ActivationKey, TensorForm, per_grid};
use super::recognize::{self, Certainty, FOUR, Output, Outputs, Recognized, THREE};
use super::yolov8::COCO;
use super::yolov8_raw::{activation, activation_of};
use super::{CENTERED, DETECTOR, Layout};
use crate::decoders::objects::BEFORE_CLASSES;

/// The layout.
pub(crate) const YOLOV5_RAW: Layout = Layout {
    name: "yolov5_raw",
    networks: "YOLOv5, YOLOv7 without their grids",
    needs: "one output [3, height, width, 5 + C] or [3 * (5 + C), height, width] for each stride",
    input: CENTERED,
    tensors: &[TensorForm::Roles(&[per_grid("grids")])],
    keys: &[AnchorsKey::KEYS, ActivationKey::KEYS],
    read: |map, tensors, _| {
        let grids = tensors?.grids;
        let activation = activation(map);
        let Some(node) = map.get("anchors") else {
            map.missing("anchors", &anchors_form(grids));
            return None;
        };
        Some(Arc::new(DarknetGridsParameters {
            anchors: anchors_of(&node, grids)?,
            // Centers are at 2·σ - ½.
            scale_x_y: vec![2.0; grids],
            sizes: SizeFormula::Square,
            activation: activation?,
        }))
    },
    recognize,
    ..DETECTOR
};

/// The published anchors, for growing strides.
const YOLOV5: &str =
    "[[10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119], [116, 90, 156, 198, 373, 326]]";
const YOLOV5_P6: &str = "[[19, 27, 44, 40, 38, 94], [96, 68, 86, 152, 180, 137], [140, 301, 303, 264, 238, 542], \
                         [436, 615, 739, 380, 925, 792]]";
const YOLOV7: &str =
    "[[12, 16, 19, 36, 40, 28], [36, 75, 76, 55, 72, 146], [142, 110, 192, 243, 459, 401]]";

/// Maps of three anchors at the ends of convolutions, in networks without the activations of Darknet's. The anchors are not in the
/// file: YOLOv7 has more poolings than the three of YOLOv5, while YOLOv7-tiny has YOLOv5's anchors.
fn recognize(outputs: &Outputs<'_>) -> Vec<Recognized> {
    let found = [&THREE[..], &FOUR].into_iter().find_map(|strides| {
        let divided = divided(outputs, strides);
        let (numbers, maps) = divided.or_else(|| whole(outputs, strides))?;
        let classes = numbers.checked_sub(BEFORE_CLASSES as u64)?;
        Some((strides, classes, maps)).filter(|_| classes > 0)
    });
    let Some((strides, classes, maps)) = found else {
        return Vec::new();
    };
    let reason = format!(
        "output {} and so on at strides {strides:?}: three anchors with 5 numbers before the classes{}",
        maps[0].shape(),
        outputs.agrees(classes)
    );
    let (key, word) = activation_of(maps[0], false);
    let tensors = vec![recognize::per_grid("grids", &maps)];
    // YOLOX and YOLOv8 join their maps, whose channels may be a multiple of three as well.
    let is_joined = maps[0].axes.len() == 3 && maps[0].made_by == Some("Concat");
    let certainty = match is_joined && classes != COCO {
        true => Certainty::Possible,
        false => outputs.limited(Certainty::Likely, classes),
    };
    let of = |certainty, networks, anchors: &str| Recognized {
        parameters: vec![("anchors", anchors.to_owned()), (key, word.to_owned())],
        origin: Some((networks, CENTERED)),
        ..Recognized::new(certainty, classes, tensors.clone(), reason.clone())
    };
    if strides.len() == FOUR.len() {
        return vec![of(certainty, "YOLOv5 with four strides", YOLOV5_P6)];
    }
    let (v5, v7) = match outputs.network.count("MaxPool") {
        0..=2 => (certainty, certainty),
        3 => (certainty, Certainty::Possible),
        _ if outputs.has_operator(&["LeakyRelu"]) => (certainty, Certainty::Possible),
        _ => (Certainty::Possible, certainty),
    };
    vec![
        of(v5, "YOLOv5, YOLOv7-tiny", YOLOV5),
        of(v7, "YOLOv7", YOLOV7),
    ]
}

/// Numbers of an anchor, and the maps `[3, height, width, numbers]`.
fn divided<'v, 'a>(
    outputs: &'v Outputs<'a>,
    strides: &[u32],
) -> Option<(u64, Vec<&'v Output<'a>>)> {
    let numbers = outputs.list.first()?.axes.get(3).copied()??;
    let map = |stride: &u32| {
        let (width, height) = outputs.grid(*stride);
        let wanted = [3, height, width, numbers].map(Some);
        let fits = |output: &&Output<'a>| output.axes == wanted && output.is_float();
        outputs.list.iter().find(fits)
    };
    let maps: Vec<&Output<'a>> = strides.iter().map(map).collect::<Option<_>>()?;
    (maps.len() == outputs.list.len()).then_some((numbers, maps))
}

/// Numbers of an anchor, and the maps `[3 * numbers, height, width]`, unless they may be Darknet's.
fn whole<'v, 'a>(outputs: &'v Outputs<'a>, strides: &[u32]) -> Option<(u64, Vec<&'v Output<'a>>)> {
    let (channels, maps) = outputs.maps(strides)?;
    let made_by = maps[0].made_by;
    let is_own = outputs.has_silu() && matches!(made_by, Some("Concat" | "Conv" | "Sigmoid"));
    let is_own = is_own && maps[0].joined_channels().is_empty();
    (is_own && channels.is_multiple_of(3)).then_some((channels / 3, maps))
}

#[cfg(test)]
mod tests {
    use super::super::recognize::tests::{guesses, network, origins, tensors};
    use super::*;

    #[test]
    fn raw_heads_are_recognized_with_their_anchors() {
        let (likely, possible) = (Certainty::Likely, Certainty::Possible);
        let divided: [(&str, &[i64]); 3] = [
            ("c", &[1, 3, 20, 20, 85]),
            ("a", &[1, 3, 80, 80, 85]),
            ("b", &[1, 3, 40, 40, 85]),
        ];
        let whole = |operator: &str| -> Vec<(String, [i64; 4])> {
            let map =
                |(name, side): (&str, i64)| (format!("{name}/{operator}"), [1, 255, side, side]);
            [("a", 80), ("b", 40), ("c", 20)].map(map).to_vec()
        };
        let of = |maps: &[(String, [i64; 4])], operators: &[&str]| {
            let outputs = maps.iter().map(|(name, axes)| (name.as_str(), &axes[..]));
            network(&Vec::from_iter(outputs), operators, 0)
        };
        let (raw, finished) = (("activation", "sigmoid"), ("activation", "none"));
        let silu = &["Sigmoid", "Mul"][..];
        let (convolved, finished_maps) = (whole("Conv"), whole("Sigmoid"));
        for (network, activation) in [
            (network(&divided, &[], 0), raw),
            (of(&convolved, silu), raw),
            (of(&finished_maps, silu), finished),
        ] {
            let of = |certainty, anchors| (certainty, [("anchors", anchors), activation]);
            let (v5, v7) = (of(likely, YOLOV5), of(likely, YOLOV7));
            guesses(
                &network,
                "yolov5_raw",
                &[(v5.0, 80, &v5.1), (v7.0, 80, &v7.1)],
            );
            assert_eq!(tensors(&network, "yolov5_raw"), [["a", "b", "c"]]);
        }
        let (v5, v7) = ("YOLOv5, YOLOv7-tiny", "YOLOv7");
        for (pools, operator, wanted) in [
            (3, "Sigmoid", [(likely, v5), (possible, v7)]),
            (8, "Sigmoid", [(likely, v7), (possible, v5)]),
            (8, "LeakyRelu", [(likely, v5), (possible, v7)]),
        ] {
            let mut network = network(&divided, &["MaxPool", operator], 0);
            network.operators[0].count = pools;
            assert_eq!(origins(&network, "yolov5_raw"), wanted);
        }
        // Darknet's activations.
        for operators in [&[][..], &["LeakyRelu", "Sigmoid"], &["Mish", "Sigmoid"]] {
            guesses(&of(&convolved, operators), "yolov5_raw", &[]);
        }
    }
}
