// SPDX-License-Identifier: Apache-2.0
//! Exports as nsys wrote them from 2021 to 2025: tables and columns as documented, filled with one small capture.
//!
//! The capture is made up so that every number of the report can be worked out manually: two frames of one source go through
//! one detector that launches kernels, and one kernel is launched by the source's own thread.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ToSql};

/// How the schema changed over the years.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// JetPack 5's first: no metadata table, fewer columns, zero for unknown values.
    Year2021,
    /// `EXPORT_META_DATA`.
    Year2022,
    /// `META_DATA_EXPORT` and `META_DATA_CAPTURE`.
    Year2023,
    /// More columns, and CUDA graphs as a whole.
    Year2025,
}

impl Generation {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Year2021,
        Self::Year2022,
        Self::Year2023,
        Self::Year2025,
    ];

    /// Its name in the report.
    pub fn version(self) -> &'static str {
        match self {
            Self::Year2021 => "nsys before 2022, which names no version",
            Self::Year2022 => "nsys 2022.4.2.1, schema 3.0.0",
            Self::Year2023 => "nsys 2023.4.1.97, schema 3.4.2",
            Self::Year2025 => "nsys 2025.3.1.90, schema 3.21.0",
        }
    }

    fn metadata_table(self) -> &'static str {
        match self {
            Self::Year2021 => "",
            Self::Year2022 => {
                "CREATE TABLE EXPORT_META_DATA (name TEXT NOT NULL, value TEXT);
                 INSERT INTO EXPORT_META_DATA VALUES ('EXPORT_PRODUCT_VERSION', '2022.4.2.1'), ('EXPORT_SCHEMA_VERSION', '3.0.0');"
            }
            Self::Year2023 => {
                "CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
                 CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
                 INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2023.4.1.97'), ('EXPORT_SCHEMA_VERSION', '3.4.2');"
            }
            Self::Year2025 => {
                "CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
                 CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
                 INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.3.1.90'), ('EXPORT_SCHEMA_VERSION', '3.21.0');
                 CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                    graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
                    correlationId INTEGER, globalPid INTEGER);"
            }
        }
    }

    fn tables(self) -> String {
        let more = |columns: &'static str, since: Self| {
            if self as u8 >= since as u8 {
                columns
            } else {
                ""
            }
        };
        let json = more(", jsonTextId INTEGER, jsonText TEXT", Self::Year2022);
        let binary = more(", binaryData TEXT", Self::Year2023);
        let payload = more(
            ", uint32Value INTEGER, int32Value INTEGER, floatValue REAL",
            Self::Year2022,
        );
        let chain = more(", callchainId INTEGER", Self::Year2022);
        let cluster = more(
            ", mangledName INTEGER, launchType INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER",
            Self::Year2022,
        );
        let virtual_address = more(
            ", graphNodeId INTEGER, virtualAddress INTEGER",
            Self::Year2022,
        );
        let nesting = more(", nestingLevel INTEGER", Self::Year2022);
        let name_priority = more(", priority INTEGER", Self::Year2022);
        format!(
            "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
             CREATE TABLE ThreadNames (nameId INTEGER NOT NULL{name_priority}, globalTid INTEGER);
             CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER,
                color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER,
                uint64Value INTEGER, int64Value INTEGER, doubleValue REAL{payload}{json}{binary});
             CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
                globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL{chain});
             CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
                demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, registersPerThread INTEGER NOT NULL,
                gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL,
                blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
                localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL{cluster});
             CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
                copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER, dstDeviceId INTEGER{virtual_address});
             CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL,
                bytes INTEGER NOT NULL, memKind INTEGER);
             CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
                nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL{nesting}, callchainId INTEGER NOT NULL);"
        )
    }
}

/// Machine and process of the capture, as nsys numbers them.
pub const PROCESS: i64 = (1 << 56) | (10 << 24);

/// Threads of the capture.
pub const DETECT: i64 = PROCESS | 11;
/// See [`DETECT`].
pub const SOURCE: i64 = PROCESS | 12;
/// See [`DETECT`].
pub const TRACK: i64 = PROCESS | 13;

/// A thread of a decoder, which has no ranges.
pub const DECODER: i64 = PROCESS | 14;

/// Texts by their ids.
const TEXTS: [&str; 16] = [
    "source",
    "batch",
    "tensor",
    "infer",
    "decode",
    "track",
    "publish",
    "cudaLaunchKernel_v7000",
    "cudaMemcpyAsync_v3020",
    "cudaStreamSynchronize_v3020",
    "void net<int>(float*)",
    "net",
    "resize",
    "write",
    "futex",
    "json-lines",
];

/// The id of a text.
pub fn text(wanted: &str) -> i64 {
    let at = TEXTS.iter().position(|text| *text == wanted);
    at.expect("a known text") as i64 + 1
}

