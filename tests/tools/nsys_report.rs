// SPDX-License-Identifier: Apache-2.0
//! `jetwatch report` against nsys itself: profiles of the real daemon, and `nsys stats` and `nsys analyze` of the same files.
//!
//! For `make nsys-test`, which installs nsys and asks for these tests; elsewhere they are skipped with a message. This machine has no GPU, so GPU rows are
//! inserted into a full export of a real profile, and nsys's own scripts project them.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rusqlite::{Connection, params};
use serde_json::Value;
use support::daemon::{Setup, failure, success};

/// Frames of each of the two sources.
const FRAMES: u64 = 60;

fn is_missing(program: &str) -> bool {
    if std::env::var_os("JETWATCH_TEST_NSYS").is_none() {
        eprintln!("skipped: `make nsys-test` asks for it");
        return true;
    }
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let missing = !found.is_ok_and(|status| status.success());
    if missing {
        eprintln!("skipped: {program} is not installed");
    }
    missing
}

fn run(command: &mut Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}\n{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// A profile of the daemon with two sources that end by themselves.
fn profile() -> Setup {
    let mut yaml = "device: test\nsources:\n".to_owned();
    for seed in [1, 2] {
        yaml.push_str(&format!(
            "  - name: cam{seed}\n    uri: synthetic://traffic?seed={seed}&objects=3&width=160&height=120&realtime=false&frames={FRAMES}\n"
        ));
    }
    yaml.push_str(
        "detector:\n  backend: scripted\n  workers: 2\npublish:\n  mqtt: off\n  detections: true\n  json_lines:\n    path: events.jsonl\n",
    );
    let setup = Setup::new(&yaml);
    // Sampling spins for ever in machines without performance counters.
    run(Command::new("nsys")
        .args([
            "profile",
            "--trace=nvtx,osrt",
            "--sample=none",
            "--cpuctxsw=none",
            "--force-overwrite=true",
            "-o",
        ])
        .arg(setup.path("real"))
        .arg(env!("CARGO_BIN_EXE_jetwatch"))
        .args(["run", "--config"])
        .arg(&setup.config));
    setup
}

fn report(table: &str, file: &Path) -> String {
    let arguments = ["--format", "csv", "--rows", "0", "--table", table];
    success(&support::report::report(&arguments, &[file]))
}

/// Lines of CSV after the messages of nsys.
fn nsys(command: &str, option: &str, script: &str, file: &Path) -> Vec<String> {
    let text = run(Command::new("nsys")
        .args([command, option, script, "--format", "csv"])
        .arg(file));
    let lines = text.lines().map(str::trim_end);
    lines
        .filter(|line| line.contains(',') && !line.starts_with("Processing"))
        .map(ToOwned::to_owned)
        .collect()
}

/// Both have the same contents, including headings; the order of equal rows is undefined.
fn assert_equal(table: &str, ours: &str, theirs: &[String]) {
    let ours: Vec<&str> = ours.lines().collect();
    assert_eq!(Some(ours[0]), theirs.first().map(String::as_str), "{table}");
    assert!(ours.len() > 1, "{table} is empty");
    let sorted = |lines: Vec<&str>| {
        lines
            .into_iter()
            .map(ToOwned::to_owned)
            .collect::<BTreeSet<String>>()
    };
    let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
    assert_eq!(ours.len(), theirs.len(), "{table}");
    assert_eq!(sorted(ours), sorted(theirs), "{table}");
}

/// The same ranges with the same times. Which range lies in which, nsys looks up in an index that keeps times as 32-bit
/// floating-point numbers: where two ends are closer than those can tell, it may miss a parent, so that a few rows differ.
fn assert_projected(ours: &str, theirs: &[String]) {
    const COLUMNS_OF_TIMES: usize = 9;
    let head = |row: &str| {
        let columns: Vec<&str> = row.split(',').take(COLUMNS_OF_TIMES).collect();
        columns.join(",")
    };
    let heads = ours.lines().map(head).collect::<Vec<_>>().join("\n");
    let their_heads: Vec<String> = theirs.iter().map(|row| head(row)).collect();
    assert_equal("nvtx_gpu_proj_trace", &heads, &their_heads);
    let known: BTreeSet<&str> = theirs.iter().map(String::as_str).collect();
    let differ = ours.lines().filter(|row| !known.contains(row)).count();
    assert!(
        differ * 10 <= theirs.len(),
        "{differ} of {} rows lie elsewhere",
        theirs.len()
    );
}

#[test]
fn a_profile_of_the_daemon_is_counted_as_nsys_does() {
    if is_missing("nsys") {
        return;
    }
    let setup = profile();
    let file = setup.path("real.nsys-rep");
    // An export that is next to the report is of something else: it must not be read.
    fs::write(setup.path("real.sqlite"), b"stale").expect("written");
    let text = success(&support::report::report(&["--format", "json"], &[&file]));
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let ranges = document["reports"][0]["tables"]["nvtx_sum"]
        .as_array()
        .expect("a list");
    let count = |name: &str| {
        let row = ranges.iter().find(|row| row["Range"] == name);
        row.and_then(|row| row["Instances"].as_u64()).unwrap_or(0)
    };
    let frames = 2 * FRAMES;
    for stage in ["source", "infer", "track", "publish"] {
        assert_eq!(count(&format!("jetwatch:{stage}")), frames, "{stage}");
    }
    // Each of the two detectors waits once more, without a frame.
    assert_eq!(count("jetwatch:batch"), frames + 2);
    assert_eq!(fs::read(setup.path("real.sqlite")).expect("read"), b"stale");

    fs::remove_file(setup.path("real.sqlite")).expect("removed");
    let export = setup.path("export.sqlite");
    run(Command::new("nsys")
        .args(["export", "--type", "sqlite", "-o"])
        .arg(&export)
        .arg(&file));
    for (table, script) in [
        ("nvtx_sum", "nvtxsum"),
        ("nvtx_pushpop_sum", "nvtxppsum"),
        ("osrt_sum", "osrtsum"),
    ] {
        assert_equal(
            table,
            &report(table, &export),
            &nsys("stats", "--report", script, &export),
        );
    }

    let whole = fs::read(&file).expect("read");
    let cut = setup.path("cut.nsys-rep");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("written");
    let error = failure(&support::report::report(&[], &[&cut]));
    assert_has!(error => "cut.nsys-rep", "truncated");
}

fn assert_table(table: &str, script: &str, full: &Path) {
    assert_equal(
        table,
        &report(table, full),
        &nsys("stats", "--report", script, full),
    );
}

/// GPU work is counted and projected as by nsys.
fn assert_gpu_tables(full: &Path) {
    for (table, script) in [
        ("nvtx_sum", "nvtxsum"),
        ("cuda_gpu_kern_gb_sum", "gpukernsum"),
        ("cuda_gpu_mem_time_sum", "gpumemtimesum"),
        ("cuda_gpu_mem_size_sum", "gpumemsizesum"),
        ("cuda_api_sum", "cudaapisum"),
    ] {
        assert_table(table, script, full);
    }
    assert_projected(
        &report("nvtx_gpu_proj_trace", full),
        &nsys("stats", "--report", "nvtxgpuproj", full),
    );
}

/// A report that `jetwatch profile` made of the detector on a machine with an NVIDIA GPU: `JETWATCH_TEST_REPORT` names it, with its
/// statistics next to it.
#[test]
fn a_report_from_a_gpu_is_counted_as_nsys_does() {
    let Some(file) = std::env::var_os("JETWATCH_TEST_REPORT").map(PathBuf::from) else {
        eprintln!("skipped: JETWATCH_TEST_REPORT names no report of a machine with a GPU");
        return;
    };
    if is_missing("nsys") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let full = folder.path().join("full.sqlite");
    run(Command::new("nsys")
        .args(["export", "--type", "sqlite", "--lazy=false", "-o"])
        .arg(&full)
        .arg(&file));
    assert_gpu_tables(&full);
    // What the GPU did lies in the ranges of the detector, and each batch was a range.
    let stats = fs::read(file.with_extension("stats.json")).expect("statistics beside it");
    let stats: Value = serde_json::from_slice(&stats).expect("JSON");
    let stage = |name: &str| {
        let mut stages = stats["stages"].as_array().expect("stages").iter();
        let found = stages.find(|stage| stage["stage"] == name);
        found.unwrap_or_else(|| panic!("no {name}"))["count"].clone()
    };
    let projected = report("nvtx_gpu_proj_sum", &full);
    let infer = projected
        .lines()
        .find(|line| line.starts_with("jetwatch:infer,"))
        .expect("the network ran on the GPU");
    let ranges: u64 = infer
        .split(',')
        .nth(4)
        .and_then(|count| count.parse().ok())
        .expect("a number of ranges");
    assert_eq!(stage("infer"), ranges, "{projected}");
    assert!(stage("gpu_network").as_u64() >= Some(ranges - 1), "{stats}");
}

#[test]
fn gpu_rows_are_projected_as_nsys_does() {
    if is_missing("nsys") {
        return;
    }
    let setup = profile();
    let full = setup.path("full.sqlite");
    run(Command::new("nsys")
        .args(["export", "--type", "sqlite", "--lazy=false", "-o"])
        .arg(&full)
        .arg(setup.path("real.nsys-rep")));
    add_gpu_rows(&full);
    assert_gpu_tables(&full);
    assert_table("nvtx_startend_sum", "nvtxsesum", &full);
    for (table, rule) in [
        ("cuda_memcpy_async", "cuda-async-memcpy:rows=100000"),
        ("cuda_api_sync", "cuda-sync-api:rows=100000"),
        ("cuda_memcpy_sync", "cuda-sync-memcpy:rows=100000"),
        ("cuda_memset_sync", "cuda-sync-memset:rows=100000"),
    ] {
        assert_equal(
            table,
            &report(table, &full),
            &nsys("analyze", "--rule", rule, &full),
        );
    }
    draws(&setup, &full);
}

/// For each `infer` a kernel, copies, sets and waits, some of them outside of it; and ranges of other kinds around them.
fn add_gpu_rows(full: &Path) {
    let db = Connection::open(full).expect("an export");
    let infer: i64 = db
        .query_row(
            "SELECT id FROM StringIds WHERE value = 'infer'",
            [],
            |row| row.get(0),
        )
        .expect("infer");
    let mut names: i64 = db
        .query_row("SELECT max(id) FROM StringIds", [], |row| row.get(0))
        .expect("texts");
    let mut text = |value: &str| {
        names += 1;
        db.execute(
            "INSERT INTO StringIds VALUES (?1, ?2)",
            params![names, value],
        )
        .expect("a text");
        names
    };
    let (launch, copy_async, copy, set) = (
        text("cudaLaunchKernel_v7000"),
        text("cudaMemcpyAsync_v3020"),
        text("cudaMemcpy_v3020"),
        text("cudaMemset_v3020"),
    );
    let (wait, device_wait) = (
        text("cudaStreamSynchronize_v3020"),
        text("cudaDeviceSynchronize_v3020"),
    );
    let kernels = [text("void conv<float>(float*, int)"), text("relu")];
    let mut rows = db.prepare("SELECT start, end, globalTid FROM NVTX_EVENTS WHERE eventType = 59 AND textId = ?1 ORDER BY start").expect("a query");
    let ranges: Vec<(i64, i64, i64)> = rows
        .query_map([infer], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .and_then(Iterator::collect)
        .expect("ranges");
    assert_eq!(ranges.len() as u64, 2 * FRAMES);
    db.execute_batch("BEGIN").expect("begun");
    for (number, (start, end, thread)) in (1_i64..).zip(ranges) {
        let step = (end - start) / 8;
        let process = thread & !0x00ff_ffff;
        let calls = [launch, launch, copy_async, copy, set, wait, device_wait];
        let correlation = |at: i64| number * 10 + at;
        for (at, name) in (0_i64..).zip(calls) {
            // The last begins in the range and ends outside of it, so that it is in no projection.
            let (from, until) = (
                start + at * step,
                start + at * step + step - 1 + if at == 6 { 100 * step } else { 0 },
            );
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, nameId, returnValue) VALUES (?1, ?2, 0, ?3, ?4, ?5, 0)",
                params![from, until, thread, correlation(at), name],
            )
            .expect("a call");
        }
        for at in [0, 1] {
            let from = start + 3_000 + at * 700 + number * 3;
            let kernel = kernels[at as usize];
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName, \
                 registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, \
                 localMemoryTotal, gridId) VALUES (?1, ?2, 0, 1, 7, ?3, ?4, ?5, ?5, 16, ?6, 2, 1, 128, 1, 1, 0, 0, 0, 0, ?3)",
                params![from, from + 400 + number % 13, correlation(at), process, kernel, 1 + number % 3],
            )
            .expect("a kernel");
        }
        for (at, kind) in [(2, 1), (3, 2)] {
            let from = start + 5_000 + at * 200;
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind) \
                 VALUES (?1, ?2, 0, 1, 7, ?3, ?4, ?5, ?6, ?7, 2)",
                params![from, from + 90 + number, correlation(at), process, number * 1_001, kind, number % 2],
            )
            .expect("a copy");
        }
        db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, contextId, streamId, correlationId, globalPid, value, bytes, memKind) \
             VALUES (?1, ?2, 0, 1, 7, ?3, ?4, 0, 64, ?5)",
            params![start + 6_000, start + 6_010 + number, correlation(4), process, number % 3],
        )
        .expect("a set");
        // Around every third one a range by a handle, with a text of its own, in which the pushed one is a child.
        if number % 3 == 0 {
            db.execute(
                "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text, domainId) VALUES (?1, ?2, 60, ?3, 'around', 0)",
                params![start - 1, end + 1, thread],
            )
            .expect("a range");
        }
    }
    db.execute_batch("COMMIT").expect("written");
}

/// The page of that export, as a browser makes it of the script.
fn draws(setup: &Setup, full: &Path) {
    let page = setup.path("page.html");
    let html = page.to_str().expect("a plain path");
    success(&support::report::report(&["--html", html], &[full]));
    if is_missing("chromium") {
        return;
    }
    let text = run(Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            setup.path("browser").display()
        ))
        .arg(format!("file://{}", page.display())));
    for drawn in [
        "<h3>Ranges</h3>",
        "aria-label=\"GPU utilization\"",
        "<canvas",
        "jetwatch:infer",
        "class=\"area\"",
    ] {
        assert!(text.contains(drawn), "{drawn} is not in the page");
    }
}
