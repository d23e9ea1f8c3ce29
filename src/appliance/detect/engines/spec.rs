// SPDX-License-Identifier: Apache-2.0
//! The specification of an engine: everything that determines it, and the key computed from that.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::choose::{precision_of, select_model_file};
use super::{EngineError, sha256};
use crate::model::{ModelFile, ModelSpec};
use jetwatch_config::DetectorConfig;
use jetwatch_files::Sha256Digest;
use jetwatch_nvidia::cuda::Device;
use jetwatch_nvidia::tensorrt::{Flavor, Generation, Library, Precision, Version};

/// Hexadecimal digits of the key in a file's name.
const KEY_DIGITS: usize = 16;

/// What an engine is built from, for which target, and by which version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineSpec {
    /// Name of the model.
    pub model: String,
    /// The model's folder.
    pub folder: PathBuf,
    /// The network's file.
    pub file: ModelFile,
    /// Precision of its computation.
    pub precision: Precision,
    /// Calibration for INT8 from an FP32 network; `None` where the network contains its quantization.
    pub calibration: Option<Calibration>,
    /// Maximum number of images in one run, at least 1.
    pub batch: u32,
    /// Number of concurrent execution contexts, at least 1.
    pub contexts: u32,
    /// The DLA core that it is built for.
    pub dla: Option<u32>,
    /// Whether the GPU may run layers that the DLA does not support.
    pub gpu_fallback: bool,
    /// Memory that a layer may use while it computes, in MiB.
    pub workspace_mib: Option<u64>,
    /// The library that builds it.
    pub flavor: Flavor,
    /// Its version.
    pub version: Version,
    /// The GPU that it is built for.
    pub gpu: Gpu,
}

/// A calibration cache of TensorRT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calibration {
    /// Its file.
    pub path: PathBuf,
    /// SHA-256 of its bytes; `None` while it is yet to be made from images.
    pub sha256: Option<Sha256Digest>,
}

/// The GPU that an engine is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its name, such as `Xavier`; `None` for any GPU of that capability, which only TensorRT-RTX supports.
    pub name: Option<String>,
    /// Its compute capability: (7, 2) is sm_72.
    pub capability: (u32, u32),
}

impl Gpu {
    /// The GPU of `device`.
    pub fn from_device(device: &Device) -> Self {
        Self {
            name: Some(device.name().to_owned()),
            capability: device.compute_capability(),
        }
    }
}

/// The fields that identify an engine, as hashed and written into the manifest. Specs with equal fields have the same engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheKeyFields {
    /// Name of the model.
    pub model: String,
    /// SHA-256 of the ONNX file.
    pub onnx_sha256: String,
    /// SHA-256 of each file of external weights that model.yaml lists.
    pub weights_sha256: Vec<String>,
    /// `fp32`, `fp16` or `int8`.
    pub precision: String,
    /// SHA-256 of the calibration cache.
    pub calibration_sha256: Option<String>,
    /// Maximum number of images in one run.
    pub batch: u32,
    /// Number of optimization profiles: one per context until TensorRT 8, else one.
    pub profiles: u32,
    /// Whether it runs on a DLA.
    pub dla: bool,
    /// Whether the GPU may run layers that the DLA does not support.
    pub gpu_fallback: bool,
    /// Memory that a layer may use, in MiB.
    pub workspace_mib: Option<u64>,
    /// The library: `TensorRT` or `TensorRT-RTX`.
    pub builder: String,
    /// Its version, such as `8.5.2`.
    pub builder_version: String,
    /// Name of the GPU; `any` for any of that compute capability.
    pub gpu: String,
    /// Compute capability, such as `7.2`.
    pub compute_capability: String,
}

impl EngineSpec {
    /// The spec of the configured engine. The calibration cache, if configured, is read for its hash.
    ///
    /// # Errors
    /// The model has no such precision, or the calibration cache cannot be read.
    pub fn new(
        config: &DetectorConfig,
        spec: &ModelSpec,
        library: &Library,
        gpu: Gpu,
    ) -> Result<Self, EngineError> {
        let calibration = config.tensorrt.calibration.as_deref();
        let calibration = calibration.map(Calibration::read).transpose()?;
        Self::assemble(config, spec, library, gpu, calibration)
    }

