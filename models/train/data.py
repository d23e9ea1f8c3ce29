# SPDX-License-Identifier: Apache-2.0
"""Pictures and boxes on the GPU, and what is done to them before each step.

A set is a folder with `images/` and `annotations.json` (COCO's format, as `jetwatch dataset` and label_video.py write it); annotations with
`iscrowd: 1` are regions that are neither asked for nor counted as wrong. All pictures of a set have one size and live on the GPU as bytes.
"""
import json
import math
import pathlib
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy
import torch
from torch.nn import functional

# Most objects of a picture; further ones, the smallest, become ignored regions.
MAX_BOXES = 48


class Set:
    """Pictures `[n, 3, height, width]` as bytes, boxes `[n, MAX_BOXES, 4]` as xyxy in pixels, labels `[n, MAX_BOXES]` (-1: none), ignored `[n, MAX_BOXES, 4]`."""

    def __init__(self, folder, names, size, device, limit=None):
        folder = pathlib.Path(folder)
        document = json.loads((folder / "annotations.json").read_text())
        images = document["images"][:limit]
        categories = {category["id"]: category["name"] for category in document["categories"]}
        unknown = set(categories.values()) - set(names)
        if unknown:
            raise SystemExit(f"{folder}/annotations.json: categories {sorted(unknown)}, expected only {names}; write it with --merge")
        self.files = [image["file_name"] for image in images]
        width, height = size

        def read(name):
            picture = cv2.imread(str(folder / "images" / name))
            if picture is None:
                raise SystemExit(f"{folder}/images/{name} is missing or no picture")
            if picture.shape[:2] != (height, width):
                picture = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
            return torch.from_numpy(numpy.ascontiguousarray(picture[..., ::-1])).permute(2, 0, 1)

        self.pictures = torch.empty((len(images), 3, height, width), dtype=torch.uint8, device=device)
        with ThreadPoolExecutor() as pool:
            for start in range(0, len(images), 512):
                part = list(pool.map(read, self.files[start : start + 512]))
                self.pictures[start : start + len(part)] = torch.stack(part).to(device)
        place = {image["id"]: index for index, image in enumerate(images)}
        scale = [(width / image["width"], height / image["height"]) for image in images]
        boxes = numpy.zeros((len(images), MAX_BOXES, 4), numpy.float32)
        labels = numpy.full((len(images), MAX_BOXES), -1, numpy.int64)
        ignored = numpy.zeros((len(images), MAX_BOXES, 4), numpy.float32)
        counts, ignored_counts = numpy.zeros(len(images), int), numpy.zeros(len(images), int)
        for annotation in sorted(document["annotations"], key=lambda a: -a["bbox"][2] * a["bbox"][3]):
            index = place.get(annotation["image_id"])
            if index is None:
                continue
            x, y, w, h = annotation["bbox"]
            kx, ky = scale[index]
            box = [x * kx, y * ky, (x + w) * kx, (y + h) * ky]
            if annotation.get("iscrowd", 0) or counts[index] == MAX_BOXES:
                if ignored_counts[index] < MAX_BOXES:
                    ignored[index, ignored_counts[index]] = box
                    ignored_counts[index] += 1
            else:
                boxes[index, counts[index]] = box
                labels[index, counts[index]] = names.index(categories[annotation["category_id"]])
                counts[index] += 1
        self.boxes, self.labels, self.ignored = (torch.from_numpy(a).to(device) for a in (boxes, labels, ignored))

    def __len__(self):
        return len(self.files)

    def pick(self, index):
        """The pictures, boxes, labels and ignored regions at `index`."""
        return self.pictures[index], self.boxes[index], self.labels[index], self.ignored[index]


def uniform(n, low, high, generator):
    return torch.rand(n, device=generator.device, generator=generator) * (high - low) + low


def augment(pictures, boxes, labels, ignored, size, generator, least_side=5.0, zoom=(0.55, 1.7)):
    """Random zoom, place, flip, light, color, blur, noise and occlusion; the result has `size` (width, height), values 0 to 1.

    Objects of which less than 40 % is left or that get smaller than `least_side` pixels become ignored regions.
    """
    n, _, h, w = pictures.shape
    width, height = size
    device = pictures.device
    # Source pixels = scale * target pixels + shift; a zoom of 1 shows the whole picture.
    grow = torch.exp(uniform(n, math.log(zoom[0]), math.log(zoom[1]), generator))
    stretch = torch.exp(uniform(n, -0.12, 0.12, generator))
    kx, ky = (w / width) / (grow * stretch), (h / height) / grow * stretch
    shift_x = uniform(n, 0.0, 1.0, generator) * (w - kx * width)
    shift_y = uniform(n, 0.0, 1.0, generator) * (h - ky * height)
    flip = torch.rand(n, device=device, generator=generator) < 0.5
    x = torch.arange(width, device=device) + 0.5
    y = torch.arange(height, device=device) + 0.5
    source_x = x[None] * kx[:, None] + shift_x[:, None]
    source_x = torch.where(flip[:, None], source_x.flip(1), source_x)
    source_y = y[None] * ky[:, None] + shift_y[:, None]
    grid = torch.stack(
        [
            (source_x * 2 / w - 1)[:, None, :].expand(-1, height, -1),
            (source_y * 2 / h - 1)[:, :, None].expand(-1, -1, width),
        ],
        -1,
    )
    # Smaller pictures are averaged first, as a good scaler does, or half of the time not, as a fast one does.
    out = functional.grid_sample(pictures.float() / 255, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    outside = (grid.abs() > 1).any(-1)
    fill = uniform(n, 0.2, 0.6, generator)[:, None, None, None]
    out = torch.where(outside[:, None], fill.expand_as(out), out)

    def move(b):
        left, right = (b[..., 0] - shift_x[:, None]) / kx[:, None], (b[..., 2] - shift_x[:, None]) / kx[:, None]
        left, right = torch.where(flip[:, None], width - right, left), torch.where(flip[:, None], width - left, right)
        top, bottom = (b[..., 1] - shift_y[:, None]) / ky[:, None], (b[..., 3] - shift_y[:, None]) / ky[:, None]
        whole = (right - left) * (bottom - top)
        clipped = torch.stack([left.clamp(0, width), top.clamp(0, height), right.clamp(0, width), bottom.clamp(0, height)], -1)
        return clipped, (clipped[..., 2] - clipped[..., 0]) * (clipped[..., 3] - clipped[..., 1]) / whole.clamp(min=1e-3)

    boxes, left_over = move(boxes)
    ignored, _ = move(ignored)
    side = torch.minimum(boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1])
    valid = labels >= 0
    keep = valid & (left_over > 0.4) & (side >= least_side)
    ignored = torch.cat([ignored, torch.where((valid & ~keep)[..., None], boxes, torch.zeros_like(boxes))], 1)
    out, hidden = occlude(out, boxes, generator)
    ignored = torch.cat([ignored, torch.where((keep & hidden)[..., None], boxes, torch.zeros_like(boxes))], 1)
    keep = keep & ~hidden
    out = shade(out, generator)
    return out, {"truth": boxes, "classes": labels.clamp(min=0), "valid": keep, "ignored": ignored}


