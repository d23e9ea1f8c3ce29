"""A network that is run on pictures and judged: by average precision against what is known, and by how far its
detections drift from those of the float network."""
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime

from . import accuracy, calibration, pictures
from .spec import Mistake

# Cells whose best score in either network is at least this count for the drift: the rest is background to both.
NOTICED = 0.1


class Network:
    """One ONNX graph in ONNX Runtime. Quantized graphs run as the runtime likes it: the numbers are those of Q and DQ."""

    def __init__(self, model, spec, decoder, threads):
        self.model, self.spec, self.decoder, self.threads = model, spec, decoder, threads
        self.session = session(model, 1)
        inputs = [entry.name for entry in self.session.get_inputs()]
        outputs = {entry.name for entry in self.session.get_outputs()}
        if inputs != [spec.input_name]:
            raise Mistake(f"{spec.path}: input.name is {spec.input_name}, but the network's inputs are {', '.join(inputs)}")
        for name in decoder.names:
            if name not in outputs:
                known = ", ".join(sorted(outputs))
                raise Mistake(f"{spec.path}: output names tensor {name}, but the network's outputs are {known}")

    def raw(self, picture):
        """Output name -> tensor of one picture without its batch axis."""
        values = self.session.run(self.decoder.names, {self.spec.input_name: pictures.tensor([picture], self.spec)})
        return {name: value[0] for name, value in zip(self.decoder.names, values)}

    def decoded(self, picture):
        return self.decoder.decode(self.raw(picture))

    def over(self, some, function):
        """`function` of each picture, several at a time, in order. The runtime lets go of Python's lock while it works."""
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(function, some))

    def found(self, some, threshold, iou):
        """For each picture (boxes in source pixels, scores, classes)."""

        def one(picture):
            boxes, scores = self.decoded(picture)
            boxes, scores, classes = accuracy.detections(boxes, scores, threshold, iou)
            return pictures.to_source(boxes, picture), scores, classes

        return self.over(some, one)

    def probe(self, names):
        """A function that gives the tensors `names` for a picture."""
        return self.probe_of(self.model, names)

    def probe_of(self, model, names):
        """The same for a `model` with this one's input."""
        wanted = [name for name in names if name != self.spec.input_name]
        augmented = session(calibration.with_outputs(model, wanted), self.threads)

        def values(picture):
            tensor = pictures.tensor([picture], self.spec)
            found = dict(zip(wanted, augmented.run(wanted, {self.spec.input_name: tensor}) if wanted else []))
            if self.spec.input_name in names:
                found[self.spec.input_name] = tensor
            return found

        return values


def session(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def drift(reference, other):
    """How far detections moved, 0 (not at all) to 2: mean over noticed cells of |difference of score| + 1 - IOU.

    Unlike a signal-to-noise ratio of the raw outputs it does not care for background, for units, nor for the layout."""
    boxes, scores = reference
    moved_boxes, moved_scores = other
    rows = np.arange(len(scores))
    classes = scores.argmax(1)
    noticed = (scores.max(1) >= NOTICED) | (moved_scores.max(1) >= NOTICED)
    if not noticed.any():
        return 0.0
    change = np.abs(scores[rows, classes] - moved_scores[rows, classes])[noticed]
    a, b = boxes[noticed].astype(np.float64), moved_boxes[noticed].astype(np.float64)
    both = np.prod(np.clip(np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2]), 0, None), 1)
    sum_of_areas = sum(np.prod(np.clip(box[:, 2:] - box[:, :2], 0, None), 1) for box in (a, b))
    iou = both / np.maximum(sum_of_areas - both, 1e-9)
    return float(np.mean(np.clip(np.nan_to_num(change, nan=1.0), 0, 1) + 1 - np.clip(np.nan_to_num(iou), 0, 1)))


def signal_to_noise(reference, other):
    """Decibels of the raw outputs over their error, the worst of the outputs; dicts of name -> tensor."""
    worst = np.inf
    for name, value in reference.items():
        value, noise = value.astype(np.float64), value.astype(np.float64) - other[name].astype(np.float64)
        ratio = np.sum(value**2) / max(np.sum(noise**2), 1e-30)
        worst = min(worst, 10 * np.log10(max(ratio, 1e-30)))
    return float(min(worst, 200.0))
