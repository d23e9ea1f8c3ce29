# SPDX-License-Identifier: Apache-2.0
"""Cameras that are taken away, RTSP servers that lie, and sources that join and leave. The messages of all others must arrive."""
import os
import random
import shutil
import subprocess
import time

from fault_site import HERE, Site, until
from ledger import NewLines, Loss
from rtsp import Camera, Liar

MODEL = HERE.parent.parent / "models" / "street-nano"
STREET = "synthetic://traffic?seed=5&objects=6&width=512&height=288&fps=8"
# GStreamer keeps some memory for later; more than this at once or for each source is a leak.
MAX_GROWTH_MIB = 40


def network():
    """A detector for sources that have no ground truth."""
    return {"backend": "onnx", "model": str(MODEL), "precision": "int8_cpu", "workers": 1}


def camera(name, uri, **keys):
    return {"name": name, "uri": uri, "stall_timeout_ms": 1000, "reconnect_wait_ms": 50, "reconnect_max_wait_ms": 300, **keys}


def images(binary, folder, count=40):
    """A drawn street as JPEG files with the sampling that RTP needs."""
    scene = f"synthetic://traffic?seed=3&objects=6&width=512&height=288&fps=10&frames={count}&realtime=false"
    run(binary, "calibrate", "--source", scene, "--out", folder, "--count", str(count))
    for number, path in enumerate(sorted(folder.glob("*.jpg"))):
        path.rename(folder / f"drawn-{number:03}.jpg")
    run("gst-launch-1.0", "-q", "multifilesrc", f"location={folder}/drawn-%03d.jpg", "caps=image/jpeg,framerate=10/1", "!", "jpegdec", "!",
        "videoconvert", "!", "video/x-raw,format=I420", "!", "jpegenc", "quality=60", "!", "multifilesink", f"location={folder}/sent-%03d.jpg")
    return [path.read_bytes() for path in sorted(folder.glob("sent-*.jpg"))]


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


class Statistics:
    """The newest statistics of each source, and of the process."""

    def __init__(self, site):
        self.lines, self.sources = NewLines(site.folder / "events.jsonl"), {}

    def read(self):
        for line in self.lines.read():
            if line.get("kind") == "stats":
                self.sources = {source["source"]: source for source in line["sources"]}
        return self.sources


def compare(before, after, what):
    """Threads and file descriptors as before, memory nearly."""
    text = ", ".join(f"{name} {before[name]:.0f} to {after[name]:.0f}" for name in ("threads", "fds", "rss"))
    if after["threads"] > before["threads"] + 3 or after["fds"] > before["fds"] + 6 or after["rss"] > before["rss"] + MAX_GROWTH_MIB:
        raise Loss(f"{what}: {text} MiB")
    return f"{text} MiB"


