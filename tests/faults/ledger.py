# SPDX-License-Identifier: Apache-2.0
"""What was made and what has arrived: the JSON lines of the daemon against the file of the broker. Both are read as they grow."""
import collections
import json


class Loss(Exception):
    """The promise is broken."""


class NewLines:
    """The new JSON objects of a file that grows; a line that a kill has cut is left out."""

    def __init__(self, path, at_end=False):
        self.path, self.rest = path, b""
        self.at = path.stat().st_size if at_end and path.exists() else 0

    def read(self):
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(self.at)
            while block := file.read(1 << 20):
                self.at += len(block)
                *lines, self.rest = (self.rest + block).split(b"\n")
                for line in lines:
                    try:
                        yield json.loads(line)
                    except ValueError:
                        pass


def json_lines(path):
    return list(NewLines(path).read())


def key(event):
    # Overcrowding has no track, and numbers of frames begin at 0 at each start.
    return event["id"] or (event["source"], event["at"]), event["type"], event.get("name"), event["frame"]["seq"]


def is_event(message):
    return message.get("kind") in ("event", "analytics")


class Ledger:
    """Events that were made and not received yet; each received one has one number, and those of a track are in order."""

    def __init__(self, truth, received):
        self.truth, self.received = NewLines(truth), NewLines(received)
        self.waiting, self.numbers, self.keys, self.tracks = {}, {}, {}, {}
        self.events, self.repeats, self.is_ordered = 0, 0, True
        # Events by their types.
        self.kinds = collections.Counter()
        # Called with each message of both files.
        self.watch = lambda message: None

    def read(self):
        """Reads what is new; true."""
        for line in self.truth.read():
            self.watch(line)
            if is_event(line):
                self.events += 1
                self.kinds[line["type"]] += 1
                known = key(line)
                if hash(known) not in self.keys:
                    self.waiting[known] = None
        for line in self.received.read():
            if line["topic"].endswith("/gap"):
                raise Loss(f"a gap: {json.loads(line['payload'])}")
            elif line["topic"].endswith(("/events", "/analytics")):
                self.on_event(json.loads(line["payload"]))
        return True

    def on_event(self, event):
        self.watch(event)
        known, number = key(event), (event["spool"], event["seq"])
        self.waiting.pop(known, None)
        # The hash instead of the key itself, for runs of a million events.
        short, is_repeat = hash(known), number in self.numbers
        if self.numbers.setdefault(number, short) != short or self.keys.setdefault(short, number) != number:
            raise Loss(f"a number is used twice, or an event has two: {event}")
        if is_repeat:
            self.repeats += 1
        elif self.is_ordered and self.tracks.get(known[0], 0) > event["seq"]:
            raise Loss(f"out of order: {event}")
        else:
            self.tracks[known[0]] = event["seq"]

    def missing(self, wanted=None):
        """Keys of the events that have not arrived; of `wanted` where it is given."""
        return [known for known in self.waiting if wanted is None or known in wanted]