/// Pushed ranges: thread, text, begin, end, payload.
pub const RANGES: [(i64, &str, i64, i64, i64); 13] = [
    (SOURCE, "source", 0, 100, 0),
    (DETECT, "batch", 0, 110, 1),
    (DETECT, "tensor", 112, 118, 1),
    (DETECT, "infer", 120, 220, 1),
    (DETECT, "decode", 220, 230, 1),
    (TRACK, "track", 235, 240, 0),
    (TRACK, "publish", 240, 260, 0),
    (SOURCE, "source", 200, 300, 1),
    (DETECT, "batch", 240, 310, 1),
    (DETECT, "infer", 320, 400, 1),
    (DETECT, "decode", 400, 420, 1),
    (TRACK, "track", 425, 430, 1),
    (TRACK, "publish", 430, 470, 1),
];

/// Writes the capture as the export of a generation.
pub fn write_export(path: &Path, generation: Generation) -> Connection {
    let db = Connection::open(path).expect("a new database");
    let script = format!("{}{}", generation.metadata_table(), generation.tables());
    db.execute_batch(&script).expect("tables");
    for (id, text) in (1_i64..).zip(TEXTS) {
        insert(&db, "INSERT INTO StringIds VALUES (?1, ?2)", &[&id, &text]);
    }
    // Before 2022, zero stood where there was no other thread.
    let same = match generation {
        Generation::Year2021 => "0",
        _ => "NULL",
    };
    let ranges = RANGES.map(|(thread, name, start, end, payload)| {
        let name = text(name);
        format!(",({start}, {end}, 59, {thread}, {same}, NULL, {name}, 1, {payload})")
    });
    let ranges = ranges.concat();
    let [launch, copy, sync, write, futex] = [
        "cudaLaunchKernel_v7000",
        "cudaMemcpyAsync_v3020",
        "cudaStreamSynchronize_v3020",
        "write",
        "futex",
    ]
    .map(text);
    let [net_whole, net, resize] = ["void net<int>(float*)", "net", "resize"].map(text);
    // The domain; threads; pushed ranges; ranges by handles, one around all of the detector's work with its own text, and one that
    // ends on another thread; a mark, which is not a range. The last call of the operating system is of another class, which is not one either.
    db.execute_batch(&format!(
        "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, endGlobalTid, text, textId, domainId, uint64Value) VALUES
             (0, NULL, 75, {DETECT}, {same}, 'jetwatch', NULL, 1, NULL),
             (0, NULL, 39, {DETECT}, {same}, 'detect-0', NULL, 0, NULL),
             (0, NULL, 39, {SOURCE}, {same}, 'source-cam', NULL, 0, NULL),
             (0, NULL, 39, {TRACK}, {same}, 'track', NULL, 0, NULL)
             {ranges},
             (100, 430, 60, {DETECT}, {same}, 'frame', NULL, 0, NULL),
             (0, 470, 60, {DETECT}, {TRACK}, 'whole', NULL, 0, NULL),
             (50, NULL, 34, {DETECT}, {same}, 'mark', NULL, 0, NULL);
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, nameId, returnValue) VALUES
             (125, 130, 0, {DETECT}, 1, {launch}, 0),
             (140, 150, 0, {DETECT}, 2, {copy}, 0),
             (160, 215, 0, {DETECT}, 3, {sync}, 0),
             (205, 210, 0, {SOURCE}, 5, {launch}, 0),
             (330, 335, 0, {DETECT}, 4, {launch}, 0);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName,
             shortName, registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory,
             localMemoryPerThread, localMemoryTotal, gridId) VALUES
             (150, 180, 0, 1, 7, 1, {PROCESS}, {net_whole}, {net}, 32, 4, 1, 1, 128, 1, 1, 0, 0, 0, 0, 1),
             (250, 260, 0, 1, 7, 5, {PROCESS}, {resize}, {resize}, 32, 1, 1, 1, 128, 1, 1, 0, 0, 0, 0, 5),
             (340, 390, 0, 1, 7, 4, {PROCESS}, {net_whole}, {net}, 32, 4, 1, 1, 128, 1, 1, 0, 0, 0, 0, 4);
         INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes, copyKind,
             srcKind, dstKind) VALUES (180, 200, 0, 1, 7, 2, {PROCESS}, 4096, 2, 2, 0);
         INSERT INTO OSRT_API (start, end, eventClass, globalTid, nameId, returnValue, callchainId) VALUES
             (241, 251, 27, {TRACK}, {write}, 0, 0),
             (432, 462, 27, {TRACK}, {write}, 0, 0),
             (5, 105, 27, {DETECT}, {futex}, 0, 0),
             (0, 470, 28, {DETECT}, {futex}, 0, 0);"
    ))
    .expect("rows");
    db
}

