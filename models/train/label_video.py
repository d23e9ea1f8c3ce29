#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frames of a video with boxes made by a YOLOX network, as a set for train.py.

    label_video.py --video FILE --teacher yolox_nano.onnx --out DIR --classes person=person vehicle=car,bus,truck [--from 0.0 --to 0.66] [--every 3]

Boxes with a score of at least --sure are labels; those between --unsure and --sure become regions that are neither asked for nor counted as wrong. A teacher that knows
little of a video (cars seen from straight above) would teach that nothing is there: --only-sure leaves those frames out.
"""
import argparse
import json
import pathlib

import cv2
import numpy
import onnxruntime

COCO = (
    "person bicycle car motorcycle airplane bus train truck boat".split()
)  # The classes that a street can need; the teacher's others are not asked for.
SIZE = 416

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--video", required=True)
arguments.add_argument("--teacher", required=True)
arguments.add_argument("--out", required=True, type=pathlib.Path)
arguments.add_argument("--classes", nargs="+", required=True, help="NAME=LABEL,… with labels of COCO")
arguments.add_argument("--from", dest="start", type=float, default=0.0, help="share of the video at which to begin")
arguments.add_argument("--to", dest="end", type=float, default=1.0)
arguments.add_argument("--every", type=int, default=3, help="take every n-th frame")
arguments.add_argument("--sure", type=float, default=0.45)
arguments.add_argument("--unsure", type=float, default=0.12)
arguments.add_argument("--only-sure", action="store_true", help="leave out frames without a sure box")
arguments.add_argument("--size", default="704x396")
a = arguments.parse_args()

names = [part.split("=")[0] for part in a.classes]
category = {COCO.index(label): index for index, part in enumerate(a.classes) for label in part.split("=")[1].split(",")}
session = onnxruntime.InferenceSession(a.teacher, providers=["CPUExecutionProvider"])
grid = numpy.concatenate(
    [numpy.stack([*numpy.meshgrid(range(SIZE // s), range(SIZE // s)), numpy.full((SIZE // s, SIZE // s), s)], -1).reshape(-1, 3) for s in (8, 16, 32)]
).astype(numpy.float32)


def boxes_of(picture):
    """Boxes `[n, 4]` as x, y, width, height in pixels, scores and categories, after suppression per category."""
    height, width = picture.shape[:2]
    ratio = min(SIZE / width, SIZE / height)
    inner = cv2.resize(picture, (round(width * ratio), round(height * ratio)), interpolation=cv2.INTER_AREA)
    tensor = numpy.full((SIZE, SIZE, 3), 114, numpy.float32)
    tensor[: inner.shape[0], : inner.shape[1]] = inner
    (rows,) = session.run(None, {session.get_inputs()[0].name: tensor.transpose(2, 0, 1)[None]})
    rows = rows[0]
    center, size = (rows[:, :2] + grid[:, :2]) * grid[:, 2:], numpy.exp(rows[:, 2:4]) * grid[:, 2:]
    label = rows[:, 5:].argmax(1)
    score = rows[:, 4] * rows[:, 5:].max(1)
    keep = (score >= a.unsure) & numpy.isin(label, list(category))
    boxes = numpy.concatenate([center - size / 2, size], 1)[keep] / ratio
    kind = numpy.array([category[one] for one in label[keep]], int)
    chosen = cv2.dnn.NMSBoxesBatched(boxes.tolist(), score[keep].tolist(), kind.tolist(), a.unsure, 0.5) if len(boxes) else []
    chosen = numpy.array(chosen, int).reshape(-1)
    return boxes[chosen], score[keep][chosen], kind[chosen]


width, height = (int(side) for side in a.size.split("x"))
(a.out / "images").mkdir(parents=True, exist_ok=True)
capture = cv2.VideoCapture(a.video)
total = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
first, last = int(total * a.start), int(total * a.end)
images, annotations = [], []
for index in range(last):
    ok, picture = capture.read()
    if not ok:
        break
    if index < first or (index - first) % a.every:
        continue
    boxes, scores, kinds = boxes_of(picture)
    if a.only_sure and not (scores >= a.sure).any():
        continue
    name = f"{index:06}.jpg"
    cv2.imwrite(str(a.out / "images" / name), cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), [cv2.IMWRITE_JPEG_QUALITY, 92])
    images.append({"id": index + 1, "file_name": name, "width": width, "height": height})
    kx, ky = width / picture.shape[1], height / picture.shape[0]
    for (x, y, w, h), score, kind in zip(boxes, scores, kinds):
        left, top, right, bottom = max(0, x), max(0, y), min(picture.shape[1], x + w), min(picture.shape[0], y + h)
        box = [float(left * kx), float(top * ky), float((right - left) * kx), float((bottom - top) * ky)]
        annotations.append(
            {"id": len(annotations) + 1, "image_id": index + 1, "category_id": int(kind) + 1, "bbox": box, "area": box[2] * box[3],
             "iscrowd": int(score < a.sure), "score": float(score)}
        )
if not images:
    raise SystemExit(f"{a.video}: no frame could be read between {a.start} and {a.end} of its length")
document = {"images": images, "annotations": annotations, "categories": [{"id": i + 1, "name": name} for i, name in enumerate(names)]}
(a.out / "annotations.json").write_text(json.dumps(document))
print(f"{a.video}: {len(images)} frames, {sum(not one['iscrowd'] for one in annotations)} boxes, {sum(one['iscrowd'] for one in annotations)} unsure")
