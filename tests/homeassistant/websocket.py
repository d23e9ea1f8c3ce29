# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client for JSON messages (RFC 6455), as small as the tests need it."""
import base64
import json
import os
import socket
import struct

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class WebSocket:
    def __init__(self, port, path, timeout=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}"]
        self.socket.sendall("\r\n".join([*lines, "Sec-WebSocket-Version: 13", "", ""]).encode())
        self.reader = self.socket.makefile("rb")
        status = self.reader.readline()
        if b" 101 " not in status:
            raise OSError(f"no WebSocket: {status!r}")
        while self.reader.readline().strip():
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _send(self, opcode, payload):
        mask = os.urandom(4)
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
        self.socket.sendall(head + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload)))

    def _exactly(self, size):
        data = self.reader.read(size)
        if len(data) < size:
            raise OSError("the WebSocket was closed")
        return data

    def send(self, message):
        self._send(TEXT, json.dumps(message).encode())

    def receive(self):
        """The next message; waits at most as long as the timeout."""
        text = b""
        while True:
            first, second = self._exactly(2)
            size = second & 0x7F
            if size == 126:
                size, = struct.unpack("!H", self._exactly(2))
            elif size == 127:
                size, = struct.unpack("!Q", self._exactly(8))
            payload, opcode = self._exactly(size), first & 0x0F
            if opcode == CLOSE:
                raise OSError("the WebSocket was closed")
            if opcode == PING:
                self._send(PONG, payload)
            elif opcode != PONG:
                text += payload
                if first & 0x80:
                    return json.loads(text)
