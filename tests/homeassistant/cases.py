# SPDX-License-Identifier: Apache-2.0
"""What must hold. Each case leaves the daemon, the broker and Home Assistant running, with all sources."""
import json
import signal
import time

from core import Core
from site_under_test import SCENE, Failed, Site, until

BOX = "jetwatch--gate"
YARD = f"{BOX}--source--yard"
STREET = f"{BOX}--source--street"
UNKNOWN = ("unknown", "unavailable")


def sources():
    """One with chosen labels and all kinds of rules, one with all labels of the network."""
    yard = {
        "name": "yard",
        "uri": SCENE,
        "classes": ["person", "car"],
        "zones": [
            {"name": "west", "coordinates": "0,0,0.5,0,0.5,1,0,1", "object_threshold": 2, "loitering_time_s": 1},
            {"name": "east", "coordinates": "0.5,0,1,0,1,1,0.5,1"},
        ],
        "lines": [{"name": "gate", "coordinates": "0.5,0,0.5,1"}, {"name": "exit", "coordinates": "0.3,0,0.3,1"}],
        "directions": [{"name": "right", "coordinates": "0,0.5,1,0.5"}],
        "stationary": {"threshold_s": 2},
    }
    street = {"name": "street", "uri": SCENE.replace("seed=3", "seed=5"), "zones": [{"name": "road", "coordinates": "0,0,1,0,1,1,0,1"}]}
    return [yard, street]


class Bench:
    """The three programs."""

    def __init__(self, binary, folder):
        self.site, self.core = Site(binary), Core(folder)
        self.site.content["sources"] = sources()

    def start(self):
        self.site.start_broker()
        self.core.start()
        self.core.set_up(self.site.port)
        self.site.start_daemon()
        self.wait_until_complete("all that is announced is there", 3)

    def close(self):
        self.site.close()
        self.core.close()

    def logs(self):
        return f"--- daemon\n{self.site.log()[-6000:]}\n--- Home Assistant\n{self.core.log()[-20000:]}"

    def expected(self):
        """Components of all messages that are entities, with the ids of their devices, by their unique ids; and the triggers."""
        entities, triggers = {}, {}
        for message in self.site.announced().values():
            device = message["dev"]["ids"][0]
            for key, component in message["cmps"].items():
                if component["p"] == "device_automation" and len(component) > 1:
                    triggers.setdefault(device, set()).add((component["type"], component["stype"]))
                elif len(component) > 1:
                    entities[component["uniq_id"]] = (device, component)
        return entities, triggers

    def complete(self):
        """All that is announced is there and has a state, and nothing else is; what is missing else."""
        wanted, triggers = self.expected()
        found, devices, states = self.core.entities(), self.core.devices(), self.core.states()
        if wanted.keys() != found.keys():
            return f"entities: missing {sorted(wanted.keys() - found.keys())}, too many {sorted(found.keys() - wanted.keys())}"
        for unique_id, (device, component) in wanted.items():
            entity = found[unique_id]
            if entity["device_id"] != devices[device]["id"]:
                return f"{unique_id} belongs to another device"
            if entity["disabled_by"]:
                if component.get("en", True):
                    return f"{unique_id} is disabled"
                continue
            state = states[entity["entity_id"]]["state"]
            # Nothing may have happened yet.
            if state == "unavailable" or (state == "unknown" and component["p"] != "event"):
                return f"{unique_id} is {state}"
        for device, known in triggers.items():
            listed = {(trigger["type"], trigger["subtype"]) for trigger in self.core.triggers(devices[device]) if trigger["domain"] == "mqtt"}
            if known != listed:
                return f"triggers of {device}: {sorted(known ^ listed)}"
        return None

    def wait_until_complete(self, what, least=1):
        last = ["nothing is announced"]

        def is_complete():
            if len(self.site.announced()) < least:
                return False
            last[0] = self.complete()
            return last[0] is None

        try:
            until(what, is_complete, 90)
        except Failed as error:
            raise Failed(f"{error}: {last[0]}") from None
        return len(self.expected()[0])

    def state(self, unique_id):
        entities = self.core.entities()
        return self.core.states().get(entities[unique_id]["entity_id"]) if unique_id in entities else None

    def wait_for_state(self, unique_id, wanted, limit=60):
        is_wanted = wanted if callable(wanted) else lambda state: state == wanted
        last = [None]

        def reached():
            last[0] = self.state(unique_id)
            return last[0] is not None and is_wanted(last[0]["state"])

        try:
            until(unique_id, reached, limit)
        except Failed as error:
            raise Failed(f"{error}: {last[0]}") from None
        return last[0]

    def entity_ids(self):
        return {unique_id: entity["entity_id"] for unique_id, entity in self.core.entities().items()}


