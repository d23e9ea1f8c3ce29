#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast examples/fleet/consumer.py writes into PostgreSQL: `tests/fleet/bench SIMULATOR [EVENTS]`, or `make fleet-bench`.

The consumer makes its session and ends. About EVENTS events of `tests/fleet/simulate` are published; then the consumer is started, and the time
is taken from its first row to its last. With mosquitto by its example, and with three nodes of RabbitMQ by theirs. Prints events/s,
and the CPU time of the consumer, of PostgreSQL and of the broker for each event. All rows must be there in the end, one for each event.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

import psycopg

from engines import EXAMPLES, NODES, PASSWORDS, Engines, Processes, is_open, until

TICKS = os.sysconf("SC_CLK_TCK")
# Boxes whose events wait for the consumer, and how many each makes in a second.
DEVICES, RATE = 100, 20


def cpu_seconds(pattern):
    """CPU time of all processes whose command line matches."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if re.search(pattern, command) and "chroot" not in command:
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


class Bench:
    # What the command line of the broker matches.
    MOSQUITTO = "^mosquitto"

    def __init__(self, root, simulator, events):
        self.folder = Path(tempfile.mkdtemp(prefix="bench-", dir=root.parent))
        self.processes = Processes(self.folder)
        self.engines = Engines(root, self.folder, self.processes)
        self.simulator, self.events = simulator, events
        self.database = self.engines.start_postgresql()

    def simulate(self, name, ports, *options):
        """The command line of boxes at a broker; their events are listed in `sent.jsonl`."""
        command = [self.simulator, "--json", "--log", self.folder / "sent.jsonl", *options]
        command += [part for port in ports for part in ("--broker", f"mqtt://127.0.0.1:{port}")]
        if name == "RabbitMQ":
            (self.folder / "publisher").write_text("password-of-publisher\n")
            # Where RabbitMQ has the events, another broker has the states.
            command += ["--only", "events", "--user", "publisher", "--password-file", self.folder / "publisher"]
        return command

    def publish(self, name, ports):
        """Publishes the events, which wait for the consumer then; their keys."""
        options = ["--boxes", str(DEVICES), "--events-per-s", str(RATE), "--duration", str(self.events // (DEVICES * RATE))]
        done = subprocess.run(self.simulate(name, ports, *options), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if done.returncode:
            sys.exit(f"fleet: {name}: not all events were acknowledged: {done.stdout}")
        return [(line["device"], line["spool"], line["seq"]) for line in map(json.loads, (self.folder / "sent.jsonl").open())]

    def has(self, key):
        """Whether the row of this event is there; by the key, because counting would cost more than writing."""
        with psycopg.connect(self.database) as connection:
            return connection.execute("SELECT 1 FROM event WHERE (device, spool, seq) = (%s, %s, %s)", key).fetchone() is not None

    def rows(self):
        with psycopg.connect(self.database) as connection:
            return connection.execute("SELECT count(*) FROM event").fetchone()[0]

    def start_consumer(self, brokers, has_users):
        command = [sys.executable, EXAMPLES / "consumer.py", *brokers, "--database", self.database, *(["--user", "consumer"] if has_users else [])]
        self.processes.start("consumer", command, env={**os.environ, "MQTT_PASSWORD": PASSWORDS["consumer"]})

    def measure(self, name, ports, pattern):
        has_users = name == "RabbitMQ"
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute("TRUNCATE event, hourly")
        brokers = [part for port in ports for part in ("--broker", f"mqtt://127.0.0.1:{port}")]
        log = self.folder / "consumer.log"
        log.unlink(missing_ok=True)
        self.start_consumer(brokers, has_users)
        self.processes.await_log("consumer", "subscribed")
        self.processes.stop("consumer")
        events = self.publish(name, ports)
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        parts = {"consumer": "consumer.py", "PostgreSQL": "postgres", name: pattern}
        before = {part: cpu_seconds(wanted) for part, wanted in parts.items()}
        self.start_consumer(brokers, has_users)
        until("the first row", lambda: self.has(events[0]))
        begun = time.monotonic()
        first = self.rows()
        until("the last row", lambda: self.has(events[-1]), 300)
        until("all rows", lambda: self.rows() == len(set(events)))
        seconds = time.monotonic() - begun
        spent = {part: 1e6 * (cpu_seconds(wanted) - before[part]) / len(events) for part, wanted in parts.items()}
        self.processes.stop("consumer")
        costs = ", ".join(f"{part} {cost:.0f}" for part, cost in spent.items())
        print(f"{name}: {(len(events) - first) / seconds:.0f} events/s ({len(events)} rows); µs of CPU time for each event: {costs}", flush=True)

    def run(self):
        """Measures each broker by its example; a measurement is `measure(name, ports, pattern of its command line)`."""
        self.engines.start_mosquitto()
        self.measure("mosquitto", [1884], self.MOSQUITTO)
        self.processes.stop("mosquitto")
        self.engines.make_rabbitmq(["publisher"])
        self.allow_publisher()
        for node in NODES:
            self.engines.start_rabbitmq(node)
        until("all nodes listen", lambda: all(is_open(1883 + node) for node in NODES))
        for node in NODES:
            self.engines.rabbitmqctl(node, "await_startup")
        self.measure("RabbitMQ", [1883 + node for node in NODES], "beam")

    def allow_publisher(self):
        """One user for all boxes of this measurement."""
        path = self.folder / "rabbitmq/definitions.json"
        definitions = json.loads(path.read_text())
        for entry in definitions["topic_permissions"]:
            if entry["user"] == "publisher":
                entry["write"] = "^jetwatch\\."
        for entry in definitions["permissions"]:
            if entry["user"] == "publisher":
                entry |= {"configure": ".*", "write": ".*", "read": ".*"}
        path.write_text(json.dumps(definitions))


def main():
    bench = Bench(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), int(sys.argv[3]))
    try:
        bench.run()
    finally:
        bench.processes.kill_all()
        shutil.rmtree(bench.folder)


if __name__ == "__main__":
    main()
