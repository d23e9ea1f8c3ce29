//! Reads `model.pdmodel`: Paddle's `ProgramDesc`, by the field numbers of its `framework.proto`. Pure; borrows from the file's bytes.

use std::collections::BTreeMap;

use jetwatch_detect::graph::Malformed;
use jetwatch_detect::graph::protobuf::Message;

use super::PaddleError;

/// Maximum number of operators or variables. The largest detectors have some thousands.
const MAX_ELEMENTS: usize = 100_000;

/// `VarType.Type` of a dense tensor.
const DENSE_TENSOR: i64 = 7;

/// The main block of a program; branches and loops are not read.
#[derive(Debug)]
pub(super) struct Program<'a> {
    /// In the order in which they run.
    pub(super) operators: Vec<Operator<'a>>,
    /// Names of the persistable dense tensors, the weights, in the order of the file with the weights: sorted.
    pub(super) weights: Vec<&'a str>,
}

/// One operator.
#[derive(Debug)]
pub(super) struct Operator<'a> {
    /// Paddle's name of it, such as `conv2d`.
    pub(super) kind: &'a str,
    inputs: Vec<(&'a str, &'a str)>,
    outputs: Vec<(&'a str, &'a str)>,
    attributes: BTreeMap<&'a str, Attribute<'a>>,
}

/// An attribute; which of the values is given depends on its type.
#[derive(Debug, Default)]
struct Attribute<'a> {
    whole: Option<i64>,
    float: Option<f32>,
    text: Option<&'a str>,
    wholes: Vec<i64>,
    floats: Vec<f32>,
}

impl<'a> Program<'a> {
    /// Reads the program in `bytes`.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, PaddleError> {
        let program = read_program(bytes).map_err(PaddleError::Program)?;
        if program.operators.is_empty() {
            return Err(PaddleError::Program(Malformed {
                at: bytes.len(),
                what: "no operator up to the end",
            }));
        }
        Ok(program)
    }
}

impl<'a> Operator<'a> {
    /// The variable of the parameter `name`, such as `X`.
    pub(super) fn input(&self, name: &'static str) -> Result<&'a str, PaddleError> {
        let all = self.all_inputs(name);
        match all.as_slice() {
            [one] => Ok(one),
            all => Err(self.error(format!(
                "found {} variables as {name}, expected one",
                all.len()
            ))),
        }
    }

    /// All variables of the parameter `name`.
    pub(super) fn all_inputs(&self, name: &str) -> Vec<&'a str> {
        variables(&self.inputs, name)
    }

    /// All variables that it reads, weights included.
    pub(super) fn variables(&self) -> impl Iterator<Item = &'a str> {
        self.inputs.iter().map(|(_, variable)| *variable)
    }

    /// The variable with the result. Others, such as the statistics of a batch normalization, are not read in inference.
    pub(super) fn output(&self) -> Option<&'a str> {
        ["Out", "Output", "Y"]
            .iter()
            .find_map(|name| variables(&self.outputs, name).first().copied())
    }

    /// Whole numbers of the attribute `name`; none when it is not given.
    pub(super) fn wholes(&self, name: &str) -> &[i64] {
        self.attributes
            .get(name)
            .map_or(&[], |attribute| &attribute.wholes)
    }

    /// Floats of the attribute `name`; none when it is not given.
    pub(super) fn floats(&self, name: &str) -> &[f32] {
        self.attributes
            .get(name)
            .map_or(&[], |attribute| &attribute.floats)
    }

    /// The whole number or, as 0 and 1, the truth value of the attribute `name`.
    pub(super) fn whole(&self, name: &str) -> Option<i64> {
        self.attributes.get(name)?.whole
    }

    /// The float of the attribute `name`.
    pub(super) fn float(&self, name: &str) -> Option<f32> {
        self.attributes.get(name)?.float
    }

    /// The text of the attribute `name`; empty when it is not given.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.attributes
            .get(name)
            .and_then(|attribute| attribute.text)
            .unwrap_or("")
    }

    /// An error at this operator.
    pub(super) fn error(&self, reason: impl Into<String>) -> PaddleError {
        PaddleError::Operator {
            operator: self.kind.to_owned(),
            output: self.output().unwrap_or("").to_owned(),
            reason: reason.into(),
        }
    }
}

