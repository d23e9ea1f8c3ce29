#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a connection and an event cost a broker: `tests/fleet/sizing SIMULATOR [BOXES] [SECONDS]`, or `make fleet-sizing`.

For mosquitto by its example and for three nodes of RabbitMQ by theirs: with examples/fleet/consumer.py and PostgreSQL behind it, BOXES
devices of `tests/fleet/simulate` publish for SECONDS at a tenth of an event per second, and then at one. Prints the memory of the broker before
and with the connections, and the CPU time of each part at both rates: their difference is the cost of an event, the rest that of a connection
with its statistics and pings. All events must be in the table in the end.
"""
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

import psycopg

from consumer_rate import Bench, cpu_seconds
from engines import until

RATES = (0.1, 1.0)
# Devices that are started in a second.
CONNECTS_PER_S = 100


def memory(pattern):
    """Memory of all processes whose command line matches, in bytes: what is shared counts in parts."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            if command.startswith(b"chroot") or pattern not in command.decode(errors="replace"):
                continue
            total += sum(int(line.split()[1]) << 10 for line in (entry / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
        except OSError:
            continue
    return total


class Sizing(Bench):
    MOSQUITTO = "mosquitto.conf"

    def __init__(self, root, simulator, boxes, seconds):
        super().__init__(root, simulator, 0)
        self.boxes, self.seconds = boxes, seconds

    def run_boxes(self, name, ports, rate, pattern):
        """One run; its result, and the memory and the CPU times of the measurement."""
        log = self.folder / "sent.jsonl"
        options = ["--boxes", str(self.boxes), "--events-per-s", str(rate), "--duration", str(self.seconds), "--connects-per-s", str(CONNECTS_PER_S)]
        command = self.simulate(name, ports, *options)
        before = memory(pattern)
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        # The measurement is the middle of that of the program.
        time.sleep(self.boxes / CONNECTS_PER_S + self.seconds / 6)
        parts = {name: pattern, "consumer": "consumer.py", "PostgreSQL": "postgres"}
        begun, spent = time.monotonic(), {part: -cpu_seconds(wanted) for part, wanted in parts.items()}
        time.sleep(self.seconds * 2 / 3)
        for part, wanted in parts.items():
            spent[part] = (spent[part] + cpu_seconds(wanted)) / (time.monotonic() - begun)
        with_boxes = memory(pattern)
        text, _ = running.communicate()
        result = json.loads(text)
        if running.returncode:
            sys.exit(f"fleet: {name}: something was lost: {text}")
        wanted = {(line["device"], line["spool"], line["seq"]) for line in map(json.loads, log.open())}
        until(f"all {len(wanted)} rows", lambda: wanted <= self.keys(), 120)
        print(f"{name}, {self.boxes} boxes, {result['events_per_s']:.0f} events/s, {len(wanted)} events, all in the table: acknowledgements "
              f"p50 {result['ack_p50_ms']:.1f} ms, p99 {result['ack_p99_ms']:.0f} ms; simulate {result['cpu_percent']:.0f} % of a core, "
              f"{result['peak_rss_bytes'] >> 20} MiB; memory of the broker {before >> 20} MiB, with the boxes {with_boxes >> 20} MiB; cores: "
              + ", ".join(f"{part} {cores:.3f}" for part, cores in spent.items()), flush=True)
        return result["events_per_s"], before, with_boxes, spent

    def keys(self):
        with psycopg.connect(self.database) as connection:
            return set(connection.execute("SELECT device, spool, seq FROM event").fetchall())

    def measure(self, name, ports, pattern):
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute("TRUNCATE event, hourly")
        (self.folder / "consumer.log").unlink(missing_ok=True)
        self.start_consumer([part for port in ports for part in ("--broker", f"mqtt://127.0.0.1:{port}")], name == "RabbitMQ")
        self.processes.await_log("consumer", "subscribed")
        (low, before, at_low, few), (high, _, at_high, many) = [self.run_boxes(name, ports, rate, pattern) for rate in RATES]
        self.processes.stop("consumer")
        for rate, with_boxes in zip(RATES, (at_low, at_high)):
            print(f"{name}: {(with_boxes - before) / self.boxes / 1024:.0f} KiB for each connection at {rate} events/s", flush=True)
        for part in few:
            event = (many[part] - few[part]) / (high - low)
            rest = (few[part] - event * low) / self.boxes
            print(f"{name}: {part}: {1e6 * event:.0f} µs of CPU time for each event, {1e6 * rest:.0f} µs/s for each connection", flush=True)


def main():
    root, simulator, boxes, seconds = sys.argv[1:]
    sizing = Sizing(Path(root).resolve(), Path(simulator).resolve(), int(boxes), int(seconds))
    try:
        sizing.run()
    finally:
        sizing.processes.kill_all()
        shutil.rmtree(sizing.folder)


if __name__ == "__main__":
    main()
