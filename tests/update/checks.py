# SPDX-License-Identifier: Apache-2.0
"""Checks of jetwatch-update on a booted container; tests/update/run starts it. Ends with `update: N passed, M failed`."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
FULL = bool(os.environ.get("FULL"))
STATE = "/var/lib/jetwatch-setup/update"
# Limits that a busy machine keeps, where they are not what is tested.
PATIENT = "--health-timeout 300s --install-timeout"
CONFIG = """device: box
sources:
  - {name: gate, uri: "synthetic://traffic?seed=1&objects=4&width=320&height=180&fps=10"}
  - {name: yard, uri: "synthetic://traffic?seed=2&objects=4&width=320&height=180&fps=10"}
detector: {backend: scripted}
publish: {stats_interval_s: 5, mqtt: {broker: "mqtt://127.0.0.1:1883"}}
"""
WITH_MODEL = CONFIG.replace("{backend: scripted}", "{model: /usr/share/jetwatch/models/street, precision: fp32, workers: 1}")
SOURCE = "Types: deb\nURIs: file:/srv/live\nSuites: stable\nComponents: main\nSigned-By: /usr/share/keyrings/jetwatch-archive-keyring.gpg\n"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
passed = failed = 0


def report(what, problem=""):
    global passed, failed
    passed, failed = passed + (not problem), failed + bool(problem)
    print(f"{'failed' if problem else 'passed'}  {what}{f': {str(problem)[-1500:]}' if problem else ''}", flush=True)


def until(what, found, limit=600):
    end = time.monotonic() + limit
    while not (result := found()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {limit} s: {what}")
        time.sleep(0.1)
    return result


class Repositories:
    """One signed repository for each set of versions, with one key; what the box sees is a copy of one of them."""

    def __init__(self, work):
        self.work, self.live, self.made = work, work / "live", {}
        self.live.mkdir()
        self.first = None

    def make(self, *versions, own_key=False):
        name = "-".join(versions) + ("-own" if own_key else "")
        if name not in self.made:
            # A short path: the socket of GnuPG's agent is in it.
            folder = self.work / "repositories" / str(len(self.made))
            folder.mkdir(parents=True)
            if self.first and not own_key:
                shutil.copytree(self.first / "keys", folder / "keys", ignore=shutil.ignore_patterns("S.*"))
                (folder / "keys").chmod(0o700)
            packages = [str(self.work / f"packages/{version}.deb") for version in versions]
            done = subprocess.run([PROJECT / "cross/repository", "add", folder, *packages], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            self.made[name] = folder
            self.first = self.first or folder
        return self.made[name]

    def show(self, *versions, **options):
        folder = self.make(*versions, **options)
        for path in self.live.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(folder / "public", self.live, dirs_exist_ok=True)
        return self.live / "dists/stable/InRelease"

    def sign(self, release):
        """Signs a text by the key, as `InRelease`."""
        keys = {**os.environ, "GNUPGHOME": str(self.first / "keys")}
        subprocess.run(["gpg", "--batch", "--quiet", "--yes", "--clearsign", "--output", self.live / "dists/stable/InRelease"], input=release, text=True, env=keys, check=True, capture_output=True)
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=keys, check=False)


class Box:
    def __init__(self, work, root):
        self.work, self.place = work, work / "box"
        (work / "disk").mkdir()
        # An overlay keeps its changes on a file system that is no overlay.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6g", "tmpfs", work / "disk"], check=True)
        for part in (work / "disk/upper", work / "disk/overlay", self.place):
            part.mkdir(parents=True)
        subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir={root},upperdir={work}/disk/upper,workdir={work}/disk/overlay", "overlay", self.place], check=True)
        self.process = self.pid = None

    def write(self, path, text):
        target = self.place / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def boot(self):
        options = [] if Path("/run/systemd/system").is_dir() else ["--keep-unit", "--register=no"]
        with open(self.work / "console", "ab") as console:
            self.process = subprocess.Popen(
                ["systemd-nspawn", "--quiet", f"--directory={self.place}", "--boot", f"--machine={self.work.name}", "--private-network", "--link-journal=no",
                 "--console=pipe", f"--bind={self.work}/live:/srv/live", f"--bind-ro={self.work}/packages:/srv/packages", *options, "systemd.show_status=no"],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        self.pid = until("a first process", self.leader)
        until("the boot ends", lambda: self.run("systemctl is-system-running", False)[1].split()[-1:] in (["running"], ["degraded"]))

    def leader(self):
        assert self.process.poll() is None, (self.work / "console").read_text(errors="replace")[-3000:]
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            try:
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return child
            except OSError:
                pass
        return None

    def cut_power(self):
        """Everything in the container ends at once, without a chance to write."""
        space = os.readlink(f"/proc/{self.pid}/ns/pid")
        # Without this some would notice the end of others, and react to it.
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(path / "ns/pid") == space and path.name != str(self.pid):
                    os.kill(int(path.name), signal.SIGSTOP)
            except OSError:
                pass
        os.kill(int(self.pid), signal.SIGKILL)
        self.process.wait(60)

    def run(self, command, check=True):
        done = subprocess.run(["nsenter", f"--target={self.pid}", "--all", "/bin/sh", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=ENVIRONMENT)
        text = done.stdout + done.stderr
        if check and done.returncode:
            raise RuntimeError(f"{command}: {text}")
        return done.returncode, text

    def read(self, name):
        try:
            return json.loads((self.place / name.lstrip("/")).read_text())
        except (OSError, ValueError):
            return {}

    def version(self):
        return self.run("dpkg-query --show --showformat='${db:Status-Status} ${Version}' jetwatch")[1]

    def model(self):
        """The version of the model's package; none where it is not installed."""
        status, _, version = self.run("dpkg-query --show --showformat='${db:Status-Status} ${Version}' jetwatch-model-street", False)[1].partition(" ")
        return version if status == "installed" else None

    def main_pid(self):
        return self.run("systemctl show --property=MainPID --value jetwatch")[1].strip()

    def healthy(self):
        return self.run("jetwatch health --all-sources --min-frames 10", False)[0] == 0

    def status(self):
        return self.read(f"{STATE}/status.json")

    def step(self):
        return self.read(f"{STATE}/journal.json").get("step")

    def published(self):
        text = self.run("mosquitto_sub -h 127.0.0.1 -t jetwatch/box/update -C 1 -W 3", False)[1]
        return json.loads(text) if text.startswith("{") else {}

    def reset(self, version="1.0.0", model=None):
        """The earlier version alone, with version `model` of a model or with none, healthy, and no memory of updates."""
        self.run("systemctl stop jetwatch-update.service jetwatch-update-resume.service", False)
        self.run(f"rm -rf {STATE}; apt-mark unhold jetwatch jetwatch-model-street; rm -rf /var/lib/apt/lists/*; systemctl reset-failed", False)
        config, changed = WITH_MODEL if model else CONFIG, False
        if self.version() != f"installed {version}":
            self.run(f"dpkg --force-downgrade --force-confold --install /srv/packages/{version}.deb")
            changed = True
        if self.model() != model:
            self.run(f"dpkg --force-downgrade --install /srv/packages/street-{model}.deb" if model else "dpkg --purge jetwatch-model-street")
            changed = True
        if changed or (self.place / "etc/jetwatch/jetwatch.yaml").read_text() != config:
            self.write("/etc/jetwatch/jetwatch.yaml", config)
            self.run("systemctl restart jetwatch")
        until("the earlier version is healthy", self.healthy)


