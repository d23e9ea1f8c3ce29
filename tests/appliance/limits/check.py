#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package on a machine with its own kernel, where the limits and the sandbox of its units are effective: see tests/appliance/run.

What exceeds a limit is a process of this test that is put into the unit's own control group; what the sandbox refuses is tried
by probe.py, which an instance of the unit starts in the daemon's place.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

from machine import CONFIG, UNIT, go_through, held, is_up, log, message, publishes, read, run, show, soon, note, write

DRIVER = "/sys/bus/platform/drivers/vivid"
CAMERA = "/dev/video0"
PROBE = "jetwatch@probe.service"
OWN_CONFIG = f"""\
sources:
  - {{name: street, uri: 'synthetic://traffic?seed=1&objects=4&width=320&height=180&fps=5'}}
  - {{name: camera, uri: 'v4l2://{CAMERA}', format: raw, width: 320, height: 180, fps: 15, reconnect_max_wait_ms: 1000}}
detector: {{backend: onnx, model: /opt/appliance/model, workers: 1}}
publish:
  mqtt: {{listen: '127.0.0.1:1883'}}
  stats_interval_s: 1
"""

# Takes memory until it is ended.
LEAK = "held = []\nwhile True: held.append(b'1' * (8 << 20))"
# Starts threads until it is refused, and prints their number.
FLOOD = """
import threading
threading.stack_size(65536)
ended, count = threading.Event(), 1
try:
    while count < 5000:
        threading.Thread(target=ended.wait, daemon=True).start()
        count += 1
except RuntimeError:
    pass
print(count, flush=True)
ended.set()
"""


def groups():
    """The daemon's control groups: one folder, or one for each controller where systemd still has those apart."""
    found = []
    for line in read(f"/proc/{show('MainPID')}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        place = f"/sys/fs/cgroup/{controllers or ('unified' if os.path.isdir('/sys/fs/cgroup/unified') else '')}{path}"
        if path.endswith(f"/{UNIT}") and os.path.isdir(place):
            found.append(place)
    return found


def limit(*names):
    """The value of the first of these files that the daemon's control groups have."""
    for folder in groups():
        for name in names:
            if os.path.exists(f"{folder}/{name}"):
                return read(f"{folder}/{name}").strip()
    return None


def in_its_group(program):
    """Runs that in the daemon's control groups; its process when it has ended."""
    folders = groups()

    def join():
        for folder in folders:
            write(f"{folder}/cgroup.procs", "0")

    return subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, preexec_fn=join, check=False)


def kernel_says(words):
    return [line for line in run("journalctl", "--boot", "--no-pager", "--dmesg", "--output=cat").stdout.splitlines() if words in line]


def started_with_the_machine():
    held("the daemon starts with the machine", soon(is_up), show("ActiveState"))
    note(f"Linux {os.uname().release}, systemd {run('systemctl', '--version').stdout.split()[1]}, {'one' if len(groups()) == 1 else len(groups())} control group(s)")
    setting = read("/proc/sys/kernel/perf_event_paranoid")
    held("profilers may follow processes, by the kernel's own setting", setting == "2\n", setting)


def plug_in():
    write(f"{DRIVER}/bind", "vivid.0")
    let_in()


def let_in():
    """The work of udev where it runs."""
    held("the kernel makes the camera", soon(lambda: os.path.exists(CAMERA)))
    shutil.chown(CAMERA, "root", "video")
    os.chmod(CAMERA, 0o660)


def state_of_camera(wanted):
    return soon(lambda: json.loads(message("jetwatch/+/camera/status"))["state"] == wanted)


def frames_of_camera():
    return sum(each["frames"] for each in json.loads(message("jetwatch/+/stats"))["sources"] if each["source"] == "camera")


def a_camera_of_the_kernel():
    """The daemon's unit opens no device but those that it names."""
    for line in read("/opt/appliance/modules/vivid").splitlines():
        more = ("n_devs=1", "node_types=0x1", "num_inputs=1", "input_types=0x0") if line == "vivid.ko" else ()
        run("/opt/appliance/busybox", "insmod", f"/opt/appliance/modules/{line}", *more, check=False)
    if not os.path.exists(f"{DRIVER}/vivid.0"):
        write(f"{DRIVER}/bind", "vivid.0")
    let_in()
    write(CONFIG, OWN_CONFIG)
    run("systemctl", "restart", UNIT)
    held("a camera of the kernel is read in the sandbox", state_of_camera("online"), message("jetwatch/+/camera/status"))
    held("and its frames go through the network", soon(lambda: frames_of_camera() >= 10), message("jetwatch/+/stats"))
    write(f"{DRIVER}/unbind", "vivid.0")
    held("unplugged, it is offline", state_of_camera("offline"), message("jetwatch/+/camera/status"))
    plug_in()
    held("plugged in again, it is back", state_of_camera("online"), message("jetwatch/+/camera/status"))


def its_limits():
    kilobytes = int(re.search(r"MemTotal: +(\d+) kB", read("/proc/meminfo"))[1])
    most = int(limit("memory.max", "memory.limit_in_bytes"))
    held("the kernel has the unit's limit of memory", abs(most / 1024 / kilobytes - 0.7) < 0.01, (most, kilobytes))
    held("and of tasks", limit("pids.max") == "512", limit("pids.max"))
    found = {line[:25].strip(): line[26:].split()[:2] for line in read(f"/proc/{show('MainPID')}/limits").splitlines()}
    held("of open files", found["Max open files"] == ["8192", "8192"], found)
    held("no core is dumped", found["Max core file size"] == ["0", "0"], found)
    held("and there is no right to a real-time priority", found["Max realtime priority"] == ["0", "0"], found)


