# SPDX-License-Identifier: Apache-2.0
"""The parts of models/quantize.py: one step from a float detector to an INT8 one in each file.

    spec          model.yaml as the daemon reads it; mistakes of the person who calls
    daemon        the daemon's image processing and decoders, from the jetwatch binary
    pictures      pictures as input tensors, with what is in them: a COCO file, or what the float network finds
    accuracy      COCO's average precision, bootstrap
    graph         opset, IR version, folding, the layers that can be quantized
    equalize      channels of a tensor brought to like ranges
    calibration   ranges of activations: histograms and the methods that cut them
    rounding      weights in 8 bits, for the inputs that they read
    qdq           QuantizeLinear and DequantizeLinear written into a graph
    errors        what one layer alone loses: the best range of each tensor, and biases
    network       a network that is run on pictures and judged
    search        which layers stay in float, judged on pictures that the choice has not seen
    report        tables, report.json, TensorRT's calibration cache, model.yaml

Nothing here is needed to run jetwatch: the daemon reads the ONNX file that comes out.
"""
