#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows in the table = events that happened: `tests/fleet/run rabbitmq|nats MINUTES BINARY SIMULATOR`, or `make fleet-test`.

Three nodes of the broker, PostgreSQL, examples/fleet/consumer.py, 200 boxes of `tests/fleet/simulate` and 3 daemons with synthetic sources run
on this machine. For MINUTES, nodes, processes of boxes, daemons and the consumer are killed by -9 and started again, in turns, some at once.
Then all are started, what waits is delivered, and the table is compared with

- the lists of the boxes (`--log`), event by event; the broker must also have acknowledged each to the boxes (`--acks`);
- the JSON lines of the daemons, event by event.

With RabbitMQ, the daemons publish their states at a mosquitto (`publish.mqtt.states`), which must have retained them in the end.

Prints how long boxes waited for acknowledgements, with all nodes alive and in all. Ends with 1 if an event is missing or there twice.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

import paho.mqtt.client as mqtt
import psycopg

from engines import EXAMPLES, NODES, PASSWORDS, Engines, Processes, is_open, until

BOXES, GROUPS, DAEMONS = 200, 4, 3
# Events per second and box.
RATE = 1.0
# Files of the boxes, by the names of their options.
MADE, ACKS = "made.jsonl", "acks.jsonl"
# Of mosquitto; the nodes have 1884 to 1886.
STATES_PORT = 1887
# Longest wait for what must come after all is started again.
SETTLE_S = 180


def key(line):
    return line["device"], line["spool"], line["seq"]


