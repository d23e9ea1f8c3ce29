# SPDX-License-Identifier: Apache-2.0
"""Detections of a set and their average precision, while training. `jetwatch eval` gives the figures that count."""
import numpy
import torch
import torchvision

from network import flatten

THRESHOLDS = numpy.arange(0.5, 1.0, 0.05)


@torch.no_grad()
def detect(network, pictures, size, points, strides, least=0.02, overlap=0.6, most=100):
    """Detections of each of `pictures` `[n, 3, h, w]` bytes, stretched to `size`: boxes in pixels of `size`, scores, classes."""
    results = []
    for start in range(0, len(pictures), 64):
        part = pictures[start : start + 64].float() / 255
        part = torch.nn.functional.interpolate(part, size=(size[1], size[0]), mode="bilinear", antialias=True, align_corners=False)
        scores, boxes = flatten(*network(part.contiguous(memory_format=torch.channels_last)), points, strides)
        for score, box in zip(scores.float(), boxes.float()):
            cell, label = torch.nonzero(score > least, as_tuple=True)
            value = score[cell, label]
            kept = torchvision.ops.batched_nms(box[cell], value, label, overlap)[:most]
            results.append((box[cell][kept].cpu().numpy(), value[kept].cpu().numpy(), label[kept].cpu().numpy()))
    return results


def iou(a, b):
    """IOU of boxes `[n, 4]` with `[m, 4]`, and the share of each of `a` that lies in each of `b`."""
    both = (numpy.minimum(a[:, None, 2:], b[None, :, 2:]) - numpy.maximum(a[:, None, :2], b[None, :, :2])).clip(0).prod(-1)
    area_a, area_b = (a[:, 2:] - a[:, :2]).prod(-1), (b[:, 2:] - b[:, :2]).prod(-1)
    return both / (area_a[:, None] + area_b[None] - both + 1e-9), both / (area_a[:, None] + 1e-9)


def average_precision(detections, boxes, labels, ignored, classes):
    """AP for IOUs of 0.5 to 0.95 per class, `[classes, 10]`, by COCO's protocol (101 recall points); boxes and labels as in data.Set."""
    result = numpy.full((classes, len(THRESHOLDS)), numpy.nan)
    for label in range(classes):
        scores, hits, count = [], [], 0
        for (found, value, kind), box, own, region in zip(detections, boxes, labels, ignored):
            truth = box[own == label]
            region = region[(region[:, 2:] > region[:, :2]).all(1)]
            count += len(truth)
            chosen = kind == label
            found, value = found[chosen], value[chosen]
            overlap = iou(found, truth)[0] if len(truth) else numpy.zeros((len(found), 0))
            in_region = iou(found, region)[1] if len(region) else numpy.zeros((len(found), 0))
            for k, limit in enumerate(THRESHOLDS):
                free = numpy.ones(len(truth), bool)
                for i in numpy.argsort(-value, kind="stable"):
                    candidates = numpy.where(free, overlap[i], -1)
                    j = candidates.argmax() if len(truth) else -1
                    hit = len(truth) and candidates[j] >= limit
                    if hit:
                        free[j] = False
                    elif (in_region[i] >= limit).any():
                        continue
                    scores.append((k, value[i]))
                    hits.append(hit)
        if not count:
            continue
        table, hits = numpy.array(scores).reshape(-1, 2), numpy.array(hits, bool)
        for k in range(len(THRESHOLDS)):
            chosen = table[:, 0] == k
            order = numpy.argsort(-table[chosen, 1], kind="stable")
            right = numpy.cumsum(hits[chosen][order])
            precision = right / numpy.arange(1, len(right) + 1)
            precision = numpy.maximum.accumulate(precision[::-1])[::-1]
            place = numpy.searchsorted(right / count, numpy.linspace(0, 1, 101))
            result[label, k] = numpy.append(precision, 0)[numpy.minimum(place, len(precision))].mean()
    return result


def score(network, data, size, points, strides):
    """(AP, AP50, AP per class) of `network` on a data.Set."""
    network.eval()
    detections = detect(network, data.pictures, size, points, strides)
    k = numpy.array([data.pictures.shape[3] / size[0], data.pictures.shape[2] / size[1]] * 2)
    detections = [(boxes * k, value, label) for boxes, value, label in detections]
    arrays = [tensor.cpu().numpy() for tensor in (data.boxes, data.labels, data.ignored)]
    table = average_precision(detections, *arrays, network.levels[0].score[-1].out_channels)
    return float(numpy.nanmean(table)), float(numpy.nanmean(table[:, 0])), table.mean(1)
