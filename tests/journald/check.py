#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the journal with the expected log of the daemon: started by systemd in tests/journald/run.

Every expectation is one printed line, `ok` or `FAILED`; the last line is `journald: N passed, M failed`.
"""

import json
import os
import subprocess
import time

PLACE = "/opt/jetwatch-proof"
BINARY = f"{PLACE}/jetwatch"
UNIT = "jetwatch-proof.service"
# Maximum wait for a condition, in seconds.
POLL_TIMEOUT = 40
# Priorities of syslog, as the journal counts them.
ERROR, WARNING, NOTICE, INFO = "3", "4", "5", "6"

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


def journal(*arguments):
    """Entries of this boot, oldest first, as journalctl gives them to a program."""
    done = subprocess.run(
        ["journalctl", "--boot", "--no-pager", "--output=json", "--all", *arguments], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def soon(found):
    """The first true result of `found`; None after the timeout."""
    end = time.monotonic() + POLL_TIMEOUT
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.2)
    return None


def entry(beginning, *arguments):
    """The first entry of the daemon with this prefix; waits for it."""

    def found():
        texts = journal(f"--unit={UNIT}", *arguments)
        return next((each for each in texts if str(each["MESSAGE"]).startswith(beginning)), None)

    return soon(found)


def has(name, found, **wanted):
    """The entry is there and has these fields with these values."""
    if found is None:
        texts = [each["MESSAGE"] for each in journal(f"--unit={UNIT}")][-10:]
        held(name, False, f"no such entry; the last ones are {texts}")
        return
    different = {key: found.get(key) for key, value in wanted.items() if found.get(key) != value}
    held(name, not different, f"expected {wanted}, found {different}")
    shown = ("PRIORITY", "SYSLOG_IDENTIFIER", "TARGET", *wanted)
    print("        " + " ".join(f"{key}={found.get(key)!r}" for key in dict.fromkeys(shown)))
    print(f"        {found['MESSAGE']}", flush=True)


def systemctl(*arguments):
    return subprocess.run(["systemctl", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def process():
    return systemctl("show", "--property=MainPID", "--value", UNIT)


def the_log_of_the_daemon():
    systemctl("start", UNIT)
    pid = process()
    ours = {"_TRANSPORT": "journal", "SYSLOG_IDENTIFIER": "jetwatch", "_SYSTEMD_UNIT": UNIT, "_PID": pid}
    running = entry("running as proof")
    has("an information is a notice with its fields", running, PRIORITY=NOTICE, SOURCES="3", TARGET="jetwatch::run", **ours)
    has("a line about a source names it", entry("online"), PRIORITY=NOTICE, SOURCE="street", **ours)
    has("a source that is tried again is a warning", entry("", "SOURCE=gate"), PRIORITY=WARNING, RETRY_MS="200", **ours)
    has("a source that fails for good is an error", entry("failed: "), PRIORITY=ERROR, SOURCE="tape", **ours)
    broker = soon(lambda: journal(f"--unit={UNIT}", "TARGET=jetwatch_publish::mqtt::worker"))
    has("a broker that is away is a warning", broker and broker[0], PRIORITY=WARNING, REPEATS="0", **ours)

    names = {each["SOURCE"] for each in journal("SOURCE=gate")}
    held("`journalctl SOURCE=gate` shows only that source", names == {"gate"}, names)
    levels = {each["PRIORITY"] for each in journal(f"--unit={UNIT}", "--priority=warning") if each["_TRANSPORT"] == "journal"}
    held("`journalctl --priority=warning` hides the rest", levels == {ERROR, WARNING}, levels)
    logged = {each["MESSAGE"] for each in journal(f"--unit={UNIT}", "_TRANSPORT=journal")}
    plain = [each["MESSAGE"] for each in journal(f"--unit={UNIT}", "_TRANSPORT=stdout")]
    twice = [text for text in plain if any(line in text for line in logged)]
    held("no line is written to standard error as well", not twice, twice)
    return pid


def a_journal_that_restarts(pid):
    systemctl("restart", "systemd-journald.service")
    since = time.time_ns() // 1000
    later = soon(lambda: [each for each in journal("SOURCE=gate") if int(each["__REALTIME_TIMESTAMP"]) > since])
    held("the log continues when journald restarts", bool(later) and later[0]["_PID"] == pid, later)


def the_end():
    systemctl("stop", UNIT)
    has("a stop names its signal", entry("stopping"), PRIORITY=NOTICE, SIGNAL="15")
    ended = entry("ended: ")
    has("the end has the totals", ended, PRIORITY=NOTICE)
    held("frames were counted", int((ended or {}).get("FRAMES", 0)) > 0, ended)


def fatal_errors():
    """What ends the daemon is an error in the journal, whether the log has started by then or not."""
    unit = "jetwatch-wrong.service"
    configuration = "/run/wrong.yaml"
    with open(configuration, "w", encoding="utf-8") as file:
        file.write("sources: []\ndetector:\n  backend: guess\n")
    with open(f"/run/systemd/system/{unit}", "w", encoding="utf-8") as file:
        file.write(f"[Service]\nType=oneshot\nExecStart={BINARY} run --config {configuration}\n")
    systemctl("daemon-reload")
    subprocess.run(["systemctl", "start", unit], capture_output=True, check=False)
    status = systemctl("show", "--property=ExecMainStatus", "--value", unit)
    held("a wrong configuration ends the unit with 78", status == "78", status)

    def said():
        return [each["MESSAGE"] for each in journal(f"--unit={unit}", "--priority=err", "_TRANSPORT=stdout")]

    lines = soon(lambda: len(said()) >= 2 and said()) or []
    text = "\n".join(lines)
    held("its problems are errors in the journal", "wrong.yaml:3" in text and "guess" in text, [(each["PRIORITY"], each["MESSAGE"]) for each in journal(f"--unit={unit}")])
    print("        " + text.replace("\n", "\n        "))


def a_shell_below_a_service():
    """JOURNAL_STREAM is inherited by everything below a service; standard error may go elsewhere all the same."""
    done = subprocess.run(
        [BINARY, "run", "--duration", "1s", "--config", f"{PLACE}/tests/daemon.yaml"], capture_output=True, text=True, check=False
    )
    held("JOURNAL_STREAM is set here", "JOURNAL_STREAM" in os.environ)
    held("what does not write to the journal keeps its own standard error", "running as proof" in done.stderr, done.stderr)


pid = the_log_of_the_daemon()
a_journal_that_restarts(pid)
the_end()
fatal_errors()
a_shell_below_a_service()
print(f"journald: {passed} passed, {failed} failed", flush=True)
