"""A COCO annotation file and its pictures as input tensors, laid out as src/appliance/types/geometry.rs and src/appliance/detect/tensor.rs do.

Pictures are kept as 8-bit letterboxed planes (0.5 MiB at 416x416) and normalized when they are asked for."""
import json
import os
from dataclasses import dataclass

import numpy as np
from PIL import Image

from .spec import Mistake


@dataclass
class Picture:
    """One picture with what is known to be in it. Boxes are xyxy in source pixels."""

    name: str
    width: int
    height: int
    boxes: np.ndarray  # [n, 4]
    classes: np.ndarray  # [n], places in the model's labels
    crowd: np.ndarray  # [n], bool: a region of many, neither to be found nor wrong to find
    areas: np.ndarray  # [n]
    planes: np.ndarray  # [height, width, 3] uint8 in the network's color order, letterboxed
    inner: tuple  # (left, top, width, height) of the scaled picture in the input


def inner_size(width, height, spec):
    """(left, top, width, height) of a source picture in the input, in integers as the daemon computes them."""
    if spec.placement == "stretch":
        return 0, 0, spec.width, spec.height
    if spec.width * height <= spec.height * width:
        inner_width, inner_height = spec.width, max(1, height * spec.width // width)
    else:
        inner_width, inner_height = max(1, width * spec.height // height), spec.height
    if spec.placement == "top_left":
        return 0, 0, inner_width, inner_height
    return (spec.width - inner_width) // 2, (spec.height - inner_height) // 2, inner_width, inner_height


def letterbox(image, spec):
    """A PIL picture as ([height, width, 3] uint8 in the network's color order, inner)."""
    image = image.convert("RGB")
    left, top, width, height = inner_size(image.width, image.height, spec)
    scaled = np.asarray(image.resize((width, height), Image.BILINEAR))
    if spec.color == "bgr":
        scaled = scaled[:, :, ::-1]
    planes = np.full((spec.height, spec.width, 3), spec.padding, np.uint8)
    planes[top : top + height, left : left + width] = scaled
    return planes, (left, top, width, height)


def tensor(pictures, spec):
    """[n, 3, height, width] float32 as the network wants it."""
    stacked = np.stack([picture.planes for picture in pictures]).transpose(0, 3, 1, 2).astype(np.float32)
    mean = np.array(spec.mean, np.float32).reshape(1, 3, 1, 1)
    scale = np.array(spec.scale, np.float32).reshape(1, 3, 1, 1)
    return np.ascontiguousarray((stacked - mean) * scale)


def to_source(boxes, picture):
    """Boxes in input pixels as boxes in source pixels, clipped to the picture."""
    left, top, width, height = picture.inner
    factor = np.array([picture.width / width, picture.height / height] * 2)
    moved = (boxes - np.array([left, top] * 2)) * factor
    return np.clip(moved, 0, np.array([picture.width, picture.height] * 2))


def classes_of(categories, spec, path):
    """Category id -> place in the model's labels. By name, or by one of the names that model.yaml's covers gives to a label,
    where every label has a category; else by order."""
    named = {category["id"]: str(category["name"]) for category in categories}
    by_name = {name: name for name in named.values() if name in spec.labels}
    by_name |= {name: spec.covers[name] for name in named.values() if name not in by_name and name in spec.covers}
    if set(by_name.values()) == set(spec.labels):
        return {id: spec.labels.index(by_name[name]) for id, name in named.items() if name in by_name}
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
    missing = [label for label in spec.labels if label not in by_name.values()]
    raise Mistake(
        f"{path} has {len(categories)} categories and {spec.name} {len(spec.labels)} labels, and no category is called "
        f"{', '.join(missing[:5])}: name the categories as model.yaml names its labels"
    )


def load(folder, annotations, spec, most=None):
    """Reads the pictures that `annotations` names, in the order of their names. At most `most` of them."""
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
    images = sorted(document["images"], key=lambda image: image["file_name"])
    pictures = []
    for image in images[:most]:
        path = os.path.join(folder, image["file_name"])
        try:
            with Image.open(path) as opened:
                planes, inner = letterbox(opened, spec)
                width, height = opened.size
        except OSError as error:
            raise Mistake(f"cannot read {path}, which {annotations} names: {error}: is --images the right folder?") from error
        entries = [entry for entry in known.get(image["id"], []) if entry["category_id"] in places]
        xywh = np.array([entry["bbox"] for entry in entries], np.float64).reshape(-1, 4)
        boxes = np.concatenate([xywh[:, :2], xywh[:, :2] + xywh[:, 2:]], 1)
        pictures.append(
            Picture(
                name=image["file_name"],
                width=width,
                height=height,
                boxes=boxes,
                classes=np.array([places[entry["category_id"]] for entry in entries], np.int64),
                crowd=np.array([bool(entry.get("iscrowd", 0)) for entry in entries], bool),
                areas=xywh[:, 2] * xywh[:, 3],
                planes=planes,
                inner=inner,
            )
        )
    if sum(len(picture.boxes) for picture in pictures) == 0:
        raise Mistake(f"{annotations} has no box of any class of {spec.name}: accuracy cannot be measured on it")
    return pictures
