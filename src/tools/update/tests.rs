// SPDX-License-Identifier: Apache-2.0
//! The state machine on a machine of the test: every end, and an interruption at every step.

mod machine;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetwatch_telemetry::update_status::{UpdateState, UpdateStatus};

use self::machine::{Fault, MODEL, Machine};
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

/// The versions of the program and of the model that run.
fn running(machine: &Machine) -> Option<(String, String)> {
    let running = machine.running.clone();
    running.map(|(program, model, _)| (program, model))
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
    assert_eq!(updater.system().installed_version("jetwatch"), "1.1");
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
        (Fault::HangsLater, "writes no health"),
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
        assert_eq!(machine.installed_version("jetwatch"), "1.0", "{fault:?}");
        assert_eq!(machine.held, ["jetwatch"], "{fault:?}");
        assert_eq!(running(machine), Some(("1.0".to_owned(), String::new())));
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
        updater.system().offer("jetwatch").push("1.2".to_owned());
        let next = updater
            .install(&InstallRequest::default())
            .expect("installed");
        assert_eq!(next, Outcome::Installed("1.2".to_owned()));
        assert!(updater.system().held.is_empty());
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
        (Fault::Good, |machine| { machine.offer("jetwatch").remove(0); machine.repack_works = false; }, "no way back"),
    ];
    for (fault, change, reason) in cases {
        let (_guard, folder) = folder();
        let mut machine = Machine::new(fault);
        change(&mut machine);
        let (outcome, mut updater) = install(machine, &folder);
        let error = outcome.expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
        assert_eq!(updater.system().installed_version("jetwatch"), "1.0");
        assert_eq!(status(&folder).0, UpdateState::Refused);
        assert!(!folder.join("journal.json").exists());
        assert!(updater.resume().expect("nothing to resume").is_none());
    }
}

#[test]
fn lower_versions_are_never_installed() {
    let (_guard, folder) = folder();
    let mut machine = Machine::new(Fault::Good);
    *machine.offer("jetwatch") = vec!["0.9".to_owned()];
    let (outcome, mut updater) = install(machine, &folder);
    assert_eq!(
        outcome.expect("nothing"),
        Outcome::UpToDate("1.0".to_owned())
    );
    assert_eq!(updater.system().installed_version("jetwatch"), "1.0");
}

#[test]
fn models_are_installed_alone_or_with_the_program() {
    #[rustfmt::skip]
    let machines = [
        (Machine::new(Fault::Good) .with_model(Fault::Good) .without_program(), "1.0"),
        (Machine::new(Fault::Good).with_model(Fault::Good), "1.1"),
    ];
    for (machine, program) in machines {
        let (_guard, folder) = folder();
        let (outcome, mut updater) = install(machine, &folder);
        let words = format!("{program}, street 8");
        assert_eq!(
            outcome.expect("installed"),
            Outcome::Installed(words.clone())
        );
        let machine = updater.system();
        assert_eq!(machine.installed_version(MODEL), "8");
        assert_eq!(running(machine), Some((program.to_owned(), "8".to_owned())));
        assert_eq!(
            status(&folder),
            (
                UpdateState::Installed,
                words.clone(),
                None,
                text("1.0, street 7")
            )
        );
        let back = updater.return_to_previous().expect("rolled back");
        assert!(matches!(back, Outcome::RolledBack(version, _) if version == "1.0, street 7"));
        let machine = updater.system();
        assert_eq!(running(machine), Some(("1.0".to_owned(), "7".to_owned())));
        assert_eq!(status(&folder).2, Some(words));
        let history = fs::read_to_string(folder.join("history.json")).expect("a history");
        let history: Vec<UpdateStatus> = serde_json::from_str(&history).expect("JSON");
        let states: Vec<_> = history.iter().map(|update| update.state).collect();
        assert_eq!(states, [UpdateState::Installed, UpdateState::RolledBack]);
    }
}

