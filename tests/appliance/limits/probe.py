#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs in the sandbox of the daemon's unit, in the daemon's place, and tries what that should allow and refuse. Prints one line
of JSON: for each attempt `ok` or the name of the error. check.py beside this file knows what is right."""

import ctypes
import errno
import json
import mmap
import os
import resource
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
found = {}


def attempt(name, act):
    try:
        act()
        found[name] = "ok"
    except OSError as error:
        found[name] = errno.errorcode.get(error.errno, str(error.errno))


def call(function, *arguments):
    """A function of the C library that gives a negative number when it fails."""
    if getattr(libc, function)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), function)


def write_below(folder):
    path = os.path.join(folder, "probe")
    with open(path, "w", encoding="ascii") as file:
        file.write("written")
    os.remove(path)


def set_user_on_run():
    path = os.path.join(os.environ["STATE_DIRECTORY"], "program")
    with open(path, "w", encoding="ascii"):
        pass
    try:
        os.chmod(path, 0o4755)
    finally:
        os.remove(path)


def open_files():
    """Until no more can be opened."""
    files = []
    try:
        while True:
            files.append(os.open("/dev/null", os.O_RDONLY))
    finally:
        for file in files:
            os.close(file)
        found["files"] = len(files)


def machine_code():
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


# Folders that every user may write by their mode: the sandbox refuses it.
for folder in ("/etc/open", "/usr/open", "/srv/open", "/home/open", "/tmp/open", "/run/jetwatch"):
    attempt(f"write {folder}", lambda: write_below(folder))
for name in ("STATE", "CACHE", "LOGS"):
    attempt(f"write {name}", lambda: write_below(os.environ[f"{name}_DIRECTORY"]))
attempt("write /tmp", lambda: write_below("/tmp"))
for folder in ("/", "/usr", "/etc", "/proc/sys", "/sys", "/sys/fs/cgroup"):
    found[f"read only {folder}"] = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
# Device nodes that every user may open.
for device in ("/dev/null", "/dev/urandom", "/dev/appliance-null", "/dev/appliance-disk", "/dev/ttyS1", "/dev/video0"):
    attempt(f"open {device}", lambda: os.close(os.open(device, os.O_RDWR)))
attempt("real-time priority", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt("usual priority", lambda: os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0)))
attempt("processor", lambda: os.sched_setaffinity(0, {0}))
attempt("raise the limit of files", lambda: call("setrlimit", resource.RLIMIT_NOFILE, struct.pack("LL", 65536, 65536)))
attempt("name space of users", lambda: call("unshare", CLONE_NEWUSER))
attempt("name space of networks", lambda: call("unshare", CLONE_NEWNET))
attempt("personality", lambda: call("personality", 0x0040000))
attempt("mount", lambda: call("mount", b"none", b"/tmp", b"tmpfs", 0, None))
attempt("host name", lambda: call("sethostname", b"other", 5))
attempt("clock", lambda: call("clock_settime", 0, ctypes.create_string_buffer(struct.pack("qq", 1, 0))))
attempt("kernel log", lambda: call("klogctl", 3, ctypes.create_string_buffer(64), 64))
attempt("kernel module", lambda: call("syscall", 175, b"", 0, b""))
attempt("user on run", set_user_on_run)
for family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_BLUETOOTH"):
    kind = socket.SOCK_RAW if family in ("AF_NETLINK", "AF_PACKET") else socket.SOCK_STREAM
    attempt(family, lambda: socket.socket(getattr(socket, family), kind, 0).close())
attempt("machine code", machine_code)
attempt("open files", open_files)
print(json.dumps(found), flush=True)
