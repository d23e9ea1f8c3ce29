//! The disk between every two steps of install and rollback, as a power cut leaves it: recovery ends in the old or the new version,
//! whole, with its configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use crate::store::OnStep;
use crate::test_bundles::{Publisher, TestDaemon, TestGate, limits};
use crate::{BundleName, InstallOptions, State, Store, SwitchOptions, install, recover, rollback};

/// Copies of a machine's disk, each with the step before it.
type Copies = Arc<Mutex<Vec<(String, PathBuf)>>>;

struct Disk {
    folder: TempDir,
    copies: Copies,
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("disk")).expect("created");
        Self {
            folder,
            copies: Copies::default(),
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// The store, which copies the disk at every step.
    fn store(&self) -> Store {
        let store = Store::open(&self.root().join("models")).expect("a store");
        let (copies, root) = (Arc::clone(&self.copies), self.root());
        let parent = self.folder.path().to_owned();
        *store.on_step.borrow_mut() = Some(OnStep(Box::new(move |step| {
            let mut copies = copies.lock().expect("no panic");
            let copy = parent.join(format!("copy-{}", copies.len()));
            let status = Command::new("cp").arg("-a").arg(&root).arg(&copy).status();
            assert!(status.expect("cp is installed").success());
            copies.push((step.to_owned(), copy));
        })));
        store
    }

    /// Replaces the disk by a copy: the state names files by their paths.
    fn become_copy(&self, copy: &Path) {
        fs::remove_dir_all(self.root()).expect("removed");
        fs::rename(copy, self.root()).expect("renamed");
    }

    fn options(&self) -> SwitchOptions {
        SwitchOptions {
            configuration: self.root().join("jetwatch.yaml"),
            watch: Some(limits()),
        }
    }
}

fn street() -> BundleName {
    "street".parse().expect("a name")
}

/// What a disk has after recovery: the serial number in use, and the configuration.
fn recovered(root: &Path) -> (Option<u64>, String) {
    let store = Store::open(&root.join("models")).expect("a store");
    recover(&store, &mut |_| ()).expect("recovered");
    let state = State::load(&store, &street()).expect("readable");
    let current = state.and_then(|state| {
        assert!(!state.is_interrupted());
        for version in [state.current.as_ref(), state.previous.as_ref()] {
            version.map(|version| store.check_version(version.sha256).expect("whole"));
        }
        state.current
    });
    let link = fs::read_link(store.link(&street())).ok();
    let expected = current.as_ref().map(|version| version.sha256.to_string());
    assert_eq!(link, expected.map(PathBuf::from));
    let names = fs::read_dir(store.folder()).expect("readable");
    for name in names.map(|entry| entry.expect("readable").file_name()) {
        assert!(!name.to_string_lossy().starts_with(".staging"), "{name:?}");
    }
    let configuration = fs::read_to_string(root.join("jetwatch.yaml")).unwrap_or_default();
    (current.map(|version| version.serial), configuration)
}

/// Installs 1 and then 2, both with a configuration, where `broken` does not work, and rolls back at the end; the copies.
fn run(disk: &Disk, broken: Option<u64>) -> Vec<(String, PathBuf)> {
    let publisher = Publisher::new();
    let mut daemon = TestDaemon::new(disk.root().join("models/street"));
    daemon.broken = broken;
    fs::write(disk.root().join("jetwatch.yaml"), "# by hand\n").expect("written");
    for serial in [1, 2] {
        let packed = publisher.publish(&publisher.options_with_configuration(serial));
        let options = InstallOptions {
            bundle: packed.path,
            signature: None,
            keys: publisher.signer.trusted(),
            switch: disk.options(),
            program: "1.0.0".parse().expect("a version"),
            allow_downgrade: false,
        };
        let gate = TestGate(Ok(Vec::new()));
        let done = install(&disk.store(), &gate, &mut daemon, &options, &mut |_| ());
        assert_eq!(done.is_ok(), Some(serial) != broken, "{done:?}");
    }
    if broken.is_none() {
        let done = rollback(
            &disk.store(),
            &street(),
            &mut daemon,
            &disk.options(),
            &mut |_| (),
        );
        done.expect("rolled back");
    }
    disk.copies.lock().expect("no panic").clone()
}

#[test]
fn power_cut_at_every_step_leaves_the_old_or_the_new_version() {
    let disk = Disk::new();
    let copies = run(&disk, None);
    let (by_hand, one, two) = (
        (None, "# by hand\n".to_owned()),
        (Some(1), "# configuration of 1\n".to_owned()),
        (Some(2), "# configuration of 2\n".to_owned()),
    );
    // Before and after each of the three switches.
    let pairs = [(&by_hand, &one), (&one, &two), (&two, &one)];
    assert_eq!(recovered(&disk.root()), one);
    let mut switches = 0;
    let mut found = Vec::new();
    for (step, copy) in &copies {
        disk.become_copy(copy);
        let now = recovered(&disk.root());
        let (before, after) = pairs[switches];
        let is_after = matches!(step.as_str(), "confirmed" | "pruned");
        assert_eq!(&now, if is_after { after } else { before }, "{step}");
        switches += usize::from(step == "pruned");
        found.push(step.as_str());
    }
    let steps = [
        "judged",
        "added",
        "configurations kept",
        "pending",
        "configuration switched",
        "switched",
        "confirmed",
        "pruned",
    ];
    let expected = [&steps[..], &steps[..], &steps[2..]].concat();
    assert_eq!(found, expected);
}

#[test]
fn power_cut_while_it_rolls_back_leaves_the_old_version() {
    let disk = Disk::new();
    let copies = run(&disk, Some(2));
    let old = (Some(1), "# configuration of 1\n".to_owned());
    let second = copies.iter().rposition(|(step, _)| step == "judged");
    let copies = &copies[second.expect("a second install")..];
    let steps: Vec<&str> = copies.iter().map(|(step, _)| step.as_str()).collect();
    for step in [
        "configuration restored",
        "link restored",
        "abandoned",
        "pruned",
    ] {
        assert!(steps.contains(&step), "{steps:?}");
    }
    assert_eq!(recovered(&disk.root()), old);
    for (step, copy) in copies {
        disk.become_copy(copy);
        assert_eq!(recovered(&disk.root()), old, "{step}");
    }
}

#[test]
fn interrupted_switch_is_in_the_history_and_the_bundle_can_be_installed_again() {
    let disk = Disk::new();
    let copies = run(&disk, None);
    let (_, copy) = copies
        .iter()
        .rfind(|(step, _)| step == "switched")
        .expect("a copy");
    disk.become_copy(copy);
    recovered(&disk.root());
    let store = Store::open(&disk.root().join("models")).expect("a store");
    let state = State::load(&store, &street())
        .expect("readable")
        .expect("a state");
    let last = state.history.last().expect("an entry");
    assert_eq!(last.outcome, crate::Outcome::Interrupted);
    assert!(last.text.contains("before the version had proven itself"));
    assert_eq!(state.highest.map(|highest| highest.serial), Some(2));
}
