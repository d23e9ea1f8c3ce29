// SPDX-License-Identifier: Apache-2.0
//! The library of ONNX Runtime: search path, and the one environment that a process may have.
//!
//! The library is opened at run time and never linked, so one binary runs with any installed version. Called by
//! [`onnx`](super::onnx), which runs networks in it, and by `jetwatch check`, which prints its path.

use std::env;
use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ort::environment::Environment;
use ort::logging::LogLevel;
use parking_lot::Mutex;

/// The environment variable, with its value, that keeps builds of ONNX Runtime with telemetry from writing and sending it.
/// With 1.31.1 the files appear in spite of the switch that its interface has for this.
pub const NO_TELEMETRY: (&str, &str) = ("ORT_DISABLE_TELEMETRY", "1");

/// The oldest usable version: the first whose API has all functions that are called here.
pub const MIN_VERSION: &str = "1.17";

/// The version that the tests run with and the package jetwatch-onnxruntime holds; `cross/onnxruntime.txt` pins it.
pub(crate) const TESTED: &str = "1.31.1";

/// Variable with the library's path, as other programs with ONNX Runtime use it.
pub(crate) const VARIABLE: &str = "ORT_DYLIB_PATH";

/// Where the package jetwatch-onnxruntime puts the library.
const PACKAGE_FOLDER: &str = "/usr/lib/jetwatch/onnxruntime";

/// Start of the library's file name; a version may follow.
const STEM: &str = "libonnxruntime.so";

/// Why ONNX Runtime cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum RuntimeError {
    #[error(
        "ONNX Runtime ({STEM}) was not found in {}; install the package jetwatch-onnxruntime, or unzip what `{}` downloads \
         and name its onnxruntime/capi/{STEM}.{TESTED} in detector.onnxruntime or {VARIABLE}",
        join_paths(searched),
        download_command()
    )]
    Missing { searched: Vec<PathBuf> },
    #[error("{named_by} names {}, which is not a file; expected the path of {STEM}", path.display())]
    NotAFile {
        path: PathBuf,
        /// Origin of the path: the configuration key or the environment variable.
        named_by: &'static str,
    },
    #[error("{} cannot be used as ONNX Runtime {MIN_VERSION} or newer for {}: {reason}", path.display(), env::consts::ARCH)]
    Unusable { path: PathBuf, reason: String },
    #[error("ONNX Runtime was already opened from {}; one process cannot open {} too", open.display(), wanted.display())]
    AlreadyOpen { open: PathBuf, wanted: PathBuf },
}

/// The command that downloads the wheel with the library, with any pip since 20.0 (Ubuntu 20.04). Without all of these
/// options, older releases of pip and of Python get a wheel without the library.
fn download_command() -> String {
    format!(
        "pip download --no-deps --only-binary=:all: --implementation cp --python-version 312 --abi cp312 \
         --platform manylinux_2_28_{} onnxruntime=={TESTED}",
        env::consts::ARCH
    )
}

fn join_paths(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

/// Search path of the library.
#[derive(Debug)]
struct SearchPath {
    /// `detector.onnxruntime`.
    configured: Option<PathBuf>,
    /// `ORT_DYLIB_PATH`.
    variable: Option<PathBuf>,
    /// Folders in order of precedence.
    folders: Vec<PathBuf>,
}

/// The path of the library: `configured`, else that of `ORT_DYLIB_PATH`, else the highest version in the first default
/// folder that has one. Reads folders only; opens no library.
///
/// # Errors
/// A named path is not a file, or no default folder has the library.
pub fn find(configured: Option<&Path>) -> Result<PathBuf, RuntimeError> {
    let variable = env::var_os(VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from);
    SearchPath {
        configured: configured.map(Path::to_owned),
        variable,
        folders: default_dirs(),
    }
    .search()
}

impl SearchPath {
    fn search(self) -> Result<PathBuf, RuntimeError> {
        let named = [
            (self.configured, "detector.onnxruntime"),
            (self.variable, VARIABLE),
        ];
        for (path, named_by) in named {
            // No fallback for a named path: another library in its place would be a surprise.
            if let Some(path) = path {
                return if path.is_file() {
                    Ok(path)
                } else {
                    Err(RuntimeError::NotAFile { path, named_by })
                };
            }
        }
        let found = self.folders.iter().find_map(|folder| newest(folder));
        found.ok_or(RuntimeError::Missing {
            searched: self.folders,
        })
    }
}

fn default_dirs() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(exe_dir) = env::current_exe().ok().as_deref().and_then(Path::parent) {
        folders.push(exe_dir.to_owned());
        folders.extend(exe_dir.parent().map(|above| above.join("lib")));
    }
    folders.extend(checkout().map(|checkout| checkout.join(".cache/onnxruntime")));
    let multiarch = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let system = [
        multiarch.as_str(),
        "/usr/local/lib",
        "/usr/lib",
        "/opt/onnxruntime/lib",
    ];
    folders.extend(system.map(PathBuf::from));
    let data = jetwatch_config::of_user("XDG_DATA_HOME", ".local/share");
    let of_user = [data, jetwatch_config::user_cache()].into_iter().flatten();
    folders.extend(of_user.map(|folder| folder.join("onnxruntime")));
    // Last: a library that the administrator installed, such as one with CUDA, takes precedence over the package's.
    folders.push(PathBuf::from(PACKAGE_FOLDER));
    folders
}

