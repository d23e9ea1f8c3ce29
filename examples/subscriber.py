#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the counts, track events and analytics events of all devices: `examples/subscriber.py [HOST [PORT]]`.

Needs paho-mqtt 2 (`pip install paho-mqtt`). It subscribes with QoS 1: after a reconnect the daemon sends unacknowledged messages
again, so a message may arrive twice. A track event is identified by `id`, `type` and `frame.seq`.

    <prefix>/<device>/<source>/counts/<label>   an integer, retained: active tracks of this label
    <prefix>/<device>/<source>/groups/<group>   the same for a group of labels, where the configuration has some
    <prefix>/<device>/<source>/events           JSON: one step of a track (new, update, end)
    <prefix>/<device>/<source>/analytics        JSON: zones, lines, directions, objects at rest
"""
import argparse
import json

try:
    import paho.mqtt.client as mqtt
except ImportError:
    mqtt = None  # --help works without it

FILTERS = [
    ("jetwatch/+/+/counts/+", 1),
    ("jetwatch/+/+/groups/+", 1),
    ("jetwatch/+/+/events", 1),
    ("jetwatch/+/+/analytics", 1),
]


def on_connect(client, userdata, flags, reason, properties):
    print(f"connected: {reason}")
    client.subscribe(FILTERS)  # here, so that a reconnect subscribes again


def on_message(client, userdata, message):
    levels = message.topic.split("/")
    device, source = levels[1], levels[2]
    if levels[3] in ("counts", "groups"):
        # An empty payload clears the retained value: the source was removed.
        count = int(message.payload) if message.payload else None
        print(f"{device} {source}: {levels[4]} = {count}")
        return
    body = json.loads(message.payload)
    if levels[3] == "events":
        after = body["after"]
        print(f"{device} {source}: {body['type']} {body['label']} {body['id']}, box {after['box']}, score {after['score']:.2f}")
    else:
        print(f"{device} {source}: {body['type']} {body['name'] or ''} {body['label'] or ''}")


parser = argparse.ArgumentParser(description="Prints the counts, track events and analytics events of all devices.")
parser.add_argument("host", nargs="?", default="127.0.0.1", help="host name or address of the broker (default: %(default)s)")
parser.add_argument("port", nargs="?", type=int, default=1883, help="port of the broker (default: %(default)s)")
arguments = parser.parse_args()
if not hasattr(mqtt, "CallbackAPIVersion"):
    parser.exit(1, "subscriber.py: needs paho-mqtt 2; run: pip install paho-mqtt\n")
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
client.on_connect = on_connect
client.on_message = on_message
try:
    client.connect(arguments.host, arguments.port, keepalive=30)
    client.loop_forever()
except OSError as error:
    parser.exit(1, f"subscriber.py: cannot connect to {arguments.host}:{arguments.port}: {error}\n")
except KeyboardInterrupt:
    pass
