#!/usr/bin/env python3
"""Boxes that are not there: `boxes.py --first 1 --boxes 100 --rate 1 --broker HOST:PORT… --folder FOLDER`.

Test doubles of daemons, many in one process. Each has a connection, a spool with its numbers, and tracks whose events look like the daemon's.
It keeps the promise of a spool in the simplest way: a message is in the journal of the process before it is sent, and what the next start
finds there without an acknowledgement is sent again. So `kill -9` loses nothing that has happened, and the journal is the truth of the test.

SIGTERM ends the making of events; the process ends when all are acknowledged. FOLDER/journal has a line for each event, FOLDER/settled one
for each acknowledgement: device, seq, and the times at which the event was made, sent last, and acknowledged.
"""
import argparse
import asyncio
import json
import os
import random
import signal
import struct
import sys
import time
from collections import deque
from datetime import datetime, timezone
from pathlib import Path

KEEP_ALIVE_S = 15
WINDOW = 64


def length(number):
    out = bytearray()
    while True:
        number, digit = divmod(number, 128)
        out.append(digit | (0x80 if number else 0))
        if not number:
            return bytes(out)


def text(value):
    data = value.encode()
    return struct.pack(">H", len(data)) + data


def packet(first, *parts):
    body = b"".join(parts)
    return bytes([first]) + length(len(body)) + body


async def read_packet(reader):
    first = (await reader.readexactly(1))[0]
    size = shift = 0
    while True:
        digit = (await reader.readexactly(1))[0]
        size |= (digit & 0x7F) << shift
        shift += 7
        if digit < 0x80:
            break
    return first, await reader.readexactly(size)


def moment():
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Scene:
    """One source: tracks that begin, move, enter a zone, cross a line and end."""

    def __init__(self, device, chance):
        self.device, self.chance, self.number, self.frame, self.steps = device, chance, 0, 0, []

    def next(self):
        """The next event: (last level of its topic, message without number)."""
        if not self.steps:
            self.number += 1
            self.id = f"{time.time():.6f}-gate-{self.number}"
            self.label = self.chance.choice(["car", "person", "truck"])
            self.started = moment()
            updates = ["update"] * self.chance.randint(2, 5)
            self.steps = ["new", *updates, "zone_entered", *updates, "line_crossed", "update", "zone_left", "end"]
            self.before = None
        step = self.steps.pop(0)
        self.frame += 3
        frame = {"seq": self.frame, "pts_ms": self.frame * 50.0, "width": 1920, "height": 1080}
        common = {"version": 2, "device": self.device, "source": "gate", "type": step, "id": self.id, "track_id": self.number, "label": self.label,
                  "group": "vehicle", "latency_ms": 21.4, "frame": frame}
        if step in ("new", "update", "end"):
            box = [round(self.chance.random(), 5) for _ in range(4)]
            after = {"track_id": self.number, "label": self.label, "group": "vehicle", "state": "active", "score": 0.81, "top_score": 0.9,
                     "box": [round(value * 1920, 1) for value in box], "box_normalized": box, "age_frames": 25, "hits": 25, "lost_frames": 0,
                     "attributes": []}
            event = {**common, "kind": "event", "started_at": self.started, "frame_at": moment(), "ended_at": moment() if step == "end" else None,
                     "duration_ms": 1700, "before": self.before, "after": after}
            self.before = after
            return "events", event
        name = "middle" if step == "line_crossed" else "road"
        return "analytics", {**common, "kind": "analytics", "name": name, "to": "left" if step == "line_crossed" else None, "count": None,
                             "duration_ms": 1400 if step == "zone_left" else None, "at": moment()}


