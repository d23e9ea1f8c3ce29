# SPDX-License-Identifier: Apache-2.0
"""Which cell answers for which object, and how wrong the answers are.

Task-aligned assignment (TOOD, Feng et al. 2021): an object goes to the cells within its box whose score^0.5 * IOU^6 is highest. The score's
target is that value, scaled to the object's best IOU, so that the score tells how good the box is. Boxes are judged by GIoU (Rezatofighi et
al. 2019). Cells within ignored regions are not told that nothing is there.
"""
import torch
from torch.nn import functional

TOP = 10
SCORE_POWER = 0.5
IOU_POWER = 6.0
# A box narrower than this many pixels is taken as that wide when cells are looked for, or small objects would have none.
MIN_SIDE = 10.0


def pairwise_iou(a, b):
    """IOU of `a` `[batch, n, 4]` with `b` `[batch, m, 4]`: `[batch, n, m]`."""
    low = torch.maximum(a[:, :, None, :2], b[:, None, :, :2])
    high = torch.minimum(a[:, :, None, 2:], b[:, None, :, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    area_a = (a[..., 2:] - a[..., :2]).clamp(min=0).prod(-1)[:, :, None]
    area_b = (b[..., 2:] - b[..., :2]).clamp(min=0).prod(-1)[:, None]
    return both / (area_a + area_b - both + 1e-7)


def giou_loss(a, b):
    """1 - GIoU of boxes `[n, 4]`, pair by pair."""
    both = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(-1)
    union = (a[:, 2:] - a[:, :2]).prod(-1) + (b[:, 2:] - b[:, :2]).prod(-1) - both + 1e-7
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(-1) + 1e-7
    return 1 - both / union + (hull - union) / hull


def inside(points, boxes, least=0.0):
    """Whether each of `points` `[cells, 2]` lies in each of `boxes` `[batch, n, 4]`: `[batch, n, cells]`."""
    center = (boxes[..., :2] + boxes[..., 2:]) / 2
    half = ((boxes[..., 2:] - boxes[..., :2]) / 2).clamp(min=least / 2)
    distance = (points[None, None] - center[:, :, None]).abs()
    return (distance < half[:, :, None]).all(-1)


@torch.no_grad()
def assign(scores, boxes, points, truth, classes, valid):
    """Targets for every cell.

    scores `[batch, cells, classes]` 0..1, boxes `[batch, cells, 4]`, truth `[batch, n, 4]`, classes `[batch, n]`, valid `[batch, n]`.
    Returns (object `[batch, cells]` index or -1, target score `[batch, cells]`).
    """
    iou = pairwise_iou(truth, boxes)
    score = scores.transpose(1, 2).gather(1, classes[..., None].expand(-1, -1, boxes.shape[1]))
    fit = score.pow(SCORE_POWER) * iou.pow(IOU_POWER)
    near = inside(points, truth, MIN_SIDE) & valid[..., None]
    fit = torch.where(near, fit + 1e-12, torch.zeros_like(fit))
    best = fit.topk(TOP, dim=2)
    chosen = torch.zeros_like(near).scatter(2, best.indices, best.values > 0)
    # A cell that several objects want goes to the one that it overlaps most.
    wanted = torch.where(chosen, iou + 1e-9, torch.zeros_like(iou))
    overlap, owner = wanted.max(1)
    has_owner = overlap > 0
    chosen = chosen & (torch.arange(truth.shape[1], device=truth.device)[None, :, None] == owner[:, None])
    fit = torch.where(chosen, fit, torch.zeros_like(fit))
    most_fit = fit.amax(2, keepdim=True)
    most_iou = torch.where(chosen, iou, torch.zeros_like(iou)).amax(2, keepdim=True)
    target = (fit / (most_fit + 1e-9) * most_iou).amax(1)
    return torch.where(has_owner, owner, -torch.ones_like(owner)), target


def loss(logits, boxes, points, strides, batch):
    """Total loss of a batch: quality focal loss for scores, GIoU for boxes. `batch` holds truth, classes, valid and ignored `[batch, k, 4]`."""
    scores = logits.sigmoid()
    owner, target = assign(scores.detach(), boxes.detach(), points, batch["truth"], batch["classes"], batch["valid"])
    positive = owner >= 0
    index = owner.clamp(min=0)
    label = batch["classes"].gather(1, index)
    wanted = torch.zeros_like(scores)
    wanted.scatter_(2, label[..., None], torch.where(positive, target, torch.zeros_like(target))[..., None])
    weight = (wanted - scores.detach()).abs().pow(2)
    ignored = inside(points, batch["ignored"]).any(1) & ~positive
    weight = torch.where(ignored[..., None], torch.zeros_like(weight), weight)
    total = target[positive].sum().clamp(min=1.0)
    score_loss = (functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none") * weight).sum() / total
    truth = batch["truth"].gather(1, index[..., None].expand(-1, -1, 4))
    box_loss = (giou_loss(boxes[positive], truth[positive]) * target[positive]).sum() / total
    return score_loss * 2.0 + box_loss * 2.5, score_loss.detach(), box_loss.detach()
