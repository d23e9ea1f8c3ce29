#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions a frame by library, from two runs of benches/scripts/instructions/run: `by_library.py SHORT LONG`, paths without endings."""

import json
import os
import re
import sys

# What stands for NVIDIA's engines and libraries, and the software decoder and encoder behind the doubles.
VENDOR = re.compile(r"virtualjetson|nvbufsurface|libcuda|libnvinfer|libnvonnxparser|libav|libsw|libx26|libde265|gstlibav|openh264|libgomp")
CARMEL_HZ = 1.4e9
FRAMES_PER_SECOND = 192


def self_costs(path):
    """Instructions by object, callees left out. The format is that of Valgrind's manual, "Callgrind Format Specification"."""
    names, costs, current, of_call = {}, {}, "", False
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("ob="):
                found = re.match(r"ob=\((\d+)\)(?: (.*))?", line)
                number, name = found[1], found[2]
                if name:
                    names[number] = os.path.basename(name.strip()) or name.strip()
                current = names[number]
            elif line.startswith("cob="):
                found = re.match(r"cob=\((\d+)\)(?: (.*))?", line)
                if found[2]:
                    names[found[1]] = os.path.basename(found[2].strip())
            elif line.startswith("calls="):
                of_call = True
            elif line[:1].isdigit() or line[:1] in "+-*":
                if not of_call:
                    costs[current] = costs.get(current, 0) + int(line.split()[1])
                of_call = False
    return costs


def frames(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["frames"]


def main():
    short, long = sys.argv[1:]
    more = frames(long + ".json") - frames(short + ".json")
    if more <= 0:
        sys.exit("instructions: the longer run has detected no more frames than the shorter")
    before, after = self_costs(short + ".callgrind"), self_costs(long + ".callgrind")
    each = {name: (count - before.get(name, 0)) / more for name, count in after.items()}
    ours = {name: count for name, count in each.items() if not VENDOR.search(name)}
    vendor = sum(each.values()) - sum(ours.values())
    print(f"instructions a frame, over {more} frames (four sources):")
    for name, count in sorted(ours.items(), key=lambda pair: -pair[1])[:12]:
        print(f"  {name:36} {count:12,.0f}")
    total = sum(ours.values())
    share = total * FRAMES_PER_SECOND / CARMEL_HZ
    print(f"  {'all but the doubles':36} {total:12,.0f}")
    print(f"  {'the doubles and their decoder':36} {vendor:12,.0f}")
    print(
        f"calculated: {share:.1%} of one core of {CARMEL_HZ / 1e9:.1f} GHz at {FRAMES_PER_SECOND} frames/s, one instruction a cycle; 30 % allow {0.3 * CARMEL_HZ / FRAMES_PER_SECOND:,.0f}"
    )


if __name__ == "__main__":
    main()