def a_flood_of_tasks():
    pid, stays = show("MainPID"), in_its_group(FLOOD)
    count = int(stays.stdout)
    held("a flood of tasks ends at the unit's limit", 400 < count < 512, count)
    note(f"{count} tasks beside the daemon's own")
    refused = soon(lambda: kernel_says("fork rejected by pids controller"))
    held("the kernel has refused it to this unit", refused and UNIT in refused[0], refused)
    held("the daemon runs on", is_up() and show("MainPID") == pid, show("ActiveState"))
    publishes("after a flood of tasks")


def a_leak_of_memory():
    before, pid = int(show("NRestarts")), show("MainPID")
    tells = limit("memory.events") is not None
    ended = in_its_group(LEAK)
    held("the kernel kills what takes too much memory", ended.returncode == -signal.SIGKILL, ended.returncode)
    lines = soon(lambda: kernel_says("Memory cgroup out of memory"))
    held("for the limit of its own control group", lines, run("journalctl", "--boot", "--no-pager", "--dmesg", "--lines=5").stdout)
    note((lines or [""])[-1])
    held("which is that of the unit", any(UNIT in line for line in kernel_says("oom-kill:")), kernel_says("oom-kill:"))
    if tells:
        # Where the kernel notifies systemd, the unit is marked as failed.
        held("the daemon restarts", soon(lambda: int(show("NRestarts")) == before + 1 and is_up()), (show("NRestarts"), show("ActiveState")))
        texts = [str(each["MESSAGE"]) for each in log()]
        held("systemd knows why", any("OOM killer" in text or "oom-kill" in text for text in texts), texts[-10:])
    else:
        held("the daemon runs on", is_up() and show("MainPID") == pid, show("ActiveState"))
    publishes("after a leak of memory")
    held("no other service was ended", run("systemctl", "--failed", "--no-legend").stdout.strip() == "", run("systemctl", "--failed", "--no-legend").stdout)


def its_sandbox():
    for folder in ("/etc/open", "/usr/open", "/srv/open", "/home/open", "/tmp/open"):
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o777)
    disk = os.stat("/dev/vda").st_rdev
    for name, kind, number in (("disk", 0o060666, disk), ("null", 0o020666, os.makedev(1, 3))):
        os.mknod(f"/dev/appliance-{name}", kind, number)
        os.chmod(f"/dev/appliance-{name}", 0o666)
    os.chmod("/dev/ttyS1", 0o666)
    write(f"/etc/systemd/system/{PROBE}.d/probe.conf", read("/opt/appliance/probe.conf"))
    run("systemctl", "daemon-reload")
    done = run("systemctl", "start", PROBE, check=False)
    texts = [str(each["MESSAGE"]) for each in log(unit=PROBE)]
    lines = soon(lambda: [text for text in (str(each["MESSAGE"]) for each in log(unit=PROBE)) if text.startswith("{")])
    if not held("the probe runs in the unit's sandbox", done.returncode == 0 and lines, (done.stdout, texts)):
        return
    found = json.loads(lines[0])
    open_files = found.pop("files")
    wanted = {
        **{f"write {folder}": "EROFS" for folder in ("/etc/open", "/usr/open", "/srv/open")},
        **{f"write {name}": "ok" for name in ("STATE", "CACHE", "LOGS", "/tmp", "/run/jetwatch")},
        "write /home/open": "EACCES",
        "write /tmp/open": "ENOENT",
        **{f"read only {folder}": True for folder in ("/", "/usr", "/etc", "/proc/sys", "/sys", "/sys/fs/cgroup")},
        **{f"open {device}": "ok" for device in ("/dev/null", "/dev/urandom", "/dev/appliance-null", CAMERA)},
        **{f"open {device}": "EPERM" for device in ("/dev/appliance-disk", "/dev/ttyS1")},
        **{name: "EPERM" for name in ("real-time priority", "raise the limit of files", "name space of users", "name space of networks")},
        **{name: "EPERM" for name in ("personality", "mount", "host name", "clock", "kernel log", "kernel module", "user on run")},
        **{name: "ok" for name in ("usual priority", "processor", "AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "machine code")},
        **{name: "EAFNOSUPPORT" for name in ("AF_PACKET", "AF_BLUETOOTH")},
        "open files": "EMFILE",
    }
    for name, right in wanted.items():
        held(f"{name}: {right}", found.pop(name, None) == right, json.loads(lines[0]).get(name))
    held("nothing else was tried", not found, found)
    held("8192 files are the most", 8180 <= open_files < 8192, open_files)


def outside_of_it():
    """That the same is possible without the sandbox: otherwise its refusals would prove nothing."""
    environment = {f"{name}_DIRECTORY": f"/tmp/open/{name}" for name in ("STATE", "CACHE", "LOGS")}
    for folder in environment.values():
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o777)
    words = [f"{name}={value}" for name, value in environment.items()]
    done = run("runuser", "-u", "jetwatch", "--", "env", *words, sys.executable, "/opt/appliance/probe.py", check=False)
    found = json.loads(done.stdout)
    free = [f"write {folder}" for folder in ("/etc/open", "/usr/open", "/srv/open", "/home/open", "/tmp/open")]
    free += ["open /dev/ttyS1", "open /dev/appliance-disk", "name space of users", "personality", "user on run"]
    held("without the sandbox the same user may do these", all(found[name] == "ok" for name in free), {name: found[name] for name in free})


go_through([
    started_with_the_machine,
    a_camera_of_the_kernel,
    its_limits,
    a_flood_of_tasks,
    a_leak_of_memory,
    its_sandbox,
    outside_of_it,
])
