# SPDX-License-Identifier: Apache-2.0
"""A network that is run on pictures and judged: by average precision against what is known, and by how far its
candidates drift from those of the float network."""
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime

from . import accuracy, calibration, pictures
from .graph import session_options
from .spec import Mistake

# Candidates whose score in either network is at least this count for the drift: the rest is background to both.
NOTICED = 0.1
# Candidates below this score are not asked for: most of them are background, and there are thousands.
MIN_SCORE = 0.02
# The drift of a picture in which the daemon would stop because of an invalid number: more than any other.
BROKEN = 4.0
# Pairs of runs, and runs in each, when two networks are compared by time.
SPEED_PAIRS, SPEED_RUNS = 15, 4


class Network:
    """One ONNX graph in ONNX Runtime. Quantized graphs run as the runtime likes it: the numbers are those of Q and DQ."""

    def __init__(self, model, daemon, threads):
        self.model, self.daemon, self.spec, self.threads = model, daemon, daemon.spec, threads
        self.session = session(model, 1)
        types = {entry.name: entry.type for entry in self.session.get_inputs()}
        inputs = set(types)
        outputs = {entry.name for entry in self.session.get_outputs()}
        if inputs != set(self.spec.inputs):
            raise Mistake(
                f"{self.spec.path}: input names {', '.join(self.spec.inputs)}, but the network's inputs are {', '.join(sorted(inputs))}"
            )
        wanted = {"float32": "tensor(float)", "uint8": "tensor(uint8)"}[self.spec.element]
        if types[self.spec.input_name] != wanted:
            raise Mistake(f"{self.spec.path}: input.type is {self.spec.element}, but the network takes {types[self.spec.input_name]}")
        for name in self.spec.outputs:
            if name not in outputs:
                known = ", ".join(sorted(outputs))
                raise Mistake(f"{self.spec.path}: output names tensor {name}, but the network's outputs are {known}")

    def raw(self, picture):
        """The outputs for one picture in the order of the spec, with their batch axis."""
        return self.session.run(list(self.spec.outputs), pictures.feed(picture, self.spec))

    def candidates(self, picture, values):
        """(records, header) of all candidates in the outputs `values`, before suppression."""
        return self.daemon.decode(values, (picture.width, picture.height), MIN_SCORE, 1.0, self.spec.max_detections, True)

    def over(self, some, function):
        """`function` of each picture, several at a time, in order. The runtime lets go of Python's lock while it works."""
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(function, some))

    def found(self, some, threshold, iou):
        """For each picture (boxes in source pixels, scores, classes), as the daemon gives them, best first."""

        def one(picture):
            size = picture.width, picture.height
            records, reply = self.daemon.decode(self.raw(picture), size, threshold, iou, accuracy.MAX_DETECTIONS, False)
            if reply["invalid"]:
                records = records[:0]  # The daemon would give nothing.
            return records["box"].astype(np.float64), records["score"].astype(np.float64), records["class"].astype(np.int64)

        return self.over(some, one)

    def probe(self, names):
        """A function that gives the tensors `names` for a picture."""
        return self.probe_of(self.model, names)

    def probe_of(self, model, names):
        """The same for a `model` with this one's inputs."""
        wanted = [name for name in names if name not in self.spec.inputs]
        augmented = session(calibration.with_outputs(model, wanted), self.threads)

        def values(picture):
            given = pictures.feed(picture, self.spec)
            found = dict(zip(wanted, augmented.run(wanted, given) if wanted else []))
            found.update((name, value) for name, value in given.items() if name in names)
            return found

        return values


def session(model, threads):
    options = session_options()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _overlap(a, b):
    """IOU of boxes one by one, 0 where it is no number."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        both = np.prod(np.clip(np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2]), 0, None), -1)
        areas = sum(np.prod(np.clip(box[..., 2:] - box[..., :2], 0, None), -1) for box in (a, b))
        return np.clip(np.nan_to_num(both / np.maximum(areas - both, 1e-9)), 0, 1)


def drift(reference, other):
    """How far candidates moved, 0 (not at all) to 2, or BROKEN: mean over noticed ones of |difference of score| + 1 - IOU.

    Both are (records, header) of `Network.candidates`. Places in the output are compared one by one; lists of objects by
    the nearest of the same class. Unlike a signal-to-noise ratio of the raw outputs it does not care for background, for
    units, nor for the layout."""
    (a, header), (b, moved) = reference, other
    if moved["invalid"]:
        return BROKEN
    if not header["cells"]:
        costs = np.concatenate([_to_nearest(a, b), _to_nearest(b, a)])
        return float(costs.mean()) if len(costs) else 0.0
    # A candidate that one network does not give has score 0 there and no box.
    cells = np.union1d(a["cell"][a["score"] >= NOTICED], b["cell"][b["score"] >= NOTICED])
    if not len(cells):
        return 0.0
    a, b = _by_cell(a, cells), _by_cell(b, cells)
    # Where the class has changed, the score of the float network's class is not known: at most the other's.
    change = np.where(a["class"] == b["class"], np.abs(a["score"] - b["score"]), np.maximum(a["score"], b["score"]))
    return float(np.mean(np.clip(np.nan_to_num(change, nan=1.0), 0, 1) + 1 - _overlap(a["box"], b["box"])))


def _by_cell(records, cells):
    """A record for each of `cells`, zeros where there is none."""
    chosen = np.zeros(len(cells), records.dtype)
    chosen["class"] = np.iinfo(np.uint32).max
    order = np.argsort(records["cell"], kind="stable")
    known = records["cell"][order]
    places = np.minimum(np.searchsorted(known, cells), max(len(known) - 1, 0))
    if len(known):
        there = known[places] == cells
        chosen[there] = records[order[places[there]]]
    return chosen


def _to_nearest(some, others):
    """For each noticed one of `some` its distance to the nearest of `others` of its class: the score itself and 1 if there is none."""
    costs = []
    for record in some[some["score"] >= NOTICED]:
        same = others[others["class"] == record["class"]]
        distance = np.abs(same["score"] - record["score"]) + 1 - _overlap(same["box"], record["box"][None])
        costs.append(min([float(record["score"]) + 1.0, *distance.astype(float)]))
    return np.clip(np.array(costs, np.float64), 0, 2)


def signal_to_noise(reference, other):
    """Decibels of the raw outputs over their error, the worst of the outputs; lists of tensors. 0 where lengths differ."""
    worst = np.inf
    for value, noisy in zip(reference, other):
        if value.shape != noisy.shape:
            return 0.0
        value, noise = value.astype(np.float64), value.astype(np.float64) - noisy.astype(np.float64)
        ratio = np.sum(value**2) / max(np.sum(noise**2), 1e-30)
        worst = min(worst, 10 * np.log10(max(ratio, 1e-30)))
    return float(np.clip(np.nan_to_num(worst), -200.0, 200.0))


def compare_speed(reference, other, picture):
    """Milliseconds of one run on one thread of this machine, in alternation: (of `reference`, of `other`, ratio), medians. A
    ratio above 1 says that `other` is faster. Both are Networks, whose sessions have one thread."""

    def milliseconds(net):
        start = time.perf_counter()
        for _ in range(SPEED_RUNS):
            net.raw(picture)
        return (time.perf_counter() - start) * 1000 / SPEED_RUNS

    milliseconds(reference), milliseconds(other)  # The first runs set up memory.
    pairs = [(milliseconds(reference), milliseconds(other)) for _ in range(SPEED_PAIRS)]
    return (*(statistics.median(column) for column in zip(*pairs)), statistics.median(a / b for a, b in pairs))
