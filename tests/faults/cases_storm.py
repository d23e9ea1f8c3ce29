# SPDX-License-Identifier: Apache-2.0
"""A storm: mosquitto and the daemon are killed and stopped, sources change, the disk fills, clients of the page come and go, commands flood
the daemon and its clock is set, all at moments that a seed chooses, at the same time. No event may be lost.

mosquitto sends a message of QoS 0 to a subscriber that is there before it acknowledges it to the daemon, so what it has acknowledged has
arrived, whenever it is killed. The daemon reaches it through a forwarder, which listens while the subscriber is there.
"""
import collections
import contextlib
import json
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

from broker import packets
from cases_clock import Clock
from cases_disk import LEFT, Mount, can_mount
from fault_site import Site, free_port, is_listening, until
from ledger import Loss

# More than any of these is a leak: threads of a source and of a client of the page, and what both have open.
MAX_USAGE = {"threads": 160, "fds": 400}
# How much more than before the storm may be in use after it.
MARGINS = {"threads": 8, "fds": 16}
TOPICS = ("jetwatch/box/+/events", "jetwatch/box/+/analytics", "jetwatch/box/gap")
HALF = {"zones": [{"name": "left", "coordinates": "0,0,0.5,0,0.5,1,0,1", "object_threshold": 2, "loitering_time_s": 1, "inertia_frames": 2}],
        "lines": [{"name": "middle", "coordinates": "0.5,0.02,0.5,0.98"}]}


def scene(number, life=0):
    return {"name": f"cam{number}", "uri": f"synthetic://traffic?seed={number + 100 * life}&objects=6&width=320&height=180&fps=20", **HALF}


def packet(kind, body):
    """A packet of MQTT 3.1.1."""
    length, rest = b"", len(body)
    while True:
        length += bytes([rest & 127 | (128 if rest > 127 else 0)])
        rest >>= 7
        if not rest:
            return bytes([kind]) + length + body


def text(value):
    return len(value).to_bytes(2, "big") + value.encode()