/// Adds what nsys records below the stages: scheduling of threads, samples of call stacks, metrics of a GPU, and the category of a
/// source.
pub fn add_low_level(db: &Connection) {
    db.execute_batch(
        "CREATE TABLE SCHED_EVENTS (start INTEGER NOT NULL, cpu INTEGER NOT NULL, isSchedIn INTEGER NOT NULL, globalTid INTEGER);
         CREATE TABLE COMPOSITE_EVENTS (id INTEGER NOT NULL PRIMARY KEY, start INTEGER NOT NULL, cpu INTEGER, threadState INTEGER,
            globalTid INTEGER, cpuCycles INTEGER NOT NULL);
         CREATE TABLE SAMPLING_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER NOT NULL, module INTEGER NOT NULL, kernelMode INTEGER,
            thumbCode INTEGER, unresolved INTEGER, specialEntry INTEGER, originalIP INTEGER, unwindMethod INTEGER, stackDepth INTEGER NOT NULL,
            PRIMARY KEY (id, stackDepth));
         CREATE TABLE GPU_METRICS (timestamp INTEGER NOT NULL, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL, value INTEGER NOT NULL);
         CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT NOT NULL,
            metricId INTEGER NOT NULL, metricName TEXT NOT NULL);
         INSERT INTO StringIds VALUES (100, 'av:h264:df0'), (101, 'conv'), (102, 'memcpy'), (103, '/opt/libonnxruntime.so'),
            (104, '/usr/lib/libc.so.6'), (105, 'main_loop'), (106, '/usr/bin/jetwatch'), (107, '0x7f00');
         INSERT INTO TARGET_INFO_GPU_METRICS VALUES (256, 1, 'GPU', 5, 'SMs Active [Throughput %]'), (256, 1, 'GPU', 6, 'DRAM Read [Throughput %]');
         INSERT INTO GPU_METRICS VALUES (10, 256, 5, 10), (10, 256, 6, 7), (20, 256, 5, 30);",
    )
    .expect("tables");
    insert(
        db,
        "INSERT INTO ThreadNames (nameId, globalTid) VALUES (100, ?1)",
        &[&DECODER],
    );
    for (start, cpu, is_in, thread) in [
        (0, 1, 1, SOURCE),
        (100, 1, 0, SOURCE),
        (100, 0, 1, DETECT),
        (100, 1, 1, DECODER),
        (200, 1, 0, DECODER),
        (200, 1, 1, SOURCE),
        (300, 1, 0, SOURCE),
        (300, 0, 0, DETECT),
        (300, 0, 1, TRACK),
        (400, 0, 0, TRACK),
        (400, 1, 1, TRACK),
        (500, 1, 0, TRACK),
    ] {
        let row: &[&dyn ToSql] = &[&start, &cpu, &is_in, &thread];
        insert(db, "INSERT INTO SCHED_EVENTS VALUES (?1, ?2, ?3, ?4)", row);
    }
    // Of each sample its thread, its time, and its stack with the function that ran first.
    let (conv, memcpy, main_loop, unknown) =
        ((101, 103, 0), (102, 104, 0), (105, 106, 0), (107, 104, 1));
    type Frames<'a> = &'a [(i64, i64, i64)];
    let samples: [(i64, i64, Frames<'_>); 4] = [
        (DETECT, 110, &[conv, main_loop]),
        (DETECT, 130, &[memcpy, conv, main_loop]),
        (DETECT, 150, &[conv, conv, main_loop]),
        (TRACK, 310, &[unknown, main_loop]),
    ];
    for (id, (thread, start, stack)) in (1_i64..).zip(samples) {
        let sample = "INSERT INTO COMPOSITE_EVENTS VALUES (?1, ?2, 0, 1, ?3, 1000)";
        insert(db, sample, &[&id, &start, &thread]);
        for (depth, (symbol, module, unresolved)) in (0_i64..).zip(stack) {
            let row: &[&dyn ToSql] = &[&id, symbol, module, unresolved, &depth];
            let frame = "INSERT INTO SAMPLING_CALLCHAINS (id, symbol, module, unresolved, stackDepth) VALUES (?1, ?2, ?3, ?4, ?5)";
            insert(db, frame, row);
        }
    }
    insert(
        db,
        "INSERT INTO NVTX_EVENTS (start, eventType, category, text, globalTid, domainId) VALUES (0, 33, 77, 'source:cam', ?1, 1)",
        &[&DETECT],
    );
    insert(
        db,
        "UPDATE NVTX_EVENTS SET category = 77 WHERE textId = ?1",
        &[&text("source")],
    );
}

/// Makes milliseconds of a capture's nanoseconds.
pub fn slow_down(db: &Connection) {
    for table in [
        "NVTX_EVENTS",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "OSRT_API",
    ] {
        let change = format!("UPDATE {table} SET start = start * 1000000, end = end * 1000000");
        db.execute_batch(&change).expect("changed");
    }
}

/// The data of a page that `jetwatch report --html` wrote.
pub fn page_data(page: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(page).expect("a page");
    let (_, rest) = text
        .split_once("type=\"application/json\">")
        .expect("the data");
    let (data, _) = rest.split_once("</script>").expect("its end");
    serde_json::from_str(data).expect("JSON")
}

fn insert(db: &Connection, query: &str, row: &[&dyn ToSql]) {
    db.execute(query, row).expect("a row");
}

/// A path below a folder with the capture of a generation.
pub fn export_file(folder: &Path, generation: Generation) -> PathBuf {
    let path = folder.join(format!("{generation:?}.sqlite"));
    write_export(&path, generation);
    path
}
