#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package on a virtual Jetson Xavier NX: files in place of its system, and doubles of its GStreamer elements, of
TensorRT and of CUDA (tests/virtual_jetson, tests/nvidia_doubles). See tests/appliance/run, which has put them in place.

Nothing here is a measurement of a Jetson. What is shown is that the package, its units and the daemon do what they should
with what NVIDIA documents: power and clocks before the daemon, video through NVDEC and VIC alone, a camera service that hangs.
"""

import glob
import json
import os
import signal
import subprocess
import time

from machine import CONFIG, SHORT, UNIT, dpkg, go_through, held, is_up, log, message, publishes, read, run, logged, show, soon, note, write

# The folder in place of the Jetson's files, and the one where the doubles count.
ROOT = "/opt/appliance/jetson"
STATE = "/var/lib/jetwatch/double"
SOURCES = ("csi", "usb", "gate", "clip")
CAMERA = "usb-camera.service"
TUNE = "jetwatch-tune.service"
FAN = "nvfancontrol.service"
AGAIN = "jetwatch-tune-again.path"
READINGS = "jetwatch-readings.service"
PROGRAM = ("/usr/bin/jetwatch",)
CPU_CLOCK = f"{ROOT}/sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq"
server = None


def status_of(source, wanted, timeout=None):
    """Waits until the source is in that state; its last message."""

    def found():
        text = message(f"jetwatch/+/{source}/status")
        return text if text and json.loads(text)["state"] == wanted else None

    return soon(found)


def texts_of_log():
    return [str(each["MESSAGE"]) for each in log()][-12:]


def work_done():
    """The counts of the doubles of the elements: one line per some frames."""
    with open(f"{STATE}/counts.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def tuned_before_the_daemon():
    held("the machine is tuned at boot", soon(lambda: show("ActiveState", TUNE) == "active"), show("StatusText", TUNE))
    mode = read(f"{ROOT}/var/lib/nvpmodel/status")
    held("with the power mode of the configuration", mode.strip() == "pmode:0008", mode)
    held("and the highest clocks", read(CPU_CLOCK).strip() == "1804800", read(CPU_CLOCK))
    fan = read(f"{ROOT}/double/fan")
    held("and its fan profile", fan.strip() == "cool", fan)
    held("the daemon starts after it", soon(lambda: int(show("ExecMainStartTimestampMonotonic")) >= int(show("ExecMainExitTimestampMonotonic", TUNE)) > 0))
    done = run(*PROGRAM, "tune", "status", "--json", "--root", ROOT, "--config", CONFIG, check=False)
    held("tune status finds nothing that differs", done.returncode == 0, done.stdout)
    note(run(*PROGRAM, "tune", "status", "--root", ROOT, "--config", CONFIG, check=False).stdout.strip().replace("\n", "\n        "))


def settings():
    """Output of `jetwatch tune status`."""
    done = run(*PROGRAM, "tune", "status", "--json", "--root", ROOT, "--config", CONFIG, check=False)
    return {each["setting"]: each["real"] for each in json.loads(done.stdout)["settings"]}


def the_mode_is_changed_by_hand():
    """Releases the clocks; they are held again in each mode."""
    held("a change of the mode is watched for", show("ActiveState", AGAIN) == "active", show("ActiveState", AGAIN))
    for mode, clock in (("2", "1344000"), ("8", "1804800")):
        run(f"{ROOT}/usr/sbin/nvpmodel", "-m", mode)
        held(f"a manual change to mode {mode} releases the clocks", read(CPU_CLOCK).strip() == "115200", read(CPU_CLOCK))
        held("they are held again soon", soon(lambda: settings()["clocks"] == "max", SHORT), (settings(), [each["MESSAGE"] for each in log(unit="jetwatch-tune-again.service")][-6:]))
        held("as high as that mode allows", read(CPU_CLOCK).strip() == clock, read(CPU_CLOCK))
        status = read(f"{ROOT}/var/lib/nvpmodel/status")
        held("and the mode stays", status.strip() == f"pmode:000{mode}", status)
        # systemd 245 does not watch the file while the service runs.
        ended = soon(lambda: show("ActiveState", "jetwatch-tune-again.service") == "inactive", SHORT)
        held("by a service that succeeds", ended, show("ActiveState", "jetwatch-tune-again.service"))


def stopped_by_hand():
    """Tune comes after the fan's daemon, which it restarts when it applies and when it restores the profile: no order
    of systemd's may have the one wait for the other."""
    for verb, state, profile, clock in (("restart", "active", "cool", "1804800"), ("stop", "inactive", "quiet", "115200"), ("start", "active", "cool", "1804800")):
        begun, before = time.monotonic(), show("MainPID", FAN)
        done = run("timeout", str(SHORT), "systemctl", verb, TUNE, check=False)
        held(f"{verb} of tune ends soon", done.returncode == 0, (done.returncode, done.stdout, run("systemctl", "list-jobs", "--no-pager").stdout))
        note(f"{verb}: {time.monotonic() - begun:.1f} s")
        states = (show("ActiveState", TUNE), show("ActiveState", AGAIN), show("ActiveState", FAN))
        held(f"tune and its watch are {state}, the fan's daemon runs", states == (state, state, "active"), states)
        held("another process of it than before", show("MainPID", FAN) not in ("0", before), before)
        held(f"with the profile {profile}", read(f"{ROOT}/double/fan").strip() == profile, read(f"{ROOT}/double/fan"))
        held("and the clocks that belong to it", read(CPU_CLOCK).strip() == clock, read(CPU_CLOCK))