def appear(bench):
    """Every device, entity and trigger is there, with a state."""
    count = bench.wait_until_complete("all that is announced is there", 3)
    devices = bench.core.devices()
    for source in (YARD, STREET):
        if devices[source]["via_device_id"] != devices[BOX]["id"]:
            raise Failed(f"{source} is not below the box")
    entities, triggers = bench.expected()
    labels = {unique_id for unique_id in entities if unique_id.startswith(f"{YARD}--label")}
    if len(labels) != 4:
        raise Failed(f"chosen labels: {sorted(labels)}")
    log = bench.site.log()
    if "announced to Home Assistant" not in log:
        raise Failed("no line in the daemon's log")
    sizes = [len(payload) for payload in bench.site.retained(f"homeassistant/device/{BOX}/+/config").values()]
    return f"{len(devices)} devices, {count} entities, {sum(map(len, triggers.values()))} triggers; messages of {min(sizes)} to {max(sizes)} bytes"


def change(bench):
    """States are those of the daemon's topics, and change with them."""
    count = f"{YARD}--label--car--count"
    bench.wait_for_state(count, lambda state: state not in UNKNOWN)
    seen = set()
    until("other counts", lambda: seen.add(bench.state(count)["state"]) or len(seen) > 1)
    crossings = bench.wait_for_state(f"{YARD}--line--gate--right", lambda state: state not in UNKNOWN and float(state) > 0)
    later = bench.wait_for_state(f"{YARD}--line--gate--right", lambda state: float(state) > float(crossings["state"]), 120)
    event = bench.wait_for_state(f"{YARD}--analytics", lambda state: state not in UNKNOWN)
    attributes = event["attributes"]
    if attributes["event_type"] not in attributes["event_types"] or not attributes["id"]:
        raise Failed(f"event: {attributes}")
    bench.wait_for_state(f"{BOX}--fps", lambda state: float(state) > 0)
    for unique_id, wanted in [(f"{BOX}--detector", "ready"), (f"{YARD}--connection", "on"), (f"{YARD}--zone--west--occupancy", "on")]:
        bench.wait_for_state(unique_id, wanted)
    listed = bench.core.triggers(bench.core.devices()[YARD])
    entered = next(trigger for trigger in listed if (trigger["type"], trigger["subtype"]) == ("zone_entered", "west"))
    fired = bench.core.wait_for_trigger(entered)
    message = json.loads(fired["payload"])
    if (message["type"], message["name"]) != ("zone_entered", "west"):
        raise Failed(f"the trigger fired for {message}")
    return f"{later['state']} crossings, an event `{attributes['event_type']}`, and a trigger that fired"


def machine(bench):
    """Sensors and power of the machine; single rails are there, but disabled."""
    hot = f"{BOX}--temperature--GPU-2dtherm"
    bench.wait_for_state(hot, "40.0")
    bench.site.set_temperature("GPU-therm", 71.5)
    bench.wait_for_state(hot, "71.5")
    power = next(unique_id for unique_id in bench.expected()[0] if unique_id.startswith(f"{BOX}--power--"))
    watts = bench.wait_for_state(power, lambda state: state not in UNKNOWN and float(state) > 0)
    # The files have a rail above its limit.
    throttling = bench.wait_for_state(f"{BOX}--throttling", "on")["attributes"]
    if [cause["cause"] for cause in throttling["throttled_by"]] != ["rail"]:
        raise Failed(f"throttling: {throttling}")
    bench.site.end_throttling()
    bench.wait_for_state(f"{BOX}--throttling", "off")
    entities = bench.core.entities()
    disabled = [unique_id for unique_id, entity in entities.items() if entity["disabled_by"] == "integration"]
    if not disabled or not all(unique_id.startswith(f"{BOX}--rail--") for unique_id in disabled):
        raise Failed(f"disabled: {disabled}")
    return f"a temperature and throttling that follow their files, {watts['state']} W, {len(disabled)} rails that are disabled"