class Subscriber:
    """Counts the numbers of all messages, in a session that the broker keeps."""

    def __init__(self, box):
        self.box, self.path = box, box.place / "var/lib/received"

    def start(self):
        self.box.run("systemd-run --quiet --unit=received --property=Restart=always /bin/sh -c 'exec mosquitto_sub -h 127.0.0.1 -i counter -c -q 1 -t jetwatch/box/# -F %p >>/var/lib/received'")

    def lost(self):
        """How many events have numbers that did not arrive; how many arrived; gaps that the daemon reports."""
        numbers, gaps = {}, []
        if not self.path.exists():
            return 0, 0, gaps
        for line in self.path.read_bytes().splitlines():
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if not isinstance(message, dict):
                continue
            if message.get("kind") == "gap":
                gaps.append(message)
            if "spool" in message and "seq" in message:
                numbers.setdefault(message["spool"], set()).add(message["seq"])
        missing = sum(max(seen) - min(seen) + 1 - len(seen) for seen in numbers.values())
        return missing, sum(map(len, numbers.values())), gaps


class Bench:
    def __init__(self, work, root):
        self.box, self.repositories = Box(work, root), Repositories(work)
        box = self.box
        box.write("/etc/apt/sources.list", "")
        for path in (box.place / "etc/apt/sources.list.d").iterdir():
            path.unlink()
        box.write("/etc/hostname", "box\n")
        box.write("/etc/mosquitto/conf.d/test.conf", "listener 1883 127.0.0.1\nallow_anonymous true\nautosave_interval 2\nmax_queued_messages 0\n")
        box.write("/etc/apt/sources.list.d/jetwatch.sources", SOURCE)
        for unit, command in (("jetwatch-update", "install"), ("jetwatch-update-resume", "resume")):
            box.write(f"/etc/systemd/system/{unit}.service.d/patient.conf", f"[Service]\nExecStart=\nExecStart=/usr/sbin/jetwatch-update {command} {PATIENT} 600s\n")
        self.has_models = bool(os.environ.get("ONNXRUNTIME"))
        if self.has_models:
            library = box.place / "opt/onnxruntime/lib"
            library.mkdir(parents=True)
            shutil.copy(os.environ["ONNXRUNTIME"], library)
        self.repositories.show("1.0.0")
        self.give_keyring()
        box.boot()
        box.run("dpkg --install /srv/packages/1.0.0.deb")
        box.write("/etc/jetwatch/jetwatch.yaml", CONFIG)
        box.run("systemctl restart jetwatch")
        until("the first version is healthy", box.healthy)
        self.subscriber = Subscriber(box)
        self.subscriber.start()

    def give_keyring(self):
        """The keys as a file of no package."""
        shutil.copy(self.repositories.first / "public/jetwatch-archive-keyring.gpg", self.box.place / "usr/share/keyrings/")

    def update(self, *options, install_timeout="600s"):
        began = time.monotonic()
        code, text = self.box.run(" ".join(["jetwatch-update install", PATIENT, install_timeout, *options]), False)
        return code, text, time.monotonic() - began

    def expect(self, what, code_and_text, code, text, version, state, held=None, published=True, model=None):
        """The end of an update: exit code, words, versions, health, status, and what was published of it."""
        box, (found_code, found_text) = self.box, code_and_text
        status, problems = box.status(), []
        if found_code != code or text not in found_text:
            problems.append(f"exit code {found_code}, {found_text[-600:]!r}")
        if box.version() != f"installed {version}" or not box.healthy():
            problems.append(f"{box.version()}, healthy: {box.healthy()}")
        if box.model() != model:
            problems.append(f"the model is {box.model()}, expected {model}")
        if (status.get("state"), status.get("held")) != (state, held) or box.step():
            problems.append(f"status {status}, journal {box.step()}")
        try:
            until("the state is published", lambda: not published or (box.published().get("state"), box.published().get("held")) == (state, held), 120)
        except TimeoutError as error:
            problems.append(f"{error}: {box.published()}")
        report(what, "; ".join(problems))


