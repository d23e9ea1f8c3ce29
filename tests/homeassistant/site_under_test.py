# SPDX-License-Identifier: Apache-2.0
"""A mosquitto and a daemon with a folder of their own. The daemon's machine are the files of a Jetson Xavier NX."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "support"))
from ports import free_port  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SCENE = "synthetic://traffic?seed=3&objects=8&width=320&height=180&fps=10"


class Failed(Exception):
    pass


def until(what, done, limit=60):
    """Polls until `done` gives something."""
    end = time.monotonic() + limit
    while not (found := done()):
        if time.monotonic() > end:
            raise Failed(f"not within {limit} s: {what}")
        time.sleep(0.1)
    return found


def find(program):
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Failed(f"{program} is not installed: .ci/setup test")
    return found


class Site:
    def __init__(self, binary, device="gate"):
        self.binary, self.device = binary, device
        self.folder = Path(tempfile.mkdtemp(prefix="homeassistant-site-"))
        self.port, self.broker, self.daemon = free_port(), None, None
        for folder in ("run", "state"):
            (self.folder / folder).mkdir()
        self.machine = self.folder / "machine"
        subprocess.run([ROOT / "tests/virtual_jetson/make", "xavier_nx", self.machine], check=True, stdout=subprocess.DEVNULL)
        spool = {"runtime_folder": str(self.folder / "run"), "state_folder": str(self.folder / "state")}
        self.content = {
            "device": device,
            "sources": [],
            "detector": {"backend": "scripted"},
            "publish": {"stats_interval_s": 1, "mqtt": {"broker": f"mqtt://127.0.0.1:{self.port}", "spool": spool}},
            "homeassistant": {"enabled": True},
            "commands": {"enabled": True},
        }

    def start_broker(self):
        """Without persistence: a broker that restarts has lost what it retained."""
        config = self.folder / "mosquitto.conf"
        user = "user root\n" if os.geteuid() == 0 else ""
        config.write_text(f"{user}listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
        with open(self.folder / "broker.log", "ab") as log:
            self.broker = subprocess.Popen([find("mosquitto"), "-c", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until("mosquitto listens", self._listens)

    def _listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def kill_broker(self):
        if self.broker is not None:
            self.broker.kill()
            self.broker.wait()
            self.broker = None

    def write_config(self):
        partial = self.folder / "site.yaml.new"
        partial.write_text(json.dumps(self.content))
        os.replace(partial, self.folder / "site.yaml")

    def start_daemon(self):
        """Until it runs: before, a signal ends it at once."""
        self.write_config()
        starts = self.log().count(" running as ")
        with open(self.folder / "log", "ab") as log:
            command = [self.binary, "run", "--config", self.folder / "site.yaml", "--root", self.machine]
            self.daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until("the daemon runs", lambda: self.log().count(" running as ") > starts or self.daemon.poll() is not None)

    def set_temperature(self, zone, celsius):
        folder = next(kind.parent for kind in self.machine.glob("sys/class/thermal/thermal_zone*/type") if kind.read_text().strip() == zone)
        (folder / "temp").write_text(f"{round(celsius * 1000)}\n")

    def end_throttling(self):
        for alarm in self.machine.glob("sys/class/hwmon/hwmon*/curr*_crit_alarm"):
            alarm.write_text("0\n")

    def write_update(self, state, reason=None, installed="1.0.0", held=None):
        """As the updater does."""
        path = self.machine / "var/lib/jetwatch-setup/update/status.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        status = {"version": 1, "state": state, "installed": installed, "latest": "1.1.0", "held": held, "previous": None, "reason": reason, "at_ms": 1_700_000_000_000}
        path.with_suffix(".new").write_text(json.dumps(status))
        os.replace(path.with_suffix(".new"), path)

    def reload(self):
        self.write_config()
        self.daemon.send_signal(signal.SIGHUP)

    def stop_daemon(self, number=signal.SIGTERM):
        self.daemon.send_signal(number)
        code = self.daemon.wait(60)
        if code != (0 if number == signal.SIGTERM else -number):
            raise Failed(f"the daemon ended with {code}:\n{self.log()[-2000:]}")
        self.daemon = None

    def log(self):
        """Empty before the first start."""
        log = self.folder / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    def close(self):
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon.wait()
        self.kill_broker()
        shutil.rmtree(self.folder, ignore_errors=True)

    def publish(self, topic, payload, retain=False):
        command = [find("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(self.port), "-q", "1", "-t", topic, "-m", payload]
        subprocess.run([*command, *(["-r"] if retain else [])], check=True, timeout=30)

    def retained(self, topic):
        """Retained messages by topic."""
        command = [find("mosquitto_sub"), "-h", "127.0.0.1", "-p", str(self.port), "-t", topic, "--retained-only", "-W", "1", "-F", "%t %p"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
        return dict(line.split(" ", 1) for line in found.splitlines())

    def announced(self):
        """The discovery messages of the device, by topic."""
        found = self.retained(f"homeassistant/device/jetwatch--{self.device}/+/config")
        return {topic: json.loads(payload) for topic, payload in found.items()}
