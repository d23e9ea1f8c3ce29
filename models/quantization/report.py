# SPDX-License-Identifier: Apache-2.0
"""What is told: tables, report.json, TensorRT's calibration cache, the entry in model.yaml."""
import hashlib
import re
import struct

from . import calibration, graph
from .spec import Mistake

# TensorRT 8 reads the cache of a calibrator of this kind; the version is the one that wrote it. JetPack 5.1 has 8.5.2.
CACHE_HEADER = "TRT-8502-EntropyCalibration2"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def table(rows, heads):
    """Columns of text, the first to the left, the others to the right."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    lines = []
    for row in [heads, *rows]:
        cells = [cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


class Measure:
    """What was measured, in words: average precision by annotations, or agreement with the float network."""

    def __init__(self, labelled, spec, pictures, budget):
        self.labelled, self.spec, self.pictures, self.budget = labelled, spec, pictures, budget
        self.what = "average precision" if labelled else "agreement"

    def comparison(self, result, naive):
        """The table of all comparisons in `result` of search.CrossFit.run."""
        held = result["held_out"]
        rows = [(f"all layers, {naive}, nothing chosen", result["naive"])]
        rows += [
            (f"  fold {place + 1}: {fold['layers_in_float']} in float, {fold['variant']}", fold["held_out"])
            for place, fold in enumerate(held["folds"])
        ]
        rows += [
            ("unseen pictures (all folds as one set)", held),
            ("the same, each fold's share by the others", result["share_by_others"]),
            ("the network written, its own pictures", result["all"]),
        ]
        cells = [
            (
                title,
                row["pictures"],
                f"{row['float_ap']:.4f}",
                f"{row['int8_ap']:.4f}",
                f"{row['difference_points']:+.2f}",
                f"[{row['interval_points'][0]:+.2f}, {row['interval_points'][1]:+.2f}]",
            )
            for title, row in rows
        ]
        kind = "AP" if self.labelled else "agreement"
        return table(cells, ["", "pictures", f"float {kind}", f"INT8 {kind}", "points", "95 % interval"])

    def figures(self, result):
        held, last = result["held_out"]["difference_points"], result["all"]["difference_points"]
        return f"{held:+.2f} on unseen pictures, {last:+.2f} of the network written"

    def sentences(self, result):
        """What the figures say, for the terminal and the report."""
        said = []
        if not self.labelled:
            said.append(
                f"Agreement: the AP of the INT8 network when the float network's boxes with a score of {self.spec.score_threshold:g} or more "
                "count as true. It says how much changes, not whether for better or worse: the loss of accuracy is usually a "
                "small part of it."
            )
        said.append(
            "A fold's network is chosen and calibrated on the other folds. AP ranks all boxes of a set of pictures together, so that of all folds "
            "as one set is not the mean of the folds."
        )
        promised, budget = result["promised_points"], self.budget
        if result["bound_kept"]:
            said.append(
                f"Promise: at most {promised:.2f} points of {self.what} are lost on pictures like these (the lowest lower end of the 95 % "
                f"intervals); the budget of {budget:g} is kept."
            )
        else:
            said.append(
                f"Promise: up to {promised:.2f} points of {self.what} may be lost on pictures like these (the lowest lower end of the 95 % "
                f"intervals), more than the budget of {budget:g}; measured: {self.figures(result)}. More than {self.pictures} pictures "
                "narrow the intervals."
                if result["within_budget"]
                else f"Promise: none; up to {promised:.2f} points of {self.what} may be lost, and what was measured is beyond the budget of "
                f"{budget:g} too: {self.figures(result)}."
            )
        return said


def speed(measured):
    """One sentence about the times of network.compare_speed."""
    times = f"{measured['float_ms']:.2f} ms in float, {measured['int8_ms']:.2f} ms in INT8, {measured['ratio']:.2f} times the speed"
    if measured["ratio"] < 1:
        return f"Speed: float is faster on this machine (one thread: {times}): keep the float network here, or measure with `jetwatch bench`."
    return f"Speed: INT8 is faster on this machine (one thread: {times})."


def culprits(layers, whole, floats, count):
    """The layers with the largest drift alone in 8 bits, and which of them stay in float."""
    by_name = {layer.name: layer for layer in layers}
    drifts = whole.suspects()
    total = max(sum(layer.macs for layer in layers), 1)
    rows = []
    for name in sorted(drifts, key=lambda name: -drifts[name][0])[:count]:
        drift, decibels = drifts[name]
        own = whole.errors.get(name)
        rows.append(
            (
                name,
                by_name[name].kind,
                f"{drift:.4f}",
                f"{decibels:.1f}",
                "-" if own is None else f"{100 * own:.2f}",
                f"{100 * by_name[name].macs / total:.1f}",
                "float" if name in floats else "INT8",
            )
        )
    return table(rows, ["layer alone in 8 bits", "kind", "drift", "SQNR dB", "own error %", "MACs %", "stays"])


def write_cache(path, ranges, left_out):
    """TensorRT's text form: one scale (largest number over 127) for each tensor, as big-endian bits of a float32.

    Tensors of `left_out` get none: TensorRT runs a layer in float when it knows no scale for one of its inputs."""
    lines = [CACHE_HEADER]
    for name, (low, high) in ranges.items():
        if name not in left_out:
            scale, _ = calibration.parameters(low, high, True)
            lines.append(f"{name}: {struct.pack('>f', scale).hex()}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return len(lines) - 1


def inputs_of_floats_only(layers, floats):
    """Tensors that layers in float read and no layer in 8 bits does."""
    read_in_float = {name for layer in layers if layer.name in floats for name in layer.inputs}
    return read_in_float - {name for layer in layers if layer.name not in floats for name in layer.inputs}


def counts(model):
    """Operators of a graph by number, for the report."""
    found = {}
    for node in model.graph.node:
        found[node.op_type] = found.get(node.op_type, 0) + 1
    return {"opset": graph.opset_of(model), "ir_version": model.ir_version, "operators": dict(sorted(found.items()))}


def update_model_yaml(spec, precision, file_name, digest):
    """Adds or replaces `files: PRECISION` as one line; comments and all other lines stay as they are."""
    with open(spec.path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    entry = f"{precision}: {{file: {file_name}, sha256: {digest}}}"
    start = next((index for index, line in enumerate(lines) if re.match(r"files:\s*(#.*)?$", line)), None)
    if start is None:
        raise Mistake(f"{spec.path} has no line `files:` with its entries below: add by hand `files: {{{entry}}}`")
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith((" ", "#"))):
        end += 1
    body = [index for index in range(start + 1, end) if re.match(r"\s+\S+:", lines[index])]
    if not body:
        raise Mistake(f"{spec.path}: no entry below `files:`: add by hand `{entry}`")
    indent = re.match(r"\s+", lines[body[0]]).group()
    same = [index for index in body if re.match(rf"{indent}{re.escape(precision)}\s*:", lines[index])]
    if same and "{" not in lines[same[0]]:
        raise Mistake(f"{spec.path}: files.{precision} goes over several lines: write by hand `{entry}`")
    if same:
        lines[same[0]] = indent + entry
    else:
        lines.insert(body[-1] + 1, indent + entry)
    with open(spec.path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