def good(bench):
    box = bench.box
    bench.repositories.show("1.0.0", "1.1.0")
    code, text = box.run("jetwatch-update check", False)
    report("check finds the newer version, and installs nothing", "" if code == 0 and "1.1.0 is available" in text and box.version() == "installed 1.0.0" else text)
    code, text, took = bench.update()
    bench.expect(f"a good version is installed ({took:.0f} s)", (code, text), 0, "1.1.0 is installed and healthy", "1.1.0", "installed")
    code, text, _ = bench.update()
    bench.expect("again: nothing to do", (code, text), 0, "1.1.0 is installed, and the newest", "1.1.0", "up_to_date")
    # An index of yesterday, which is still valid.
    bench.repositories.show("1.0.0")
    code, text, _ = bench.update()
    bench.expect("an index that is older than the last one changes nothing", (code, text), 0, "is installed", "1.1.0", "up_to_date")
    code, text = box.run("jetwatch-update rollback", False)
    bench.expect("rollback by hand returns to the version before", (code, text), 0, "rolled back to 1.0.0", "1.0.0", "rolled_back", "1.1.0")
    report("and holds the package", "" if "jetwatch" in box.run("apt-mark showhold")[1] else box.run("apt-mark showhold")[1])
    bench.repositories.show("1.0.0", "1.1.0")
    code, text, _ = bench.update()
    bench.expect("a version that was rolled back is not installed by itself", (code, text), 0, "--retry-held", "1.0.0", "available", "1.1.0")
    code, text, _ = bench.update("--retry-held")
    bench.expect("but on request", (code, text), 0, "1.1.0 is installed and healthy", "1.1.0", "installed")


def service(bench):
    """By the unit, in its sandbox: a package whose scripts do what those of packages do, and one that is rolled back."""
    box = bench.box

    def start(*versions):
        bench.repositories.show(*versions)
        code, _ = box.run("systemctl start jetwatch-update.service", False)
        return code, box.run("journalctl --no-pager --output=cat --lines=30 -u jetwatch-update")[1]
    bench.expect("by the unit, a good version is installed", start("1.0.0", "1.1.0"), 0, "1.1.0 is installed and healthy", "1.1.0", "installed")
    report("and its files are whole", box.run("dpkg --verify jetwatch | grep -v ' c /etc/jetwatch/jetwatch.yaml'", False)[1])
    bench.expect("and one whose scripts do what those of packages do", start("1.1.0", "1.9.0"), 0, "1.9.0 is installed and healthy", "1.9.0", "installed")
    made = box.run("stat --format='%U:%G %a %F' /opt/probe/program /opt/probe/device", False)[1].split("\n")[:-1]
    wanted = ["probe:daemon 6755 regular file", "root:root 644 character special file"]
    report("and they have done it", "" if made == wanted else made)
    box.run("rm -r /opt/probe /var/lib/probe; userdel probe")
    box.reset()
    bench.expect("by the unit, a daemon that ends at once is rolled back", start("1.0.0", "1.3.0"), 1, "by itself", "1.0.0", "rolled_back", "1.3.0")
    report("and the files of the earlier version are whole", box.run("dpkg --verify jetwatch | grep -v ' c /etc/jetwatch/jetwatch.yaml'", False)[1])


