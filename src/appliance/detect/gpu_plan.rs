// SPDX-License-Identifier: Apache-2.0
//! Plan of an execution on the GPU: how images become the input tensor, constant inputs, sizes of the outputs. Pure.

use jetwatch_nvidia::cuda::{self, PixelFormat, PlaneOrder, TensorFormat};
use jetwatch_nvidia::session::{ConstantPlan, InputPlan, InputSource, OutputPlan, Plan};
use jetwatch_types::Size;

use super::decoders::DType;
use super::model::{ColorOrder, InputElement, InputSpec, ModelSpec};
use super::ort_session::RunShape;

/// Width and height as 64-bit integers.
pub(super) fn long_sizes(size: Size) -> Vec<u8> {
    [size.width, size.height]
        .map(|number| i64::from(number).to_ne_bytes())
        .concat()
}

/// Inputs and outputs of runs of at most `slots` images. `sizes` are the bytes of the second input for one image, if the network
/// has it; `shapes` those of the outputs in a run of `slots` images.
pub(super) fn image_plan(
    spec: &ModelSpec,
    sizes: Vec<u8>,
    shapes: &[RunShape],
    slots: usize,
) -> Plan {
    let InputSpec {
        name,
        element,
        size,
        color,
        mean,
        scale,
        padding,
        ..
    } = &spec.input;
    let tensor = TensorFormat {
        width: size.width,
        height: size.height,
        element: match element {
            InputElement::Float32 => cuda::Element::F32,
            InputElement::Uint8 => cuda::Element::U8,
        },
        order: match color {
            ColorOrder::Bgr => PlaneOrder::Bgr,
            ColorOrder::Rgb => PlaneOrder::Rgb,
        },
        mean: *mean,
        scale: *scale,
        padding: *padding,
    };
    let mut constants = Vec::new();
    if let Some(name) = &spec.input.sizes_name {
        let bytes = sizes;
        let name = name.clone();
        constants.push(ConstantPlan { name, bytes });
    }
    if let Some(name) = &spec.input.scales_name {
        let bytes = [1.0_f32; 2].map(f32::to_ne_bytes).concat();
        let name = name.clone();
        constants.push(ConstantPlan { name, bytes });
    }
    let outputs = spec.output.tensors.iter().zip(shapes);
    Plan {
        input: InputPlan {
            name: name.clone(),
            source: InputSource::Images {
                pixels: PixelFormat::Bgrx,
                tensor,
            },
        },
        constants,
        outputs: outputs
            .map(|(name, shape)| OutputPlan {
                name: name.clone(),
                bytes_per_image: bytes_per_image(shape, slots),
            })
            .collect(),
        batch: slots,
        graphs: true,
    }
}

fn bytes_per_image(shape: &RunShape, slots: usize) -> usize {
    let bytes = match shape.element {
        DType::F32 | DType::I32 => 4,
        DType::I64 => 8,
    };
    shape.axes.iter().product::<usize>() / slots * bytes
}
