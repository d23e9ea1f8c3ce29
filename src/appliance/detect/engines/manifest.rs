// SPDX-License-Identifier: Apache-2.0
//! The manifest next to an engine: its spec and the hash of its bytes. A plan without a manifest is ignored.

use serde::{Deserialize, Serialize};

use super::layers::Layers;
use super::sha256;
use super::spec::CacheKeyFields;

/// Version of the manifest format; other jetwatch releases may write other versions.
const FORMAT_VERSION: u32 = 1;

/// The JSON file next to an engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the format.
    pub manifest: u32,
    /// Version of the jetwatch that built it.
    pub jetwatch: String,
    /// Time of the build, UTC, RFC 3339.
    pub built_at: String,
    /// Duration of the build in seconds.
    pub build_seconds: f64,
    /// Length of the plan in bytes.
    pub plan_bytes: u64,
    /// SHA-256 of the plan.
    pub plan_sha256: String,
    /// The fields that identify the engine.
    pub recipe: CacheKeyFields,
    /// Layers by precision and device; `None` where the plan could not be loaded.
    pub layers: Option<Layers>,
}

impl Manifest {
    /// The manifest of `plan`, which was just built.
    pub(super) fn new(
        recipe: CacheKeyFields,
        plan: &[u8],
        build_seconds: f64,
        layers: Option<Layers>,
    ) -> Self {
        Self {
            manifest: FORMAT_VERSION,
            jetwatch: env!("CARGO_PKG_VERSION").to_owned(),
            built_at: jiff::Timestamp::now().to_string(),
            build_seconds,
            plan_bytes: plan.len() as u64,
            plan_sha256: sha256(plan),
            recipe,
            layers,
        }
    }

    /// Parses the output of [`to_text`](Self::to_text); the error is a reason as text.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if manifest.manifest != FORMAT_VERSION {
            return Err(format!(
                "found form {}, expected {FORMAT_VERSION}: another jetwatch wrote it",
                manifest.manifest
            ));
        }
        Ok(manifest)
    }

    /// As JSON, indented.
    pub(super) fn to_text(&self) -> String {
        // Cannot fail: strings, numbers and maps with string keys.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// How `plan` differs from the manifest, if it does.
    pub(super) fn mismatch(&self, plan: &[u8]) -> Option<String> {
        if plan.len() as u64 != self.plan_bytes {
            return Some(format!(
                "it has {} bytes, expected {} by its manifest",
                plan.len(),
                self.plan_bytes
            ));
        }
        let found = sha256(plan);
        (found != self.plan_sha256).then(|| {
            format!(
                "its SHA-256 is {found}, expected {} by its manifest",
                self.plan_sha256
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::tests::engine_spec;
    use super::*;

    #[test]
    fn manifest_roundtrips_and_verifies_plan() {
        let layers = Layers {
            total: 3,
            ..Layers::default()
        };
        let manifest = Manifest::new(
            engine_spec().cache_key_fields(),
            b"plan",
            12.5,
            Some(layers),
        );
        let read = Manifest::parse(manifest.to_text().as_bytes()).expect("it was just written");
        assert_eq!(read, manifest);
        assert_eq!(read.mismatch(b"plan"), None);
        assert_eq!(
            read.mismatch(b"pla").as_deref(),
            Some("it has 3 bytes, expected 4 by its manifest")
        );
        let mismatch = read.mismatch(b"plam").expect("a letter differs");
        assert!(mismatch.contains("by its manifest"), "{mismatch}");
    }

    #[test]
    fn other_formats_and_truncated_manifests_are_reported() {
        let text = Manifest::new(engine_spec().cache_key_fields(), b"", 0.0, None).to_text();
        let other = text.replace("\"manifest\": 1", "\"manifest\": 2");
        let error = Manifest::parse(other.as_bytes()).expect_err("another form");
        assert!(error.contains("found form 2, expected 1"), "{error}");
        assert!(Manifest::parse(&text.as_bytes()[..text.len() / 2]).is_err());
        assert!(Manifest::parse(b"").is_err());
    }
}
