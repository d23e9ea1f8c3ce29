//! Paddle's operators as ONNX has them: the ones that detectors with convolutions use. Pure.

use super::PaddleError;
use super::network::{Builder, Convolution, Shape};
use super::parameters::Weight;
use super::program::Operator;
use crate::onnx_writer::{Attribute, Values};

/// Names of the operators, for the error that reports another one.
const KNOWN: &str = "conv2d, depthwise_conv2d, batch_norm, elementwise_add, elementwise_mul, concat, nearest_interp_v2, pool2d, \
                     relu, sigmoid, sqrt, hard_sigmoid, hard_swish, scale";

/// Longest axis of a feature map; channels, too. Networks stay far below it, and products of a few such numbers do not overflow.
const MAX_AXIS: usize = 1 << 16;

impl<'a> Builder<'a> {
    /// Adds `operator`.
    pub(super) fn add(&mut self, operator: &'a Operator<'a>) -> Result<(), PaddleError> {
        match operator.kind {
            "conv2d" | "depthwise_conv2d" => self.convolution(operator),
            "batch_norm" => self.batch_norm(operator),
            "elementwise_add" => self.add_or_bias(operator),
            "elementwise_mul" => self.pair("Mul", operator),
            "concat" => self.concat(operator),
            "nearest_interp_v2" => self.upsample(operator),
            "pool2d" => self.pool(operator),
            "relu" => self.unary("Relu", operator, Vec::new()),
            "sigmoid" => self.unary("Sigmoid", operator, Vec::new()),
            "sqrt" => self.unary("Sqrt", operator, Vec::new()),
            "hard_sigmoid" => {
                let slope = operator.float("slope").unwrap_or(0.2);
                let offset = operator.float("offset").unwrap_or(0.5);
                self.unary("HardSigmoid", operator, hard_sigmoid(slope, offset))
            }
            "hard_swish" => self.hard_swish(operator),
            "scale" => self.scale(operator),
            _ => Err(operator.error(format!("it is not supported; known are {KNOWN}"))),
        }
    }

    fn convolution(&mut self, operator: &'a Operator<'a>) -> Result<(), PaddleError> {
        let (input, output) = (operator.input("Input")?, output(operator)?);
        let weight = self.weight(operator, "Filter")?;
        let [channels, height, width] = self.shape(operator, input)?;
        let &[outputs, group_inputs, kernel_height, kernel_width] = weight.axes.as_slice() else {
            return Err(operator.error(format!(
                "found weights of the shape {:?}, expected 4 axes",
                weight.axes
            )));
        };
        if weight.values.is_empty() {
            return Err(operator.error(format!(
                "found weights of the shape {:?}, expected at least one value",
                weight.axes
            )));
        }
        let groups = positive(operator, operator.whole("groups").unwrap_or(1))?;
        if group_inputs * groups != channels || outputs == 0 || !outputs.is_multiple_of(groups) {
            return Err(operator.error(format!(
                "found weights of the shape {:?} in {groups} groups on {channels} channels",
                weight.axes
            )));
        }
        check_layout(operator, operator.text("data_format"))?;
        if !operator.all_inputs("Bias").is_empty() {
            return Err(operator.error("it has a fused bias, expected a separate elementwise_add"));
        }
        let strides = pair_of(operator, "strides")?;
        let dilations = pair_of(operator, "dilations")?;
        let pads = pads(operator)?;
        let length = |axis: usize, len: usize, kernel: usize| {
            let padded = len + pads[axis] + pads[axis + 2];
            let reach = dilations[axis] * kernel.saturating_sub(1) + 1;
            Some(padded.checked_sub(reach)? / strides[axis] + 1)
        };
        let shape = length(0, height, kernel_height)
            .zip(length(1, width, kernel_width))
            .map(|(height, width)| [outputs, height, width])
            .ok_or_else(|| {
                operator.error(format!("its input of {width}×{height} is too small for it"))
            })?;
        let wholes = |values: &[usize]| {
            Attribute::Wholes(values.iter().map(|value| *value as i64).collect())
        };
        let attributes = vec![
            ("dilations", wholes(&dilations)),
            ("group", Attribute::Whole(groups as i64)),
            ("kernel_shape", wholes(&[kernel_height, kernel_width])),
            ("pads", wholes(&pads)),
            ("strides", wholes(&strides)),
        ];
        let convolution = Convolution {
            input: input.to_owned(),
            output: output.to_owned(),
            weight: weight.clone(),
            attributes,
            factors: vec![1.0; outputs],
            bias: None,
        };
        let shape = checked(operator, shape)?;
        self.push_convolution(convolution, output, shape);
        Ok(())
    }

