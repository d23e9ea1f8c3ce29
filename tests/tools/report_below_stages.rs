// SPDX-License-Identifier: Apache-2.0
//! `jetwatch report`: tables below the stages, with numbers that were calculated manually.

use crate::support;
use crate::support::nsys_export;

use std::path::{Path, PathBuf};

use nsys_export::{Generation, add_low_level, page_data, write_export};
use serde_json::Value;
use support::daemon::{failure, success};
use support::report::{csv, report};

/// A capture with everything.
fn capture(folder: &Path) -> PathBuf {
    let file = folder.join("all.sqlite");
    add_low_level(&write_export(&file, Generation::Year2022));
    file
}

const EXPECTED: &[(&str, &str)] = &[
    (
        "cpu_cores",
        "Core,Busy (%),Busy Time (ns),Idle Time (ns),Switches,Most Time,Its Share (%)
0,60.0,300,200,2,detect-0,40.0
1,80.0,400,100,4,source-cam,40.0
",
    ),
    (
        "cpu_threads",
        "Thread,Running (%),Running Time (ns),Off-CPU Time (ns),Longest Off-CPU (ns),Runs,Run Avg (ns),Core Changes,TID
source-cam,40.0,200,100,100,2,100.0,0,12
detect-0,40.0,200,0,0,1,200.0,0,11
track,40.0,200,0,0,2,100.0,1,13
av:h264:df0,20.0,100,0,0,1,100.0,0,14
",
    ),
    (
        "cpu_functions",
        "Threads,Self (%),Self Time (ns),Total (%),Total Time (ns),Samples,Function,Module
detect-*,66.7,40.0,100.0,60.0,2,conv,libonnxruntime.so
detect-*,33.3,20.0,33.3,20.0,1,memcpy,libc.so.6
track,100.0,20.0,100.0,20.0,1,[no symbol],libc.so.6
detect-*,0.0,0.0,100.0,60.0,0,main_loop,jetwatch
track,0.0,0.0,100.0,20.0,0,main_loop,jetwatch
",
    ),
    (
        "gpu_metric_util_sum",
        "GPU,Metric,Avg,Min,Max,Samples
0,SMs Active [Throughput %],20.0,10,30,2
0,DRAM Read [Throughput %],7.0,7,7,1
",
    ),
    (
        "gpu_metric_util",
        "GPU,Metric,Start (ns),Duration (ns),Avg,Min,Max,Samples
0,SMs Active [Throughput %],10,1,10.0,10,10,1
0,SMs Active [Throughput %],20,1,30.0,30,30,1
0,DRAM Read [Throughput %],10,1,7.0,7,7,1
",
    ),
    (
        "cuda_gpu_kern_hist",
        "Name,From (ns),To (ns),Instances,Share (%)
void net<int>(float*),30,32,1,50.0
void net<int>(float*),48,50,1,50.0
resize,10,10,1,100.0
",
    ),
    (
        "cuda_gpu_kern_pace",
        "Name,PID,Device ID,Instances,Pace Avg (ns),Pace Med (ns),Pace Min (ns),Pace Max (ns),Pace StdDev (ns),Gap Avg (ns),Gap Max (ns)
void net<int>(float*),10,0,2,190.0,190.0,190,190,0.0,160.0,160
",
    ),
    (
        "nvtx_gpu_proj_pace",
        "Range,Thread,Instances,Pace Avg (ns),Pace Med (ns),Pace Min (ns),Pace Max (ns),Pace StdDev (ns),Gap Avg (ns),Gap Max (ns)
jetwatch:infer,detect-0,2,190.0,190.0,190,190,0.0,140.0,140
",
    ),
    (
        "critical_path_calls",
        "Critical Path (%),Total Time (ns),Num Calls,Avg (ns),Thread,Kind,Name
62.8,295,None,None,source-cam,-,(no traced call)
24.5,115,None,None,detect-0,-,(no traced call)
6.4,30,1,30.0,track,OS,write
4.3,20,None,None,track,-,(no traced call)
1.1,5,1,5.0,source-cam,CUDA,cudaLaunchKernel
1.1,5,1,5.0,detect-0,CUDA,cudaLaunchKernel
",
    ),
    (
        "ncu_command",
        "Time (%),Avg (ns),Instances,Kernel,Command
88.9,40.0,2,net,ncu --set full --kernel-name 'regex:(^|::)net$' --launch-skip 1 --launch-count 1 --export kernel jetwatch run --config FILE
",
    ),
    (
        "nvtx_source_sum",
        "Source,Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Range
cam,100.0,200,2,100.0,100.0,100,100,0.0,jetwatch:source
",
    ),
];