    /// As [`new`](Self::new) for an INT8 engine whose calibration is computed from images during the build and written to `path`.
    ///
    /// # Errors
    /// The model cannot be calibrated.
    pub fn with_pending_calibration(
        config: &DetectorConfig,
        spec: &ModelSpec,
        library: &Library,
        gpu: Gpu,
        path: &Path,
    ) -> Result<Self, EngineError> {
        let calibration = Calibration {
            path: path.to_owned(),
            sha256: None,
        };
        Self::assemble(config, spec, library, gpu, Some(calibration))
    }

    fn assemble(
        config: &DetectorConfig,
        spec: &ModelSpec,
        library: &Library,
        gpu: Gpu,
        calibration: Option<Calibration>,
    ) -> Result<Self, EngineError> {
        let wanted = config.precision.as_deref();
        let (file, precision) = select_model_file(spec, wanted, calibration.is_some())?;
        if config.tensorrt.dla.is_some() && precision == Precision::Fp32 {
            let model = spec.name.clone();
            return Err(EngineError::DlaFloats { model });
        }
        let count = |number: usize| u32::try_from(number.max(1)).unwrap_or(u32::MAX);
        let settings = &config.tensorrt;
        Ok(Self {
            model: spec.name.clone(),
            folder: spec.folder.clone(),
            file,
            precision,
            calibration: calibration.filter(|_| precision == Precision::Int8),
            batch: count(config.batch_size),
            contexts: count(config.workers),
            dla: settings.dla,
            gpu_fallback: settings.gpu_fallback,
            workspace_mib: settings.workspace_mib,
            flavor: library.flavor(),
            version: library.version(),
            gpu,
        })
    }

    /// See [`CacheKeyFields`].
    pub(crate) fn cache_key_fields(&self) -> CacheKeyFields {
        // Until generation 8 an optimization profile belongs to one context; since then all share one.
        let needs_profiles =
            Generation::from_version(self.version, self.flavor) == Some(Generation::Eight);
        let (major, minor) = self.gpu.capability;
        let calibration = self.calibration.as_ref();
        CacheKeyFields {
            model: self.model.clone(),
            onnx_sha256: self.file.sha256.to_string(),
            weights_sha256: self
                .file
                .weights
                .iter()
                .map(|weights| weights.sha256.to_string())
                .collect(),
            precision: self.precision_name().to_owned(),
            calibration_sha256: calibration
                .and_then(|calibration| calibration.sha256)
                .map(|digest| digest.to_string()),
            batch: self.batch,
            profiles: if needs_profiles { self.contexts } else { 1 },
            dla: self.dla.is_some(),
            gpu_fallback: self.dla.is_some() && self.gpu_fallback,
            workspace_mib: self.workspace_mib,
            builder: self.flavor.to_string(),
            builder_version: self.version.to_string(),
            gpu: self.gpu.name.clone().unwrap_or_else(|| "any".to_owned()),
            compute_capability: format!("{major}.{minor}"),
        }
    }