    /// `(x - mean) · scale / √(variance + epsilon) + bias`, folded into the convolution before it.
    fn batch_norm(&mut self, operator: &'a Operator<'a>) -> Result<(), PaddleError> {
        check_layout(operator, operator.text("data_layout"))?;
        let epsilon = f64::from(operator.float("epsilon").unwrap_or(1e-5));
        let values = |name| -> Result<Vec<f64>, PaddleError> {
            let weight = self.weight(operator, name)?;
            Ok(weight
                .values
                .iter()
                .map(|value| f64::from(*value))
                .collect())
        };
        let (scale, bias) = (values("Scale")?, values("Bias")?);
        let (mean, variance) = (values("Mean")?, values("Variance")?);
        let convolution = self
            .fold(operator.input("X")?, output(operator)?)
            .ok_or_else(|| {
                operator.error("expected a convolution before it whose result only it reads")
            })?;
        let channels = convolution.factors.len();
        if [&scale, &bias, &mean, &variance]
            .iter()
            .any(|values| values.len() != channels)
        {
            return Err(operator.error(format!("expected {channels} values each for its channels")));
        }
        let before = convolution
            .bias
            .take()
            .unwrap_or_else(|| vec![0.0; channels]);
        let mut folded = Vec::with_capacity(channels);
        for channel in 0..channels {
            let factor = scale[channel] / (variance[channel] + epsilon).sqrt();
            convolution.factors[channel] *= factor;
            folded.push((before[channel] - mean[channel]) * factor + bias[channel]);
        }
        convolution.bias = Some(folded);
        Ok(())
    }

    /// A sum of two results, or a bias, which is folded into the convolution before it.
    fn add_or_bias(&mut self, operator: &'a Operator<'a>) -> Result<(), PaddleError> {
        let (x, y) = (operator.input("X")?, operator.input("Y")?);
        let Some(bias) = self.weights.get(y) else {
            return self.pair("Add", operator);
        };
        let axis = operator.whole("axis").unwrap_or(-1);
        let convolution = self.fold(x, output(operator)?).ok_or_else(|| {
            operator.error(
                "a weight is added, expected a convolution before it whose result only it reads",
            )
        })?;
        let channels = convolution.factors.len();
        let is_per_channel = (bias.axes == [channels] && axis == 1)
            || bias.axes == [1, channels, 1, 1]
            || bias.axes == [channels, 1, 1];
        if !is_per_channel {
            return Err(operator.error(format!(
                "found a weight of the shape {:?} at axis {axis}, expected one value for each of {channels} channels",
                bias.axes
            )));
        }
        let sums = convolution.bias.get_or_insert_with(|| vec![0.0; channels]);
        for (sum, value) in sums.iter_mut().zip(&bias.values) {
            *sum += f64::from(*value);
        }
        Ok(())
    }

    /// An operator on two results, which repeats axes of length 1.
    fn pair(&mut self, name: &'static str, operator: &'a Operator<'a>) -> Result<(), PaddleError> {
        let (x, y) = (operator.input("X")?, operator.input("Y")?);
        let (left, right) = (self.shape(operator, x)?, self.shape(operator, y)?);
        let mut shape: Shape = [0; 3];
        for ((length, a), b) in shape.iter_mut().zip(left).zip(right) {
            *length = match (a, b) {
                (a, b) if a == b || b == 1 => a,
                (1, b) => b,
                _ => {
                    return Err(operator.error(format!(
                        "its inputs have the shapes {left:?} and {right:?}; is the size a multiple of the greatest stride?"
                    )));
                }
            };
        }
        self.push((name, &[x, y]), output(operator)?, shape, Vec::new());
        Ok(())
    }

