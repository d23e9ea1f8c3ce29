# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks of tests/appliance: expectations, systemd, the journal and MQTT as seen inside of the machine.

Every expectation is one printed line, `ok` or `FAILED`; the last line is `appliance: N passed, M failed`.
"""

import json
import os
import subprocess
import time

UNIT = "jetwatch.service"
CONFIG = "/etc/jetwatch/jetwatch.yaml"
# There where qemu emulates the CPU, with longer times for the unit.
EMULATED = os.path.exists("/opt/appliance/emulated.conf")
# Maximum wait for a condition, in seconds. The slowest is the watchdog: after 30 s, and after 150 s where all is emulated.
POLL_TIMEOUT = 800 if EMULATED else 240
# Maximum time of fast steps, in seconds.
SHORT = 200 if EMULATED else 20

passed = failed = 0


def held(name, is_so, evidence=""):
    """Counts an expectation, and prints the finding when it fails."""
    global passed, failed
    if is_so:
        passed += 1
        print(f"ok      {name}", flush=True)
    else:
        failed += 1
        print(f"FAILED  {name}: {evidence}", flush=True)
    return is_so


def note(text):
    print(f"        {text}", flush=True)


def soon(found, timeout=POLL_TIMEOUT):
    """The first true result of `found`; None after the timeout."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.2)
    return None


def run(*command, check=True, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=check, **options)


def dpkg(*arguments):
    done = run("dpkg", *arguments, check=False, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    held(f"dpkg {' '.join(arguments)}", done.returncode == 0, done.stdout)


def show(name, unit=UNIT):
    return run("systemctl", "show", f"--property={name}", "--value", unit).stdout.strip()


def is_up(unit=UNIT):
    return show("ActiveState", unit) == "active"


def log(*arguments, unit=UNIT):
    lines = run("journalctl", "--boot", "--no-pager", "--output=json", "--all", f"--unit={unit}", *arguments).stdout
    return [json.loads(line) for line in lines.splitlines() if line.startswith("{")]


def logged(beginning, **options):
    """The first entry with this prefix; waits for it."""
    entries = soon(lambda: [each for each in log(**options) if str(each["MESSAGE"]).startswith(beginning)])
    if not held(f"the journal has `{beginning}…`", entries, [each["MESSAGE"] for each in log(**options)][-8:]):
        return {}
    note(entries[0]["MESSAGE"])
    return entries[0]


def message(topic, port=1883):
    """One message of a topic, as a subscriber gets it; None when none comes."""

    def once():
        done = run("mosquitto_sub", "-h", "127.0.0.1", "-p", str(port), "-t", topic, "-C", "1", "-W", "60", check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    return soon(once)


def publishes(why):
    text = message("jetwatch/+/stats")
    held(f"numbers are published {why}", text and json.loads(text)["detected_frames"] > 0, text)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def go_through(steps):
    """Runs the steps in order and prints their results."""
    for step in steps:
        begun = time.monotonic()
        try:
            step()
        except Exception as error:  # The next steps still run.
            held(f"{getattr(step, '__name__', 'step')} goes through", False, f"{error!r} {getattr(error, 'output', None) or ''}")
            note("\n        ".join(str(each["MESSAGE"]) for each in log()[-12:]))
        note(f"({time.monotonic() - begun:.0f} s)")
    print(f"appliance: {passed} passed, {failed} failed", flush=True)
