// SPDX-License-Identifier: Apache-2.0
//! TensorRT's library: search, version, and selection of its vtables.

use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::super::shared_library::SharedLibrary;
use super::error::TensorRtError;
use super::logger::logger;
use super::method::Method;
use super::object::Object;
use super::version::{Flavor, Generation, Version};

/// `createInferRuntime_INTERNAL` and `createInferBuilder_INTERNAL`: logger and version in, object out.
type Create = unsafe extern "C" fn(*mut c_void, i32) -> *mut c_void;
/// `createNvOnnxParser_INTERNAL`: network, logger and version in, parser out.
type CreateParser = unsafe extern "C" fn(*mut c_void, *mut c_void, i32) -> *mut c_void;

/// Names that the loader searches for when no path is given. If several are installed, the newest builder is used; the runtimes
/// that accept only some plans come last.
const NAMES: [&str; 7] = [
    "libnvinfer.so.11",
    "libnvinfer.so.10",
    "libnvinfer.so.8",
    "libnvinfer.so",
    "libtensorrt_rtx.so.1",
    "libnvinfer_lean.so.11",
    "libnvinfer_lean.so.10",
];

/// Names that are searched for, for messages.
pub fn names_of_libraries() -> &'static [&'static str] {
    &NAMES
}

/// An open TensorRT library of a supported version. Never closed: its threads and vtables live as long as the process.
#[derive(Debug)]
pub struct Library {
    library: SharedLibrary,
    flavor: Flavor,
    version: Version,
    generation: Generation,
    create_runtime: Create,
    create_builder: Option<Create>,
    parser: OnceLock<Result<Parser, (Vec<String>, String)>>,
    plugins: OnceLock<bool>,
}

/// The ONNX parser's library.
#[derive(Debug)]
struct Parser {
    /// Keeps the library open.
    library: SharedLibrary,
    create: CreateParser,
    version: i32,
}

impl Library {
    /// Opens the library at `path`, or the first of [`names_of_libraries`] that the loader finds.
    ///
    /// # Errors
    /// No library was found, it cannot be loaded, or its version is not supported.
    pub fn open(path: Option<&Path>) -> Result<Arc<Self>, TensorRtError> {
        if let Some(path) = path {
            let library = SharedLibrary::open(path).map_err(|reason| TensorRtError::Unusable {
                path: path.to_owned(),
                reason,
            })?;
            return Self::read(library);
        }
        let mut reasons = Vec::new();
        for name in NAMES {
            match SharedLibrary::open(Path::new(name)) {
                Ok(library) => return Self::read(library),
                Err(reason) => reasons.push(reason),
            }
        }
        // The error of a library that exists but cannot be loaded is more useful than that of a missing one.
        let is_missing = |reason: &&String| {
            reason.contains("cannot open shared object file: No such file")
                && NAMES.iter().any(|name| reason.starts_with(name))
        };
        let found = reasons.iter().find(|reason| !is_missing(reason));
        let reason = found.or(reasons.first()).cloned().unwrap_or_default();
        Err(TensorRtError::Missing {
            tried: NAMES.map(str::to_owned).into(),
            reason,
        })
    }

    fn read(library: SharedLibrary) -> Result<Arc<Self>, TensorRtError> {
        let path = library.path().to_owned();
        let no_symbol = |symbol| TensorRtError::NotTensorRt {
            path: path.clone(),
            symbol,
        };
        // SAFETY: `getInferLibVersion` has no parameters and returns an int, in all versions.
        let version =
            unsafe { library.function::<unsafe extern "C" fn() -> i32>("getInferLibVersion") }
                .ok_or_else(|| no_symbol("getInferLibVersion"))?;
        // SAFETY: the factory has had this signature since version 5.
        let create_runtime = unsafe { library.function::<Create>("createInferRuntime_INTERNAL") }
            .ok_or_else(|| no_symbol("createInferRuntime_INTERNAL"))?;
        // SAFETY: as above; the lean runtime has none.
        let create_builder = unsafe { library.function::<Create>("createInferBuilder_INTERNAL") };
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let flavor = if file.contains("tensorrt_rtx") {
            Flavor::Rtx
        } else if create_builder.is_none() {
            Flavor::Lean
        } else {
            Flavor::Full
        };
        // SAFETY: see the lookup of the function above.
        let number = unsafe { version() };
        let version = Version::from_number(number, flavor);
        let generation = Generation::from_version(version, flavor).ok_or_else(|| {
            TensorRtError::UnknownVersion {
                path: path.clone(),
                flavor,
                version,
            }
        })?;
        log::debug!(library:% = path.display(), version:% = version; "opened {flavor}");
        Ok(Arc::new(Self {
            library,
            flavor,
            version,
            generation,
            create_runtime,
            create_builder,
            parser: OnceLock::new(),
            plugins: OnceLock::new(),
        }))
    }

