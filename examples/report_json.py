#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Own evaluation of profiles: the share of each stage that each source takes, from the JSON of `jetwatch report`.

    jetwatch report --format json --table nvtx_source_sum FILE... | examples/report_json.py

`jetwatch report` runs no scripts itself; its JSON is the interface. Times are in ns.
"""
import collections
import json
import sys

document = json.load(sys.stdin)
for report in document["reports"]:
    print(report["report"])
    rows = report["tables"].get("nvtx_source_sum")
    if not rows:
        print("  no ranges of sources; ask for them with --table nvtx_source_sum")
        continue
    by_stage = collections.defaultdict(dict)
    for row in rows:
        by_stage[row["Range"]][row["Source"]] = row["Total Time (ns)"]
    for stage, sources in by_stage.items():
        total = sum(sources.values()) or 1
        for source, time in sorted(sources.items(), key=lambda pair: -pair[1]):
            print(f"  {stage:<24} {source:<20} {time / 1e6:10.1f} ms {100 * time / total:6.1f} %")
