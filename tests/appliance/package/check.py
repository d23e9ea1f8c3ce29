#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package on a machine of any kind, from the first start to purge: see tests/appliance/run."""

import glob
import json
import os
import re
import shutil
import signal
import time

from machine import CONFIG, EMULATED, UNIT, dpkg, go_through, held, is_up, log, message, publishes, read, run, logged, show, soon, note, write

SETTING = "/proc/sys/kernel/perf_event_paranoid"
SECOND = "jetwatch@second.service"
SECOND_DROP_INS = f"/etc/systemd/system/{SECOND}.d"
# A configuration that a user may have written: an offline camera, and a network in ONNX Runtime, which cannot be
# emulated (its account of processors dies), so that there is ground truth in its place, and no camera, which has none.
HAS_NETWORK = not EMULATED
# Of the package jetwatch-onnxruntime; no configuration and no variable of the environment names it.
RUNTIME_FOLDER = "/usr/lib/jetwatch/onnxruntime"
GATE = "  - {name: gate, uri: 'rtsp://127.0.0.1:9/gate', stall_timeout_ms: 1000}\n"
OWN_CONFIG = f"""\
sources:
  - name: street
    uri: synthetic://traffic?seed=1&objects=4&width=320&height=180&fps=5
{GATE if HAS_NETWORK else ""}
detector:
  backend: {f"onnx{chr(10)}  model: /opt/appliance/model" if HAS_NETWORK else "scripted"}
publish:
  mqtt:
    listen: 127.0.0.1:1883
"""


def started_with_the_machine():
    held("the daemon starts with the machine", soon(is_up), show("ActiveState"))
    held("it is enabled", run("systemctl", "is-enabled", UNIT).stdout.strip() == "enabled")
    times = [int(show(name)) for name in ("ExecMainStartTimestampMonotonic", "ActiveEnterTimestampMonotonic")]
    note(f"systemd {run('systemctl', '--version').stdout.split()[1]}; ready {(times[1] - times[0]) / 1e6:.2f} s after its start")
    status = show("StatusText")
    held("its status line has the state", re.match(r"1 of 1 sources online; [\d.]+ frames/s, \d+ tracks, \d+ frames in all, \d+ dropped$", status), status)
    note(status)
    logged("ready: ")
    text = message("jetwatch/+/street/events")
    held("events are published to the broker inside", text and json.loads(text)["type"] in ("new", "update", "end"), text)


def its_sandbox():
    of_process = read(f"/proc/{show('MainPID')}/status")
    fields = dict(line.split(":\t", 1) for line in of_process.splitlines() if ":\t" in line)
    user = run("id", "jetwatch").stdout.strip()
    note(user)
    held("it runs as its own user", fields["Uid"].split()[0] == re.search(r"uid=(\d+)", user)[1] != "0", fields["Uid"])
    held("which may use cameras and engines", "(video)" in user and "(render)" in user, user)
    ids = set(re.findall(r"(\d+)\((?:video|render)\)", user))
    held("the process is a member of these groups", ids <= set(fields["Groups"].split()), fields["Groups"])
    rights = {name: fields[name].strip() for name in ("CapEff", "CapBnd", "CapAmb")}
    held("it has no rights and can have none", all(int(value, 16) == 0 for value in rights.values()) and fields["NoNewPrivs"].strip() == "1", fields)
    if os.uname().machine == "x86_64":
        held("its system calls are filtered", fields["Seccomp"].strip() == "2", fields["Seccomp"])
    folders = {path: os.stat(path) for path in ("/var/lib/jetwatch", "/var/cache/jetwatch", "/var/log/jetwatch", "/etc/jetwatch/secrets")}
    held("its folders are closed to others", all(stat.st_mode & 0o7777 == 0o750 for stat in folders.values()), folders)
    of_root = os.stat("/etc/jetwatch/credentials")
    held("and one only to root", (of_root.st_mode & 0o7777, of_root.st_uid, of_root.st_gid) == (0o700, 0, 0), of_root)


