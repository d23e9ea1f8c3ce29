//! A network out of a package of PyPI: the wheel is fetched and verified, and its network is converted to ONNX.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use jetwatch_config::Section;
use jetwatch_files::Sha256Digest;
use jetwatch_types::Size;

use super::index::find_file;
use super::wheel::read_member;
use super::{Download, DownloadResult, Entry, FetchError, Progress, RetryPolicy, download};
use crate::paddle::{Conversion, ConvertedOutput, convert};

/// Largest side of an input.
const MAX_SIDE: i64 = 8192;

/// A wheel of PyPI with a network of PaddlePaddle, and how it becomes the ONNX file.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
pub struct RegistryPackage {
    /// Name of the project on PyPI.
    #[key(text = "the name of a project")]
    pub package: String,
    /// Its version.
    #[key(text = "a version")]
    pub version: String,
    /// Name of the wheel.
    #[key(text = "a file name that ends with .whl", check = is_wheel)]
    pub wheel: String,
    /// Length of the wheel in bytes.
    #[key(range = 1..=1 << 40, unit = "bytes")]
    pub wheel_bytes: u64,
    /// SHA-256 of the wheel.
    #[key(text = "64 lower-case hexadecimal digits", parse = super::manifest::lower_case_digest)]
    pub wheel_sha256: Sha256Digest,
    /// The network's operators in the wheel: model.pdmodel.
    #[key(text = "the path of a file in the wheel")]
    pub program: String,
    /// The network's weights in the wheel: model.pdiparams.
    #[key(text = "the path of a file in the wheel")]
    pub parameters: String,
    /// The licence in the wheel; it is copied into the model folder.
    #[key(text = "the path of a file in the wheel")]
    pub license_file: String,
    /// Who made the network, for the notice in the model folder.
    #[key(text = "the authors")]
    pub authors: String,
    /// Variable that is the network's input.
    #[key(text = "the name of a variable")]
    pub input: String,
    /// Width of the input.
    #[key(range = 1..=MAX_SIDE, unit = "pixels")]
    pub width: u32,
    /// Height of the input.
    #[key(range = 1..=MAX_SIDE, unit = "pixels")]
    pub height: u32,
    /// Variables that become outputs; what follows them is left out.
    #[key(required)]
    pub outputs: Vec<OutputVariable>,
}

/// A variable that becomes an output.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
pub struct OutputVariable {
    /// Name of the output in the ONNX file.
    #[key(text = "a name")]
    pub name: String,
    /// The variable in the network.
    #[key(text = "the name of a variable")]
    pub variable: String,
}

fn is_wheel(text: &str) -> bool {
    text.ends_with(".whl") && Path::new(text).file_name().is_some_and(|last| last == text)
}

/// What to fetch, and where it goes.
#[derive(Debug, Clone, Copy)]
pub struct RegistryDownload<'a> {
    /// The network's entry in the catalogue.
    pub entry: &'a Entry,
    /// The wheel of the entry.
    pub package: &'a RegistryPackage,
    /// Address of the package index.
    pub index: &'a str,
    /// Address of the wheel; `None`: where the package index has it.
    pub url: Option<&'a str>,
    /// Where the wheel is kept.
    pub cache: &'a Path,
    /// The network's file in the model folder.
    pub path: &'a Path,
}

/// Folder of downloads that can be fetched again: `$XDG_CACHE_HOME/jetwatch`, or `.cache/jetwatch` in the home folder.
#[must_use]
pub fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("jetwatch"))
}

/// Fetches the wheel, converts its network and writes it with licence and notice. Blocks until it is complete.
///
/// The wheel stays in the cache: several networks come out of one.
///
/// # Errors
/// The wheel cannot be fetched or verified, the network cannot be converted or is not the expected one, or writing fails.
pub fn fetch_and_convert(
    request: &RegistryDownload<'_>,
    policy: &RetryPolicy,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<DownloadResult, FetchError> {
    let (entry, package) = (request.entry, request.package);
    if let (Some(expected), Ok(found)) = (entry.sha256, Sha256Digest::of_file(request.path))
        && expected == found
    {
        return Ok(DownloadResult {
            sha256: found,
            was_present: true,
        });
    }
    let wheel = request.cache.join(&package.wheel);
    let is_cached = Sha256Digest::of_file(&wheel).is_ok_and(|found| found == package.wheel_sha256);
    if !is_cached {
        let url = match request.url {
            Some(url) => url.to_owned(),
            None => {
                let scratch = request.cache.join(format!("{}.html", package.wheel));
                let file = (package.package.as_str(), package.wheel.as_str());
                find_file(request.index, file, &scratch, policy, on_progress)?
            }
        };
        let wanted = Download {
            url: &url,
            bytes: Some(package.wheel_bytes),
            sha256: Some(package.wheel_sha256),
            path: &wheel,
        };
        download(&wanted, policy, on_progress)?;
    }
    let program = read_member(&wheel, &package.program)?;
    let parameters = read_member(&wheel, &package.parameters)?;
    let license = read_member(&wheel, &package.license_file)?;
    let network = convert(&program, &parameters, &conversion(entry, package))?;
    let found = Sha256Digest::of(&network);
    if let Some(expected) = entry.sha256
        && expected != found
    {
        return Err(FetchError::Converted {
            file: entry.file.clone(),
            found,
            expected,
        });
    }
    let write = |path: PathBuf, bytes: &[u8]| {
        jetwatch_files::write(&path, bytes).map_err(|error| FetchError::Write {
            path: error.path,
            source: error.source,
        })
    };
    let folder = request.path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(|source| FetchError::Write {
        path: folder.to_owned(),
        source,
    })?;
    write(folder.join("LICENSE"), &license)?;
    write(folder.join("NOTICE"), notice(entry, package).as_bytes())?;
    write(request.path.to_owned(), &network)?;
    Ok(DownloadResult {
        sha256: found,
        was_present: false,
    })
}

fn conversion(entry: &Entry, package: &RegistryPackage) -> Conversion {
    let output = |output: &OutputVariable| ConvertedOutput {
        variable: output.variable.clone(),
        name: output.name.clone(),
    };
    let metadata = [
        ("title", entry.title.clone()),
        ("author", package.authors.clone()),
        ("license", entry.license.clone()),
        (
            "source",
            format!(
                "PyPI {} {}, {}",
                package.package, package.version, package.program
            ),
        ),
    ];
    Conversion {
        input: package.input.clone(),
        size: Size::new(package.width, package.height),
        outputs: package.outputs.iter().map(output).collect(),
        metadata: metadata.map(|(key, value)| (key.to_owned(), value)).into(),
    }
}

/// What the licence asks for: whose work it is, and what was changed.
fn notice(entry: &Entry, package: &RegistryPackage) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}: {}", entry.file, entry.title);
    let _ = writeln!(
        text,
        "Made by {}. Licence: {}.",
        package.authors, entry.license
    );
    let _ = writeln!(
        text,
        "Source: {} of {} {} (PyPI), {}, SHA-256 {}.",
        package.program, package.package, package.version, package.wheel, package.wheel_sha256
    );
    let _ = writeln!(
        text,
        "Changed by jetwatch: converted from PaddlePaddle to ONNX for an input of {}x{}; the steps after the outputs {} (decoding of \
         boxes and NMS) were removed; batch normalization was folded into the convolutions. The weights are otherwise unchanged.",
        package.width,
        package.height,
        package
            .outputs
            .iter()
            .map(|output| output.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    );
    text
}