    fn concat(&mut self, operator: &'a Operator<'a>) -> Result<(), PaddleError> {
        let inputs = operator.all_inputs("X");
        if operator.whole("axis") != Some(1) {
            return Err(operator.error("expected axis 1, the channels"));
        }
        let mut shape: Option<Shape> = None;
        for input in &inputs {
            let [channels, height, width] = self.shape(operator, input)?;
            shape = match shape {
                None => Some([channels, height, width]),
                Some([sum, h, w]) if (h, w) == (height, width) => {
                    Some(checked(operator, [sum + channels, h, w])?)
                }
                Some([_, h, w]) => {
                    return Err(operator.error(format!(
                        "its inputs have {w}×{h} and {width}×{height} cells; is the size a multiple of the greatest stride?"
                    )));
                }
            };
        }
        let shape = shape.ok_or_else(|| operator.error("it has no input"))?;
        let axis = vec![("axis", Attribute::Whole(1))];
        self.push(("Concat", &inputs), output(operator)?, shape, axis);
        Ok(())
    }

    /// Repeats each cell a whole number of times.
    fn upsample(&mut self, operator: &'a Operator<'a>) -> Result<(), PaddleError> {
        let (input, output) = (operator.input("X")?, output(operator)?);
        check_layout(operator, operator.text("data_layout"))?;
        let &[vertical, horizontal] = operator.floats("scale") else {
            return Err(operator.error("expected the factors of height and width in `scale`"));
        };
        let is_whole = |factor: f32| (1.0..=16.0).contains(&factor) && factor.fract() == 0.0;
        let has_size = |name| operator.whole(name).is_some_and(|length| length > 0);
        if !is_whole(vertical)
            || !is_whole(horizontal)
            || operator.whole("align_corners").unwrap_or(0) != 0
            || has_size("out_h")
            || has_size("out_w")
        {
            return Err(operator.error("expected whole factors, without aligned corners"));
        }
        let [channels, height, width] = self.shape(operator, input)?;
        let shape = [
            channels,
            height * vertical as usize,
            width * horizontal as usize,
        ];
        let shape = checked(operator, shape)?;
        let factors = format!("{output}.factors");
        let values = Values::Floats(vec![1.0, 1.0, vertical, horizontal]);
        self.constant(factors.clone(), vec![4], values);
        let attributes = vec![
            (
                "coordinate_transformation_mode",
                Attribute::Text("asymmetric"),
            ),
            ("mode", Attribute::Text("nearest")),
            ("nearest_mode", Attribute::Text("floor")),
        ];
        self.push(
            ("Resize", &[input, "", &factors]),
            output,
            shape,
            attributes,
        );
        Ok(())
    }

    /// The mean of each channel, which is the one kind of pooling that is known.
    fn pool(&mut self, operator: &'a Operator<'a>) -> Result<(), PaddleError> {
        let input = operator.input("X")?;
        let flag = |name| operator.whole(name).unwrap_or(0) != 0;
        let is_global =
            flag("global_pooling") || flag("adaptive") && operator.wholes("ksize") == [1, 1];
        if !is_global || operator.text("pooling_type") != "avg" {
            return Err(operator.error("expected the mean of each channel (adaptive, 1×1, avg)"));
        }
        let [channels, ..] = self.shape(operator, input)?;
        let shape = [channels, 1, 1];
        self.push(
            ("GlobalAveragePool", &[input]),
            output(operator)?,
            shape,
            Vec::new(),
        );
        Ok(())
    }

