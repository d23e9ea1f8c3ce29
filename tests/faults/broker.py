#!/usr/bin/env python3
"""A broker that loses nothing that it has acknowledged: `broker.py PORT FILE`.

Each message is in FILE, as one line of JSON, before it is acknowledged; so a kill at any moment loses no acknowledged one. mosquitto
promises less (see docs/src/guide/delivery.md), so its losses could not be told from those of the daemon. MQTT 5.0 and 3.1.1 as far as
a publisher uses them.
"""
import json
import os
import selectors
import socket
import sys


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


class Client:
    def __init__(self, connection):
        self.socket, self.data, self.version = connection, bytearray(), 5

    def answer(self, kind, body, out):
        """The reply to a packet; a message goes to the file `out` first."""
        if kind >> 4 == 1:
            self.version = body[6]
            return bytes([0x20, 3, 0, 0, 0]) if self.version == 5 else bytes([0x20, 2, 0, 0])
        if kind >> 4 == 3:
            size = int.from_bytes(body[:2], "big")
            topic, at, reply = body[2:2 + size].decode(), 2 + size, b""
            if kind >> 1 & 3:
                reply = bytes([0x40, 2]) + body[at:at + 2]
                at += 2
            if self.version == 5:
                at += 1 + body[at]
            line = json.dumps({"topic": topic, "payload": body[at:].decode(errors="replace")})
            os.write(out, line.encode() + b"\n")
            return reply
        if kind >> 4 == 8:
            rest = bytes([0, 0]) if self.version == 5 else bytes([0])
            return bytes([0x90, 2 + len(rest)]) + body[:2] + rest
        if kind >> 4 == 12:
            return bytes([0xD0, 0])
        return b""


def main():
    out = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), reuse_port=False)
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.data is None:
                connection, _ = listener.accept()
                ready.register(connection, selectors.EVENT_READ, Client(connection))
                continue
            client = key.data
            try:
                data = client.socket.recv(65536)
                client.data += data
                for kind, body in packets(client.data):
                    client.socket.sendall(client.answer(kind, body, out))
            except OSError:
                data = b""
            if not data:
                ready.unregister(client.socket)
                client.socket.close()


main()