def keys(bench):
    """A key is replaced: the box learns the new one with an update, and the old one is retired after that."""
    box, repositories = bench.box, bench.repositories
    folder = repositories.make("1.0.0", "0.9.0")

    def repository(*arguments):
        done = subprocess.run([PROJECT / "cross/repository", arguments[0], folder, *arguments[1:]], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        repositories.show("1.0.0", "0.9.0")
        return done.stdout
    repositories.show("1.0.0", "0.9.0")
    shutil.copy(next((repositories.live / "pool").rglob("jetwatch-archive-keyring_*.deb")), box.place / "root/keyring.deb")
    box.run("dpkg --install /root/keyring.deb")
    old = repository("status").split(" key ")[1].split()[0]
    repository("rotate")
    repository("add", str(box.work / "packages/1.1.0.deb"))
    code, text, _ = bench.update()
    bench.expect("an index with two signatures is taken", (code, text), 0, "1.1.0 is installed and healthy", "1.1.0", "installed")
    repository("retire", old)
    code, text, _ = bench.update()
    bench.expect("and one by the new key alone, which came with the update", (code, text), 0, "1.1.0 is installed, and the newest", "1.1.0", "up_to_date")
    box.run("dpkg --purge jetwatch-archive-keyring")
    bench.give_keyring()


def does_not_run(bench):
    pid = bench.box.main_pid()
    bench.repositories.show("1.0.0", "1.2.0")
    code, text, _ = bench.update()
    bench.expect("a program that does not start is refused", (code, text), 1, "this build cannot run", "1.0.0", "refused")
    report("and the daemon was not touched", "" if bench.box.main_pid() == pid else "another process")


def rolled_back(bench, version, what, reason):
    bench.repositories.show("1.0.0", version)
    box = bench.box
    process = subprocess.Popen(["nsenter", f"--target={box.pid}", "--all", "jetwatch-update", "install"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, env=ENVIRONMENT)
    until("the installation begins", lambda: box.step() == "install" or process.poll() is not None)
    began = time.monotonic()
    until("the rollback begins", lambda: box.step() == "roll_back" or process.poll() is not None)
    until("the earlier version runs", lambda: box.version() == "installed 1.0.0" and box.read("/run/jetwatch/health-jetwatch.json").get("program") and box.healthy() or process.poll() is not None)
    took = time.monotonic() - began
    text = process.communicate()[0]
    bench.expect(f"{what} is rolled back: the earlier version is healthy {took:.0f} s after the begin of the installation", (process.returncode, text), 1, reason, "1.0.0", "rolled_back", version)
    # Beside other programs it takes longer.
    limit = 60 if FULL else 600
    report(f"within {limit} s, by the defaults", "" if took <= limit else f"{took:.1f} s")


def ends(bench):
    rolled_back(bench, "1.3.0", "a daemon that ends at once", "by itself")


def loses_source(bench):
    rolled_back(bench, "1.4.0", "a daemon that loses a source", "yard")


def loses_broker(bench):
    rolled_back(bench, "1.5.0", "a daemon that loses the broker", "broker")


def hangs(bench):
    rolled_back(bench, "1.6.0", "a daemon that hangs", "health")


def hanging_scripts(bench):
    """Maintainer scripts that do not end: at the installation, and also at the way back."""
    box = bench.box
    for version, what in (("1.7.0", "a package whose postinst does not end"), ("1.8.0", "and one whose prerm does not end either")):
        box.reset()
        bench.repositories.show("1.0.0", version)
        # The way back has this time, too.
        code, text, took = bench.update(install_timeout="60s")
        bench.expect(f"{what} is rolled back ({took:.0f} s, with 60 s for each installation)", (code, text), 1, "did not end within 60 s", "1.0.0", "rolled_back", version)
        rest = box.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", False)[1]
        report("and no script of it is left", "a script runs on" if "sleep 100000" in rest else box.run("dpkg --audit")[1])


def https(bench):
    """A repository by HTTPS, whose certificate is by an authority that apt is told."""
    box, keys = bench.box, bench.box.work / "tls"
    keys.mkdir()

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=keys, check=True, capture_output=True)
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=authority of the test", "-keyout", "ca.key", "-out", "ca.pem")
    for name in ("packages.example.org", "other.example.org"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (keys / "names").write_text(f"subjectAltName=DNS:{name}\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem")
    shutil.copytree(keys, box.place / "root/tls")
    # apt reads it as a user of its own.
    shutil.copy(keys / "ca.pem", box.place / "etc/apt/authority.pem")
    shutil.copy(HERE / "https_server.py", box.place / "root")
    box.run("echo '127.0.0.1 packages.example.org' >>/etc/hosts")

    def serve(name):
        box.run("systemctl stop packages", False)
        box.run(f"systemd-run --quiet --unit=packages python3 /root/https_server.py /srv/live /root/tls/{name}.pem /root/tls/{name}.key")
        until("the repository answers", lambda: box.run("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 443))'", False)[0] == 0)
    authority = 'Acquire::https::packages.example.org::CAInfo "/etc/apt/authority.pem";\n'
    bench.repositories.show("1.0.0", "1.1.0")
    box.write("/etc/apt/sources.list.d/jetwatch.sources", SOURCE.replace("file:/srv/live", "https://packages.example.org"))
    serve("packages.example.org")
    code, text, _ = bench.update()
    bench.expect("a repository by HTTPS, whose authority apt does not know, is refused", (code, text), 1, "certificates", "1.0.0", "refused")
    box.write("/etc/apt/apt.conf.d/50jetwatch-authority", authority)
    serve("other.example.org")
    code, text, _ = bench.update()
    bench.expect("and one with the certificate of another name", (code, text), 1, "does not match", "1.0.0", "refused")
    serve("packages.example.org")
    code, text, _ = bench.update()
    bench.expect("by HTTPS, a good version is fetched, installed and healthy", (code, text), 0, "1.1.0 is installed and healthy", "1.1.0", "installed")
    log = box.run("journalctl --no-pager --output=cat -u packages")[1]
    fetched, kept = log.count("1.1.0.deb HTTP"), box.run("ls /var/cache/apt/archives/*.deb", False)
    report("and it is fetched once, and apt keeps no copy", "" if fetched == 1 and kept[0] else f"{fetched} times, {kept[1]}")
    box.run("systemctl stop packages; rm /etc/apt/apt.conf.d/50jetwatch-authority", False)
    box.write("/etc/apt/sources.list.d/jetwatch.sources", SOURCE)


def models(bench):
    """Models as packages: proven before and after the switch, alone and together with the program."""
    box = bench.box
    if not bench.has_models:
        report("left out: ONNX Runtime is not here (ORT_DYLIB_PATH)")
        return

    def update(what, *packages, code=0, text, program="1.0.0", model="1", state="installed", held=None):
        bench.repositories.show("1.0.0", "street-1", *packages)
        pid = box.main_pid()
        found, words, took = bench.update()
        bench.expect(f"{what} ({took:.0f} s)", (found, words), code, text, program, state, held, model=model)
        if state == "refused":
            report("and the daemon was not touched", "" if box.main_pid() == pid else "another process")

    def runs():
        return box.run("mosquitto_sub -h 127.0.0.1 -t jetwatch/box/detector -C 1 -W 3", False)[1]
    box.reset(model="1")
    update("a model is installed by itself", "street-2", text="1.0.0, street 2 is installed and healthy", model="2")
    report("and the daemon runs it", "" if "street-two" in runs() else runs())
    update("again: nothing to do", "street-2", text="1.0.0, street 2 is installed, and the newest", model="2", state="up_to_date")
    code, text = box.run("jetwatch-update rollback", False)
    bench.expect("rollback by hand returns to the model before", (code, text), 0, "rolled back to 1.0.0, street 1", "1.0.0", "rolled_back", "1.0.0, street 2", model="1")
    report("and the daemon runs that one", "" if "street-nano" in runs() else runs())
    history = json.loads(box.run("jetwatch-update status --history --json")[1])
    report("and both are in the history", "" if [entry["state"] for entry in history] == ["installed", "rolled_back"] else history)
    box.reset(model="1")
    for version, what, reason in (("3", "one that misses recorded detections", "wrong  recorded street"), ("4", "one with a damaged network", "wrong  detector"), ("5", "one without a record", "golden.json is missing")):
        update(f"{what} is refused", f"street-{version}", code=1, text=reason, state="refused")
    update("a model that misses them is refused together with a good program", "1.1.0", "street-3", code=1, text="wrong  recorded street", state="refused")
    update("one that misses them once it is installed is rolled back", "street-6", code=1, text="wrong  recorded street", state="rolled_back", held="1.0.0, street 6")
    report("and its files are whole", box.run("dpkg --verify jetwatch-model-street", False)[1])
    update("and with a good program", "1.1.0", "street-6", code=1, text="wrong  recorded street", state="rolled_back", held="1.1.0, street 6")
    box.reset(model="1")
    update("program and model are installed together", "1.1.0", "street-2", text="1.1.0, street 2 is installed and healthy", program="1.1.0", model="2")
    box.reset(model="1")
    update("and rolled back together, where the program ends at once", "1.3.0", "street-2", code=1, text="by itself", state="rolled_back", held="1.3.0, street 2")
    steps = [("2", step) for step in ("keep", "fetch", "check", "install", "verify", "commit")] + [("6", "roll_back")]
    for version, step in steps if FULL else [("2", "check"), ("2", "install"), ("2", "verify"), ("6", "roll_back")]:
        interrupted(bench, ("1.1.0", f"street-{version}"), step, kill, "kill -9", model="1")
    box.reset()


def slots(bench):
    """examples/ab with test doubles of the slot systems: a slot is marked where the daemon is healthy, and not else."""
    box, examples, doubles = bench.box, PROJECT / "examples/ab", HERE / "doubles"
    units = box.place / "etc/systemd/system"
    for source, target, mode in (
            (examples / "mark-good", box.place / "usr/local/lib/jetwatch/mark-good", 0o755),
            (examples / "jetwatch-mark-good.service", units / "jetwatch-mark-good.service", 0o644),
            (examples / "rauc.conf", units / "jetwatch-mark-good.service.d/rauc.conf", 0o644),
            (examples / "l4t.conf", units / "nv-l4t-bootloader-config.service.d/l4t.conf", 0o644),
            (examples / "mender/ArtifactCommit_Enter_50_jetwatch", box.place / "etc/mender/scripts/ArtifactCommit_Enter_50_jetwatch", 0o755),
            (doubles / "nv-l4t-bootloader-config.service", units / "nv-l4t-bootloader-config.service", 0o644),
            (doubles / "slots", box.place / "usr/bin/rauc", 0o755), (doubles / "slots", box.place / "usr/sbin/nvbootctrl", 0o755),
            (doubles / "mender", box.place / "usr/bin/mender", 0o755)):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        target.chmod(mode)
    box.write("/etc/systemd/system/jetwatch-mark-good.service.d/wait.conf", "[Service]\nEnvironment=JETWATCH_WAIT=4s\n")
    box.run("systemctl daemon-reload")

    def started(command):
        """Exit code, and what the doubles were called with."""
        box.run("rm -f /run/slots; systemctl stop jetwatch-mark-good nv-l4t-bootloader-config; systemctl reset-failed", False)
        code, text = box.run(command, False)
        return code, box.run("cat /run/slots 2>/dev/null", False)[1].split("\n")[:-1], text
    mark, verify, mender = "systemctl start jetwatch-mark-good", "systemctl start nv-l4t-bootloader-config", "JETWATCH_WAIT=4s mender commit"
    wanted = {mark: ["rauc status mark-good"], verify: ["rauc status mark-good", "nvbootctrl verify"], mender: ["mender commit"]}
    for command, calls in wanted.items():
        code, called, text = started(command)
        report(f"a healthy daemon: {calls[-1]}", "" if (code, called) == (0, calls) else f"{code}, {called}: {text}")
    def marks_nothing(what):
        for command, calls in {mark: [], verify: [], mender: ["mender rollback"]}.items():
            code, called, text = started(command)
            report(f"{what}: {command.split(' ', 1)[1]} marks nothing", "" if code and called == calls else f"{code}, {called}: {text}")
    pid = box.main_pid()
    box.run(f"kill -STOP {pid}")
    until("the health is old", lambda: not box.healthy())
    # For less than the time of the watchdog, which would start it again.
    marks_nothing("a daemon that hangs")
    box.run(f"kill -CONT {pid}", False)
    box.write("/etc/jetwatch/jetwatch.yaml", CONFIG + "no_such_key: 1\n")
    box.run("systemctl restart jetwatch", False)
    marks_nothing("a daemon that does not start")
    box.write("/etc/jetwatch/jetwatch.yaml", CONFIG)
    box.run("systemctl stop jetwatch-mark-good nv-l4t-bootloader-config; rm -rf /etc/systemd/system/*mark-good* /etc/systemd/system/nv-l4t* /usr/local/lib/jetwatch /etc/mender; systemctl daemon-reload; systemctl restart jetwatch")


def attacks(bench):
    box, repositories = bench.box, bench.repositories
    pid = box.main_pid()

    def refused(what, text, state="refused"):
        code, out, _ = bench.update()
        bench.expect(what, (code, out), 1, text, "1.0.0", state)

    index = repositories.show("1.0.0", "1.1.0")
    good_text = index.read_text()
    index.write_text(good_text.replace("Label: jetwatch", "Label: jetwotch"))
    refused("a changed index is refused", "cannot refresh the repository")
    index = repositories.show("1.0.0", "1.1.0")
    for packages in index.parent.rglob("*"):
        if packages.is_file() and packages != index and "binary-amd64" in str(packages):
            packages.write_bytes(packages.read_bytes()[:-7] + b"tamper\n")
    refused("a changed list of packages is refused", "cannot refresh the repository")
    repositories.show("1.0.0", "1.1.0", own_key=True)
    refused("an index by another key is refused", "cannot refresh the repository")
    index = repositories.show("1.0.0", "1.1.0")
    body = good_text.split("\n\n", 1)[1].split("-----BEGIN PGP SIGNATURE", 1)[0]
    index.unlink()
    (index.parent / "Release").write_text(body)
    refused("an index without a signature is refused", "cannot refresh the repository")
    repositories.show("1.0.0", "1.1.0")
    old = "\n".join("Valid-Until: Mon, 02 Nov 2020 00:00:00 UTC" if line.startswith("Valid-Until") else "Date: Sun, 01 Nov 2020 00:00:00 UTC" if line.startswith("Date") else line for line in body.splitlines())
    repositories.sign(old + "\n")
    refused("an index beyond its date is refused, though its signature is good", "cannot refresh the repository")
    repositories.show("1.0.0", "1.1.0")
    deb = next((repositories.live / "pool").rglob("1.1.0.deb"))
    data = bytearray(deb.read_bytes())
    data[len(data) // 2] ^= 1
    deb.write_bytes(data)
    refused("a changed package is refused", "cannot fetch the package")
    repositories.show("1.0.0", "1.1.0")
    deb.write_bytes(deb.read_bytes()[:-1000])
    refused("a truncated package is refused", "cannot fetch the package")
    repositories.show("0.9.0")
    code, out, _ = bench.update()
    bench.expect("a lower version is not installed", (code, out), 0, "1.0.0 is installed, and the newest", "1.0.0", "up_to_date")
    repositories.show("1.0.0", "1.1.0")
    box.write("/etc/apt/sources.list.d/jetwatch.sources", SOURCE.replace("Signed-By", "Trusted: yes\nSigned-By"))
    code, out = box.run("jetwatch-update install", False)
    report("an entry that switches signatures off is refused", "" if code == 1 and "trusted is not allowed" in out else out)
    box.write("/etc/apt/sources.list.d/jetwatch.sources", SOURCE)
    report("the daemon ran on through all of it", "" if box.main_pid() == pid else "another process")


def full_disk(bench):
    box = bench.box
    bench.repositories.show("1.0.0", "1.1.0")
    pid = box.main_pid()
    size = max(path.stat().st_size for path in (bench.box.work / "packages").iterdir())
    for what, room in (("no room for the packages", size // 2), ("room for the packages alone", 3 * size)):
        box.run(f"rm -rf {STATE}; mkdir -p {STATE} && mount -t tmpfs -o size={room},mode=755 tmpfs {STATE}")
        code, out, _ = bench.update()
        done = "" if code == 1 and ("No space left" in out or "no room" in out or "space" in out) and box.version() == "installed 1.0.0" and box.main_pid() == pid else out
        report(f"a full disk ({what}) refuses the update, and the daemon runs on", done)
        box.run(f"umount {STATE}")


def kill(box):
    box.run("systemctl kill --kill-who=all --signal=KILL jetwatch-update.service")


def kills(bench):
    """kill -9 of the updater, with all that it has started, at each step; its unit ends the update."""
    cases = [("1.1.0", step) for step in ("keep", "fetch", "check", "install", "verify", "commit")] + [("1.3.0", "verify"), ("1.3.0", "roll_back")]
    cases = cases if FULL else [("1.1.0", "install"), ("1.3.0", "roll_back")]
    for version, step in cases:
        interrupted(bench, (version,), step, kill, "kill -9")


def power_cuts(bench):
    cases = [(("1.1.0",), step) for step in ("fetch", "install", "verify")] + [(("1.3.0",), "roll_back")]
    cases = cases if FULL else [(("1.1.0",), "install")]

    def cut(box):
        box.cut_power()
        box.boot()
        bench.subscriber.start()

    def order(box):
        """The time of the end of the repair, and of the start of the daemon after it."""
        return [int(box.run(f"systemctl show --property={what} --value {unit}")[1]) for what, unit in
                (("ExecMainExitTimestampMonotonic", "jetwatch-update-repair"), ("ExecMainStartTimestampMonotonic", "jetwatch"))]
    for packages, step in cases:
        interrupted(bench, packages, step, cut, "power cut")
    if not bench.has_models:
        return
    for step in ("install", "verify", "roll_back") if FULL else ("install",):
        interrupted(bench, ("street-6" if step == "roll_back" else "street-2",), step, cut, "power cut", model="1")
        repaired, started = order(bench.box)
        report("and the packages were made whole before the daemon started", "" if 0 < repaired <= started else f"{repaired}, {started}")
    bench.box.reset()


def interrupted(bench, new, step, interrupt, what, model=None):
    """An update to the packages `new` is interrupted: it ends with all of them, or with those before. 1.3.0 and street-6 do not stay."""
    box, before = bench.box, ("installed 1.0.0", model)
    box.reset(model=model)
    bench.repositories.show("1.0.0", *(["street-1"] if model else []), *new)
    after = list(before)
    for package in new:
        name, _, version = package.rpartition("-")
        after[bool(name)] = version if name else f"installed {version}"
    is_good = not {"1.3.0", "street-6"} & set(new)
    box.run("systemctl start --no-block jetwatch-update.service")
    seen = False
    end = time.monotonic() + 600
    while time.monotonic() < end and not seen:
        seen = box.step() == step
        if not seen and box.status().get("state") in ("installed", "rolled_back"):
            break
    if not seen:
        # A step of some milliseconds may be over between two looks.
        report(f"{what} while `{step}`: too short to be met here") if step in ("commit", "keep") else report(f"{what} while `{step}`", f"not met: {box.status()}")
        return
    time.sleep(0.2 if step in ("install", "roll_back") else 0)
    interrupt(box)

    def is_over():
        units = box.run("systemctl is-active jetwatch-update.service jetwatch-update-resume.service", False)[1]
        return "activating" not in units and not box.step()
    try:
        until("the update ends", is_over)
        until("a version is healthy", box.healthy)
        found = (box.version(), box.model())
        problem = "" if found == before or is_good and found == tuple(after) else found
    except TimeoutError as error:
        problem = f"{error}: {box.version()}, {box.status()}, {box.run('journalctl --no-pager -n 30 -u jetwatch-update -u jetwatch-update-resume', False)[1]}"
    report(f"{what} while `{step}` of {' and '.join(new)} ends with {box.status().get('installed')}, {box.status().get('state')}, and healthy", problem)


def purged(bench):
    """After updates, the package goes with all that the updater has kept."""
    box = bench.box
    box.run("rm -r /etc/systemd/system/jetwatch-update*.service.d; dpkg --purge jetwatch")
    found = box.run("find /etc /var /usr /run -xdev -name '*jetwatch*' ! -path '/etc/apt/*' ! -path '/usr/share/keyrings/*' ! -path '/var/lib/apt/*' ! -path '/run/systemd/*'", False)[1].split()
    report("the package is purged, and nothing is left", found)


CASES = {"good": good, "service": service, "keys": keys, "does_not_run": does_not_run, "ends": ends, "loses_source": loses_source, "loses_broker": loses_broker, "hangs": hangs, "hanging_scripts": hanging_scripts, "https": https, "models": models, "slots": slots, "attacks": attacks, "full_disk": full_disk, "kills": kills,
         "power_cuts": power_cuts, "purged": purged}
# A power cut takes messages of the last seconds along, so events are counted before it.
CUTS = ("power_cuts", "purged")
SHORT = [name for name in CASES if name not in ("loses_source", "loses_broker")]


def count_events(bench):
    def all_there():
        missing, there, gaps = bench.subscriber.lost()
        return there > 0 and not missing and not gaps
    try:
        until("all events", all_there, 120)
        report(f"no event is lost over all of this: {bench.subscriber.lost()[1]} arrived")
    except TimeoutError:
        report("no event is lost over all of this", bench.subscriber.lost())


def main(work, root):
    chosen = os.environ.get("CASES", "").split() or (list(CASES) if FULL else SHORT)
    bench = Bench(Path(work), root)
    began, counted = time.monotonic(), False
    for name in chosen:
        if name in CUTS and not counted:
            count_events(bench)
            counted = True
        try:
            bench.box.reset()
            CASES[name](bench)
        except Exception as error:
            report(name, f"{bench.box.run('journalctl --no-pager -n 20 -u jetwatch', False)[1]}; {bench.box.status()}; {type(error).__name__}: {error}")
    if not counted:
        count_events(bench)
    bench.box.cut_power()
    print(f"update: {passed} passed, {failed} failed ({time.monotonic() - began:.0f} s)")
    return 1 if failed or not passed else 0


sys.exit(main(*sys.argv[1:]))
