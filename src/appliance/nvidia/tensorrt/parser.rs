// SPDX-License-Identifier: Apache-2.0
//! The ONNX parser: converts an ONNX file to a TensorRT network, or lists the nodes that it refuses.

use std::ffi::{CString, c_char, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::error::TensorRtError;
use super::ffi_guard::text;
use super::library::Library;
use super::object::{Object, call};
use super::recorder::Recorder;
use super::version::Generation;
use super::vtable::NETWORK_OUTPUTS;

/// A node that the parser refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeError {
    /// Index in the file's list of nodes; `None` when the error does not concern one.
    pub node: Option<usize>,
    /// The node's name; empty where the parser does not report it.
    pub name: String,
    /// The node's operator; empty where the parser does not report it.
    pub operator: String,
    /// The parser's message.
    pub reason: String,
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = self.node {
            write!(f, "node {node}")?;
            if !self.name.is_empty() {
                write!(f, " `{}`", self.name)?;
            }
            if !self.operator.is_empty() {
                write!(f, " ({})", self.operator)?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.reason)
    }
}

const PARSE: usize = 0;

/// Vtable slots of `getNbErrors` and `getError` of `IParser`.
const fn error_slots(generation: Generation) -> (usize, usize) {
    match generation {
        Generation::Eight => (6, 7),
        Generation::Ten => (5, 6),
        Generation::Eleven | Generation::Rtx => (3, 4),
    }
}

/// Parses the ONNX file `onnx` into `network`. It was read from `path`: external data is searched for in the same folder.
///
/// Returns the parser, since weights of the network may point into it.
///
/// # Errors
/// The parser refuses nodes, or the file has no outputs.
pub(super) fn parse(
    library: &Arc<Library>,
    network: &Object,
    recorder: &Recorder,
    onnx: &[u8],
    path: Option<&Path>,
) -> Result<Object, TensorRtError> {
    recorder.clear();
    let failed = |reason| TensorRtError::Failed {
        call: "createNvOnnxParser",
        reason,
    };
    let parser = library
        .new_parser(network)?
        .ok_or_else(|| failed(recorder.summary()))?;
    let path = path.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
    let path = path.as_ref().map_or(std::ptr::null(), |path| path.as_ptr());
    let (this, function) = parser.own(PARSE);
    // SAFETY: slot 0 is `IParser::parse` with this signature in all versions.
    let parse: unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_char) -> bool =
        unsafe { std::mem::transmute(function) };
    // SAFETY: the bytes and the path are valid during the call, and the network outlives the parser.
    let parsed = unsafe { parse(this, onnx.as_ptr().cast(), onnx.len(), path) };
    // Bytes that are not an ONNX file may parse as an empty one.
    let outputs = call!(network, NETWORK_OUTPUTS, () -> i32)?;
    if parsed && outputs > 0 {
        return Ok(parser);
    }
    let mut nodes = errors(&parser, library.generation());
    if parsed && nodes.is_empty() {
        nodes.push(NodeError {
            node: None,
            name: String::new(),
            operator: String::new(),
            reason: "the file holds no network with outputs; expected an ONNX file".to_owned(),
        });
    }
    if nodes.is_empty() {
        nodes.push(NodeError {
            node: None,
            name: String::new(),
            operator: String::new(),
            reason: recorder.summary(),
        });
    }
    Err(TensorRtError::Parse { nodes })
}

fn errors(parser: &Object, generation: Generation) -> Vec<NodeError> {
    let (count, error) = error_slots(generation);
    let (this, function) = parser.own(count);
    // SAFETY: this is `IParser::getNbErrors`.
    let count: unsafe extern "C" fn(*mut c_void) -> i32 = unsafe { std::mem::transmute(function) };
    // SAFETY: the parser is alive.
    let count = unsafe { count(this) };
    let (this, function) = parser.own(error);
    // SAFETY: this is `IParser::getError`.
    let error: unsafe extern "C" fn(*mut c_void, i32) -> *mut c_void =
        unsafe { std::mem::transmute(function) };
    (0..count)
        .filter_map(|index| {
            // SAFETY: the index is below the number of errors.
            let error = unsafe { error(this, index) };
            // SAFETY: the error belongs to the parser, which outlives this use.
            let error = unsafe { Object::borrowed(error, &parser.library) }?;
            Some(read(&error, generation))
        })
        .collect()
}

/// Reads an `IParserError`: a plain class with desc at slot 1, node at 5, and, since generation 10, the node's name and operator at 6 and 7.
fn read(error: &Object, generation: Generation) -> NodeError {
    let message = |slot| {
        let (this, function) = error.own(slot);
        // SAFETY: these slots take the error and return a text.
        let get_text: unsafe extern "C" fn(*mut c_void) -> *const c_char =
            unsafe { std::mem::transmute(function) };
        // SAFETY: the error is alive.
        let pointer = unsafe { get_text(this) };
        // SAFETY: the text belongs to the error.
        unsafe { text(pointer) }
    };
    let (this, function) = error.own(5);
    // SAFETY: this is `IParserError::node`.
    let node: unsafe extern "C" fn(*mut c_void) -> i32 = unsafe { std::mem::transmute(function) };
    // SAFETY: the error is alive.
    let node = unsafe { node(this) };
    let has_names = generation != Generation::Eight;
    NodeError {
        node: usize::try_from(node).ok(),
        name: if has_names { message(6) } else { String::new() },
        operator: if has_names { message(7) } else { String::new() },
        reason: message(1).trim().to_owned(),
    }
}
