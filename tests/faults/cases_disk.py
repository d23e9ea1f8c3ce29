# SPDX-License-Identifier: Apache-2.0
"""Power cuts and full disks: ext4 images and a tmpfs that others fill. They need root and loop devices."""
import calendar
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from fault_site import Site, until
from ledger import Loss, is_event, json_lines, key

PAGE = 4096


class Mount:
    """A file system in memory that can be filled: ext4 on a loop device, or tmpfs."""

    def __init__(self, mebibytes, kind="ext4"):
        self.folder = Path(tempfile.mkdtemp(prefix="faults-image-", dir="/dev/shm"))
        self.image, self.mount, self.kind, self.mebibytes = self.folder / "image", self.folder / "mount", kind, mebibytes
        self.mount.mkdir()
        self.filler = self.mount / "filler"
        if kind == "ext4":
            run("truncate", "-s", f"{mebibytes}M", self.image)
            # Without reserved blocks: the daemon of the test is root, who may use them.
            run("mkfs.ext4", "-q", "-F", "-m", "0", self.image)

    def attach(self):
        if self.kind == "ext4":
            run("mount", "-o", "loop,noatime", self.image, self.mount)
        else:
            run("mount", "-t", "tmpfs", "-o", f"size={self.mebibytes}m", "tmpfs", self.mount)

    def cut_power(self):
        """Copies what was flushed; the next `attach` has only that."""
        shutil.copyfile(self.image, self.folder / "copy")

    def restore(self):
        run("umount", self.mount)
        os.replace(self.folder / "copy", self.image)

    def free(self):
        """Free bytes."""
        found = os.statvfs(self.mount)
        return found.f_bfree * found.f_frsize

    def fill(self, leave):
        """Takes all but about `leave` bytes of the free space. The daemon goes on meanwhile, so it is never exact."""
        with open(self.filler, "ab") as filler:
            for _ in range(3):
                size, free = os.fstat(filler.fileno()).st_size, self.free()
                if free <= leave:
                    break
                try:
                    os.posix_fallocate(filler.fileno(), size, free - leave)
                except OSError:
                    # The metadata of the allocation needs space, too.
                    leave += PAGE
        if leave == 0:
            self.fill_to_the_end()

    def fill_to_the_end(self):
        try:
            with open(self.filler, "ab", buffering=0) as filler:
                while True:
                    filler.write(bytes(1024))
        except OSError:
            pass

    def empty(self):
        self.filler.unlink(missing_ok=True)

    def __enter__(self):
        self.attach()
        run("sync", "-f", self.mount)
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", self.mount], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder)


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


def can_mount():
    try:
        with Mount(8):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def utc(seconds):
    moment = time.gmtime(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", moment) + f".{int(seconds % 1 * 1000):03}Z"


def as_seconds(text):
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) + float(text[19:-1])


def power_cuts(binary, count):
    """The power fails while the broker is away: nothing older than the promise is lost."""
    results = []
    for number in range(count):
        durability, kept_s = (("outage", 2.0), ("always", 0.0))[number % 2]
        with Mount(96) as image, Site(binary, state=image.mount, durability=durability, sync_ms=100) as site:
            lost, age = power_cut(site, image, kept_s)
            results.append(f"{durability} lost {lost} of the last {age:.2f} s")
    return "; ".join(results)


def power_cut(site, image, kept_s):
    """One of them; returns how many events are lost, and the age of the oldest."""
    site.start_daemon()
    site.wait_for_events(random.randint(400, 1500))
    time.sleep(random.uniform(0, 0.3))
    cut_at = time.time()
    image.cut_power()
    site.stop_daemon(signal.SIGKILL)
    image.restore()
    image.attach()
    site.lose_runtime()
    before = [event for event in json_lines(site.folder / "events.jsonl") if is_event(event)]
    site.forget()
    site.start_broker()
    site.start_daemon()

    def lost():
        site.ledger.read()
        return [event for event in before if hash(key(event)) not in site.ledger.keys]
    # The time to make, write and sync a batch on a busy machine comes on top.
    promised = utc(cut_at - kept_s - 0.1 - 1.0)
    until("events of before the cut", lambda: not any(event["frame_at"] < promised for event in lost()), 30)
    gone = [as_seconds(event["frame_at"]) for event in lost() if event["frame_at"] < utc(cut_at)]
    site.stop_daemon()
    site.check()
    return len(gone), cut_at - min(gone, default=cut_at)


# What is left when the disk becomes full: nothing, a few blocks, around the 1 MiB of a segment and the 1.5 MiB of the reserve.
LEFT = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 640, 768, 1000, 1024, 1030, 1100, 1280, 1500, 1536, 1544,
        1600, 2000, 2048, 2500, 2560, 2600]


def disk_full(binary, count):
    """Others fill the device to each of LEFT (KiB), at a start, in an outage and while draining: the daemon runs on, and nothing is lost."""
    lefts = spread(LEFT, count)
    results = []
    for durability in ("always", "outage"):
        with Mount(16) as disk, Site(binary, state=disk.mount, durability=durability, sync_ms=50) as site:
            for number, left in enumerate(lefts):
                full_round(site, disk, left * 1024, number, 2.5 if durability == "outage" else 0.2)
            site.start_daemon()
            results.append(f"{durability}: {site.drain_running()}")
            if segments(disk.mount):
                raise Loss(f"acknowledged messages stay on the device: {segments(disk.mount)}")
    return f"{'; '.join(results)}; {len(lefts)} fillings each, {lefts[0]} to {lefts[-1]} KiB left"


def full_round(site, disk, left, number, wait_s):
    """The device fills; the daemon starts on it, runs with and without a broker, and ends by SIGTERM or SIGKILL in turn."""
    begins_full = number % 3 == 0
    if begins_full:
        disk.fill(left)
    site.start_daemon()
    site.wait_for_events(some_events())
    time.sleep(wait_s)
    if not begins_full:
        disk.fill(left)
    site.wait_for_events(some_events())
    time.sleep(wait_s)
    # Draining on the full disk: cursors are written and segments removed, which need no space.
    if number % 2:
        site.start_broker()
        site.check(so_far=True)
        site.kill_broker()
        site.wait_for_events(some_events())
    kill = number % 4 > 1
    if kill:
        site.stop_daemon(signal.SIGKILL)
    else:
        site.stop_daemon()
    # Half of the next starts are on a disk that is still full.
    if number % 3:
        disk.empty()


def some_events():
    return random.randint(50, 400)


def segments(folder):
    return [path for path in folder.glob("*/*.seg") if path.stat().st_size > 4096]


def spread(values, count):
    """`count` of the values, evenly."""
    return [values[index * (len(values) - 1) // max(1, count - 1)] for index in range(min(count, len(values)))]


def tmpfs_full(binary, count):
    """Others fill the tmpfs, with a broker and in an outage: nothing is lost, because what finds no room there goes to the device."""
    events = 0
    for number in range(count):
        left = [0, 1, 8, 64, 512][number % 5]
        with Mount(4, "tmpfs") as memory, Site(binary, runtime=memory.mount, sync_ms=50) as site:
            site.start_broker()
            site.start_daemon()
            site.wait_for_events(100)
            memory.fill(left * 1024)
            site.wait_for_events(300)
            site.check(so_far=True)
            site.kill_broker()
            site.wait_for_events(1000)
            site.start_broker()
            site.wait_for_events(50)
            memory.empty()
            site.wait_for_events(200)
            site.stop_daemon()
            site.start_daemon()
            site.wait_for_events(20)
            site.stop_daemon()
            site.check()
            events += site.ledger.events
    return f"{events} events, 0 lost"