    /// Kind of library.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Version of the library.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Generation of its vtables.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The path or name with which it was opened.
    pub fn path(&self) -> &Path {
        self.library.path()
    }

    /// Whether it can build engines.
    pub fn can_build(&self) -> bool {
        self.create_builder.is_some()
    }

    pub(super) fn slot(&self, method: &Method) -> Result<usize, TensorRtError> {
        method.slot(self.generation, self.version, self.flavor)
    }

    /// Whether this version has `method`.
    pub(super) fn has(&self, method: &Method) -> bool {
        method.exists(self.generation, self.version, self.flavor)
    }

    /// The error for a request that this version does not support.
    pub(super) fn unsupported(
        &self,
        what: &'static str,
        advice: impl Into<String>,
    ) -> TensorRtError {
        TensorRtError::Unsupported {
            flavor: self.flavor,
            version: self.version,
            what,
            advice: advice.into(),
        }
    }

    /// A new `IRuntime`; `None` when TensorRT creates none.
    pub(super) fn new_runtime(self: &Arc<Self>) -> Option<Object> {
        let number = self.version.number(self.flavor);
        // SAFETY: the factory takes a logger with static lifetime and the version of the headers, which is the library's own.
        let this = unsafe { (self.create_runtime)(logger(self.generation), number) };
        // SAFETY: the factory created it for this caller.
        unsafe { Object::owned(this, self) }
    }

    /// A new `IBuilder`; `None` when TensorRT creates none, which happens without a usable GPU.
    pub(super) fn new_builder(self: &Arc<Self>) -> Result<Option<Object>, TensorRtError> {
        let create = self.create_builder.ok_or_else(|| {
            self.unsupported(
                "build engines",
                "install the full TensorRT (libnvinfer) where engines are built",
            )
        })?;
        let number = self.version.number(self.flavor);
        // SAFETY: as for the runtime.
        let this = unsafe { create(logger(self.generation), number) };
        // SAFETY: the factory created it for this caller.
        Ok(unsafe { Object::owned(this, self) })
    }

    /// A new `IParser` for `network`, which must outlive it; `None` when the library creates none.
    pub(super) fn new_parser(
        self: &Arc<Self>,
        network: &Object,
    ) -> Result<Option<Object>, TensorRtError> {
        let parser = self
            .parser
            .get_or_init(|| self.open_parser())
            .as_ref()
            .map_err(|(tried, reason)| TensorRtError::NoParser {
                tried: tried.clone(),
                reason: reason.clone(),
            })?;
        log::trace!(parser:% = parser.library.path().display(); "using the ONNX parser");
        let logger = logger(self.generation);
        // SAFETY: the factory takes a network of the same version, a logger with static lifetime, and the parser's own version.
        let this = unsafe { (parser.create)(network.pointer(), logger, parser.version) };
        let delete = match self.generation {
            Generation::Eight => 10,
            Generation::Ten => 9,
            Generation::Eleven | Generation::Rtx => 7,
        };
        // SAFETY: the factory created it for this caller; the slot of the deleting destructor is that of `IParser` in the headers.
        Ok(unsafe { Object::with_destructor(this, self, Some(delete)) })
    }

