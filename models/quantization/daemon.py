# SPDX-License-Identifier: Apache-2.0
"""The daemon's own image processing and decoders, from the `jetwatch` binary: there is no second copy of them here.

`jetwatch model decode` serves a whole search in one process; src/tools/models/decode_session.rs describes its protocol.
`jetwatch model preprocess` writes pictures as input tensors."""
import json
import os
import shutil
import subprocess
import threading

import numpy as np

from .spec import Mistake, Spec

PROTOCOL = 1
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# One box: its place in the output (the largest number for detections), class, score, corners.
RECORD = np.dtype([("cell", "<u4"), ("class", "<u4"), ("score", "<f4"), ("box", "<f4", 4)])
ELEMENTS = {"float32": "<f4", "int32": "<i4", "int64": "<i8"}


def find(given=None):
    """Path of the binary: `given`, JETWATCH of the environment, PATH, or this checkout's build, newest first."""
    for named, where in ((given, "--jetwatch"), (os.environ.get("JETWATCH"), "JETWATCH of the environment")):
        if named:
            if os.path.isfile(named) and os.access(named, os.X_OK):
                return os.path.abspath(named)
            raise Mistake(f"{where} is {named}, which is no program: expected the path of the jetwatch binary")
    installed = shutil.which("jetwatch")
    if installed:
        return installed
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    built = [os.path.join(target, profile, "jetwatch") for profile in ("release", "debug")]
    built = sorted(filter(os.path.isfile, built), key=os.path.getmtime)
    if built:
        return built[-1]
    raise Mistake(
        "found no jetwatch binary, whose decoders measure the accuracy: install the package, build it here with "
        "`make program`, or name it with --jetwatch or JETWATCH"
    )


class Daemon:
    """One model folder as the daemon reads it. A context manager: it ends the process."""

    def __init__(self, folder, binary=None):
        self.folder, self.binary, self.lock = folder, find(binary), threading.Lock()
        try:
            self.process = subprocess.Popen(
                [self.binary, "model", "decode", "--model", folder],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise Mistake(f"cannot start {self.binary}: {error.strerror}") from error
        greeting = self._line()
        if greeting.get("protocol") != PROTOCOL:
            raise Mistake(f"{self.binary} speaks protocol {greeting.get('protocol')}, expected {PROTOCOL}: use the jetwatch of this version")
        self.spec = Spec.of(folder, greeting)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            said = self.process.stderr.read().decode(errors="replace").strip()
            self.process.wait()
            hint = "; its version is older than this tool's" if "unrecognized subcommand" in said else ""
            raise Mistake(f"{self.binary} model decode: {said.splitlines()[0] if said else 'it ended'}{hint}")
        return json.loads(line)

    def decode(self, values, size, threshold, iou, most, candidates):
        """Boxes of one picture as an array of RECORD with the reply's header. `values`: the outputs in the order of
        the spec, with their batch axis; `size`: (width, height) of the picture."""
        values = [np.ascontiguousarray(value) for value in values]
        for value, name in zip(values, self.spec.outputs):
            if value.dtype.name not in ELEMENTS:
                raise Mistake(f"{self.spec.path}: output {name} is {value.dtype.name}, expected {', '.join(ELEMENTS)}")
        header = {
            "image": [int(side) for side in size],
            "tensors": [{"element": value.dtype.name, "shape": list(value.shape)} for value in values],
            "score_threshold": float(threshold),
            "nms_iou": float(iou),
            "max_detections": int(most),
            "candidates": bool(candidates),
        }
        with self.lock:
            try:
                self.process.stdin.write(json.dumps(header).encode() + b"\n")
                for value in values:
                    self.process.stdin.write(value.astype(ELEMENTS[value.dtype.name], copy=False).data)
                self.process.stdin.flush()
            except BrokenPipeError:
                pass  # What the process says of it comes with the reply.
            reply = self._line()
            if "error" in reply:
                raise Mistake(f"{self.spec.path}: {reply['error']}")
            data = self.process.stdout.read(reply["count"] * RECORD.itemsize)
        return np.frombuffer(data, RECORD), reply

    def preprocess(self, paths, out):
        """Writes the input tensors of the pictures `paths` to the file `out`: (array [n, 3, height, width], for each picture
        its (width, height), or the reason as text why it cannot be read)."""
        run = subprocess.run(
            [self.binary, "model", "preprocess", "--model", self.folder, "--list", "-", "--out", out],
            input="\n".join(paths) + "\n", capture_output=True, text=True, check=False,
        )
        if run.returncode:
            raise Mistake(f"{self.binary} model preprocess: {run.stderr.strip() or run.returncode}")
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        sizes = [line["error"] if "error" in line else (line["width"], line["height"]) for line in lines]
        return np.load(out, mmap_mode="r"), sizes