def four_sources_through_its_engines():
    global server
    held("the daemon starts with the machine", soon(is_up), show("ActiveState"))
    server = subprocess.Popen(["/usr/bin/python3", "/opt/appliance/rtsp_server.py"], stdin=subprocess.DEVNULL)
    for source in SOURCES:
        held(f"source {source} is online", status_of(source, "online"), message(f"jetwatch/+/{source}/status"))
    # One line of counts is for up to 15 frames.
    held("all four give frames", soon(lambda: all(each["frames"] >= 30 for each in json.loads(message("jetwatch/+/stats") or '{"sources":[{"frames":0}]}')["sources"])), message("jetwatch/+/stats"))
    done = work_done()
    engines = {(each["element"], each["engine"]) for each in done}
    note(str(sorted(engines)))
    held("the USB camera comes through its element", ("v4l2src", "USB") in engines, engines)
    held("the CSI camera comes through the ISP", ("nvarguscamerasrc", "ISP") in engines, engines)
    held("H.264 is decoded by NVDEC", ("nvv4l2decoder", "NVDEC") in engines, engines)
    held("its Motion JPEG is decoded by the JPEG decoder", ("nvv4l2decoder", "NVJPG") in engines, engines)
    held("and all is scaled on the VIC", {engine for element, engine in engines if element == "nvvidconv"} == {"VIC"}, engines)
    held("only these processed images", {engine for _, engine in engines} <= {"USB", "ISP", "NVDEC", "NVJPG", "VIC"}, engines)
    publishes("of the virtual Jetson")


def the_plan():
    """The daemon holds the cameras, so that the check is made while it is stopped."""
    run("systemctl", "stop", UNIT)
    command = ("runuser", "-u", "jetwatch", "--", "env", *environment(), *PROGRAM, "check", "--root", ROOT, "--config", CONFIG)
    done = run(*command, check=False)
    note(done.stdout.strip().replace("\n", "\n        "))
    held("check succeeds", done.returncode == 0, done.stdout)
    held("and names the engines", all(word in done.stdout for word in ("ISP", "NVDEC", "NVJPG", "VIC")), done.stdout)
    good = read(CONFIG)
    # Three quarters of a megapixel in 16 by 16: no step may be larger than 16, so two are made.
    write(f"{ROOT}/broken", "")
    gone = [word for word in environment() if not word.startswith("GST_PLUGIN_PATH")]
    done = run("runuser", "-u", "jetwatch", "--", "env", *gone, *PROGRAM, "check", "--root", ROOT, "--config", CONFIG, check=False)
    held("without the elements check fails", done.returncode != 0, done.stdout)
    held("and lists the missing ones", "nvvidconv" in done.stdout or "nvv4l2decoder" in done.stdout, done.stdout)
    held("the configuration is as it was", read(CONFIG) == good)
    run("systemctl", "start", UNIT)


def environment():
    return [word for word in show("Environment").split() if "=" in word]


def a_camera_service_that_hangs():
    for source in SOURCES:
        status_of(source, "online")
    pid = show("MainPID", "nvargus-daemon.service")
    write(f"{STATE}/argus-wedged", "silent\n")
    seen = run("ls", f"/proc/{show('MainPID')}/root/tmp/argus_socket", check=False)
    held("the daemon sees where the camera service listens", seen.returncode == 0, seen.stdout)
    # A restart repairs the service, as on the real machine; its double removes the file.
    text = status_of("csi", "offline")
    held("a camera service that hangs is seen", text, message("jetwatch/+/csi/status"))
    note(text or "")
    others = json.loads(message("jetwatch/+/stats"))["sources"]
    held("the other sources continue", all(each["state"] == "online" for each in others if each["source"] != "csi"), others)
    held("the service is restarted", soon(lambda: show("MainPID", "nvargus-daemon.service") not in ("0", pid)), show("ActiveState", "jetwatch-argus.path"))
    held("and the camera is back", status_of("csi", "online"), message("jetwatch/+/csi/status"))
    seen = run("ls", f"/proc/{show('MainPID')}/root/tmp/argus_socket", check=False)
    held("the daemon sees the folder that the service has created again", seen.returncode == 0, seen.stdout)
    texts = [str(each["MESSAGE"]) for each in log("--priority=warning")]
    held("the journal has it", any("nvargus-daemon does not respond" in text for text in texts), texts[-8:])


