# SPDX-License-Identifier: Apache-2.0
"""A model folder as the daemon reads it: `jetwatch model decode` gives the checked values of model.yaml."""
import os
from dataclasses import dataclass

FILE_NAME = "model.yaml"


class Mistake(Exception):
    """Something the caller has to change: what, where, what was expected, what to do. Printed without a trace."""


@dataclass(frozen=True)
class Spec:
    """What model.yaml says of one network."""

    folder: str
    name: str
    input_name: str
    element: str  # float32 or uint8
    width: int  # pixels
    height: int  # pixels
    sizes_name: str  # input that takes width and height, or None
    scales_name: str  # input that takes the scale of the picture, or None
    outputs: tuple  # names of the tensors in the order of the layout
    classifier: bool  # whether each class is a box over the whole picture
    labels: tuple
    covers: tuple  # (class, further name of it)
    score_threshold: float
    nms_iou: float
    max_detections: int
    files: dict  # precision: path

    @classmethod
    def of(cls, folder, greeting):
        """From the first line of `jetwatch model decode`."""
        given = greeting["input"]
        return cls(
            folder=folder,
            name=greeting["name"],
            input_name=given["name"],
            element=given["element"],
            width=given["width"],
            height=given["height"],
            sizes_name=given["sizes_name"],
            scales_name=given["scales_name"],
            outputs=tuple(greeting["outputs"]),
            classifier=greeting["classifier"],
            labels=tuple(greeting["labels"]),
            covers=tuple((place, name) for place, name in greeting["covers"]),
            score_threshold=greeting["score_threshold"],
            nms_iou=greeting["nms_iou"],
            max_detections=greeting["max_detections"],
            files={entry["precision"]: entry["path"] for entry in greeting["files"]},
        )

    def file(self, precision):
        """Path of the network in `precision`."""
        path = self.files.get(precision)
        if path is None:
            known = " or ".join(self.files) or "none"
            raise Mistake(
                f"{self.path}: files has no precision `{precision}` (it has {known}): add it, or name one with --precision"
            )
        if not os.path.isfile(path):
            raise Mistake(
                f"{path} does not exist, but {FILE_NAME} names it: fetch it (README.md in the model's folder says where "
                "from), or give another file with --onnx"
            )
        return path

    @property
    def path(self):
        return os.path.join(self.folder, FILE_NAME)

    @property
    def inputs(self):
        """Names of all inputs."""
        return [name for name in (self.input_name, self.sizes_name, self.scales_name) if name]

    def class_names(self):
        """Name -> class: the labels, and what they cover."""
        return {**{name: place for place, name in self.covers}, **{name: place for place, name in enumerate(self.labels)}}