def its_unit():
    others = [os.path.basename(path) for path in glob.glob("/lib/systemd/system/jetwatch-*")]
    unknown = run("systemd-analyze", "verify", UNIT, SECOND, *others, check=False).stdout.splitlines()
    # Manual pages cannot be looked up: there is no `man`.
    unknown = [line for line in unknown if "jetwatch" in line and "Command 'man " not in line]
    held("systemd knows every directive of the units", not unknown, unknown)
    counted = run("systemd-analyze", "security", "--no-pager", UNIT, check=False).stdout
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", counted)
    held("its exposure is 1.8 or less", exposure and float(exposure[1]) <= 1.8, counted[-300:])
    note(exposure[0] if exposure else "")


def its_own_configuration():
    """From here on one camera is always offline, which is no stall, and a network runs in ONNX Runtime."""
    write(CONFIG, OWN_CONFIG)
    run("systemctl", "restart", UNIT)
    held("the daemon is ready with its user's configuration", is_up(), show("ActiveState"))
    status = show("StatusText")
    if HAS_NETWORK:
        held("an offline camera does not delay readiness", "1 of 2 sources online (without gate)" in status, status)
        maps = read(f"/proc/{show('MainPID')}/maps")
        held("it runs ONNX Runtime of the package jetwatch-onnxruntime", f"{RUNTIME_FOLDER}/libonnxruntime.so." in maps, maps[-400:])
    note(status)


def onnxruntime_of_its_package():
    libraries = glob.glob(f"{RUNTIME_FOLDER}/libonnxruntime.so.*")
    held("one library is installed", len(libraries) == 1, libraries)
    linked = run("ldd", "-r", *libraries, check=False).stdout
    held("every library and symbol that it needs is on this machine", linked and not re.search("not found|undefined symbol", linked), linked)
    notices = {name: os.path.exists(f"/usr/share/doc/jetwatch-onnxruntime/{name}") for name in ("copyright", "ThirdPartyNotices.txt.gz")}
    held("its licence and notices are installed", all(notices.values()), notices)
    if HAS_NETWORK:
        line = line_of_doctor()
        held("jetwatch doctor finds it", line.startswith("ok") and f": {libraries[0]} (" in line, line)


def its_bill_of_materials_is_there():
    with open("/usr/share/jetwatch/sbom.cdx.json", encoding="utf-8") as file:
        bill = json.load(file)
    program = bill["metadata"]["component"]
    installed = run("dpkg-query", "-W", "-f", "${Version}", "jetwatch").stdout
    held("the bill of materials is of this version", (program["name"], program["version"]) == ("jetwatch", installed), program)
    crates = {each["name"]: each for each in bill["components"]}
    complete = all(each["licenses"] and each["hashes"] and each["purl"] for each in bill["components"])
    held("it has the linked crates with licences and hashes", complete and {"gstreamer", "rustls", "serde"} <= crates.keys(), len(crates))


def its_test_clip_is_decoded():
    """Every image of the clip that the package installs; an emulated CPU takes too long for all of the check."""
    if HAS_NETWORK:
        output = run("jetwatch", "doctor", "--only", "scaling", check=False).stdout
        line = next((line for line in output.splitlines() if " decoding by the CPU: " in line), output)
        held("jetwatch doctor decodes the test clip as expected", line.startswith("ok") and "every sample as expected" in line, line)


def line_of_doctor():
    """What `jetwatch doctor` prints about ONNX Runtime."""
    output = run("jetwatch", "doctor", "--only", "libraries", check=False).stdout
    return next((line for line in output.splitlines() if " ONNX Runtime: " in line), output)


