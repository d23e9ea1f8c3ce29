//! The converted network: the operators between the input and the requested variables, with batch normalization folded. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::parameters::Weight;
use super::program::{Operator, Program};
use super::{Conversion, PaddleError};
use crate::onnx_writer::{Attribute, Initializer, Node, Output, Values};

/// Height and width of a feature map behind its number of channels, without the batch axis.
pub(super) type Shape = [usize; 3];

/// What the ONNX file holds.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// In an order in which each input exists before it is read.
    pub(super) nodes: Vec<Node>,
    pub(super) initializers: Vec<Initializer>,
    pub(super) outputs: Vec<Output>,
}

/// A convolution into which a bias and a batch normalization may still be folded.
#[derive(Debug)]
pub(super) struct Convolution {
    pub(super) input: String,
    pub(super) output: String,
    /// `[outputs, inputs per group, height, width]`, as the file has them.
    pub(super) weight: Weight,
    pub(super) attributes: Vec<(&'static str, Attribute)>,
    /// Factor of each output channel: in 64 bits, so that the product is rounded once.
    pub(super) factors: Vec<f64>,
    /// Added to each output channel, after the factor.
    pub(super) bias: Option<Vec<f64>>,
}

enum Step {
    Convolution(Convolution),
    Node(Node),
}

/// A network that grows, operator by operator.
pub(super) struct Builder<'a> {
    pub(super) weights: &'a BTreeMap<&'a str, Weight>,
    /// Number of operators and outputs that read a variable.
    uses: BTreeMap<&'a str, usize>,
    shapes: BTreeMap<&'a str, Shape>,
    steps: Vec<Step>,
    /// Convolutions by their output.
    convolutions: BTreeMap<&'a str, usize>,
    initializers: Vec<Initializer>,
}

impl Network {
    /// The part of `program` that computes the outputs of `conversion` from its input.
    pub(super) fn build<'a>(
        program: &'a Program<'a>,
        weights: &'a BTreeMap<&'a str, Weight>,
        conversion: &'a Conversion,
    ) -> Result<Self, PaddleError> {
        let operators = needed(program, weights, conversion)?;
        let mut uses = BTreeMap::new();
        let outputs = conversion
            .outputs
            .iter()
            .map(|output| output.variable.as_str());
        for variable in operators
            .iter()
            .flat_map(|operator| operator.variables())
            .chain(outputs)
        {
            *uses.entry(variable).or_insert(0) += 1;
        }
        let (width, height) = (conversion.size.width, conversion.size.height);
        let shape = [3, height as usize, width as usize];
        let mut builder = Builder {
            weights,
            uses,
            shapes: BTreeMap::from([(conversion.input.as_str(), shape)]),
            steps: Vec::new(),
            convolutions: BTreeMap::new(),
            initializers: Vec::new(),
        };
        for operator in operators {
            builder.add(operator)?;
        }
        builder.finish(conversion)
    }
}

impl<'a> Builder<'a> {
    /// Shape of `variable`, which `operator` reads.
    pub(super) fn shape(
        &self,
        operator: &Operator<'_>,
        variable: &str,
    ) -> Result<Shape, PaddleError> {
        self.shapes.get(variable).copied().ok_or_else(|| {
            operator.error(format!(
                "found the weight `{variable}`, expected the result of an operator"
            ))
        })
    }