def occlude(pictures, boxes, generator, most=3):
    """Covers up to `most` places with plain or striped patches; says which boxes are covered by more than 70 %."""
    n, _, height, width = pictures.shape
    x = torch.arange(width, device=pictures.device).float()[None, None, :]
    y = torch.arange(height, device=pictures.device).float()[None, :, None]
    covered = torch.zeros(boxes.shape[:2], dtype=torch.bool, device=pictures.device)
    for _ in range(most):
        used = torch.rand(n, device=pictures.device, generator=generator) < 0.3
        w, h = uniform(n, 6, 70, generator), uniform(n, 6, 90, generator)
        left, top = uniform(n, 0, 1, generator) * (width - w), uniform(n, 0, 1, generator) * (height - h)
        inside = (x >= left[:, None, None]) & (x < (left + w)[:, None, None]) & (y >= top[:, None, None]) & (y < (top + h)[:, None, None])
        inside = inside & used[:, None, None]
        stripes = torch.sin(x * uniform(n, 0.0, 0.8, generator)[:, None, None] + y * uniform(n, 0.0, 0.8, generator)[:, None, None]) * 0.15
        color = torch.rand((n, 3, 1, 1), device=pictures.device, generator=generator) + stripes[:, None]
        pictures = torch.where(inside[:, None], color.clamp(0, 1), pictures)
        both_w = (torch.minimum(boxes[..., 2], (left + w)[:, None]) - torch.maximum(boxes[..., 0], left[:, None])).clamp(min=0)
        both_h = (torch.minimum(boxes[..., 3], (top + h)[:, None]) - torch.maximum(boxes[..., 1], top[:, None])).clamp(min=0)
        area = ((boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])).clamp(min=1e-3)
        covered |= (both_w * both_h / area > 0.7) & used[:, None]
    return pictures, covered


def shade(pictures, generator):
    """Random exposure, contrast, gamma, saturation, tint, blur, grey and noise."""
    n = pictures.shape[0]

    def each(low, high):
        return uniform(n, low, high, generator)[:, None, None, None]

    pictures = pictures.clamp(1e-3, 1).pow(torch.exp(each(-0.45, 0.45)))
    grey = pictures.mean(1, keepdim=True)
    pictures = grey + (pictures - grey) * each(0.3, 1.5)
    middle = pictures.mean((1, 2, 3), keepdim=True)
    pictures = middle + (pictures - middle) * each(0.5, 1.3)
    tint = 1 + (torch.rand((n, 3, 1, 1), device=pictures.device, generator=generator) - 0.5) * 0.3
    pictures = pictures * tint * each(0.6, 1.3)
    drained = torch.rand(n, device=pictures.device, generator=generator) < 0.08
    pictures = torch.where(drained[:, None, None, None], pictures.mean(1, keepdim=True).expand_as(pictures), pictures)
    # A Gaussian of each picture's own width, by two passes of 7 taps.
    sigma = torch.where(
        torch.rand(n, device=pictures.device, generator=generator) < 0.35, uniform(n, 0.3, 1.6, generator), torch.full((n,), 1e-2, device=pictures.device)
    )
    taps = torch.arange(-3, 4, device=pictures.device).float()
    kernel = torch.exp(-(taps[None] ** 2) / (2 * sigma[:, None] ** 2))
    kernel = (kernel / kernel.sum(1, keepdim=True)).repeat_interleave(3, 0)
    flat = pictures.reshape(1, n * 3, *pictures.shape[2:])
    flat = functional.conv2d(functional.pad(flat, (3, 3, 0, 0), mode="replicate"), kernel[:, None, None, :], groups=n * 3)
    flat = functional.conv2d(functional.pad(flat, (0, 0, 3, 3), mode="replicate"), kernel[:, None, :, None], groups=n * 3)
    pictures = flat.reshape(pictures.shape)
    noise = torch.randn(pictures.shape, device=pictures.device, generator=generator)
    return (pictures + noise * each(0.0, 0.05)).clamp(0, 1)
