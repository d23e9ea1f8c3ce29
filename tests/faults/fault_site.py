# SPDX-License-Identifier: Apache-2.0
"""A daemon and a broker with a folder of their own, and what is measured of them. Every case uses it."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "support"))
from ports import free_port  # noqa: E402

from ledger import NewLines, Ledger, Loss

HERE = Path(__file__).resolve().parent
SCENE = "synthetic://traffic?seed=3&objects=8&width=320&height=180&fps=60"
# A daemon that needs more is taken for one that grows without limit.
MAX_MIB = 400
# TimeoutStopSec of the unit: systemd kills a daemon that needs longer.
MAX_STOP_S = 40


def until(what, done, limit=60):
    end = time.monotonic() + limit
    while not (found := done()):
        if time.monotonic() > end:
            raise Loss(f"not within {limit} s: {what}")
        time.sleep(0.02)
    return found


def usage(pid):
    """Memory in MiB, its peak, threads and file descriptors of a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    mib = lambda name: int(status[name].split()[0]) / 1024
    return {"rss": mib("VmRSS"), "peak": mib("VmHWM"), "threads": int(status["Threads"]), "fds": len(os.listdir(f"/proc/{pid}/fd"))}


def is_listening(port):
    """Whether a socket of IPv4 listens on `port`; found without a connection, which the broker would count."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(fields[3] == "0A" and fields[1].endswith(f":{port:04X}") for fields in map(str.split, lines))


class Site:
    """A daemon and a broker. `spool` are keys of publish.mqtt.spool."""

    # Of all daemons since the begin of a case.
    peak_mib, longest_stop_s = 0.0, 0.0

    def __init__(self, binary, state=None, runtime=None, sources=None, detector=None, publish=None, queue=200, env=None, **spool):
        self.folder = Path(tempfile.mkdtemp(prefix="faults-", dir="/dev/shm"))
        self.port = free_port()
        self.binary, self.env, self.daemon, self.broker = binary, {**os.environ, **(env or {})}, None, None
        self.state, self.runtime = Path(state or self.folder / "state"), Path(runtime or self.folder / "run")
        for folder in (self.runtime, self.state):
            folder.mkdir(exist_ok=True)
        settings = {"runtime_folder": str(self.runtime), "state_folder": str(self.state), "max_per_s": 20000, **spool}
        self.config = self.folder / "site.yaml"
        self.content = {
            "device": "box",
            "sources": sources or [{"name": "cam", "uri": SCENE}],
            "detector": detector or {"backend": "scripted"},
            "publish": {
                "update_interval_ms": 20,
                "json_lines": {"path": str(self.folder / "events.jsonl")},
                "mqtt": {"broker": f"mqtt://127.0.0.1:{self.port}", "queue_messages": queue, "keep_alive_s": 5, "spool": settings},
                **(publish or {}),
            },
        }
        self.write_config()
        self.ledger = Ledger(self.folder / "events.jsonl", self.folder / "received")
        self.states = NewLines(self.folder / "events.jsonl")

    def write_config(self):
        partial = self.config.with_suffix(".new")
        partial.write_text(json.dumps(self.content))
        os.replace(partial, self.config)

    def start_daemon(self):
        with open(self.folder / "log", "ab") as log:
            self.log_before = log.tell()
            command = [self.binary, "run", "--config", self.config]
            self.daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)

    def start_broker(self, mode="good"):
        """A broker of this mode, once it listens: a daemon that stops soon after its start would not find it."""
        self.broker = subprocess.Popen([sys.executable, HERE / "broker.py", str(self.port), self.folder / "received", mode])
        until = time.monotonic() + 20
        while not is_listening(self.port):
            if self.broker.poll() is not None or time.monotonic() > until:
                raise Loss("the broker of this test does not listen")
            time.sleep(0.005)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def is_running(self):
        """Whether the present daemon has ended its start."""
        with open(self.folder / "log", "rb") as log:
            log.seek(self.log_before)
            return b"running as" in log.read()

    def usage(self):
        """What the daemon uses now; within the limit of memory."""
        try:
            found = usage(self.daemon.pid)
        except (OSError, KeyError):
            raise Loss(f"the daemon has ended with {self.daemon.poll()}:\n{self.log()[-2000:]}") from None
        Site.peak_mib = max(Site.peak_mib, found["peak"])
        if found["peak"] > MAX_MIB:
            raise Loss(f"the daemon has needed {found['peak']:.0f} MiB of memory, and {MAX_MIB} are allowed")
        return found

    def stop_daemon(self, number=signal.SIGTERM):
        """Ends the daemon; returns the seconds. SIGTERM waits for the end of the start, in which it ends the process at once."""
        self.usage()
        if number == signal.SIGTERM:
            until("the end of the start", lambda: self.daemon.poll() is not None or self.is_running(), 60)
        started = time.monotonic()
        self.daemon.send_signal(number)
        try:
            code = self.daemon.wait(MAX_STOP_S)
        except subprocess.TimeoutExpired:
            raise Loss(f"the daemon did not stop within {MAX_STOP_S} s:\n{self.log()[-2000:]}") from None
        if code != (0 if number == signal.SIGTERM else -number):
            raise Loss(f"the daemon ended with {code}:\n{self.log()[-2000:]}")
        seconds = time.monotonic() - started
        Site.longest_stop_s = max(Site.longest_stop_s, seconds)
        return seconds

    def reload(self, sources):
        """Replaces the sources of the running daemon."""
        self.content["sources"] = sources
        self.write_config()
        reloads = NewLines(self.folder / "events.jsonl", at_end=True)
        self.daemon.send_signal(signal.SIGHUP)
        result = until("a reload", lambda: next((line for line in reloads.read() if line.get("kind") == "reload"), None), 90)
        if result["state"] != "applied":
            raise Loss(f"a reload failed: {result}")

    def kill_broker(self):
        self.broker.kill()
        self.broker.wait()

    def restart_broker(self, mode="good"):
        self.kill_broker()
        self.start_broker(mode)

    def wait_for_events(self, count, source=None):
        """Waits for this many more events, of `source` where it is given."""
        lines, found = NewLines(self.folder / "events.jsonl", at_end=True), [0]

        def enough():
            found[0] += sum(1 for line in lines.read() if line.get("kind") == "event" and source in (None, line["source"]))
            if self.daemon.poll() is not None:
                raise Loss(f"the daemon has ended with {self.daemon.poll()}:\n{self.log()[-2000:]}")
            return found[0] >= count
        until(f"{count} events of {source or 'any source'}", enough)

    def wait_for_state(self, source, state, limit=60):
        """Waits for this state of a source since the last such wait."""
        wanted = lambda line: line.get("kind") == "source" and line["source"] == source and line["state"] == state
        until(f"{source} is {state}", lambda: any(map(wanted, self.states.read())), limit)

    def check(self, so_far=False, limit=90):
        """All of the truth arrives, in order and with one number each. `so_far`: what the daemon has made until now; it goes on."""
        self.ledger.read()
        wanted = set(self.ledger.waiting) if so_far else None
        try:
            until("all events", lambda: self.ledger.read() and not self.ledger.missing(wanted), limit)
        except Loss as error:
            missing = self.ledger.missing(wanted)
            if not missing:
                raise
            raise Loss(f"{len(missing)} of {self.ledger.events} events are lost, the first: {missing[0]} ({error})") from None
        if self.daemon.poll() is None:
            self.usage()
        return f"{self.ledger.events} events, {self.ledger.repeats} repeats"

    def drain(self):
        """A broker without faults takes all that waits."""
        self.start_broker()
        self.start_daemon()
        self.wait_for_events(20)
        self.stop_daemon()
        return self.check()

    def drain_running(self):
        """As `drain` with the daemon that runs."""
        self.start_broker()
        self.wait_for_events(20)
        self.check(so_far=True)
        self.stop_daemon()
        return self.check()

    def forget(self):
        """The truth begins again, as after a restart of the machine."""
        os.rename(self.folder / "events.jsonl", self.folder / "before")
        self.ledger = Ledger(self.folder / "events.jsonl", self.folder / "received")

    def lose_runtime(self):
        """tmpfs does not survive a restart of the machine."""
        shutil.rmtree(self.runtime)
        self.runtime.mkdir()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in (self.daemon, self.broker):
            if process and process.poll() is None:
                process.kill()
                process.wait()
        if kind is None:
            shutil.rmtree(self.folder)
        else:
            print(f"faults: kept {self.folder}")
