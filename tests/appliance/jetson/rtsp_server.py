#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network camera for tests/appliance/jetson.py: H.264 at rtsp://127.0.0.1:8554/gate, until it is killed."""

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer

Gst.init(None)
server = GstRtspServer.RTSPServer(address="127.0.0.1", service="8554")
factory = GstRtspServer.RTSPMediaFactory(shared=True)
factory.set_launch(
    "( videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width=640,height=360,framerate=5/1"
    " ! x264enc tune=zerolatency speed-preset=ultrafast key-int-max=5 ! rtph264pay name=pay0 pt=96 )"
)
server.get_mount_points().add_factory("/gate", factory)
server.attach(None)
GLib.MainLoop().run()