def a_network_camera_that_goes():
    server.kill()
    server.wait()
    held("an unplugged camera is reported", status_of("gate", "offline"), message("jetwatch/+/gate/status"))
    held("the daemon continues without it", is_up())
    globals()["server"] = subprocess.Popen(["/usr/bin/python3", "/opt/appliance/rtsp_server.py"], stdin=subprocess.DEVNULL)
    held("and uses it again", status_of("gate", "online"), message("jetwatch/+/gate/status"))


def done_since(since):
    """The work of the elements since that line of the counts: the element, its engine, and the memory and format of what came in."""
    return {(each["element"], each["engine"], each["from"]["memory"], each["from"]["format"]) for each in work_done()[since:]}


def a_usb_camera_that_goes():
    run("systemctl", "stop", CAMERA)
    text = status_of("usb", "offline")
    held("an unplugged USB camera is reported", text, message("jetwatch/+/usb/status"))
    note(text or "")
    # The status says why it went; that it is not found again is in the journal.
    held("with the error of the system", "No such device" in (text or ""), text)
    warnings = lambda: [str(each["MESSAGE"]) for each in log("--priority=warning")]
    held("the journal has that it is gone", soon(lambda: any("cannot open" in line and "No such file" in line for line in warnings())), warnings()[-8:])
    others = json.loads(message("jetwatch/+/stats"))["sources"]
    held("the other sources continue without it", all(each["state"] == "online" for each in others if each["source"] != "usb"), others)
    run("systemctl", "start", CAMERA)
    held("plugged in, it is back", status_of("usb", "online"), message("jetwatch/+/usb/status"))
    run("systemctl", "stop", CAMERA)
    status_of("usb", "offline")
    write(f"/run/systemd/system/{CAMERA}.d/raw.conf", '[Service]\nEnvironment=GIVES="raw 640 480 5"\n')
    run("systemctl", "daemon-reload")
    since = len(work_done())
    run("systemctl", "start", CAMERA)
    held("a camera with raw images in its place is used", status_of("usb", "online"), message("jetwatch/+/usb/status"))
    held("and goes through the VIC", soon(lambda: ("nvvidconv", "VIC", "system", "YUY2") in done_since(since)), done_since(since))
    run("systemctl", "stop", CAMERA)
    os.remove(f"/run/systemd/system/{CAMERA}.d/raw.conf")
    run("systemctl", "daemon-reload")


def a_release_with_the_other_decoder():
    """Where the video decoder takes no JPEG, the JPEG decoder does: the daemon is restarted on such a release."""
    write(f"{STATE}/decoder-without-mjpeg", "")
    since = len(work_done())
    run("systemctl", "start", CAMERA)
    run("systemctl", "restart", UNIT)
    held("on a release whose video decoder takes no JPEG the camera is online", status_of("usb", "online"), message("jetwatch/+/usb/status"))
    held("its JPEG goes to nvjpegdec", soon(lambda: ("nvjpegdec", "NVJPG", "system", "JPEG") in done_since(since)), done_since(since))
    os.remove(f"{STATE}/decoder-without-mjpeg")
    run("systemctl", "restart", UNIT)
    held("and back to the video decoder on the other release", all(status_of(source, "online") for source in SOURCES))


def it_throttles():
    alert = f"{ROOT}/sys/class/thermal/cooling_device1/cur_state"
    write(alert, "1\n")
    text = soon(lambda: (lambda found: found if found and "cpu-throttle-alert" in found else None)(message("jetwatch/+/throttling")))
    held("throttling is an event with its cause", text and json.loads(text)["type"] == "begin", message("jetwatch/+/throttling"))
    note(text or "")
    write(alert, "0\n")
    stats = json.loads(message("jetwatch/+/stats"))
    held("statistics contain the sensors", stats.get("machine") and stats["machine"]["rails"], stats.get("machine"))