def updates(bench):
    """The entity for updates of the package follows the updater's file, and is not there before."""
    update = f"{BOX}--update"
    if update in bench.expected()[0]:
        raise Failed("an update is announced where the updater was never used")
    bench.site.write_update("available")
    bench.wait_until_complete("the update is there", 3)
    found = bench.wait_for_state(update, "on")["attributes"]
    shown = {key: found[key] for key in ("installed_version", "latest_version", "title", "in_progress")}
    if shown != {"installed_version": "1.0.0", "latest_version": "1.1.0", "title": "jetwatch", "in_progress": False}:
        raise Failed(f"the update: {shown}")
    bench.site.write_update("in_progress", "waiting for health")
    until("it is in progress", lambda: bench.state(update)["attributes"]["in_progress"])
    bench.site.write_update("rolled_back", "source yard: 0 frames", held="1.1.0")
    until("it is rolled back", lambda: not bench.state(update)["attributes"]["in_progress"])
    attributes = bench.wait_for_state(update, "on")["attributes"]
    if (attributes["release_summary"], attributes["held"], attributes["update_state"]) != ("source yard: 0 frames", "1.1.0", "rolled_back"):
        raise Failed(f"the update: {attributes}")
    bench.site.write_update("installed", installed="1.1.0")
    bench.wait_for_state(update, "off")
    return "available, in progress, rolled back with its reason, installed"


def late_events(bench):
    """An event that waited for the broker is no event of now."""
    entity = f"{YARD}--analytics"
    message = {"type": "zone_entered", "name": "west", "label": "person", "id": "late", "late_ms": 3_600_000}
    topic = f"jetwatch/{bench.site.device}/yard/analytics"
    bench.site.publish(topic, json.dumps(message))
    bench.site.publish(topic, json.dumps({**message, "id": "fresh", "late_ms": 2500}))
    ids = set()

    def is_there():
        ids.add(bench.state(entity)["attributes"].get("id"))
        if "late" in ids:
            raise Failed("an event that is an hour late was taken for one of now")
        return len(ids) > 3

    until("later events", is_there)
    return "ignored"


def daemon_restarts(bench):
    before = bench.entity_ids()
    bench.site.stop_daemon(signal.SIGKILL)
    count = f"{YARD}--label--person--count"
    bench.wait_for_state(count, "unavailable")
    bench.site.start_daemon()
    bench.wait_for_state(count, lambda state: state not in UNKNOWN)
    bench.site.stop_daemon()
    bench.wait_for_state(f"{BOX}--detector", "unavailable")
    bench.site.start_daemon()
    bench.wait_until_complete("all is there again", 3)
    if before.items() - bench.entity_ids().items():
        raise Failed(f"other entities than before: {before.items() ^ bench.entity_ids().items()}")
    return f"killed and stopped: {len(before)} entities unavailable, then back under their names"


def broker_restarts(bench):
    before = bench.entity_ids()
    bench.site.kill_broker()
    bench.wait_for_state(f"{YARD}--connection", "unavailable")
    bench.site.start_broker()
    bench.wait_until_complete("all is there again", 3)
    if before.items() - bench.entity_ids().items():
        raise Failed("other entities than before")
    return "a broker that lost its retained messages has them again"


def core_restarts(bench):
    before = bench.entity_ids()
    births = bench.site.log().count("Home Assistant has started")
    bench.core.stop()
    bench.core.start()
    bench.wait_until_complete("all is there again", 3)
    if before.items() - bench.entity_ids().items():
        raise Failed("other entities than before")
    until("the birth message was seen", lambda: bench.site.log().count("Home Assistant has started") > births)
    return "same entities with states, and the daemon published again"


