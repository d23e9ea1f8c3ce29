//! `jetwatch engine inspect`: what an engine file is.

use std::fs;

use anyhow::Context;
use serde_json::json;

use super::{Exit, InspectArgs, layers_in_words};
use jetwatch_detect::engines::{self, Layers, Manifest, PlanFile, PlanKind};

/// Prints what is known. Fails when the file is no engine, or not the one that its manifest describes.
pub(super) fn run(args: &InspectArgs) -> anyhow::Result<Exit> {
    let file = engines::look_into(&args.file)?;
    let layers = if args.load { load(args, &file)? } else { None };
    if args.json {
        let report = json!({ "file": file, "layers": layers });
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say(&file, layers.as_ref());
    }
    let is_known = file.manifest.is_some() || is_plan(&file.kind);
    Ok(if is_known && file.mismatch.is_none() && is_whole(&file) {
        Exit::Success
    } else {
        Exit::Failure
    })
}

fn is_plan(kind: &PlanKind) -> bool {
    match kind {
        PlanKind::Versioned { .. } | PlanKind::Plan => true,
        PlanKind::Wrapped { plan, .. } => is_plan(plan),
        _ => false,
    }
}

fn is_whole(file: &PlanFile) -> bool {
    match &file.kind {
        PlanKind::Versioned { stated_bytes, .. } => *stated_bytes == file.bytes as u64,
        PlanKind::Empty => false,
        _ => true,
    }
}

/// Loads the plan, without the description in front of it if there is one.
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

fn say(file: &PlanFile, layers: Option<&Layers>) {
    println!(
        "file       {} bytes: {}",
        file.bytes,
        file.kind.in_words(file.bytes)
    );
    if let PlanKind::Wrapped { description, .. } = &file.kind {
        for (key, value) in description.as_object().into_iter().flatten() {
            let value: String = value.to_string().chars().take(80).collect();
            println!("           {}: {}", plain(key), plain(&value));
        }
    }
    match &file.manifest {
        Some(manifest) => say_manifest(manifest),
        None => println!(
            "manifest   none beside it: jetwatch did not build it, or the build was cut off"
        ),
    }
    if let Some(mismatch) = &file.mismatch {
        println!("WRONG      {mismatch}");
    }
    match (layers, &file.manifest) {
        (Some(layers), _) => println!("layers     {}", layers_in_words(layers)),
        (
            None,
            Some(Manifest {
                layers: Some(layers),
                ..
            }),
        ) => {
            println!("layers     {} (when it was built)", layers_in_words(layers));
        }
        _ => println!("layers     unknown; --load asks TensorRT on this machine's GPU"),
    }
}

fn say_manifest(manifest: &Manifest) {
    let of = &manifest.recipe;
    println!(
        "manifest   built {} by jetwatch {} in {:.1} s",
        plain(&manifest.built_at),
        plain(&manifest.jetwatch),
        manifest.build_seconds
    );
    println!(
        "for        {} {} on {} (compute capability {}){}",
        plain(&of.builder),
        plain(&of.builder_version),
        plain(&of.gpu),
        plain(&of.compute_capability),
        match (of.dla, of.gpu_fallback) {
            (false, _) => "",
            (true, true) => ", DLA with the GPU's help",
            (true, false) => ", DLA alone",
        }
    );
    println!(
        "of         {} in {}{}, batches of 1 to {}, network SHA-256 {}",
        plain(&of.model),
        plain(&of.precision),
        if of.calibration_sha256.is_some() {
            ", calibrated"
        } else {
            ""
        },
        of.batch,
        plain(&of.onnx_sha256)
    );
}

/// Texts come from a file: what would move the cursor is not printed.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