    fn unary(
        &mut self,
        name: &'static str,
        operator: &'a Operator<'a>,
        attributes: Vec<(&'static str, Attribute)>,
    ) -> Result<(), PaddleError> {
        let input = operator.input("X")?;
        let shape = self.shape(operator, input)?;
        self.push((name, &[input]), output(operator)?, shape, attributes);
        Ok(())
    }

    /// `x · min(max(x + offset, 0), threshold) / scale`. ONNX has an operator for it in a later set only.
    fn hard_swish(&mut self, operator: &'a Operator<'a>) -> Result<(), PaddleError> {
        let (input, output) = (operator.input("X")?, output(operator)?);
        let value = |name, default| operator.float(name).unwrap_or(default);
        let (threshold, scale) = (value("threshold", 6.0), value("scale", 6.0));
        if threshold != scale || scale <= 0.0 {
            return Err(operator.error(format!(
                "found a threshold of {threshold} and a scale of {scale}, expected the same"
            )));
        }
        let shape = self.shape(operator, input)?;
        let gate = format!("{output}.gate");
        let attributes = hard_sigmoid(1.0 / scale, value("offset", 3.0) / scale);
        self.push_node(("HardSigmoid", &[input]), gate.clone(), attributes);
        self.push(("Mul", &[input, &gate]), output, shape, Vec::new());
        Ok(())
    }

    /// `scale · x + bias`.
    fn scale(&mut self, operator: &'a Operator<'a>) -> Result<(), PaddleError> {
        let (input, output) = (operator.input("X")?, output(operator)?);
        let value = |name, default| operator.float(name).unwrap_or(default);
        let (scale, bias) = (value("scale", 1.0), value("bias", 0.0));
        if operator.whole("bias_after_scale") == Some(0) && bias != 0.0 {
            return Err(operator.error("expected the bias after the scale"));
        }
        let shape = self.shape(operator, input)?;
        let (factor, summand) = (format!("{output}.scale"), format!("{output}.bias"));
        let scaled = format!("{output}.scaled");
        let mut sum = input;
        if scale != 1.0 {
            self.constant(factor.clone(), Vec::new(), Values::Floats(vec![scale]));
            self.push_node(("Mul", &[input, &factor]), scaled.clone(), Vec::new());
            sum = &scaled;
        }
        self.constant(summand.clone(), Vec::new(), Values::Floats(vec![bias]));
        self.push(("Add", &[sum, &summand]), output, shape, Vec::new());
        Ok(())
    }

    /// The weight of the parameter `name`.
    fn weight(
        &self,
        operator: &Operator<'a>,
        name: &'static str,
    ) -> Result<&'a Weight, PaddleError> {
        let variable = operator.input(name)?;
        self.weights.get(variable).ok_or_else(|| {
            operator.error(format!(
                "found the variable `{variable}` as {name}, expected a weight of 32-bit floats"
            ))
        })
    }
}

fn output<'a>(operator: &Operator<'a>) -> Result<&'a str, PaddleError> {
    operator
        .output()
        .ok_or_else(|| operator.error("it has no output"))
}

/// The shape of a result, unless an axis is longer than that of any network.
fn checked(operator: &Operator<'_>, shape: Shape) -> Result<Shape, PaddleError> {
    match shape.iter().all(|length| *length <= MAX_AXIS) {
        true => Ok(shape),
        false => Err(operator.error(format!(
            "its result has the shape {shape:?}, expected axes of at most {MAX_AXIS}"
        ))),
    }
}

fn hard_sigmoid(slope: f32, offset: f32) -> Vec<(&'static str, Attribute)> {
    vec![
        ("alpha", Attribute::Float(slope)),
        ("beta", Attribute::Float(offset)),
    ]
}

fn check_layout(operator: &Operator<'_>, layout: &str) -> Result<(), PaddleError> {
    match layout {
        "" | "NCHW" | "AnyLayout" => Ok(()),
        other => Err(operator.error(format!("found the layout {other}, expected NCHW"))),
    }
}

fn positive(operator: &Operator<'_>, value: i64) -> Result<usize, PaddleError> {
    usize::try_from(value)
        .ok()
        .filter(|value| (1..=1 << 16).contains(value))
        .ok_or_else(|| operator.error(format!("found {value}, expected a positive number")))
}

/// Height and width in the attribute `name`; 1 each when it is not given.
fn pair_of(operator: &Operator<'_>, name: &str) -> Result<[usize; 2], PaddleError> {
    match *operator.wholes(name) {
        [] => Ok([1, 1]),
        [height, width] => Ok([positive(operator, height)?, positive(operator, width)?]),
        ref all => Err(operator.error(format!("found {name} {all:?}, expected two"))),
    }
}

/// Padding at the top, left, bottom and right.
fn pads(operator: &Operator<'_>) -> Result<[usize; 4], PaddleError> {
    match operator.text("padding_algorithm") {
        "" | "EXPLICIT" => {}
        "VALID" => return Ok([0; 4]),
        other => return Err(operator.error(format!("found padding {other}, expected EXPLICIT"))),
    }
    let (top, bottom, left, right) = match *operator.wholes("paddings") {
        [] => (0, 0, 0, 0),
        [vertical, horizontal] => (vertical, vertical, horizontal, horizontal),
        [top, bottom, left, right] => (top, bottom, left, right),
        ref all => {
            return Err(operator.error(format!("found paddings {all:?}, expected two or four")));
        }
    };
    let mut pads = [0; 4];
    for (pad, value) in pads.iter_mut().zip([top, left, bottom, right]) {
        *pad = usize::try_from(value)
            .ok()
            .filter(|value| *value <= 1 << 16)
            .ok_or_else(|| operator.error(format!("found a padding of {value}")))?;
    }
    Ok(pads)
}