def connect(port, name):
    """A connection that has sent CONNECT, without keep-alive."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.sendall(packet(0x10, text("MQTT") + b"\x04\x02\x00\x00" + text(name)))
    return connection


class Forwarder:
    """Passes connections on to a port of this machine; closed, it refuses them."""

    def __init__(self, port, target):
        self.target, self.connections = target, []
        self.listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    near.close()
                    continue
                self.connections += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def copy(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        end(source)
        end(sink)

    def close(self):
        # `shutdown` ends `accept` of the other thread, which `close` alone does not.
        end(self.listener)
        self.listener.close()
        for connection in self.connections:
            end(connection)


def end(connection):
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class StormSite(Site):
    """A site with mosquitto, and a subscriber that writes what arrives."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.inner, self.forwarder = free_port(), None
        settings = f"listener {self.inner} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n"
        (self.folder / "mosquitto.conf").write_text(settings)

    def start_broker(self, mode="good"):
        with open(self.folder / "mosquitto.log", "ab") as log:
            self.broker = subprocess.Popen(["mosquitto", "-c", self.folder / "mosquitto.conf"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until("mosquitto listens", lambda: is_listening(self.inner))
        is_there = threading.Event()
        self.subscriber = threading.Thread(target=self.receive, args=(is_there,), daemon=True)
        self.subscriber.start()
        if not is_there.wait(60):
            raise Loss("the subscriber of this test could not subscribe")
        self.forwarder = Forwarder(self.port, self.inner)

    def receive(self, is_there):
        """Writes what arrives until mosquitto ends."""
        data = bytearray()
        with connect(self.inner, "subscriber") as connection, open(self.folder / "received", "ab", buffering=0) as out:
            connection.settimeout(None)
            while block := connection.recv(1 << 16):
                data += block
                for kind, body in packets(data):
                    if kind >> 4 == 2:
                        connection.sendall(packet(0x82, b"\x00\x01" + b"".join(text(topic) + b"\x00" for topic in TOPICS)))
                    elif kind >> 4 == 9:
                        is_there.set()
                    elif kind >> 4 == 3:
                        size = 2 + int.from_bytes(body[:2], "big")
                        out.write(json.dumps({"topic": body[2:size].decode(), "payload": body[size:].decode()}).encode() + b"\n")

    def kill_broker(self):
        super().kill_broker()
        # What mosquitto has sent before its end is read first.
        self.subscriber.join(60)
        self.forwarder.close()


class Storm:
    """Threads that make faults until `over`; each has random numbers of its own, so that its choices depend on the seed alone."""

    def __init__(self, site, web):
        self.site, self.web, self.over = site, web, threading.Event()
        # Held while the daemon is ended, started or looked at.
        self.lock = threading.Lock()
        self.problems, self.counts, self.most = [], collections.Counter(), collections.Counter()
        self.life, self.threads = 0, []

    def begin(self, *faults):
        for number, fault in enumerate(faults):
            self.threads.append(threading.Thread(target=self.repeat, args=(fault, random.Random(f"{number} {random.random()}"))))
        for thread in self.threads:
            thread.start()

    def repeat(self, fault, choose):
        try:
            while not self.over.is_set():
                fault(choose)
        except Exception as error:
            self.problems.append(error)
            self.over.set()

    def run(self, seconds):
        """The given time, or until something is wrong; meanwhile it is measured and compared."""
        end_at = time.monotonic() + seconds
        try:
            while not self.over.wait(0.5) and time.monotonic() < end_at:
                self.site.ledger.read()
                self.look()
        finally:
            self.over.set()
            for thread in self.threads:
                thread.join()
        if self.problems:
            raise Loss(f"{self.problems[0]!r}") from self.problems[0]

    def look(self):
        with self.lock:
            if not self.site.daemon:
                return
            found = self.site.usage()
        self.most |= collections.Counter({name: int(found[name]) for name in ("rss", *MAX_USAGE)})
        if any(self.most[name] > limit for name, limit in MAX_USAGE.items()):
            raise Loss(f"the daemon has {dict(self.most)}, and {MAX_USAGE} is allowed")

    def pause(self, choose, least, most):
        self.over.wait(choose.uniform(least, most))

    def stop_for_a_while(self, process, choose):
        process.send_signal(signal.SIGSTOP)
        self.pause(choose, 0.1, 8)
        process.send_signal(signal.SIGCONT)

    # Faults ----------------------------------------------------------------------------------------------------------------------

    def hit_daemon(self, choose):
        self.pause(choose, 1, 8)
        number = choose.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM))
        self.counts[f"{number.name} of the daemon"] += 1
        if number == signal.SIGSTOP:
            return self.stop_for_a_while(self.site.daemon, choose)
        with self.lock:
            self.site.stop_daemon(number)
            self.site.daemon = None
        self.pause(choose, 0, 2)
        with self.lock:
            self.site.start_daemon()

    def hit_broker(self, choose):
        self.pause(choose, 1, 8)
        number = choose.choice((signal.SIGKILL, signal.SIGSTOP))
        self.counts[f"{number.name} of mosquitto"] += 1
        if number == signal.SIGSTOP:
            return self.stop_for_a_while(self.site.broker, choose)
        self.site.kill_broker()
        self.pause(choose, 0, 5)
        self.site.start_broker()

    def reload(self, choose):
        self.pause(choose, 0.5, 5)
        self.life += 1
        others = [scene(number, self.life) for number in choose.sample(range(1, 6), choose.randint(0, 3))]
        self.site.content["sources"] = [scene(0), *others]
        self.site.write_config()
        with self.lock:
            # A start reads the new file, too.
            if self.site.daemon and self.site.is_running():
                self.site.daemon.send_signal(signal.SIGHUP)
                self.counts["reloads"] += 1

    def fill(self, disk, choose):
        self.pause(choose, 1, 10)
        disk.fill(choose.choice(LEFT) * 1024)
        self.counts["full disks"] += 1
        self.pause(choose, 0.5, 8)
        disk.empty()

    def step(self, clock, choose):
        self.pause(choose, 1, 10)
        clock.set(choose.choice((0, -3600, 3600, 10 * 86400, 1000 - time.time())))
        self.counts["clock steps"] += 1

    def look_at_page(self, choose):
        """Clients that read nothing, read some, or leave in the middle of a request."""
        clients = []
        for _ in range(choose.randint(1, 12)):
            path = choose.choice(("/", "/api/live", "/api/live", "/api/pictures", "/api/sources/cam0/mjpeg", "/api/info", "/api/now", "/api/sources/cam1/picture.jpg"))
            request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            size = choose.choice((len(request), len(request), choose.randrange(len(request))))
            # The daemon may be away.
            with contextlib.suppress(OSError):
                client = socket.create_connection(("127.0.0.1", self.web), 1)
                clients.append(client)
                client.sendall(request[:size])
                self.counts["clients of the page"] += 1
        self.pause(choose, 0.1, 5)
        for client in clients:
            with contextlib.suppress(OSError):
                client.settimeout(0.2)
                client.recv(choose.choice((1, 1 << 16)))
            client.close()

    def flood(self, choose):
        """Commands that add and remove sources, and some that are none."""
        self.pause(choose, 0.5, 6)
        with contextlib.suppress(OSError), connect(self.site.inner, "commands") as client:
            client.settimeout(2)
            for _ in range(choose.randint(100, 3000)):
                name, seed = f"more{choose.randint(0, 2)}", choose.randint(1, 9)
                command = choose.choice((
                    {"command": "add_source", "template": "street", "name": name, "parameters": {"seed": seed}},
                    {"command": "remove_source", "name": name}, {"command": "no_such"}, [seed] * 2000))
                client.sendall(packet(0x30, text("jetwatch/box/command") + json.dumps(command).encode()))
                self.counts["commands"] += 1


