#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A camera over HTTP for the tests, or over HTTPS with a file that has certificate and key.

    http_camera.py IMAGE STREAM [CERTIFICATE]

Prints its port. `answers` has the path of each request so far with the status of the answer. The last part of a path says what is served: `still`, `mjpeg`,
`ts`, `hls`, whose playlist names one `segment`, `live`, whose playlist names others as time goes on, or `restarts`, as that until 6 s after the first request, when it begins again at 0. A part before it says what comes first: `basic`, `digest` or `sha256` asks for credentials, `redirect` leads to the rest of the path,
a number is the status of all answers but that of `live`.
Ends with its standard input, so that it never outlives a test.
"""

import base64
import hashlib
import http.server
import os
import re
import ssl
import sys
import threading
import time

USER, PASSWORD, REALM, NONCE = "admin", "p@ss:1", "IP Camera(12, 3)", "5d6f"
HASHES = {"digest": ("MD5", hashlib.md5), "sha256": ("SHA-256", hashlib.sha256)}
IMAGE, STREAM = (open(path, "rb").read() for path in sys.argv[1:3])
PLAYLIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nsegment\n#EXT-X-ENDLIST\n"
WHOLE = {
    "still": ("image/jpeg", IMAGE),
    "hls": ("application/vnd.apple.mpegurl", PLAYLIST),
    "segment": ("video/mp2t", STREAM),
}
answers, begins = [], {}


class Camera(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def is_logged_in(self, kind):
        given = self.headers.get("Authorization", "")
        if kind == "basic":
            return given == "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        of = {name: quoted or bare for name, quoted, bare in re.findall(r'(\w+)=(?:"([^"]*)"|([^\s,]+))', given)}
        digest = lambda text: HASHES[kind][1](text.encode()).hexdigest()
        middle = [of.get(name, "") for name in ("nonce", "nc", "cnonce", "qop")]
        whole = [digest(f"{USER}:{REALM}:{PASSWORD}"), *middle, digest(f"GET:{self.path}")]
        return of.get("uri") == self.path and of.get("response") == digest(":".join(whole))

    def refuse(self, status, name, value):
        self.send_response(status)
        self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        *before, what = self.path.strip("/").split("/")
        if before and before[0] == "redirect":
            return self.refuse(302, "Location", self.path[len("/redirect") :])
        if before and before[0].isdigit():
            if what != "live":
                return self.refuse(int(before.pop(0)), "Connection", "close")
            before = []
        if before and not self.is_logged_in(before[0]):
            scheme = "Basic" if before[0] == "basic" else "Digest"
            more = "" if before[0] == "basic" else f', nonce="{NONCE}", algorithm={HASHES[before[0]][0]}, qop="auth"'
            return self.refuse(401, "WWW-Authenticate", f'{scheme} realm="{REALM}"{more}')
        self.send_response(200)
        self.close_connection = True
        if what == "answers":
            self.end_headers()
            self.wfile.write("\n".join(answers).encode())
        elif what in WHOLE or what in ("live", "restarts") or what.startswith("segment"):
            kind, body = WHOLE["segment"] if what.startswith("segment") else WHOLE.get(what, WHOLE["hls"])
            if what in ("live", "restarts"):
                # The stream lasts two seconds.
                seconds = 2 if what == "restarts" else 1
                now = int(time.time()) // seconds
                if what == "restarts":
                    since = now - begins.setdefault(self.path, now)
                    now = now if since < 3 else since - 3
                files = "".join(f"#EXTINF:{seconds},\nsegment{now + number}\n" for number in range(4))
                body = f"#EXTM3U\n#EXT-X-TARGETDURATION:{seconds}\n#EXT-X-MEDIA-SEQUENCE:{now}\n{files}".encode()
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            self.send_header("Content-Type", "video/mp2t" if what == "ts" else "multipart/x-mixed-replace; boundary=f")
            self.end_headers()
            # A stream from its begin again and again.
            part = STREAM if what == "ts" else b"--f\r\nContent-Type: image/jpeg\r\n\r\n" + IMAGE + b"\r\n"
            while True:
                self.wfile.write(part)
                time.sleep(0.04)

    def log_request(self, code="-", size="-"):
        answers.append(f"{self.path} {int(code)}")

    def log_message(self, form, *values):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Camera)
server.daemon_threads = True
server.handle_error = lambda *_: None
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3])
    # The handshake happens on the thread of the connection.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_address[1], flush=True)
server.serve_forever()
