// SPDX-License-Identifier: Apache-2.0
//! Opens a network for the GPU for the first time, and finds out for how many images it runs.
//!
//! Compares it with `model.yaml`, and the network for several images with that for one, on images of noise.

use std::path::Path;
use std::sync::Arc;

use ort::environment::Environment;
use ort::value::{DynValue, Tensor, TensorElementType};

use super::NotOnGpu;
use crate::decoders::DType;
use crate::graph;
use crate::model::{InputElement, ModelSpec};
use crate::ort_session::RunShape;
use crate::{onnx, signature};
use jetwatch_nvidia::cuda::Device;
use jetwatch_nvidia::onnx::{OnnxNetwork, OnnxOutput, ProviderOptions};
use jetwatch_pixels::CHANNELS;

/// Ratio of two numbers of images for which there are sessions: a run wastes less than three quarters of its work, and only
/// when the batches are not full.
const SIZE_STEP: usize = 4;

/// Greatest mean difference of two runs on the same images, as a share of the mean value. The provider multiplies with the
/// 10 bits of TF32, and other numbers of images may have other algorithms.
const MAX_DIFFERENCE: f64 = 0.02;

/// What is needed to open a network for the first time.
pub(super) struct Probe<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) path: &'a Path,
    pub(super) device: &'a Arc<Device>,
    pub(super) environment: &'a Environment,
    /// Whether the file leaves the number of images open.
    pub(super) is_open: bool,
    pub(super) options: ProviderOptions,
    /// The network's file.
    pub(super) bytes: &'a [u8],
    /// Numbers of images, ascending from 1.
    pub(super) sizes: Vec<usize>,
}

/// A network that was opened and run.
pub(super) struct Opened {
    pub(super) network: OnnxNetwork,
    /// Types and shapes of the outputs of a run of one image.
    pub(super) shapes: Vec<RunShape>,
}

impl Probe<'_> {
    /// Opens the network for one image, compares it with `model.yaml`, and then for more. When that fails, or computes
    /// something else, it stays at one image.
    pub(super) fn open(&mut self) -> Result<Opened, NotOnGpu> {
        let opened = self.open_single()?;
        if self.sizes.len() == 1 {
            return Ok(opened.0);
        }
        match self.open_larger(opened) {
            Ok(opened) => Ok(opened),
            Err(reason) => {
                log::info!("the network takes one frame at a time on the GPU: {reason}");
                self.sizes.truncate(1);
                Ok(self.open_single()?.0)
            }
        }
    }

    /// The network for one image, and its outputs for two images of noise.
    fn open_single(&self) -> Result<(Opened, [Vec<OnnxOutput>; 2]), NotOnGpu> {
        let (device, options) = (self.device, self.options);
        let mut network = OnnxNetwork::new(device, self.environment, options)?;
        let bytes = network_for(self.spec, self.bytes, 1)?;
        let (inputs, outputs) = network.add(1, &bytes)?;
        let (inputs, outputs) = (onnx::tensors(inputs), onnx::tensors(outputs));
        signature::check_signature(self.spec, self.path, &inputs, &outputs)?
            .refuse_fixed(self.spec, self.path)?;
        let names = &self.spec.output.tensors;
        let mut run = |index| network.run(1, inputs_of(self.spec, &[index])?, names);
        let computed = [run(0)?, run(1)?];
        let shapes = shapes(names, &computed[0])?;
        // So that an unsupported output is reported before memory is allocated.
        signature::create_decoder(self.spec, self.path, &shapes, 1)?;
        Ok((Opened { network, shapes }, computed))
    }

    /// The same network with the sessions for more images.
    fn open_larger(
        &self,
        (mut opened, single): (Opened, [Vec<OnnxOutput>; 2]),
    ) -> Result<Opened, String> {
        for slots in &self.sizes[1..] {
            let text = |error: ort::Error| error.to_string();
            let bytes =
                network_for(self.spec, self.bytes, *slots).map_err(|error| error.to_string())?;
            opened.network.add(*slots, &bytes).map_err(text)?;
            let images: Vec<usize> = (0..*slots).map(|slot| slot % 2).collect();
            let inputs = inputs_of(self.spec, &images).map_err(text)?;
            let names = &self.spec.output.tensors;
            let found = opened.network.run(*slots, inputs, names).map_err(text)?;
            for (index, (found, name)) in found.iter().zip(names).enumerate() {
                let one = &single[0][index];
                let axes = [&[*slots as i64], &one.axes[1..]].concat();
                if found.axes != axes {
                    let found = &found.axes;
                    return Err(format!("output `{name}` is {found:?}, expected {axes:?}"));
                }
                // The exporter made it for any number of images, so that only rounding can differ.
                if self.is_open || one.floats.is_empty() {
                    continue;
                }
                let len = one.floats.len();
                let parts = found.floats.chunks(len).zip(&images);
                for (part, image) in parts {
                    if !are_close(part, &single[*image][index].floats) {
                        return Err(format!(
                            "output `{name}` of an image depends on the others in a run of {slots}"
                        ));
                    }
                }
            }
        }
        Ok(opened)
    }
}

