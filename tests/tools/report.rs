// SPDX-License-Identifier: Apache-2.0
//! `jetwatch report`: the binary on exports and benchmarks that the tests write, with numbers that were calculated manually.

use crate::support;
use crate::support::nsys_export;

use std::fs;
use std::path::PathBuf;

use nsys_export::{Generation, export_file, page_data, write_export};
use serde_json::{Value, json};
use support::daemon::{failure, stderr, success};
use support::report::{csv, report};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Each table with its expected contents for the synthetic capture, in every generation of the schema.
const EXPECTED: &[(&str, &str)] = &[
    (
        "nvtx_sum",
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range
32.1,470,1,470.0,470.0,470,470,0.0,StartEnd,whole
22.5,330,1,330.0,330.0,330,330,0.0,StartEnd,frame
13.6,200,2,100.0,100.0,100,100,0.0,PushPop,jetwatch:source
12.3,180,2,90.0,90.0,70,110,28.3,PushPop,jetwatch:batch
12.3,180,2,90.0,90.0,80,100,14.1,PushPop,jetwatch:infer
",
    ),
    (
        "nvtx_startend_sum",
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Range
58.8,470,1,470.0,470.0,470,470,0.0,whole
41.3,330,1,330.0,330.0,330,330,0.0,frame
",
    ),
    (
        "nvtx_gpu_proj_trace",
        "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,PID,TID,NumGPUOps,Lvl,NumChild,RangeId,ParentId,RangeStack
frame,150,240,100,330,StartEnd,10,11,3,0,2,18,None,:18
jetwatch:infer,150,50,120,100,PushPop,10,11,2,1,0,8,18,:18:8
jetwatch:source,250,10,200,100,PushPop,10,12,1,0,0,12,None,:12
jetwatch:infer,340,50,320,80,PushPop,10,11,1,1,0,14,18,:18:14
",
    ),
    (
        "nvtx_gpu_proj_sum",
        "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Proj Med (ns),Proj Min (ns),Proj Max (ns),Proj StdDev (ns),Total GPU Ops,Avg GPU Ops,Avg Range Lvl,Avg Num Child
frame,StartEnd,240,330,1,240.0,240.0,240,240,0.0,3,3.0,0.0,2.0
jetwatch:infer,PushPop,100,180,2,50.0,50.0,50,50,0.0,3,1.5,1.0,0.0
jetwatch:source,PushPop,10,100,1,10.0,10.0,10,10,0.0,1,1.0,0.0,0.0
",
    ),
    (
        "nvtx_pace",
        "Range,Thread,Instances,Pace Avg (ns),Pace Med (ns),Pace Min (ns),Pace Max (ns),Pace StdDev (ns),Gap Avg (ns),Gap Max (ns)
jetwatch:source,source-cam,2,200.0,200.0,200,200,0.0,100.0,100
jetwatch:batch,detect-0,2,240.0,240.0,240,240,0.0,130.0,130
jetwatch:infer,detect-0,2,200.0,200.0,200,200,0.0,100.0,100
jetwatch:decode,detect-0,2,180.0,180.0,180,180,0.0,170.0,170
jetwatch:track,track,2,190.0,190.0,190,190,0.0,185.0,185
jetwatch:publish,track,2,190.0,190.0,190,190,0.0,170.0,170
",
    ),
    (
        "cuda_api_sum",
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
68.8,55,1,55.0,55.0,55,55,0.0,cudaStreamSynchronize
18.8,15,3,5.0,5.0,5,5,0.0,cudaLaunchKernel
12.5,10,1,10.0,10.0,10,10,0.0,cudaMemcpyAsync
",
    ),
    (
        "cuda_gpu_kern_sum",
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
88.9,80,2,40.0,40.0,30,50,14.1,void net<int>(float*)
11.1,10,1,10.0,10.0,10,10,0.0,resize
",
    ),
    (
        "cuda_gpu_kern_gb_sum",
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name
88.9,80,2,40.0,40.0,30,50,14.1,   4    1    1, 128    1    1,void net<int>(float*)
11.1,10,1,10.0,10.0,10,10,0.0,   1    1    1, 128    1    1,resize
",
    ),
    (
        "cuda_gpu_mem_time_sum",
        "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation
100.0,20,1,20.0,20.0,20,20,0.0,[CUDA memcpy DtoH]
",
    ),
    (
        "cuda_gpu_mem_size_sum",
        "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation
0.004,1,0.004,0.004,0.004,0.004,0.000,[CUDA memcpy DtoH]
",
    ),
    (
        "cuda_api_sync",
        "Duration (ns),Start (ns),PID,TID,API Name
55,160,10,11,cudaStreamSynchronize_v3020
",
    ),
    (
        "cuda_memcpy_async",
        "Duration (ns),Start (ns),Src Kind,Dst Kind,Bytes (MB),PID,Device ID,Context ID,Stream ID,API Name
20,180,Device,Pageable,0.004,10,0,1,7,cudaMemcpyAsync_v3020
",
    ),
    (
        "cuda_memcpy_sync",
        "Duration (ns),Start (ns),Src Kind,Dst Kind,Bytes (MB),PID,Device ID,Context ID,Stream ID,API Name
",
    ),
    (
        "gpu_gaps",
        "Row#,Duration (ns),Start (ns),PID,Device ID
1,80,260,10,0
2,50,200,10,0
",
    ),
    (
        "osrt_sum",
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
71.4,100,1,100.0,100.0,100,100,0.0,futex
28.6,40,2,20.0,20.0,10,30,14.1,write
",
    ),
    (
        "osrt_waits",
        "Thread,Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
detect-0,21.3,100,1,100.0,100.0,100,100,0.0,futex
track,8.5,40,2,20.0,20.0,10,30,14.1,write
",
    ),
    (
        "stages",
        "Stage,Threads,Instances,Total Time (ns),Share of Threads (%),Avg (ns),Stay Avg (ns),GPU Time (ns),Idle Before (ns),Waits For,Critical Path (%),Waiting on Path (%)
input,1,1,100,21.3,100.0,None,0,100,the next image,21.3,0.0
source,1,2,200,42.6,100.0,None,10,100,nothing: it is the limit,42.6,0.0
batch,1,2,180,38.3,90.0,None,0,180,source,2.1,0.0
tensor,1,1,6,1.3,6.0,None,0,2,batch,0.0,0.0
infer,1,2,180,38.3,90.0,None,100,12,batch,17.0,2.1
decode,1,2,30,6.4,15.0,None,0,0,batch,4.3,0.0
track,1,2,10,2.1,5.0,None,0,400,batch,1.1,1.1
publish,1,2,60,12.8,30.0,None,0,0,batch,8.5,0.0
",
    ),
];

