// SPDX-License-Identifier: Apache-2.0
//! Embeds external weights into the network's own file. Pure.
//!
//! Runtimes read such files only when they open a network by path, and then it cannot be verified which bytes they read.
//! Joined, the network is one buffer, all of whose bytes were hashed before. This module only knows where a network may
//! refer to weights. The files are read by the model folder's [`ModelFile`](crate::model::ModelFile).

use std::borrow::Cow;

use super::onnx_proto;
use super::protobuf::{self, Malformed, Message};
use super::summary::stored_len;

/// Deepest nesting of messages: each body of a loop or branch in another one is four deeper.
const MAX_DEPTH: usize = 80;

/// The bytes of one weight in a file next to the network's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExternalTensor<'a> {
    /// The file's path as the network gives it.
    pub location: &'a str,
    /// Where they begin.
    pub offset: u64,
    /// How many there are.
    pub len: u64,
}

/// The weights of `network` that lie in other files, in its order; most networks have none.
pub fn external_tensors(network: &[u8]) -> Result<Vec<ExternalTensor<'_>>, Malformed> {
    let mut places = Vec::new();
    let mut note = |place| {
        places.push(place);
        Ok::<_, Malformed>(&[][..])
    };
    rewritten(Message::new(network), Kind::Model, 0, &mut note)?;
    Ok(places)
}

/// `network` with all of its weights in it: `take` returns the bytes of those that lie elsewhere, as many as requested.
/// `None` when there are none of these.
pub fn embed<'a, E: From<Malformed>>(
    network: &'a [u8],
    mut take: impl FnMut(ExternalTensor<'a>) -> Result<&'a [u8], E>,
) -> Result<Option<Vec<u8>>, E> {
    let pieces = rewritten(Message::new(network), Kind::Model, 0, &mut take)?;
    Ok(pieces.map(|pieces| pieces.parts.concat()))
}

/// Messages of a network, as far as there are weights in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Function,
    SparseTensor,
    Tensor,
}

impl Kind {
    /// What field `number` of such a message holds, if weights may be in it.
    fn child(self, number: u64) -> Option<Self> {
        Some(match (self, number) {
            (Self::Model, 7) => Self::Graph,
            (Self::Model, 25) => Self::Function,
            (Self::Graph, 1) | (Self::Function, 7) => Self::Node,
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) | (Self::SparseTensor, 1 | 2) => {
                Self::Tensor
            }
            (Self::Graph, 15) | (Self::Attribute, 22 | 23) => Self::SparseTensor,
            (Self::Node, 5) => Self::Attribute,
            (Self::Attribute, 6 | 11) => Self::Graph,
            _ => return None,
        })
    }
}

/// A message that was written again, mostly out of parts of the old one.
#[derive(Default)]
struct Pieces<'a> {
    parts: Vec<Cow<'a, [u8]>>,
    len: usize,
}

impl<'a> Pieces<'a> {
    fn push(&mut self, part: impl Into<Cow<'a, [u8]>>) {
        let part = part.into();
        self.len += part.len();
        self.parts.push(part);
    }

    fn append(&mut self, mut other: Self) {
        self.len += other.len;
        self.parts.append(&mut other.parts);
    }
}

/// The message with its weights in it; `None` when it has all of them already.
fn rewritten<'a, E: From<Malformed>>(
    message: Message<'a>,
    kind: Kind,
    level: usize,
    load: &mut dyn FnMut(ExternalTensor<'a>) -> Result<&'a [u8], E>,
) -> Result<Option<Pieces<'a>>, E> {
    if kind == Kind::Tensor {
        return tensor(message, load);
    }
    let mut pieces = Pieces::default();
    let mut is_changed = false;
    for field in message.fields() {
        let field = field?;
        let child = match kind.child(field.number) {
            Some(_) if level == MAX_DEPTH => {
                return Err(field.malformed("graphs nested too deep").into());
            }
            Some(child) => rewritten(field.message()?, child, level + 1, load)?,
            None => None,
        };
        match child {
            Some(child) => {
                is_changed = true;
                pieces.push(protobuf::field_header(field.number, child.len));
                pieces.append(child);
            }
            None => pieces.push(field.encoded),
        }
    }
    Ok(is_changed.then_some(pieces))
}

