//! What of a network the runtimes will refuse or run badly, and what to do about it. Pure.
//!
//! Judged against the oldest runtimes that jetwatch is meant for: ONNX Runtime 1.17, and TensorRT 8.5 of JetPack 5. Newer ones
//! read more. Whether a runtime really takes a network is known only when it has opened it.

use std::path::Path;

use serde::Serialize;

use super::infer_layout::{self, image_input};
use super::summary::{Axis, Element, Network, ONNX_DOMAIN, Operator};

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

/// Operators of TensorRT's plug-ins, which its own parser knows and ONNX Runtime does not.
const TENSORRT_PLUGINS: [&str; 6] = [
    "EfficientNMS_TRT",
    "BatchedNMS_TRT",
    "BatchedNMSDynamic_TRT",
    "NMS_TRT",
    "GridAnchor_TRT",
    "YoloLayer_TRT",
];

/// Domains of operators that every ONNX Runtime knows besides ONNX's own.
const RUNTIME_DOMAINS: [&str; 2] = ["com.microsoft", "ai.onnx.ml"];

/// Everything that was found, what matters most first.
#[must_use]
pub fn lint(network: &Network) -> Vec<Diagnostic> {
    let mut found = Diagnostics(Vec::new());
    files(network, &mut found);
    operators(network, &mut found);
    versions(network, &mut found);
    tensors(network, &mut found);
    quantization(network, &mut found);
    let mut findings = found.0;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Why a runtime may refuse to load the network at `path`, in a sentence; `None` when nothing is known against it.
#[must_use]
pub fn incompatibility(path: &Path) -> Option<String> {
    let network = match super::read(path) {
        Ok(network) => network,
        Err(error) => return Some(error.to_string()),
    };
    let mut found = Diagnostics(Vec::new());
    files(&network, &mut found);
    operators(&network, &mut found);
    versions(&network, &mut found);
    let texts: Vec<String> = found
        .0
        .into_iter()
        .filter(|finding| finding.severity > Severity::Note)
        .map(|finding| finding.text)
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    fn error(&mut self, text: String) {
        self.push(Severity::Error, text);
    }

    fn warning(&mut self, text: String) {
        self.push(Severity::Warning, text);
    }

    fn note(&mut self, text: String) {
        self.push(Severity::Note, text);
    }

    fn push(&mut self, severity: Severity, text: String) {
        self.0.push(Diagnostic { severity, text });
    }
}

fn files(network: &Network, found: &mut Diagnostics) {
    for file in &network.external {
        let weights = file.weights;
        match file.found_bytes {
            None => found.error(format!(
                "the file `{}`, which holds {weights} weight(s), is missing: put it beside the ONNX file, or export the network \
                 into one file",
                file.location
            )),
            Some(bytes) if bytes < file.needed_bytes => found.error(format!(
                "the file `{}` has {bytes} bytes, expected at least {}: it is cut off or belongs to another export; fetch or \
                 export both anew",
                file.location, file.needed_bytes
            )),
            Some(_) => found.note(format!(
                "{weights} weight(s) lie in the file `{}`: it has to stay beside the ONNX file, and model.yaml can give its hash \
                 too (`weights` below the file's precision)",
                file.location
            )),
        }
    }
    if let [first, rest @ ..] = network.torn_weights.as_slice() {
        found.error(format!(
            "weight `{first}`{} does not have the bytes that its type and shape need: the file is damaged; export it again",
            more(rest.len())
        ));
    }
    if network.listed_weights > 0 {
        found.warning(format!(
            "{} weight(s) are listed as inputs too, as before version 4 of the format: the runtimes then cannot compute ahead \
             what depends on weights alone; models/quantize.py takes them out, or export with keep_initializers_as_inputs=False",
            network.listed_weights
        ));
    }
}

fn more(count: usize) -> String {
    if count == 0 {
        return String::new();
    }
    format!(" and {count} more")
}

fn operators(network: &Network, found: &mut Diagnostics) {
    for operator in &network.operators {
        if operator.is_defined || operator.domain == ONNX_DOMAIN && !is_plugin(operator) {
            continue;
        }
        let (name, place) = (&operator.name, location(operator));
        if is_plugin(operator) {
            found.warning(format!(
                "operator `{name}`{place} is a plug-in of TensorRT, which ONNX Runtime does not have: run the network with \
                 TensorRT, or export it without its suppression of boxes and let jetwatch do that"
            ));
        } else if !RUNTIME_DOMAINS.contains(&operator.domain.as_str()) {
            found.error(format!(
                "operator `{name}` of the domain `{}`{place} is known neither to ONNX Runtime nor to TensorRT: export the \
                 network without it, or have the operator written out in ONNX's own",
                operator.domain
            ));
        } else if !matches!(name.as_str(), "QuantizeLinear" | "DequantizeLinear") {
            found.warning(format!(
                "operator `{name}` of the domain `{}`{place} is ONNX Runtime's own, which TensorRT's parser refuses: give \
                 the network as it was before ONNX Runtime optimized it",
                operator.domain
            ));
        }
    }
}

fn is_plugin(operator: &Operator) -> bool {
    operator.name.ends_with("_TRT") || TENSORRT_PLUGINS.contains(&operator.name.as_str())
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

fn versions(network: &Network, found: &mut Diagnostics) {
    let Some(opset) = network.opset() else {
        found.error(
            "no operator set of ONNX's own is named: the file is damaged or was made by hand; export it again".to_owned(),
        );
        return;
    };
    if opset > MAX_RUNTIME_OPSET {
        found.warning(format!(
            "operator set {opset} is newer than ONNX Runtime 1.17 ({MAX_RUNTIME_OPSET}) and TensorRT 8.5 ({MAX_TENSORRT_OPSET}) read: \
             export with opset_version={MAX_TENSORRT_OPSET}, or run it with newer ones only"
        ));
    } else if opset > MAX_TENSORRT_OPSET {
        found.warning(format!(
            "operator set {opset} is newer than TensorRT 8.5 of JetPack 5 reads ({MAX_TENSORRT_OPSET}): export with \
             opset_version={MAX_TENSORRT_OPSET}, or run it with newer ones only"
        ));
    } else if opset < MIN_RUNTIME_OPSET {
        found.warning(format!(
            "operator set {opset} is older than the runtimes promise to read ({MIN_RUNTIME_OPSET}): export with opset_version=13"
        ));
    } else if opset < MIN_PER_CHANNEL_OPSET {
        found.note(format!(
            "operator set {opset} has no scale for each channel ({MIN_PER_CHANNEL_OPSET} has): it runs, but must be converted \
             before it is quantized, which models/quantize.py does"
        ));
    }
    if network.ir_version > MAX_IR_VERSION {
        found.warning(format!(
            "version {} of the file format is newer than ONNX Runtime 1.17 reads ({MAX_IR_VERSION}): save it with an older `onnx` \
             package, or set its ir_version to {MAX_IR_VERSION} if its operator set is at most {MAX_RUNTIME_OPSET}",
            network.ir_version
        ));
    }
}

fn tensors(network: &Network, found: &mut Diagnostics) {
    if network.outputs.is_empty() {
        found.error(
            "the network has no output: the file was cut out of another one; export it again"
                .to_owned(),
        );
    }
    let Some(input) = image_input(network) else {
        let inputs: Vec<String> = network
            .inputs
            .iter()
            .map(|input| format!("`{}` {input}", input.name))
            .collect();
        found.error(format!(
            "no input takes pictures: found {}, expected float32 [1 or N, 3, height, width]; export the network with its \
             input's shape",
            if inputs.is_empty() { "none".to_owned() } else { inputs.join(", ") }
        ));
        return;
    };
    let axes = input.axes.as_deref().unwrap_or(&[]);
    if axes[1] != Axis::Fixed(3) && !matches!(axes[1], Axis::Open(_)) {
        let is_last = axes[3] == Axis::Fixed(3);
        found.error(format!(
            "input `{}`: found {input}, expected three planes on the second axis; {}",
            input.name,
            if is_last {
                "colors come last here: export it for [N, 3, height, width] (tf2onnx: --inputs-as-nchw)"
            } else {
                "jetwatch runs networks of color pictures"
            }
        ));
    }
    if !matches!(input.element, Some(Element::FLOAT | Element::UINT8)) {
        found.error(format!(
            "input `{}`: found {input}, expected float32 or uint8: export the network with 32-bit floats at its ends; they may \
             be reduced inside",
            input.name
        ));
    }
    let guess = infer_layout::infer_layout(network, None);
    let is_known = |name: &String| {
        guess.as_ref().is_some_and(|guess| {
            guess.sizes_name.as_ref() == Some(name) || guess.scales_name.as_ref() == Some(name)
        })
    };
    let others: Vec<String> = network
        .inputs
        .iter()
        .filter(|other| other.name != input.name && !is_known(&other.name))
        .map(|other| format!("`{}` {other}", other.name))
        .collect();
    if !others.is_empty() {
        found.error(format!(
            "another input {}: jetwatch gives pictures, and their size or scale to networks like RT-DETR; export the network \
             with one input",
            others.join(" and ")
        ));
    }
    for output in &network.outputs {
        if output.element == Some(Element::FLOAT16) {
            found.error(format!(
                "output `{}`: found {output}, expected float32: export the network with 32-bit floats at its ends; they may be \
                 reduced inside",
                output.name
            ));
        }
    }
    if network.count("NonMaxSuppression") > 0 {
        found.warning(
            "the network suppresses boxes itself (`NonMaxSuppression`), so that its output has no fixed shape: jetwatch's \
             own suppression is faster, export without it"
                .to_owned(),
        );
    }
}

fn quantization(network: &Network, found: &mut Diagnostics) {
    let quantized = &network.quantization;
    if network.half_weights > 0 {
        found.note(format!(
            "{} weight(s) are 16-bit floats: ONNX Runtime computes most of them in 32 bits on a CPU; TensorRT makes 16 bits \
             of a 32-bit network itself",
            network.half_weights
        ));
    }
    if !quantized.is_any() {
        return;
    }
    if quantized.quantized_biases > 0 {
        found.warning(format!(
            "{} of {} layers have quantized biases, which TensorRT's parser refuses: quantize anew with models/quantize.py, or \
             with onnxruntime's QuantizeBias=False",
            quantized.quantized_biases, quantized.layers
        ));
    }
    if quantized.unsigned_activations > 0 {
        found.warning(format!(
            "{} activations are unsigned bytes, which suits CPUs; TensorRT takes signed ones only: \
             models/quantize.py --target tensorrt",
            quantized.unsigned_activations
        ));
    }
    if quantized.asymmetric > 0 {
        found.warning(format!(
            "{} zero points are not 0, which TensorRT refuses: quantize symmetrically (models/quantize.py --target tensorrt)",
            quantized.asymmetric
        ));
    }
    if quantized.per_tensor_weights > quantized.per_channel_weights {
        found.warning(format!(
            "{} weights have one scale for all channels, {} one for each: accuracy suffers, above all in depthwise \
             convolutions; quantize with a scale for each channel",
            quantized.per_tensor_weights, quantized.per_channel_weights
        ));
    }
    if quantized.integer_nodes > 0 {
        found.warning(format!(
            "{} nodes compute in integers (`QLinearConv` and the like), which TensorRT's parser refuses: quantize with \
             QuantizeLinear and DequantizeLinear (QuantFormat.QDQ)",
            quantized.integer_nodes
        ));
    }
}
