"""model.yaml as the quantizer needs it. The daemon's own reader (src/appliance/detect/model_yaml.rs) is the strict one: this one
checks only what it uses, so that a model folder has one judge."""
import os
from dataclasses import dataclass

import yaml

FILE_NAME = "model.yaml"


class Mistake(Exception):
    """Something the caller has to change: what, where, what was expected, what to do. Printed without a trace."""


@dataclass(frozen=True)
class Spec:
    """What model.yaml says of one network."""

    folder: str
    name: str
    input_name: str
    width: int  # pixels
    height: int  # pixels
    color: str  # bgr or rgb
    mean: tuple  # three numbers, subtracted from 0..255 in the order of the planes
    scale: tuple  # three numbers, multiplied after that
    padding: int  # value of the letterbox, 0..255, before mean and scale
    placement: str  # top_left, center or stretch
    output: dict  # layout, name or tensors, the layout's parameters
    labels: tuple
    covers: dict  # name in other sets of labels: the label that covers it
    nms_iou: float
    files: dict  # precision: {file, sha256}

    def file(self, precision):
        """Path of the network in `precision`."""
        entry = self.files.get(precision)
        if entry is None:
            known = " or ".join(self.files) or "none"
            raise Mistake(
                f"{self.path}: files has no precision `{precision}` (it has {known}): add it, or name one with --precision"
            )
        path = os.path.join(self.folder, entry["file"])
        if not os.path.isfile(path):
            raise Mistake(
                f"{path} does not exist, but {FILE_NAME} names it: fetch it (README.md in the model's folder says where "
                "from), or give another file with --onnx"
            )
        return path

    @property
    def path(self):
        return os.path.join(self.folder, FILE_NAME)


def _three(value, where):
    numbers = value if isinstance(value, list) else [value] * 3
    if len(numbers) != 3 or not all(isinstance(n, (int, float)) for n in numbers):
        raise Mistake(f"{where} is {value!r}, expected one number or a list of three")
    return tuple(float(n) for n in numbers)


def _need(mapping, key, where, expected):
    if not isinstance(mapping, dict) or key not in mapping:
        raise Mistake(f"{where} lacks `{key}`, expected {expected}: see the other folders below models/")
    return mapping[key]


def _one_of(value, allowed, where):
    if value not in allowed:
        raise Mistake(f"{where} is {value!r}, expected {' or '.join(allowed)}")
    return value


def load(folder):
    """Reads `folder`/model.yaml."""
    path = os.path.join(folder, FILE_NAME)
    try:
        with open(path, encoding="utf-8") as file:
            document = yaml.safe_load(file)
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}: --model takes a folder that holds a {FILE_NAME}") from error
    except yaml.YAMLError as error:
        raise Mistake(f"{path} is not YAML: {error}") from error
    given = _need(document, "input", path, "a map that describes the input tensor")
    letterbox = _need(given, "letterbox", f"{path}: input", "a map with value and placement")
    _one_of(given.get("type", "float32"), ("float32",), f"{path}: input.type")
    output = _need(document, "output", path, "a map that describes the output tensors")
    _need(output, "layout", f"{path}: output", "the name of a layout")
    if "labels_file" in document:
        with open(os.path.join(folder, document["labels_file"]), encoding="utf-8") as file:
            labels = [line.strip() for line in file if line.strip()]
    else:
        labels = _need(document, "labels", path, "a list of names, or labels_file")
    covers = {str(name): str(label) for label, names in (document.get("covers") or {}).items() for name in names}
    return Spec(
        folder=folder,
        name=str(_need(document, "name", path, "the model's name")),
        input_name=str(_need(given, "name", f"{path}: input", "the tensor's name in the network")),
        width=int(_need(given, "width", f"{path}: input", "pixels")),
        height=int(_need(given, "height", f"{path}: input", "pixels")),
        color=_one_of(_need(given, "color", f"{path}: input", "bgr or rgb"), ("bgr", "rgb"), f"{path}: input.color"),
        mean=_three(given.get("mean", 0.0), f"{path}: input.mean"),
        scale=_three(given.get("scale", 1.0), f"{path}: input.scale"),
        padding=int(_need(letterbox, "value", f"{path}: input.letterbox", "0 to 255")),
        placement=_one_of(
            _need(letterbox, "placement", f"{path}: input.letterbox", "top_left, center or stretch"),
            ("top_left", "center", "stretch"),
            f"{path}: input.letterbox.placement",
        ),
        output=dict(output),
        labels=tuple(str(label) for label in labels),
        covers=covers,
        nms_iou=float(document.get("nms_iou", 0.45)),
        files=dict(document.get("files") or {}),
    )
