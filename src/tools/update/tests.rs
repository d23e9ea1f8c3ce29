//! The state machine on a machine of the test: every end, and an interruption at every step.

mod machine;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetwatch_telemetry::update_status::{UpdateState, UpdateStatus};

use self::machine::{Fault, Machine, whole};
use super::{Gate, InstallRequest, Outcome, Store, UpdateError, Updater};

/// What a case does to the machine before the update.
type Preparation = fn(&mut Machine);

/// A folder that only this user can write to, below one of the same kind.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("update");
    (folder, path)
}

fn updater(machine: Machine, folder: &Path) -> Updater<Machine> {
    let store = Store::open(folder).expect("a store");
    let gate = Gate {
        timeout: Duration::from_secs(10),
        settle: Duration::from_secs(1),
        ..Gate::default()
    };
    Updater::new(machine, store.with_program(&folder.join("lock")), gate)
}

fn install(machine: Machine, folder: &Path) -> (Result<Outcome, UpdateError>, Updater<Machine>) {
    let mut updater = updater(machine, folder);
    let outcome = updater.install(&InstallRequest::default());
    (outcome, updater)
}

fn status(folder: &Path) -> (UpdateState, String, Option<String>, Option<String>) {
    let status = UpdateStatus::read(&folder.join("status.json"));
    let status = status.expect("readable").expect("a status");
    (status.state, status.installed, status.held, status.previous)
}

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

#[test]
fn healthy_version_stays_and_the_earlier_one_is_kept() {
    let (_guard, folder) = folder();
    let (outcome, mut updater) = install(Machine::new(Fault::Good), &folder);
    assert_eq!(
        outcome.expect("installed"),
        Outcome::Installed("1.1".to_owned())
    );
    assert_eq!(updater.system().installed, whole("1.1"));
    assert_eq!(
        status(&folder),
        (UpdateState::Installed, "1.1".to_owned(), None, text("1.0"))
    );
    assert!(!folder.join("journal.json").exists() && !folder.join("reserve").exists());
    assert_eq!(
        fs::read_dir(folder.join("packages"))
            .expect("a folder")
            .count(),
        2
    );
    let again = updater
        .install(&InstallRequest::default())
        .expect("nothing to do");
    assert_eq!(again, Outcome::UpToDate("1.1".to_owned()));
}

#[test]
fn versions_that_do_not_work_are_rolled_back_and_held() {
    let faults = [
        (Fault::FailsToInstall, "the maintainer script failed"),
        (Fault::Crashes, "jetwatch.service has failed"),
        (Fault::LosesSource, "source yard: 0 frames"),
        (Fault::Hangs, "source yard: 0 frames"),
        (Fault::IsNotAcknowledged, "acknowledged no message"),
    ];
    for (fault, reason) in faults {
        let (_guard, folder) = folder();
        let (outcome, mut updater) = install(Machine::new(fault), &folder);
        match outcome.expect("rolled back") {
            Outcome::RolledBack(version, text) => {
                assert_eq!(version, "1.0");
                assert!(
                    text.contains(reason) && !text.contains("not healthy either"),
                    "{text}"
                );
            }
            other => panic!("{fault:?}: {other:?}"),
        }
        let machine = updater.system();
        assert_eq!(
            (machine.installed.clone(), machine.held),
            (whole("1.0"), true),
            "{fault:?}"
        );
        assert_eq!(
            machine
                .running
                .as_ref()
                .map(|(version, _)| version.as_str()),
            Some("1.0")
        );
        assert_eq!(
            status(&folder),
            (UpdateState::RolledBack, "1.0".to_owned(), text("1.1"), None)
        );
        let again = updater.install(&InstallRequest::default()).expect("held");
        assert!(
            matches!(again, Outcome::Available(version, _) if version == "1.1"),
            "not tried again"
        );
        // A newer version is.
        updater
            .system()
            .versions
            .insert("1.2".to_owned(), Fault::Good);
        updater.system().repository.push("1.2".to_owned());
        let next = updater
            .install(&InstallRequest::default())
            .expect("installed");
        assert_eq!(next, Outcome::Installed("1.2".to_owned()));
        assert!(!updater.system().held);
        assert_eq!(status(&folder).2, None);
    }
}

#[test]
fn refusals_change_nothing() {
    #[rustfmt::skip]
    let cases: [(Fault, Preparation, &str); 4] = [
        (Fault::RefusesConfiguration, |_| (), "unknown key"),
        (Fault::Good, |machine| machine.is_refresh_refused = true, "not signed"),
        (Fault::Good, |machine| machine.running = None, "no daemon runs"),
        (
            Fault::Good,
            |machine| {
                machine.repository.remove(0);
                machine.repack_works = false;
            },
            "no way back",
        ),
    ];
    for (fault, change, reason) in cases {
        let (_guard, folder) = folder();
        let mut machine = Machine::new(fault);
        change(&mut machine);
        let (outcome, mut updater) = install(machine, &folder);
        let error = outcome.expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
        assert_eq!(updater.system().installed, whole("1.0"));
        assert_eq!(status(&folder).0, UpdateState::Refused);
        assert!(!folder.join("journal.json").exists());
        assert!(updater.resume().expect("nothing to resume").is_none());
    }
}