def cameras(binary, count):
    """A camera is taken away `count` times: the connection ends, it freezes, or its address is gone; another source runs on."""
    street = {"name": "street", "uri": STREET}
    with Site(binary, detector=network(), publish={"stats_interval_s": 1}) as site:
        taken = Camera(images(binary, site.folder / "images"))
        site.content["sources"] = [street, camera("taken", taken.uri())]
        site.write_config()
        site.start_broker()
        site.start_daemon()
        site.wait_for_state("taken", "online")
        site.wait_for_events(20, "taken")
        before = site.usage()
        for number in range(count):
            [taken.drop, taken.freeze, taken.take_away][number % 3]()
            site.wait_for_state("taken", "offline")
            site.wait_for_events(3, "street")
            if number % 3 == 1:
                taken.is_frozen = False
            if number % 3 == 2:
                taken.plug_in()
            site.wait_for_state("taken", "online")
            site.wait_for_events(3, "taken")
            if number == min(20, count // 2):
                # What GStreamer keeps is there now.
                before = site.usage()
        time.sleep(1.5)
        after = compare(before, site.usage(), "after the camera was away")
        sources = Statistics(site).read()
        site.stop_daemon()
        taken.take_away()
        if sources["taken"]["reconnects"] < count:
            raise Loss(f"only {sources['taken']['reconnects']} reconnects: {sources['taken']}")
        return f"{site.check()}; {after}; {dropped(sources, 'street')}"


def dropped(sources, name):
    source = sources[name]
    return f"{source['dropped_frames']} of {source['frames']} frames of the other source dropped"


def lying_cameras(binary, count):
    """RTSP servers that die, freeze and lie, all of rtsp.LIES at once beside a good source, for `count` seconds; then a stop."""
    street = {"name": "street", "uri": STREET}
    with Site(binary, detector=network(), publish={"stats_interval_s": 1}) as site:
        pictures = images(binary, site.folder / "images", 10)
        liars = [Liar(lie, pictures) for lie in Liar.LIES]
        # A first attempt that a busy machine ends is not one after a refusal.
        patient = {"unauthorized": {"stall_timeout_ms": 30000}}
        site.content["sources"] = [street] + [camera(liar.lie, liar.uri(), **patient.get(liar.lie, {})) for liar in liars]
        site.write_config()
        site.start_broker()
        site.start_daemon()
        end = time.monotonic() + count
        highest = {"threads": 0, "fds": 0}
        while time.monotonic() < end:
            site.wait_for_events(5, "street")
            found = site.usage()
            highest = {name: max(highest[name], found[name]) for name in highest}
        sources = Statistics(site).read()
        seconds = site.stop_daemon()
        for liar in liars:
            liar.take_away()
        # Who refuses access is asked again after 30 s at the earliest, so that it does not lock the account.
        attempts = sources["unauthorized"]["reconnects"]
        if attempts > count // 30:
            raise Loss(f"{attempts} further attempts within {count} s where access was refused")
        others = [lie for lie in Liar.LIES if lie != "unauthorized"]
        quiet = [lie for lie in others if not sources[lie]["reconnects"] and not sources[lie]["frames"]]
        if quiet:
            raise Loss(f"neither frames nor another attempt within {count} s: {', '.join(quiet)}")
        limits = f"at most {highest['threads']} threads and {highest['fds']} file descriptors"
        return f"{site.check()}; {len(liars)} lies; {dropped(sources, 'street')}; {limits}; the stop took {seconds:.1f} s"


def small(number, life):
    """A small scene; another `life` is another source of the same name."""
    scene = f"seed={number + 100 * life}&objects=2&width=160&height=90&fps=4"
    return {"name": f"s{number}", "uri": f"synthetic://traffic?{scene}"}


def joining_sources(binary, count):
    """Of 64 sources, others join, leave and change with each of `count` reloads; one stays. The broker is killed now and then."""
    stays = {"name": "stays", "uri": "synthetic://traffic?seed=1&objects=4&width=160&height=90&fps=10"}
    with Site(binary, sources=[stays], publish={"update_interval_ms": 200, "stats_interval_s": 1}) as site:
        site.start_broker()
        site.start_daemon()
        site.wait_for_events(10)
        # Freed memory of many threads stays with the process, up to an amount that is reached after some times.
        for life in range(2):
            site.reload([stays] + [small(number, life) for number in range(63)])
            site.wait_for_events(80)
            site.reload([stays])
        before, highest = quiet_usage(site), {"threads": 0, "fds": 0}
        for life in range(2, count + 2):
            chosen = random.sample(range(63), 63 if life % 5 == 1 else random.randint(0, 63))
            site.reload([stays] + [small(number, random.randint(life - 1, life)) for number in chosen])
            if life % 4 == 2:
                site.restart_broker()
            site.wait_for_events(20 + len(chosen))
            found = site.usage()
            highest = {name: max(highest[name], found[name]) for name in highest}
        site.reload([stays])
        after = compare(before, quiet_usage(site), "after all other sources have left")
        sources = Statistics(site).read()
        site.check(so_far=True)
        site.stop_daemon()
        limits = f"at most {highest['threads']} threads and {highest['fds']} file descriptors"
        return f"{site.check()}; {limits}; {after}; {dropped(sources, 'stays')}"


def quiet_usage(site):
    """What is in use after the threads of removed sources have ended."""
    time.sleep(1)
    found = site.usage()

    def settled():
        nonlocal found
        last, found = found, site.usage()
        time.sleep(0.5)
        return found["threads"] <= last["threads"]
    until("threads that have ended", settled)
    return found


def can_detect(binary):
    """Why cases with a network cannot run here; empty: they can."""
    if not os.environ.get("ORT_DYLIB_PATH"):
        return "needs ONNX Runtime (ORT_DYLIB_PATH)"
    return "" if shutil.which("gst-launch-1.0") else "needs gst-launch-1.0"
