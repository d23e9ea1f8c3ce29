// SPDX-License-Identifier: Apache-2.0
//! Layers of an engine by precision and device, from the JSON of TensorRT's engine inspector.
//!
//! The format of the inspector's text is not specified. Versions 8.5 to 11 write a list `Layers`, whose entries are names or
//! maps, with the formats of their outputs as text, such as `Thirty-two wide channel vectorized row major Int8 format`.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Layers of an engine after fusion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// Number of layers.
    pub total: usize,
    /// Number of layers by output type: `int8`, `fp16`, `fp32`, …, `unknown`.
    pub precision: BTreeMap<String, usize>,
    /// Number of layers by device: `GPU`, `DLA`.
    pub device: BTreeMap<String, usize>,
    /// In an engine with layers on a DLA: layers that the GPU computes, without copies and format conversions.
    pub fell_back: Vec<String>,
}

impl Layers {
    /// Reads the inspector's JSON. `None` when it has no list of layers.
    pub fn read(json: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(json).ok()?;
        let entries = value.get("Layers")?.as_array()?;
        let mut layers = Self::default();
        let mut on_gpu = Vec::new();
        for entry in entries {
            layers.total += 1;
            let precision = precision(entry);
            *layers.precision.entry(precision.to_owned()).or_default() += 1;
            let device = if is_on_dla(entry) { "DLA" } else { "GPU" };
            *layers.device.entry(device.to_owned()).or_default() += 1;
            if device == "GPU" && !is_copy(entry) {
                on_gpu.push(name(entry).to_owned());
            }
        }
        if layers.device.contains_key("DLA") {
            layers.fell_back = on_gpu;
        }
        Some(layers)
    }
}

/// Facts of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerFacts {
    /// TensorRT's type of the layer; empty where unknown.
    pub kind: String,
    /// Element type of its first output: `int8`, `fp16`, `fp32`, …, `unknown`.
    pub precision: &'static str,
    /// `GPU`, `DLA`, or `unknown`.
    pub device: &'static str,
}

impl Default for LayerFacts {
    fn default() -> Self {
        Self {
            kind: String::new(),
            precision: "unknown",
            device: "unknown",
        }
    }
}

impl LayerFacts {
    /// The layers in the inspector's JSON by name; empty when it has no list of layers.
    pub fn by_name(json: &str) -> HashMap<String, Self> {
        let value: Value = serde_json::from_str(json).unwrap_or_default();
        let entries = value.get("Layers").and_then(Value::as_array);
        let facts = |entry: &Value| {
            let facts = Self {
                kind: text(entry, "LayerType").to_owned(),
                precision: precision(entry),
                device: if is_on_dla(entry) { "DLA" } else { "GPU" },
            };
            (name(entry).to_owned(), facts)
        };
        entries.into_iter().flatten().map(facts).collect()
    }
}

fn text<'v>(entry: &'v Value, key: &str) -> &'v str {
    entry.get(key).and_then(Value::as_str).unwrap_or("")
}

/// An entry is a map, or only the name where the engine was built without details.
fn name(entry: &Value) -> &str {
    entry.as_str().unwrap_or_else(|| text(entry, "Name"))
}

fn is_on_dla(entry: &Value) -> bool {
    let device = text(entry, "Device");
    if device.is_empty() {
        // A subgraph that a DLA runs is one layer of this type.
        return text(entry, "LayerType")
            .to_ascii_uppercase()
            .contains("DLA");
    }
    device.to_ascii_uppercase().contains("DLA")
}

/// Whether a layer only copies or converts data.
fn is_copy(entry: &Value) -> bool {
    let kind = text(entry, "LayerType").to_ascii_lowercase();
    ["reformat", "noop", "copy", "shapehostto"]
        .iter()
        .any(|word| kind.contains(word))
}

fn precision(entry: &Value) -> &'static str {
    let declared = text(entry, "Precision");
    if !declared.is_empty() {
        return precision_of_format(declared);
    }
    let outputs = entry.get("Outputs").and_then(Value::as_array);
    let format = outputs.and_then(|outputs| outputs.first());
    format.map_or("unknown", |format| {
        precision_of_format(text(format, "Format/Datatype"))
    })
}

/// The element type in the text of a format.
fn precision_of_format(format: &str) -> &'static str {
    let format = format.to_ascii_lowercase();
    // `bf16` and `fp16` before their substrings.
    [
        ("int8", "int8"),
        ("bf16", "bf16"),
        ("bfloat16", "bf16"),
        ("fp16", "fp16"),
        ("half", "fp16"),
        ("fp8", "fp8"),
        ("fp4", "fp4"),
        ("fp32", "fp32"),
        ("float", "fp32"),
        ("int32", "int32"),
        ("int64", "int64"),
        ("int4", "int4"),
        ("bool", "bool"),
    ]
    .into_iter()
    .find_map(|(known, word)| format.contains(known).then_some(word))
    .unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
        pairs
            .iter()
            .map(|(key, count)| ((*key).to_owned(), *count))
            .collect()
    }

    #[test]
    fn layers_are_counted_by_precision_and_device() {
        let json = r#"{"Layers": [
            {"Name": "quantize", "LayerType": "Reformat", "Outputs": [{"Name": "a", "Format/Datatype": "Four wide channel vectorized row major Int8 format"}]},
            {"Name": "stem", "LayerType": "CaskConvolution", "Outputs": [{"Name": "b", "Format/Datatype": "Thirty-two wide channel vectorized row major Int8 format"}]},
            {"Name": "head", "LayerType": "CaskConvolution", "Outputs": [{"Name": "c", "Format/Datatype": "Row major linear FP16 format"}]},
            {"Name": "out", "LayerType": "kgen", "Outputs": [{"Name": "d", "Format/Datatype": "Float"}]}
        ], "Bindings": ["a", "d"]}"#;
        let layers = Layers::read(json).expect("it has layers");
        assert_eq!(layers.total, 4);
        let wanted = counted(&[("fp16", 1), ("fp32", 1), ("int8", 2)]);
        assert_eq!(layers.precision, wanted);
        assert_eq!(layers.device, counted(&[("GPU", 4)]));
        assert!(layers.fell_back.is_empty());
    }

    #[test]
    fn gpu_fallback_layers_are_named_without_copies() {
        let json = r#"{"Layers": [
            {"Name": "to dla", "LayerType": "Reformat", "Outputs": [{"Format/Datatype": "DLA_HWC4 Int8"}]},
            {"Name": "{ForeignNode[conv1...conv9]}", "LayerType": "DLA", "Outputs": [{"Format/Datatype": "Int8"}]},
            {"Name": "resize", "LayerType": "Resize", "Device": "GPU", "Precision": "Half", "Outputs": []}
        ]}"#;
        let layers = Layers::read(json).expect("it has layers");
        assert_eq!(layers.device, counted(&[("DLA", 1), ("GPU", 2)]));
        assert_eq!(layers.precision, counted(&[("fp16", 1), ("int8", 2)]));
        assert_eq!(layers.fell_back, ["resize"]);
    }

    #[test]
    fn layer_names_are_counted_and_other_formats_rejected() {
        let layers = Layers::read(r#"{"Layers": ["a", "b"], "Bindings": []}"#).expect("layers");
        let found = (layers.total, layers.precision);
        assert_eq!(found, (2, counted(&[("unknown", 2)])));
        for text in ["", "{}", "[]", "{\"Layers\": 3}", "no JSON"] {
            assert_eq!(Layers::read(text), None, "{text}");
        }
    }
}
