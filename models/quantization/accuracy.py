# SPDX-License-Identifier: Apache-2.0
"""Average precision as COCO defines it (mean over classes and over IOU 0.50, 0.55 … 0.95; 101 recall points; at most 100
detections of a picture), in numpy, and the paired bootstrap over pictures.

Checked against pycocotools 2.0.11 by quantize_test.py; it is not needed at run time. Sizes of objects
(small, medium, large) are not told apart: budgets are about the whole. Suppression is the daemon's own."""
import numpy as np

IOUS = np.linspace(0.5, 0.95, 10)
# Compared to the last bit: 7 of 20 does not reach the point 0.35000000000000003, here as in COCO's own code.
RECALLS = np.linspace(0, 1, 101)
MAX_DETECTIONS = 100


def overlaps(a, b):
    """[len(a), len(b)] intersections and both areas."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.prod(np.clip(high - low, 0, None), 2)
    area_a = np.prod(np.clip(a[:, 2:] - a[:, :2], 0, None), 1)
    area_b = np.prod(np.clip(b[:, 2:] - b[:, :2], 0, None), 1)
    return both, area_a, area_b


def _match(boxes, truth, crowd):
    """Detections of one class in one picture, best first, against its truth: (hit, ignored), each [len(boxes), 10]."""
    hit = np.zeros((len(boxes), len(IOUS)), bool)
    ignored = np.zeros_like(hit)
    both, area, truth_area = overlaps(boxes, truth)
    iou = both / np.maximum(area[:, None] + truth_area[None, :] - both, 1e-12)
    regular = np.flatnonzero(~crowd)
    for level, needed in enumerate(IOUS):
        free = np.ones(len(regular), bool)
        for index in range(len(boxes)):
            if free.any():
                # Of equally good ones COCO's own code takes the last.
                candidates = np.where(free, iou[index, regular], -1.0)
                place = len(candidates) - 1 - int(candidates[::-1].argmax())
                if candidates[place] >= min(needed, 1 - 1e-10):
                    hit[index, level], free[place] = True, False
                    continue
            if crowd.any():
                inside = both[index, crowd] / np.maximum(area[index], 1e-12)
                ignored[index, level] = bool((inside >= needed).any())
    return hit, ignored


class Matches:
    """What one network found in a set of pictures, matched with the truth; gives AP over any weighting of them."""

    def __init__(self, found, pictures, class_count):
        """`found`: for each picture (boxes in source pixels, scores, classes)."""
        self.pictures = len(pictures)
        self.truths = np.zeros((len(pictures), class_count))
        parts = {}
        for index, (picture, (boxes, scores, classes)) in enumerate(zip(pictures, found)):
            np.add.at(self.truths[index], picture.classes[~picture.crowd], 1)
            for name in np.unique(classes):
                chosen, there = classes == name, picture.classes == name
                hit, ignored = _match(boxes[chosen], picture.boxes[there], picture.crowd[there])
                parts.setdefault(int(name), []).append((scores[chosen], np.full(chosen.sum(), index), hit, ignored))
        self.classes = {}
        for name, list_of_parts in parts.items():
            scores, places, hit, ignored = (np.concatenate(part) for part in zip(*list_of_parts))
            order = np.argsort(-scores, kind="stable")
            self.classes[name] = (places[order], hit[order], ignored[order])

    def average_precision(self, weights=None, iou=None):
        """AP for each row of `weights` [rows, pictures] (how often a picture counts), all once by default; 0..1.

        `iou` picks one of the ten overlaps, such as 0 for AP50."""
        once = weights is None
        weights = np.ones((1, self.pictures)) if once else np.asarray(weights, np.float64)
        levels = range(len(IOUS)) if iou is None else [iou]
        positives = weights @ self.truths  # [rows, classes]
        total = np.zeros(len(weights))
        for name, (places, hit, ignored) in self.classes.items():
            there = positives[:, name] > 0
            if not there.any():
                continue
            weight = weights[there][:, places]
            needed = positives[there, name][:, None]
            for level in levels:
                counted = weight * ~ignored[:, level]
                true = np.cumsum(counted * hit[:, level], 1)
                seen = np.cumsum(counted, 1)
                precision = true / np.maximum(seen, 1e-12)
                envelope = np.maximum.accumulate(precision[:, ::-1], 1)[:, ::-1]
                # Each of the recall points 0, 0.01 … 1 belongs to the first detection that reaches it.
                reached = np.searchsorted(RECALLS, true / needed, side="right")
                reached[seen == 0] = 0
                points = np.diff(reached, axis=1, prepend=0)
                total[there] += (envelope * points).sum(1) / 101 / len(levels)
        result = total / np.maximum((positives > 0).sum(1), 1)
        return float(result[0]) if once else result


def interval(reference, other, rounds, seed):
    """Paired bootstrap over pictures: (low, high) of AP(other) - AP(reference), the middle 95 %."""
    rng = np.random.default_rng(seed)
    differences = []
    for start in range(0, rounds, 100):
        count = min(100, rounds - start)
        weights = rng.multinomial(reference.pictures, np.full(reference.pictures, 1 / reference.pictures), count)
        differences.append(other.average_precision(weights) - reference.average_precision(weights))
    low, high = np.percentile(np.concatenate(differences), [2.5, 97.5])
    return float(low), float(high)