#[test]
fn every_nsys_schema_gives_hand_computed_numbers() {
    let folder = folder();
    for generation in Generation::ALL {
        let file = export_file(folder.path(), generation);
        for (table, expected) in EXPECTED {
            let found = csv(table, &file);
            // The sum of all ranges goes on with those that are short.
            assert!(
                found.starts_with(expected)
                    && (*table == "nvtx_sum" || found.len() == expected.len()),
                "{generation:?} {table}:\n{found}"
            );
        }
        let whole = success(&report(&[], &[&file]));
        assert!(whole.contains(generation.version()), "{whole}");
    }
}

#[test]
fn utilization_has_thirty_intervals() {
    let folder = folder();
    let file = export_file(folder.path(), Generation::Year2022);
    let found = csv("gpu_time_util", &file);
    let lines: Vec<&str> = found.lines().collect();
    // From 150 to 390, each part is 8 ns; the first gap begins at 200, inside of the seventh.
    assert_eq!(lines.len(), 31);
    assert_eq!(lines[1], "1,100.0,8,150,10,0");
    assert_eq!(lines[7], "7,25.0,8,198,10,0");
    assert_eq!(lines[9], "9,0.0,8,214,10,0");
}

#[test]
fn verdict_includes_advice() {
    let folder = folder();
    let file = export_file(folder.path(), Generation::Year2023);
    let found = success(&report(&[], &[&file]));
    assert_has!(found =>
        "scaling ran on the GPU: it takes time from the network",
        "9 % of the GPU's time went into kernels that no detector launched, most of it resize from source-cam",
        "asynchronous copies block: their memory is pageable", "1 copies, 4 % of the time");
}

#[test]
fn report_is_limited_to_time_window() {
    let folder = folder();
    let file = export_file(folder.path(), Generation::Year2025);
    let sums = |arguments: &[&str]| {
        let arguments = [
            &["--format", "csv", "--table", "nvtx_pushpop_sum"],
            arguments,
        ]
        .concat();
        let text = success(&report(&arguments, &[&file]));
        let lines = text.lines().skip(1).map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{} {}", cells[8], cells[2])
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines.join(", ")
    };
    // Overlapping ranges count: the publish that ends at 260 does not overlap, the source that runs until 300 does.
    let late = "jetwatch:batch 1, jetwatch:decode 1, jetwatch:infer 1, jetwatch:publish 1, jetwatch:source 1, jetwatch:track 1";
    assert_eq!(sums(&["--from", "261ns"]), late);
    let second_infer = "jetwatch:infer 1";
    assert_eq!(sums(&["--from", "321ns", "--until", "399ns"]), second_infer);
    // The second: jetwatch counts from 1, `nsys recipe --filter-nvtx` from 0, with `*` for all domains.
    for second in ["jetwatch:decode#2", "decode@jetwatch/1", "decode@*/1"] {
        let found = sums(&["--within", second]);
        assert_eq!(found, "jetwatch:decode 1, jetwatch:infer 1", "{second}");
    }
    assert_eq!(sums(&["--within", "tensor@jetwatch"]), "jetwatch:tensor 1");

    let error = failure(&report(&["--within", "jetwatch:infer#9"], &[&file]));
    assert_has!(error => "has no range jetwatch:infer#9; its ranges: ", "jetwatch:infer (2)");
    let error = failure(&report(&["--from", "9s"], &[&file]));
    assert_has!(error => "widen --from, --until or --within");
}

