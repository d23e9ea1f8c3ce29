// SPDX-License-Identifier: Apache-2.0
//! `jetwatch model init`: creates a model folder for an ONNX file.

use std::path::Path;

use jetwatch_detect::graph::Severity;
use jetwatch_detect::model::FILE_NAME;
use jetwatch_models::{InitOptions, Trial, create_folder};

use super::trial::PictureTrial;
use super::{Exit, InitArgs};

/// Creates the folder and prints what was inferred.
pub(super) fn run(args: &InitArgs) -> anyhow::Result<Exit> {
    let sureness = |folder: &Path| -> anyhow::Result<f32> {
        let image = args.image.as_deref().unwrap_or(Path::new(""));
        Ok(PictureTrial::run(folder, image)?.sureness())
    };
    let trial: Option<Trial<'_>> = args.image.is_some().then_some(&sureness);
    let options = InitOptions {
        file: &args.file,
        folder: args.out.as_deref(),
        layout: args.layout.as_deref(),
        labels: args.labels.as_deref(),
        background: args.background,
        size: args.size,
        force: args.force,
    };
    let created = create_folder(&options, trial)?;
    println!(
        "{}: layout {} (a guess: {})",
        created.folder.display(),
        created.inferred.layout,
        created.inferred.found.reason
    );
    // A network for embeddings has none.
    if !created.labels.is_empty() {
        println!(
            "{} classes: {}",
            created.labels.len(),
            first_labels(&created.labels)
        );
    }
    println!(
        "Check the lines marked GUESS in {} before you use it.",
        created.folder.join(FILE_NAME).display()
    );
    if let Some(image) = &args.image {
        show(&created.folder, image)?;
    }
    for note in &created.notes {
        println!("{note}");
    }
    for diagnostic in &created.diagnostics {
        let word = if diagnostic.severity == Severity::Note {
            "note"
        } else {
            "warning"
        };
        println!("{word}: {}", diagnostic.text);
    }
    Ok(Exit::Success)
}

/// Prints what the network finds in `image`, and writes the picture with boxes.
fn show(folder: &Path, image: &Path) -> anyhow::Result<()> {
    let trial = PictureTrial::run(folder, image)?;
    let written = trial.draw(folder, image)?;
    println!(
        "{}: {} found, drawn in {}",
        image.display(),
        trial.detections.len(),
        written.display()
    );
    for line in trial.lines() {
        println!("  {line}");
    }
    if trial.detections.is_empty() {
        println!(
            "  Nothing reached the threshold. If the picture shows objects of the network's classes, compare color, mean, scale and \
             letterbox in {} with the network's training.",
            folder.join(FILE_NAME).display()
        );
    }
    Ok(())
}

fn first_labels(labels: &[String]) -> String {
    let first: Vec<&str> = labels.iter().take(6).map(String::as_str).collect();
    let more = if labels.len() > first.len() {
        ", …"
    } else {
        ""
    };
    format!("{}{more}", first.join(", "))
}
