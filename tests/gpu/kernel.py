#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the preprocessing kernel alone, launch behind launch in one CUDA graph, so that neither the host's calls nor a copy are in it.

    kernel.py preprocess.ptx    prints one JSON object: microseconds for each launch and bytes moved, by batch and by sets of buffers

Pictures of 640x384 BGRx to 32-bit floats. Several sets of buffers in turns are more than the GPU's cache holds. Needs libcuda alone.
"""

import ctypes
import json
import struct
import sys

WIDTH, HEIGHT, BLOCK, KERNEL = 640, 384, 256, b"jetwatch_bgrx_float"
# Batch, sets of buffers, launches in the graph.
CASES = [(1, 1, 100), (8, 1, 100), (8, 8, 100), (32, 4, 50), (128, 2, 20), (256, 1, 20)]

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        sys.exit(f"{name} failed with {code}")


def out(kind, name, *arguments):
    value = kind()
    call(name, ctypes.byref(value), *arguments)
    return value


def memory(size):
    return out(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(size)).value


def job(batch):
    """The kernel's parameter (`Job` in preprocess.cu) for a batch in memory of its own."""
    pixels, bytes_each = memory(4 * WIDTH * HEIGHT * batch), 4 * WIDTH * HEIGHT
    call("cuMemsetD8_v2", ctypes.c_uint64(pixels), ctypes.c_ubyte(90), ctypes.c_size_t(bytes_each * batch))
    entries = b"".join(
        struct.pack("<QQ8I", pixels + bytes_each * i, 0, 4 * WIDTH, 0, WIDTH, HEIGHT, 0, 0, 0, 0) for i in range(batch)
    )
    pictures = memory(len(entries))
    call("cuMemcpyHtoD_v2", ctypes.c_uint64(pictures), entries, ctypes.c_size_t(len(entries)))
    fields = struct.pack("<QQ4I", pictures, memory(3 * bytes_each * batch), WIDTH, HEIGHT, WIDTH * HEIGHT // 4, 1)
    fields += struct.pack("<3I3f3f3f", 16, 8, 0, 123.675, 116.28, 103.53, 0.0171, 0.0175, 0.0174, 0, 0, 0)
    fields += struct.pack("<3f5i", 1, 0, 0, 0, 0, 0, 0, 0)
    return ctypes.create_string_buffer(fields, len(fields))


def microseconds(function, batch, sets, launches):
    jobs = [job(batch) for _ in range(sets)]
    stream = out(ctypes.c_void_p, "cuStreamCreate", 1)
    begin, end = (out(ctypes.c_void_p, "cuEventCreate", 0) for _ in range(2))
    call("cuStreamBeginCapture_v2", stream, 0)
    blocks = (WIDTH * HEIGHT // 4 + BLOCK - 1) // BLOCK
    for launch in range(launches):
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(jobs[launch % sets]))
        call("cuLaunchKernel", function, blocks, batch, 1, BLOCK, 1, 1, 0, stream, parameters, None)
    graph = ctypes.c_void_p()
    call("cuStreamEndCapture", stream, ctypes.byref(graph))
    whole = out(ctypes.c_void_p, "cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
    times = []
    for _ in range(30):
        call("cuEventRecord", begin, stream)
        call("cuGraphLaunch", whole, stream)
        call("cuEventRecord", end, stream)
        call("cuStreamSynchronize", stream)
        elapsed = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(elapsed), begin, end)
        times.append(elapsed.value * 1e3 / launches)
    return sorted(times)[len(times) // 2]


def main():
    call("cuInit", 0)
    device = out(ctypes.c_int, "cuDeviceGet", 0)
    call("cuCtxSetCurrent", out(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", device))
    with open(sys.argv[1], "rb") as file:
        module = out(ctypes.c_void_p, "cuModuleLoadData", file.read() + b"\0")
    function = out(ctypes.c_void_p, "cuModuleGetFunction", module, KERNEL)
    results = []
    for batch, sets, launches in CASES:
        each = microseconds(function, batch, sets, launches)
        moved = 16 * WIDTH * HEIGHT * batch
        results.append({"batch": batch, "buffer_sets": sets, "us": round(each, 2), "gb_per_s": round(moved / each / 1e3)})
    print(json.dumps(results))


main()