#[test]
fn lower_versions_are_never_installed() {
    let (_guard, folder) = folder();
    let mut machine = Machine::new(Fault::Good);
    machine.repository = vec!["0.9".to_owned()];
    let (outcome, mut updater) = install(machine, &folder);
    assert_eq!(
        outcome.expect("nothing"),
        Outcome::UpToDate("1.0".to_owned())
    );
    assert_eq!(updater.system().installed, whole("1.0"));
}

#[test]
fn interruption_at_every_step_ends_with_a_whole_version_that_runs() {
    for fault in [
        Fault::Good,
        Fault::Crashes,
        Fault::FailsToInstall,
        Fault::LosesSource,
    ] {
        let (_guard, counted) = folder();
        let (_, mut first) = install(Machine::new(fault), &counted);
        let operations = first.system().operations;
        assert!(operations > 15, "{operations}");
        for kill_after in 0..operations {
            let (_guard, folder) = folder();
            let mut machine = Machine::new(fault);
            machine.kill_after = Some(kill_after);
            let mut killed = updater(machine, &folder);
            let result = catch_unwind(AssertUnwindSafe(|| {
                killed.install(&InstallRequest::default()).map(drop)
            }));
            assert!(result.is_err(), "killed at {kill_after}");
            let machine = killed.system().clone();
            drop(killed);
            let mut resumed = updater(machine, &folder);
            resumed.resume().expect("resumed");
            let machine = resumed.system();
            let version = machine.installed.version.clone();
            assert!(machine.installed.is_whole, "{fault:?} {kill_after}");
            assert!(
                fault == Fault::Good || version == "1.0",
                "{fault:?} {kill_after}: {version}"
            );
            let running = machine.running.as_ref().map(|(version, _)| version.clone());
            assert_eq!(running, Some(version), "{fault:?} {kill_after}");
            assert!(
                !folder.join("journal.json").exists(),
                "{fault:?} {kill_after}"
            );
            assert!(!folder.join("updater").exists() && !folder.join("reserve").exists());
        }
    }
}

#[test]
fn interrupted_roll_back_is_continued() {
    let (_guard, counted) = folder();
    let (_, mut first) = install(Machine::new(Fault::Good), &counted);
    let before = first.system().operations;
    first.return_to_previous().expect("rolled back");
    let after = first.system().operations;
    for kill_after in before..after {
        let (_guard, folder) = folder();
        let (_, mut updater) = install(Machine::new(Fault::Good), &folder);
        updater.system().kill_after = Some(kill_after);
        let result = catch_unwind(AssertUnwindSafe(|| updater.return_to_previous().map(drop)));
        assert!(result.is_err(), "killed at {kill_after}");
        updater.resume().expect("resumed");
        let machine = updater.system();
        let is_before_the_journal = machine.installed == whole("1.1");
        assert!(
            is_before_the_journal || machine.installed == whole("1.0"),
            "{kill_after}"
        );
        assert!(!folder.join("journal.json").exists());
    }
}

#[test]
fn return_to_the_previous_version_holds_the_present_one() {
    let (_guard, folder) = folder();
    let (_, mut updater) = install(Machine::new(Fault::Good), &folder);
    let outcome = updater.return_to_previous().expect("rolled back");
    assert!(matches!(outcome, Outcome::RolledBack(version, _) if version == "1.0"));
    assert_eq!(
        status(&folder),
        (UpdateState::RolledBack, "1.0".to_owned(), text("1.1"), None)
    );
    let error = updater.return_to_previous().expect_err("no earlier one");
    assert!(error.to_string().contains("no earlier version"), "{error}");
    let request = InstallRequest {
        retry_held: true,
        ..InstallRequest::default()
    };
    assert_eq!(
        updater.install(&request).expect("installed"),
        Outcome::Installed("1.1".to_owned())
    );
}

#[test]
fn changed_package_is_not_installed() {
    let (_guard, folder) = folder();
    let (_, mut updater) = install(Machine::new(Fault::Good), &folder);
    for entry in fs::read_dir(folder.join("packages")).expect("a folder") {
        fs::write(entry.expect("an entry").path(), "9.9").expect("written");
    }
    let error = updater
        .return_to_previous()
        .expect_err("changed")
        .to_string();
    assert!(error.contains("its content has changed"), "{error}");
    assert_eq!(updater.system().installed, whole("1.1"));
    assert!(!folder.join("journal.json").exists(), "not begun");
}

#[test]
fn store_is_for_one_updater_and_one_user() {
    use std::os::unix::fs::PermissionsExt;
    let (_guard, folder) = folder();
    let store = Store::open(&folder).expect("a store");
    assert!(matches!(Store::open(&folder), Err(UpdateError::Busy)));
    drop(store);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("set");
    let error = Store::open(&folder).expect_err("open to all").to_string();
    assert!(error.contains("other users can write"), "{error}");
}

#[test]
fn disk_without_room_refuses() {
    let (_guard, folder) = folder();
    let store = Store::open(&folder).expect("a store");
    let error = store.reserve(1 << 60).expect_err("too much").to_string();
    assert!(error.contains("no room"), "{error}");
    assert!(!folder.join("reserve").exists());
}