/// The checkout in which this program was built and is: its set-up fetches the library.
fn checkout() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    // CHECKOUT/target/PROFILE/jetwatch
    let folder = program.ancestors().nth(3)?;
    let is_own = folder.join("cross/onnxruntime").is_file();
    is_own.then(|| folder.to_owned())
}

/// The library with the highest version in `folder`; a name without a version ranks lowest.
fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    let candidates = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let version = version_of(entry.file_name().to_str()?)?;
        entry.path().is_file().then(|| (version, entry.path()))
    });
    candidates.max().map(|(_, path)| path)
}

/// `libonnxruntime.so.1.31.1` has the version 1, 31, 1; other files have none.
fn version_of(name: &str) -> Option<Vec<u32>> {
    let rest = name.strip_prefix(STEM)?;
    if rest.is_empty() {
        return Some(Vec::new());
    }
    rest.strip_prefix('.')?
        .split('.')
        .map(|part| part.parse().ok())
        .collect()
}

/// The environment in use and the path of its library. Never released, because sessions need it until the process ends.
static OPEN: Mutex<Option<(PathBuf, Environment)>> = Mutex::new(None);

/// The environment of this process. The first call creates it from the library at `path`.
///
/// # Errors
/// The file is not a usable ONNX Runtime, or an earlier call opened another file.
pub fn open(path: &Path) -> Result<Environment, RuntimeError> {
    let unusable = |reason: String| RuntimeError::Unusable {
        path: path.to_owned(),
        reason,
    };
    let canonical = path
        .canonicalize()
        .map_err(|error| unusable(error.to_string()))?;
    let mut open = OPEN.lock();
    if let Some((first, environment)) = open.as_ref() {
        if *first == canonical {
            return Ok(environment.clone());
        }
        return Err(RuntimeError::AlreadyOpen {
            open: first.clone(),
            wanted: canonical,
        });
    }
    let environment = ort::init_from(&canonical)
        .map_err(|error| unusable(load_error_text(&error)))?
        .with_name("jetwatch")
        .with_telemetry(false)
        .with_logger(Arc::new(bridge_log))
        .build()
        .map_err(|error| unusable(error.to_string()))?;
    // At lower levels the library formats a line for each node of each run before it checks whether it is logged.
    environment.set_log_level(LogLevel::Warning);
    log::debug!(path:% = canonical.display(), build = ort::info(); "opened ONNX Runtime");
    *open = Some((canonical, environment.clone()));
    Ok(environment)
}

/// The linker's error, which the text of the `ort` crate does not contain.
fn load_error_text(error: &ort::LoadDynamicError) -> String {
    match error {
        ort::LoadDynamicError::Dlopen { error, .. } => error
            .source()
            .map_or_else(|| error.to_string(), ToString::to_string),
        ort::LoadDynamicError::BadVersion { version_str, .. } => {
            format!("its version is {version_str}")
        }
        other => other.to_string(),
    }
}

/// Words of the library about types of numbers.
const TYPES: [&str; 3] = [
    "Type Error",
    "Could not find an implementation",
    "Unsupported tensor data type",
];

/// What the library's text about a network that it cannot load means, and what to do.
pub(crate) fn why_refused(text: &str) -> String {
    let number_after = |words: &str| -> Option<&str> {
        let (_, rest) = text.split_once(words)?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit());
        Some(&rest[..end.unwrap_or(rest.len())])
    };
    let between = |before: &str, behind: &str| {
        let (_, rest) = text.split_once(before)?;
        Some(rest.split_once(behind)?.0)
    };
    let [opset, max_opset] = ["Opset ", "is till opset "].map(number_after);
    let [version, max_version] =
        ["model IR version: ", "max supported IR version: "].map(number_after);
    if let (Some(opset), Some(max)) = (opset, max_opset) {
        format!(
            "the network has operator set {opset}, and this library reads at most {max}: export it with opset_version=17"
        )
    } else if let (Some(version), Some(max)) = (version, max_version) {
        format!(
            "the network has version {version} of the file format, and this library reads at most {max}: save it with an older `onnx` \
             package, or set its ir_version to {max}"
        )
    } else if let Some(operator) = between("Fatal error: ", " is not a registered")
        .or_else(|| between("No Op registered for ", " with"))
    {
        format!(
            "the network has the operator {operator}, which this library lacks: export it without, and without pre- and \
             post-processing if these were built in"
        )
    } else if TYPES.iter().any(|words| text.contains(words)) {
        format!(
            "the network has numbers of types that do not fit or that this library does not compute, as after conversions to 4, 8 or \
             16 bits: give it with 32-bit floats ({text})"
        )
    } else {
        format!("{text}; the network may be damaged, or need a newer ONNX Runtime")
    }
}

