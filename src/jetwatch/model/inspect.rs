// SPDX-License-Identifier: Apache-2.0
//! `jetwatch model inspect`: prints the content of an ONNX file.

use std::fmt::Write as _;

use jetwatch_detect::graph::{Network, Severity, Tensor};
use jetwatch_models::{Inspection, inspect};

use super::{Exit, InspectArgs};

/// Maximum number of operators in the text, so that it fits the screen; the JSON has all.
const MAX_OPERATORS: usize = 12;

/// Prints a report, or JSON. Fails when no runtime can run the network as it is.
pub(super) fn run(args: &InspectArgs) -> anyhow::Result<Exit> {
    let inspection = inspect(&args.file)?;
    if args.json {
        let report = serde_json::to_value(&inspection)?;
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report(&inspection));
    }
    Ok(if inspection.is_runnable() {
        Exit::Success
    } else {
        Exit::Failure
    })
}

fn report(inspection: &Inspection) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_report(&mut text, inspection);
    // Names come from the file: control characters, which could move the cursor, are removed.
    text.chars()
        .filter(|c| *c == '\n' || !c.is_control())
        .collect()
}

fn write_report(text: &mut String, inspection: &Inspection) -> std::fmt::Result {
    let network = &inspection.network;
    let opsets: Vec<String> = network
        .opsets
        .iter()
        .map(|opset| format!("{} {}", opset.domain, opset.version))
        .collect();
    writeln!(
        text,
        "file        {:.1} MB, IR version {}, {}",
        network.bytes as f64 / 1e6,
        network.ir_version,
        producer(network)
    )?;
    writeln!(text, "operators   of {}", opsets.join(", "))?;
    write_tensors(text, "input", &network.inputs)?;
    write_tensors(text, "output", &network.outputs)?;
    writeln!(text, "parameters  {}", network.parameters)?;
    let mut nodes = Vec::new();
    for operator in network.operators.iter().take(MAX_OPERATORS) {
        nodes.push(format!("{} {}×", operator.name, operator.count));
    }
    let rest = network.operators.len().saturating_sub(MAX_OPERATORS);
    if rest > 0 {
        nodes.push(format!("{rest} more kinds"));
    }
    let count: usize = network
        .operators
        .iter()
        .map(|operator| operator.count)
        .sum();
    writeln!(text, "nodes       {count}: {}", nodes.join(", "))?;
    write_quantization(text, network)?;
    for file in &network.external {
        let found = file
            .found_bytes
            .map_or_else(|| "missing".to_owned(), |bytes| format!("{bytes} bytes"));
        writeln!(
            text,
            "external    `{}`: {found}, {} weights",
            file.location, file.weights
        )?;
    }
    for (key, value) in &network.metadata {
        let short: String = value.chars().take(80).collect();
        let more = if short.len() < value.len() { "…" } else { "" };
        writeln!(text, "noted       {key}: {short}{more}")?;
    }
    match inspection.layouts.as_slice() {
        [] => writeln!(
            text,
            "layout      none fits the outputs; `jetwatch model init` prints what each one needs"
        )?,
        [best, others @ ..] => {
            writeln!(
                text,
                "layout      {} (a guess), {}",
                best.layout, best.found.reason
            )?;
            for other in others {
                writeln!(
                    text,
                    "            or {}, {}",
                    other.layout, other.found.reason
                )?;
            }
            match best.found.classes {
                0 => writeln!(text, "classes     unknown")?,
                classes => writeln!(text, "classes     {classes}")?,
            }
        }
    }
    for diagnostic in &inspection.diagnostics {
        let word = match diagnostic.severity {
            Severity::Error => "ERROR",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        writeln!(text, "{word:<11} {}", diagnostic.text)?;
    }
    Ok(())
}

fn producer(network: &Network) -> &str {
    if network.producer.is_empty() {
        "unknown producer"
    } else {
        &network.producer
    }
}

fn write_tensors(text: &mut String, kind: &str, tensors: &[Tensor]) -> std::fmt::Result {
    for tensor in tensors {
        writeln!(text, "{kind:<11} `{}` {tensor}", tensor.name)?;
    }
    Ok(())
}

fn write_quantization(text: &mut String, network: &Network) -> std::fmt::Result {
    let quantized = &network.quantization;
    if !quantized.is_any() {
        return writeln!(text, "quantized   no");
    }
    writeln!(
        text,
        "quantized   {} of {} layers; activations {} signed, {} unsigned; weights {} per channel, {} per tensor, {} kept as \
         floats; biases {}; {} integer nodes",
        quantized.quantized_layers,
        quantized.layers,
        quantized.signed_activations,
        quantized.unsigned_activations,
        quantized.per_channel_weights,
        quantized.per_tensor_weights,
        quantized.float_weights,
        quantized.quantized_biases,
        quantized.integer_nodes
    )
}