#[test]
fn models_that_miss_what_was_recorded_are_refused_or_rolled_back_with_the_program() {
    #[rustfmt::skip]
    let faults = [
        (Fault::MissesDetections, UpdateState::Refused, "wrong recorded street"),
        (Fault::IsDamaged, UpdateState::RolledBack, "wrong recorded street"),
        (Fault::Crashes, UpdateState::RolledBack, "jetwatch.service has failed"),
        (Fault::IsSlow, UpdateState::RolledBack, "10.0 frames/s through the network, 20.0 before"),
        (Fault::LogsErrors, UpdateState::RolledBack, "errors/s in the log, 0.0 before"),
    ];
    for (fault, state, reason) in faults {
        let both = Machine::new(Fault::Good).with_model(fault);
        for machine in [both.clone().without_program(), both] {
            let (_guard, folder) = folder();
            let (outcome, mut updater) = install(machine, &folder);
            let found = match outcome {
                Ok(outcome) => format!("{outcome:?}"),
                Err(error) => error.to_string(),
            };
            assert!(
                found.contains(reason) && !found.contains("healthy either"),
                "{found}"
            );
            let machine = updater.system();
            assert_eq!(machine.installed_version("jetwatch"), "1.0", "{fault:?}");
            assert_eq!(machine.installed_version(MODEL), "7", "{fault:?}");
            assert_eq!(running(machine), Some(("1.0".to_owned(), "7".to_owned())));
            // What is refused disturbs no daemon.
            let is_disturbed = machine.starts > 0;
            assert_eq!(is_disturbed, state == UpdateState::RolledBack, "{fault:?}");
            let (found, installed, held, _) = status(&folder);
            assert_eq!((found, installed.as_str()), (state, "1.0, street 7"));
            assert_eq!(held.is_some(), state == UpdateState::RolledBack);
            // A newer version of the model is tried.
            updater.system().offer(MODEL).push("9".to_owned());
            let next = updater.install(&InstallRequest::default());
            assert!(
                matches!(next, Ok(Outcome::Installed(words)) if words.ends_with(", street 9")),
                "{fault:?}"
            );
        }
    }
}

#[test]
fn interruption_at_every_step_ends_with_a_whole_version_that_runs() {
    let machines = [
        Machine::new(Fault::Good),
        Machine::new(Fault::Crashes),
        Machine::new(Fault::FailsToInstall),
        Machine::new(Fault::LosesSource),
        Machine::new(Fault::Good).with_model(Fault::Good),
        Machine::new(Fault::Good)
            .with_model(Fault::Good)
            .without_program(),
        Machine::new(Fault::Good).with_model(Fault::IsDamaged),
        Machine::new(Fault::Crashes).with_model(Fault::Good),
    ];
    for machine in machines {
        let is_good = machine.faults.values().all(|fault| *fault == Fault::Good);
        let has_model = machine.packages.contains_key(MODEL);
        let (_guard, counted) = folder();
        let (_, mut first) = install(machine.clone(), &counted);
        let operations = first.system().operations;
        assert!(operations > 15, "{operations}");
        for kill_after in 0..operations {
            let (_guard, folder) = folder();
            let mut machine = machine.clone();
            machine.kill_after = Some(kill_after);
            let mut killed = updater(machine, &folder);
            let result = catch_unwind(AssertUnwindSafe(|| {
                killed.install(&InstallRequest::default()).map(drop)
            }));
            assert!(result.is_err(), "killed at {kill_after}");
            let machine = killed.system().clone();
            drop(killed);
            let mut resumed = updater(machine, &folder);
            // As after a power cut, before the daemons start.
            if has_model {
                resumed.repair().expect("repaired");
                assert_whole(resumed.system());
            }
            resumed.resume().expect("resumed");
            let machine = resumed.system();
            assert_whole(machine);
            let (version, model) = (
                machine.installed_version("jetwatch"),
                machine.installed_version(MODEL),
            );
            let is_earlier = version == "1.0" && model != "8";
            assert!(is_good || is_earlier, "{:?} {kill_after}", machine.faults);
            assert_eq!(running(machine), Some((version, model)), "{kill_after}");
            assert!(!folder.join("journal.json").exists(), "{kill_after}");
            assert!(!folder.join("updater").exists() && !folder.join("reserve").exists());
        }
    }
}

/// All packages are whole, and of one switch.
fn assert_whole(machine: &Machine) {
    assert!(machine.packages.values().all(|found| found.is_whole));
    let is_new = |package: &str, version: &str| {
        let is_offered = machine.repository.get(package);
        let is_offered = is_offered.filter(|versions| versions.iter().any(|v| v == version));
        is_offered.map(|_| machine.installed_version(package) == version)
    };
    let states: Vec<bool> = [is_new("jetwatch", "1.1"), is_new(MODEL, "8")]
        .into_iter()
        .flatten()
        .collect();
    assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
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
        let version = machine.installed_version("jetwatch");
        // The kill may be before the journal.
        assert!(["1.0", "1.1"].contains(&version.as_str()), "{kill_after}");
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
    assert_eq!(updater.system().installed_version("jetwatch"), "1.1");
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
