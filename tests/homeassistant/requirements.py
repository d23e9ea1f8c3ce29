# SPDX-License-Identifier: Apache-2.0
"""Prints what pip is to install beside Home Assistant: `python requirements.py`, called by `install`.

Home Assistant would install it by itself at its first start. An integration imports others that it depends on, or that only have to
start before it, so their requirements are needed, too. Beside MQTT, these are the integrations without which Home Assistant starts in its
recovery mode, where it has no MQTT. It says in its log which others it cannot set up; two of their libraries would have to be compiled.
"""
import json
import pathlib

import homeassistant
from homeassistant import bootstrap

COMPONENTS = pathlib.Path(homeassistant.__file__).parent / "components"


def main():
    known, waiting, requirements = set(), ["mqtt", *bootstrap.CRITICAL_INTEGRATIONS], set()
    while waiting:
        name = waiting.pop()
        if name in known:
            continue
        known.add(name)
        manifest = json.loads((COMPONENTS / name / "manifest.json").read_text())
        requirements.update(manifest.get("requirements", []))
        waiting += manifest.get("dependencies", []) + manifest.get("after_dependencies", [])
    print("\n".join(sorted(requirements)))


main()