def its_file_is_read_again():
    good, pid = read(CONFIG), show("MainPID")
    write(CONFIG, good.replace("detector:", "  - {name: yard, uri: 'synthetic://traffic?seed=2&objects=2&width=320&height=180&fps=5'}\ndetector:", 1))

    def reloaded(state):
        done = run("systemctl", "reload", UNIT, check=False)
        held("systemd takes the reload", done.returncode == 0, done.stdout)
        found = lambda: (lambda text: text if text and json.loads(text)["state"] == state else None)(message("jetwatch/+/reload"))
        text = soon(found)
        held(f"the reload is published as {state}", text, message("jetwatch/+/reload"))
        return json.loads(text or "{}")

    held("a source of the file has joined", reloaded("applied").get("added") == ["yard"])
    held("and works", message("jetwatch/+/yard/events"))
    write(CONFIG, good.replace("backend:", "back_end:", 1))
    problems = reloaded("refused").get("problems")
    held("a wrong file is refused with its line", problems and problems[0]["file"] == CONFIG and problems[0]["line"], problems)
    write(CONFIG, good)
    held("the right one has it leave", reloaded("applied").get("removed") == ["yard"])
    held("in the same process", show("MainPID") == pid, (pid, show("MainPID")))


def restarts(how, act, wanted):
    before, pid = int(show("NRestarts")), show("MainPID")
    if not held(f"the daemon runs before it is {how}", pid != "0"):
        return
    act(int(pid))
    held(f"the daemon restarts after it was {how}", soon(lambda: int(show("NRestarts")) == before + 1 and is_up()), (show("NRestarts"), show("ActiveState")))
    texts = [str(each["MESSAGE"]) for each in log()]
    held("systemd knows why", any(wanted in text for text in texts), texts[-10:])
    held("as another process", show("MainPID") not in ("0", pid), show("MainPID"))
    publishes(f"after it was {how}")


def take_drop_ins(*names):
    for name in names:
        write(f"/etc/systemd/system/{UNIT}.d/{name}", read(f"/usr/share/jetwatch/drop-ins/{name}"))
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", UNIT, check=False)


def leave_drop_ins(*names):
    for name in names:
        os.remove(f"/etc/systemd/system/{UNIT}.d/{name}")
    run("systemctl", "daemon-reload")


def receives(*access):
    return run("mosquitto_sub", "-h", "127.0.0.1", "-t", "jetwatch/+/stats", "-C", "1", "-W", "60", *access, check=False).returncode == 0


def a_secret_of_root():
    """The drop-ins for newer systemd: it passes the daemon a password that its user cannot read, and hides other processes."""
    version = int(re.match(r"systemd (\d+)", run("systemctl", "--version").stdout)[1])
    if EMULATED:
        note("skipped: systemd mounts credentials by a call that qemu's user emulation answers with `Invalid argument`")
        return
    if version < 247:
        note(f"skipped: systemd {version} has no LoadCredential=")
        return
    secret, good = "/etc/jetwatch/credentials/mqtt", read(CONFIG)
    write(secret, "of root alone\n")
    os.chmod(secret, 0o600)
    # As at every start of the machine and at every upgrade.
    run("systemd-tmpfiles", "--create", "jetwatch.conf")
    held("only root can read its file", os.stat(secret).st_mode & 0o7777 == 0o600 and os.stat(secret).st_gid == 0, os.stat(secret))
    held("the daemon's user cannot read the secret", run("runuser", "-u", "jetwatch", "--", "cat", secret, check=False).returncode != 0)
    listen = "    listen: 127.0.0.1:1883\n"
    write(CONFIG, good.replace(listen, f"{listen}    user: gate\n    password_file: /run/credentials/{UNIT}/mqtt\n"))
    drop_ins = ("credentials.conf", "newer-systemd.conf")
    take_drop_ins(*drop_ins)
    held("with the drop-in for credentials the daemon runs", soon(is_up), (show("ActiveState"), [each["MESSAGE"] for each in log()][-5:]))
    held("and has the secret: its broker accepts clients that know it", soon(lambda: receives("-u", "gate", "-P", "of root alone")))
    held("and no other user", not receives() and not receives("-u", "gate", "-P", "guessed"))
    mounts = [line for line in read(f"/proc/{show('MainPID')}/mountinfo").splitlines() if " /proc " in line]
    held("it does not see other processes", any("hidepid=invisible" in line or "hidepid=2" in line for line in mounts), mounts)
    write(CONFIG, good)
    leave_drop_ins(*drop_ins)
    os.remove(secret)
    run("systemctl", "restart", UNIT)
    held("without it, it runs as before", is_up() and receives())


