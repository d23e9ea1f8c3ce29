"""The parts of models/quantize.py: one step from a float detector to an INT8 one in each file.

    spec          model.yaml as checked values; mistakes of the person who calls
    pictures      a COCO file and its pictures as input tensors
    layouts       raw outputs as boxes and scores
    accuracy      suppression, COCO's average precision, bootstrap
    graph         opset, IR version, folding, the layers that can be quantized
    calibration   ranges of activations: histograms and the methods that cut them
    qdq           QuantizeLinear and DequantizeLinear written into a graph
    network       a network that is run on pictures and judged
    search        which layers stay in float, cross-validated
    report        tables, report.json, TensorRT's calibration cache, model.yaml

Nothing here is needed to run jetwatch: the daemon reads the ONNX file that comes out.
"""
