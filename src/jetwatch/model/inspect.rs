//! `jetwatch model inspect`: what an ONNX file holds.

use std::fmt::Write as _;

use serde_json::json;

use super::{Exit, InspectArgs};
use jetwatch_detect::graph::{self, Diagnostic, InferredLayout, Network, Severity, Tensor};

/// Operators on a line of their own each would fill the screen; the rest is in the JSON.
const MAX_OPERATORS: usize = 12;

/// Prints a report, or JSON. Fails when no runtime can run the network as it is.
pub(super) fn run(args: &InspectArgs) -> anyhow::Result<Exit> {
    let network = graph::read(&args.file)?;
    let findings = graph::lint(&network);
    let guesses = graph::candidate_layouts(&network, None);
    if args.json {
        let report = json!({ "network": network, "findings": findings, "layouts": guesses });
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report(&network, &findings, &guesses));
    }
    let is_wrong = findings
        .iter()
        .any(|finding| finding.severity == Severity::Error);
    Ok(if is_wrong {
        Exit::Failure
    } else {
        Exit::Success
    })
}

fn report(network: &Network, findings: &[Diagnostic], guesses: &[InferredLayout]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_report(&mut text, network, findings, guesses);
    // Names come from the file: what would move the cursor is not printed.
    text.chars()
        .filter(|c| *c == '\n' || !c.is_control())
        .collect()
}

fn write_report(
    text: &mut String,
    network: &Network,
    findings: &[Diagnostic],
    guesses: &[InferredLayout],
) -> std::fmt::Result {
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
            "beside it   `{}`: {found}, {} weights",
            file.location, file.weights
        )?;
    }
    for (key, value) in &network.metadata {
        let short: String = value.chars().take(80).collect();
        let more = if short.len() < value.len() { "…" } else { "" };
        writeln!(text, "noted       {key}: {short}{more}")?;
    }
    match guesses {
        [] => writeln!(
            text,
            "layout      none fits the outputs; `jetwatch model init` says what each needs"
        )?,
        [best, others @ ..] => {
            writeln!(
                text,
                "layout      {} (a guess), {}",
                best.layout, best.reason
            )?;
            for other in others {
                writeln!(text, "            or {}, {}", other.layout, other.reason)?;
            }
            match best.classes {
                0 => writeln!(text, "classes     unknown")?,
                classes => writeln!(text, "classes     {classes}")?,
            }
        }
    }
    for finding in findings {
        let word = match finding.severity {
            Severity::Error => "ERROR",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        writeln!(text, "{word:<11} {}", finding.text)?;
    }
    Ok(())
}

fn producer(network: &Network) -> &str {
    if network.producer.is_empty() {
        "written by a program that does not say its name"
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