#[test]
fn tables_below_the_stages_have_hand_computed_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = capture(folder.path());
    for (table, expected) in EXPECTED {
        assert_eq!(csv(table, &file), *expected, "{table}");
    }
}

#[test]
fn absent_kinds_of_events_are_named_with_their_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("few.sqlite");
    write_export(&file, Generation::Year2023);
    for (table, needed, remedy) in [
        ("cpu_cores", "SCHED_EVENTS", "--cpuctxsw=process-tree"),
        ("cpu_functions", "COMPOSITE_EVENTS", "--sample=process-tree"),
        (
            "gpu_metric_util_sum",
            "GPU_METRICS",
            "--gpu-metrics-device=all",
        ),
    ] {
        let error = failure(&report(&["--table", table], &[&file]));
        assert!(error.contains(needed) && error.contains(remedy), "{error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
    // `all` prints what there is.
    let text = csv("all", &file);
    assert!(
        !text.contains("cpu_cores") && text.contains("cuda_gpu_kern_hist"),
        "{text}"
    );
}

#[test]
fn events_out_of_order_give_the_same_cores() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = capture(folder.path());
    let sorted = csv("cpu_cores", &file);
    let db = rusqlite::Connection::open(&file).expect("a database");
    db.execute_batch(
        "CREATE TABLE Turned AS SELECT * FROM SCHED_EVENTS ORDER BY start DESC, isSchedIn DESC;
         DROP TABLE SCHED_EVENTS; ALTER TABLE Turned RENAME TO SCHED_EVENTS;",
    )
    .expect("changed");
    drop(db);
    let found = csv("cpu_cores", &file);
    let busy = |text: &str| -> Vec<String> {
        let cells = text.lines().map(|line| line.split(',').take(3).collect());
        cells.map(|cells: Vec<&str>| cells.join(",")).collect()
    };
    assert_eq!(busy(&found), busy(&sorted));
}

/// The data of the page of a file.
fn data_of_page(folder: &Path, file: &Path) -> Value {
    let page = folder.join("page.html");
    let html = page.to_str().expect("a plain path");
    success(&report(&["--html", html], &[file]));
    page_data(&page)
}

#[test]
fn timeline_has_calls_projected_ranges_and_cores() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = capture(folder.path());
    let data = data_of_page(folder.path(), &file);
    let plot = &data["reports"][0]["plot"];
    let tracks = plot["tracks"].as_array().expect("rows");
    let found: Vec<(String, String)> = tracks
        .iter()
        .map(|track| {
            let text = |key: &str| track[key].as_str().expect("a text").to_owned();
            (text("title"), text("kind"))
        })
        .collect();
    for (title, kind) in [
        ("detect-0", "ranges"),
        ("detect-0 on GPU", "projected"),
        ("detect-0 CUDA", "cuda_calls"),
        ("detect-0 OS", "os_calls"),
        ("GPU 0 stream 7", "gpu"),
        ("core 0", "cores"),
        ("core 1", "cores"),
    ] {
        let wanted = (title.to_owned(), kind.to_owned());
        assert!(found.contains(&wanted), "{wanted:?} is not in {found:?}");
    }
    let core = tracks.last().expect("a core");
    let names: Vec<&str> = core["blocks"]
        .as_array()
        .expect("blocks")
        .iter()
        .map(|block| {
            let name = block[2].as_u64().expect("a number") as usize;
            plot["names"][name].as_str().expect("a name")
        })
        .collect();
    assert_eq!(names, ["source-cam", "av:h264:df0", "source-cam", "track"]);
    assert_eq!(data["reports"][0]["not_measured"], serde_json::json!([]));
    let names = plot["names"].as_array().expect("names");
    assert!(names.contains(&"jetwatch:source (cam)".into()), "{names:?}");
}

#[test]
fn page_states_what_was_not_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cpu.sqlite");
    let db = write_export(&file, Generation::Year2022);
    db.execute_batch(
        "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY; DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET;",
    )
    .expect("changed");
    drop(db);
    let data = data_of_page(folder.path(), &file);
    let missing = data["reports"][0]["not_measured"].to_string();
    assert_has!(missing => "GPU: profile with --trace=cuda", "cpu_cores: no scheduling of threads was traced");
    let stages = csv("stages", &file);
    let mut lines = stages.lines();
    let heads: Vec<&str> = lines.next().expect("heads").split(',').collect();
    let gpu = heads
        .iter()
        .position(|head| *head == "GPU Time (ns)")
        .expect("a column");
    assert!(
        lines.all(|line| line.split(',').nth(gpu) == Some("None")),
        "{stages}"
    );
}
