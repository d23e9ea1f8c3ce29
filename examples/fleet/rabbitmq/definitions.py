#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes definitions.json of RabbitMQ: `definitions.py CONSUMER_PASSWORD_FILE <boxes >definitions.json`.

`boxes` has a line `DEVICE PASSWORD` for each box; the name of a box's user is its device. Passwords are salted hashes in the result.

- A box may publish below jetwatch/DEVICE and read there (commands, and its own old values), and nothing else.
- The user `consumer` may read everything below jetwatch, and has the session of the client ids that begin with fleet-consumer.
- The policy: RabbitMQ drops a message of a quorum queue after 20 deliveries without acknowledgement, which is a consumer that was killed
  20 times. -1 switches that off. The queue has no max-length: the disks of the nodes are the limit.
"""
import base64
import hashlib
import json
import os
import re
import sys


def user(name, password):
    salt = os.urandom(4)
    digest = base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
    return {"name": name, "password_hash": digest, "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": []}


def permission(name, queues):
    own = f"^{queues}$"
    both = f"^(amq\\.topic|{queues})$"
    return {"user": name, "vhost": "/", "configure": own, "write": both, "read": both}


def topics(name, pattern, may_write):
    return {"user": name, "vhost": "/", "exchange": "amq.topic", "write": pattern if may_write else "^$", "read": pattern}


def main():
    consumer_password = open(sys.argv[1]).readline().rstrip("\n")
    users, permissions, topic_permissions = [user("consumer", consumer_password)], [], []
    permissions.append(permission("consumer", "mqtt-subscription-fleet-consumer.*"))
    topic_permissions.append(topics("consumer", "^jetwatch\\.", False))
    for line in filter(str.strip, sys.stdin):
        device, password = line.split()
        users.append(user(device, password))
        permissions.append(permission(device, f"mqtt-(subscription|will)-jetwatch-{re.escape(device)}.*"))
        # In routing keys, levels end with a point, and a point of the topic is a slash.
        topic_permissions.append(topics(device, f"^jetwatch\\.{re.escape(device.replace('.', '/'))}\\.", True))
    policy = {"vhost": "/", "name": "fleet-consumer", "pattern": "^mqtt-subscription-fleet-consumer", "apply-to": "queues", "priority": 0,
              "definition": {"delivery-limit": -1}}
    json.dump({"users": users, "vhosts": [{"name": "/"}], "permissions": permissions, "topic_permissions": topic_permissions,
               "policies": [policy]}, sys.stdout, indent=1)


main()
