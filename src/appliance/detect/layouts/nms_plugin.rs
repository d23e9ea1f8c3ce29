// SPDX-License-Identifier: Apache-2.0
//! Networks that end with an NMS plug-in of TensorRT: `EfficientNMS_TRT` or `BatchedNMS_TRT`. Pure; the only code
//! that knows these layouts. The decoder is that of [`finished`](super::finished).
//!
//! Both give four tensors for at most `K` boxes, best first, of which only the first `count` are valid:
//!
//! ```text
//! count [1]   boxes [K, 4]   scores [K]   classes [K]
//! ```
//!
//! Counts are whole numbers in both. Boxes are corners, whatever coding the plug-in was given. Classes are whole numbers of
//! `EfficientNMS_TRT` and floats of `BatchedNMS_TRT`.

use std::sync::Arc;

use jetwatch_config::{Map, Section};

use super::finished::keys::CORNERS;
use super::finished::{BOXES, CLASSES, COUNT, Finished, FinishedRows, SCORES};
use super::keys::{BoxesAreKey, TensorForm, UNITS, single};
use super::recognize::{self, Certainty, Output, Outputs, Recognized};
use super::{CENTERED, DETECTOR, Layout, OutputLayout};
use crate::decoders::boxes::BoxUnit;
use crate::decoders::tensors::check_axes;
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape};
use crate::graph::Element;

/// The layout of `EfficientNMS_TRT`.
pub(crate) const EFFICIENT_NMS: Layout = Layout {
    name: "efficient_nms",
    networks: "exports with TensorRT's EfficientNMS",
    needs: "four outputs: count int32 [1], boxes [K, 4], scores [K], classes int32 [K]",
    read: |map, _, _| {
        let default = Some(BoxUnit::Pixels);
        Some(Arc::new(read(map, NmsPlugin::Efficient, default)?))
    },
    recognize: |outputs| recognize(outputs, Element::INT32).into_iter().collect(),
    ..BATCHED_NMS
};

/// The layout of `BatchedNMS_TRT`.
pub(crate) const BATCHED_NMS: Layout = Layout {
    name: "batched_nms",
    networks: "exports with TensorRT's BatchedNMS",
    needs: "four outputs: count int32 [1], boxes [K, 4], scores [K], classes float32 [K]",
    input: CENTERED,
    needs_suppression: false,
    tensors: &[TensorForm::Roles(&[
        single(COUNT),
        single(BOXES),
        single(SCORES),
        single(CLASSES),
    ])],
    keys: &[BoxesAreKey::KEYS],
    read: |map, _, _| Some(Arc::new(read(map, NmsPlugin::Batched, None)?)),
    recognize: |outputs| {
        let found = recognize(outputs, Element::FLOAT).map(|found| Recognized {
            parameters: vec![("boxes_are", "pixels".to_owned())],
            ..found
        });
        found.into_iter().collect()
    },
    ..DETECTOR
};

/// The roles in the order of the tensors.
const ROLES: [&str; 4] = [COUNT, BOXES, SCORES, CLASSES];

fn read(map: &Map<'_>, plugin: NmsPlugin, default: Option<BoxUnit>) -> Option<NmsPluginParameters> {
    let box_unit = match (map.get("boxes_are"), default) {
        (Some(node), _) => node.one_of(&UNITS)?,
        (None, Some(unit)) => unit,
        (None, None) => {
            map.missing("boxes_are", "one of pixels, normalized");
            return None;
        }
    };
    Some(NmsPluginParameters { plugin, box_unit })
}

/// Count, boxes, scores, and classes of type `classes_are`, as TensorRT's plug-ins and compatible exporters output them.
pub(super) fn recognize(outputs: &Outputs<'_>, classes_are: Element) -> Option<Recognized> {
    let list = &outputs.list;
    if list.len() != 4 {
        return None;
    }
    let count = list
        .iter()
        .find(|output| output.element == Element::INT32 && output.axes == [Some(1)])?;
    let boxes = list.iter().find(|output| output.is_boxes())?;
    let is_list = |output: &&Output<'_>| output.axes.len() == 1 && output.name != count.name;
    let lists: Vec<&Output<'_>> = list.iter().filter(is_list).collect();
    let [first, second] = lists.as_slice() else {
        return None;
    };
    let (scores, classes) = if first.element == Element::INT32 || first.name.contains("class") {
        (*second, *first)
    } else {
        (*first, *second)
    };
    if !scores.is_float() || classes.element != classes_are {
        return None;
    }
    let plugin = outputs.has_operator(&[
        "EfficientNMS_TRT",
        "BatchedNMS_TRT",
        "BatchedNMSDynamic_TRT",
    ]);
    let (certainty, ends) = match plugin {
        true => (Certainty::Certain, "; it ends with TensorRT's plug-in"),
        false => (Certainty::Likely, ""),
    };
    let reason = format!("a count, boxes {}, scores and classes{ends}", boxes.shape());
    let tensors = vec![
        recognize::single(COUNT, count),
        recognize::single(BOXES, boxes),
        recognize::single(SCORES, scores),
        recognize::single(CLASSES, classes),
    ];
    let classes = outputs.noted_classes();
    Some(Recognized::new(certainty, classes, tensors, reason))
}

