//! `jetwatch model init`: a model folder for an ONNX file.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Exit, InitArgs, atomic_write};
use jetwatch_detect::graph::{self, ModelYamlTemplate, Network, Origin, Severity};
use jetwatch_detect::model::{FILE_NAME, ModelSpec};

/// Reads the file, drafts its description, and writes the folder; the description comes last and completes it.
pub(super) fn run(args: &InitArgs) -> Result<Exit> {
    let network = graph::read(&args.file)?;
    let labels = args.labels.as_deref().map(read_labels).transpose()?;
    let draft = ModelYamlTemplate::new(&network, args.layout.as_deref(), args.size, labels)
        .with_context(|| args.file.display().to_string())?;
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => Path::new("models").join(stem(&args.file)?),
    };
    let written = write_folder(args, &network, &draft, &folder)?;
    let spec = ModelSpec::load(&folder).inspect_err(|_| {
        // A description that the daemon would refuse is of no use; the other files are as they were.
        for path in &written {
            let _ = fs::remove_file(path);
        }
    })?;
    println!(
        "{}: layout {} (a guess: {})",
        folder.display(),
        draft.inferred().layout,
        draft.inferred().reason
    );
    println!(
        "{} classes: {}",
        spec.labels.len(),
        first_labels(&spec.labels)
    );
    println!(
        "Look at the lines of {} that say GUESS before you trust it.",
        folder.join(FILE_NAME).display()
    );
    for finding in graph::lint(&network) {
        let word = if finding.severity == Severity::Note {
            "note"
        } else {
            "warning"
        };
        println!("{word}: {}", finding.text);
    }
    Ok(Exit::Success)
}

/// Writes the files and gives the paths of those that were not there before.
fn write_folder(
    args: &InitArgs,
    network: &Network,
    draft: &ModelYamlTemplate,
    folder: &Path,
) -> Result<Vec<PathBuf>> {
    let file_name = args
        .file
        .file_name()
        .context("the path does not end in a file name")?;
    let file_name = file_name
        .to_str()
        .context("the file's name is not UTF-8; rename it")?;
    let source_folder = args.file.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // What lies in the folder already is described where it lies.
    let is_there = same(source_folder, folder);
    let description = folder.join(FILE_NAME);
    let mut targets = vec![description.clone()];
    let mut copies = Vec::new();
    if !is_there {
        copies.push((args.file.clone(), folder.join(file_name)));
        for file in &network.external {
            copies.push((
                source_folder.join(&file.location),
                folder.join(relative_path(&file.location)?),
            ));
        }
        targets.extend(copies.iter().map(|(_, to)| to.clone()));
    }
    if !args.force {
        atomic_write::reject_existing(&targets)?;
    }
    let written: Vec<PathBuf> = targets.into_iter().filter(|path| !path.exists()).collect();
    let write = || {
        let mut weights = Vec::new();
        for (place, file) in network.external.iter().enumerate() {
            let sha256 = match copies.get(1 + place) {
                Some((from, to)) => {
                    if let Some(parent) = to.parent() {
                        fs::create_dir_all(parent)
                            .with_context(|| format!("cannot make {}", parent.display()))?;
                    }
                    atomic_write::copy(from, to)?
                }
                None => atomic_write::hash(&source_folder.join(relative_path(&file.location)?))?,
            };
            weights.push((file.location.clone(), sha256));
        }
        let sha256 = match copies.first() {
            Some((from, to)) => atomic_write::copy(from, to)?,
            None => atomic_write::hash(&args.file)?,
        };
        let name = stem(&args.file)?;
        let origin = Origin {
            name: &name,
            file: file_name,
            sha256,
            weights: &weights,
            labels_file: None,
        };
        atomic_write::write(&description, draft.text(origin).as_bytes())
    };
    write().inspect_err(|_| {
        for path in &written {
            let _ = fs::remove_file(path);
        }
    })?;
    Ok(written)
}

fn read_labels(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the labels in {}", path.display()))?;
    let labels: Vec<String> = text
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    if labels.is_empty() {
        bail!("{}: found no label, expected one a line", path.display());
    }
    Ok(labels)
}

fn stem(path: &Path) -> Result<String> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.map(str::to_owned).with_context(|| {
        format!(
            "{}: the name of the file is not UTF-8; rename it",
            path.display()
        )
    })
}

/// A path that a network gives for a file beside it, which must not lead anywhere else.
fn relative_path(location: &str) -> Result<&Path> {
    let path = Path::new(location);
    if path
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
        && !location.is_empty()
    {
        return Ok(path);
    }
    bail!(
        "the network keeps weights in `{location}`, expected a path below its own folder: save it anew"
    )
}

fn same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        fs::canonicalize(path).ok()
    };
    real(a).is_some() && real(a) == real(b)
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
