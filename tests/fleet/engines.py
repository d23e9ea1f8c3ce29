# SPDX-License-Identifier: Apache-2.0
"""Brokers and the database of the tests: three nodes of RabbitMQ or NATS, or one mosquitto, and PostgreSQL, out of the Debian that
`install engines` makes. They run in the name spaces of the test (tests/fleet/enter), so their ports are fixed and end with it.
RabbitMQ runs by the files of examples/fleet/rabbitmq, in which only addresses, TLS and the paths of a node are replaced.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples/fleet"
NODES = (1, 2, 3)
PASSWORDS = {"consumer": "password-of-the-consumer"}


def until(what, found, limit=120):
    end = time.monotonic() + limit
    while not (result := found()):
        if time.monotonic() > end:
            sys.exit(f"fleet: not within {limit} s: {what}")
        time.sleep(0.1)
    return result


def is_open(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


class Processes:
    """Processes by name, each the leader of a group of its own; their output is in FOLDER/NAME.log."""

    def __init__(self, folder):
        self.folder, self.running = folder, {}

    def start(self, name, command, **more):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **more)

    def kill(self, name):
        process = self.running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, name, limit=120):
        """Ends it by SIGTERM; its exit code."""
        return self.stop_all([name], limit)[0]

    def stop_all(self, names, limit=120):
        """The same for several at once."""
        processes = [self.running.pop(name) for name in names]
        for process in processes:
            process.terminate()
        return [self.await_end(name, process, limit) for name, process in zip(names, processes)]

    def await_end(self, name, process, limit):
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            sys.exit(f"fleet: {name} did not end within {limit} s:\n{self.log(name)}")

    def died(self):
        return [name for name, process in self.running.items() if process.poll() is not None]

    def await_log(self, name, text):
        """Waits for `text` in the output of a process, which must not end before."""
        def found():
            if name in self.died():
                sys.exit(f"fleet: {name} has ended by itself:\n{self.log(name)}")
            return text in self.log(name)

        until(f"'{text}' of {name}", found)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def kill_all(self):
        for name in list(self.running):
            self.kill(name)


class Engines:
    """`root` is the Debian, `folder` is empty and seen as /mnt inside of it."""

    def __init__(self, root, folder, processes):
        self.root, self.folder, self.processes = root, folder, processes
        subprocess.run(["mount", "--bind", folder, root / "mnt"], check=True)
        subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
        subprocess.run(["mount", "--rbind", "/dev", root / "dev"], check=True)

    def inside(self, *command, user="root", **variables):
        """The command line that runs `command` in the Debian."""
        names = [f"{name}={value}" for name, value in {"HOME": "/mnt", "LANG": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **variables}.items()]
        return ["chroot", f"--userspec={user}:{user}", self.root, "env", "-i", *names, *command]

    def run(self, *command, **more):
        done = subprocess.run(self.inside(*command, **more), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stderr or done.stdout}")
        return done.stdout

    # PostgreSQL ------------------------------------------------------------------------------------------------------------------

    def start_postgresql(self):
        """An empty database with the tables of the example; the connection string."""
        programs = next((self.root / "usr/lib/postgresql").iterdir()) / "bin"
        programs = Path("/") / programs.relative_to(self.root)
        data = self.folder / "postgresql"
        data.mkdir()
        identity = int(self.run("id", "-u", "postgres"))
        os.chown(data, identity, int(self.run("id", "-g", "postgres")))
        self.folder.chmod(0o755)
        self.run(programs / "initdb", "--auth=trust", "--no-locale", "--encoding=UTF8", "/mnt/postgresql", user="postgres")
        # Durable as it is by default: fsync and synchronous_commit stay on.
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=256MB", "max_wal_size=2GB"]
        self.postgresql = self.inside(programs / "postgres", "-D", "/mnt/postgresql", *(part for name in settings for part in ("-c", name)), user="postgres")
        self.processes.start("postgresql", self.postgresql)
        until("PostgreSQL", lambda: is_open(5432))
        until("PostgreSQL's answer", lambda: not subprocess.run(self.inside("pg_isready", "-h", "127.0.0.1"), capture_output=True).returncode)
        self.run("psql", "-h", "127.0.0.1", "-U", "postgres", "-c", "CREATE DATABASE fleet")
        shutil.copy(EXAMPLES / "schema.sql", self.folder)
        for _ in range(2):
            self.run("psql", "-h", "127.0.0.1", "-U", "postgres", "-d", "fleet", "-v", "ON_ERROR_STOP=1", "-f", "/mnt/schema.sql")
        return "host=127.0.0.1 user=postgres dbname=fleet"

    # RabbitMQ --------------------------------------------------------------------------------------------------------------------

    def rabbitmq_variables(self, node):
        return {
            "HOME": "/mnt/rabbitmq", "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_NODENAME": f"r{node}@localhost", "RABBITMQ_DIST_PORT": str(25670 + node),
            "RABBITMQ_CONFIG_FILE": f"/mnt/rabbitmq/{node}/rabbitmq", "RABBITMQ_ENABLED_PLUGINS_FILE": "/mnt/rabbitmq/enabled_plugins",
            "RABBITMQ_MNESIA_BASE": f"/mnt/rabbitmq/{node}/data", "RABBITMQ_LOG_BASE": f"/mnt/rabbitmq/{node}/log",
            "RABBITMQ_PID_FILE": f"/mnt/rabbitmq/{node}/pid",
            # One scheduler each, because this machine stands for three.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{self.erlang} +S 1:1 -kernel inet_dist_use_interface {{127,0,0,1}}",
        }

    def make_rabbitmq(self, devices):
        home = self.folder / "rabbitmq"
        home.mkdir()
        (home / ".erlang.cookie").write_text("of-this-test")
        (home / ".erlang.cookie").chmod(0o400)
        shutil.copy(EXAMPLES / "rabbitmq/enabled_plugins", home)
        (home / "password").write_text(PASSWORDS["consumer"] + "\n")
        lines = "".join(f"{device} password-of-{device}\n" for device in devices)
        definitions = subprocess.run([sys.executable, EXAMPLES / "rabbitmq/definitions.py", home / "password"], input=lines, text=True,
                                     capture_output=True, check=True).stdout
        (home / "definitions.json").write_text(definitions)
        variables = (EXAMPLES / "rabbitmq/rabbitmq-env.conf").read_text()
        self.erlang = re.search(r'^SERVER_ADDITIONAL_ERL_ARGS="(.*)"$', variables, flags=re.M)[1]
        example = (EXAMPLES / "rabbitmq/rabbitmq.conf").read_text()
        for node in NODES:
            text = re.sub(r"rabbit@mq(\d)", r"r\1@localhost", example)
            for pattern, value in [
                (r"^mqtt.listeners.tcp = none$", f"mqtt.listeners.tcp.1 = 127.0.0.1:{1883 + node}"), (r"^mqtt.listeners.ssl.*\n", ""), (r"^ssl_options.*\n", ""),
                (r"127.0.0.1:5672", f"127.0.0.1:{5680 + node}"), (r"15692", str(15690 + node)),
                (r"/etc/rabbitmq/definitions.json", "/mnt/rabbitmq/definitions.json"), (r"5GB", "100MB"),
            ]:
                text, count = re.subn(pattern, value, text, flags=re.M)
                assert count, f"the example has no {pattern}"
            (home / str(node)).mkdir()
            (home / str(node) / "rabbitmq.conf").write_text(text)
        self.processes.start("epmd", self.inside("epmd", "-address", "127.0.0.1"))

    def start_rabbitmq(self, node):
        self.processes.start(f"node-{node}", self.inside("/usr/lib/rabbitmq/bin/rabbitmq-server", **self.rabbitmq_variables(node)))

    def rabbitmqctl(self, node, *command):
        return self.run("/usr/lib/rabbitmq/bin/rabbitmqctl", "--quiet", *command, **self.rabbitmq_variables(node))

    # NATS and mosquitto ----------------------------------------------------------------------------------------------------------

    def make_nats(self):
        for node in NODES:
            place = self.folder / "nats" / str(node)
            place.mkdir(parents=True)
            text = (EXAMPLES / "nats/nats.conf").read_text()
            text = re.sub(r"^authorization \{.*?^\}\n", "", text, flags=re.M | re.S)
            for pattern, value in [
                (r"server_name: nats1", f"server_name: nats{node}"), (r"127.0.0.1:4222", f"127.0.0.1:{4220 + node}"), (r"127.0.0.1:8222", f"127.0.0.1:{8220 + node}"), (r"/var/lib/nats", f"/mnt/nats/{node}/data"),
                (r"0.0.0.0:8883", f"127.0.0.1:{1883 + node}"), (r"^  tls .*\n", ""), (r"0.0.0.0:6222", f"127.0.0.1:{6220 + node}"),
                (r"nats-route://nats(\d):6222", r"nats-route://127.0.0.1:622\1"),
            ]:
                text, count = re.subn(pattern, value, text, flags=re.M)
                assert count, f"the example has no {pattern}"
            (place / "nats.conf").write_text(text)

    def start_nats(self, node):
        self.processes.start(f"node-{node}", self.inside("nats-server", "-c", f"/mnt/nats/{node}/nats.conf"))

    def start_mosquitto(self, port=1884):
        """By the settings of the example that are about keeping messages."""
        example = (EXAMPLES / "mosquitto/mosquitto.conf").read_text()
        kept = [line for line in example.splitlines() if re.match(r"plugin|persistent_client|max_", line)]
        assert len(kept) == 6, "the example has other settings than this test expects"
        (self.folder / "mosquitto").mkdir(exist_ok=True)
        kept.insert(1, "plugin_opt_db_file /mnt/mosquitto/mosquitto.sqlite")
        (self.folder / "mosquitto/mosquitto.conf").write_text("\n".join(["user root", f"listener {port} 127.0.0.1", "allow_anonymous true", *kept, ""]))
        self.processes.start("mosquitto", self.inside("mosquitto", "-c", "/mnt/mosquitto/mosquitto.conf"))
        until("mosquitto", lambda: is_open(port))
