#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains street-nano. `models/train/run` does everything around it: draws the scenes, labels the videos, exports.

    train.py --scenes DIR --check DIR [--frames DIR …] --out DIR [--minutes 7] [--seed 1]

Takes one NVIDIA GPU; the same seed and the same machine give nearly the same weights (GPU sums are not in a fixed order). A checkpoint is written
every minute to OUT/checkpoint.pt; started again with the same --out, training goes on from there. The end is a number of steps, not a time: --minutes only says when to stop
early and leave the rest to a later start.
"""
import argparse
import copy
import json
import math
import pathlib
import time

import numpy
import torch

from data import Set, augment
from loss import loss
from network import CLASSES, INPUT, StreetNano, centers, flatten
from score import score

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--scenes", required=True, type=pathlib.Path, help="folder written by `jetwatch dataset`")
arguments.add_argument("--check", required=True, type=pathlib.Path, help="other scenes, only looked at")
arguments.add_argument("--frames", action="append", default=[], type=pathlib.Path, help="folder written by label_video.py")
arguments.add_argument("--frames-check", type=pathlib.Path, help="frames that are only looked at")
arguments.add_argument("--frames-share", type=float, default=0.25, help="share of each batch that is video frames")
arguments.add_argument("--out", required=True, type=pathlib.Path)
arguments.add_argument("--steps", type=int, default=12000)
arguments.add_argument("--batch", type=int, default=96)
arguments.add_argument("--rate", type=float, default=2.5e-3, help="highest learning rate (AdamW)")
arguments.add_argument("--decay", type=float, default=0.03, help="weight decay")
arguments.add_argument("--minutes", type=float, default=1e9)
arguments.add_argument("--seed", type=int, default=1)
arguments.add_argument("--device", default="cuda")
arguments.add_argument("--picture-size", default="704x396", help="pictures are kept at this size")
a = arguments.parse_args()

started = time.monotonic()
device = torch.device(a.device)
a.out.mkdir(parents=True, exist_ok=True)
torch.manual_seed(a.seed)
torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
kept_size = tuple(int(side) for side in a.picture_size.split("x"))
scenes = Set(a.scenes, CLASSES, kept_size, device)
check = Set(a.check, CLASSES, kept_size, device)
frames = [Set(folder, CLASSES, kept_size, device) for folder in a.frames]
frames_check = a.frames_check and Set(a.frames_check, CLASSES, kept_size, device)
print(f"{len(scenes)} scenes, {[len(part) for part in frames]} frames read in {time.monotonic() - started:.0f} s", flush=True)

network = StreetNano().to(device, memory_format=torch.channels_last)
average = copy.deepcopy(network).eval()
decayed = [p for p in network.parameters() if p.ndim > 1]
plain = [p for p in network.parameters() if p.ndim <= 1]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": a.decay}, {"params": plain, "weight_decay": 0.0}], lr=a.rate)
points, strides = centers(*INPUT, device)
checkpoint = a.out / "checkpoint.pt"
step = 0
if checkpoint.exists():
    state = torch.load(checkpoint, map_location=device, weights_only=True)
    for part, name in ((network, "network"), (average, "average"), (optimizer, "optimizer")):
        part.load_state_dict(state[name])
    step = state["step"]
    print(f"going on from step {step}", flush=True)
generator = torch.Generator(device=device)


def save():
    state = {"network": network.state_dict(), "average": average.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, checkpoint.with_suffix(".part"))
    checkpoint.with_suffix(".part").replace(checkpoint)


def batch():
    """Pictures and truth of one step; the same for the same step and seed."""
    generator.manual_seed(a.seed * 1_000_003 + step)
    of_frames = round(a.batch * a.frames_share) if frames else 0
    share = of_frames // max(1, len(frames))
    parts = [(scenes, a.batch - share * len(frames), (0.6, 1.9))] + [(part, share, (0.7, 2.2)) for part in frames]
    made = []
    for part, count, zoom in parts:
        index = torch.randint(len(part), (count,), device=device, generator=generator)
        made.append(augment(*part.pick(index), INPUT, generator, zoom=zoom))
    truth = {key: torch.cat([m[1][key] for m in made]) for key in made[0][1]}
    return torch.cat([m[0] for m in made]).contiguous(memory_format=torch.channels_last), truth


def rate(step):
    warm = min(1.0, (step + 1) / 500)
    return a.rate * warm * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / a.steps)))


@torch.compile(disable=device.type != "cuda")
def forward(pictures):
    return flatten(*network(pictures), points, strides)


def train_step():
    for group in optimizer.param_groups:
        group["lr"] = rate(step)
    pictures, truth = batch()
    network.train()
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        logits, boxes = forward(pictures)
    total, score_loss, box_loss = loss(logits.float(), boxes.float(), points, strides, truth)
    optimizer.zero_grad(set_to_none=True)
    total.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
    optimizer.step()
    keep = min(0.9995, (step + 1) / (step + 20))
    with torch.no_grad():
        own, new = average.state_dict(), network.state_dict()
        floats = [name for name in own if own[name].is_floating_point()]
        torch._foreach_lerp_([own[name] for name in floats], [new[name] for name in floats], 1 - keep)
    return score_loss, box_loss


saved = looked = time.monotonic()
begun, first = time.monotonic(), step
history = []
while step < a.steps and time.monotonic() - started < a.minutes * 60:
    parts = train_step()
    step += 1
    if step % 200 == 0:
        values = [float(part) for part in parts]
        speed = (step - first) / (time.monotonic() - begun)
        print(f"step {step}/{a.steps} score {values[0]:.3f} box {values[1]:.3f} rate {rate(step):.5f} {speed:.1f} steps/s", flush=True)
    if time.monotonic() - saved > 60:
        save()
        saved = time.monotonic()
    if step % 2000 == 0:
        history.append((step, *score(average, check, INPUT, points, strides)[:2]))
        print(f"step {step} scenes AP {history[-1][1]:.3f} AP50 {history[-1][2]:.3f}", flush=True)
save()
result = {"steps": step, "of": a.steps, "seed": a.seed, "seconds": time.monotonic() - started, "history": history}
for name, data in (("scenes", check), ("frames", frames_check)):
    if data:
        ap, ap50, classes = score(average, data, INPUT, points, strides)
        result[name] = {"AP": ap, "AP50": ap50, "AP of classes": dict(zip(CLASSES, map(float, numpy.nan_to_num(classes, nan=-1))))}
torch.save({name: tensor.cpu() for name, tensor in average.state_dict().items()}, a.out / "weights.pt")
(a.out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
print(json.dumps(result))
if step < a.steps:
    raise SystemExit(f"stopped by --minutes at step {step} of {a.steps}; start again to go on")