def offline_source(bench):
    """The state of a source, as another run of it would publish it."""
    topic = f"jetwatch/{bench.site.device}/street/status"
    state = json.loads(bench.site.retained(topic)[topic])
    bench.site.publish(topic, json.dumps({**state, "state": "offline", "reason": "unplugged"}), retain=True)
    bench.wait_for_state(f"{STREET}--connection", "off")
    if bench.state(f"{STREET}--connection")["attributes"]["reason"] != "unplugged":
        raise Failed("no reason among the attributes")
    bench.wait_for_state(f"{STREET}--zone--road--count", "unavailable")
    bench.wait_for_state(f"{YARD}--zone--west--count", lambda state: state not in UNKNOWN)
    bench.site.publish(topic, json.dumps(state), retain=True)
    bench.wait_for_state(f"{STREET}--connection", "on")
    bench.wait_for_state(f"{STREET}--zone--road--count", lambda state: state not in UNKNOWN)
    return "its connection is off, its other entities are unavailable, those of another source are not"


def switches(bench):
    """Switches and the threshold act, and show what the daemon says about them."""
    entities = bench.core.entities()
    bench.wait_until_complete("all is there", 3)

    def switch(key, levels):
        entity, topic = entities[f"{YARD}--{key}"]["entity_id"], f"jetwatch/{bench.site.device}/yard/{levels}"
        bench.wait_for_state(f"{YARD}--{key}", "on")
        for service, payload in (("turn_off", "OFF"), ("turn_on", "ON")):
            bench.core.call("switch", service, entity_id=entity)
            until(f"{topic} is {payload}", lambda: bench.site.retained(topic)[topic] == payload)
            bench.wait_for_state(f"{YARD}--{key}", payload.lower())

    switch("detection", "detect")
    switch("rule--west", "rules/west")
    switch("rule--gate", "rules/gate")
    switch("rule--stationary", "rules/stationary")
    number, topic = entities[f"{YARD}--score_threshold"]["entity_id"], f"jetwatch/{bench.site.device}/yard/score_threshold"
    before = float(bench.site.retained(topic)[topic])
    for value in (0.75, before):
        bench.core.call("number", "set_value", entity_id=number, value=value)
        until(f"{topic} is {value}", lambda: abs(float(bench.site.retained(topic)[topic]) - value) < 0.005)
        bench.wait_for_state(f"{YARD}--score_threshold", lambda state: state not in UNKNOWN and abs(float(state) - value) < 0.005)
    return "detection, three rules and the threshold"


def window(seconds, now=None):
    """A schedule that holds now and ends after some seconds. The end belongs to the next day where midnight is between."""
    now = time.time() if now is None else now
    begin, end = (time.strftime("%H:%M:%S", time.gmtime(now + offset)) for offset in (-3600, seconds))
    return {"from": begin, "to": end, "time_zone": "UTC"}


def schedules(bench):
    """Sensors of schedules come with them, follow the clock and the switch, and go."""
    yard = bench.site.content["sources"][0]
    west, detection, rule = yard["zones"][0], f"{YARD}--detection--active", f"{YARD}--rule--west--active"
    yard["schedule"], west["schedule"] = window(3600), window(45)
    bench.site.reload()
    for sensor in (detection, rule):
        bench.wait_for_state(sensor, "on", 90)
    attributes = bench.state(rule)["attributes"]
    if (attributes["switched_on"], attributes["scheduled"]) != (True, True) or attributes["next_change"] is None:
        raise Failed(f"attributes: {attributes}")
    # The window of the rule ends; detection goes on.
    bench.wait_for_state(rule, "off", 90)
    attributes = bench.state(rule)["attributes"]
    if (attributes["switched_on"], attributes["scheduled"]) != (True, False) or bench.state(detection)["state"] != "on":
        raise Failed(f"after the window: {attributes}, {bench.state(detection)}")
    topic = f"jetwatch/{bench.site.device}/yard/rules/west/active"
    message = json.loads(bench.site.retained(topic)[topic])
    if (message["kind"], message["active"], message["switched_on"], message["scheduled"]) != ("active", False, True, False):
        raise Failed(f"the broker has {message}")
    switch = bench.core.entities()[f"{YARD}--detection"]["entity_id"]
    bench.core.call("switch", "turn_off", entity_id=switch)
    bench.wait_for_state(detection, "off")
    attributes = bench.state(detection)["attributes"]
    if (attributes["switched_on"], attributes["scheduled"]) != (False, True):
        raise Failed(f"after the switch: {attributes}")
    bench.core.call("switch", "turn_on", entity_id=switch)
    bench.wait_for_state(detection, "on")
    del yard["schedule"], west["schedule"]
    bench.site.reload()
    until("the sensors are gone", lambda: not {detection, rule} & bench.entity_ids().keys(), 90)
    bench.wait_until_complete("all others are there", 3)
    return "detection and a rule: on, off at the end of a window and by a switch, gone without a schedule"