def under_nsys():
    """The drop-in for Nsight Systems, with a double of nsys."""
    program, calls = "/usr/local/bin/nsys", "/var/lib/jetwatch/nsys.calls"
    write(program, read("/opt/appliance/nsys"))
    os.chmod(program, 0o755)
    take_drop_ins("profiling.conf")
    held("with the drop-in for Nsight Systems the daemon is ready", soon(is_up), (show("ActiveState"), [each["MESSAGE"] for each in log()][-5:]))
    pid = show("MainPID")
    of_nsys = read(f"/proc/{pid}/cmdline").split("\0")
    held("systemd has started nsys", program in of_nsys, of_nsys)
    children = [read(f"/proc/{child}/cmdline").split("\0") for child in read(f"/proc/{pid}/task/{pid}/children").split()]
    held("whose child is the daemon", any("/usr/bin/jetwatch" in words and "run" in words for words in children), children)
    held("in the session that `jetwatch profile --attach` looks for", "launch --session-new=jetwatch --trace=cuda,nvtx,osrt /usr/bin/jetwatch run" in read(calls), read(calls))
    publishes("by the daemon under nsys")
    ended = len([each for each in log() if str(each["MESSAGE"]).startswith("ended: ")])
    run("systemctl", "stop", UNIT)
    held("it is stopped through nsys", "shutdown --session=jetwatch --kill=sigterm" in read(calls), read(calls))
    held("and has the time to end", soon(lambda: len([each for each in log() if str(each["MESSAGE"]).startswith("ended: ")]) == ended + 1), [each["MESSAGE"] for each in log()][-6:])
    held("as no failure", show("Result") == "success", show("Result"))
    leave_drop_ins("profiling.conf")
    for path in (program, calls, "/var/lib/jetwatch/nsys.pid"):
        os.remove(path)
    run("systemctl", "start", UNIT)
    held("without the drop-in it runs as before", is_up())


def a_wrong_configuration():
    good, restarts = read(CONFIG), show("NRestarts")
    write(CONFIG, re.sub("backend: .*", "backend: guess", good))
    run("systemctl", "restart", UNIT, check=False)
    held("a wrong configuration ends the daemon", soon(lambda: show("ActiveState") == "failed"), show("ActiveState"))
    # A unit that is to be restarted is `activating`, never `failed`.
    held("with 78, and it is not restarted", (show("ExecMainStatus"), show("SubState")) == ("78", "failed"), (show("ExecMainStatus"), show("SubState")))
    texts = soon(lambda: [each["MESSAGE"] for each in log("--priority=err") if "guess" in str(each["MESSAGE"])])
    held("the journal names the wrong line and the reason", texts and "jetwatch.yaml:" in texts[0], texts)
    note((texts or [""])[0].strip())
    write(CONFIG, good)
    run("systemctl", "start", UNIT)
    held("it starts with the file fixed", is_up())


