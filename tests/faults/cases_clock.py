# SPDX-License-Identifier: Apache-2.0
"""The wall clock of the daemon is set while it runs: NTP after a start without a battery for the clock, or an administrator."""
import datetime
import signal
import struct
import subprocess
import time

from fault_site import HERE, Site
from ledger import Loss

# The daemon looks for messages that are too old every 10 s.
EXPIRY_S = 10.5
SPREAD_S = 2


class Clock:
    """The library that shifts the clock of a process, and its shift in seconds."""

    def __init__(self, folder):
        self.library, self.file = folder / "clock.so", folder / "clock"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", self.library, HERE / "clock.c"], check=True, capture_output=True)
        self.env = {"LD_PRELOAD": str(self.library), "JETWATCH_CLOCK": str(self.file)}
        self.file.write_bytes(bytes(8))
        self.shifts = [0]

    def set(self, shift):
        self.shifts.append(shift)
        with open(self.file, "r+b") as file:
            file.write(struct.pack("=q", int(shift * 1e9)))

    def may_show(self, seconds, begin):
        """Whether the daemon's clock may have shown this time since `begin`."""
        return any(begin - SPREAD_S <= seconds - shift <= time.time() + SPREAD_S for shift in self.shifts)


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Times:
    """Checks the times in all messages."""

    def __init__(self, site, clock):
        self.site, self.clock, self.begin = site, clock, time.time()
        self.longest_ms, self.latest_ms, self.oldest_ms = 0, 0, 0
        site.ledger.watch = self.check

    def check(self, message):
        limit = (time.time() - self.begin + SPREAD_S) * 1000
        durations = {name: message[name] for name in ("duration_ms", "late_ms") if message.get(name) is not None}
        if message.get("kind") == "stats" and message.get("spool"):
            durations["oldest_age_ms"] = message["spool"]["oldest_age_ms"] or 0
        for name, value in durations.items():
            if not 0 <= value <= limit:
                raise Loss(f"{name} is {value} after {limit / 1000:.0f} s: {message}")
        self.longest_ms = max(self.longest_ms, durations.get("duration_ms", 0))
        self.latest_ms = max(self.latest_ms, durations.get("late_ms", 0))
        self.oldest_ms = max(self.oldest_ms, durations.get("oldest_age_ms", 0))
        for name in ("started_at", "frame_at", "ended_at", "at"):
            if message.get(name) and not self.clock.may_show(seconds_of(message[name]), self.begin):
                raise Loss(f"{name} is a time that the clock never had: {message}")


def clock_steps(binary, count):
    """The clock is set by 1 h, by 10 d and to 1970, to and fro, with and without a broker; `max_age` is 1 h, and nothing is that old."""
    now = time.time()
    # Longer than max_age forward, so that what waits looks too old; and backward, so that it looks as if it came from the future.
    shifts = [10 * 86400, 10 * 86400 - 3600, 1000 - now, 0, -3600, 0, 1000 - now, 10 * 86400, 3600, 0]
    with Site(binary, publish={"stats_interval_s": 1}, durability="outage", sync_ms=200, max_age="1h", max_bytes="6MiB") as site:
        clock = Clock(site.folder)
        site.env.update(clock.env)
        times = Times(site, clock)
        site.start_broker()
        site.start_daemon()
        for number in range(count):
            site.wait_for_events(100)
            is_away = number % 3 != 1
            if is_away:
                site.kill_broker()
                # A whole segment from before the step: one that is young in part does not expire.
                site.wait_for_events(1300)
            clock.set(shifts[number % len(shifts)])
            site.wait_for_events(300)
            if number % 3 == 2:
                # The clock is set, and another process finds what waits.
                site.stop_daemon(signal.SIGKILL)
                site.start_daemon()
            if is_away:
                time.sleep(EXPIRY_S)
                site.start_broker()
            site.check(so_far=True)
        site.stop_daemon()
        result = site.check()
        ages = f"durations up to {times.longest_ms / 1000:.0f} s, late by at most {times.latest_ms / 1000:.0f} s"
        return f"{result}; {ages}, the oldest in statistics {times.oldest_ms / 1000:.0f} s"