def figures_that_are_roots():
    """Those of the memory, in debugfs, which the daemon's user cannot read: a root unit copies them."""
    path = "/sys/kernel/debug/bpmp/debug/clk/emc/rate"
    done = run("runuser", "-u", "jetwatch", "--", "cat", f"{ROOT}{path}", check=False)
    held("the daemon's user cannot read the memory's clock", done.returncode != 0, done.stdout)
    done = run("runuser", "-u", "jetwatch", "--", "cat", f"{ROOT}/run/jetwatch-readings{path}", check=False)
    held("a root unit copies it", done.stdout.strip() == "1600000000", (done.stdout, show("ActiveState", READINGS), [each["MESSAGE"] for each in log(unit=READINGS)][-6:]))

    def memory():
        machine = json.loads(message("jetwatch/+/stats") or "{}").get("machine") or {"engines": []}
        return [each for each in machine["engines"] if each["engine"] == "emc"]

    found = soon(memory, SHORT)
    held("statistics contain the memory", found, message("jetwatch/+/stats"))
    note(str(found))
    # A number that is shorter than the one before it.
    write(f"{ROOT}{path}", "204000000\n")
    handed_on = f"{ROOT}/run/jetwatch-readings{path}"
    held("its figure follows", soon(lambda: run("cat", handed_on, check=False).stdout.strip() == "204000000", SHORT), run("cat", handed_on, check=False).stdout)
    write(f"{ROOT}{path}", "1600000000\n")
    run("systemctl", "stop", UNIT)
    held("the unit ends with the daemon", soon(lambda: show("ActiveState", READINGS) == "inactive", SHORT), show("ActiveState", READINGS))
    run("systemctl", "start", UNIT)
    held("and starts with it", soon(lambda: show("ActiveState", READINGS) == "active", SHORT), show("ActiveState", READINGS))


def it_is_killed():
    before = int(show("NRestarts"))
    os.kill(int(show("MainPID")), signal.SIGKILL)
    held("the daemon restarts after it was killed", soon(lambda: int(show("NRestarts")) == before + 1 and is_up()), (before, show("NRestarts"), texts_of_log()))
    held("with the engine that it had", not any("building it now" in str(each["MESSAGE"]) for each in log(f"_PID={show('MainPID')}")))
    held("and its cameras", all(status_of(source, "online") for source in SOURCES), texts_of_log())


def it_is_frozen():
    before, pid = int(show("NRestarts")), show("MainPID")
    os.kill(int(pid), signal.SIGSTOP)
    held("the daemon restarts after it was frozen", soon(lambda: int(show("NRestarts")) == before + 1 and is_up() and show("MainPID") != pid), show("ActiveState"))
    held("by the watchdog", any("Watchdog timeout" in str(each["MESSAGE"]) for each in log()), [each["MESSAGE"] for each in log()][-8:])
    held("with its cameras", all(status_of(source, "online") for source in SOURCES))


def a_wrong_configuration():
    good = read(CONFIG)
    write(CONFIG, good.replace("scaling: vic", "scaling: guess", 1))
    run("systemctl", "restart", UNIT, check=False)
    held("a wrong configuration stops the daemon without a restart", soon(lambda: show("ActiveState") == "failed") and show("ExecMainStatus") == "78", (show("ActiveState"), show("ExecMainStatus")))
    held("the machine stays tuned", show("ActiveState", TUNE) == "active" and read(CPU_CLOCK).strip() == "1804800", read(CPU_CLOCK))
    write(CONFIG, good)
    run("systemctl", "start", UNIT)
    held("with the file fixed, it runs with its cameras", is_up() and all(status_of(source, "online") for source in SOURCES), show("ActiveState"))


def the_newer_version():
    dpkg("--force-confold", "--install", "/opt/appliance/newer.deb")
    held("the daemon runs after the upgrade", soon(is_up), show("ActiveState"))
    held("and the machine is tuned", read(CPU_CLOCK).strip() == "1804800", read(CPU_CLOCK))


def removed():
    dpkg("--purge", "jetwatch")
    held("its clocks are unchanged", read(CPU_CLOCK).strip() == "115200", read(CPU_CLOCK))
    mode = read(f"{ROOT}/var/lib/nvpmodel/status")
    held("and its power mode", mode.strip() == "pmode:0002", mode)
    # What the test itself has put there is not the package's.
    left = [path for path in glob.glob("/etc/systemd/system/**/*jetwatch*", recursive=True) if not path.endswith(".d") and ".d/" not in path]
    held("no link to a unit is left", not left, left)


go_through([
    tuned_before_the_daemon,
    the_mode_is_changed_by_hand,
    stopped_by_hand,
    four_sources_through_its_engines,
    the_plan,
    a_camera_service_that_hangs,
    a_network_camera_that_goes,
    a_usb_camera_that_goes,
    a_release_with_the_other_decoder,
    it_throttles,
    figures_that_are_roots,
    it_is_killed,
    it_is_frozen,
    a_wrong_configuration,
    the_newer_version,
    removed,
])
if server:
    server.kill()