def another_instance():
    """It runs on from here, until the package is removed."""
    write("/etc/jetwatch/second.yaml", read(CONFIG).replace("1883", "1884"))
    if EMULATED:
        write(f"{SECOND_DROP_INS}/emulated.conf", read("/opt/appliance/emulated.conf"))
        run("systemctl", "daemon-reload")
    done = run("systemctl", "enable", "--now", SECOND, check=False)
    held("a second daemon runs beside the first", done.returncode == 0 and is_up(SECOND) and is_up(), done.stdout)
    held("with its own folders", os.path.isdir("/var/lib/jetwatch/second") and os.path.isdir("/var/cache/jetwatch/second"))
    # As it would write there itself: as its user, in its view of the file system.
    inside = ("runuser", "-u", "jetwatch", "--", "touch")
    view = f"/proc/{show('MainPID', SECOND)}/root/var/lib/jetwatch"
    done = run(*inside, f"{view}/engines/of-second", check=False)
    held("and may build engines where the first one does", done.returncode == 0 and os.path.exists("/var/lib/jetwatch/engines/of-second"), done.stdout)
    done = run(*inside, f"{view}/of-second", check=False)
    held("but not write to the first one's folder", done.returncode != 0, done.stdout)
    text = message("jetwatch/+/stats", 1884)
    held("and publishes to its own broker", text, [each["MESSAGE"] for each in log(unit=SECOND)][-5:])


