# SPDX-License-Identifier: Apache-2.0
"""Checks of the Ansible role on two booted containers; tests/fleet/ansible starts it. Ends with `fleet: N passed, M failed`.

Each box has a mosquitto of its own, as in the small form, with a user and a password. Ansible comes in over ssh, through the name space of
the container's loopback: the containers have no network.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples/fleet/ansible"
BOXES = ("gate", "yard")
PASSWORD = "password-of-a-box"
SCENE = "synthetic://traffic?seed={}&objects=4&width=320&height=180&fps=5"

passed = failed = 0


def report(what, problem=""):
    global passed, failed
    if problem:
        failed += 1
        print(f"failed  {what}: {problem}", flush=True)
    else:
        passed += 1
        print(f"passed  {what}", flush=True)


def until(what, found, limit=120):
    end = time.monotonic() + limit
    while not (result := found()):
        if time.monotonic() > end:
            sys.exit(f"fleet: not within {limit} s: {what}")
        time.sleep(0.2)
    return result


class Box:
    def __init__(self, name, work, root):
        self.name, self.place = name, work / name
        for part in ("upper", "overlay", "merged"):
            (self.place / part).mkdir(parents=True)
        self.root = self.place / "merged"
        subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir={root},upperdir={self.place}/upper,workdir={self.place}/overlay", "overlay", self.root], check=True)
        self.prepare(work)
        options = [] if Path("/run/systemd/system").is_dir() else ["--keep-unit", "--register=no"]
        with open(self.place / "console", "wb") as console:
            self.process = subprocess.Popen(
                ["systemd-nspawn", "--quiet", f"--directory={self.root}", "--boot", f"--machine={work.name}-{name}", "--private-network", "--link-journal=no",
                 "--console=pipe", f"--bind={work}/repository:/srv/repository", *options, "systemd.show_status=no"],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        self.pid = until(f"{name} boots", self.leader)

    def prepare(self, work):
        (self.root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        (self.root / "root/.ssh/authorized_keys").write_text((work / "ssh.pub").read_text())
        (self.root / "etc/hostname").write_text(self.name + "\n")
        (self.root / "etc/ssh/sshd_config.d/test.conf").write_text("ListenAddress 127.0.0.1\nPermitRootLogin prohibit-password\nUseDNS no\n")
        # The only source of packages is the one that the role writes: there is no network.
        (self.root / "etc/apt/sources.list").write_text("")
        (self.root / "etc/mosquitto/conf.d/test.conf").write_text("listener 1883 127.0.0.1\nallow_anonymous false\npassword_file /etc/mosquitto/passwords\npersistence false\n")
        passwords = self.root / "etc/mosquitto/passwords"
        subprocess.run(["chroot", self.root, "mosquitto_passwd", "-b", "-c", "/etc/mosquitto/passwords", self.name, PASSWORD], check=True)
        subprocess.run(["chroot", self.root, "chown", "mosquitto", "/etc/mosquitto/passwords"], check=True)
        assert passwords.exists()

    def leader(self):
        """The first process of the container, once its sshd listens."""
        if self.process.poll() is not None:
            sys.exit(f"fleet: {self.name} has ended:\n{(self.place / 'console').read_text(errors='replace')[-3000:]}")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            try:
                sockets = Path(f"/proc/{child}/net/tcp").read_text()
            except OSError:
                continue
            if ":0016 " in sockets:
                return child
        return None

    def run(self, command, check=True):
        done = subprocess.run(["nsenter", f"--target={self.pid}", "--all", "/bin/sh", "-c", command], capture_output=True, text=True)
        if check and done.returncode:
            raise RuntimeError(f"{self.name}: {command}: {done.stderr}")
        return done.stdout.strip()

    def pid_of_daemon(self):
        return int(self.run("systemctl show --property=MainPID --value jetwatch"))

    def is_active(self):
        return self.run("systemctl is-active jetwatch", check=False) == "active"

    def config(self):
        return self.run("cat /etc/jetwatch/jetwatch.yaml")

    def version(self):
        return self.run("dpkg-query --show --showformat='${Version}' jetwatch")

    def retained(self, topic):
        return self.run(f"mosquitto_sub -h 127.0.0.1 -u {self.name} -P {PASSWORD} -t jetwatch/{self.name}/{topic} -C 1 -W 5", check=False)

    def sources_online(self):
        lines = self.run(f"mosquitto_sub -h 127.0.0.1 -u {self.name} -P {PASSWORD} -t 'jetwatch/{self.name}/+/status' -W 2", check=False).splitlines()
        return sorted(found["source"] for found in map(json.loads, lines) if found["state"] == "online")

    def state(self):
        """What must not differ after a change that was refused."""
        return self.pid_of_daemon(), self.config(), self.version(), self.run("sha256sum /etc/jetwatch/secrets/* && ls -l /etc/jetwatch /etc/jetwatch/secrets | sed 's/^total.*//'")

    def power_off(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Playbook:
    """The example, with the boxes, the key and the variables of this test."""

    def __init__(self, work, boxes):
        self.folder = work / "play"
        subprocess.run(["cp", "-r", EXAMPLE, self.folder], check=True)
        for path in (self.folder / "host_vars").iterdir():
            path.unlink()
        (self.folder / "files").mkdir()
        (self.folder / "files/jetwatch.asc").write_text((work / "keys/jetwatch.asc").read_text())
        proxy = "exec 3<>/dev/tcp/127.0.0.1/22; cat <&3 & exec cat >&3"
        hosts = {}
        for box in boxes:
            command = f"nsenter --target {box.pid} --net bash -c '{proxy}'"
            hosts[box.name] = {"ansible_host": box.name, "ansible_user": "root",
                               "ansible_ssh_common_args": f'-o ProxyCommand="{command}" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null '
                                                          f"-o IdentitiesOnly=yes -i {work}/ssh"}
        (self.folder / "inventory.yml").write_text(json.dumps({"boxes": {"hosts": hosts}}))
        self.variables = {box.name: {
            "jetwatch_repository": "file:///srv/repository",
            "jetwatch_detector": {"backend": "scripted"},
            "jetwatch_mqtt": {"broker": "mqtt://127.0.0.1", "user": box.name, "password_file": "/etc/jetwatch/secrets/mqtt"},
            "jetwatch_sources": [{"name": "one", "uri": SCENE.format(1)}],
            "jetwatch_secrets": {"mqtt": PASSWORD},
            "jetwatch_reload_timeout_s": 30,
        } for box in boxes}
        self.output = ""

    def run(self, *options):
        """The exit code, and changed tasks by box."""
        for name, variables in self.variables.items():
            (self.folder / f"host_vars/{name}.yml").write_text(json.dumps(variables))
        environment = {**os.environ, "ANSIBLE_HOME": str(self.folder / "home"), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_PIPELINING": "1", "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
                       "LC_ALL": "C.UTF-8"}
        done = subprocess.run([Path(sys.executable).parent / "ansible-playbook", "-v", "site.yml", *options], cwd=self.folder, env=environment, capture_output=True, text=True)
        self.output = done.stdout + done.stderr
        changed = {name: int(count) for name, count in re.findall(r"^(\w+) +: ok=\d+ +changed=(\d+)", self.output, flags=re.M)}
        return done.returncode, changed

    def succeeds(self, what, *options):
        code, changed = self.run(*options)
        report(what, f"it ended with {code}:\n{self.output[-4000:]}" if code else "")
        return changed

    def fails(self, what, text, *options):
        code, _ = self.run(*options)
        if not code:
            report(what, "it should have failed")
        else:
            report(what, "" if re.search(text, self.output) else f"its output has no '{text}':\n{self.output[-4000:]}")


def equal(what, found, wanted):
    report(what, "" if found == wanted else f"{found!r} instead of {wanted!r}")


def prove(work, boxes, play):
    gate, yard = boxes
    first_run(gate, yard, play)
    reloads(gate, yard, play)
    facts(work, gate, yard, play)
    refusals(gate, yard, play)
    secrets(gate, play)
    packages(work, gate, yard, play)


def first_run(gate, yard, play):
    play.succeeds("the playbook installs and configures two boxes")
    for box in (gate, yard):
        equal(f"{box.name}: the package is installed", box.version(), "1.0.0")
        equal(f"{box.name}: the daemon runs", box.is_active(), True)
        equal(f"{box.name}: it publishes", until("status", lambda: box.retained("status")), "online")
        equal(f"{box.name}: its source is online", box.sources_online(), ["one"])
        equal(f"{box.name}: owner and mode of the secret", box.run("stat --format='%U:%G %a' /etc/jetwatch/secrets/mqtt"), "root:jetwatch 640")
    report("the secret is not in the output", "it is" if PASSWORD in play.output else "")
    equal("a second run changes nothing", play.succeeds("a second run"), {"gate": 0, "yard": 0})


def reloads(gate, yard, play):
    before = gate.state(), yard.state()
    play.variables["gate"]["jetwatch_sources"].append({"name": "two", "uri": SCENE.format(2)})
    changed = play.succeeds("a dry run with a new source", "--check", "--diff")
    report("it shows the difference", "" if re.search(r"^\+.*name: two", play.output, flags=re.M) else play.output[-3000:])
    equal("it would change one box alone", (changed["gate"] > 0, changed["yard"]), (True, 0))
    equal("it changes nothing", (gate.state(), yard.state()), before)
    play.succeeds("a new source")
    equal("the daemon has taken it by a reload", (gate.pid_of_daemon(), gate.sources_online()), (before[0][0], ["one", "two"]))
    equal("the other box is as before", yard.state(), before[1])
    play.variables["gate"]["jetwatch_detector"]["scripted"] = {"miss_rate": 0.1}
    play.succeeds("a setting that needs a restart")
    equal("the daemon was restarted and has it", (gate.pid_of_daemon() != before[0][0], "miss_rate: 0.1" in gate.config(), gate.sources_online()), (True, True, ["one", "two"]))
    equal("no file is left over", gate.run("find /etc/jetwatch -maxdepth 1 -type f -printf '%f\\n'"), "jetwatch.yaml")


def facts(work, gate, yard, play):
    before = gate.state(), yard.state()
    kept = json.dumps(play.variables)
    folder = work / "facts"
    folder.mkdir()
    for name in BOXES:
        play.variables[name] |= {"jetwatch_facts": str(folder), "jetwatch_check": "offline"}
    play.succeeds("facts of the boxes, and nothing else")
    equal("the boxes are as before", (gate.state(), yard.state()), before)
    for box in (gate, yard):
        found = json.loads((folder / f"{box.name}.json").read_text())
        equal(f"the facts of {box.name} are its own", (found["hostname"], found["user"]["name"], found["disks"][0]["mount"]), (box.name, "jetwatch", "/"))
        (work / "judged.yaml").write_text(box.config())
        judged = subprocess.run([work / "jetwatch", "check", "--offline", "--facts", folder / f"{box.name}.json", work / "judged.yaml"], capture_output=True, text=True)
        report(f"its configuration is judged by them: {box.name}", "" if judged.returncode == 0 and f"machine: {box.name}: " in judged.stdout else judged.stdout + judged.stderr)
    play.variables["gate"]["jetwatch_detector"]["backend"] = "tensorrt"
    play.variables["gate"]["jetwatch_detector"]["model"] = "/srv/no-such-model"
    play.fails("a backend that the box cannot run, by its facts", "TensorRT needs a GPU")
    equal("the boxes are as before", (gate.state(), yard.state()), before)
    play.variables = json.loads(kept)


def refusals(gate, yard, play):
    before = gate.state(), yard.state()
    kept = json.dumps(play.variables)
    for name in BOXES:
        play.variables[name]["jetwatch_more"] = {"publish": {"statistics_interval_s": 5}}
    play.fails("a key that does not exist", "stats_interval_s")
    equal("no box has changed, and the second was not tried", (gate.state(), yard.state(), "TASK [Gathering Facts]" in play.output.split("PLAY RECAP")[0].replace("ok: [yard]", "")),
          (*before, True))
    report("the second box was not tried", "it was" if re.search(r"\[yard\]", play.output.split("PLAY RECAP")[0]) else "")

    play.variables = json.loads(kept)
    play.variables["gate"]["jetwatch_sources"].append({"name": "gone", "uri": "/srv/video.mp4"})
    play.fails("a source that does not fit the detector, by the check", "ground truth")
    equal("the box is as before", gate.state(), before[0])

    play.variables["gate"]["jetwatch_check"] = "file-only"
    play.variables["gate"]["jetwatch_restart"] = False
    play.variables["gate"]["jetwatch_sources"].pop()
    play.variables["gate"]["jetwatch_detector"]["scripted"] = {"miss_rate": 0.2}
    play.fails("a setting that needs a restart, where none is allowed", "restart")
    after = gate.state()
    equal("the file of before is there again, and the daemon runs on", (after[0], after[1]), (before[0][0], before[0][1]))
    equal("it says so on MQTT", json.loads(gate.retained("reload"))["state"], "applied")

    play.variables["gate"]["jetwatch_restart"] = True
    play.variables["gate"]["jetwatch_detector"] = {"backend": "onnx", "model": "/srv/no-such-model"}
    play.fails("a restart that fails", "not taken")
    equal("the configuration of before is in effect again", (gate.config(), gate.is_active(), gate.sources_online()), (before[0][1], True, ["one", "two"]))
    report("the refused one is kept", "" if "no-such-model" in gate.run("cat /etc/jetwatch/jetwatch.yaml.refused") else "it is not")
    gate.run("rm /etc/jetwatch/jetwatch.yaml.refused")
    play.variables = json.loads(kept)


def secrets(gate, play):
    before = gate.state()
    play.variables["gate"]["jetwatch_secrets"]["mqtt"] = "a-wrong-password"
    play.fails("a wrong password of the broker", "not taken")
    after = gate.state()
    equal("the password of before is there again", (after[0], after[1], after[3].splitlines()[0]), (before[0], before[1], before[3].splitlines()[0]))
    report("the wrong one is not in the output", "it is" if "a-wrong-password" in play.output else "")
    equal("no copy of a password is left", gate.run("ls /etc/jetwatch/secrets"), "mqtt")
    play.variables["gate"]["jetwatch_secrets"]["mqtt"] = PASSWORD


def packages(work, gate, yard, play):
    def publish(version):
        package = next((work / "later").glob(f"jetwatch_{version}_*"))
        package.rename(work / "repository/pool" / package.name)
        subprocess.run([HERE / "repository", work / "repository", work / "keys"], check=True)

    publish("1.1.0")
    play.succeeds("a newer package")
    equal("both boxes have it", (gate.version(), yard.version(), gate.is_active(), yard.is_active()), ("1.1.0", "1.1.0", True, True))
    publish("1.2.0")
    play.fails("a package whose program does not run", "version 1.1.0 runs again")
    equal("the first box has the one before, the second was not tried", (gate.version(), yard.version(), gate.is_active(), yard.is_active()), ("1.1.0", "1.1.0", True, True))
    for name in BOXES:
        play.variables[name]["jetwatch_version"] = "1.0.0"
    play.succeeds("a version that is named")
    equal("both boxes have it", (gate.version(), yard.version()), ("1.0.0", "1.0.0"))
    before = gate.state(), yard.state()
    index = next((work / "repository/dists").rglob("Packages"))
    index.write_text(index.read_text().replace("1.1.0", "9.9.9"))
    for name in BOXES:
        play.variables[name]["jetwatch_version"] = "9.9.9"
    play.fails("an index that was altered after it was verified", "fatal: .gate.*no available installation candidate for jetwatch=9.9.9")
    gate.run("rm -rf /var/lib/apt/lists/*")
    for name in BOXES:
        play.variables[name]["jetwatch_version"] = "latest"
    play.fails("a repository whose index was altered", "fatal: .gate.*(Hash Sum mismatch|unexpected size)")
    release = work / "repository/dists/stable/InRelease"
    release.write_text(release.read_text().replace("Suite: stable", "Suite: other"))
    play.fails("a repository whose signature does not fit", "fatal: .gate.*ignature")
    equal("both boxes are as before", (gate.state(), yard.state()), before)


def main():
    work, root = Path(sys.argv[1]), Path(sys.argv[2])
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", work / "ssh"], check=True)
    boxes = []
    try:
        for name in BOXES:
            boxes.append(Box(name, work, root))
        prove(work, boxes, Playbook(work, boxes))
    finally:
        for box in boxes:
            box.power_off()
    print(f"fleet: {passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


main()
