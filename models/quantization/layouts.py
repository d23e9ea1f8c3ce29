"""Raw outputs of one picture as (boxes [n, 4] xyxy in input pixels, scores [n, classes]), for the layouts whose accuracy
can be measured here. Formulas as in src/appliance/detect, in numpy; every cell is kept, so that networks can be compared by cell."""
import numpy as np

from .spec import Mistake


def _centers(columns, lines, offset):
    x, y = np.meshgrid(np.arange(columns) + offset, np.arange(lines) + offset)
    return x.ravel().astype(np.float32), y.ravel().astype(np.float32)


def _around(cx, cy, width, height):
    return np.stack([cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2], -1)


def _yolox_rows(rows, columns, lines, stride):
    x, y = _centers(columns, lines, 0.0)
    # Beyond e^16 strides a box is broken anyway; without the bound a collapsed network would overflow.
    size = np.exp(np.minimum(rows[:, 2:4], 16.0)) * stride
    boxes = _around((rows[:, 0] + x) * stride, (rows[:, 1] + y) * stride, size[:, 0], size[:, 1])
    return boxes, rows[:, 4:5] * rows[:, 5:]


def yolox(tensors, spec):
    """One [cells, 5+C] (strides 8, 16, 32), or one [5+C, h, w] per stride."""
    parts = []
    if "grids" in tensors:
        for grid in tensors["grids"]:
            channels, lines, columns = grid.shape
            parts.append(_yolox_rows(grid.reshape(channels, -1).T, columns, lines, spec.width / columns))
    else:
        rows, start = tensors["output"], 0
        for stride in (8, 16, 32):
            columns, lines = spec.width // stride, spec.height // stride
            parts.append(_yolox_rows(rows[start : start + columns * lines], columns, lines, stride))
            start += columns * lines
        if start != len(rows):
            raise Mistake(f"output of {spec.name} has {len(rows)} rows, expected {start} for {spec.width}x{spec.height}")
    return tuple(np.concatenate(part) for part in zip(*parts))


def fcos(tensors, spec):
    """Scores [C, h, w] and distances left, top, right, bottom [4, h, w] in strides from (x + 0.5) * stride, per stride."""
    boxes, scores = [], []
    centerness = tensors.get("centerness", [None] * len(tensors["scores"]))
    for score, distance, center in zip(tensors["scores"], tensors["boxes"], centerness):
        classes, lines, columns = score.shape
        stride = spec.width / columns
        x, y = _centers(columns, lines, 0.5)
        left, top, right, bottom = distance.reshape(4, -1)
        boxes.append(np.stack([x - left, y - top, x + right, y + bottom], -1) * stride)
        flat = score.reshape(classes, -1).T
        # Rounding to 8 bits may give a score a little below zero, of which there is no root.
        scores.append(flat if center is None else np.sqrt(np.maximum(flat * center.reshape(-1, 1), 0)))
    return np.concatenate(boxes), np.concatenate(scores)


def yolov5(tensors, spec):
    """[n, 5+C]: center, size in input pixels, objectness, classes."""
    rows = tensors["output"]
    return _around(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3]), rows[:, 4:5] * rows[:, 5:]


def yolov8(tensors, spec):
    """[4+C, n]: center, size in input pixels, classes."""
    rows = tensors["output"].T
    return _around(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3]), rows[:, 4:]


DECODERS = {"yolox": yolox, "fcos": fcos, "yolov5": yolov5, "yolov8": yolov8}


class Decoder:
    """Takes the outputs of a network by the names that model.yaml gives them."""

    def __init__(self, spec):
        layout = spec.output["layout"]
        if layout not in DECODERS:
            raise Mistake(
                f"{spec.path}: output.layout is {layout}, whose accuracy cannot be measured here (that of "
                f"{', '.join(DECODERS)} can): add a decoder to models/quantization/layouts.py"
            )
        self.spec = spec
        self.decode_one = DECODERS[layout]
        roles = spec.output.get("tensors")
        if roles is None:
            if "name" not in spec.output:
                raise Mistake(f"{spec.path}: output lacks `name` or `tensors`, expected the tensors' names in the network")
            roles = {"output": spec.output["name"]}
        self.roles = roles
        needed = {"fcos": ("scores", "boxes")}.get(layout, () if "grids" in roles else ("output",))
        for role in needed:
            if role not in roles:
                raise Mistake(f"{spec.path}: output of layout {layout} lacks `{role}`, expected the tensors' names")

    @property
    def names(self):
        """Names of all outputs, in the order of the roles."""
        return [name for role in self.roles.values() for name in (role if isinstance(role, list) else [role])]

    def decode(self, values):
        """`values`: name -> tensor of one picture without its batch axis."""
        tensors = {
            role: [values[name] for name in names] if isinstance(names, list) else values[names]
            for role, names in self.roles.items()
        }
        return self.decode_one(tensors, self.spec)
