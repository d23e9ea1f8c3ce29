#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a large export as nsys would, to measure `jetwatch report` with: ranges on some threads, each with a call and a kernel.

    export.py FILE [--ranges N] [--samples N]

The tables have the columns that nsys documents; with the context switches that nsys writes beside them, which only some tables
of the report read, five million ranges with as many calls and kernels are one gigabyte. Samples have stacks of twelve functions.
"""
import argparse
import os
import sqlite3

arguments = argparse.ArgumentParser()
arguments.add_argument("file")
arguments.add_argument("--ranges", type=int, default=5_000_000)
arguments.add_argument("--samples", type=int, default=0)
a = arguments.parse_args()

if os.path.exists(a.file):
    os.remove(a.file)
db = sqlite3.connect(a.file, isolation_level=None)
db.executescript("""
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE EXPORT_META_DATA (name TEXT NOT NULL, value TEXT);
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER, text TEXT,
    globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, doubleValue REAL,
    uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
    launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
    blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
    localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL);
CREATE TABLE SCHED_EVENTS (start INTEGER NOT NULL, cpu INTEGER NOT NULL, isSchedIn INTEGER NOT NULL, globalTid INTEGER);
BEGIN;
""")
stages = ["source", "batch", "tensor", "infer", "decode", "track", "publish"]
names = stages + ["cudaLaunchKernel_v7000"] + [f"void kernel_{at}<float>(float*)" for at in range(40)]
db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names, 1))
db.executemany("INSERT INTO EXPORT_META_DATA VALUES (?, ?)", [("EXPORT_PRODUCT_VERSION", "2022.4.2.1"), ("EXPORT_SCHEMA_VERSION", "3.0.0")])
process = (1 << 56) | (4321 << 24)
threads = {"source": "source-a", "batch": "detect-0", "tensor": "detect-0", "infer": "detect-0", "decode": "detect-0", "track": "track", "publish": "track"}
number = {name: process | (4321 + at) for at, name in enumerate(sorted(set(threads.values())))}
for name, thread in number.items():
    db.execute("INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid, domainId) VALUES (0, 39, ?, ?, 0)", (name, thread))
db.execute("INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid, domainId) VALUES (0, 75, 'jetwatch', ?, 1)", (process | 4321,))


def rows():
    """Stage after stage of one frame after the other, a microsecond apart."""
    for at in range(a.ranges):
        stage = at % len(stages)
        start = 1_000 + at * 10_000
        yield at, stage, start, start + 9_000 - stage * 100


db.executemany(
    "INSERT INTO NVTX_EVENTS (start, end, eventType, category, globalTid, textId, domainId, uint64Value) VALUES (?, ?, 59, ?, ?, ?, 1, ?)",
    ((start, end, stage + 1, number[threads[stages[stage]]], stage + 1, at // 7) for at, stage, start, end in rows()),
)
db.executemany(
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 8, 0, NULL)",
    ((start + 100, start + 2_100, number[threads[stages[stage]]], at + 1) for at, stage, start, _ in rows()),
)
db.executemany(
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 7, ?, ?, ?, ?, NULL, 1, 0, 32, ?, 1, 1, 128, 1, 1, 0, 0, 0, 0, ?)",
    ((start + 3_000, start + 3_000 + 50 * (at % 97), at + 1, process, 9 + at % 40, 9 + at % 40, 1 + at % 5, at) for at, stage, start, _ in rows()),
)
db.executemany(
    "INSERT INTO SCHED_EVENTS VALUES (?, ?, ?, ?)",
    ((start + at_end * 4_000, at % 6, at_end, number[threads[stages[stage]]]) for at, stage, start, _ in rows() for at_end in (0, 1)),
)
if a.samples:
    db.execute("""
    CREATE TABLE COMPOSITE_EVENTS (id INTEGER NOT NULL PRIMARY KEY, start INTEGER NOT NULL, cpu INTEGER, threadState INTEGER, globalTid INTEGER,
        cpuCycles INTEGER NOT NULL)""")
    db.execute("""
    CREATE TABLE SAMPLING_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER NOT NULL, module INTEGER NOT NULL, kernelMode INTEGER, thumbCode INTEGER,
        unresolved INTEGER, specialEntry INTEGER, originalIP INTEGER, unwindMethod INTEGER, stackDepth INTEGER NOT NULL, PRIMARY KEY (id, stackDepth))""")
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", ((1000 + at, f"function_{at}") for at in range(500)))
    interval = a.ranges * 10_000 // a.samples
    threads_in_turn = list(number.values())
    db.executemany(
        "INSERT INTO COMPOSITE_EVENTS VALUES (?, ?, ?, 1, ?, 1000000)",
        ((at + 1, 1_000 + at * interval, at % 6, threads_in_turn[at % len(threads_in_turn)]) for at in range(a.samples)),
    )
    db.executemany(
        "INSERT INTO SAMPLING_CALLCHAINS VALUES (?, ?, 1000, 0, 0, 0, 0, ?, 1, ?)",
        ((at + 1, 1000 + (at * 7 // (depth + 1)) % 500, at, depth) for at in range(a.samples) for depth in range(12)),
    )
db.execute("COMMIT")
print(a.file, os.path.getsize(a.file) >> 20, "MiB")