    /// Adds a node whose output is a variable of the program.
    pub(super) fn push(
        &mut self,
        node: (&'static str, &[&str]),
        output: &'a str,
        shape: Shape,
        attributes: Vec<(&'static str, Attribute)>,
    ) {
        self.shapes.insert(output, shape);
        self.push_node(node, output.to_owned(), attributes);
    }

    /// Adds a node whose output has a name of its own.
    pub(super) fn push_node(
        &mut self,
        (operator, inputs): (&'static str, &[&str]),
        output: String,
        attributes: Vec<(&'static str, Attribute)>,
    ) {
        self.steps.push(Step::Node(Node {
            operator,
            inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
            output,
            attributes,
        }));
    }

    /// Adds a constant tensor.
    pub(super) fn constant(&mut self, name: String, axes: Vec<usize>, values: Values) {
        self.initializers.push(Initializer { name, axes, values });
    }

    /// Adds a convolution.
    pub(super) fn push_convolution(
        &mut self,
        convolution: Convolution,
        output: &'a str,
        shape: Shape,
    ) {
        self.shapes.insert(output, shape);
        self.convolutions.insert(output, self.steps.len());
        self.steps.push(Step::Convolution(convolution));
    }

    /// The convolution that computes `variable`, if nothing but one operator reads its result. From now on its result is `output`.
    pub(super) fn fold(&mut self, variable: &str, output: &'a str) -> Option<&mut Convolution> {
        if self.uses.get(variable) != Some(&1) {
            return None;
        }
        let index = self.convolutions.remove(variable)?;
        let shape = self.shapes.remove(variable)?;
        self.shapes.insert(output, shape);
        self.convolutions.insert(output, index);
        match self.steps.get_mut(index) {
            Some(Step::Convolution(convolution)) => {
                output.clone_into(&mut convolution.output);
                Some(convolution)
            }
            _ => None,
        }
    }

    /// Adds the outputs, and writes the folded convolutions.
    fn finish(mut self, conversion: &Conversion) -> Result<Network, PaddleError> {
        let mut outputs = Vec::new();
        for output in &conversion.outputs {
            let Some([channels, height, width]) = self.shapes.get(output.variable.as_str()) else {
                return Err(missing(
                    &output.variable,
                    "the result of an operator that is not folded into another",
                ));
            };
            let axes = [height * width, *channels];
            let (rows, shape) = (
                format!("{}.rows", output.name),
                format!("{}.shape", output.name),
            );
            let perm = Attribute::Wholes(vec![0, 2, 3, 1]);
            self.push_node(
                ("Transpose", &[&output.variable]),
                rows.clone(),
                vec![("perm", perm)],
            );
            // 0: the length of the input's axis, which is the batch.
            let lengths = vec![0, axes[0] as i64, axes[1] as i64];
            self.constant(shape.clone(), vec![3], Values::Wholes(lengths));
            self.push_node(
                ("Reshape", &[&rows, &shape]),
                output.name.clone(),
                Vec::new(),
            );
            outputs.push(Output {
                name: output.name.clone(),
                axes: axes.to_vec(),
            });
        }
        let mut network = Network {
            initializers: self.initializers,
            outputs,
            ..Network::default()
        };
        for step in self.steps {
            let node = match step {
                Step::Convolution(convolution) => {
                    write_convolution(convolution, &mut network.initializers)
                }
                Step::Node(node) => node,
            };
            network.nodes.push(node);
        }
        Ok(network)
    }
}

/// The operators that the outputs need, in the order of the program.
fn needed<'a>(
    program: &'a Program<'a>,
    weights: &BTreeMap<&str, Weight>,
    conversion: &'a Conversion,
) -> Result<Vec<&'a Operator<'a>>, PaddleError> {
    let mut writers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, operator) in program.operators.iter().enumerate() {
        if let Some(output) = operator.output() {
            writers.entry(output).or_default().push(index);
        }
    }
    let mut needed = BTreeSet::new();
    let outputs = conversion.outputs.iter();
    let mut wanted: Vec<&str> = outputs.map(|output| output.variable.as_str()).collect();
    let mut has_input = false;
    while let Some(variable) = wanted.pop() {
        if variable == conversion.input {
            has_input = true;
            continue;
        }
        if weights.contains_key(variable) {
            continue;
        }
        let index = match writers.get(variable).map(|found| found.as_slice()) {
            None | Some([]) => return Err(missing(variable, "an operator that writes it")),
            Some([index]) => *index,
            Some([index, ..]) => {
                return Err(program.operators[*index].error(
                    "its output is written by two operators, expected a program without reuse",
                ));
            }
        };
        if needed.insert(index) {
            wanted.extend(program.operators[index].variables());
        }
    }
    if !has_input {
        return Err(missing(
            &conversion.input,
            "an input that the outputs depend on",
        ));
    }
    Ok(needed
        .into_iter()
        .map(|index| &program.operators[index])
        .collect())
}

fn missing(name: &str, expected: &'static str) -> PaddleError {
    PaddleError::Missing {
        name: name.to_owned(),
        expected,
    }
}

/// The node of a convolution; its weights become constants.
fn write_convolution(convolution: Convolution, initializers: &mut Vec<Initializer>) -> Node {
    let Convolution {
        input,
        output,
        weight,
        attributes,
        factors,
        bias,
    } = convolution;
    let per_channel = weight.values.len() / factors.len().max(1);
    let values = weight
        .values
        .chunks(per_channel.max(1))
        .zip(&factors)
        .flat_map(|(values, factor)| {
            values
                .iter()
                .map(move |value| (f64::from(*value) * factor) as f32)
        })
        .collect();
    let mut inputs = vec![input, format!("{output}.weight")];
    initializers.push(Initializer {
        name: inputs[1].clone(),
        axes: weight.axes,
        values: Values::Floats(values),
    });
    if let Some(bias) = bias {
        let name = format!("{output}.bias");
        inputs.push(name.clone());
        initializers.push(Initializer {
            name,
            axes: vec![bias.len()],
            values: Values::Floats(bias.iter().map(|value| *value as f32).collect()),
        });
    }
    Node {
        operator: "Conv",
        inputs,
        output,
        attributes,
    }
}
