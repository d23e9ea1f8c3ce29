// SPDX-License-Identifier: Apache-2.0
//! What of a network makes the runtimes refuse it: missing files, unknown operators, versions that are too new. Pure but for
//! [`incompatibility`], which reads the file.
//!
//! Judged against the oldest runtimes that jetwatch is meant for: ONNX Runtime 1.17, and TensorRT 8.5 of JetPack 5. Newer ones
//! read more. Whether a runtime really takes a network is known only when it has opened it. [`check`] is the part that the
//! detector needs to explain a failure; `jetwatch model inspect` adds checks of tensors and quantization.

use std::path::Path;

use serde::Serialize;

use super::summary::{Network, ONNX_DOMAIN, Operator};

/// Newest operator set that TensorRT 8.5's parser reads.
const MAX_TENSORRT_OPSET: i64 = 17;
/// Newest operator set that ONNX Runtime 1.17 reads.
const MAX_RUNTIME_OPSET: i64 = 20;
/// Newest file format that ONNX Runtime 1.17 reads.
const MAX_IR_VERSION: i64 = 9;
/// Oldest operator set with a scale for each channel in `DequantizeLinear`.
const MIN_PER_CHANNEL_OPSET: i64 = 13;
/// Oldest operator set that ONNX Runtime promises to read.
const MIN_RUNTIME_OPSET: i64 = 7;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Some runtime refuses it or runs it badly.
    Warning,
    /// No runtime can run it as it is.
    Error,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// What was found, what was expected, what to do.
    pub text: String,
}

impl Diagnostic {
    /// With the severity [`Severity::Error`].
    pub fn error(text: String) -> Self {
        Self::new(Severity::Error, text)
    }

    /// With the severity [`Severity::Warning`].
    pub fn warning(text: String) -> Self {
        Self::new(Severity::Warning, text)
    }

    /// With the severity [`Severity::Note`].
    pub fn note(text: String) -> Self {
        Self::new(Severity::Note, text)
    }

    fn new(severity: Severity, text: String) -> Self {
        Self { severity, text }
    }
}

/// Domains of operators that every ONNX Runtime knows besides ONNX's own.
const RUNTIME_DOMAINS: [&str; 2] = ["com.microsoft", "ai.onnx.ml"];

/// What was found in the files, operators and versions of `network`, in this order.
#[must_use]
pub fn check(network: &Network) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    files(network, &mut found);
    operators(network, &mut found);
    versions(network, &mut found);
    found
}

