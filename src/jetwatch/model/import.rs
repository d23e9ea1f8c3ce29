//! `jetwatch model import`: converts a network of Darknet into a model folder.

use jetwatch_detect::model::FILE_NAME;
use jetwatch_models::{DarknetImport, import_darknet};

use super::{Exit, ImportArgs};

/// Creates the folder and prints what it holds.
pub(super) fn run(args: &ImportArgs) -> anyhow::Result<Exit> {
    let created = import_darknet(&DarknetImport {
        config: &args.darknet,
        weights: &args.weights,
        names: args.names.as_deref(),
        folder: args.out.as_deref(),
        force: args.force,
    })?;
    let grids: Vec<String> = created
        .grids
        .iter()
        .map(|grid| format!("{} anchors at stride {}", grid.anchors.len(), grid.stride))
        .collect();
    println!(
        "{}: layout {}, input {}, {} classes, {}",
        created.folder.display(),
        created.layout,
        created.size,
        created.labels.len(),
        grids.join(", ")
    );
    if args.names.is_none() {
        println!(
            "The files do not name the classes: write labels in {}, or import it again with --names FILE --force.",
            created.folder.join(FILE_NAME).display()
        );
    }
    Ok(Exit::Success)
}
