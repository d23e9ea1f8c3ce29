#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the inputs that fuzzing starts from, tests/fuzz/seeds, and the words in tests/fuzz/parsers.dict.

Run it again when a format or the way in which a target reads its bytes has changed: `tests/fuzz/seed.py`. Parsers start from
the files of this repository. For the decoders it is enough that every layout occurs: the bytes of a seed are choices,
whose meaning is defined in fuzz_targets/drawn.rs, so a seed is the number of a layout among noise that never changes.
"""

import json
import random
import sqlite3
import struct
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LAYOUTS = 19
# What the target `layouts` reads before the number of the layout: three shares, which are 0.3 when their byte is 0, then
# the most detections, two sides, the placement, the filter (two bytes) and the classes.
SHARES = bytes(3)
CHOICES_BEFORE_LAYOUT = 7


def varint(number):
    """A whole number as protobuf writes it."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, value):
    """A field of a protobuf message: a number, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor_info(name, element, axes):
    """ONNX's ValueInfoProto; an axis that is a text is a name."""
    dims = b"".join(field(1, field(2 if isinstance(axis, str) else 1, axis)) for axis in axes)
    tensor = field(1, field(1, element) + field(2, dims))
    return field(1, name) + field(2, tensor)


def onnx(inputs, outputs, notes=()):
    """An ONNX file with one operator and these tensors."""
    node = field(1, inputs[0][0]) + field(2, outputs[0][0]) + field(3, "only") + field(4, "Conv")
    weights = field(1, 2) + field(1, 2) + field(2, 1) + field(8, "weights") + field(9, bytes(16))
    graph = field(1, node) + field(2, "drawn") + field(5, weights)
    graph += b"".join(field(11, tensor_info(*tensor)) for tensor in inputs)
    graph += b"".join(field(12, tensor_info(*tensor)) for tensor in outputs)
    noted = b"".join(field(14, field(1, key) + field(2, value)) for key, value in notes)
    return field(1, 8) + field(2, "pytorch") + field(7, graph) + field(8, field(2, 17)) + noted