def rules_go(bench):
    """A rule that a reload removes takes its entities with it, and nothing else."""
    before = bench.entity_ids()
    yard = bench.site.content["sources"][0]
    removed = yard["lines"].pop()
    gone = {f"{YARD}--line--exit--{side}" for side in ("left", "right")} | {f"{YARD}--rule--exit"}
    bench.site.reload()
    until("its entities are gone", lambda: not gone & bench.entity_ids().keys(), 90)
    until("its components are gone", lambda: not any("exit" in key for key in bench.site.announced()[f"homeassistant/device/{BOX}/source--yard/config"]["cmps"]))
    bench.wait_until_complete("all others are there", 3)
    kept = {key: value for key, value in before.items() if key not in gone}
    if kept.items() - bench.entity_ids().items():
        raise Failed(f"others went, too: {kept.items() - bench.entity_ids().items()}")
    yard["lines"].append(removed)
    bench.site.reload()
    until("they are back", lambda: gone <= bench.entity_ids().keys(), 90)
    # The same while the daemon is down.
    bench.site.stop_daemon()
    removed = yard["zones"].pop()
    bench.site.start_daemon()
    until("the zone is gone", lambda: not any("zone--east" in key for key in bench.entity_ids()), 90)
    bench.wait_until_complete("all others are there", 3)
    yard["zones"].append(removed)
    bench.site.reload()
    until("it is back", lambda: any("zone--east" in key for key in bench.entity_ids()), 90)
    bench.wait_until_complete("all is there", 3)
    return "by a reload, and while the daemon was down"


def sources_go(bench):
    """A source that leaves takes its device with it."""
    street = bench.site.content["sources"].pop()
    bench.site.reload()
    until("its device is gone", lambda: STREET not in bench.core.devices())
    bench.site.content["sources"].append(street)
    bench.site.reload()
    until("it is back", lambda: STREET in bench.core.devices(), 90)
    bench.site.stop_daemon()
    bench.site.content["sources"].pop()
    bench.site.start_daemon()
    until("its device is gone", lambda: STREET not in bench.core.devices())
    bench.site.content["sources"].append(street)
    bench.site.reload()
    bench.wait_until_complete("all is there", 3)
    return "by a reload, and while the daemon was down"


def switched_off(bench):
    """With `enabled: false` all devices go."""
    bench.site.stop_daemon()
    bench.site.content["homeassistant"]["enabled"] = False
    bench.site.start_daemon()
    until("no device is left", lambda: not bench.core.devices())
    if bench.core.entities() or bench.site.announced():
        raise Failed("something is left")
    bench.site.stop_daemon()
    bench.site.content["homeassistant"]["enabled"] = True
    bench.site.start_daemon()
    bench.wait_until_complete("all is there again", 3)
    return "all gone, and back when it is switched on"


def clean_log(bench):
    """Home Assistant had nothing to complain about."""
    ours = ("jetwatch", "template", "mqtt")
    lines = [line for line in bench.core.log().splitlines() if any(level in line for level in (" WARNING ", " ERROR "))]
    complaints = [line for line in lines if any(word in line.lower() for word in ours)]
    # It says so when its broker ends. And 2025.12 withdraws a device once more for each entity of it that was disabled, and then finds
    # nothing to remove: the broker's log has one empty message from the daemon, and further ones from Home Assistant.
    known = ("disconnect", "connection was lost", "failed to connect", "failed to receive on socket", "no device components to cleanup")
    complaints = [line for line in complaints if not any(word in line.lower() for word in known)]
    if complaints:
        raise Failed("\n".join(complaints[:10]))
    return f"{len(lines)} other warnings"


CASES = [
    appear, change, machine, updates, late_events, offline_source, switches, schedules, daemon_restarts, broker_restarts, core_restarts, rules_go, sources_go, switched_off, clean_log,
]
