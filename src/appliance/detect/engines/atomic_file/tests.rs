// SPDX-License-Identifier: Apache-2.0
//! Files that are whole or not there, whatever happens: an end in the middle, a full disk, a folder that cannot be written.

use super::super::cache::{EngineCache, Lookup};
use super::super::manifest::Manifest;
use super::super::spec::tests::engine_spec;
use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("readable")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

#[test]
fn file_gets_final_name_only_when_complete() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a");
    let written = AtomicFile::new(path.clone(), b"bytes").expect("writable");
    assert!(!path.exists());
    written.commit().expect("renamed");
    assert_eq!(fs::read(&path).expect("it is there"), b"bytes");
    drop(AtomicFile::new(path.clone(), b"other").expect("writable"));
    assert_eq!(names(folder.path()), ["a"]);
    assert_eq!(fs::read(&path).expect("it is there"), b"bytes");
}

#[test]
fn build_lock_is_exclusive() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let first = lock(folder.path(), &mut |_| false).expect("writable");
    assert!(first.is_some());
    let mut asked = 0;
    let second = lock(folder.path(), &mut |_| {
        asked += 1;
        asked < 2
    });
    assert!(second.expect("writable").is_none() && asked == 2);
    drop(first);
    assert!(
        lock(folder.path(), &mut |_| false)
            .expect("writable")
            .is_some()
    );
}

#[test]
fn leftovers_of_interrupted_build_are_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let own = "m-int8-b1-trt8.5.2-0123456789abcdef.engine";
    let whole = "m-int8-b2-trt8.5.2-0123456789abcdef.engine";
    let left = [".m.engine.12.partial", own];
    let kept = [
        "calibration",
        "foreign.engine",
        whole,
        &format!("{whole}.json"),
        "timing-TensorRT8.5.2.cache",
        "x.partial",
    ];
    for name in left.iter().chain(&kept) {
        fs::write(folder.path().join(name), "x").expect("written");
    }
    let lock = lock(folder.path(), &mut |_| false)
        .expect("writable")
        .expect("free");
    let removed = remove_leftovers(folder.path(), &lock).expect("writable");
    assert_eq!(removed.len(), 2);
    let mut wanted: Vec<&str> = kept.to_vec();
    wanted.push(LOCK);
    wanted.sort_unstable();
    assert_eq!(names(folder.path()), wanted);
}

#[test]
fn a_folder_that_cannot_be_created_is_reported_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    let error = lock(&file.join("engines"), &mut |_| false).expect_err("a file is no folder");
    assert!(error.is_configuration());
    let error = error.to_string();
    assert!(
        error.starts_with("cannot write ") && error.contains("detector.tensorrt.engines"),
        "{error}"
    );
}

#[test]
fn full_disk_keeps_previous_engine() {
    // What is written to it never fits, as on a full disk; the folder for it is the device's own.
    let error = File::options()
        .write(true)
        .open("/dev/full")
        .and_then(|mut full| full.write_all(b"x"))
        .expect_err("it is full");
    let error = write_error(Path::new("/dev/shm/engine"), 3 << 20, error).to_string();
    assert!(
        error.starts_with("not enough disk space for the engine in /dev/shm: 3 MiB are needed, "),
        "{error}"
    );
}

#[test]
fn disk_full_during_write_keeps_previous_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mount = |program: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(program);
        command
            .args(arguments)
            .arg(folder.path())
            .stderr(std::process::Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !mount("mount", &["-t", "tmpfs", "-o", "size=1m", "none"]) {
        eprintln!("skipped: a small disk can be mounted by root alone, and not in every container");
        return;
    }
    let path = folder.path().join("a.engine");
    write(&path, b"before").expect("there is space");
    let error = write(&path, &vec![1; 4 << 20]).expect_err("there is no space");
    let (left, bytes) = (names(folder.path()), fs::read(&path));
    assert!(mount("umount", &[]));
    assert!(!error.is_configuration());
    let error = error.to_string();
    assert!(
        error.starts_with("not enough disk space for the engine in ")
            && error.contains(": 4 MiB are needed, "),
        "{error}"
    );
    assert_eq!(left, ["a.engine"]);
    assert_eq!(bytes.expect("readable"), b"before");
}

/// Says to a child in which folder it is to store engines.
const CHILD: &str = "JETWATCH_TEST_STORE";

/// Says to it that it stores one and waits, not without end.
const ONE: &str = "JETWATCH_TEST_STORE_ONE";

#[test]
fn killed_store_leaves_complete_engine_or_none() {
    if let Some(folder) = std::env::var_os(CHILD) {
        store_without_end(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = EngineCache::new(folder.path());
    let spec = engine_spec();
    let (mut whole, mut torn) = (0, 0);
    for round in 0..24 {
        let test = "engines::atomic_file::tests::killed_store_leaves_complete_engine_or_none";
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, folder.path())
            .envs((round % 4 == 3).then_some((ONE, "1")))
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a child");
        // The child states `#` before each engine and `+` after a single one; it is killed at another moment each time.
        let awaited = if round % 4 == 3 { b'+' } else { b'#' };
        let mut stdout = child.stdout.take().expect("piped");
        let mut byte = [0];
        loop {
            std::io::Read::read_exact(&mut stdout, &mut byte).expect("the child goes on");
            if byte == [awaited] {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(round * 1700));
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        match cache.find(&spec).expect("readable") {
            Lookup::Found(found) => {
                assert!(found.plan.iter().all(|byte| *byte == found.plan[0]));
                whole += 1;
            }
            // A plan of one round next to the manifest of another does not count.
            Lookup::Miss(missing) => {
                let reason = missing.reason.to_string();
                assert!(
                    reason.contains("is damaged")
                        || reason.contains("was built yet")
                        || reason.contains("no manifest"),
                    "{reason}"
                );
                torn += 1;
            }
        }
        let lock = lock(folder.path(), &mut |_| false).expect("writable");
        let lock = lock.expect("a killed process holds no lock");
        remove_leftovers(folder.path(), &lock).expect("writable");
        let partial = names(folder.path())
            .into_iter()
            .filter(|name| name.ends_with(PARTIAL));
        assert_eq!(partial.collect::<Vec<_>>(), Vec::<String>::new());
    }
    assert_eq!(whole + torn, 24);
    assert!(whole >= 6, "{whole} engines were whole");
}

fn store_without_end(folder: &Path) -> ! {
    let cache = EngineCache::new(folder);
    let spec = engine_spec();
    for round in 0_u8.. {
        let round = round % 250;
        let plan = vec![round; 2 << 20];
        let lock = cache
            .lock(&mut |_| true)
            .expect("writable")
            .expect("waited for");
        let manifest = Manifest::new(spec.cache_key_fields(), &plan, 0.0, None);
        print!("#");
        std::io::stdout().flush().expect("the test listens");
        cache.store(manifest, plan, &lock).expect("there is space");
        if std::env::var_os(ONE).is_some() {
            drop(lock);
            print!("+");
            std::io::stdout().flush().expect("the test listens");
            loop {
                std::thread::park();
            }
        }
    }
    unreachable!("it is killed")
}