/// The tensors as `model.yaml` specifies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NmsPluginParameters {
    /// Which plug-in.
    pub plugin: NmsPlugin,
    /// In which unit its boxes are: the one of the boxes that went into it.
    pub box_unit: BoxUnit,
}

/// Which plug-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NmsPlugin {
    /// `EfficientNMS_TRT`.
    Efficient,
    /// `BatchedNMS_TRT` and `BatchedNMSDynamic_TRT`.
    Batched,
}

impl OutputLayout for NmsPluginParameters {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(self.decoder(network)?))
    }
}

impl NmsPluginParameters {
    /// A decoder for the tensors `shapes`; the greatest number of boxes is theirs.
    ///
    /// # Errors
    /// The tensors are not the four of the plug-in, or differ in the number of boxes.
    pub fn decoder(&self, network: &NetworkShape<'_>) -> Result<Finished, Mismatch> {
        let shapes = network.shapes;
        let advice = "the plug-ins give count, boxes, scores and classes: name their tensors in this order, and choose \
                      between efficient_nms (whole classes) and batched_nms (classes as floats) by the type of classes";
        let layout = FinishedRows::new(&ROLES, &CORNERS, self.box_unit);
        let decoder = Finished::new(&layout, network);
        let decoder = decoder.map_err(|mismatch| Mismatch {
            advice: advice.to_owned(),
            ..mismatch
        })?;
        // The plug-ins have one type each, and no further axes.
        let boxes = shapes[2].axes[0];
        let of_classes = match self.plugin {
            NmsPlugin::Efficient => integer_type(shapes[3].element),
            NmsPlugin::Batched => DType::F32,
        };
        let count = integer_type(shapes[0].element);
        check_axes(shapes, 0, count, &[(Some(1), "count")], advice)?;
        check_axes(shapes, 3, of_classes, &[(Some(boxes), "boxes")], advice)?;
        Ok(decoder)
    }
}

/// The integer type in place of `found`: TensorRT has 32 bits where other runtimes may have 64.
fn integer_type(found: DType) -> DType {
    match found {
        DType::I64 => DType::I64,
        DType::I32 | DType::F32 => DType::I32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::TensorShape;
    use crate::decoders::fixture::check_refused;
    use jetwatch_types::Size;

    const INPUT: Size = Size::new(64, 32);
    const F32: DType = DType::F32;
    const I32: DType = DType::I32;

    fn decoder(
        plugin: NmsPlugin,
        box_unit: BoxUnit,
        elements: [DType; 4],
        boxes: [usize; 3],
    ) -> Result<Finished, Mismatch> {
        let axes = [&[1][..], &[boxes[0], 4], &[boxes[1]], &[boxes[2]]];
        let tensors = elements.into_iter().zip(axes);
        let shapes: Vec<_> = tensors
            .map(|(element, axes)| TensorShape { element, axes })
            .collect();
        NmsPluginParameters { plugin, box_unit }.decoder(&NetworkShape::new(INPUT, 2, &shapes))
    }

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        let pixels = BoxUnit::Pixels;
        let (efficient, batched) = (NmsPlugin::Efficient, NmsPlugin::Batched);
        #[rustfmt::skip]
        let cases = [
            (efficient, [I32, F32, F32, F32], [4, 4, 4], 3, "int32 [4]"),
            (batched, [I32, F32, F32, I32], [4, 4, 4], 3, "float32 [4]"),
            (efficient, [F32, F32, F32, I32], [4, 4, 4], 0, "int32 [1]"),
            (efficient, [I32, I32, F32, I32], [4, 4, 4], 1, "float32 [boxes, 4]"),
            (efficient, [I32, F32, F32, I32], [4, 3, 4], 2, "float32 [4]"),
            (batched, [I32, F32, F32, F32], [4, 4, 5], 3, "float32 [4]"),
        ];
        for (plugin, elements, boxes, tensor, expected) in cases {
            // The types differ from tensor to tensor: those of the case, not the one of the check.
            let make = |_: &[TensorShape<'_>]| decoder(plugin, pixels, elements, boxes);
            check_refused(make, "in this order", &[(&[], F32, tensor, expected)]);
        }
        let wide = [DType::I64, F32, F32, DType::I64];
        assert!(decoder(efficient, pixels, wide, [4; 3]).is_ok());
    }
}
