#!/usr/bin/env python3
"""How fast examples/fleet/consumer.py writes into PostgreSQL: `tests/fleet/bench [EVENTS]`, or `make fleet-bench`.

The consumer makes its session and ends. EVENTS messages of boxes (those of boxes.py) are published; then the consumer is started, and the
time is taken from its first row to its last. With mosquitto by its example, and with three nodes of RabbitMQ by theirs. Prints events/s,
and the CPU time of the consumer, of PostgreSQL and of the broker for each event. All rows must be there in the end, one for each event.
"""
import json
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True

import paho.mqtt.client as mqtt
import psycopg

from boxes import Scene
from engines import EXAMPLES, NODES, PASSWORDS, Engines, Processes, is_open, until

TICKS = os.sysconf("SC_CLK_TCK")
DEVICES = 100
SPOOL = "0123456789abcdef"


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


def publish(port, events, has_users):
    """Publishes `events` messages of 100 boxes with QoS 1; returns once all are acknowledged."""
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="jetwatch-box-0001", protocol=mqtt.MQTTv5)
    if has_users:
        client.username_pw_set("publisher", "password-of-publisher")
    client.max_inflight_messages_set(500)
    done, room = threading.Event(), threading.Semaphore(2000)
    acknowledged = [0]

    def on_publish(*_):
        acknowledged[0] += 1
        room.release()
        if acknowledged[0] == events:
            done.set()

    client.on_publish = on_publish
    client.connect("127.0.0.1", port, keepalive=60)
    client.loop_start()
    chance = random.Random(1)
    scenes = [Scene(f"box-{number:04}", chance) for number in range(1, DEVICES + 1)]
    for number in range(events):
        scene = scenes[number % DEVICES]
        level, message = scene.next()
        message |= {"spool": SPOOL, "seq": number // DEVICES + 1}
        room.acquire()
        client.publish(f"jetwatch/{scene.device}/gate/{level}", json.dumps(message, separators=(",", ":")), qos=1)
    if not done.wait(600):
        sys.exit("fleet: the broker did not acknowledge all messages within 600 s")
    client.disconnect()
    client.loop_stop()


class Bench:
    # What the command line of the broker matches.
    MOSQUITTO = "^mosquitto"

    def __init__(self, root, events):
        self.folder = Path(tempfile.mkdtemp(prefix="bench-", dir=root.parent))
        self.processes = Processes(self.folder)
        self.engines = Engines(root, self.folder, self.processes)
        self.events = events
        self.database = self.engines.start_postgresql()

    def has(self, number):
        """Whether the row of this message is there; by the key, because counting would cost more than writing."""
        with psycopg.connect(self.database) as connection:
            key = (f"box-{number % DEVICES + 1:04}", SPOOL, number // DEVICES + 1)
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
        publish(ports[-1], self.events, has_users)
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        parts = {"consumer": "consumer.py", "PostgreSQL": "postgres", name: pattern}
        before = {part: cpu_seconds(wanted) for part, wanted in parts.items()}
        self.start_consumer(brokers, has_users)
        until("the first row", lambda: self.has(0))
        begun = time.monotonic()
        first = self.rows()
        until("the last row", lambda: self.has(self.events - 1), 300)
        until("all rows", lambda: self.rows() == self.events)
        seconds = time.monotonic() - begun
        spent = {part: 1e6 * (cpu_seconds(wanted) - before[part]) / self.events for part, wanted in parts.items()}
        self.processes.stop("consumer")
        costs = ", ".join(f"{part} {cost:.0f}" for part, cost in spent.items())
        print(f"{name}: {(self.events - first) / seconds:.0f} events/s ({self.events} rows); µs of CPU time for each event: {costs}", flush=True)

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
        """One user for all boxes of this measurement: one connection stands for them."""
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
    bench = Bench(Path(sys.argv[1]).resolve(), int(sys.argv[2]))
    try:
        bench.run()
    finally:
        bench.processes.kill_all()
        shutil.rmtree(bench.folder)


if __name__ == "__main__":
    main()
