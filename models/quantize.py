#!/usr/bin/env python3
"""Makes an INT8 network of a float detector, keeps its average precision within a budget, and proves it.

    python3 -m venv venv && venv/bin/pip install -r models/requirements.txt
    venv/bin/python models/quantize.py --model models/yolox_nano --images PICTURES --annotations coco.json --out int8.onnx

Symmetric 8-bit activations, weights for each channel, Q and DQ as TensorRT 8.5 and newer read them (--target tensorrt), or
what ONNX Runtime's CPU kernels run (--target cpu). Layers that ruin the accuracy stay in float: they are found by
measurement, and the finding is judged by cross-validation on pictures that it has not seen. The pictures calibrate and
judge; the annotations (COCO JSON) only judge. Use pictures like those the camera will give, 100 or more.

Exit codes: 0 within the budget; 1 no choice keeps it (nothing is written, the culprits are named); 2 something given is wrong.
"""
import argparse
import json
import os
import sys
import time

SOME_CULPRITS = 12


def arguments(given):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="DIR", help="model folder with a model.yaml")
    parser.add_argument("--images", required=True, metavar="DIR", help="folder of the pictures")
    parser.add_argument("--annotations", required=True, metavar="JSON", help="COCO file that names pictures and boxes")
    parser.add_argument("--out", required=True, metavar="FILE|DIR", help="where the INT8 network goes")
    parser.add_argument("--onnx", metavar="FILE", help="the float network (default: what model.yaml names for --precision)")
    parser.add_argument("--precision", default="fp32", help="entry of model.yaml's files to start from (default: fp32)")
    parser.add_argument("--method", default="all", help="minmax, entropy, percentile, mse, or all (default): the best for each tensor")
    parser.add_argument("--budget", type=float, default=1.0, help="points of AP (0..100) that may be lost (default: 1.0)")
    parser.add_argument("--folds", type=int, default=2, help="parts of the pictures for cross-validation (default: 2)")
    parser.add_argument("--target", default="tensorrt", choices=("tensorrt", "cpu"), help="who runs it (default: tensorrt)")
    parser.add_argument("--opset", type=int, default=13, choices=range(13, 18), help="13 to 17 (default: 13)")
    parser.add_argument("--calibration-images", type=int, default=32, metavar="N", help="at most N of a fold's pictures calibrate")
    parser.add_argument("--limit", type=int, metavar="N", help="use the first N pictures only")
    parser.add_argument("--seed", type=int, default=1, help="of folds, of calibration pictures and of the bootstrap")
    parser.add_argument("--score-threshold", type=float, default=0.01, help="lowest score that AP counts (default: 0.01)")
    parser.add_argument("--nms-iou", type=float, help="overlap of suppression (default: model.yaml's; COCO's figures use 0.65)")
    parser.add_argument("--no-bias-correction", action="store_true", help="leave the biases as they are")
    parser.add_argument("--reduce-range", action="store_true", help="7-bit weights: for --target cpu on x86-64 without VNNI")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--report", metavar="FILE", help="report.json (default: beside the network)")
    parser.add_argument("--cache", metavar="FILE", help="write a calibration cache for implicit quantization by TensorRT 8 too")
    parser.add_argument("--update-model-yaml", action="store_true", help="name the file in model.yaml (--out must be in the model folder)")
    parser.add_argument("--as", dest="as_precision", metavar="NAME", help="its precision there (default: int8, or int8_cpu)")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the tables")
    return parser.parse_args(given)


class Progress:
    """One line on a terminal that is written over; every tenth of a step elsewhere. On stderr."""

    def __init__(self, quiet):
        self.quiet, self.start, self.shown = quiet, time.monotonic(), None
        self.terminal = sys.stderr.isatty()

    def step(self, what, done, of):
        if self.quiet:
            return
        if self.terminal:
            end = "\n" if done == of else ""
            print(f"\r\033[K{what} {done}/{of}", end=end, file=sys.stderr, flush=True)
        elif done == of:
            print(f"[{time.monotonic() - self.start:6.0f} s] {what} {of}/{of}", file=sys.stderr, flush=True)

    def say(self, sentence):
        if not self.quiet:
            print(f"[{time.monotonic() - self.start:6.0f} s] {sentence}", file=sys.stderr, flush=True)


def checked(given, spec, mistake, methods):
    """(path of the network to write, path of the report, methods)."""
    method_names = methods if given.method == "all" else (given.method,)
    if not set(method_names) <= set(methods):
        raise mistake(f"--method is {given.method}, expected {', '.join(methods)} or all")
    if given.folds < 2:
        raise mistake(f"--folds is {given.folds}, expected 2 or more: one part chooses, the others judge")
    if given.budget <= 0:
        raise mistake(f"--budget is {given.budget}, expected points of AP above 0, such as 1.0")
    out = given.out
    if os.path.isdir(out) or out.endswith(os.sep):
        suffix = "int8" if given.target == "tensorrt" else "int8_cpu"
        out = os.path.join(out, f"{spec.name}_{suffix}.onnx")
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    if given.update_model_yaml and os.path.dirname(os.path.abspath(out)) != os.path.abspath(given.model):
        raise mistake(f"--update-model-yaml names files of {given.model}, but --out is {out}: write into that folder")
    return out, given.report or os.path.splitext(out)[0] + ".report.json", method_names


