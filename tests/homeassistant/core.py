# SPDX-License-Identifier: Apache-2.0
"""A real Home Assistant in the Debian of `install`: its process, and its own interfaces. No file of its own is made by hand."""
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from site_under_test import Failed, free_port, until
from websocket import WebSocket

# All that it needs is installed. Mounts are gone, and every process with them, once the first process of the namespaces ends.
START = """
set -euo pipefail
root=$1 config=$2 port=$3
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mkdir -p "$root/config"
mount --bind "$config" "$root/config"
exec chroot "$root" env -i HOME=/root LANG=C.UTF-8 TZ=UTC PATH=/opt/ha/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt SETUP_PORT="$port" hass --config /config --skip-pip
"""
CONFIGURATION = "api:\nconfig:\nlogger:\n  default: warning\n"


class Core:
    def __init__(self, root):
        self.root = Path(root)
        self.folder = Path(tempfile.mkdtemp(prefix="homeassistant-"))
        self.port, self.token, self.process = free_port(), None, None
        self.version = self.root.name.removeprefix("homeassistant-")
        # Later ones take the port from the environment, and leave one of the file after five minutes.
        own_port = f"http:\n  server_port: {self.port}\n" if self.version < "2026" else ""
        (self.folder / "configuration.yaml").write_text(CONFIGURATION + own_port)

    def start(self):
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--"]
        command += ["bash", "-c", START, "bash", str(self.root), str(self.folder), str(self.port)]
        if os.geteuid() != 0:
            command = ["sudo", *command]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until("Home Assistant answers", self._answers, 120)

    def _answers(self):
        if self.process.poll() is not None:
            raise Failed(f"Home Assistant ended with {self.process.returncode}:\n{self.log()[-3000:]}")
        try:
            self.request("GET", "/api/onboarding" if self.token is None else "/api/config")
            return self.token is None or self.request("GET", "/api/config")["state"] == "RUNNING"
        except (OSError, http.client.HTTPException):
            return False

    def stop(self):
        """Asks it to end, as its own interface does."""
        self.call("homeassistant", "stop")
        self.process.wait(60)
        self.process = None

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(60)
            self.process = None

    def close(self):
        self.kill()
        remove = [] if os.geteuid() == 0 else ["sudo"]
        subprocess.run([*remove, "rm", "-rf", "--one-file-system", str(self.folder)], check=False)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def request(self, method, path, body=None, form=False):
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        data = None
        if form:
            data = urllib.parse.urlencode(body).encode()
        elif body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Failed(f"{method} {path}: {error.code} {error.read()[:500]!r}") from None

    def call(self, domain, service, **data):
        return self.request("POST", f"/api/services/{domain}/{service}", data)

    def set_up(self, broker_port):
        """Makes the first user, and adds the MQTT integration."""
        client = f"http://127.0.0.1:{self.port}/"
        user = {"client_id": client, "name": "Test", "username": "test", "password": "test", "language": "en"}
        code = self.request("POST", "/api/onboarding/users", user)["auth_code"]
        grant = {"grant_type": "authorization_code", "code": code, "client_id": client}
        self.token = self.request("POST", "/auth/token", grant, form=True)["access_token"]
        for step in ("core_config", "analytics", "integration"):
            self.request("POST", f"/api/onboarding/{step}", {"client_id": client, "redirect_uri": client})
        long_lived = {"type": "auth/long_lived_access_token", "client_name": "test", "lifespan": 1}
        self.token = self.ask(long_lived)
        until("Home Assistant runs", lambda: self.request("GET", "/api/config")["state"] == "RUNNING")
        flow = self.request("POST", "/api/config/config_entries/flow", {"handler": "mqtt"})
        # Fields differ between versions: those without a default are given.
        values = {"broker": "127.0.0.1", "port": broker_port}
        known = {field["name"] for field in flow["data_schema"]}
        if "protocol" in known:
            values["protocol"] = "5"
        if "other_settings" in known:
            values["other_settings"] = {"set_client_cert": False, "set_ca_cert": "off", "tls_insecure": False, "transport": "tcp"}
        result = self.request("POST", f"/api/config/config_entries/flow/{flow['flow_id']}", values)
        if result["type"] != "create_entry":
            raise Failed(f"the MQTT integration could not be added: {result}")

    def socket(self):
        socket = WebSocket(self.port, "/api/websocket")
        socket.receive()
        socket.send({"type": "auth", "access_token": self.token})
        if (answer := socket.receive())["type"] != "auth_ok":
            raise Failed(f"no access: {answer}")
        return socket

    def ask(self, command):
        """The result of one command."""
        with self.socket() as socket:
            socket.send({"id": 1, **command})
            answer = socket.receive()
        if not answer["success"]:
            raise Failed(f"{command}: {answer}")
        return answer["result"]

    def states(self):
        return {state["entity_id"]: state for state in self.request("GET", "/api/states")}

    def entities(self):
        """All entities of the MQTT integration by their unique ids."""
        listed = self.ask({"type": "config/entity_registry/list"})
        found = {entity["entity_id"]: entity for entity in listed if entity["platform"] == "mqtt"}
        # The list has no unique ids in every version.
        details = self.ask({"type": "config/entity_registry/get_entries", "entity_ids": list(found)})
        # One that went between the two requests has none.
        return {details[entity_id]["unique_id"]: {**entity, **details[entity_id]} for entity_id, entity in found.items() if details[entity_id]}

    def devices(self):
        """The devices of the program, by their identifiers."""
        devices = {}
        for device in self.ask({"type": "config/device_registry/list"}):
            for domain, identifier in device["identifiers"]:
                if domain == "mqtt":
                    devices[identifier] = device
        return devices

    def triggers(self, device):
        return self.ask({"type": "device_automation/trigger/list", "device_id": device["id"]})

    def wait_for_trigger(self, trigger):
        """Waits until a device trigger fires; returns its variables."""
        fields = {key: trigger[key] for key in ("device_id", "domain", "type", "subtype", "discovery_id") if key in trigger}
        with self.socket() as socket:
            socket.send({"id": 1, "type": "subscribe_trigger", "trigger": {"platform": "device", **fields}})
            if not (answer := socket.receive())["success"]:
                raise Failed(f"{trigger}: {answer}")
            return socket.receive()["event"]["variables"]["trigger"]