/// Forwards log lines of the library to our log.
fn bridge_log(level: LogLevel, category: &str, _id: &str, location: &str, message: &str) {
    let level = match level {
        LogLevel::Fatal | LogLevel::Error => log::Level::Error,
        LogLevel::Warning => log::Level::Warn,
        LogLevel::Info => log::Level::Debug,
        LogLevel::Verbose => log::Level::Trace,
    };
    log::log!(target: "onnxruntime", level, category, location; "{}", message.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in names {
            fs::write(folder.path().join(name), "").expect("written");
        }
        folder
    }

    fn search_path(
        configured: Option<PathBuf>,
        variable: Option<PathBuf>,
        folders: &[&Path],
    ) -> SearchPath {
        SearchPath {
            configured,
            variable,
            folders: folders.iter().map(|folder| (*folder).to_owned()).collect(),
        }
    }

    #[test]
    fn configured_library_path_precedes_variable_and_default_dirs() {
        let folder = folder_with(&["a.so", "b.so", "libonnxruntime.so"]);
        let file = |name: &str| folder.path().join(name);
        let found = search_path(Some(file("a.so")), Some(file("b.so")), &[folder.path()]).search();
        assert_eq!(found.expect("it is there"), file("a.so"));
        let found = search_path(None, Some(file("b.so")), &[folder.path()]).search();
        assert_eq!(found.expect("it is there"), file("b.so"));
        let found = search_path(None, None, &[Path::new("/nowhere"), folder.path()]).search();
        assert_eq!(found.expect("it is there"), file("libonnxruntime.so"));
    }

    #[test]
    fn configured_path_without_file_is_error() {
        let folder = folder_with(&["libonnxruntime.so"]);
        let error = search_path(None, Some(folder.path().to_owned()), &[folder.path()])
            .search()
            .expect_err("a folder");
        assert!(
            error.to_string().starts_with("ORT_DYLIB_PATH names /"),
            "{error}"
        );
        let error = search_path(Some("/nowhere/x".into()), None, &[folder.path()])
            .search()
            .expect_err("missing");
        assert!(
            error
                .to_string()
                .starts_with("detector.onnxruntime names /nowhere/x"),
            "{error}"
        );
    }

    #[test]
    fn the_highest_version_in_the_first_folder_wins() {
        #[rustfmt::skip]
        let cases: [(&[&str], &str); 4] = [
            (&["libonnxruntime.so.1.9.0", "libonnxruntime.so.1.31.1", "libonnxruntime.so.1"], "libonnxruntime.so.1.31.1"),
            (&["libonnxruntime.so", "libonnxruntime.so.1"], "libonnxruntime.so.1"),
            (&["libonnxruntime.so", "libonnxruntime.so.bak"], "libonnxruntime.so"),
            (&["libonnxruntime.so.1.20.0", "libonnxruntime_providers_shared.so"], "libonnxruntime.so.1.20.0"),
        ];
        let later = folder_with(&["libonnxruntime.so.99.0.0"]);
        for (names, wanted) in cases {
            let folder = folder_with(names);
            let found = search_path(None, None, &[folder.path(), later.path()])
                .search()
                .expect("it is there");
            assert_eq!(found, folder.path().join(wanted));
        }
    }

    #[test]
    fn a_missing_library_reports_the_searched_folders_and_how_to_get_it() {
        let error = search_path(
            None,
            None,
            &[Path::new("/nowhere/a"), Path::new("/nowhere/b")],
        )
        .search();
        let error = error.expect_err("there is none").to_string();
        let platform = format!("manylinux_2_28_{} onnxruntime==", env::consts::ARCH);
        for wanted in [
            "/nowhere/a, /nowhere/b",
            "jetwatch-onnxruntime",
            platform.as_str(),
            "ORT_DYLIB_PATH",
        ] {
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn the_package_folder_is_searched_last() {
        let folders = default_dirs();
        assert_eq!(folders.last(), Some(&PathBuf::from(PACKAGE_FOLDER)));
    }

    #[test]
    fn the_tested_version_is_the_one_that_is_fetched() {
        let pinned = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .find_map(|folder| fs::read_to_string(folder.join("cross/onnxruntime.txt")).ok())
            .expect("cross/onnxruntime.txt in the project");
        assert!(
            pinned.contains(&format!("\nonnxruntime=={TESTED} ")),
            "{pinned}"
        );
    }

    #[test]
    fn non_library_file_is_error() {
        let folder = folder_with(&["libonnxruntime.so"]);
        let path = folder.path().join("libonnxruntime.so");
        let error = open(&path).expect_err("an empty file").to_string();
        assert!(
            error.contains("cannot be used as ONNX Runtime 1.17 or newer"),
            "{error}"
        );
        assert!(
            error.contains("file too short"),
            "the linker's words are kept: {error}"
        );
    }
}