def the_camera_service():
    """A unit that only sleeps replaces the Jetson's camera service."""
    unit, request = "nvargus-daemon.service", "/run/jetwatch/restart-argus"
    write(f"/run/systemd/system/{unit}", "[Service]\nExecStart=/bin/sleep infinity\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "start", unit)
    # As the daemon would do it: as its user, in its view of the file system.
    inside, view = ("runuser", "-u", "jetwatch", "--", "sh", "-c"), f"/proc/{show('MainPID')}/root"
    before = show("MainPID", unit)
    done = run(*inside, f"echo no frames >{view}{request}", check=False)
    held("the daemon can request a restart of the camera service", done.returncode == 0, done.stdout)
    held("and gets it", soon(lambda: show("MainPID", unit) not in ("0", before)), show("ActiveState", "jetwatch-argus.service"))
    helped = show("MainPID", unit)
    for _ in range(5):
        run(*inside, f"echo no frames >{view}{request}", check=False)
        time.sleep(1)
    held("requests of the same time are that one", show("MainPID", unit) == helped, show("ActiveState", "jetwatch-argus.service"))
    done = run(*inside, f"systemctl restart {unit}", check=False)
    held("but has no permission to restart it itself", done.returncode != 0, done.stdout)

    # Without the wait between the requests of a daemon.
    write("/run/systemd/system/jetwatch-argus.service.d/at-once.conf", "[Service]\nExecStartPost=\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "stop", "jetwatch-argus.service")

    def asks_again():
        run(*inside, f"echo no frames >{view}{request}", check=False)
        # systemd 245 goes on watching where a restart has failed before, and refuses all the same.
        refused = [each for each in log(unit="jetwatch-argus.service") if "repeated too quickly" in str(each["MESSAGE"])]
        return show("ActiveState", "jetwatch-argus.path") == "failed" or refused

    held("and is refused when it requests too often", soon(asks_again), show("ActiveState", "jetwatch-argus.path"))
    restarts = len([each for each in log(unit=unit) if str(each["MESSAGE"]).startswith("Started")])
    held("after 8 restarts at most", restarts <= 9, restarts)
    shutil.rmtree("/run/systemd/system/jetwatch-argus.service.d")
    run("systemctl", "daemon-reload")
    run("systemctl", "reset-failed", "jetwatch-argus.path", "jetwatch-argus.service")
    run("systemctl", "start", "jetwatch-argus.path")
    held("the daemon runs on meanwhile", is_up())
    run("systemctl", "stop", unit)


def a_full_disk():
    """A file system of half a megabyte where the models belong."""
    version = run("dpkg-query", "--show", "--showformat=${Version}", "jetwatch").stdout
    models = "/usr/share/jetwatch/models"
    run("mount", "-t", "tmpfs", "-o", "size=512k", "full", models)
    done = run("dpkg", "--force-confold", "--install", "/opt/appliance/newer.deb", check=False)
    run("umount", models)
    held("an upgrade fails on a full disk", done.returncode != 0 and "No space left" in done.stdout, done.stdout[-400:])
    held("the older version is still installed", run("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", "jetwatch").stdout == f"installed {version}", done.stdout)
    held("its files are whole", not run("dpkg", "--verify", "jetwatch", check=False).stdout.replace(f"??5?????? c {CONFIG}", "").strip(), run("dpkg", "--verify", "jetwatch", check=False).stdout)
    held("and runs", soon(is_up), show("ActiveState"))


def of_another_architecture():
    """The same package as another kind of machine gets it."""
    foreign = "amd64" if run("dpkg", "--print-architecture").stdout.strip() == "arm64" else "arm64"
    run("dpkg-deb", "--raw-extract", "/opt/appliance/newer.deb", "/opt/appliance/foreign")
    control = read("/opt/appliance/foreign/DEBIAN/control")
    write("/opt/appliance/foreign/DEBIAN/control", re.sub("Architecture: .*", f"Architecture: {foreign}", control))
    run("dpkg-deb", "-Zgzip", "-z1", "--build", "/opt/appliance/foreign", "/opt/appliance/foreign.deb")
    before, pid = run("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", "jetwatch").stdout, show("MainPID")
    done = run("dpkg", "--force-confold", "--install", "/opt/appliance/foreign.deb", check=False)
    note(done.stdout.strip().replace("\n", "\n        "))
    held(f"a package for {foreign} is refused, with the reason", done.returncode != 0 and f"architecture ({foreign}) does not match system" in done.stdout, done.stdout)
    after = run("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", "jetwatch").stdout
    held("and what was installed stays, and runs", after == before and is_up() and show("MainPID") == pid, (before, after, show("ActiveState")))


def script(name, *arguments):
    """One of the package's scripts, as dpkg starts it."""
    return run(f"/var/lib/dpkg/info/jetwatch.{name}", *arguments, check=False, env={**os.environ, "DPKG_MAINTSCRIPT_PACKAGE": "jetwatch"})


def on_other_jetpacks():
    """Output of the package's script on releases of L4T, each given by a file as in JetPack."""
    release = "/etc/nv_tegra_release"
    for major, is_known in ((32, False), (35, True), (36, True), (38, False)):
        write(release, f"# R{major} (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64\n")
        done = script("postinst", "configure")
        warned = f"this is L4T {major}, and only 35 (JetPack 5) and 36 (JetPack 6) are known" in done.stdout
        held(f"on L4T {major} the package {'is silent' if is_known else 'warns'}", done.returncode == 0 and warned != is_known, (done.returncode, done.stdout))
    os.remove(release)
    held("the daemon runs on", soon(is_up), show("ActiveState"))


def the_newer_version():
    # The kernel's setting cannot be written in a container: this file replaces it.
    write("/run/paranoid", "4\n")
    run("mount", "--bind", "/run/paranoid", SETTING)
    config, pid, of_second = read(CONFIG), show("MainPID"), show("MainPID", SECOND)
    dpkg("--force-confold", "--install", "/opt/appliance/newer.deb")
    version = run("dpkg-query", "--show", "--showformat=${Version}", "jetwatch").stdout
    held("the newer version is installed", version.endswith("+newer"), version)
    held("the user's configuration is kept", read(CONFIG) == config)
    held("the daemon was restarted", soon(is_up) and show("MainPID") != pid, show("ActiveState"))
    held("and so was the second one", soon(lambda: is_up(SECOND)) and show("MainPID", SECOND) not in ("0", of_second), (of_second, show("MainPID", SECOND)))
    held("profilers may follow it", read(SETTING) == "2\n", read(SETTING))


def the_administrators_own_setting():
    """A later file in sysctl.d takes precedence over the package's, when it is configured and when it is removed."""
    own, kept = "/etc/sysctl.d/99-own.conf", "/var/lib/jetwatch-setup/perf_event_paranoid"
    held("the earlier value is recorded", read(kept) == "4\n", read(kept))
    write(own, "kernel.perf_event_paranoid = 3\n")
    write(SETTING, "4\n")
    script("postinst", "configure", "0.1.0")
    held("the administrator's setting takes precedence at an upgrade", read(SETTING) == "3\n", read(SETTING))
    os.remove(own)
    script("postinst", "configure", "0.1.0")
    held("without it the package's is set", read(SETTING) == "2\n", read(SETTING))
    held("and the recorded value is still the first one", read(kept) == "4\n", read(kept))


def stopped():
    run("systemctl", "stop", UNIT)
    held("a stop is no failure", (show("ActiveState"), show("Result"), show("ExecMainStatus")) == ("inactive", "success", "0"), show("Result"))
    logged("stopping", unit=UNIT)
    logged("ended: ")
    run("systemctl", "start", UNIT)


def removed():
    pid, of_second = show("MainPID"), show("MainPID", SECOND)
    dpkg("--remove", "jetwatch-onnxruntime")
    held("the daemon runs on without the package of ONNX Runtime", is_up() and show("MainPID") == pid, show("ActiveState"))
    line = line_of_doctor()
    held("jetwatch doctor names the package that is missing", line.startswith("unknown") and "install the package jetwatch-onnxruntime" in line, line)
    dpkg("--remove", "jetwatch")
    held("the daemon has ended", not os.path.exists(f"/proc/{pid}"))
    held("and so has the second one", of_second != "0" and not os.path.exists(f"/proc/{of_second}"), of_second)
    held("its unit is gone", show("LoadState") == "not-found", show("LoadState"))
    held("the kernel's setting is restored", read(SETTING) == "4\n", read(SETTING))
    kept = [path for path in glob.glob("/usr/**/*jetwatch*", recursive=True)]
    held("no file of the program is left", not kept, kept)
    held("the user's configuration is kept", os.path.exists(CONFIG))


def left():
    """Files that have jetwatch in their names, without the empty folders that systemd 248 and newer keep for each unit that it ran."""
    found = run("find", "/etc", "/var", "/usr", "/run", "-xdev", "-name", "*jetwatch*", check=False).stdout.split()
    return [path for path in found if not (path.startswith("/run/systemd/propagate/") and not os.listdir(path))]


def purged():
    dpkg("--purge", "jetwatch")
    if EMULATED:
        shutil.rmtree(f"/etc/systemd/system/{UNIT}.d")
        shutil.rmtree(SECOND_DROP_INS)
    found = left()
    held("nothing is left", not found, found)


def a_full_disk_at_first():
    """Where nothing is installed yet."""
    place = "/usr/share/jetwatch"
    os.mkdir(place)
    run("mount", "-t", "tmpfs", "-o", "size=512k", "full", place)
    done = run("dpkg", "--install", "/opt/appliance/package.deb", check=False)
    run("umount", place)
    os.rmdir(place)
    held("a first installation fails on a full disk", done.returncode != 0 and "No space left" in done.stdout, done.stdout[-400:])
    held("no daemon was started", show("LoadState") == "not-found", show("LoadState"))
    found = left()
    held("and nothing of it is left", not found, found)


go_through([
    started_with_the_machine,
    its_sandbox,
    its_unit,
    its_own_configuration,
    onnxruntime_of_its_package,
    its_bill_of_materials_is_there,
    its_test_clip_is_decoded,
    its_file_is_read_again,
    lambda: restarts("killed", lambda pid: os.kill(pid, signal.SIGKILL), "code=killed, status=9/KILL"),
    lambda: restarts("frozen", lambda pid: os.kill(pid, signal.SIGSTOP), "Watchdog timeout"),
    a_secret_of_root,
    under_nsys,
    a_wrong_configuration,
    another_instance,
    the_camera_service,
    a_full_disk,
    of_another_architecture,
    on_other_jetpacks,
    the_newer_version,
    the_administrators_own_setting,
    stopped,
    removed,
    purged,
    a_full_disk_at_first,
])
