// SPDX-License-Identifier: Apache-2.0
//! The units are for systemd 245 (Ubuntu 20.04, JetPack 5): newer directives are in drop-ins that are copied manually.
//!
//! systemd ignores an unknown directive with a warning, so that a sandbox could be open unnoticed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest systemd that the units are for.
const MIN_VERSION: u32 = 245;

/// The directives in use, by the version of systemd that they came with; 0: before 220.
const DIRECTIVES: &[(u32, &str)] = &[
    (
        0,
        "After Before BindsTo CapabilityBoundingSet ConditionPathExists Conflicts \
         DefaultDependencies Description DeviceAllow DevicePolicy Documentation Environment \
         EnvironmentFile ExecReload ExecStart ExecStartPost ExecStartPre ExecStop Group KillMode \
         LimitCORE LimitNOFILE NoNewPrivileges NotifyAccess OOMScoreAdjust PathChanged \
         PrivateDevices PrivateNetwork PrivateTmp ProtectHome ProtectSystem RemainAfterExit \
         Requisite Restart RestartPreventExitStatus RestartSec RestrictAddressFamilies \
         RuntimeDirectory RuntimeDirectoryMode StartLimitBurst StopWhenUnneeded SuccessExitStatus \
         SystemCallArchitectures SystemCallErrorNumber SystemCallFilter TimeoutStartSec \
         TimeoutStopSec Type UMask User WantedBy Wants WatchdogSec WorkingDirectory",
    ),
    (227, "TasksMax"),
    (229, "AmbientCapabilities"),
    (230, "StartLimitIntervalSec"),
    (
        231,
        "MemoryDenyWriteExecute MemoryMax ReadOnlyPaths ReadWritePaths RestrictRealtime",
    ),
    (
        232,
        "ProtectControlGroups ProtectKernelModules ProtectKernelTunables RemoveIPC",
    ),
    (233, "RestrictNamespaces"),
    (
        235,
        "CacheDirectory CacheDirectoryMode IPAddressDeny KeyringMode LockPersonality \
         LogsDirectory LogsDirectoryMode StateDirectory StateDirectoryMode",
    ),
    (239, "PrivateMounts"),
    (242, "ProtectHostname RestrictSUIDSGID"),
    (243, "TimeoutAbortSec"),
    (244, "ProtectKernelLogs"),
    (245, "ProtectClock"),
    (247, "LoadCredential ProtectProc"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd")
}

/// Errors of the directives of a unit: newer than `max_version`, or not in the table.
fn directive_errors(text: &str, max_version: u32) -> Vec<String> {
    let directives = text
        .lines()
        .filter(|line| !line.starts_with(['#', '[', ';']))
        .filter_map(|line| Some(line.split_once('=')?.0));
    directives
        .filter_map(|name| {
            match DIRECTIVES
                .iter()
                .find(|(_, known)| known.split(' ').any(|it| it == name))
            {
                None => Some(format!(
                    "{name} is not in the table of this test: look up the version that it came with"
                )),
                Some((version, _)) if *version > max_version => Some(format!(
                    "{name} came with systemd {version}: put it into a drop-in"
                )),
                Some(_) => None,
            }
        })
        .collect()
}

/// The files of a folder with this ending, with their texts.
fn files(folder: &Path, ending: &str) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("readable").path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .map(|path| (path.clone(), fs::read_to_string(path).expect("a text")))
        .collect()
}

#[test]
fn units_are_for_systemd_245() {
    let mut units = files(&folder(), "service");
    units.extend(files(&folder(), "path"));
    assert!(!units.is_empty());
    for (path, text) in units {
        let wrong = directive_errors(&text, MIN_VERSION);
        assert!(wrong.is_empty(), "{}: {wrong:#?}", path.display());
    }
    let drop_ins = files(&folder().join("drop-ins"), "conf");
    assert!(!drop_ins.is_empty());
    for (path, text) in drop_ins {
        let wrong = directive_errors(&text, u32::MAX);
        assert!(wrong.is_empty(), "{}: {wrong:#?}", path.display());
    }
}

#[test]
fn newer_or_misspelled_directive_is_detected() {
    let text =
        "# ProtectProc=no\n[Service]\nType=notify\nProtectProc=invisible\nRestrictSuidSgid=yes\n";
    let found = directive_errors(text, MIN_VERSION);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("ProtectProc came with systemd 247"));
    assert!(found[1].contains("RestrictSuidSgid is not in the table"));
}

/// The exposure that SECURITY.md states for a unit, in tenths, as `systemd-analyze security --threshold` takes it.
fn stated_exposure(document: &str, unit: &str) -> Option<String> {
    let row = format!("| `{unit}` | ");
    let row = document.lines().find_map(|line| line.strip_prefix(&row))?;
    Some(row.split_once(" |")?.0.replace('.', ""))
}

#[test]
fn exposure_of_units_is_as_stated() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("SECURITY.md");
    let document = fs::read_to_string(document).expect("a text");
    for (path, _) in files(&folder(), "service") {
        let unit = path.file_name().expect("a name").to_string_lossy();
        let stated = stated_exposure(&document, &unit);
        let stated = stated.unwrap_or_else(|| panic!("SECURITY.md states no exposure of {unit}"));
        let counted = Command::new("systemd-analyze")
            .args(["security", "--offline=yes", "--no-pager", "--threshold"])
            .arg(stated)
            .arg(&path)
            .output();
        let Ok(counted) = counted else {
            eprintln!("skipped: there is no systemd-analyze");
            return;
        };
        let text = String::from_utf8_lossy(&counted.stdout);
        if !text.contains("Overall exposure level") {
            eprintln!(
                "skipped: this systemd-analyze cannot look at a unit offline (it can since 250)"
            );
            return;
        }
        assert!(counted.status.success(), "{unit}: {text}");
    }
}

#[test]
fn the_package_has_the_programs_version() {
    let changelog = Path::new(env!("CARGO_MANIFEST_DIR")).join("cross/debian/changelog");
    let text = fs::read_to_string(changelog).expect("a text");
    let wanted = format!("jetwatch ({}) ", env!("CARGO_PKG_VERSION"));
    assert!(text.starts_with(&wanted), "expected {wanted}");
}
