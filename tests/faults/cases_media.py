# SPDX-License-Identifier: Apache-2.0
"""Recording on a device that others fill: recording stops and says so, events go on, and it records again when there is space."""
import json
import subprocess
import time

from cases_disk import Mount
from fault_site import Site, until
from ledger import Loss, NewLines

SCENE = "synthetic://traffic?seed=3&objects=8&width=640&height=360&fps=15"


def media(site, *arguments):
    command = [site.binary, "media", *arguments, "--config", site.config]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        raise Loss(f"{' '.join(map(str, command))}: {found.stderr}")
    return found.stdout


def complete(site):
    """Files that are complete, by id."""
    items = map(json.loads, media(site, "list", "--json", "--limit", "1000").splitlines())
    return {item["id"]: item for item in items if item["state"] == "ready"}


def media_full(binary, count):
    """Each device is filled twice: while the daemon records, and before it starts, where the index cannot even be made."""
    results = []
    for number in range(count):
        kind = ("ext4", "tmpfs")[number % 2]
        with Mount(64, kind) as disk, Site(binary, sources=[{"name": "cam", "uri": SCENE}]) as site:
            site.content["record"] = {
                "folder": str(disk.mount / "media"),
                "continuous": {"enabled": True, "segment_s": 10},
                "snapshots": {"enabled": True},
                "clips": {"enabled": True},
                "retention": {"min_free_bytes": "2MiB", "min_free_percent": 0},
            }
            site.content["publish"]["stats_interval_s"] = 1
            site.write_config()
            site.start_broker()
            disk.fill(0)
            site.start_daemon()
            site.wait_for_events(50)
            if "nothing is recorded: no space is left" not in site.log():
                raise Loss(f"the log does not say that nothing is recorded:\n{site.log()[-2000:]}")
            disk.empty()
            until("recording begins when there is space", lambda: "recording begins" in site.log())
            before = until("files are complete", lambda: complete(site), 90)
            stops = fill_while_it_deletes(site, disk)
            site.wait_for_events(200)
            site.check(so_far=True)
            kept = set(complete(site))
            disk.empty()
            until("the log says that there is space", lambda: site.log().count("recording goes on") >= 1)
            until("new files are complete", lambda: set(complete(site)) - kept - set(before), 90)
            site.stop_daemon()
            site.check()
            if "agree" not in media(site, "check"):
                raise Loss(f"index and files differ: {media(site, 'check')}")
            results.append(f"{kind}: stopped after {stops:.0f} s, {site.ledger.events} events")
    return "; ".join(results) + ", 0 lost"


def fill_while_it_deletes(site, disk):
    """Fills what the daemon frees, until it has nothing to delete; returns the seconds."""
    started, stats = time.monotonic(), NewLines(site.folder / "events.jsonl", at_end=True)

    def is_full():
        disk.fill(0)
        lines = [line for line in stats.read() if line.get("kind") == "stats"]
        return any(line.get("media", {}).get("full") for line in lines) and "recording stops, detection goes on" in site.log()
    until("recording stops", is_full, 120)
    return time.monotonic() - started