/// Why a runtime may refuse to load the network at `path`, in a sentence; `None` when nothing is known against it.
pub fn incompatibility(path: &Path) -> Option<String> {
    let network = match super::read(path) {
        Ok(network) => network,
        Err(error) => return Some(error.to_string()),
    };
    let texts: Vec<String> = check(&network)
        .into_iter()
        .filter(|finding| finding.severity > Severity::Note)
        .map(|finding| finding.text)
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn files(network: &Network, found: &mut Vec<Diagnostic>) {
    for file in &network.external {
        let weights = file.weights;
        match file.found_bytes {
            None => found.push(Diagnostic::error(format!(
                "the file `{}`, which holds {weights} weight(s), is missing: put it next to the ONNX file, or export the network \
                 into one file",
                file.location
            ))),
            Some(bytes) if bytes < file.needed_bytes => found.push(Diagnostic::error(format!(
                "the file `{}` has {bytes} bytes, expected at least {}: it is cut off or belongs to another export; fetch or \
                 export both again",
                file.location, file.needed_bytes
            ))),
            Some(_) => found.push(Diagnostic::note(format!(
                "{weights} weight(s) lie in the file `{}`: it has to stay next to the ONNX file, and model.yaml can give its hash \
                 too (`weights` below the file's precision)",
                file.location
            ))),
        }
    }
    if let [first, rest @ ..] = network.torn_weights.as_slice() {
        found.push(Diagnostic::error(format!(
            "weight `{first}`{} does not have the bytes that its type and shape need: the file is damaged; export it again",
            more(rest.len())
        )));
    }
    if network.listed_weights > 0 {
        found.push(Diagnostic::warning(format!(
            "{} weight(s) are listed as inputs too, as before version 4 of the format: the runtimes then cannot compute ahead \
             what depends on weights alone; models/quantize.py takes them out, or export with keep_initializers_as_inputs=False",
            network.listed_weights
        )));
    }
}

fn more(count: usize) -> String {
    if count == 0 {
        return String::new();
    }
    format!(" and {count} more")
}

fn operators(network: &Network, found: &mut Vec<Diagnostic>) {
    for operator in &network.operators {
        if operator.is_defined || operator.domain == ONNX_DOMAIN && !is_plugin(operator) {
            continue;
        }
        let (name, place) = (&operator.name, location(operator));
        if is_plugin(operator) {
            found.push(Diagnostic::warning(format!(
                "operator `{name}`{place} is a plug-in of TensorRT, which ONNX Runtime does not have: run the network with \
                 TensorRT, or export it without its suppression of boxes and let jetwatch do that"
            )));
        } else if !RUNTIME_DOMAINS.contains(&operator.domain.as_str()) {
            found.push(Diagnostic::error(format!(
                "operator `{name}` of the domain `{}`{place} is known neither to ONNX Runtime nor to TensorRT: export the \
                 network without it, or have the operator written out in ONNX's own",
                operator.domain
            )));
        } else if !matches!(name.as_str(), "QuantizeLinear" | "DequantizeLinear") {
            found.push(Diagnostic::warning(format!(
                "operator `{name}` of the domain `{}`{place} is ONNX Runtime's own, which TensorRT's parser refuses: give \
                 the network as it was before ONNX Runtime optimized it",
                operator.domain
            )));
        }
    }
}

/// Operators of TensorRT's plug-ins, which its own parser knows and ONNX Runtime does not.
fn is_plugin(operator: &Operator) -> bool {
    operator.name.ends_with("_TRT")
}

/// Whether the network has operators of TensorRT, so that ONNX Runtime cannot load it.
pub fn has_plugins(network: &Network) -> bool {
    network.operators.iter().any(is_plugin)
}

/// Where an operator stands, for a message.
fn location(operator: &Operator) -> String {
    if operator.first_node.is_empty() {
        return format!(" ({}×)", operator.count);
    }
    format!(
        " ({}×, first in node `{}`)",
        operator.count, operator.first_node
    )
}

fn versions(network: &Network, found: &mut Vec<Diagnostic>) {
    let Some(opset) = network.opset() else {
        found.push(Diagnostic::error(
            "no operator set of ONNX's own is named: the file is damaged or was made by hand; export it again".to_owned(),
        ));
        return;
    };
    if opset > MAX_RUNTIME_OPSET {
        found.push(Diagnostic::warning(format!(
            "operator set {opset} is newer than ONNX Runtime 1.17 ({MAX_RUNTIME_OPSET}) and TensorRT 8.5 ({MAX_TENSORRT_OPSET}) read: \
             export with opset_version={MAX_TENSORRT_OPSET}, or run it with newer ones only"
        )));
    } else if opset > MAX_TENSORRT_OPSET {
        found.push(Diagnostic::warning(format!(
            "operator set {opset} is newer than TensorRT 8.5 of JetPack 5 reads ({MAX_TENSORRT_OPSET}): export with \
             opset_version={MAX_TENSORRT_OPSET}, or run it with newer ones only"
        )));
    } else if opset < MIN_RUNTIME_OPSET {
        found.push(Diagnostic::warning(format!(
            "operator set {opset} is older than the runtimes promise to read ({MIN_RUNTIME_OPSET}): export with opset_version=13"
        )));
    } else if opset < MIN_PER_CHANNEL_OPSET {
        found.push(Diagnostic::note(format!(
            "operator set {opset} has no scale for each channel ({MIN_PER_CHANNEL_OPSET} has): it runs, but must be converted \
             before it is quantized, which models/quantize.py does"
        )));
    }
    if network.ir_version > MAX_IR_VERSION {
        found.push(Diagnostic::warning(format!(
            "version {} of the file format is newer than ONNX Runtime 1.17 reads ({MAX_IR_VERSION}): save it with an older `onnx` \
             package, or set its ir_version to {MAX_IR_VERSION} if its operator set is at most {MAX_RUNTIME_OPSET}",
            network.ir_version
        )));
    }
}
