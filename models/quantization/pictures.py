# SPDX-License-Identifier: Apache-2.0
"""Pictures as input tensors, written by the daemon, with what is known to be in them: from a COCO file, or what the float
network finds in them.

The tensors lie in one file that is mapped into memory, not read (2 MiB a picture at 416x416)."""
import json
import os
from dataclasses import dataclass

import numpy as np

from .spec import Mistake

EXTENSIONS = (".jpg", ".jpeg", ".png")


@dataclass
class Picture:
    """One picture with what is known to be in it. Boxes are xyxy in source pixels."""

    name: str
    width: int
    height: int
    boxes: np.ndarray  # [n, 4]
    classes: np.ndarray  # [n], places in the model's labels
    crowd: np.ndarray  # [n], bool: a region of many, neither to be found nor wrong to find
    tensor: np.ndarray  # [1, 3, height, width] as the network takes it


def feed(picture, spec):
    """Input name -> value, all that the network takes for one picture."""
    given = {spec.input_name: picture.tensor}
    if spec.sizes_name:
        given[spec.sizes_name] = np.array([[spec.width, spec.height]], np.int64)
    if spec.scales_name:
        given[spec.scales_name] = np.ones((1, 2), np.float32)
    return given


def classes_of(categories, spec, path):
    """Category id -> place in the model's labels. By name where every label has its category, itself or by what it covers, else
    by order."""
    names = spec.class_names()
    by_name = {category["id"]: names[str(category["name"])] for category in categories if str(category["name"]) in names}
    missing = [label for place, label in enumerate(spec.labels) if place not in by_name.values()]
    if not missing:
        return by_name
    if len(categories) == len(spec.labels):
        ordered = sorted(categories, key=lambda category: category["id"])
        for place, category in enumerate(ordered):
            name = str(category["name"])
            if name in spec.labels and spec.labels.index(name) != place:
                raise Mistake(
                    f"{path}: category {name} comes as number {place}, but label number {spec.labels.index(name)} of "
                    f"{spec.name} is called so, and other names differ: name all categories as model.yaml names its labels"
                )
        return {category["id"]: place for place, category in enumerate(ordered)}
    raise Mistake(
        f"{path} has {len(categories)} categories and {spec.name} {len(spec.labels)} labels, and no category is called "
        f"{', '.join(missing[:5])}: name the categories as model.yaml names its labels, or name theirs below `covers`"
    )


def _tensors(daemon, paths, work):
    """For each path its tensor [1, 3, height, width] and its (width, height), or the reason as text."""
    array, sizes = daemon.preprocess(paths, os.path.join(work, "tensors.npy"))
    return [(array[place : place + 1], size) for place, size in enumerate(sizes)]


def load(daemon, folder, annotations, work, most=None):
    """Reads the pictures that `annotations` names, in the order of their names. At most `most` of them. `work`: a
    folder for the tensors, which must live as long as the pictures."""
    spec = daemon.spec
    try:
        with open(annotations, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        raise Mistake(f"cannot read {annotations}: {error}: --annotations takes a COCO JSON file") from error
    for key in ("images", "annotations", "categories"):
        if key not in document:
            raise Mistake(f"{annotations} lacks `{key}`: --annotations takes a COCO JSON file of boxes")
    places = classes_of(document["categories"], spec, annotations)
    known = {}
    for entry in document["annotations"]:
        known.setdefault(entry["image_id"], []).append(entry)
    images = sorted(document["images"], key=lambda image: image["file_name"])[:most]
    paths = [os.path.join(folder, image["file_name"]) for image in images]
    pictures = []
    for image, path, (tensor, size) in zip(images, paths, _tensors(daemon, paths, work) if paths else []):
        if isinstance(size, str):
            raise Mistake(f"cannot read {path}, which {annotations} names: {size}: is --images the right folder?")
        entries = [entry for entry in known.get(image["id"], []) if entry["category_id"] in places]
        xywh = np.array([entry["bbox"] for entry in entries], np.float64).reshape(-1, 4)
        pictures.append(
            Picture(
                name=image["file_name"],
                width=size[0],
                height=size[1],
                boxes=np.concatenate([xywh[:, :2], xywh[:, :2] + xywh[:, 2:]], 1),
                classes=np.array([places[entry["category_id"]] for entry in entries], np.int64),
                crowd=np.array([bool(entry.get("iscrowd", 0)) for entry in entries], bool),
                tensor=tensor,
            )
        )
    if sum(len(picture.boxes) for picture in pictures) == 0:
        raise Mistake(f"{annotations} has no box of any class of {spec.name}: accuracy cannot be measured on it")
    return pictures


def load_unlabelled(daemon, folder, work, say, most=None):
    """Reads the JPEG and PNG files of `folder`, by name, with nothing known of them yet. With more than `most`, as many at equal
    distances. Those that cannot be read are left out, which `say` is told."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.lower().endswith(EXTENSIONS))
    except OSError as error:
        raise Mistake(f"cannot read {folder}: {error.strerror}: --pictures takes a folder of JPEG and PNG files") from error
    if not names:
        raise Mistake(f"{folder} has no JPEG or PNG file: `jetwatch calibrate --source URI --out {folder}` collects some")
    if most and most < len(names):
        names = [names[place * len(names) // most] for place in range(most)]
    paths = [os.path.join(folder, name) for name in names]
    nothing = np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0, bool)
    pictures = []
    for name, path, (tensor, size) in zip(names, paths, _tensors(daemon, paths, work)):
        if isinstance(size, str):
            say(f"left out {path}: {size}")
            continue
        pictures.append(Picture(name, *size, *nothing, tensor))
    return pictures


def teach(pictures, found, threshold):
    """Takes what the float network found with a score of at least `threshold` as what is known of the pictures. `found`: for each
    picture (boxes, scores, classes). Returns the number of boxes."""
    for picture, (boxes, scores, classes) in zip(pictures, found):
        sure = scores >= threshold
        picture.boxes, picture.classes = boxes[sure].astype(np.float64), classes[sure].astype(np.int64)
        picture.crowd = np.zeros(int(sure.sum()), bool)
    return sum(len(picture.boxes) for picture in pictures)
