//! Install, rollback and the watch over the daemon, with bundles signed by minisign itself.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::test_bundles::{Publisher, TestDaemon, TestGate, limits};
use crate::{
    Action, BundleError, InstallOptions, Installation, Outcome, PackOptions, State, Store,
    SwitchOptions, install, recover, rollback,
};

/// A machine with a daemon.
struct Machine {
    publisher: Publisher,
    folder: TempDir,
    daemon: TestDaemon,
    gate: TestGate,
    steps: Vec<String>,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self {
            publisher: Publisher::new(),
            daemon: TestDaemon::new(folder.path().join("models/street")),
            folder,
            gate: TestGate(Ok(vec!["proven".to_owned()])),
            steps: Vec::new(),
        }
    }

    fn store(&self) -> Store {
        Store::open(&self.folder.path().join("models")).expect("a store")
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("jetwatch.yaml")
    }

    fn switch_options(&self) -> SwitchOptions {
        SwitchOptions {
            configuration: self.configuration(),
            watch: Some(limits()),
        }
    }

    fn install(&mut self, options: &PackOptions) -> Result<Installation, BundleError> {
        self.install_with(options, false)
    }

    fn install_with(
        &mut self,
        options: &PackOptions,
        allow_downgrade: bool,
    ) -> Result<Installation, BundleError> {
        let packed = self.publisher.publish(options);
        let options = InstallOptions {
            bundle: packed.path,
            signature: None,
            keys: self.publisher.signer.trusted(),
            switch: self.switch_options(),
            program: "1.0.0".parse().expect("a version"),
            allow_downgrade,
        };
        let store = self.store();
        let steps = &mut self.steps;
        install(
            &store,
            &self.gate,
            &mut self.daemon,
            &options,
            &mut |text| {
                steps.push(text.to_owned());
            },
        )
    }

    fn rollback(&mut self) -> Result<String, BundleError> {
        let name = "street".parse().expect("a name");
        let (store, options) = (self.store(), self.switch_options());
        rollback(&store, &name, &mut self.daemon, &options, &mut |_| ())
    }

    fn state(&self) -> State {
        let name = "street".parse().expect("a name");
        let state = State::load(&self.store(), &name).expect("readable");
        state.expect("a state")
    }

    /// Serial numbers: in use, before it, the highest; and of the daemon.
    fn serials(&self) -> [Option<u64>; 4] {
        let state = self.state();
        assert!(!state.is_interrupted());
        [
            state.current.map(|version| version.serial),
            state.previous.map(|version| version.serial),
            state.highest.map(|highest| highest.serial),
            self.daemon.serial(),
        ]
    }

    /// Number of version folders.
    fn versions(&self) -> usize {
        let entries = fs::read_dir(self.folder.path().join("models")).expect("readable");
        let names = entries.map(|entry| entry.expect("readable").file_name());
        names.filter(|name| name.len() == 64).count()
    }

    fn outcomes(&self) -> Vec<(Action, Outcome, u64)> {
        let history = self.state().history;
        let entries = history.iter();
        entries
            .map(|entry| (entry.action, entry.outcome, entry.serial))
            .collect()
    }
}

#[test]
fn last_two_versions_are_kept_and_the_serial_number_only_grows() {
    let mut machine = Machine::new();
    for serial in [1, 2, 5] {
        let options = machine.publisher.options(serial);
        let done = machine.install(&options).expect("installed");
        assert!(matches!(done, Installation::Done(_)), "{done:?}");
    }
    assert_eq!(machine.serials(), [Some(5), Some(2), Some(5), Some(5)]);
    assert_eq!(machine.versions(), 2);
    let options = machine.publisher.options(3);
    let error = machine.install(&options).expect_err("a lower number");
    assert!(error.to_string().contains("is below 5"), "{error}");
    let mut other = machine.publisher.options(5);
    other.min_jetwatch = "0.2.0".parse().expect("a version");
    let error = machine.install(&other).expect_err("the same number");
    assert!(
        error
            .to_string()
            .contains("another bundle with the serial number 5"),
        "{error}"
    );
    let options = machine.publisher.options(5);
    let again = machine.install(&options).expect("the same bundle");
    assert_eq!(again, Installation::Unchanged);
    let options = machine.publisher.options(3);
    machine.install_with(&options, true).expect("by hand");
    assert_eq!(machine.serials(), [Some(3), Some(5), Some(5), Some(3)]);
    assert_eq!(machine.versions(), 2);
}