/// Numbers of images for which there are sessions, ascending from 1 to `batch_size`.
pub(super) fn run_sizes(batch_size: usize) -> Vec<usize> {
    let mut sizes = vec![batch_size];
    while let Some(&last) = sizes.last().filter(|last| **last > 1) {
        sizes.push(last.div_ceil(SIZE_STEP));
    }
    sizes.reverse();
    sizes
}

/// The network in `bytes` for `slots` images.
pub(super) fn network_for(
    spec: &ModelSpec,
    bytes: &[u8],
    slots: usize,
) -> Result<Vec<u8>, NotOnGpu> {
    let further = [&spec.input.sizes_name, &spec.input.scales_name];
    let further = further.into_iter().flatten().map(String::as_str);
    let inputs: Vec<&str> = std::iter::once(spec.input.name.as_str())
        .chain(further)
        .collect();
    graph::with_batch(bytes, &inputs, slots).map_err(NotOnGpu::File)
}

/// Types and shapes of `outputs`.
fn shapes(names: &[String], outputs: &[OnnxOutput]) -> Result<Vec<RunShape>, NotOnGpu> {
    let shape = |(name, output): (&String, &OnnxOutput)| {
        let element = match output.element {
            TensorElementType::Float32 => DType::F32,
            TensorElementType::Int32 => DType::I32,
            TensorElementType::Int64 => DType::I64,
            other => return Err(NotOnGpu::Output(name.clone(), other)),
        };
        // The axes of an actual tensor are never negative.
        let axes = output.axes.iter().map(|axis| *axis as usize).collect();
        Ok(RunShape { element, axes })
    };
    names.iter().zip(outputs).map(shape).collect()
}

/// Inputs of a run on images of noise with these numbers.
fn inputs_of(spec: &ModelSpec, images: &[usize]) -> ort::Result<Vec<(String, DynValue)>> {
    let size = spec.input.size;
    let (height, width) = (size.height as usize, size.width as usize);
    let plane = height * width;
    let shape = [images.len(), CHANNELS, height, width];
    let bytes: Vec<u8> = images
        .iter()
        .flat_map(|image| noise(CHANNELS * plane, *image))
        .collect();
    let tensor: DynValue = match spec.input.element {
        InputElement::Uint8 => Tensor::from_array((shape, bytes))?.into_dyn(),
        InputElement::Float32 => {
            let value = |(index, byte): (usize, &u8)| {
                let channel = index / plane % CHANNELS;
                (f32::from(*byte) - spec.input.mean[channel]) * spec.input.scale[channel]
            };
            let floats: Vec<f32> = bytes.iter().enumerate().map(value).collect();
            Tensor::from_array((shape, floats))?.into_dyn()
        }
    };
    let mut inputs = vec![(spec.input.name.clone(), tensor)];
    let pairs = [images.len(), 2];
    if let Some(name) = &spec.input.sizes_name {
        let sizes = [i64::from(size.width), i64::from(size.height)].repeat(images.len());
        inputs.push((name.clone(), Tensor::from_array((pairs, sizes))?.into_dyn()));
    }
    if let Some(name) = &spec.input.scales_name {
        let scales = vec![1.0_f32; 2 * images.len()];
        inputs.push((
            name.clone(),
            Tensor::from_array((pairs, scales))?.into_dyn(),
        ));
    }
    Ok(inputs)
}

/// `len` bytes of noise; another image for each number. Every second one is darker: images of the same mean could be mixed
/// unnoticed.
pub(super) fn noise(len: usize, image: usize) -> Vec<u8> {
    let seed = (image as u32).wrapping_mul(0x9e37_79b9);
    let darker = if image % 2 == 1 { 2 } else { 0 };
    (0..len as u32)
        .map(|index| index.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24)
        .map(|byte| (byte >> darker) as u8)
        .collect()
}

/// Whether two runs computed the same up to rounding.
pub(super) fn are_close(found: &[f32], expected: &[f32]) -> bool {
    let pairs = found.iter().zip(expected);
    let difference: f64 = pairs.map(|(a, b)| f64::from((a - b).abs())).sum();
    let total: f64 = expected.iter().map(|value| f64::from(value.abs())).sum();
    found.len() == expected.len() && difference <= MAX_DIFFERENCE * total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_for_one_image_to_a_full_batch() {
        assert_eq!(run_sizes(1), [1]);
        assert_eq!(run_sizes(2), [1, 2]);
        assert_eq!(run_sizes(5), [1, 2, 5]);
        assert_eq!(run_sizes(16), [1, 4, 16]);
        assert_eq!(run_sizes(64), [1, 4, 16, 64]);
    }

    #[test]
    fn rounding_is_told_from_other_results() {
        let values: Vec<f32> = (0..100).map(|index| index as f32).collect();
        let rounded: Vec<f32> = values.iter().map(|value| value * 1.001).collect();
        let shifted: Vec<f32> = values.iter().map(|value| value + 5.0).collect();
        assert!(are_close(&rounded, &values) && are_close(&values, &values));
        assert!(!are_close(&shifted, &values));
        assert!(!are_close(&values[..99], &values));
        assert!(!are_close(&[f32::NAN], &[1.0]));
        let mean = |image| {
            noise(1000, image)
                .iter()
                .map(|byte| u32::from(*byte))
                .sum::<u32>()
                / 1000
        };
        assert!(mean(0) > 100 && mean(1) < 50 && noise(64, 0) != noise(64, 2));
    }
}