class Box:
    def __init__(self, device, brokers, rate, site):
        self.device, self.brokers, self.rate, self.site = device, brokers, rate, site
        self.spool, self.seq = f"{random.getrandbits(64):016x}", 0
        # seq: [topic, payload, made, sent]. What waits to be sent is in `queue`, what is on its way in `sent` by packet identifier.
        self.waiting, self.queue, self.sent = {}, deque(), {}
        self.wake = asyncio.Event()
        self.identifier = 0

    def add(self, seq, topic, payload, made):
        self.waiting[seq] = [topic, payload, made, 0]
        self.queue.append(seq)
        self.wake.set()

    async def make(self):
        chance = random.Random(self.spool)
        scene = Scene(self.device, chance)
        while not self.site.is_ending:
            await asyncio.sleep(chance.expovariate(self.rate))
            if self.site.is_ending:
                return
            self.seq += 1
            level, message = scene.next()
            message |= {"spool": self.spool, "seq": self.seq}
            topic, payload = f"jetwatch/{self.device}/gate/{level}", json.dumps(message, separators=(",", ":"))
            made = time.time()
            self.site.journal([self.device, self.spool, self.seq, made, topic, payload])
            self.add(self.seq, topic, payload, made)

    async def connect(self):
        turn = random.randrange(len(self.brokers)) if self.site.options.spread else 0
        await asyncio.sleep(random.random() * 2)
        while not self.site.is_done():
            try:
                await self.session(*self.brokers[turn % len(self.brokers)])
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                self.site.reconnects += 1
                await asyncio.sleep(0.2 + random.random() * 0.6)
            turn += 1

    async def session(self, host, port):
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 5)
        try:
            writer.write(self.hello())
            first, body = await asyncio.wait_for(read_packet(reader), 10)
            if first != 0x20 or body[1]:
                raise ConnectionError(f"refused: {body.hex()}")
            # What was on its way goes first, in order.
            self.queue = deque(sorted(self.waiting))
            self.sent.clear()
            await asyncio.wait_for(self.exchange(reader, writer), None)
        finally:
            writer.close()

    def hello(self):
        options = self.site.options
        flags, tail = 0x02, text(f"jetwatch-{self.device}")
        if options.users:
            flags |= 0xC0
            tail += text(self.device) + text(f"password-of-{self.device}")
        version, properties = (5, b"\0") if options.mqtt == "5" else (4, b"")
        return packet(0x10, text("MQTT"), struct.pack(">BBH", version, flags, KEEP_ALIVE_S), properties, tail)

    async def exchange(self, reader, writer):
        write = asyncio.ensure_future(self.write(writer))
        try:
            while True:
                # The broker answers each ping: silence means that it is gone.
                read = asyncio.ensure_future(asyncio.wait_for(read_packet(reader), KEEP_ALIVE_S))
                await asyncio.wait({read, write}, return_when=asyncio.FIRST_COMPLETED)
                if write.done():
                    read.cancel()
                    return write.result()
                first, body = read.result()
                if first >> 4 == 4:
                    self.settle(*struct.unpack_from(">H", body), body[2] if len(body) > 2 else 0)
                elif first >> 4 == 14:
                    raise ConnectionError("the broker has ended the connection")
        finally:
            write.cancel()

    async def write(self, writer):
        properties = b"\0" if self.site.options.mqtt == "5" else b""
        while not self.site.is_done():
            while self.queue and len(self.sent) < WINDOW:
                seq = self.queue.popleft()
                message = self.waiting[seq]
                self.identifier = self.identifier % 65535 + 1
                self.sent[self.identifier] = seq
                message[3] = time.time()
                writer.write(packet(0x32, text(message[0]), struct.pack(">H", self.identifier), properties, message[1].encode()))
            self.wake.clear()
            await writer.drain()
            try:
                await asyncio.wait_for(self.wake.wait(), KEEP_ALIVE_S / 3)
            except asyncio.TimeoutError:
                writer.write(b"\xc0\0")
        writer.write(b"\xe0\0")

    def settle(self, identifier, reason):
        seq = self.sent.pop(identifier, None)
        if seq is None:
            return
        if reason >= 0x80:
            # Refused: it is kept and sent again on the next connection.
            self.site.refused += 1
            raise ConnectionError(f"refused: {reason:#x}")
        _, _, made, sent = self.waiting.pop(seq)
        self.site.settled(self.device, self.spool, seq, made, sent)
        self.wake.set()


class Site:
    def __init__(self, options):
        self.options, self.is_ending, self.reconnects, self.refused = options, False, 0, 0
        folder = Path(options.folder)
        folder.mkdir(exist_ok=True)
        self.boxes = {}
        brokers = [(host, int(port)) for host, port in (broker.rsplit(":", 1) for broker in options.broker)]
        for number in range(options.first, options.first + options.boxes):
            device = f"box-{number:04}"
            self.boxes[device] = Box(device, brokers, options.rate, self)
        self.restore(folder)
        # Without buffers: a write is in the kernel before the message is sent.
        self.journal_file, self.settled_file = (open(folder / name, "ab", buffering=0) for name in ("journal", "settled"))

    def restore(self, folder):
        """The spools as the last process has left them; a line that a kill has cut was never sent."""
        known = set()
        if (folder / "settled").exists():
            known = {tuple(line.split()[:3]) for line in (folder / "settled").read_bytes().split(b"\n")}
        for name in ("journal", "settled"):
            path = folder / name
            if path.exists() and (data := path.read_bytes()) and not data.endswith(b"\n"):
                path.write_bytes(data[: data.rfind(b"\n") + 1])
        for line in (folder / "journal").read_bytes().splitlines() if (folder / "journal").exists() else []:
            device, spool, seq, made, topic, payload = json.loads(line)
            box = self.boxes[device]
            box.spool, box.seq = spool, seq
            if (device.encode(), spool.encode(), str(seq).encode()) not in known:
                # The time of this start: how long a message waited for a process that did not run is no property of the broker.
                box.add(seq, topic, payload, time.time())

    def journal(self, entry):
        self.journal_file.write(json.dumps(entry).encode() + b"\n")

    def settled(self, device, spool, seq, made, sent):
        self.settled_file.write(f"{device} {spool} {seq} {made:.4f} {sent:.4f} {time.time():.4f}\n".encode())

    def is_done(self):
        return self.is_ending and not any(box.waiting for box in self.boxes.values())

    def end(self):
        self.is_ending = True

    async def run(self):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.end)
        tasks = [asyncio.ensure_future(task) for box in self.boxes.values() for task in (box.make(), box.connect())]
        while not self.is_done():
            await asyncio.sleep(0.05)
            for task in tasks:
                if task.done() and task.exception():
                    raise task.exception()
        print(f"{len(self.boxes)} boxes: {self.reconnects} reconnects, {self.refused} messages refused", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--boxes", type=int, required=True)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--broker", action="append", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--mqtt", choices=["5", "3.1.1"], default="5")
    parser.add_argument("--users", action="store_true", help="the device is the user")
    parser.add_argument("--spread", action="store_true", help="begin with any of the brokers")
    asyncio.run(Site(parser.parse_args()).run())


if __name__ == "__main__":
    sys.exit(main())