#[test]
fn several_reports_are_compared() {
    let folder = folder();
    let [one, other] = ["one.sqlite", "other.sqlite"].map(|name| folder.path().join(name));
    write_export(&one, Generation::Year2022);
    let db = write_export(&other, Generation::Year2025);
    // The other is faster in infer, with batches of four.
    let infer = nsys_export::text("infer");
    db.execute(
        "UPDATE NVTX_EVENTS SET end = start + 60, uint64Value = 4 WHERE textId = ?1",
        [infer],
    )
    .expect("changed");
    drop(db);
    let output = report(&["--format", "json"], &[&one, &other]);
    let warned = stderr(&output);
    assert_has!(warned => "different workloads", "batches: up to 1 frames in one.sqlite, up to 4 frames in other.sqlite");
    let document: Value = serde_json::from_str(&success(&output)).expect("JSON");
    let wanted = json!("nsys 2025.3.1.90, schema 3.21.0");
    assert_eq!(document["reports"][1]["version"], wanted);
    let ranges = document["compared"]["ranges"].as_array().expect("a list");
    let row = ranges
        .iter()
        .find(|row| row["Range"] == "jetwatch:infer")
        .expect("infer");
    assert_eq!(row["CPU one.sqlite (ns)"], json!(90.0));
    assert_eq!(row["CPU other.sqlite (ns)"], json!(60.0));
    assert_eq!(row["GPU one.sqlite (ns)"], json!(50.0));
    // Batches of one frame and of four are not compared.
    assert_eq!(row["Fastest"], Value::Null);
    let wanted = json!("whole");
    assert_eq!(document["compared"]["reports"][0]["Most Time"], wanted);

    let error = failure(&report(&["--diff"], &[&one]));
    assert_has!(error => "--diff takes two files, the earlier and the later one; found 1");
}

#[test]
fn html_page_is_self_contained() {
    let folder = folder();
    let file = folder.path().join("odd.sqlite");
    let db = write_export(&file, Generation::Year2023);
    db.execute(
        "UPDATE NVTX_EVENTS SET text = '</script><script>alert(1)' WHERE text = 'frame'",
        [],
    )
    .expect("changed");
    drop(db);
    let page = folder.path().join("page.html");
    let html = page.to_str().expect("a plain path");
    success(&report(&["--html", html], &[&file]));
    let text = fs::read_to_string(&page).expect("written");
    assert!(
        !text.contains("</script><script>alert"),
        "a name ends the script"
    );
    // No address of a network, besides the name of SVG's own.
    let addresses: Vec<&str> = text
        .split("http")
        .skip(1)
        .map(|rest| &rest[..24.min(rest.len())])
        .collect();
    assert!(
        addresses
            .iter()
            .all(|rest| rest.starts_with("://www.w3.org/2000/svg")),
        "{addresses:?}"
    );
    let data = page_data(&page);
    let plot = &data["reports"][0]["plot"];
    assert_eq!(plot["length"], json!(470));
    let found = plot["gpus"][0]["shares"].as_array().map(Vec::len);
    assert_eq!(found, Some(600));
    let tracks: Vec<&str> = plot["tracks"]
        .as_array()
        .expect("tracks")
        .iter()
        .filter_map(|track| track["title"].as_str())
        .collect();
    let wanted = [
        "detect-0",
        "detect-0 +1",
        "detect-0 on GPU",
        "detect-0 on GPU +1",
        "detect-0 CUDA",
        "detect-0 OS",
        "source-cam",
        "source-cam on GPU",
        "source-cam CUDA",
        "track",
        "track OS",
        "GPU 0 stream 7",
    ];
    assert_eq!(tracks, wanted);
}

