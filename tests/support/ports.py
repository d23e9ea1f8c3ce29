# SPDX-License-Identifier: Apache-2.0
"""Ports for programs whose port a test must know before they start; chosen as `ports.rs` does."""

import itertools
import os
import socket

SEARCHES = itertools.count()


def free_port():
    """An unused port, below those that the kernel gives to others meanwhile."""
    begin = os.getpid() * 7919 + next(SEARCHES) * 101
    for step in range(20_000):
        port = 10_000 + (begin + step) % 20_000
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise OSError("no port from 10000 to 29999 is free")
