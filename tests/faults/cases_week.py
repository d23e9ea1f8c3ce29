# SPDX-License-Identifier: Apache-2.0
"""A compressed week: one daemon, files at full speed, sources that come and go, reloads, and a broker that is killed, for half an hour."""
import os
import random
import time
from pathlib import Path

from cases_sources import Statistics, can_detect, network, small
from fault_site import Site
from ledger import Loss

VIDEOS = Path(os.environ.get("JETWATCH_TEST_DATA", "/")) / "video"
# Greatest slope per hour of the run that is no leak; beyond it by twice its error, the case fails.
MAX_SLOPES = {"rss": 24.0, "threads": 1.0, "fds": 1.0}
UNITS = {"rss": "MiB", "threads": "threads", "fds": "file descriptors"}
CAMERA_FPS = 30
ZONE = {"name": "all", "coordinates": "0.1,0.1,0.9,0.1,0.9,0.9,0.1,0.9"}


def permanent(binary):
    """The sources that stay, and the detector for them."""
    videos = sorted(VIDEOS.glob("*.mp4"))
    if videos and not can_detect(binary):
        # Most frames are decoded and tracked without the network, as with a camera that is faster than the detector.
        detector = {**network(), "interval": 30}
        sources = [{"name": path.stem, "uri": str(path), "loop": True, "zones": [ZONE]} for path in videos]
        return sources + [{"name": "street", "uri": "synthetic://traffic?seed=1&objects=6&width=512&height=288&fps=10"}], detector
    scene = "objects=4&width=160&height=90&fps=30&realtime=false"
    sources = [{"name": f"scene{seed}", "uri": f"synthetic://traffic?seed={seed}&{scene}", "zones": [ZONE]} for seed in range(3)]
    return sources, {"backend": "scripted"}


class Slope:
    """The slope of a line through points by least squares, per hour, with its standard error."""

    def __init__(self, points):
        count = len(points)
        middle, height = sum(at for at, _ in points) / count, sum(value for _, value in points) / count
        spread = sum((at - middle) ** 2 for at, _ in points)
        per_s = sum((at - middle) * (value - height) for at, value in points) / spread
        rest = sum((value - height - per_s * (at - middle)) ** 2 for at, value in points)
        self.per_hour, self.error = per_s * 3600, (rest / (count - 2) / spread) ** 0.5 * 3600

    def __str__(self):
        return f"{self.per_hour:+.1f} ± {self.error:.1f}"


class Week:
    """One run."""

    def __init__(self, site, sources):
        self.site, self.sources, self.begin = site, sources, time.monotonic()
        self.statistics, self.points = Statistics(site), []
        self.counts = {"reloads": 0, "sources joined": 0, "broker kills": 0}

    def pass_time(self, seconds, is_measured=False):
        """Waits; compares what has arrived meanwhile, and measures."""
        end, samples = time.monotonic() + seconds, []
        while time.monotonic() < end:
            self.site.ledger.read()
            self.statistics.read()
            samples.append(self.site.usage())
            time.sleep(min(2, max(0, end - time.monotonic())))
        if is_measured:
            # One point of each cycle: neighbouring samples are not independent, and their error would be too small.
            mean = {name: sum(sample[name] for sample in samples) / len(samples) for name in MAX_SLOPES}
            self.points.append((time.monotonic() - self.begin, mean))

    def cycle(self, life):
        """A minute: sources join, the broker is killed and comes back, the sources leave, and it is measured."""
        chosen = random.sample(range(24), random.randint(1, 24))
        self.reload([small(number, life) for number in chosen])
        self.counts["sources joined"] += len(chosen)
        self.pass_time(random.uniform(5, 10))
        self.site.kill_broker()
        self.counts["broker kills"] += 1
        self.pass_time(random.choice([0, 1, 10]))
        self.site.start_broker()
        self.pass_time(random.uniform(5, 10))
        if life % 5 == 0:
            # Nothing changes.
            self.reload([small(number, life) for number in chosen])
        self.reload([])
        self.pass_time(5)
        self.site.check(so_far=True)
        self.pass_time(20, is_measured=True)

    def reload(self, others):
        self.site.reload(self.sources + others)
        self.counts["reloads"] += 1

    def slopes(self):
        """Of the last two thirds; a slope that is significantly beyond its limit is a loss."""
        points = [(at, found) for at, found in self.points if at > self.points[-1][0] / 3]
        if len(points) < 4:
            return "too short for slopes"
        slopes = {name: Slope([(at, found[name]) for at, found in points]) for name in MAX_SLOPES}
        text = ", ".join(f"{slope} {UNITS[name]}/h" for name, slope in slopes.items())
        if any(slope.per_hour - 2 * slope.error > MAX_SLOPES[name] for name, slope in slopes.items()):
            raise Loss(f"something grows: {text} (limits {MAX_SLOPES}): {points}")
        return f"{text} over {len(points)} cycles, at the end {points[-1][1]['rss']:.0f} MiB"

    def hours(self):
        """How much a camera would have sent."""
        hours = {name: found["frames"] / CAMERA_FPS / 3600 for name, found in self.statistics.sources.items()}
        return ", ".join(f"{name} {hours[name]:.1f} h" for name in sorted(hours)) + f", {sum(hours.values()):.1f} h in all"


def week(binary, minutes):
    """`minutes` of work at full speed."""
    sources, detector = permanent(binary)
    publish = {"update_interval_ms": 500, "stats_interval_s": 1}
    with Site(binary, sources=sources, detector=detector, publish=publish, queue=10000) as site:
        site.start_broker()
        site.start_daemon()
        site.wait_for_events(20)
        run = Week(site, sources)
        life = 0
        while time.monotonic() - run.begin < minutes * 60:
            life += 1
            run.cycle(life)
        slopes = run.slopes()
        site.check(so_far=True)
        site.stop_daemon()
        counts = ", ".join(f"{count} {name}" for name, count in run.counts.items())
        return f"{site.check()}; {counts}; at {CAMERA_FPS} frames/s: {run.hours()}; {slopes}"
