#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""COCO's own evaluation of detections, for tests/detection/accuracy.rs and for checks of `jetwatch eval`.

    accuracy.py judge ANNOTATIONS.json DETECTIONS.json [THRESHOLD]   print the numbers as JSON
    accuracy.py golden FILE.json                                     write the golden case again
    accuracy.py random SEED ANNOTATIONS.json DETECTIONS.json         write a random case

Needs pycocotools and numpy (pip install pycocotools).
"""

import contextlib
import copy
import io
import json
import random
import sys

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

NAMES = [
    "ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large",
    "ar_1", "ar_10", "ar_100", "ar_small", "ar_medium", "ar_large",
]


def known(value):
    """A number, or None for the -1 by which pycocotools marks missing values."""
    return None if value < 0 else float(value)


def judge(truth, detections, threshold):
    """All numbers of `detections` (COCO results) against `truth` (COCO annotations)."""
    with contextlib.redirect_stdout(io.StringIO()):
        annotations = COCO()
        # It writes into what it is given.
        annotations.dataset = copy.deepcopy(truth)
        annotations.createIndex()
        results = annotations.loadRes(copy.deepcopy(detections))
        run = COCOeval(annotations, results, "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    numbers = {name: known(value) for name, value in zip(NAMES, run.stats)}
    # Axes: overlap, recall, class, size, most detections.
    precision = run.eval["precision"]
    classes = []
    images = len(run.params.imgIds)
    for place, category in enumerate(run.params.catIds):
        of_class = precision[:, :, place, 0, 2]
        right = wrong = objects = 0
        for image in range(images):
            # Evaluated images are ordered by class, size and image; size 0 is all of them.
            one = run.evalImgs[(place * len(run.params.areaRng)) * images + image]
            if one is None:
                continue
            objects += int(np.sum(np.asarray(one["gtIgnore"]) == 0))
            scores = np.asarray(one["dtScores"])
            matched = np.asarray(one["dtMatches"])[0]
            ignored = np.asarray(one["dtIgnore"])[0].astype(bool)
            for score, match, ignore in zip(scores, matched, ignored):
                if score >= threshold and not ignore:
                    right += int(match > 0)
                    wrong += int(match == 0)
        ap, ap50 = of_class, of_class[0]
        classes.append({
            "category_id": int(category),
            "ap": known(ap[ap > -1].mean()) if (ap > -1).any() else None,
            "ap50": known(ap50[ap50 > -1].mean()) if (ap50 > -1).any() else None,
            "right": right,
            "wrong": wrong,
            "missed": objects - right,
        })
    numbers["classes"] = classes
    return numbers


def random_case(seed, images=40, categories=12):
    """Objects and more or less wrong detections of them; with crowds, empty pictures, equal scores, unused classes."""
    dice = random.Random(seed)
    truth = {"images": [], "categories": [], "annotations": []}
    detections = []
    # Ids with gaps and out of order, as real files have them.
    image_ids = dice.sample(range(1, 1000), images)
    category_ids = dice.sample(range(1, 100), categories)
    for category in category_ids:
        truth["categories"].append({"id": category, "name": f"class {category}"})
    for number, image in enumerate(image_ids):
        width, height = dice.choice([(640, 480), (320, 240), (1280, 720)])
        truth["images"].append({"id": image, "file_name": f"{image}.jpg", "width": width, "height": height})
        # Some pictures show nothing; the last class is never annotated, the one before is never found.
        for _ in range(0 if number % 7 == 0 else dice.randint(1, 8)):
            category = dice.choice(category_ids[:-1])
            side = dice.choice([12, 40, 150])
            w, h = (round(dice.uniform(0.5, 1.5) * side, 1) for _ in range(2))
            x, y = round(dice.uniform(0, width - w / 2), 1), round(dice.uniform(0, height - h / 2), 1)
            truth["annotations"].append({
                "id": len(truth["annotations"]) + 1,
                "image_id": image,
                "category_id": category,
                "bbox": [x, y, w, h],
                # An outline covers a part of its box.
                "area": round(w * h * dice.uniform(0.5, 1), 2),
                "iscrowd": int(dice.random() < 0.12),
            })
            for _ in range(0 if category == category_ids[-2] else dice.choice([0, 1, 1, 2, 3])):
                blur = dice.choice([0, 0.03, 0.1, 0.3])
                moved = [
                    round(v + dice.uniform(-blur, blur) * s, 1)
                    for v, s in zip([x, y, w, h], [w, h, w, h])
                ]
                detections.append({
                    "image_id": image,
                    "category_id": category if dice.random() < 0.9 else dice.choice(category_ids),
                    "bbox": moved,
                    "score": round(dice.random(), 2),
                })
        for _ in range(dice.randint(0, 4)):
            w, h = dice.uniform(5, 200), dice.uniform(5, 200)
            detections.append({
                "image_id": image,
                "category_id": dice.choice(category_ids),
                "bbox": [round(v, 1) for v in (dice.uniform(0, width), dice.uniform(0, height), w, h)],
                "score": round(dice.random() * 0.7, 2),
            })
    # More than a hundred of one class in one picture, best last.
    for number in range(130):
        detections.append({
            "image_id": image_ids[1],
            "category_id": category_ids[0],
            "bbox": [number, number, 20, 20],
            "score": round(0.001 * number, 3),
        })
    return truth, detections


def write(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, separators=(",", ":"))
        file.write("\n")


def main(arguments):
    match arguments:
        case ["judge", truth, detections, *threshold]:
            with open(truth, encoding="utf-8") as file:
                truth = json.load(file)
            with open(detections, encoding="utf-8") as file:
                detections = json.load(file)
            json.dump(judge(truth, detections, float((threshold or [0.5])[0])), sys.stdout)
        case ["golden", path]:
            truth, detections = random_case(seed=20)
            expected = judge(truth, detections, 0.5)
            write(path, {"truth": truth, "detections": detections, "expected": expected})
        case ["random", seed, truth_path, detections_path]:
            truth, detections = random_case(int(seed), images=150, categories=20)
            write(truth_path, truth)
            write(detections_path, detections)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
