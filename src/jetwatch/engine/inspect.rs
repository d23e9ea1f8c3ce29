// SPDX-License-Identifier: Apache-2.0
//! `jetwatch engine inspect`: describes an engine file.

use std::fs;

use anyhow::Context;
use serde_json::json;

use super::{Exit, InspectArgs, describe_layers};
use jetwatch_detect::engines::{self, Layers, Manifest, PlanFile, PlanKind};

/// Prints the properties of the file. Fails when it is not an engine, or not the one that its manifest describes.
pub(super) fn run(args: &InspectArgs) -> anyhow::Result<Exit> {
    let file = engines::inspect_file(&args.file)?;
    let layers = if args.load { load(args, &file)? } else { None };
    if args.json {
        let report = json!({ "file": file, "layers": layers });
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_plan(&file, layers.as_ref());
    }
    let is_engine = file.manifest.is_some() || is_plan(&file.kind);
    Ok(
        if is_engine && file.mismatch.is_none() && is_complete(&file) {
            Exit::Success
        } else {
            Exit::Failure
        },
    )
}

fn is_plan(kind: &PlanKind) -> bool {
    match kind {
        PlanKind::Versioned { .. } | PlanKind::Plan => true,
        PlanKind::Wrapped { plan, .. } => is_plan(plan),
        _ => false,
    }
}

fn is_complete(file: &PlanFile) -> bool {
    match &file.kind {
        PlanKind::Versioned { stated_bytes, .. } => *stated_bytes == file.bytes as u64,
        PlanKind::Empty => false,
        _ => true,
    }
}

/// Loads the plan, without the description in front of it if it has one.
fn load(args: &InspectArgs, file: &PlanFile) -> anyhow::Result<Option<Layers>> {
    let library = engines::open_library(args.tensorrt.as_deref())?;
    let device = engines::device()?;
    let bytes =
        fs::read(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let start = match &file.kind {
        PlanKind::Wrapped { plan_at, .. } => *plan_at,
        _ => 0,
    };
    let plan = bytes.get(start..).unwrap_or_default();
    Ok(engines::inspect(&library, &device, plan, args.dla)?)
}

fn print_plan(file: &PlanFile, layers: Option<&Layers>) {
    println!(
        "file       {} bytes: {}",
        file.bytes,
        file.kind.describe(file.bytes)
    );
    if let PlanKind::Wrapped { description, .. } = &file.kind {
        for (key, value) in description.as_object().into_iter().flatten() {
            let value: String = value.to_string().chars().take(80).collect();
            println!(
                "           {}: {}",
                strip_control(key),
                strip_control(&value)
            );
        }
    }
    match &file.manifest {
        Some(manifest) => print_manifest(manifest),
        None => println!(
            "manifest   none next to the file: jetwatch did not build it, or the build was interrupted"
        ),
    }
    if let Some(mismatch) = &file.mismatch {
        println!("WRONG      {mismatch}");
    }
    match (layers, &file.manifest) {
        (Some(layers), _) => println!("layers     {}", describe_layers(layers)),
        (
            None,
            Some(Manifest {
                layers: Some(layers),
                ..
            }),
        ) => {
            println!("layers     {} (when it was built)", describe_layers(layers));
        }
        _ => println!(
            "layers     unknown; use --load to read them with TensorRT on this machine's GPU"
        ),
    }
}

fn print_manifest(manifest: &Manifest) {
    let of = &manifest.recipe;
    println!(
        "manifest   built {} by jetwatch {} in {:.1} s",
        strip_control(&manifest.built_at),
        strip_control(&manifest.jetwatch),
        manifest.build_seconds
    );
    println!(
        "for        {} {} on {} (compute capability {}){}",
        strip_control(&of.builder),
        strip_control(&of.builder_version),
        strip_control(&of.gpu),
        strip_control(&of.compute_capability),
        match (of.dla, of.gpu_fallback) {
            (false, _) => "",
            (true, true) => ", DLA with GPU fallback",
            (true, false) => ", DLA only",
        }
    );
    println!(
        "of         {} in {}{}, batches of 1 to {}, network SHA-256 {}",
        strip_control(&of.model),
        strip_control(&of.precision),
        if of.calibration_sha256.is_some() {
            ", calibrated"
        } else {
            ""
        },
        of.batch,
        strip_control(&of.onnx_sha256)
    );
}

/// Texts come from a file: control characters, which could move the cursor, are removed.
fn strip_control(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
