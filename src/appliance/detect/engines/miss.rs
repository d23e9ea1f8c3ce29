// SPDX-License-Identifier: Apache-2.0
//! Why an engine is missing: one sentence, and the command that builds it.

use std::fmt;

use super::spec::CacheKeyFields;

/// A missing engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheMiss {
    /// Why.
    pub reason: MissReason,
    /// The shell command that builds it, one line.
    pub command: String,
}

/// Why an engine is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissReason {
    /// No engine of this model in this precision exists.
    None {
        /// The model's name.
        model: String,
        /// The precision.
        precision: &'static str,
        /// The folder that was searched.
        folder: String,
    },
    /// The nearest engine differs.
    Other {
        /// Its file's name.
        file: String,
        /// The differences, such as `it was built by TensorRT 8.5.2, and 10.3.0 is here`.
        differences: Vec<String>,
    },
    /// It exists, but its bytes differ from the manifest.
    Damaged {
        /// Its file's name.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// It has no manifest.
    NoManifest {
        /// Its file's name.
        file: String,
    },
    /// Its manifest cannot be read.
    BadManifest {
        /// The manifest's file name.
        file: String,
        /// What is wrong with it.
        what: String,
    },
}

impl fmt::Display for MissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None {
                model,
                precision,
                folder,
            } => write!(
                f,
                "no TensorRT engine of {model} in {precision} was built yet (searched {folder})"
            ),
            Self::Other { file, differences } => {
                write!(
                    f,
                    "the engine {file} does not fit: {}",
                    differences.join("; ")
                )
            }
            Self::Damaged { file, what } => write!(f, "the engine {file} is damaged: {what}"),
            Self::NoManifest { file } => write!(
                f,
                "the engine {file} has no manifest: its build was interrupted, so it is ignored"
            ),
            Self::BadManifest { file, what } => {
                write!(f, "the manifest {file} cannot be read: {what}")
            }
        }
    }
}

impl fmt::Display for CacheMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; build it with: {}", self.reason, self.command)
    }
}

/// The differences of `found` to `wanted`, each as a clause, the most important first.
pub(super) fn differences(found: &CacheKeyFields, wanted: &CacheKeyFields) -> Vec<String> {
    let mut differences = Vec::new();
    let builders = (&found.builder, &found.builder_version);
    if builders != (&wanted.builder, &wanted.builder_version) {
        differences.push(format!(
            "it was built by {} {}, and {} {} is here",
            found.builder, found.builder_version, wanted.builder, wanted.builder_version
        ));
    }
    if (&found.gpu, &found.compute_capability) != (&wanted.gpu, &wanted.compute_capability) {
        differences.push(format!(
            "it was built for the GPU {} (compute capability {}), and {} ({}) is wanted",
            found.gpu, found.compute_capability, wanted.gpu, wanted.compute_capability
        ));
    }
    if found.onnx_sha256 != wanted.onnx_sha256 {
        differences.push(format!(
            "it was built of another network (SHA-256 {}…), and the model's is {}…",
            short(&found.onnx_sha256),
            short(&wanted.onnx_sha256)
        ));
    } else if found.weights_sha256 != wanted.weights_sha256 {
        differences.push("it was built with other weights of the network".to_owned());
    }
    let calibrations = (&found.calibration_sha256, &wanted.calibration_sha256);
    match calibrations {
        (None, None) => {}
        (Some(found), Some(wanted)) if found == wanted => {}
        (Some(found), Some(wanted)) => differences.push(format!(
            "it was calibrated with another cache (SHA-256 {}…), and {}… is configured",
            short(found),
            short(wanted)
        )),
        (Some(_), None) => {
            differences.push("it was calibrated, and no calibration is configured".to_owned())
        }
        (None, Some(_)) => {
            differences.push("it was not calibrated, and a calibration is configured".to_owned())
        }
    }
    if found.batch != wanted.batch {
        differences.push(format!(
            "it was built for batches up to {}, and {} is configured",
            found.batch, wanted.batch
        ));
    }
    if found.profiles != wanted.profiles {
        differences.push(format!(
            "it was built with detector.workers at {}, and {} is configured",
            found.profiles, wanted.profiles
        ));
    }
    let device = |of: &CacheKeyFields| match (of.dla, of.gpu_fallback) {
        (false, _) => "for the GPU",
        (true, true) => "for a DLA with the GPU's help",
        (true, false) => "for a DLA alone",
    };
    if device(found) != device(wanted) {
        differences.push(format!(
            "it was built {}, and one {} is wanted",
            device(found),
            device(wanted)
        ));
    }
    if found.workspace_mib != wanted.workspace_mib {
        let mib_text = |mib: Option<u64>| {
            mib.map_or_else(
                || "a workspace of TensorRT's choice".to_owned(),
                |mib| format!("a workspace of {mib} MiB"),
            )
        };
        differences.push(format!(
            "it was built with {}, and {} is configured",
            mib_text(found.workspace_mib),
            mib_text(wanted.workspace_mib)
        ));
    }
    differences
}

/// The first digits of a hash, enough to identify it.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::super::spec::tests::engine_spec;
    use super::*;

    /// Changes one thing.
    type Change = fn(&mut CacheKeyFields);

    #[test]
    fn each_difference_is_reported_and_nothing_else() {
        let wanted = engine_spec().cache_key_fields();
        assert_eq!(differences(&wanted, &wanted), Vec::<String>::new());
        #[rustfmt::skip]
        let cases: [(Change, &str); 10] = [
            (|of| of.builder_version = "8.6.1".to_owned(), "it was built by TensorRT 8.6.1, and TensorRT 8.5.2 is here"),
            (|of| of.gpu = "Orin".to_owned(), "it was built for the GPU Orin (compute capability 7.2), and Xavier (7.2) is wanted"),
            (|of| of.compute_capability = "8.7".to_owned(), "it was built for the GPU Xavier (compute capability 8.7), and Xavier (7.2) is wanted"),
            (|of| of.onnx_sha256 = "b".repeat(64), "it was built of another network (SHA-256 bbbbbbbbbbbb…), and the model's is aaaaaaaaaaaa…"),
            (|of| of.weights_sha256 = vec!["c".repeat(64)], "it was built with other weights of the network"),
            (|of| of.calibration_sha256 = Some("d".repeat(64)), "it was calibrated, and no calibration is configured"),
            (|of| of.batch = 8, "it was built for batches up to 8, and 4 is configured"),
            (|of| of.profiles = 1, "it was built with detector.workers at 1, and 2 is configured"),
            (|of| of.dla = true, "it was built for a DLA alone, and one for the GPU is wanted"),
            (|of| of.workspace_mib = Some(64), "it was built with a workspace of 64 MiB, and a workspace of TensorRT's choice is configured"),
        ];
        for (change, text) in cases {
            let mut found = wanted.clone();
            change(&mut found);
            assert_eq!(differences(&found, &wanted), [text]);
            assert_ne!(found.key(), wanted.key(), "{text}");
        }
    }

    #[test]
    fn another_calibration_is_reported_by_its_hash() {
        let mut wanted = engine_spec().cache_key_fields();
        wanted.calibration_sha256 = Some("1".repeat(64));
        let mut found = wanted.clone();
        found.calibration_sha256 = Some("2".repeat(64));
        assert_eq!(
            differences(&found, &wanted),
            [
                "it was calibrated with another cache (SHA-256 222222222222…), and 111111111111… is configured"
            ]
        );
        found.calibration_sha256 = None;
        assert_eq!(
            differences(&found, &wanted),
            ["it was not calibrated, and a calibration is configured"]
        );
    }
}
