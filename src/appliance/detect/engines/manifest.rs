//! The manifest beside an engine: what it is, and the hash of its bytes. A plan without one does not count.

use serde::{Deserialize, Serialize};

use super::layers::Layers;
use super::sha256;
use super::spec::CacheKeyFields;

/// Number of the manifest's form; others are of another jetwatch.
const FORMAT_VERSION: u32 = 1;

/// What is written beside an engine, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Number of this form.
    pub manifest: u32,
    /// Version of the jetwatch that built it.
    pub jetwatch: String,
    /// When, in UTC, as RFC 3339.
    pub built_at: String,
    /// How long the build took.
    pub build_seconds: f64,
    /// Length of the plan.
    pub plan_bytes: u64,
    /// SHA-256 of the plan.
    pub plan_sha256: String,
    /// All that decided it.
    pub recipe: CacheKeyFields,
    /// Layers by precision and device; `None` where the plan could not be loaded to be asked.
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

    /// Reads what [`to_text`](Self::to_text) gave; the error is a reason in words.
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
        // Texts, numbers and maps with text keys: there is nothing that JSON cannot hold.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// What is wrong with `plan`, if anything.
    pub(super) fn mismatch(&self, plan: &[u8]) -> Option<String> {
        if plan.len() as u64 != self.plan_bytes {
            return Some(format!(
                "it has {} bytes, and its manifest says {}",
                plan.len(),
                self.plan_bytes
            ));
        }
        let found = sha256(plan);
        (found != self.plan_sha256).then(|| {
            format!(
                "its SHA-256 is {found}, and its manifest says {}",
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
            Some("it has 3 bytes, and its manifest says 4")
        );
        let mismatch = read.mismatch(b"plam").expect("a letter differs");
        assert!(mismatch.contains("and its manifest says"), "{mismatch}");
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