    /// The path or name with which the ONNX parser was opened; opens it if needed.
    ///
    /// # Errors
    /// The parser's library is missing or not usable.
    pub fn parser(&self) -> Result<&Path, TensorRtError> {
        let parser = self.parser.get_or_init(|| self.open_parser());
        match parser {
            Ok(parser) => Ok(parser.library.path()),
            Err((tried, reason)) => Err(TensorRtError::NoParser {
                tried: tried.clone(),
                reason: reason.clone(),
            }),
        }
    }

    fn open_parser(&self) -> Result<Parser, (Vec<String>, String)> {
        let names = self.names_next_to(match self.flavor {
            Flavor::Rtx => "libtensorrt_onnxparser_rtx.so",
            Flavor::Full | Flavor::Lean => "libnvonnxparser.so",
        });
        let tried: Vec<String> = names
            .iter()
            .map(|name| name.display().to_string())
            .collect();
        let mut reason = String::new();
        for name in names {
            let library = match SharedLibrary::open(&name) {
                Ok(library) => library,
                Err(error) => {
                    reason = error;
                    continue;
                }
            };
            // SAFETY: the factory has had this signature in all versions.
            let create = unsafe { library.function::<CreateParser>("createNvOnnxParser_INTERNAL") };
            // SAFETY: the function has no parameters and returns an int.
            let version = unsafe {
                library.function::<unsafe extern "C" fn() -> i32>("getNvOnnxParserVersion")
            };
            let (Some(create), Some(version)) = (create, version) else {
                reason = format!("{} is not an ONNX parser of TensorRT", name.display());
                continue;
            };
            // SAFETY: see the lookup of the function above.
            let version = unsafe { version() };
            return Ok(Parser {
                library,
                create,
                version,
            });
        }
        Err((tried, reason))
    }

    /// Candidates for another library of the same installation: in the same folder when this one was opened by path, else by name.
    fn names_next_to(&self, stem: &str) -> Vec<PathBuf> {
        let Version {
            major,
            minor,
            patch,
        } = self.version;
        let mut names = vec![
            format!("{stem}.{major}"),
            format!("{stem}.{major}.{minor}.{patch}"),
            stem.to_owned(),
        ];
        let own = self.library.path();
        if let Some(folder) = own.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let in_folder = names.iter().map(|name| folder.join(name));
            return in_folder
                .filter(|path| path.exists())
                .chain(names.iter().map(PathBuf::from))
                .collect();
        }
        names.drain(..).map(PathBuf::from).collect()
    }

    /// Registers NVIDIA's own plug-ins (such as non-maximum suppression), once. Returns false when their library is missing: the
    /// parser then refuses a network that needs one.
    pub(super) fn load_plugins(&self) -> bool {
        *self.plugins.get_or_init(|| {
            if self.flavor != Flavor::Full {
                return false;
            }
            for name in self.names_next_to("libnvinfer_plugin.so") {
                let Ok(library) = SharedLibrary::open(&name) else {
                    continue;
                };
                type Register = unsafe extern "C" fn(*mut c_void, *const c_char) -> bool;
                // SAFETY: the function has had this signature in all versions.
                let Some(register) = (unsafe { library.function::<Register>("initLibNvInferPlugins") }) else {
                    continue;
                };
                // SAFETY: the function takes a logger with static lifetime and a zero-terminated name.
                let registered = unsafe { register(logger(self.generation), c"".as_ptr()) };
                log::debug!(library:% = name.display(); "registered TensorRT's plug-ins: {registered}");
                // The registry stores pointers into the library.
                std::mem::forget(library);
                return registered;
            }
            log::debug!("TensorRT's plug-in library is not installed");
            false
        })
    }
}

/// A name as a C string. Tensor names come from ONNX files, so a zero byte is possible.
pub(super) fn c_name(name: &str) -> Result<CString, TensorRtError> {
    CString::new(name).map_err(|_| TensorRtError::Tensor {
        tensor: name.replace('\0', "\\0"),
        found: "a zero byte in its name".to_owned(),
        expected: "a name without zero bytes".to_owned(),
    })
}
