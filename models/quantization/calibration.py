# SPDX-License-Identifier: Apache-2.0
"""Ranges of activations: one histogram for each tensor over the calibration pictures, and four ways to cut it.

    minmax      all that was seen
    percentile  what 99.99 % of the numbers lie in
    entropy     the cut that loses least information, as NVIDIA's "8-bit Inference with TensorRT" (GTC 2017) describes it
    mse         the cut with the least squared error

ONNX Runtime's own calibrators give the first three too, but each in a run of its own that holds every activation of
every picture in memory (60 MB for a picture of yolox_nano). Here two runs serve all methods, and the histograms stay."""
import numpy as np
import onnx

from . import graph

METHODS = ("minmax", "entropy", "percentile", "mse")
BINS = 4096  # over [-largest, largest]; folded to half of them for symmetric ranges
PERCENTILE = 99.99
LEVELS = 128  # of a symmetric 8-bit number's positive half


class Histograms:
    """Counts of what each tensor holds. `counts[name]` has BINS equal bins over [-largest[name], largest[name]]."""

    def __init__(self, low, high, counts):
        self.low, self.high, self.counts = low, high, counts
        self.largest = {name: max(abs(low[name]), abs(high[name]), 1e-6) for name in low}

    @classmethod
    def collect(cls, network, names, pictures, progress):
        """Runs `network` twice over `pictures`: for the extremes, then for the counts."""
        low = dict.fromkeys(names, 0.0)
        high = dict.fromkeys(names, 0.0)
        probe = network.probe(names)
        for index, picture in enumerate(pictures):
            for name, value in probe(picture).items():
                low[name] = min(low[name], float(value.min()))
                high[name] = max(high[name], float(value.max()))
            progress("calibrating: extremes", index + 1, len(pictures))
        self = cls(low, high, {name: np.zeros(BINS) for name in names})
        for index, picture in enumerate(pictures):
            for name, value in probe(picture).items():
                half = self.largest[name]
                places = ((value.ravel() + half) * (BINS / 2 / half)).astype(np.int32)
                self.counts[name] += np.bincount(np.minimum(places, BINS - 1), minlength=BINS)[:BINS]
            progress("calibrating: counts", index + 1, len(pictures))
        return self

    def ranges(self, method, symmetric, through=None):
        """Name -> (low, high), with 0 inside; low is -high where `symmetric(name)`. `through`: name -> the function that all
        readers put the tensor through, behind which the squared error counts."""
        through = through or {}
        return {name: self.range_of(name, method, symmetric(name), through.get(name)) for name in self.counts}

    def range_of(self, name, method, symmetric, through=None):
        low, high, counts = self.low[name], self.high[name], self.counts[name]
        half = self.largest[name]
        magnitudes = counts[BINS // 2 :] + counts[BINS // 2 - 1 :: -1]
        if symmetric:
            cut = {
                "minmax": lambda: half,
                "percentile": lambda: _percentile(magnitudes, half, PERCENTILE),
                "entropy": lambda: _entropy(magnitudes, half),
                "mse": lambda: _least_error(counts, half, [(-share * half, share * half) for share in SHARES], True, through)[1],
            }[method]()
            return -cut, cut
        if method == "minmax":
            return low, high
        if method == "mse":
            cuts = [(a * low, b * high) for a in SHARES[::6] for b in SHARES[::6]]
            return _least_error(counts, half, cuts, False, through)
        cut = _percentile(magnitudes, half, PERCENTILE) if method == "percentile" else _entropy(magnitudes, half)
        return max(low, -cut), min(high, cut)


# Shares of the whole range that the least squared error is sought among.
SHARES = np.linspace(1.0, 0.05, 77)


def _percentile(magnitudes, half, percent):
    sums = np.cumsum(magnitudes)
    place = int(np.searchsorted(sums, sums[-1] * percent / 100))
    return half * (min(place, len(magnitudes) - 1) + 1) / len(magnitudes)


def relu(values):
    return np.maximum(values, 0)


def silu(values):
    return values / (1 + np.exp(-np.clip(values, -60, 60)))


def _least_error(counts, half, cuts, symmetric, through):
    """The (low, high) of `cuts` whose rounding and clipping errs least over the histogram, behind `through` if any."""
    through = through or (lambda values: values)
    used = np.flatnonzero(counts)
    values = (used + 0.5) * (2 * half / BINS) - half
    weights, exact = counts[used], through(values)
    best, least = cuts[0], np.inf
    for low, high in cuts:
        error = float(weights @ (exact - through(round_trip(values, low, high, symmetric))) ** 2)
        if error < least:
            best, least = (low, high), error
    return best


def _entropy(magnitudes, half):
    """The cut with the least Kullback-Leibler divergence between the clipped numbers and their 128 levels."""
    counts = magnitudes.copy()
    counts[0] = counts[1]  # Zeros, half of all after a ReLU, would decide alone, and every cut keeps them.
    best, least = len(counts), np.inf
    for kept in range(LEVELS, len(counts) + 1, 8):
        inside = counts[:kept]
        reference = inside.copy()
        reference[-1] += counts[kept:].sum()
        present = inside > 0
        level = (np.arange(kept) * LEVELS) // kept
        sums = np.bincount(level, inside, LEVELS)
        filled = np.bincount(level, present, LEVELS)
        candidate = np.where(present, (sums / np.maximum(filled, 1))[level], 0)
        if candidate.sum() == 0:
            continue
        p, q = reference / reference.sum(), candidate / candidate.sum()
        # Where the reference has the outliers and the candidate nothing, a small share stands for nothing.
        q = np.maximum(q, 1e-7)
        seen = p > 0
        divergence = float(np.sum(p[seen] * np.log(p[seen] / q[seen])))
        if divergence < least:
            best, least = kept, divergence
    return half * best / len(counts)


def parameters(low, high, symmetric):
    """(scale, zero point) of a range: int8 around 0, or uint8 with 0 exactly on a level."""
    low, high = min(low, 0.0), max(high, 0.0)
    if symmetric:
        return max(-low, high, 1e-6) / 127, 0
    scale = max(high - low, 1e-6) / 255
    return scale, int(np.clip(round(-low / scale), 0, 255))


def round_trip(values, low, high, symmetric):
    """`values` as they come out of Q and DQ with this range."""
    scale, zero = parameters(low, high, symmetric)
    lowest, highest = (-128, 127) if symmetric else (0, 255)
    return (np.clip(np.rint(values * np.float32(1 / scale)) + zero, lowest, highest) - zero) * np.float32(scale)


def tensors_to_watch(model):
    """All float activations of `model`, its inputs first."""
    weights = {tensor.name for tensor in model.graph.initializer}
    constants = {name for node in model.graph.node if node.op_type == "Constant" for name in node.output}
    shapes = graph.shapes_of(model)
    inputs = [entry.name for entry in model.graph.input]
    made = [name for node in model.graph.node for name in node.output]
    return [name for name in inputs + made if name in shapes and name not in weights | constants]


def with_outputs(model, names):
    """A copy of `model` that gives the tensors `names`, none of them an input, besides its outputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    have = {entry.name for entry in copy.graph.output}
    for name in names:
        if name not in have:
            copy.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    return copy