fn variables<'a>(pairs: &[(&'a str, &'a str)], name: &str) -> Vec<&'a str> {
    pairs
        .iter()
        .filter(|(parameter, _)| *parameter == name)
        .map(|(_, variable)| *variable)
        .collect()
}

/// `ProgramDesc`: the first block is the main one.
fn read_program(bytes: &[u8]) -> Result<Program<'_>, Malformed> {
    let mut program = Program {
        operators: Vec::new(),
        weights: Vec::new(),
    };
    for field in Message::new(bytes).fields() {
        let field = field?;
        if field.number == 1 {
            read_block(field.message()?, &mut program)?;
            break;
        }
    }
    program.weights.sort_unstable();
    Ok(program)
}

/// `BlockDesc`.
fn read_block<'a>(block: Message<'a>, program: &mut Program<'a>) -> Result<(), Malformed> {
    for field in block.fields() {
        let field = field?;
        if program.operators.len() + program.weights.len() >= MAX_ELEMENTS {
            return Err(field.malformed("too many operators and variables"));
        }
        match field.number {
            3 => program.weights.extend(read_weight(field.message()?)?),
            4 => program.operators.push(read_operator(field.message()?)?),
            _ => {}
        }
    }
    Ok(())
}

/// `VarDesc`: its name if it is persistable and a dense tensor.
fn read_weight(variable: Message<'_>) -> Result<Option<&str>, Malformed> {
    let (mut name, mut kind, mut is_persistable) = ("", 0, false);
    for field in variable.fields() {
        let field = field?;
        match field.number {
            1 => name = field.text()?,
            2 => {
                for field in field.message()?.fields() {
                    let field = field?;
                    if field.number == 1 {
                        kind = field.number()?;
                    }
                }
            }
            3 => is_persistable = field.number()? != 0,
            _ => {}
        }
    }
    Ok((is_persistable && kind == DENSE_TENSOR).then_some(name))
}

/// `OpDesc`.
fn read_operator(operator: Message<'_>) -> Result<Operator<'_>, Malformed> {
    let mut read = Operator {
        kind: "",
        inputs: Vec::new(),
        outputs: Vec::new(),
        attributes: BTreeMap::new(),
    };
    for field in operator.fields() {
        let field = field?;
        match field.number {
            1 => read_parameter(field.message()?, &mut read.inputs)?,
            2 => read_parameter(field.message()?, &mut read.outputs)?,
            3 => read.kind = field.text()?,
            4 => {
                let (name, attribute) = read_attribute(field.message()?)?;
                read.attributes.insert(name, attribute);
            }
            _ => {}
        }
    }
    Ok(read)
}

/// `OpDesc.Var`: a parameter and its variables.
fn read_parameter<'a>(
    parameter: Message<'a>,
    pairs: &mut Vec<(&'a str, &'a str)>,
) -> Result<(), Malformed> {
    let (mut name, mut variables) = ("", Vec::new());
    for field in parameter.fields() {
        let field = field?;
        match field.number {
            1 => name = field.text()?,
            2 => variables.push(field.text()?),
            _ => {}
        }
    }
    pairs.extend(variables.into_iter().map(|variable| (name, variable)));
    Ok(())
}

/// `OpDesc.Attr`, without the types that no operator of a detector has.
fn read_attribute(message: Message<'_>) -> Result<(&str, Attribute<'_>), Malformed> {
    let (mut name, mut attribute) = ("", Attribute::default());
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => name = field.text()?,
            3 | 10 | 13 => attribute.whole = Some(field.number()?),
            4 => attribute.float = Some(field.float()?),
            5 => attribute.text = Some(field.text()?),
            6 | 15 => field.numbers(|number| {
                attribute.wholes.push(number);
                Ok(())
            })?,
            7 => attribute.floats.push(field.float()?),
            _ => {}
        }
    }
    Ok((name, attribute))
}
