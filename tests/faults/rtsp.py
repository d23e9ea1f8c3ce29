# SPDX-License-Identifier: Apache-2.0
"""RTSP servers in this process: a camera that sends Motion JPEG over TCP (RFC 2326, RFC 2435) and can be taken away, and cameras that lie.

The images are baseline JPEG with 4:2:0 and the standard Huffman tables, as jpegenc writes them; cases_sources.py makes them.
"""
import os
import socket
import struct
import threading
import time

CLOCK = 90000
PAYLOAD = 1400


class Jpeg:
    """What RTP needs of a JPEG file: size, quantization tables and the entropy-coded data."""

    def __init__(self, data):
        self.tables, at = [b"", b""], 2
        while True:
            marker, size = data[at + 1], int.from_bytes(data[at + 2:at + 4], "big")
            body = data[at + 4:at + 2 + size]
            at += 2 + size
            if marker == 0xDB:
                while body:
                    self.tables[body[0] & 15], body = body[1:65], body[65:]
            elif marker == 0xC0:
                self.height, self.width = struct.unpack(">HH", body[1:5])
                if body[7] != 0x22:
                    raise ValueError("the images must have 4:2:0")
            elif marker == 0xDA:
                break
        self.scan = data[at:-2] if data[-2:] == b"\xff\xd9" else data[at:]

    def packets(self):
        """RTP payloads (RFC 2435, type 1 with tables in each first packet), and whether each is the last."""
        at = 0
        while at < len(self.scan):
            head = struct.pack(">BBHBBBB", 0, at >> 16, at & 0xffff, 1, 255, self.width // 8, self.height // 8)
            if at == 0:
                tables = b"".join(self.tables)
                head += struct.pack(">BBH", 0, 0, len(tables)) + tables
            part = self.scan[at:at + PAYLOAD]
            at += len(part)
            yield head + part, at >= len(self.scan)


class Connection:
    """One client: answers its requests, and sends images after PLAY."""

    def __init__(self, camera, connection):
        self.camera, self.socket, self.is_open = camera, connection, True
        self.lock, self.playing = threading.Lock(), threading.Event()
        for task in (self.answer_all, self.play):
            threading.Thread(target=task, daemon=True).start()

    def close(self):
        self.is_open = False
        self.playing.set()
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()

    def send(self, data):
        with self.lock:
            self.socket.sendall(data)

    def answer_all(self):
        rest = b""
        try:
            while self.is_open:
                data = self.socket.recv(65536)
                if not data:
                    break
                rest += data
                while True:
                    if rest[:1] == b"$":
                        # RTCP of the client.
                        size = 4 + int.from_bytes(rest[2:4], "big")
                        if len(rest) < max(4, size):
                            break
                        rest = rest[size:]
                        continue
                    head, end, other = rest.partition(b"\r\n\r\n")
                    if not end:
                        break
                    rest = other
                    self.answer(head.decode(errors="replace").split("\r\n"))
        except OSError:
            pass
        self.close()

    def answer(self, lines):
        method, fields = lines[0].split(" ")[0], dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        reply = self.camera.reply(self, method, fields.get("CSeq", "0"))
        if reply:
            self.send(reply)
        if method == "PLAY":
            self.playing.set()

    def play(self):
        self.playing.wait()
        try:
            self.camera.play(self)
        except OSError:
            pass

    def send_rtp(self, number, stamp, payload, is_last, channel_bytes=None):
        head = struct.pack(">BBHII", 0x80, 26 | is_last << 7, number & 0xffff, stamp & 0xffffffff, 7)
        size = len(head) + len(payload) if channel_bytes is None else channel_bytes
        self.send(struct.pack(">BBH", 0x24, 0, size) + head + payload)


class Camera:
    """A camera at `rtsp://127.0.0.1:PORT/video`; port 0 takes a free one."""

    def __init__(self, images, fps=10, port=0):
        self.images, self.fps, self.port = [list(Jpeg(image).packets()) for image in images], fps, port
        self.listener, self.connections, self.is_frozen = None, [], False
        self.plug_in()

    def uri(self):
        return f"rtsp://127.0.0.1:{self.port}/video"

    def plug_in(self):
        self.is_frozen = False
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        try:
            while True:
                connection, _ = listener.accept()
                self.connections = [known for known in self.connections if known.is_open] + [Connection(self, connection)]
        except OSError:
            pass

    def take_away(self):
        """The address is gone, and the connections with it."""
        # Else `accept` keeps the port until the next client.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.drop()

    def drop(self):
        """Ends the connections; the address stays."""
        for connection in self.connections:
            connection.close()
        self.connections = []

    def freeze(self):
        """Nothing is sent any more, and all connections stay."""
        self.is_frozen = True

    def reply(self, _, method, number):
        head = f"RTSP/1.0 200 OK\r\nCSeq: {number}\r\n"
        if self.is_frozen:
            return b""
        if method == "OPTIONS":
            return f"{head}Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN, GET_PARAMETER\r\n\r\n".encode()
        if method == "DESCRIBE":
            return with_body(head, self.description())
        if method == "SETUP":
            return f"{head}Session: 7;timeout=60\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n\r\n".encode()
        return f"{head}Session: 7\r\n\r\n".encode()

    def description(self):
        return "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=camera\r\nt=0 0\r\nm=video 0 RTP/AVP 26\r\na=control:track\r\n"

    def play(self, connection):
        """Sends images until the connection ends."""
        number, frame, due = 0, 0, time.monotonic()
        while connection.is_open:
            if not self.is_frozen:
                for payload, is_last in self.images[frame % len(self.images)]:
                    connection.send_rtp(number, frame * CLOCK // self.fps, payload, is_last)
                    number += 1
            frame += 1
            due += 1 / self.fps
            time.sleep(max(0, due - time.monotonic()))


def with_body(head, body, length=None):
    length = len(body) if length is None else length
    return f"{head}Content-Type: application/sdp\r\nContent-Base: rtsp://127.0.0.1/video/\r\nContent-Length: {length}\r\n\r\n{body}".encode()


def tracks(count):
    return "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=tracks\r\nt=0 0\r\n" + "".join(
        f"m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:track{track}\r\n" for track in range(count))


class Liar(Camera):
    """A camera with one of LIES."""

    LIES = {
        "half_header": "a header without its end",
        "half_body": "a description that ends before its length",
        "slow": "one byte a second",
        "endless_header": "a line of a header without end",
        "huge_length": "Content-Length of 2 GB, and data without end",
        "negative_length": "Content-Length of -1",
        "many_tracks": "a description of 200 tracks that cannot be set up",
        "absurd_description": "a description with lines of 1 MiB and numbers out of range",
        "binary_description": "a description of random bytes",
        "redirect": "a redirect to itself",
        "unauthorized": "401 without end",
        "no_transport": "SETUP without a transport",
        "other_channel": "media on a channel that was not set up",
        "long_packets": "interleaved packets that are shorter than their length says",
        "empty_packets": "interleaved packets of 0 to 11 bytes",
        "random_packets": "RTP of random bytes",
        "image_offsets": "JPEG fragments at offsets up to 16 MiB, and of 2040×2040 pixels",
        "table_lengths": "JPEG tables that are longer than the packet",
        "dies": "ends the connection after 5 images",
        "freezes": "sends nothing after 5 images",
    }

    def __init__(self, lie, images):
        self.lie = lie
        super().__init__(images)

    def reply(self, connection, method, number):
        head = f"RTSP/1.0 200 OK\r\nCSeq: {number}\r\n"
        if self.lie == "half_header":
            return head.encode()
        if self.lie == "slow":
            self.trickle(connection, head.encode())
        if self.lie == "endless_header":
            self.flood(connection, b"X: " + b"x" * (1 << 16), head.encode())
        if self.lie == "redirect" and method == "DESCRIBE":
            return f"RTSP/1.0 301 Moved Permanently\r\nCSeq: {number}\r\nLocation: {self.uri()}\r\n\r\n".encode()
        if self.lie == "unauthorized" and method == "DESCRIBE":
            return f'RTSP/1.0 401 Unauthorized\r\nCSeq: {number}\r\nWWW-Authenticate: Basic realm="r"\r\n\r\n'.encode()
        if self.lie == "no_transport" and method == "SETUP" or self.lie == "many_tracks" and method == "SETUP":
            return f"{head}Session: 1\r\n\r\n".encode()
        if method == "DESCRIBE":
            found = self.describe(connection, head)
            if found is not None:
                return found
        return super().reply(connection, method, number)

    def describe(self, connection, head):
        """A lie about the description; None: none."""
        if self.lie == "half_body":
            return with_body(head, "v=0\r\n", 500)
        if self.lie == "negative_length":
            return with_body(head, self.description(), -1)
        if self.lie == "huge_length":
            self.flood(connection, bytes(1 << 16), with_body(head, "", 2_000_000_000))
        if self.lie == "many_tracks":
            return with_body(head, tracks(200))
        if self.lie == "binary_description":
            return with_body(head, "v=0\r\n" + os.urandom(2000).hex() + "\r\n\0\r\n=\r\nm=\r\n" * 50)
        if self.lie == "absurd_description":
            absurd = "a=x:" + "y" * (1 << 20) + "\r\nb=AS:-1\r\na=framerate:1e308\r\na=rtpmap:26 JPEG/0\r\na=framesize:26 99999-99999\r\n"
            return with_body(head, self.description() + absurd)
        return None

    def trickle(self, connection, head):
        for byte in head + b"x" * 3600:
            connection.send(bytes([byte]))
            time.sleep(1)

    def flood(self, connection, block, head):
        """Sends until the client leaves, at 1.3 MB/s: GStreamer takes as much memory as the length says, which no limit of it prevents."""
        connection.send(head)
        while connection.is_open:
            connection.send(block)
            time.sleep(0.05)

    def play(self, connection):
        if self.lie in ("dies", "freezes"):
            for frame in range(5):
                for number, (payload, is_last) in enumerate(self.images[frame % len(self.images)]):
                    connection.send_rtp(100 * frame + number, frame * 9000, payload, is_last)
                time.sleep(0.1)
            if self.lie == "dies":
                connection.close()
            return
        number = 0
        while connection.is_open:
            self.send_lie(connection, number)
            number += 1
            time.sleep(0.01)

    def send_lie(self, connection, number):
        """One packet."""
        payload, is_last = self.images[0][number % len(self.images[0])]
        stamp = number // len(self.images[0]) * 9000
        if self.lie == "other_channel":
            connection.send(struct.pack(">BBH", 0x24, 200, 1000) + os.urandom(1000))
        elif self.lie == "long_packets":
            connection.send_rtp(number, stamp, payload, is_last, 65535 if number % 5 == 4 else None)
        elif self.lie == "empty_packets":
            size = number % 12
            connection.send(struct.pack(">BBH", 0x24, number % 2, size) + os.urandom(size))
        elif self.lie == "random_packets":
            connection.send(struct.pack(">BBH", 0x24, number % 2, 1000) + b"\x80" + os.urandom(999))
        elif self.lie == "image_offsets":
            offset = 0 if number % 50 == 0 else 0xffffff - 1400 * (number % 50)
            head = struct.pack(">I", offset) + struct.pack(">BBBB", number % 256, 255, 255, 255)
            connection.send_rtp(number, stamp, head + os.urandom(1400), number % 50 == 49)
        elif self.lie == "table_lengths":
            head = struct.pack(">IBBBBBBH", 0, 1, 255, 64, 36, 0, 0, 65535)
            connection.send_rtp(number, stamp, head + os.urandom(200), 1)
        else:
            connection.send_rtp(number, stamp, payload, is_last)
