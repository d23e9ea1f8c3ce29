//! The layers of Darknet as ONNX operators. Pure.
//!
//! `[yolo]` is in [`network`](super::network): it computes nothing.

use super::DarknetError;
use super::config::Section;
use super::network::{Builder, Shape};
use crate::onnx_writer::{Attribute, Values};

/// Names of the sections, for the error that reports another one.
const KNOWN: &str =
    "[convolutional], [maxpool], [route], [shortcut], [upsample], [dropout], [yolo]";

/// Added to the variance in batch normalization.
const EPSILON: f64 = 1e-5;

/// Slope of `leaky` below 0.
const LEAKY_SLOPE: f32 = 0.1;

impl Builder<'_> {
    /// Adds the layer of a section.
    pub(super) fn add(&mut self, section: &Section<'_>) -> Result<(), DarknetError> {
        match section.name {
            "convolutional" | "conv" => self.convolution(section),
            "maxpool" | "max" => self.max_pool(section),
            "route" => self.route(section),
            "shortcut" => self.shortcut(section),
            "upsample" => self.upsample(section),
            // Only in training.
            "dropout" => {
                let (input, shape) = self.previous(section)?;
                self.push(section, input, shape)
            }
            "yolo" => self.grid(section),
            other => Err(DarknetError::at(
                section.line,
                format!("section [{other}] is not supported; known are {KNOWN}"),
            )),
        }
    }

    fn convolution(&mut self, section: &Section<'_>) -> Result<(), DarknetError> {
        section.only(&[
            "batch_normalize",
            "filters",
            "size",
            "stride",
            "stride_x",
            "stride_y",
            "pad",
            "padding",
            "groups",
            "dilation",
            "activation",
            "stopbackward",
            "dont_update",
            "burnin_update",
            "train_only_bn",
        ])?;
        let (input, [channels, height, width]) = self.previous(section)?;
        let filters = section.length("filters", 1)?;
        let size = section.length("size", 1)?;
        let [stride_y, stride_x] = strides(section)?;
        let groups = section.length("groups", 1)?;
        let dilation = section.length("dilation", 1)?;
        let pad = match section.whole("pad", 0)? {
            0 => section.whole("padding", 0)?,
            _ => size / 2,
        };
        if !channels.is_multiple_of(groups) || !filters.is_multiple_of(groups) {
            let reason = format!(
                "found groups={groups} with {filters} filters on {channels} channels, expected a divisor of both"
            );
            return Err(section.error("groups", reason));
        }
        let pads = pad.saturating_mul(dilation);
        let reach = (size - 1).saturating_mul(dilation) + 1;
        let side = |side: usize, stride: usize| {
            let padded = side.saturating_add(pads.saturating_mul(2));
            Some(padded.checked_sub(reach)? / stride + 1)
        };
        let sides = side(height, stride_y).zip(side(width, stride_x));
        let Some((rows, columns)) = sides else {
            let reason = format!(
                "[convolutional] with size={size} does not fit its input of {width}×{height} cells"
            );
            return Err(DarknetError::at(section.line, reason));
        };

        let normalizes = section.whole("batch_normalize", 0)? != 0;
        let index = self.index();
        let line = section.line;
        let layer = || {
            format!(
                "layer {index}, [convolutional] in line {line} ({filters} filters of {size}×{size} on {} channels)",
                channels / groups
            )
        };
        let mut bias = self.weights.take(filters, &layer)?;
        let normalization = match normalizes {
            false => None,
            true => Some([
                self.weights.take(filters, &layer)?,
                self.weights.take(filters, &layer)?,
                self.weights.take(filters, &layer)?,
            ]),
        };
        let of_filter = size
            .checked_mul(size)
            .and_then(|cells| cells.checked_mul(channels / groups));
        let count = of_filter.and_then(|numbers| numbers.checked_mul(filters));
        let (Some(of_filter), Some(count)) = (of_filter, count) else {
            return Err(DarknetError::at(line, "it has too many weights"));
        };
        let mut weights = self.weights.take(count, &layer)?;
        if let Some([scales, means, variances]) = normalization {
            for (filter, weights) in weights.chunks_exact_mut(of_filter).enumerate() {
                let variance = f64::from(variances[filter]);
                if variance < 0.0 {
                    return Err(DarknetError::Weights(format!(
                        "found a variance of {variance} in {}; the file belongs to another .cfg",
                        layer()
                    )));
                }
                // In 64 bits, so that each product is rounded once.
                let factor = f64::from(scales[filter]) / (variance + EPSILON).sqrt();
                for weight in weights {
                    *weight = (f64::from(*weight) * factor) as f32;
                }
                bias[filter] = (f64::from(bias[filter]) - f64::from(means[filter]) * factor) as f32;
            }
        }

        let [weight_name, bias_name, sum] =
            ["weight", "bias", "sum"].map(|part| format!("layer_{index}.{part}"));
        self.constant(
            &weight_name,
            &[filters, channels / groups, size, size],
            Values::Floats(weights),
        );
        self.constant(&bias_name, &[filters], Values::Floats(bias));
        self.node(
            "Conv",
            &[&input, &weight_name, &bias_name],
            &sum,
            vec![
                ("dilations", wholes(&[dilation; 2])),
                ("group", Attribute::Whole(groups as i64)),
                ("kernel_shape", wholes(&[size; 2])),
                ("pads", wholes(&[pads; 4])),
                ("strides", wholes(&[stride_y, stride_x])),
            ],
        );
        let name = self.activate(section, sum, "logistic")?;
        self.push(section, name, [filters, rows, columns])
    }

    /// Applies the activation of a section; returns the name of the result.
    fn activate(
        &mut self,
        section: &Section<'_>,
        input: String,
        default: &str,
    ) -> Result<String, DarknetError> {
        let index = self.index();
        let part = |part: &str| format!("layer_{index}.{part}");
        let output = part("result");
        match section.text("activation").unwrap_or(default) {
            "linear" => return Ok(input),
            "leaky" => {
                let slope = vec![("alpha", Attribute::Float(LEAKY_SLOPE))];
                self.node("LeakyRelu", &[&input], &output, slope);
            }
            "relu" => self.node("Relu", &[&input], &output, Vec::new()),
            "logistic" => self.node("Sigmoid", &[&input], &output, Vec::new()),
            "swish" => {
                let gate = part("gate");
                self.node("Sigmoid", &[&input], &gate, Vec::new());
                self.node("Mul", &[&input, &gate], &output, Vec::new());
            }
            // x · tanh(ln(1 + eˣ)); an operator of its own comes with a later operator set only.
            "mish" => {
                let (soft, gate) = (part("softplus"), part("gate"));
                self.node("Softplus", &[&input], &soft, Vec::new());
                self.node("Tanh", &[&soft], &gate, Vec::new());
                self.node("Mul", &[&input, &gate], &output, Vec::new());
            }
            other => {
                let reason = format!(
                    "activation={other} is not supported; known are linear, leaky, relu, logistic, swish, mish"
                );
                return Err(section.error("activation", reason));
            }
        }
        Ok(output)
    }

    /// Windows begin half of `padding`, rounded down, before the image; by default that is one less than the size.
    fn max_pool(&mut self, section: &Section<'_>) -> Result<(), DarknetError> {
        section.only(&[
            "size",
            "stride",
            "stride_x",
            "stride_y",
            "padding",
            "maxpool_depth",
            "out_channels",
            "antialiasing",
        ])?;
        section.reject(&[("maxpool_depth", "0"), ("antialiasing", "0")])?;
        let (input, [channels, height, width]) = self.previous(section)?;
        let [stride_y, stride_x] = strides(section)?;
        let size = section.length("size", stride_x)?;
        let padding = section.whole("padding", size - 1)?;
        let (before, after) = (padding / 2, padding.div_ceil(2));
        if after >= size {
            let reason =
                format!("found padding={padding}, expected less than twice the size, {size}");
            return Err(section.error("padding", reason));
        }
        let side =
            |side: usize, stride: usize| Some((side + padding).checked_sub(size)? / stride + 1);
        let Some((rows, columns)) = side(height, stride_y).zip(side(width, stride_x)) else {
            let reason = format!(
                "[maxpool] with size={size} does not fit its input of {width}×{height} cells"
            );
            return Err(DarknetError::at(section.line, reason));
        };
        let name = format!("layer_{}.result", self.index());
        self.node(
            "MaxPool",
            &[&input],
            &name,
            vec![
                ("kernel_shape", wholes(&[size; 2])),
                ("pads", wholes(&[before, before, after, after])),
                ("strides", wholes(&[stride_y, stride_x])),
            ],
        );
        self.push(section, name, [channels, rows, columns])
    }

    /// The channels of several layers one behind the other, or of each one group only.
    fn route(&mut self, section: &Section<'_>) -> Result<(), DarknetError> {
        section.only(&["layers", "groups", "group_id", "stopbackward"])?;
        let inputs = self.listed(section, "layers")?;
        let groups = section.length("groups", 1)?;
        let group = section.whole("group_id", 0)?;
        if group >= groups {
            let reason = format!("found group_id={group}, expected 0 to {}", groups - 1);
            return Err(section.error("group_id", reason));
        }
        let index = self.index();
        let [_, height, width] = inputs[0].1;
        let (mut names, mut sum) = (Vec::with_capacity(inputs.len()), 0);
        for (place, (name, shape)) in inputs.iter().enumerate() {
            if shape[1..] != [height, width] {
                let reason = format!(
                    "[route] joins results of {width}×{height} and {}×{} cells, expected equal sizes; width and height of [net] must be \
                     multiples of the greatest stride, mostly 32",
                    shape[2], shape[1]
                );
                return Err(section.error("layers", reason));
            }
            if !shape[0].is_multiple_of(groups) {
                let reason = format!(
                    "found groups={groups} for {} channels, expected a divisor",
                    shape[0]
                );
                return Err(section.error("groups", reason));
            }
            let channels = shape[0] / groups;
            sum += channels;
            if groups == 1 {
                names.push(name.clone());
                continue;
            }
            let part = format!("layer_{index}.part_{place}");
            let bounds = [
                ("from", group * channels),
                ("to", (group + 1) * channels),
                ("axis", 1),
            ];
            let bounds = bounds.map(|(word, value)| {
                let constant = format!("{part}.{word}");
                self.constant(&constant, &[1], Values::Wholes(vec![value as i64]));
                constant
            });
            let [from, to, axis] = &bounds;
            self.node("Slice", &[name, from, to, axis], &part, Vec::new());
            names.push(part);
        }
        let name = match names.as_slice() {
            [one] => one.clone(),
            names => {
                let joined = format!("layer_{index}.result");
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let axis = vec![("axis", Attribute::Whole(1))];
                self.node("Concat", &names, &joined, axis);
                joined
            }
        };
        self.push(section, name, [sum, height, width])
    }

    /// The sum of the layer before and others.
    fn shortcut(&mut self, section: &Section<'_>) -> Result<(), DarknetError> {
        section.only(&[
            "from",
            "activation",
            "weights_type",
            "weights_normalization",
        ])?;
        section.reject(&[("weights_type", "none"), ("weights_normalization", "none")])?;
        let (mut sum, shape) = self.previous(section)?;
        for (place, (other, other_shape)) in self.listed(section, "from")?.iter().enumerate() {
            if *other_shape != shape {
                let text = |[channels, height, width]: Shape| {
                    format!("{channels} channels of {width}×{height} cells")
                };
                let reason = format!(
                    "[shortcut] adds {} to {}, expected equal shapes",
                    text(*other_shape),
                    text(shape)
                );
                return Err(section.error("from", reason));
            }
            let name = format!("layer_{}.sum_{place}", self.index());
            self.node("Add", &[&sum, other], &name, Vec::new());
            sum = name;
        }
        let name = self.activate(section, sum, "linear")?;
        self.push(section, name, shape)
    }

    /// Repeats each cell.
    fn upsample(&mut self, section: &Section<'_>) -> Result<(), DarknetError> {
        section.only(&["stride", "scale"])?;
        section.reject(&[("scale", "1")])?;
        let (input, [channels, height, width]) = self.previous(section)?;
        let factor = section.length("stride", 2)?;
        if factor > 16 {
            let reason = format!("stride of [upsample]: found {factor}, expected 1 to 16");
            return Err(section.error("stride", reason));
        }
        let index = self.index();
        let (factors, name) = (
            format!("layer_{index}.factors"),
            format!("layer_{index}.result"),
        );
        let values = vec![1.0, 1.0, factor as f32, factor as f32];
        self.constant(&factors, &[4], Values::Floats(values));
        self.node(
            "Resize",
            &[&input, "", &factors],
            &name,
            vec![
                (
                    "coordinate_transformation_mode",
                    Attribute::Text("asymmetric"),
                ),
                ("mode", Attribute::Text("nearest")),
                ("nearest_mode", Attribute::Text("floor")),
            ],
        );
        self.push(section, name, [channels, height * factor, width * factor])
    }
}

/// Vertical and horizontal stride.
fn strides(section: &Section<'_>) -> Result<[usize; 2], DarknetError> {
    let both = section.length("stride", 1)?;
    Ok([
        section.length("stride_y", both)?,
        section.length("stride_x", both)?,
    ])
}

fn wholes(values: &[usize]) -> Attribute {
    Attribute::Wholes(values.iter().map(|value| *value as i64).collect())
}
