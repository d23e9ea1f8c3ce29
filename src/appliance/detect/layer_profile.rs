// SPDX-License-Identifier: Apache-2.0
//! Times of the layers of a network, with type, precision and device of each.
//!
//! TensorRT reports times through `IProfiler` and the other facts through the engine inspector; both are joined by name.
//! ONNX Runtime writes a trace of its nodes in Chrome's format (`SessionOptions::EnableProfiling`); this file reads it.
//! Called by `jetwatch bench --only layers`.

use std::collections::HashMap;

use serde::Deserialize;

use super::engines::LayerFacts;
use jetwatch_nvidia::session::LayerTime;

/// Time of one layer. Fused layers are one, as the runtime names it.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerProfile {
    /// Name of the layer in the network that runs, after fusion.
    pub name: String,
    /// Type of the layer: an operator of ONNX, or TensorRT's kind of layer; empty where unknown.
    pub kind: String,
    /// Element type of its first output: `fp32`, `fp16`, `int8`, …, `unknown`.
    pub precision: String,
    /// Where it runs: `CPU`, `GPU` or `DLA`; another execution provider of ONNX Runtime by its name.
    pub device: String,
    /// Number of runs.
    pub runs: u32,
    /// Sum over all runs, in ms.
    pub total_ms: f64,
}

/// TensorRT's times with the facts of the inspector's JSON. A layer that the inspector does not name is `unknown`.
pub(super) fn of_engine(times: Vec<LayerTime>, inspected: Option<&str>) -> Vec<LayerProfile> {
    let facts = inspected.map(LayerFacts::by_name).unwrap_or_default();
    let each = times.into_iter().map(|time| {
        let found = facts.get(&time.name).cloned().unwrap_or_default();
        LayerProfile {
            name: time.name,
            kind: found.kind,
            precision: found.precision.to_owned(),
            device: found.device.to_owned(),
            runs: time.runs,
            total_ms: time.total_ms,
        }
    });
    each.collect()
}