class Proof:
    def __init__(self, engine, binary, simulator, root):
        self.engine, self.binary, self.simulator = engine, binary, simulator
        self.folder = Path(tempfile.mkdtemp(prefix="run-", dir=root.parent))
        self.processes = Processes(self.folder)
        self.engines = Engines(root, self.folder, self.processes)
        self.alive, self.kills = [], {}
        # When the processes of each group were started.
        self.starts = [[] for _ in range(GROUPS)]
        self.daemons = [f"daemon-{number}" for number in range(1, DAEMONS + 1)]

    # Parts -----------------------------------------------------------------------------------------------------------------------

    def brokers(self, first, form):
        """The addresses of all nodes, beginning with that of number `first`."""
        return [form.format(1883 + NODES[(first + turn) % len(NODES)]) for turn in range(len(NODES))]

    def start_node(self, node):
        (self.engines.start_rabbitmq if self.engine == "rabbitmq" else self.engines.start_nats)(node)

    def await_nodes(self):
        until("all nodes listen", lambda: all(is_open(1883 + node) for node in NODES))

    def start_consumer(self):
        brokers = [part for broker in self.brokers(1, "mqtt://127.0.0.1:{}") for part in ("--broker", broker)]
        command = [sys.executable, EXAMPLES / "consumer.py", *brokers, "--database", self.database]
        command += ["--user", "consumer"] if self.engine == "rabbitmq" else ["--mqtt", "3.1.1"]
        self.processes.start("consumer", command, env={**os.environ, "MQTT_PASSWORD": PASSWORDS["consumer"]})

    def start_boxes(self, group):
        place = self.folder / f"boxes-{group}"
        place.mkdir(exist_ok=True)
        command = [self.simulator, "--boxes", str(BOXES // GROUPS), "--device-prefix", f"box-{group}-", "--events-per-s", str(RATE), "--sources", "1"]
        command += ["--only", "events", "--seed", str(len(self.starts[group]) * GROUPS + group), "--duration", "86400", "--drain", str(SETTLE_S), "--json"]
        command += ["--spool", place / "spool", "--log", place / MADE, "--acks", place / ACKS]
        command += [part for broker in self.brokers(group, "mqtt://127.0.0.1:{}") for part in ("--broker", broker)]
        if self.engine == "rabbitmq":
            command += ["--user", "{device}", "--password-file", self.folder / "passwords/{device}"]
        self.starts[group].append(time.time())
        self.processes.start(place.name, command)

    def boxes(self):
        return [f"box-{group}-{number:05}" for group in range(GROUPS) for number in range(1, BOXES // GROUPS + 1)]

    def write_daemon(self, number, device):
        place = self.folder / device
        for name in ("run", "state"):
            (place / name).mkdir(parents=True)
        mqtt = {"brokers": self.brokers(number, "mqtt://127.0.0.1:{}"), "keep_alive_s": 5,
                "spool": {"runtime_folder": str(place / "run"), "state_folder": str(place / "state")}}
        if self.engine == "rabbitmq":
            mqtt |= {"user": device, "password": f"password-of-{device}", "states": {"broker": f"mqtt://127.0.0.1:{STATES_PORT}"}}
        source = {"name": "gate", "uri": f"synthetic://traffic?seed={number}&objects=8&width=320&height=180&fps=10",
                  "zones": [{"name": "road", "coordinates": "0,0.4,1,0.4,1,1,0,1", "object_threshold": 3, "loitering_time_s": 2}],
                  "lines": [{"name": "middle", "coordinates": "0.5,0,0.5,1"}]}
        content = {"device": device, "sources": [source], "detector": {"backend": "scripted"},
                   "publish": {"json_lines": {"path": str(place / "events.jsonl")}, "mqtt": mqtt}}
        (place / "box.yaml").write_text(json.dumps(content))

    def start_daemon(self, device):
        self.processes.start(device, [self.binary, "run", "--config", self.folder / device / "box.yaml"])

    def start_all(self):
        self.database = self.engines.start_postgresql()
        if self.engine == "rabbitmq":
            self.engines.start_mosquitto(STATES_PORT)
            self.engines.make_rabbitmq([*self.daemons, *self.boxes()])
            (self.folder / "passwords").mkdir()
            for box in self.boxes():
                (self.folder / "passwords" / box).write_text(f"password-of-{box}\n")
        else:
            self.engines.make_nats()
        for node in NODES:
            self.start_node(node)
        self.await_nodes()
        if self.engine == "rabbitmq":
            for node in NODES:
                self.engines.rabbitmqctl(node, "await_startup")
        # The consumer's session must be there before the first event: the broker keeps nothing for a session that it does not know.
        self.start_consumer()
        self.processes.await_log("consumer", "subscribed")
        for group in range(GROUPS):
            self.start_boxes(group)
        for number, device in enumerate(self.daemons):
            self.write_daemon(number, device)
            self.start_daemon(device)
        until("rows of all", lambda: self.query("SELECT count(DISTINCT device) FROM event")[0][0] == BOXES + DAEMONS)

    def query(self, text, *values):
        with psycopg.connect(self.database) as connection:
            return connection.execute(text, values).fetchall()

    # Kills -----------------------------------------------------------------------------------------------------------------------

    def turn(self, names):
        """Kills these at once, and starts them again after some seconds."""
        if died := self.processes.died():
            sys.exit(f"fleet: {died[0]} has ended by itself:\n{self.processes.log(died[0])}")
        nodes = [name for name in names if name.startswith("node-")]
        if nodes:
            self.alive[-1][1] = time.time()
        for name in names:
            self.processes.kill(name)
            kind = name.split("-")[0]
            self.kills[kind] = self.kills.get(kind, 0) + 1
        time.sleep(random.uniform(2, 10))
        for name in names:
            kind, _, number = name.partition("-")
            {"node": lambda: self.start_node(int(number)), "boxes": lambda: self.start_boxes(int(number)),
             "daemon": lambda: self.start_daemon(name), "consumer": self.start_consumer}[kind]()
        if nodes:
            self.await_nodes()
            self.alive.append([time.time(), None])
        time.sleep(random.uniform(1, 4))

    def kill_in_turns(self, minutes):
        self.alive = [[time.time(), None]]
        end, number = time.monotonic() + minutes * 60, 0
        while time.monotonic() < end:
            node, group, daemon = f"node-{NODES[number % 3]}", f"boxes-{number % GROUPS}", self.daemons[number % DAEMONS]
            for names in ([node], ["consumer"], [group], [daemon], [node, "consumer"], [group, daemon]):
                if time.monotonic() < end:
                    self.turn(names)
            number += 1

    # End -------------------------------------------------------------------------------------------------------------------------

    def end_boxes(self):
        names = [f"boxes-{group}" for group in range(GROUPS)]
        # The time to send what waits, and to end.
        for name, code in zip(names, self.processes.stop_all(names, SETTLE_S + 30)):
            if code:
                sys.exit(f"fleet: {name} ended with {code}:\n{self.processes.log(name)}")

    def end_daemon(self, device):
        """Ends the daemon; what its spool still has is sent by the next start."""
        for _ in range(5):
            # A signal before its start has ended would end it at once.
            self.processes.await_log(device, "running as")
            self.processes.stop(device)
            status = subprocess.run([self.binary, "spool", "status", "--json", "--config", self.folder / device / "box.yaml"], capture_output=True, text=True)
            if not json.loads(status.stdout)["messages"]:
                return
            self.start_daemon(device)
            time.sleep(5)
        sys.exit(f"fleet: the spool of {device} does not get empty: {status.stdout}")

    def lines(self, group, name):
        return map(json.loads, (self.folder / f"boxes-{group}" / name).read_text().splitlines())

    def happened(self):
        """Keys of the events of the boxes by their lists, and of the daemons by their JSON lines."""
        boxes, daemons = set(), set()
        for group in range(GROUPS):
            boxes.update(map(key, self.lines(group, MADE)))
        for device in self.daemons:
            for line in (self.folder / device / "events.jsonl").read_text(errors="replace").splitlines():
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # cut by a kill
                if event.get("kind") in ("event", "analytics"):
                    # The time, because numbers of frames begin at 0 at each start, and overcrowding has no track.
                    at = event["at" if event["kind"] == "analytics" else "frame_at"]
                    daemons.add((device, event["id"], event["type"], event.get("name"), at))
        return boxes, daemons

    def arrived(self):
        boxes = self.query("SELECT device, spool, seq FROM event WHERE device LIKE 'box-%%'")
        daemons = self.query("SELECT device, track, type, name, coalesce(body->>'at', body->>'frame_at') FROM event WHERE device LIKE 'daemon-%%'")
        return boxes, daemons

    def compare(self):
        boxes, daemons = self.happened()

        def missing():
            got_boxes, got_daemons = map(set, self.arrived())
            return len(boxes - got_boxes) + len(daemons - got_daemons)

        end = time.monotonic() + SETTLE_S
        while missing() and time.monotonic() < end:
            time.sleep(1)
        got_boxes, got_daemons = self.arrived()
        lost = len(boxes - set(got_boxes)) + len(daemons - set(got_daemons))
        twice = len(got_boxes) - len(set(got_boxes)) + len(got_daemons) - len(set(got_daemons))
        unknown = len(set(got_boxes) - boxes)
        cut = len(set(got_daemons) - daemons)
        (gaps, rejected, counted, rows), = self.query(
            "SELECT (SELECT count(*) FROM gap), (SELECT count(*) FROM rejected), (SELECT sum(events) FROM hourly), "
            "(SELECT count(*) FROM event WHERE type <> 'update')")
        print(f"{len(boxes) + len(daemons)} events happened ({len(boxes)} of {BOXES} boxes, {len(daemons)} of {DAEMONS} daemons), "
              f"{len(got_boxes) + len(got_daemons)} rows: {lost} lost, {twice} twice, {unknown} unknown")
        print(f"{cut} rows of daemons whose JSON line a kill has cut; {gaps} gaps, {rejected} rejected; counts per hour: {counted} of {rows}")
        unacknowledged = len(boxes - {key(line) for group in range(GROUPS) for line in self.lines(group, ACKS)})
        print(f"{unacknowledged} events of boxes without an acknowledgement")
        return not (lost or twice or unknown or gaps or rejected or unacknowledged or counted != rows)

    def has_states(self):
        """Whether mosquitto has the last states of all daemons, and no event."""
        wanted = {f"jetwatch/{device}/{level}" for device in self.daemons for level in ("status", "gate/status", "gate/lines/middle", "gate/zones/road")}
        found = {}
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        client.on_message = lambda _client, _data, message: found.setdefault(message.topic, message.payload)
        client.connect("127.0.0.1", STATES_PORT)
        client.subscribe("jetwatch/#")
        client.loop_start()
        end = time.monotonic() + 30
        while not wanted <= found.keys() and time.monotonic() < end:
            time.sleep(0.1)
        client.loop_stop()
        missing = wanted - found.keys()
        wrong = [device for device in self.daemons if found.get(f"jetwatch/{device}/status") != b"offline"]
        events = [topic for topic in found if topic.endswith(("/events", "/analytics"))]
        print(f"states at mosquitto: {len(found)} retained values, {len(missing)} missing, {len(wrong)} daemons not offline, {len(events)} events")
        return not (missing or wrong or events)

    def print_waits(self):
        """Of events of boxes, from the event to its acknowledgement. What a killed process of boxes resends begins with its start."""
        waits, alive = [], []
        for group in range(GROUPS):
            for line in self.lines(group, ACKS):
                settled = line["acked_ms"] / 1000
                made = max(line["made_ms"] / 1000, max((start for start in self.starts[group] if start <= settled), default=0))
                waits.append(settled - made)
                if any(since <= made and (until is None or settled <= until) for since, until in self.alive):
                    alive.append(settled - made)
        for name, values in (("all nodes alive", alive), ("in all", waits)):
            values.sort()
            print(f"acknowledgements, {name}: {len(values)}, p50 {1000 * values[len(values) // 2]:.1f} ms, "
                  f"p99 {1000 * values[len(values) * 99 // 100]:.1f} ms, longest {values[-1]:.2f} s")

    def prove(self, minutes):
        self.start_all()
        begun = time.monotonic()
        self.kill_in_turns(minutes)
        print(f"{self.engine}: {(time.monotonic() - begun) / 60:.1f} minutes, kills: {self.kills}", flush=True)
        self.end_boxes()
        for device in self.daemons:
            self.end_daemon(device)
        is_whole = self.compare()
        if self.engine == "rabbitmq":
            is_whole &= self.has_states()
        self.print_waits()
        return is_whole


def main():
    engine, minutes = sys.argv[1], float(sys.argv[2])
    binary, simulator, root = [Path(text).resolve() for text in sys.argv[3:]]
    seed = random.randrange(1 << 32)
    random.seed(seed)
    proof = Proof(engine, binary, simulator, root)
    is_whole = False
    try:
        is_whole = proof.prove(minutes)
    finally:
        proof.processes.kill_all()
        if is_whole:
            shutil.rmtree(proof.folder)
        else:
            print(f"fleet: the seed of the kills was {seed}; logs are in {proof.folder}", file=sys.stderr)
    sys.exit(0 if is_whole else 1)


if __name__ == "__main__":
    main()
