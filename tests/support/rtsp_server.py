#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A real RTSP server (gst-rtsp-server) for the tests: a moving test image at rtsp://127.0.0.1:PORT/video, /main and /sub&; with --certificate, a file with certificate
and key, at rtsps://.

    rtsp_server.py [--port N] [--user U --password P] [--certificate PEM] [--width W --height H --fps F]
                   [--encoder ELEMENTS] [--video FILE]

With --video, an MP4 file with H.264, from its begin for each client, in place of the test image.

Prints `ready PORT` when it listens; port 0 takes a free one. Ends with its standard input, so that it never outlives a test.
"""
import argparse
import sys
import threading

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import Gio, GLib, Gst, GstRtspServer  # noqa: E402

arguments = argparse.ArgumentParser()
arguments.add_argument("--port", type=int, default=0)
arguments.add_argument("--user")
arguments.add_argument("--password")
arguments.add_argument("--certificate")
arguments.add_argument("--width", type=int, default=320)
arguments.add_argument("--height", type=int, default=240)
arguments.add_argument("--fps", type=int, default=25)
arguments.add_argument(
    "--encoder",
    default="x264enc tune=zerolatency speed-preset=ultrafast key-int-max=10 ! rtph264pay name=pay0 pt=96 config-interval=1",
)
arguments.add_argument("--video")
a = arguments.parse_args()

Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service(str(a.port))
factory = GstRtspServer.RTSPMediaFactory()
factory.set_shared(True)
factory.set_launch(
    f"( videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width={a.width},height={a.height},framerate={a.fps}/1"
    f" ! {a.encoder} )"
)
if a.video:
    factory.set_shared(False)
    factory.set_launch(f'( filesrc location="{a.video}" ! qtdemux ! h264parse ! rtph264pay name=pay0 pt=96 config-interval=1 )')
auth = GstRtspServer.RTSPAuth()
if a.user:
    token = GstRtspServer.RTSPToken()
    token.set_string("media.factory.role", a.user)
    auth.add_basic(GstRtspServer.RTSPAuth.make_basic(a.user, a.password), token)
    factory.add_role_from_structure(
        Gst.Structure.from_string(f"{a.user}, media.factory.access=(boolean)true, media.factory.construct=(boolean)true")[0]
    )
if a.certificate:
    auth.set_tls_certificate(Gio.TlsCertificate.new_from_file(a.certificate))
if a.user or a.certificate:
    server.set_auth(auth)
# The others are those of the double of an ONVIF camera.
for path in ["/video", "/main", "/sub&"]:
    server.get_mount_points().add_factory(path, factory)
if server.attach(None) == 0:
    sys.exit(f"cannot listen on port {a.port}")
print("ready", server.get_bound_port(), flush=True)

loop = GLib.MainLoop()
threading.Thread(target=lambda: (sys.stdin.read(), loop.quit()), daemon=True).start()
loop.run()