#[test]
fn unusual_captures_give_hand_computed_rows() {
    let graph = format!(
        "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; \
         INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, graphId, graphExecId, contextId, streamId, correlationId, globalPid) \
         VALUES (150, 215, 0, 1, 1, 1, 7, 1, {})",
        nsys_export::PROCESS
    );
    let without_process = ["KERNEL", "MEMCPY", "MEMSET"]
        .map(|table| format!("ALTER TABLE CUPTI_ACTIVITY_KIND_{table} DROP COLUMN globalPid;"));
    let (trace, projected) = *EXPECTED
        .iter()
        .find(|(name, _)| *name == "nvtx_gpu_proj_trace")
        .expect("there");
    for (name, generation, script, table, expected) in [
        (
            "operations match by their correlation where they have no process",
            Generation::Year2021,
            without_process.concat(),
            trace,
            projected,
        ),
        (
            "a graph is one operation",
            Generation::Year2025,
            graph,
            trace,
            "\njetwatch:infer,150,65,120,100,PushPop,10,11,2,1,0,8,18,:18:8\n",
        ),
        (
            "an open range lasts until the last event",
            Generation::Year2022,
            "UPDATE NVTX_EVENTS SET end = NULL WHERE start = 430".to_owned(),
            "nvtx_pushpop_sum",
            "60,2,30.0,30.0,20,40,14.1,jetwatch:publish",
        ),
    ] {
        let folder = folder();
        let file = folder.path().join("unusual.sqlite");
        let db = write_export(&file, generation);
        db.execute_batch(&script).expect("changed");
        drop(db);
        let found = csv(table, &file);
        assert!(found.contains(expected), "{name}: {found}");
    }
}

#[test]
fn invalid_report_files_are_rejected_with_advice() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let make = |name: &str, bytes: &[u8]| -> PathBuf {
        fs::write(path(name), bytes).expect("written");
        path(name)
    };
    let change = |name: &str, script: &str| -> PathBuf {
        let db = write_export(&path(name), Generation::Year2022);
        db.execute_batch(script).expect("changed");
        path(name)
    };
    let whole = fs::read(export_file(folder.path(), Generation::Year2021)).expect("read");
    #[rustfmt::skip]
    let cases: Vec<(PathBuf, &str)> = vec![
        (path("missing.sqlite"), "cannot read"),
        (make("empty.sqlite", b""), "is empty: the profile was interrupted"),
        (make("text.sqlite", b"not a database at all"), "is not a SQLite database"),
        (make("picture.png", b"\x89PNG\r\n"), "is of an unknown kind"),
        (make("cut.sqlite", &whole[..whole.len() / 2]), "the export is truncated or damaged: export it again"),
        (make("old.qdrep", b"qdrep"), "nsys export --type sqlite --force-overwrite true -o"),
        (make("some.nsys-rep", b"report"), "needs nsys for its export, which was not found"),
        (
            change("nvtx.sqlite", "DROP TABLE NVTX_EVENTS"),
            "has no table NVTX_EVENTS, so there is no NVTX range in it; profile with --trace=nvtx",
        ),
        (change("none.sqlite", "DELETE FROM NVTX_EVENTS"), "it has no NVTX ranges in this part; profile with --trace=nvtx"),
        (change("texts.sqlite", "DROP TABLE StringIds"), "has no table StringIds"),
        (
            change(
                "column.sqlite",
                "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN demangledName TO name",
            ),
            "table CUPTI_ACTIVITY_KIND_KERNEL has no column demangledName; this schema (nsys 2022.4.2.1, schema 3.0.0) is unknown",
        ),
        (
            change(
                "value.sqlite",
                "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 'soon' WHERE correlationId = 2",
            ),
            "table CUPTI_ACTIVITY_KIND_RUNTIME, row 2: start is Text",
        ),
        (make("cut.json", b"{\"data\": {"), "it is not complete JSON"),
    ];
    for (file, expected) in cases {
        let error = failure(&report(&["--nsys", "/nowhere/nsys"], &[&file]));
        assert!(error.contains(expected), "{}: {error}", file.display());
    }
    let error = failure(&report(
        &["--table", "osrt_sum"],
        &[&change("osrt.sqlite", "DROP TABLE OSRT_API")],
    ));
    assert_has!(error => "has no table OSRT_API", "--trace=osrt");
    // Tables that need no ranges work for a capture without them.
    let without = success(&report(
        &["--table", "cuda_api_sum", "--format", "csv"],
        &[&path("nvtx.sqlite")],
    ));
    assert!(without.contains("cudaStreamSynchronize"), "{without}");
}

#[test]
fn failed_nsys_export_reports_nsys_output() {
    let folder = folder();
    // A double of nsys that fails like the real one with a truncated report.
    let nsys = folder.path().join("nsys");
    fs::write(&nsys, "#!/bin/sh\necho 'Exporting 10 events: [50%   ]'\necho 'Importer error status: file is damaged' >&2\nexit 1\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&nsys, mode).expect("made a program");
    let file = folder.path().join("cut.nsys-rep");
    fs::write(&file, b"half a report").expect("written");
    let program = nsys.to_str().expect("a plain path");
    let error = failure(&report(&["--nsys", program], &[&file]));
    assert_has!(error => "nsys could not export", "Importer error status: file is damaged");
}