def networks():
    """Small files of several families, by name."""
    picture = ("images", 1, (1, 3, 64, 96))
    names = [("names", "{0: 'person', 1: 'car'}"), ("stride", "32"), ("license", "AGPL-3.0")]
    return {
        "yolov8": onnx([picture], [("output0", 1, (1, 6, 126))], names),
        "yolox": onnx([picture], [("output", 1, ("batch", 126, 85))]),
        "ranked": onnx(
            [picture, ("orig_target_sizes", 7, (1, 2))],
            [("labels", 7, (1, 300)), ("boxes", 1, (1, 300, 4)), ("scores", 1, (1, 300))],
        ),
        "plugin": onnx(
            [picture],
            [("num", 6, (1, 1)), ("boxes", 1, (1, 100, 4)), ("scores", 1, (1, 100)), ("classes", 6, (1, 100))],
        ),
        "fcos": onnx(
            [picture],
            [(f"cls_{s}", 1, (1, 80, 64 // s, 96 // s)) for s in (8, 16, 32)]
            + [(f"box_{s}", 1, (1, 4, 64 // s, 96 // s)) for s in (8, 16, 32)],
        ),
        "ssd": onnx([picture], [("boxes", 1, (1, 3000, 4)), ("scores", 1, (1, 3000, 21))]),
    }


def descriptions():
    """Texts of model.yaml by name: those of the models, and one for each kind of output."""
    texts = {path.stem: path.read_text() for path in sorted((ROOT / "models/catalogue").glob("*.yaml"))}
    texts |= {path.parent.name: path.read_text() for path in sorted((ROOT / "models").glob("*/model.yaml"))}
    outputs = {
        "grids": "{layout: yolov4, tensors: {grids: [a, b, c]}, scale_x_y: [1.2, 1.1, 1.05],\n"
        "  anchors: [[12, 16, 19, 36], [36, 75, 76, 55], [142, 110, 192, 243]]}",
        "fcos": "{layout: fcos, tensors: {scores: [a, b], boxes: [c, d], centerness: [e, f]}}",
        "detr": "{layout: detr, tensors: {scores: a, boxes: b}, activation: none}",
        "plugin": "{layout: finished, tensors: {boxes: b, scores: c, classes: d, count: a}, boxes_are: pixels}",
        "picodet": "{layout: picodet, tensors: {scores: [a, b], boxes: [c, d]}, reg_max: 7}",
        "tao": "{layout: detectnet_v2, tensors: {scores: a, boxes: b}, box_norm: 35.0, offset: 0.5}",
        "ssd": "{layout: ssd, tensors: {boxes: a, scores: b}, background: last, activation: softmax,\n"
        "  variances: [0.1, 0.1, 0.2, 0.2], feature_maps: [38, [19, 10], 5], scales: [0.1, 0.2, 0.4, 0.9],\n"
        "  aspect_ratios: [[2], [2, 3], []], steps: [0.1, 0.2, 0.5], clip_anchors: true}",
        "anchors": "{layout: ssd, tensors: {boxes: a, scores: b}, activation: sigmoid, anchors_file: anchors.txt}",
    }
    for name, output in outputs.items():
        texts[name] = (
            "name: tiny\n"
            "input: {name: images, width: 96, height: 64, color: rgb, mean: [1, 2.5, 3], scale: 0.017,\n"
            "  letterbox: {value: 114, placement: center}}\n"
            f"output: {output}\n"
            "labels: [person, car]\ncovers: {car: [bus, truck]}\nscore_threshold: 0.25\nmax_detections: 50\n"
            "license: {spdx: Apache-2.0, source: here}\n"
            f"files: {{fp32: {{file: tiny.onnx, sha256: {'b' * 64}}}}}\n"
        )
    # Behind the zero byte stands the text of the files that are named.
    texts["anchors"] += "\0# one\n0.5 0.5 0.1 0.2\n\n0.25 0.75 1.5e-1 +.3\n"
    texts["labels_file"] = texts["detr"].replace("labels: [person, car]", "labels_file: names") + "\0person\ncar\n"
    return texts


def annotations():
    """A small file of annotations."""
    return json.dumps(
        {
            "info": {"year": 2017},
            "images": [{"id": 7, "file_name": "a/b.jpg", "width": 640, "height": 480}],
            "categories": [{"id": 1, "name": "person"}, {"id": 3, "name": "car"}],
            "annotations": [
                {"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 2.5, 30, 4e1], "area": 1200.5, "iscrowd": 0},
                {"id": 2, "image_id": 7, "category_id": 1, "bbox": [0, 0, 1, 1], "area": 1, "iscrowd": True},
            ],
        }
    )


def record(number, kind, topic, payload):
    """A message in a segment of the spool."""
    body = struct.pack("<QQQBBH", number, 1_700_000_000_000 + number, number % 3, kind, 0, len(topic)) + topic + payload
    return struct.pack("<II", len(body), zlib.crc32(body)) + body


def segment(first, records, is_complete):
    """A segment; a complete one ends with its summary: times, bytes of dispensable records, and the records of each class."""
    head = struct.pack("<8sIIQQ", b"JWSPOOL\0", 1, 0, 9, first)
    file = head + struct.pack("<II", zlib.crc32(head), 0) + b"".join(records)
    if is_complete:
        last = first + len(records) - 1
        counts = [sum(entry[32] == kind for entry in records) for kind in range(5)]
        summary = struct.pack("<QQQ5Q", 1_700_000_000_000 + first, 1_700_000_000_000 + last, 0, *counts)
        file += record(last, 255, b"", summary)
    return file


def cursor(acked, gap):
    """A slot of the file with what is acknowledged."""
    numbers = (3, 9, acked, 8, *((9, 2, 3, 1, 1) if gap else (0,) * 5))
    slot = struct.pack("<8sIBBH9Q", b"JWCURSOR", 1, 0, gap, 0, *numbers).ljust(100, b"\0")
    return slot + struct.pack("<I", zlib.crc32(slot))


def spools():
    """Folders of the spool as the target reads them: flags, then cursor and first segment with their lengths, then the second."""
    messages = [record(number, number % 5, b"jetwatch/box/cam/events", b'{"id":%d}' % number) for number in range(1, 9)]
    first, second = segment(1, messages[:4], True), segment(5, messages[4:], False)
    slots = cursor(2, 1) + cursor(1, 0)

    def folder(flags, cursor_bytes, one, two):
        return bytes([flags]) + struct.pack("<H", len(cursor_bytes)) + cursor_bytes + struct.pack("<H", len(one)) + one + two

    return {
        "whole": folder(0, slots, first, second),
        "torn": folder(1, slots, first, second[:-7]),
        "damaged": folder(1, b"", first[:80] + b"\xff" + first[81:], second),
        "empty": folder(0, b"", b"", b""),
    }


def packets():
    """What a broker sends, behind a byte that chooses the protocol: 0 is MQTT 5.0, 1 is 3.1.1."""
    def packet(kind, body):
        return bytes([kind]) + varint(len(body)) + body

    def text(value):
        return struct.pack(">H", len(value)) + value

    accepted = packet(0x20, b"\0\0" + varint(5) + b"\x21\0\x14" + b"\x24\x01")
    message = packet(0x32, text(b"jetwatch/box/command") + b"\0\x07" + varint(3) + b"\x02\0\0" + b"{}")
    replies = packet(0x40, b"\0\x01\x10\0") + packet(0x90, b"\0\x02\0\x01") + packet(0xD0, b"")
    return {
        "connected": b"\0" + accepted + message + replies,
        "refused": b"\0" + packet(0x20, b"\0\x87" + varint(8) + b"\x1f" + text(b"no way")[:8].ljust(7)),
        "taken_over": b"\0" + packet(0x20, b"\0\0\0") + packet(0xE0, b"\x8e\0"),
        "old": b"\1" + packet(0x20, b"\1\0") + packet(0x30, text(b"a/b") + b"1") + packet(0x40, b"\0\1"),
    }


def export():
    """A small database as Nsight Systems exports one: ranges of two stages, a call, a kernel, a copy, and a wait."""
    columns = {
        "META_DATA_EXPORT": "name TEXT, value TEXT",
        "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
        "ThreadNames": "nameId INTEGER, priority INTEGER, globalTid INTEGER",
        "NVTX_EVENTS": "start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, "
        "globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, "
        "nameId INTEGER, returnValue INTEGER",
        "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
        "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, registersPerThread INTEGER, gridX INTEGER, "
        "gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER, "
        "dynamicSharedMemory INTEGER, localMemoryPerThread INTEGER, localMemoryTotal INTEGER, gridId INTEGER, graphNodeId INTEGER",
        "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
        "correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER",
        "OSRT_API": "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, nameId INTEGER, returnValue INTEGER, "
        "nestingLevel INTEGER, callchainId INTEGER",
    }
    process = 1 << 56 | 10 << 24
    detect, source = process | 11, process | 12
    texts = ["source", "infer", "batch", "cudaLaunchKernel_v7000", "net", "write"]
    rows = {
        "META_DATA_EXPORT": [("EXPORT_PRODUCT_VERSION", "2025.3.1.90"), ("EXPORT_SCHEMA_VERSION", "3.21.0")],
        "StringIds": list(enumerate(texts, 1)),
        "ThreadNames": [(1, 0, source)],
        "NVTX_EVENTS": [(0, None, 75, None, None, None, "jetwatch", detect, None, None, 1, None, None)]
        + [(at, at + 50, 59, None, None, None, None, thread, None, text, 1, at, None)
           for at, thread, text in ((0, source, 1), (60, detect, 3), (120, detect, 2), (200, source, 1), (260, detect, 2))]
        + [(0, 300, 60, None, None, None, "whole", detect, source, None, 0, None, None)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [(125, 130, 0, detect, 1, 4, 0)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [(130, 160, 0, 1, 7, 1, process, 5, 5, 32, 4, 1, 1, 128, 1, 1, 0, 0, 0, 0, 1, None)],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [(160, 165, 0, 1, 7, 2, process, 4096, 2, 2, 0)],
        "OSRT_API": [(10, 40, 27, source, 6, 0, 0, 0)],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.sqlite"
        database = sqlite3.connect(path)
        # Small pages: a fuzzer finds its way through short inputs.
        database.execute("PRAGMA page_size = 512")
        for table, names in columns.items():
            database.execute(f"CREATE TABLE {table} ({names})")
            for row in rows[table]:
                database.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
        database.commit()
        database.close()
        return path.read_bytes()


def schema_words(schema):
    """Keys, words and texts that are defaults, of a JSON Schema."""
    if isinstance(schema, list):
        return set().union(*map(schema_words, schema))
    if not isinstance(schema, dict):
        return set()
    given = [*schema.get("properties", {}), *schema.get("enum", []), schema.get("const"), schema.get("default")]
    return {word for word in given if isinstance(word, str)} | schema_words(list(schema.values()))


def words():
    """The keys and words of the configuration and of model.yaml, by their schemas."""
    found = set()
    for path in sorted((ROOT / "configs").glob("*.schema.json")):
        if path.name != "messages.schema.json":
            found |= schema_words(json.loads(path.read_text()))
    found |= {"images", "categories", "annotations", "image_id", "category_id", "bbox", "area", "iscrowd", "file_name"}
    found |= {"synthetic://traffic?", "rtsp://", "v4l2:///dev/", "csi://", "launch:", "file://", "images:", "mqtts://", "frames=", "realtime=", "1e308", "-0.0"}
    return sorted(found)


def main():
    folder = HERE / "seeds/parsers"
    folder.mkdir(parents=True, exist_ok=True)
    seeds = {f"description_{name}": b"d" + text.encode() for name, text in descriptions().items()}
    seeds |= {f"network_{name}": b"o" + file for name, file in networks().items()}
    for path in [*sorted((ROOT / "configs").glob("*.yaml")), ROOT / "tests/golden/config_mistakes.yaml"]:
        seeds[f"configuration_{path.stem}"] = b"c" + path.read_bytes()
    seeds["annotations"] = b"j" + annotations().encode()
    seeds["anchors"] = b"a# one\n0.5 0.5 0.1 0.2\n\n0.25 0.75 1.5e-1 +.3\n"
    seeds["challenge"] = b"m1,-1,10,20,30.5,40,0.9\n2,-1,1.0,2.0,3e1,4,-0.5,3,-1,-1\r\n\n1, -1, 5, 5, 5, 5, 1, -1\n"
    seeds["truth"] = b"t1,1,10,20,30,40,1,3,0.8\n1,2,5,5,5,5,0,1,1\n2, 1, 1.5, 2, 3e1, 4, 1, -1, 1\r\n\n"
    for number, address in enumerate(
        [
            "rtsp://user:p%40ss@[::1]:554/a?b=c",
            "v4l2:///dev/video0?format=mjpeg&width=640&height=480&fps=30",
            "csi://0",
            "images:/a folder",
            "file:///a%20b.mp4",
            "synthetic://traffic?seed=3&objects=2&frames=9",
            "launch:videotestsrc num-buffers=3 ! video/x-raw,width=64 ! tee name=t t. ! fakesink",
        ]
    ):
        seeds[f"address_{number}"] = b"u" + address.encode()
    for name, seed in seeds.items():
        (folder / name).write_bytes(seed)

    folder = HERE / "seeds/stored"
    folder.mkdir(parents=True, exist_ok=True)
    stored = {f"spool_{name}": b"s" + seed for name, seed in spools().items()}
    stored |= {f"packets_{name}": b"q" + seed for name, seed in packets().items()}
    stored["command_add"] = b'k{"command":"add_source","id":"7","name":"gate","template":"cam","parameters":{"host":"10.0.0.9","n":3}}'
    stored["command_remove"] = b'k{"command":"remove_source","name":"gate"}'
    for name, seed in stored.items():
        (folder / name).write_bytes(seed)

    folder = HERE / "seeds/exports"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small").write_bytes(export())

    folder = HERE / "seeds/layouts"
    folder.mkdir(parents=True, exist_ok=True)
    for layout in range(LAYOUTS):
        noise = random.Random(layout)
        before = SHARES + bytes(noise.randrange(256) for _ in range(CHOICES_BEFORE_LAYOUT))
        behind = bytes(noise.randrange(256) for _ in range(180))
        (folder / f"layout_{layout:02}").write_bytes(before + bytes([layout]) + behind)

    lines = ["# Written by seed.py."] + [f'"{word}"' for word in words()]
    (HERE / "parsers.dict").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
