#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A broker that loses nothing that it has acknowledged, or one with a fault: `broker.py PORT FILE [MODE]`.

Each message is in FILE, as one line of JSON, before it is acknowledged; so a kill at any moment loses no acknowledged one. mosquitto
promises less (see docs/src/guide/delivery.md), so its losses could not be told from those of the daemon. MQTT 5.0 and 3.1.1 as far as
a publisher uses them. MODE is one of MODES or REFUSALS.
"""
import json
import os
import random
import selectors
import socket
import struct
import sys

MODES = {
    "good": "no fault",
    "silent": "stores, and never acknowledges",
    "deaf": "neither stores nor acknowledges",
    "twice": "acknowledges twice, the second time at once or up to 60 messages later",
    "reversed": "acknowledges what it has read at once in reverse order",
    "unknown": "acknowledges numbers that were not sent, too",
    "cut_ack": "closes in the middle of an acknowledgement",
    "cut_message": "closes in the middle of a message",
    "garbage": "answers with bytes that are no packet",
    "oversize": "begins a packet of 256 MiB",
    "no_login": "never answers CONNECT",
    "cut_login": "closes in the middle of the answer to CONNECT",
}
# Refusals of MQTT 5 that pass, as of a queue with a limit.
REFUSALS = {
    "full": "takes some messages, then refuses all until the first refused event has come again once or twice, over and over",
    "overfull": "refuses each message with a chance of one half",
}
PASSING = (0x80, 0x83, 0x97)


def packets(data):
    """Complete packets at the begin of `data`, which are removed from it."""
    while len(data) >= 2:
        length, shift, at = 0, 0, 1
        while True:
            if at >= len(data):
                return
            byte = data[at]
            length |= (byte & 127) << shift
            shift += 7
            at += 1
            if byte < 128:
                break
        if len(data) < at + length:
            return
        yield data[0], bytes(data[at:at + length])
        del data[:at + length]


class Closed(Exception):
    """The connection is to be closed now."""


class Client:
    def __init__(self, connection, mode, out):
        self.socket, self.mode, self.out = connection, mode, out
        self.data, self.version, self.later = bytearray(), 5, []
        # Bytes or messages until the fault.
        self.left = random.randint(1, 60)
        # The number of the first refused event, and how often it is to come again. Where it is refused three times, others go before it.
        self.refused, self.attempts = None, 0

    def refuses(self, topic, payload):
        """Whether this message is refused, which is not stored then."""
        if self.mode == "overfull":
            return random.random() < 0.5
        if self.mode != "full":
            return False
        number = json.loads(payload)["seq"] if topic.endswith("/events") else None
        if self.refused is None:
            self.left -= self.left > 0
            if self.left > 0 or number is None:
                return False
            self.left, self.refused, self.attempts = random.randint(1, 200), number, random.randint(1, 2)
            return True
        if number == self.refused:
            self.attempts -= 1
            if self.attempts == 0:
                self.refused = None
        return self.refused is not None

    def on_data(self, data):
        """Handles what has arrived; acknowledgements are sent together."""
        if self.mode == "cut_message":
            self.left -= len(data) / 1000
            if self.left < 0:
                self.store_some(data)
                raise Closed
        self.data += data
        acknowledgements = []
        for kind, body in packets(self.data):
            if kind >> 4 == 3:
                reply = self.on_publish(kind, body)
                acknowledgements += [reply] if reply else []
            else:
                self.socket.sendall(self.answer(kind, body))
        if self.mode == "reversed":
            acknowledgements.reverse()
        for reply in acknowledgements:
            self.acknowledge(reply)

    def store_some(self, data):
        """All but the last packet, which is cut."""
        self.data += data[:len(data) // 2]
        for kind, body in packets(self.data):
            if kind >> 4 == 3:
                self.on_publish(kind, body)

    def answer(self, kind, body):
        """The reply to a packet that is no message."""
        if kind >> 4 == 1:
            self.version = body[6]
            reply = bytes([0x20, 3, 0, 0, 0]) if self.version == 5 else bytes([0x20, 2, 0, 0])
            if self.mode == "no_login":
                return b""
            if self.mode == "cut_login":
                self.socket.sendall(reply[:3])
                raise Closed
            return reply
        if kind >> 4 == 8:
            rest = bytes([0, 0]) if self.version == 5 else bytes([0])
            return bytes([0x90, 2 + len(rest)]) + body[:2] + rest
        if kind >> 4 == 12:
            return bytes([0xD0, 0])
        return b""

    def on_publish(self, kind, body):
        """The acknowledgement of a message, which goes to the file first; none for QoS 0."""
        size = int.from_bytes(body[:2], "big")
        topic, at, reply = body[2:2 + size].decode(), 2 + size, b""
        has_answer = kind >> 1 & 3
        if has_answer:
            reply = bytes([0x40, 2]) + body[at:at + 2]
            at += 2
        if self.version == 5:
            at += 1 + body[at]
        if has_answer and self.refuses(topic, body[at:]):
            return bytes([0x40, 3]) + reply[2:] + bytes([random.choice(PASSING)])
        if self.mode != "deaf":
            line = json.dumps({"topic": topic, "payload": body[at:].decode(errors="replace")})
            os.write(self.out, line.encode() + b"\n")
        return reply

    def acknowledge(self, reply):
        if self.mode in ("silent", "deaf"):
            return
        self.left -= self.mode in ("cut_ack", "garbage", "oversize")
        if self.left < 0:
            wrong = {"cut_ack": reply[:3], "garbage": os.urandom(64), "oversize": bytes([0x40, 0x80, 0x80, 0x80, 0x7f]) + bytes(4096)}
            self.socket.sendall(wrong[self.mode])
            raise Closed
        self.socket.sendall(reply)
        if self.mode == "unknown":
            other = int.from_bytes(reply[2:], "big") + 30000 & 0xffff or 1
            self.socket.sendall(bytes([0x40, 2]) + other.to_bytes(2, "big"))
        elif self.mode == "twice":
            self.later.append(reply)
            while len(self.later) > random.randint(0, 60):
                self.socket.sendall(self.later.pop(0))


def serve(client):
    """Handles what has arrived; false: the connection is to be closed."""
    try:
        data = client.socket.recv(65536)
        client.on_data(data)
    except Closed:
        # With a reset half of the time: what the daemon has not read is lost then.
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", random.randint(0, 1), 0))
        return False
    except OSError:
        return False
    return bool(data)


def main():
    mode = sys.argv[3] if len(sys.argv) > 3 else "good"
    if mode not in MODES | REFUSALS:
        sys.exit(f"broker: no mode {mode}; one of {', '.join(MODES | REFUSALS)}")
    out = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), reuse_port=False)
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.data is None:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ready.register(connection, selectors.EVENT_READ, Client(connection, mode, out))
                continue
            if not serve(key.data):
                ready.unregister(key.fileobj)
                key.fileobj.close()


if __name__ == "__main__":
    main()
