# SPDX-License-Identifier: Apache-2.0
"""What the importers share: an ONNX network that grows operator by operator, and the files of a model folder."""
import contextlib
import json
import os
import re
import sys

from quantization.spec import Mistake

try:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
except ImportError as error:
    print(f"{error}: make a virtual environment and `pip install -r models/requirements-import.txt` into it", file=sys.stderr)
    sys.exit(2)


class Unavailable(Mistake):
    """Something cannot be fetched now."""


class Network:
    """A network with one input [batch, 3, height, width]. The same calls give the same bytes.

    Operator set 13 is the newest that TensorRT 8.5 reads completely; version 7 of the file format came with it."""

    def __init__(self, input_name, width, height):
        self.input_name, self.input_shape = input_name, (3, height, width)
        self.nodes = []  # [operator, inputs, output, attributes]; the output names the node, too
        self.constants = []  # (name, array)
        self.outputs = []  # (name, shape without the batch)

    def node(self, operator, inputs, output, **attributes):
        self.nodes.append([operator, list(inputs), output, attributes])
        return output

    def constant(self, name, values, kind=np.float32):
        self.constants.append((name, np.asarray(values, kind)))
        return name

    def file(self, producer, metadata):
        """The bytes of the ONNX file. The inference of layouts tells PicoDet from NanoDet by the producer."""
        def value(name, shape):
            return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", *shape])

        graph = helper.make_graph(
            [helper.make_node(operator, inputs, [output], name=output, **given) for operator, inputs, output, given in self.nodes],
            "network",
            [value(self.input_name, self.input_shape)],
            [value(*output) for output in self.outputs],
            [numpy_helper.from_array(values, name) for name, values in self.constants],
        )
        model = helper.make_model(
            graph, producer_name=producer, producer_version="converted by jetwatch", ir_version=7, opset_imports=[helper.make_opsetid("", 13)]
        )
        helper.set_model_props(model, metadata)
        return model.SerializeToString(deterministic=True)


def read(path):
    """The bytes of a file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}; check the path") from error


def write_folder(folder, files, force):
    """Writes the files, which are bytes or text by name, in their order: each complete or not at all."""
    for name in files:
        if os.path.lexists(os.path.join(folder, name)) and not force:
            raise Mistake(f"{os.path.join(folder, name)} exists already: choose another folder, or replace it with --force")
    partial = os.path.join(folder, ".partial")
    try:
        os.makedirs(folder, exist_ok=True)
        for name, content in files.items():
            with open(partial, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
            os.replace(partial, os.path.join(folder, name))
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(partial)
        raise Mistake(f"cannot write {error.filename or partial}: {error.strerror}; is there space, and may this user write there?") from error


def quoted(text):
    """A text as YAML: JSON's quoted form is YAML's, too, and nothing in it can end the line."""
    plain = re.fullmatch(r"[A-Za-z]([A-Za-z0-9_./ -]*[A-Za-z0-9_./-])?", text)
    word = plain and text.lower() not in ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
    return text if word else json.dumps(text, ensure_ascii=False)


def run(main):
    """Runs a script. Exit codes: 0 the folder is written; 2 something given is wrong; 3 something cannot be fetched."""
    try:
        main(sys.argv[1:])
    except Mistake as mistake:
        print(f"{os.path.basename(sys.argv[0])}: {mistake}", file=sys.stderr)
        sys.exit(3 if isinstance(mistake, Unavailable) else 2)
