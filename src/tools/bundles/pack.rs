//! Packs model folders and a configuration into a bundle, which its publisher then signs with minisign.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use jetwatch_files::{PendingFile, Sha256Digest};
use jiff::Timestamp;
use tar::{Builder, EntryType, Header};

use super::error::io;
use super::manifest::{
    BundledFile, BundledModel, CONFIGURATION, FORMAT, MANIFEST, MAX_MANIFEST_BYTES, MODELS,
    Manifest, ProgramVersion,
};
use super::stage::SIGNATURE_END;
use super::{BundleError, BundleName};

/// What is packed.
#[derive(Debug, Clone)]
pub struct PackOptions {
    /// Name of the bundle.
    pub name: BundleName,
    /// Its serial number.
    pub serial: u64,
    /// The time now.
    pub created: Timestamp,
    /// From when on it is not installed any more.
    pub expires: Timestamp,
    /// Oldest version of the program that runs it.
    pub min_jetwatch: ProgramVersion,
    /// The model folders: how each is called in the bundle, and where it is.
    pub models: Vec<(BundledModel, PathBuf)>,
    /// The configuration.
    pub configuration: Option<PathBuf>,
    /// The folder for `NAME-SERIAL.tar`.
    pub folder: PathBuf,
}

/// A bundle that was packed.
#[derive(Debug)]
pub struct Packed {
    /// Its file.
    pub path: PathBuf,
    /// Its signature, which does not exist yet.
    pub signature: PathBuf,
    /// What it holds.
    pub manifest: Manifest,
    /// Size of the archive in bytes.
    pub bytes: u64,
}

/// Writes the bundle. Equal options and files give equal bytes.
///
/// # Errors
/// A file cannot be read or written, or has a name that bundles do not accept.
pub fn pack(options: &PackOptions) -> Result<Packed, BundleError> {
    let mut sources: Vec<(String, PathBuf)> = Vec::new();
    if let Some(path) = &options.configuration {
        sources.push((CONFIGURATION.to_owned(), path.clone()));
    }
    for (model, folder) in &options.models {
        let inside = format!("{MODELS}/{}", model.folder);
        collect(folder, &inside, &mut sources)?;
    }
    let mut files = Vec::new();
    for (path, source) in &sources {
        let mut opened = File::open(source).map_err(io("read", source))?;
        let bytes = opened.metadata().map_err(io("read", source))?.len();
        let sha256 = Sha256Digest::of_reader(&mut opened).map_err(io("read", source))?;
        files.push(BundledFile {
            path: path.clone(),
            bytes,
            sha256,
        });
    }
    let manifest = Manifest {
        format: FORMAT,
        name: options.name.clone(),
        serial: options.serial,
        created: options.created,
        expires: options.expires,
        min_jetwatch: options.min_jetwatch,
        models: options
            .models
            .iter()
            .map(|(model, _)| model.clone())
            .collect(),
        files,
    };
    let path = options
        .folder
        .join(format!("{}-{}.tar", options.name, options.serial));
    let invalid = |problem: String| BundleError::Content {
        path: path.clone(),
        problem,
    };
    manifest.check_content().map_err(invalid)?;
    if options.expires <= options.created {
        return Err(invalid("it expires before it is packed".to_owned()));
    }
    let mut text =
        serde_json::to_vec_pretty(&manifest).map_err(|error| invalid(error.to_string()))?;
    text.push(b'\n');
    if text.len() as u64 > MAX_MANIFEST_BYTES {
        return Err(invalid(format!(
            "{MANIFEST} has more than {MAX_MANIFEST_BYTES} bytes"
        )));
    }
    let mut pending = PendingFile::create(&path)?;
    write(pending.file(), &text, &manifest, &sources).map_err(io("write", &path))?;
    let bytes = pending.file().metadata().map_err(io("read", &path))?.len();
    pending.commit()?;
    let mut signature = path.clone().into_os_string();
    signature.push(SIGNATURE_END);
    Ok(Packed {
        path,
        signature: signature.into(),
        manifest,
        bytes,
    })
}

/// Adds the files below `folder` in the order of their names; `inside` is the path of the folder in the bundle.
fn collect(
    folder: &Path,
    inside: &str,
    sources: &mut Vec<(String, PathBuf)>,
) -> Result<(), BundleError> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(io("read the model folder", folder))? {
        entries.push(entry.map_err(io("read", folder))?.path());
    }
    entries.sort();
    for path in entries {
        let invalid = |problem: &str| BundleError::Content {
            path: path.clone(),
            problem: problem.to_owned(),
        };
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| invalid("expected a name in ASCII"))?;
        let inside = format!("{inside}/{name}");
        // A link of a model folder is the file that it leads to.
        let kind = fs::metadata(&path).map_err(io("read", &path))?.file_type();
        if kind.is_dir() {
            collect(&path, &inside, sources)?;
        } else if kind.is_file() {
            sources.push((inside, path));
        } else {
            return Err(invalid("expected a file or a folder"));
        }
    }
    Ok(())
}

fn write(
    file: &mut File,
    manifest_text: &[u8],
    manifest: &Manifest,
    sources: &[(String, PathBuf)],
) -> std::io::Result<()> {
    let header = |bytes: u64| {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_mtime(u64::try_from(manifest.created.as_second()).unwrap_or(0));
        header.set_size(bytes);
        header
    };
    let mut archive = Builder::new(std::io::BufWriter::new(file));
    let mut of_manifest = header(manifest_text.len() as u64);
    archive.append_data(&mut of_manifest, MANIFEST, manifest_text)?;
    for ((path, source), listed) in sources.iter().zip(&manifest.files) {
        let content = std::io::Read::take(File::open(source)?, listed.bytes);
        archive.append_data(&mut header(listed.bytes), path, content)?;
    }
    archive.into_inner()?.flush()
}
