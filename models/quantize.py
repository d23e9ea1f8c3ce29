#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an INT8 network of a float detector, and says how much accuracy it may lose.

    python3 -m venv venv && venv/bin/pip install -r models/requirements.txt
    venv/bin/python models/quantize.py --model models/NAME --pictures DIR --out models/NAME --update-model-yaml
    venv/bin/python models/quantize.py --model models/NAME --images DIR --annotations coco.json --out int8.onnx

Symmetric 8-bit activations, weights for each channel, Q and DQ as TensorRT 8.5 and newer read them (--target tensorrt), or
what ONNX Runtime's CPU kernels run (--target cpu). For TensorRT the channels of a tensor are brought to like ranges where that
costs nothing, tensors of positive numbers use all levels, and weights are rounded for the inputs that they read. Layers that ruin the accuracy stay in float: they are found by
measurement, and the finding is judged on pictures that it has not seen. Use 100 pictures or more, like those that the
camera gives; `jetwatch calibrate --source URI --out DIR` collects some.

With annotations (COCO JSON) the measure is average precision. With --pictures alone the float network is the teacher: the
measure is the agreement of the INT8 network with what the float network finds. The pictures are scaled and the outputs
decoded by the jetwatch binary, so that every layout of model.yaml can be quantized.

Exit codes: 0 the network is written; 1 no choice keeps the budget (nothing is written, the culprits are named); 2 something
given is wrong.
"""
import argparse
import json
import os
import sys
import tempfile
import time

SOME_CULPRITS = 12
# Below this number of pictures a warning says that they are few.
FEW_PICTURES = 100
# Points that may be lost: of average precision, and of the agreement with the float network.
BUDGET, AGREEMENT_BUDGET = 1.0, 10.0


def arguments(given):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="DIR", help="model folder with a model.yaml")
    parser.add_argument("--pictures", metavar="DIR", help="folder of pictures without annotations: the float network is the teacher")
    parser.add_argument("--images", metavar="DIR", help="folder of the pictures that --annotations names")
    parser.add_argument("--annotations", metavar="JSON", help="COCO file that names pictures and boxes")
    parser.add_argument("--out", required=True, metavar="FILE|DIR", help="where the INT8 network goes")
    parser.add_argument("--jetwatch", metavar="FILE", help="the jetwatch binary (default: JETWATCH, PATH, or target/ of this checkout)")
    parser.add_argument("--onnx", metavar="FILE", help="the float network (default: what model.yaml names for --precision)")
    parser.add_argument("--precision", default="fp32", help="entry of model.yaml's files to start from (default: fp32)")
    parser.add_argument("--method", default="all", help="minmax, entropy, percentile, mse, or all (default): the best for each tensor")
    parser.add_argument("--budget", type=float, metavar="POINTS", help=(
        f"what may be lost, of 100: of AP (default: {BUDGET}), or with --pictures of the agreement (default: {AGREEMENT_BUDGET})"))
    parser.add_argument("--folds", type=int, default=2, help="parts of the pictures, each judged by a choice made on the others (default: 2)")
    parser.add_argument("--target", default="tensorrt", choices=("tensorrt", "cpu"), help="who runs it (default: tensorrt)")
    parser.add_argument("--opset", type=int, choices=range(13, 18), help="13 to 17 (default: the network's, or the nearest of these)")
    parser.add_argument("--calibration-images", type=int, default=64, metavar="N", help="at most N of a fold's pictures calibrate")
    parser.add_argument("--limit", type=int, metavar="N", help="use N pictures only: the first ones, without annotations at equal distances")
    parser.add_argument("--seed", type=int, default=1, help="of folds, of calibration pictures and of the bootstrap")
    parser.add_argument("--score-threshold", type=float, default=0.01, help="lowest score that AP counts (default: 0.01)")
    parser.add_argument("--nms-iou", type=float, help="overlap of suppression (default: model.yaml's; COCO's figures use 0.65)")
    parser.add_argument("--no-bias-correction", action="store_true", help="leave the biases as they are, and round each weight to its nearest level")
    parser.add_argument("--no-constants", action="store_true", help="put no operators with constants into the network, which TensorRT may run one by one")
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
    """(path of the network to write, path of the report, methods, budget)."""
    method_names = methods if given.method == "all" else (given.method,)
    if not set(method_names) <= set(methods):
        raise mistake(f"--method is {given.method}, expected {', '.join(methods)} or all")
    if given.folds < 2:
        raise mistake(f"--folds is {given.folds}, expected 2 or more: one part chooses, the others judge")
    if given.pictures and (given.images or given.annotations):
        raise mistake("--pictures is given with --images or --annotations: give pictures without annotations, or both of the others")
    if not given.pictures and not (given.images and given.annotations):
        raise mistake("found neither --pictures nor both of --images and --annotations: name the pictures")
    if not given.pictures and spec.classifier:
        raise mistake(f"{spec.path} is a classifier, of which no boxes are known: use --pictures with pictures of single objects")
    budget = given.budget
    if budget is None:
        budget = AGREEMENT_BUDGET if given.pictures else BUDGET
    if budget <= 0:
        raise mistake(f"--budget is {budget}, expected points above 0, such as 1.0")
    out = given.out
    if os.path.isdir(out) or out.endswith(os.sep):
        suffix = "int8" if given.target == "tensorrt" else "int8_cpu"
        out = os.path.join(out, f"{spec.name}_{suffix}.onnx")
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    if given.update_model_yaml and os.path.dirname(os.path.abspath(out)) != os.path.abspath(given.model):
        raise mistake(f"--update-model-yaml names files of {given.model}, but --out is {out}: write into that folder")
    return out, given.report or os.path.splitext(out)[0] + ".report.json", method_names, budget


def main(given=None):
    given = arguments(given)
    try:
        from quantization import daemon as daemons
        from quantization.spec import Mistake
        import onnx, onnxruntime  # noqa: E401, F401
    except ImportError as error:
        print(
            f"quantize: {error}: make a virtual environment and `pip install -r models/requirements.txt` into it", file=sys.stderr
        )
        return 2
    try:
        with daemons.Daemon(given.model, given.jetwatch) as daemon, tempfile.TemporaryDirectory(prefix="quantize-") as work:
            return quantize(given, daemon, work)
    except Mistake as mistake:
        print(f"quantize: {mistake}", file=sys.stderr)
        return 2


def read_pictures(given, daemon, work, progress):
    """The pictures, with what is annotated or, later, taught."""
    from quantization import pictures
    from quantization.spec import Mistake

    if given.pictures:
        some = pictures.load_unlabelled(daemon, given.pictures, work, progress.say, given.limit)
    else:
        some = pictures.load(daemon, given.images, given.annotations, work, given.limit)
    if len(some) < 2 * given.folds:
        where = given.pictures or given.annotations
        raise Mistake(f"{where} has {len(some)} pictures, expected at least {2 * given.folds}: {FEW_PICTURES} or more are a measure")
    return some


def quantize(given, daemon, work):
    """Searches, writes, prints. Exit code."""
    from quantization import calibration, graph, network, pictures, qdq, report, search
    from quantization.spec import Mistake

    progress, spec, warnings = Progress(given.quiet), daemon.spec, []
    out, report_path, methods, budget = checked(given, spec, Mistake, calibration.METHODS)
    source = given.onnx or spec.file(given.precision)
    folded, unfolded, said = graph.prepare(source, given.opset, spec)
    progress.say(f"{source}: " + "; ".join(said))
    layers = graph.layers(folded)
    if not layers:
        raise Mistake(f"{source} has no convolution or matrix product with constant weights: nothing to quantize")
    some = read_pictures(given, daemon, work, progress)
    if len(some) < FEW_PICTURES:
        warnings.append(
            f"{len(some)} pictures are few: with fewer than {FEW_PICTURES} a network that loses more than is measured is not "
            "noticed; take more pictures like those of your cameras"
        )
        print(f"quantize: warning: {warnings[-1]}", file=sys.stderr)
    settings = search.Settings(
        methods=methods,
        target=given.target,
        budget=budget,
        score_threshold=given.score_threshold,
        nms_iou=spec.nms_iou if given.nms_iou is None else given.nms_iou,
        labelled=not given.pictures,
        calibration_pictures=given.calibration_images,
        seed=given.seed,
        threads=given.threads,
        reduce_range=given.reduce_range,
        correct_biases=not given.no_bias_correction,
        constants=not given.no_constants,
    )
    judge = search.Judge(folded, layers, daemon, settings, progress.step, progress.say)
    if given.pictures:
        taught = pictures.teach(some, judge.found_by_float(some), spec.score_threshold)
        progress.say(f"the float network finds {taught} boxes with a score of {spec.score_threshold:g} or more")
        if not taught:
            raise Mistake(f"the float network finds nothing in the pictures of {given.pictures}: give pictures that show what it detects")
    fitted = search.CrossFit(judge, some, given.folds)
    final, net, result = fitted.run()
    model = net.model
    faults = qdq.faults(model, given.target)
    if faults:
        raise Mistake(f"the network written from {source} would be refused: {'; '.join(faults)}")
    speed = None
    if given.target == "cpu":
        float_ms, int8_ms, ratio = network.compare_speed(judge.float_network, net, some[0])
        speed = {"float_ms": float_ms, "int8_ms": int8_ms, "ratio": ratio, "threads": 1}

    share = judge.share(final.floats)
    eight = len(layers) - len(final.floats)
    measure = report.Measure(not given.pictures, spec, len(some), budget)
    print(f"\n{spec.name}: {eight} of {len(layers)} layers in 8 bits ({100 * share:.0f} % of the multiplications), {final.variant}\n")
    print(measure.comparison(result, methods[0]) + "\n")
    print(report.culprits(layers, fitted.whole, final.floats, max(SOME_CULPRITS, len(final.floats))) + "\n")
    sentences = measure.sentences(result) + ([report.speed(speed)] if speed else [])
    print("\n".join(sentences) + "\n")

    data = model.SerializeToString()
    document = {
        "model": spec.name,
        "source": {"file": os.path.basename(source), "changes": said},
        "target": given.target,
        "settings": {**vars(settings), "methods": list(methods), "folds": given.folds, "pictures": len(some)},
        "conclusions": sentences,
        "warnings": warnings,
        "speed": speed,
        "variant": final.variant,
        "layers": len(layers),
        "layers_in_float": final.floats,
        "multiplications_in_int8": share,
        "graph": report.counts(model),
        "faults": faults,
        **result,
        "sensitivity": [
            {"layer": name, "drift": drift, "sqnr_db": decibels, "own_error": fitted.whole.errors.get(name)}
            for name, (drift, decibels) in sorted(fitted.whole.suspects().items(), key=lambda item: -item[1][0])
        ],
    }
    if result["within_budget"]:
        with open(out, "wb") as file:
            file.write(data)
        document["out"] = {"file": os.path.basename(out), "sha256": report.sha256(data), "bytes": len(data)}
        if given.cache:
            # The cache is for the float file itself, whose tensors have the names from before folding.
            names = calibration.tensors_to_watch(unfolded)
            unfolded_network = network.Network(unfolded, daemon, given.threads)
            histograms = calibration.Histograms.collect(unfolded_network, names, fitted.whole.calibration, progress.step)
            method = final.variant.split("+")[0]
            ranges = histograms.ranges("entropy" if method == "mixed" else method, lambda _: True)
            count = report.write_cache(given.cache, ranges, report.inputs_of_floats_only(layers, set(final.floats)))
            print(f"{given.cache}: scales of {count} tensors for TensorRT 8 (implicit quantization of {os.path.basename(source)})")
        if given.update_model_yaml:
            precision = given.as_precision or ("int8" if given.target == "tensorrt" else "int8_cpu")
            report.update_model_yaml(spec, precision, os.path.basename(out), report.sha256(data))
            print(f"{spec.path}: files.{precision} names it")
    with open(report_path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    if not result["within_budget"]:
        print(
            f"quantize: no choice loses at most {budget:g} points of {measure.what}: {measure.figures(result)}; nothing was written but "
            f"{report_path}. The layers at the top of the table are the culprits: give more pictures that look like the "
            "camera's, another --method, or a larger --budget",
            file=sys.stderr,
        )
        return 1
    print(f"{out}: {len(data)} bytes, sha256 {report.sha256(data)}\n{report_path}: all figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