/// One event of the trace. Times in µs.
#[derive(Debug, Deserialize)]
struct Event {
    cat: String,
    name: String,
    ts: i64,
    #[serde(default)]
    dur: i64,
    #[serde(default)]
    args: NodeFacts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeFacts {
    op_name: String,
    provider: String,
    node_index: String,
    /// One map for each output: element type to shape.
    output_type_shape: Vec<HashMap<String, serde_json::Value>>,
}

/// The suffix of the events that hold the time of a node.
const NODE_TIME: &str = "_kernel_time";

/// Reads a trace of ONNX Runtime, without its first `warmup` runs. In the order of execution.
///
/// # Errors
/// The trace is no list of events, or holds no run after the warm-up: as a sentence.
pub(super) fn of_trace(trace: &[u8], warmup: usize) -> Result<Vec<LayerProfile>, String> {
    let events: Vec<Event> = serde_json::from_slice(trace)
        .map_err(|error| format!("its profile has an unknown format: {error}"))?;
    let mut runs: Vec<(i64, i64)> = events
        .iter()
        .filter(|event| event.cat == "Session" && event.name == "model_run")
        .map(|event| (event.ts, event.ts + event.dur))
        .collect();
    runs.sort_unstable();
    // The runtime keeps a limited number of events: without its end, a run is not counted.
    let (Some(first), Some(last)) = (runs.get(warmup), runs.last()) else {
        let found = runs.len();
        return Err(format!(
            "its profile holds {found} complete runs, expected more than the {warmup} of the warm-up"
        ));
    };
    let counted = (runs.len() - warmup) as u32;
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    let mut layers: Vec<LayerProfile> = Vec::new();
    for event in &events {
        let Some(name) = event.name.strip_suffix(NODE_TIME) else {
            continue;
        };
        if event.cat != "Node" || event.ts < first.0 || event.ts > last.1 {
            continue;
        }
        let facts = &event.args;
        let place = *places.entry((name, &facts.node_index)).or_insert_with(|| {
            layers.push(LayerProfile {
                name: match name {
                    "" => format!("{} {}", facts.op_name, facts.node_index),
                    name => name.to_owned(),
                },
                kind: facts.op_name.clone(),
                precision: precision(facts).to_owned(),
                device: device(&facts.provider).to_owned(),
                runs: counted,
                total_ms: 0.0,
            });
            layers.len() - 1
        });
        layers[place].total_ms += event.dur as f64 / 1e3;
    }
    Ok(layers)
}

/// The element type of the first output.
fn precision(facts: &NodeFacts) -> &str {
    let first = facts.output_type_shape.first();
    let element = first.and_then(|output| output.keys().next());
    match element.map(String::as_str) {
        Some("float") => "fp32",
        Some("float16") => "fp16",
        Some("bfloat16") => "bf16",
        Some("double") => "fp64",
        Some(other) => other,
        None => "unknown",
    }
}

fn device(provider: &str) -> &str {
    match provider {
        "CPUExecutionProvider" => "CPU",
        "CUDAExecutionProvider" | "TensorrtExecutionProvider" => "GPU",
        "" => "unknown",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two runs of two nodes, of which one is fused, as ONNX Runtime writes them.
    const TRACE: &str = r#"[
{"cat":"Session","pid":1,"tid":1,"dur":900,"ts":1,"ph":"X","name":"session_initialization","args":{}},
{"cat":"Node","pid":1,"tid":1,"dur":700,"ts":1001,"ph":"X","name":"stem/conv_kernel_time","args":{"op_name":"FusedConv","provider":"CPUExecutionProvider","node_index":"3","output_type_shape":[{"float":[1,8,4,4]}]}},
{"cat":"Session","pid":1,"tid":1,"dur":800,"ts":1000,"ph":"X","name":"model_run","args":{}},
{"cat":"Node","pid":1,"tid":1,"dur":30,"ts":2001,"ph":"X","name":"stem/conv_kernel_time","args":{"op_name":"FusedConv","provider":"CPUExecutionProvider","node_index":"3","output_type_shape":[{"float":[1,8,4,4]}]}},
{"cat":"Node","pid":1,"tid":1,"dur":10,"ts":2040,"ph":"X","name":"_kernel_time","args":{"op_name":"QLinearConv","provider":"CPUExecutionProvider","node_index":"4","output_type_shape":[{"int8":[1,8]}]}},
{"cat":"Session","pid":1,"tid":1,"dur":100,"ts":2000,"ph":"X","name":"model_run","args":{}},
{"cat":"Node","pid":1,"tid":1,"dur":34,"ts":3001,"ph":"X","name":"stem/conv_kernel_time","args":{"op_name":"FusedConv","provider":"CPUExecutionProvider","node_index":"3"}},
{"cat":"Session","pid":1,"tid":1,"dur":100,"ts":3000,"ph":"X","name":"model_run","args":{}},
{"cat":"Node","pid":1,"tid":1,"dur":99,"ts":4001,"ph":"X","name":"stem/conv_kernel_time","args":{"op_name":"FusedConv","node_index":"3"}}
]"#;

    #[test]
    fn trace_is_summed_after_the_warm_up() {
        let layers = of_trace(TRACE.as_bytes(), 1).expect("a trace");
        let conv = &layers[0];
        let found = (&*conv.name, &*conv.kind, &*conv.precision, &*conv.device);
        assert_eq!(found, ("stem/conv", "FusedConv", "fp32", "CPU"));
        // The first run is warm-up, the last one has no end.
        assert_eq!((conv.runs, conv.total_ms), (2, 0.064));
        let unnamed = &layers[1];
        let found = (&*unnamed.name, &*unnamed.precision, unnamed.total_ms);
        assert_eq!(found, ("QLinearConv 4", "int8", 0.010));
        let error = of_trace(TRACE.as_bytes(), 3).expect_err("three runs");
        assert!(error.contains("holds 3 complete runs"), "{error}");
        assert!(of_trace(b"{}", 0).is_err());
    }

    #[test]
    fn times_and_facts_of_an_engine_are_joined_by_name() {
        let time = |name: &str| LayerTime {
            name: name.to_owned(),
            total_ms: 2.0,
            runs: 4,
        };
        let json = r#"{"Layers": [{"Name": "stem + relu", "LayerType": "CaskConvolution",
            "Outputs": [{"Format/Datatype": "Four wide channel vectorized row major Int8 format"}]}]}"#;
        let layers = of_engine(vec![time("stem + relu"), time("other")], Some(json));
        let found = (&*layers[0].kind, &*layers[0].precision, &*layers[0].device);
        assert_eq!(found, ("CaskConvolution", "int8", "GPU"));
        assert_eq!(layers[1].precision, "unknown");
        assert_eq!(of_engine(vec![time("a")], None)[0].device, "unknown");
    }
}