/// A weight with its bytes as `raw_data` instead of `external_data` and `data_location`.
fn tensor<'a, E: From<Malformed>>(
    message: Message<'a>,
    load: &mut dyn FnMut(ExternalTensor<'a>) -> Result<&'a [u8], E>,
) -> Result<Option<Pieces<'a>>, E> {
    let weight = onnx_proto::weight(message)?;
    let Some(elsewhere) = weight.external else {
        return Ok(None);
    };
    let bytes = load(ExternalTensor {
        location: elsewhere.location,
        offset: elsewhere.offset,
        len: elsewhere.len.unwrap_or_else(|| stored_len(&weight)),
    })?;
    let mut pieces = Pieces::default();
    for field in message.fields() {
        let field = field?;
        if !matches!(field.number, 9 | 13 | 14) {
            pieces.push(field.encoded);
        }
    }
    pieces.push(protobuf::field_header(9, bytes.len()));
    pieces.push(bytes);
    Ok(Some(pieces))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u64, value: &[u8]) -> Vec<u8> {
        [&protobuf::field_header(number, value.len()), value].concat()
    }

    /// A weight of two bytes: outside, at byte 300 of the file `w`, or inside.
    fn weight(inside: Option<&[u8]>) -> Vec<u8> {
        let pair = |key: &str, value: &str| {
            field(
                13,
                &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat(),
            )
        };
        // Two elements of the type 2, bytes.
        let start = [0x08, 2, 0x10, 2];
        match inside {
            Some(bytes) => [&start[..], &field(8, b"n"), &field(9, bytes)].concat(),
            None => {
                let location = [pair("location", "w"), pair("offset", "300")].concat();
                [&start[..], &location, &field(8, b"n"), &[0x70, 1]].concat()
            }
        }
    }

    /// A network with `weight` in each place where one may be, and something else between.
    fn everywhere(weight: &[u8]) -> Vec<u8> {
        let sparse = [field(1, weight), field(2, weight)].concat();
        let in_attribute = [
            field(5, weight),
            field(10, weight),
            field(22, &sparse),
            field(23, &sparse),
        ];
        let attribute = [field(1, b"value"), in_attribute.concat()].concat();
        let node = [field(4, b"Constant"), field(5, &attribute)].concat();
        let body = [field(1, &node), field(5, weight), field(15, &sparse)].concat();
        let bodies = [field(6, &body), field(11, &body)].concat();
        let looped = field(5, &bodies);
        let graph = [field(1, &looped), body, field(2, b"name")].concat();
        [vec![0x08, 8], field(7, &graph), field(25, &field(7, &node))].concat()
    }

    #[test]
    fn external_weights_are_found_in_all_locations() {
        let outside = everywhere(&weight(None));
        let places = external_tensors(&outside).expect("it is whole");
        let place = ExternalTensor {
            location: "w",
            offset: 300,
            len: 2,
        };
        // Three times a node's six with a graph's three, and a function's node.
        assert_eq!(places, vec![place; 3 * (6 + 3) + 6]);
        let joined = embed(&outside, |_| Ok::<_, Malformed>(&[7, 9]));
        let inside = everywhere(&weight(Some(&[7, 9])));
        assert_eq!(joined, Ok(Some(inside.clone())));
        assert_eq!(external_tensors(&inside), Ok(Vec::new()));
        assert_eq!(embed(&inside, |_| Ok::<_, Malformed>(&[])), Ok(None));
    }

    #[test]
    fn damaged_and_deeply_nested_models_are_errors() {
        let mut node = Vec::new();
        for _ in 0..40 {
            node = field(5, &field(6, &field(1, &node)));
        }
        let deep = field(7, &field(1, &node));
        let error = external_tensors(&deep).expect_err("too deep");
        assert_eq!(error.what, "graphs nested too deep");
        let cut = everywhere(&weight(None));
        let error = external_tensors(&cut[..cut.len() - 1]).expect_err("cut off");
        assert_eq!(error.what, "a length beyond the end of its message");
    }
}