def storm(binary, minutes):
    """`minutes` of it; after it, all events arrive, and the daemon needs what it needed before."""
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(Mount(16, "tmpfs")) if can_mount() else print("storm: the full disk is left out, which needs root")
        site = stack.enter_context(StormSite(binary, state=disk and disk.mount, sources=[scene(0)], sync_ms=100, max_age="1h", durability="outage"))
        clock = Clock(site.folder) if shutil.which("cc") else print("storm: clock steps are left out, which need a C compiler (cc)")
        web = free_port()
        template = {"name": "street", "parameters": [{"name": "seed", "min": 1, "max": 9}],
                    "source": {key: value for key, value in scene(9).items() if key != "name"} | {"uri": scene(9)["uri"].replace("seed=9", "seed={seed}")}}
        site.env.update(clock.env if clock else {})
        site.content |= {"web": {"listen": f"127.0.0.1:{web}"}, "commands": {"enabled": True, "state_folder": str(site.folder / "switches")}, "source_templates": [template]}
        site.write_config()
        site.start_broker()
        site.start_daemon()
        site.wait_for_events(20)
        before, storm = site.usage(), Storm(site, web)
        storm.begin(storm.hit_daemon, storm.hit_broker, storm.reload, storm.flood, *[storm.look_at_page] * 3,
                    *([lambda choose: storm.fill(disk, choose)] if disk else []), *([lambda choose: storm.step(clock, choose)] if clock else []))
        storm.run(minutes * 60)
        site.wait_for_events(20, "cam0")
        site.reload([scene(0)])
        site.check(so_far=True, limit=180)
        within = lambda: all(site.usage()[name] <= before[name] + margin for name, margin in MARGINS.items())
        try:
            until("threads and descriptors as before the storm", within)
        except Loss as error:
            raise Loss(f"{error}: {before}, now {site.usage()}") from None
        site.stop_daemon()
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(site.ledger.kinds.items()))
        faults = ", ".join(f"{count} {name}" for name, count in sorted(storm.counts.items()))
        most = f"at most {storm.most['rss']} MiB, {storm.most['threads']} threads, {storm.most['fds']} descriptors"
        return f"{site.check(limit=180)}, 0 lost ({kinds}); {faults}; {most}"