def main(given=None):
    given = arguments(given)
    try:
        from quantization import calibration, graph, layouts, pictures, qdq, report, search
        from quantization import spec as specs
    except ImportError as error:
        print(
            f"quantize: {error}: make a virtual environment and `pip install -r models/requirements.txt` into it", file=sys.stderr
        )
        return 2
    progress = Progress(given.quiet)
    try:
        spec = specs.load(given.model)
        out, report_path, methods = checked(given, spec, specs.Mistake, calibration.METHODS)
        decoder = layouts.Decoder(spec)
        source = given.onnx or spec.file(given.precision)
        folded, unfolded, said = graph.prepare(source, given.opset)
        progress.say(f"{source}: " + "; ".join(said))
        layers = graph.layers(folded)
        if not layers:
            raise specs.Mistake(f"{source} has no convolution or matrix product with constant weights: nothing to quantize")
        some = pictures.load(given.images, given.annotations, spec, given.limit)
        if len(some) < 2 * given.folds:
            raise specs.Mistake(f"{given.annotations} names {len(some)} pictures, expected at least {2 * given.folds}: 100 or more are a measure")
        settings = search.Settings(
            methods=methods,
            target=given.target,
            budget=given.budget,
            score_threshold=given.score_threshold,
            nms_iou=spec.nms_iou if given.nms_iou is None else given.nms_iou,
            calibration_pictures=given.calibration_images,
            seed=given.seed,
            threads=given.threads,
            reduce_range=given.reduce_range,
            correct_biases=not given.no_bias_correction,
        )
        judge = search.Judge(folded, layers, spec, decoder, settings, progress.step, progress.say)
        final, model, whole, result = search.cross_validated(judge, some, given.folds)
        faults = qdq.faults(model, given.target)
        if faults:
            raise specs.Mistake(f"the network written from {source} would be refused: {'; '.join(faults)}")
    except specs.Mistake as mistake:
        print(f"quantize: {mistake}", file=sys.stderr)
        return 2

    eight = [layer for layer in layers if layer.name not in final.floats]
    share = sum(layer.macs for layer in eight) / max(sum(layer.macs for layer in layers), 1)
    print(f"\n{spec.name}: {len(eight)} of {len(layers)} layers in 8 bits ({100 * share:.0f} % of the multiplications), {final.variant}\n")
    rows = [(f"all layers, {methods[0]}, nothing chosen", result["naive"])]
    rows += [
        (f"fold {place + 1}: {fold['layers_in_float']} in float, {fold['variant']}", fold["held_out"])
        for place, fold in enumerate(result["cross_validated"]["folds"])
    ]
    rows += [("cross-validated (held-out pictures)", result["cross_validated"]), ("the network written, all pictures", result["all"])]
    print(report.comparison(rows) + "\n")
    print(report.culprits(layers, whole, final.floats, max(SOME_CULPRITS, len(final.floats))) + "\n")

    data = model.SerializeToString()
    document = {
        "model": spec.name,
        "source": {"file": os.path.basename(source), "changes": said},
        "target": given.target,
        "settings": {**vars(settings), "methods": list(methods), "folds": given.folds, "pictures": len(some)},
        "variant": final.variant,
        "layers": len(layers),
        "layers_in_float": final.floats,
        "multiplications_in_int8": share,
        "steps": [{"layers_in_float": count, "drift": drift} for count, drift in final.steps],
        "graph": report.counts(model),
        "faults": faults,
        **result,
        "sensitivity": [
            {"layer": name, "drift": drift, "sqnr_db": decibels, "own_error": whole.errors.get(name)}
            for name, (drift, decibels) in sorted(whole.suspects().items(), key=lambda item: -item[1][0])
        ],
    }
    if result["within_budget"]:
        with open(out, "wb") as file:
            file.write(data)
        document["out"] = {"file": os.path.basename(out), "sha256": report.sha256(data), "bytes": len(data)}
        if given.cache:
            # The cache is for the float file itself, whose tensors have the names from before folding.
            names = calibration.tensors_to_watch(unfolded)
            network = search.network.Network(unfolded, spec, decoder, given.threads)
            histograms = calibration.Histograms.collect(network, names, whole.calibration, progress.step)
            method = final.variant.split("+")[0]
            ranges = histograms.ranges("entropy" if method == "mixed" else method, True)
            count = report.write_cache(given.cache, ranges, report.inputs_of_floats_only(layers, set(final.floats)))
            print(f"{given.cache}: scales of {count} tensors for TensorRT 8 (implicit quantization of {os.path.basename(source)})")
        if given.update_model_yaml:
            precision = given.as_precision or ("int8" if given.target == "tensorrt" else "int8_cpu")
            try:
                report.update_model_yaml(spec, precision, os.path.basename(out), report.sha256(data))
            except specs.Mistake as mistake:
                print(f"quantize: {mistake}", file=sys.stderr)
                return 2
            print(f"{spec.path}: files.{precision} names it")
    with open(report_path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    if not result["within_budget"]:
        held, last = result["cross_validated"]["difference_points"], result["all"]["difference_points"]
        print(
            f"quantize: no choice loses at most {given.budget} points of AP: {held:+.2f} on held-out pictures, {last:+.2f} on all; "
            f"nothing was written but {report_path}. The layers at the top of the table are the culprits: give more pictures that "
            "look like the camera's, another --method, or a larger --budget",
            file=sys.stderr,
        )
        return 1
    print(f"{out}: {len(data)} bytes, sha256 {report.sha256(data)}\n{report_path}: all figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
