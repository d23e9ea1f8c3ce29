//! What the tests of this crate share: keys and signatures by minisign itself, bundles, a gate and a daemon of the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{
    BundledModel, Candidate, Gate, Health, PackOptions, Packed, Service, SourceCount, TrustedKeys,
    WatchLimits, pack,
};

/// A key pair of minisign.
pub(crate) struct Signer {
    folder: TempDir,
}

impl Signer {
    /// A new pair, without a password.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let signer = Self { folder };
        let (public, secret) = (signer.public(), signer.secret());
        minisign(&["-G", "-W"], &[("-p", &public), ("-s", &secret)]);
        signer
    }

    pub(crate) fn public(&self) -> PathBuf {
        self.folder.path().join("key.pub")
    }

    fn secret(&self) -> PathBuf {
        self.folder.path().join("key.sec")
    }

    /// Signs the file at `path` into `path.minisig`.
    pub(crate) fn sign(&self, path: &Path) {
        minisign(
            &["-S", "-t", "a test"],
            &[("-s", &self.secret()), ("-m", path)],
        );
    }

    /// The same in the old form, over the bytes and not over their hash.
    pub(crate) fn sign_legacy(&self, path: &Path) {
        minisign(&["-S", "-l"], &[("-s", &self.secret()), ("-m", path)]);
    }

    /// The keys of a machine that trusts this one.
    pub(crate) fn trusted(&self) -> TrustedKeys {
        TrustedKeys::read(self.folder.path()).expect("a key")
    }
}

fn minisign(arguments: &[&str], files: &[(&str, &Path)]) {
    let mut command = Command::new("minisign");
    command.args(arguments);
    for (option, path) in files {
        command.arg(option).arg(path);
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("minisign is installed: `.ci/setup test` does it");
    assert!(output.status.success(), "{output:?}");
}

/// Where bundles are packed.
pub(crate) struct Publisher {
    pub(crate) signer: Signer,
    folder: TempDir,
}

impl Publisher {
    pub(crate) fn new() -> Self {
        Self {
            signer: Signer::new(),
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What is packed for the bundle `street` with this serial number: one model of two files.
    pub(crate) fn options(&self, serial: u64) -> PackOptions {
        let model = self.folder.path().join(format!("model-{serial}"));
        let weights = model.join("weights");
        fs::create_dir_all(&weights).expect("created");
        fs::write(model.join("model.yaml"), format!("serial: {serial}\n")).expect("written");
        fs::write(weights.join("a.onnx"), vec![serial as u8; 70_000]).expect("written");
        let model_in_bundle = BundledModel {
            folder: "model".to_owned(),
            precision: None,
        };
        PackOptions {
            name: "street".parse().expect("a name"),
            serial,
            created: "2026-01-01T00:00:00Z".parse().expect("a time"),
            expires: "2200-01-01T00:00:00Z".parse().expect("a time"),
            min_jetwatch: "0.1.0".parse().expect("a version"),
            models: vec![(model_in_bundle, model)],
            configuration: None,
            folder: self.folder.path().to_owned(),
        }
    }

    /// The same with a configuration.
    pub(crate) fn options_with_configuration(&self, serial: u64) -> PackOptions {
        let path = self.folder.path().join(format!("{serial}.yaml"));
        fs::write(&path, format!("# configuration of {serial}\n")).expect("written");
        PackOptions {
            configuration: Some(path),
            ..self.options(serial)
        }
    }

    /// Packs and signs.
    pub(crate) fn publish(&self, options: &PackOptions) -> Packed {
        let packed = pack(options).expect("packed");
        self.signer.sign(&packed.path);
        packed
    }
}

/// A gate of the test.
pub(crate) struct TestGate(pub(crate) Result<Vec<String>, String>);

impl Gate for TestGate {
    fn check(&self, candidate: &Candidate<'_>) -> Result<Vec<String>, String> {
        assert!(candidate.folder.join("manifest.json").is_file());
        self.0.clone()
    }
}

/// A daemon of the test with a clock of its own: a number of frames each second for each version, which its model's file holds.
pub(crate) struct TestDaemon {
    /// The link of the store.
    pub(crate) link: PathBuf,
    /// Serial number of the version that is slow.
    pub(crate) slow: Option<u64>,
    /// Serial number of the version with which it ends at once.
    pub(crate) broken: Option<u64>,
    run: u64,
    started: Option<Duration>,
    serial: Option<u64>,
    now: Duration,
    start: Instant,
}

impl TestDaemon {
    pub(crate) fn new(link: PathBuf) -> Self {
        Self {
            link,
            slow: None,
            broken: None,
            run: 0,
            started: None,
            serial: None,
            now: Duration::ZERO,
            start: Instant::now(),
        }
    }

    /// Serial number of the version that it runs with.
    pub(crate) fn serial(&self) -> Option<u64> {
        self.serial
    }
}

impl Service for TestDaemon {
    fn restart(&mut self) -> Result<(), String> {
        let text = fs::read_to_string(self.link.join("models/model/model.yaml"));
        let serial = text.ok().and_then(|text| {
            let number = text.strip_prefix("serial: ")?;
            number.trim().parse().ok()
        });
        self.run += 1;
        self.serial = serial.filter(|serial| Some(*serial) != self.broken);
        self.started = self.serial.map(|_| self.now);
        Ok(())
    }

    fn health(&mut self) -> Result<Option<Health>, String> {
        let Some(started) = self.started else {
            return Ok(None);
        };
        let seconds = (self.now - started).as_secs();
        let fps = if self.serial == self.slow { 5 } else { 20 };
        Ok(Some(Health {
            run: self.run,
            at: self.now,
            is_ready: seconds >= 2,
            errors: 0,
            sources: vec![SourceCount {
                name: "gate".to_owned(),
                is_online: true,
                detected: fps * seconds,
            }],
            acknowledged: Some(seconds),
        }))
    }

    fn now(&mut self) -> Instant {
        self.start + self.now
    }

    fn sleep(&mut self, time: Duration) {
        self.now += time;
    }
}

/// Limits for [`TestDaemon`].
pub(crate) fn limits() -> WatchLimits {
    WatchLimits {
        before: Duration::from_secs(5),
        start: Duration::from_secs(20),
        period: Duration::from_secs(10),
        min_share: 0.8,
    }
}
