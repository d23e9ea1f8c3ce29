#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copies counters that only root can read, for jetwatch-readings.service: `jetwatch-readings.sh [ROOT]`.
#
# Copies single numbers every 2 seconds to the same paths below /run/jetwatch-readings, which every user may read. ROOT is a
# folder in place of `/`. Without errors it starts no process but `sleep`.
root=${1:-}
to=$root/run/jetwatch-readings

set -- /sys/kernel/debug/bpmp/debug/clk/emc/rate \
    /sys/kernel/debug/bpmp/debug/clk/emc/min_rate \
    /sys/kernel/debug/bpmp/debug/clk/emc/max_rate \
    /sys/kernel/debug/cactmon/mc_all \
    /sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity \
    /sys/kernel/debug/clk/vic/clk_rate \
    /sys/kernel/debug/clk/nvdec/clk_rate

umask 022
export LC_ALL=C
for file in "$@"; do mkdir -p "$to${file%/*}" || exit 1; done
while :; do
    for file in "$@"; do
        text=
        if [ -r "$root$file" ]; then { read -r text <"$root$file"; } 2>/dev/null; fi
        case $text in
        '' | *[!0-9]* | ?????????????????????*)
            # An unreadable counter has no value; an old one must not stay.
            if [ -e "$to$file" ]; then rm "$to$file"; fi
            continue
            ;;
        esac
        # Overwritten in one write of constant length, so that readers never see a partial or missing number.
        printf '%-20s\n' "$text" 1<>"$to$file"
    done
    sleep 2
done