#[test]
fn measurement_is_in_the_history() {
    let mut machine = Machine::new();
    let options = machine.publisher.options(1);
    machine.install(&options).expect("installed");
    let options = machine.publisher.options(2);
    machine.install(&options).expect("installed");
    let history = machine.state().history;
    assert!(
        history[0]
            .text
            .contains("20.0 frames/s through the network; nothing to"),
        "{history:?}"
    );
    assert!(
        history[1]
            .text
            .contains("20.0 frames/s through the network, 20.0 before, 10 messages"),
        "{history:?}"
    );
    assert!(machine.steps.iter().any(|step| step == "proven"));
    assert!(
        machine.steps[0].ends_with("signed by key.pub (a test)"),
        "{:?}",
        machine.steps
    );
}

#[test]
fn slow_or_broken_version_is_rolled_back() {
    let mut machine = Machine::new();
    let options = machine.publisher.options(1);
    machine.install(&options).expect("installed");
    machine.daemon.slow = Some(2);
    let options = machine.publisher.options(2);
    let error = machine.install(&options).expect_err("slow");
    assert!(matches!(error, BundleError::RolledBack { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("5.0 frames/s through the network, expected 16.0 at least"),
        "{error}"
    );
    machine.daemon.broken = Some(3);
    let options = machine.publisher.options(3);
    let error = machine.install(&options).expect_err("broken");
    assert!(
        error.to_string().contains("the daemon does not run"),
        "{error}"
    );
    assert_eq!(machine.serials(), [Some(1), None, Some(1), Some(1)]);
    assert_eq!(machine.versions(), 1);
    let expected = [
        (Action::Install, Outcome::InUse, 1),
        (Action::Install, Outcome::RolledBack, 2),
        (Action::Install, Outcome::RolledBack, 3),
    ];
    assert_eq!(machine.outcomes(), expected);
    // It may be tried again: another machine load, or a repaired daemon.
    machine.daemon.broken = None;
    let options = machine.publisher.options(3);
    machine.install(&options).expect("works now");
    assert_eq!(machine.serials(), [Some(3), Some(1), Some(3), Some(3)]);
}

#[test]
fn refused_candidate_changes_nothing() {
    let mut machine = Machine::new();
    let options = machine.publisher.options(1);
    machine.install(&options).expect("installed");
    machine.gate = TestGate(Err("golden detections differ".to_owned()));
    let options = machine.publisher.options(2);
    let error = machine.install(&options).expect_err("refused");
    let expected = "street 2 is refused: golden detections differ";
    assert_eq!(error.to_string(), expected);
    assert_eq!(machine.serials(), [Some(1), None, Some(1), Some(1)]);
    assert_eq!(machine.versions(), 1);
    assert_eq!(
        machine.outcomes()[1],
        (Action::Install, Outcome::Refused, 2)
    );
}

#[test]
fn rollback_by_hand_swaps_the_versions() {
    let mut machine = Machine::new();
    let error = machine.rollback().expect_err("nothing is installed");
    assert!(matches!(error, BundleError::NotInstalled { .. }), "{error}");
    let options = machine.publisher.options(1);
    machine.install(&options).expect("installed");
    let error = machine.rollback().expect_err("no earlier version");
    assert!(matches!(error, BundleError::NoPrevious { .. }), "{error}");
    let options = machine.publisher.options(2);
    machine.install(&options).expect("installed");
    machine.rollback().expect("rolled back");
    assert_eq!(machine.serials(), [Some(1), Some(2), Some(2), Some(1)]);
    machine.rollback().expect("and forward again");
    assert_eq!(machine.serials(), [Some(2), Some(1), Some(2), Some(2)]);
    assert_eq!(machine.outcomes()[2], (Action::Rollback, Outcome::InUse, 1));
}

#[test]
fn damaged_version_is_not_rolled_back_to_and_can_be_installed_again() {
    let mut machine = Machine::new();
    for serial in [1, 2] {
        let options = machine.publisher.options(serial);
        machine.install(&options).expect("installed");
    }
    let previous = machine.state().previous.expect("a version");
    let file = machine
        .store()
        .version(previous.sha256)
        .join("models/model/model.yaml");
    fs::write(file, "serial: 9\n").expect("written");
    let error = machine.rollback().expect_err("damaged");
    assert!(
        error.to_string().contains("model.yaml was changed"),
        "{error}"
    );
    assert_eq!(machine.serials(), [Some(2), Some(1), Some(2), Some(2)]);
    let current = machine.state().current.expect("a version");
    let file = machine
        .store()
        .version(current.sha256)
        .join("models/model/weights/a.onnx");
    fs::write(file, "short").expect("written");
    let options = machine.publisher.options(2);
    let done = machine.install(&options).expect("repaired");
    assert!(matches!(done, Installation::Done(_)), "{done:?}");
    machine
        .store()
        .check_version(current.sha256)
        .expect("whole again");
}

#[test]
fn configuration_goes_and_comes_with_its_version() {
    let mut machine = Machine::new();
    let present = |machine: &Machine| fs::read_to_string(machine.configuration()).expect("a file");
    fs::write(machine.configuration(), "# by hand\n").expect("written");
    let options = machine.publisher.options(1);
    machine.install(&options).expect("installed");
    assert_eq!(present(&machine), "# by hand\n");
    let options = machine.publisher.options_with_configuration(2);
    machine.install(&options).expect("installed");
    assert_eq!(present(&machine), "# configuration of 2\n");
    fs::write(machine.configuration(), "# configuration of 2, edited\n").expect("written");
    machine.rollback().expect("rolled back");
    assert_eq!(present(&machine), "# by hand\n");
    machine.rollback().expect("and forward again");
    assert_eq!(present(&machine), "# configuration of 2, edited\n");
    machine.daemon.broken = Some(3);
    let options = machine.publisher.options_with_configuration(3);
    machine.install(&options).expect_err("broken");
    assert_eq!(present(&machine), "# configuration of 2, edited\n");
}

#[test]
fn configuration_before_the_first_bundle_is_kept() {
    let mut machine = Machine::new();
    fs::write(machine.configuration(), "# by hand\n").expect("written");
    for serial in [1, 2, 3] {
        let options = machine.publisher.options_with_configuration(serial);
        machine.install(&options).expect("installed");
    }
    let original = machine.state().original.expect("a digest");
    let kept = fs::read_to_string(machine.store().kept_configuration(original));
    assert_eq!(kept.expect("a file"), "# by hand\n");
}

#[test]
fn two_processes_do_not_work_on_one_store() {
    let machine = Machine::new();
    let store = machine.store();
    let error = Store::open(store.folder()).expect_err("locked");
    assert!(matches!(error, BundleError::Busy { .. }), "{error}");
    drop(store);
    machine.store();
}

#[test]
fn unreadable_state_is_an_error() {
    let mut machine = Machine::new();
    let options = machine.publisher.options(1);
    machine.install(&options).expect("installed");
    let path = machine.folder.path().join("models/.state/street.json");
    fs::write(path, "{}").expect("written");
    let options = machine.publisher.options(2);
    let error = machine.install(&options).expect_err("no state");
    assert!(
        error.to_string().contains("is no state of a bundle"),
        "{error}"
    );
    recover(&machine.store(), &mut |_| ()).expect_err("neither here");
}

#[test]
fn store_that_is_a_link_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (other, link) = (folder.path().join("other"), folder.path().join("models"));
    fs::create_dir(&other).expect("created");
    std::os::unix::fs::symlink(&other, &link).expect("linked");
    let error = Store::open(&link).expect_err("a link");
    assert!(error.to_string().contains("no link to one"), "{error}");
}