    /// `fp32`, `fp16` or `int8`.
    pub(crate) const fn precision_name(&self) -> &'static str {
        match self.precision {
            Precision::Fp32 => "fp32",
            Precision::Fp16 => "fp16",
            Precision::Int8 => "int8",
        }
    }

    /// The precision by which the model's file was chosen.
    fn requested_precision(&self) -> &str {
        match precision_of(&self.file.precision) == Some(self.precision) {
            true => &self.file.precision,
            false => self.precision_name(),
        }
    }

    /// Name of the engine's file, such as `street-nano-int8-b4-trt8.5.2-0123456789abcdef.engine`.
    pub fn file_name(&self) -> String {
        self.cache_key_fields().file_name()
    }

    /// The shell command that builds it, one line.
    #[must_use]
    pub fn command(&self, engines: &Path) -> String {
        let path = |path: &Path| quoted(&path.display().to_string());
        let mut args = vec![
            "jetwatch engine build --model".to_owned(),
            path(&self.folder),
            format!("--precision {}", self.requested_precision()),
            format!("--batch {} --workers {}", self.batch, self.contexts),
        ];
        if let Some(dla) = self.dla {
            args.push(format!("--dla {dla}"));
            if !self.gpu_fallback {
                args.push("--no-gpu-fallback".to_owned());
            }
        }
        if let Some(workspace) = self.workspace_mib {
            args.push(format!("--workspace {workspace}"));
        }
        if let Some(calibration) = &self.calibration {
            args.push(format!("--calibration {}", path(&calibration.path)));
        }
        if self.gpu.name.is_none() {
            let (major, minor) = self.gpu.capability;
            args.push(format!("--compute-capability {major}.{minor}"));
        }
        if engines != Path::new(jetwatch_config::ENGINES_FOLDER) {
            args.push(format!("--engines {}", path(engines)));
        }
        args.join(" ")
    }

    /// The same spec with the calibration `cache`.
    pub(super) fn with_calibration(&self, cache: &[u8]) -> Self {
        let mut calibrated = self.clone();
        if let Some(calibration) = &mut calibrated.calibration {
            calibration.sha256 = Some(Sha256Digest::of(cache));
        }
        calibrated
    }
}

impl Calibration {
    /// The cache in the file at `path`.
    fn read(path: &Path) -> Result<Self, EngineError> {
        let bytes = Self::bytes(path)?;
        Ok(Self {
            path: path.to_owned(),
            sha256: Some(Sha256Digest::of(&bytes)),
        })
    }

    /// The bytes of the file. They must begin like a calibration cache: a line with TensorRT's version, then one per tensor.
    pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, EngineError> {
        let bytes = std::fs::read(path).map_err(|source| EngineError::Calibration {
            path: path.to_owned(),
            source,
        })?;
        if bytes.starts_with(b"TRT-") {
            return Ok(bytes);
        }
        Err(EngineError::NoCalibration {
            path: path.to_owned(),
        })
    }
}

impl CacheKeyFields {
    /// SHA-256 of all fields: the key of the engine.
    #[must_use]
    pub fn key(&self) -> String {
        // Serializes strings and numbers in field order, so the text is stable.
        let text = serde_json::to_string(self).unwrap_or_default();
        sha256(format!("jetwatch engine 1 {text}").as_bytes())
    }

    /// See [`EngineSpec::file_name`].
    pub fn file_name(&self) -> String {
        let builder = if self.builder == Flavor::Rtx.to_string() {
            "rtx"
        } else {
            "trt"
        };
        let dla = if self.dla { "-dla" } else { "" };
        format!(
            "{}-{}{dla}-b{}-{builder}{}-{}.engine",
            as_file_name(&self.model),
            self.precision,
            self.batch,
            self.builder_version,
            &self.key()[..KEY_DIGITS]
        )
    }

    /// Name of the timing cache, shared by all engines of one version of TensorRT and one GPU.
    pub(super) fn timing_cache_name(&self) -> String {
        let Self {
            builder,
            builder_version,
            gpu,
            compute_capability,
            ..
        } = self;
        let name = format!("timing-{builder}{builder_version}-{gpu}-sm{compute_capability}");
        format!("{}.cache", as_file_name(&name))
    }
}

/// Whether `name` is one that [`CacheKeyFields::file_name`] gives.
pub(super) fn is_engine_name(name: &str) -> bool {
    let stem = name.strip_suffix(".engine");
    let key = stem.and_then(|stem| stem.rsplit_once('-'));
    key.is_some_and(|(_, key)| {
        key.len() == KEY_DIGITS && key.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// `name` as part of a file name: other characters become `_`.
pub(super) fn as_file_name(name: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    name.chars()
        .map(|c| if is_kept(c) { c } else { '_' })
        .take(80)
        .collect()
}

/// `text` as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@,+=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
pub(super) mod tests;
