# SPDX-License-Identifier: Apache-2.0
"""Which layers stay in float: chosen by measurement, and the choice itself judged on pictures it has not seen.

On a set of pictures: channels are equalized; variants (how ranges are cut, biases corrected or not, weights rounded for their
inputs or not) compete by the drift of candidates; with the best of them, the drift when each suspect alone is in 8 bits
and its multiplications give their order; those worth most go to float as long as the wanted share of the multiplications
stays in 8 bits.

Drift decides here and not average precision, which over some dozens of pictures scatters by a point: the best of many
tries would be the luckiest. Precision picks the share, one number out of a short list, by cross-fitting: the whole choice,
calibration included, is made on all folds but one and judged on that one, in turn; the network to write is chosen with
the same share on all pictures. The highest share is taken at which the lower ends of both 95 % intervals keep the budget.
Where none does, too few pictures or too much noise allow no such promise: then that with the smallest promise is taken, and
shares below ENOUGH are tried only where the figures themselves are beyond the budget.

The share was picked by the pictures that judge. How much luck is in that shows a second figure: the share of each fold
picked by the other folds alone. The promise is the lowest of the three lower ends.
"""
from dataclasses import dataclass

import numpy as np

from . import accuracy, calibration, equalize, errors, graph, network, qdq, rounding
from .spec import Mistake

# Pictures on which one suspect's drift is measured: their order settles early, the number of runs is suspects times this.
DRIFT_PICTURES = 4
# Pictures on which the variants compete by drift; there are few of them, and they lie close together.
VARIANT_PICTURES = 8
# Pictures over which a layer's own error is averaged; each gives hundreds of numbers for every channel.
ERROR_PICTURES = 8
# Share of the layers that are in float while variants compete: where one layer ruins all, no variant shows its worth.
WORST_SHARE = 0.05
# Layers whose drift is measured, those with the largest errors of their own: a layer that rounds well ruins nothing. On the
# CPU more: what lies between two chosen layers is rounded too, of which an error of one layer tells less.
SUSPECTS = {"tensorrt": 96, "cpu": 64}
# Share of the multiplications that is added to that of each layer when its drift is weighed with its cost.
SMALL_SHARE = 0.002
# Shares of the multiplications that stay in 8 bits at least.
SHARES = (0.98, 0.95, 0.9, 0.85, 0.7, 0.5)
# The share below which a narrower promise is not worth the time.
ENOUGH = 0.85
# What ranges are multiplied by, for numbers that the calibration pictures do not have.
HEADROOM = {"tensorrt": 1.15, "cpu": 1.0}
BOOTSTRAP_ROUNDS = 1000


@dataclass
class Settings:
    methods: tuple
    target: str
    budget: float  # points of AP, 0..100
    score_threshold: float
    nms_iou: float
    labelled: bool  # whether the boxes are annotations, not what the float network found
    calibration_pictures: int
    seed: int
    threads: int
    reduce_range: bool = False
    correct_biases: bool = True
    constants: bool = True  # whether operators with constants may be put in, for TensorRT


@dataclass
class Choice:
    """Which layers are in float."""

    variant: str
    floats: tuple  # names of the layers in float, worth most first


class Fold:
    """A set of pictures with what choosing on it needs: the float network's results, histograms, the order of suspects."""

    def __init__(self, judge, some, name):
        self.judge, self.pictures, self.name = judge, some, name
        self.reference = judge.float_matches(some)
        self.float_ap = self.reference.average_precision()
        if self.float_ap <= 0:
            raise Mistake(
                f"the float network finds nothing in the pictures of {name} (AP 0): do the annotations belong to the pictures, "
                "their categories to the labels, and model.yaml to the network?"
                if judge.settings.labelled
                else f"the float network finds nothing in the pictures of {name}: give pictures that show what it detects"
            )
        count = min(judge.settings.calibration_pictures, len(some))
        chosen = np.random.default_rng(judge.settings.seed).permutation(len(some))[:count]
        self.calibration = [some[index] for index in sorted(chosen)]
        self.writer, self.float_network = self._equalized()
        self.histograms = calibration.Histograms.collect(
            self.float_network, self.writer.tensors(), self.calibration, judge.progress
        )
        if judge.settings.constants:
            self.writer.shift(self.histograms.low, self.histograms.high)
        self.variants = self._variants()
        self.sample = self.calibration[:VARIANT_PICTURES]
        self.sample_raw = judge.float_network.over(self.sample, judge.float_network.raw)
        self.sample_candidates = [judge.float_network.candidates(*pair) for pair in zip(self.sample, self.sample_raw)]
        self.drifts, self.order = None, None

    def _equalized(self):
        """(writer, network) of the float network, for TensorRT with tensors equalized for the calibration pictures of this set."""
        judge = self.judge
        if judge.settings.target == "cpu":
            return judge.writer, judge.float_network
        tensors = equalize.tensors(judge.writer.model, judge.writer.layers, judge.settings.constants)
        statistics = equalize.statistics(judge.float_network, tensors, self.calibration, judge.progress)
        model = equalize.equalized(judge.writer.model, tensors, statistics)
        writer = qdq.Writer(model, graph.layers(model), judge.settings.target, judge.settings.reduce_range)
        return writer, network.Network(model, judge.daemon, judge.settings.threads)

    def _variants(self):
        """Name -> (ranges, corrections, weights), and `self.errors`: layer -> its own relative error, the least of all methods."""
        writer, settings = self.writer, self.judge.settings
        ranges = {method: self.histograms.ranges(method, writer.symmetric, writer.through) for method in settings.methods}
        wider = HEADROOM[settings.target]
        ranges = {method: {name: (low * wider, high * wider) for name, (low, high) in found.items()} for method, found in ranges.items()}
        own = {name: self._errors(given) for name, given in ranges.items()}
        self.taken = None
        if len(ranges) > 1:
            ranges["mixed"], self.taken = errors.best_ranges(writer, ranges, own)
            own["mixed"] = self._errors(ranges["mixed"])
        last = own[list(own)[-1]]
        self.errors = {name: float(np.minimum(squares, 1.0).mean()) for name, (_, squares) in last.items()}
        variants = {name: (given, None, None) for name, given in ranges.items()}
        if settings.correct_biases:
            weighted = {layer.name for layer in writer.layers if layer.weight}
            for name, given in ranges.items():
                corrections = {layer: mean for layer, (mean, _) in own[name].items() if layer in weighted}
                variants[f"{name}+bias"] = (given, corrections, None)
        return variants

    def _errors(self, ranges):
        pictures = self.calibration[:ERROR_PICTURES]
        return errors.measure(self.float_network, self.writer, ranges, pictures, self.judge.progress)

    def _rounded(self, variant):
        """`variant`, which corrects biases, with weights rounded for the calibration pictures."""
        ranges, corrections, _ = self.variants[variant]
        moments = rounding.measure(self.float_network, self.writer, ranges, self.calibration, self.judge.progress)
        layers = {layer.name: layer for layer in self.writer.layers}
        rounded = {name: rounding.rounded(self.writer, layers[name], of_layer) for name, of_layer in moments.items()}
        weights = {name: weight for name, (weight, _) in rounded.items()}
        return ranges, {**corrections, **{name: off for name, (_, off) in rounded.items()}}, weights

    def network(self, chosen, variant):
        """The network with the layers `chosen` (names) in 8 bits."""
        model = self.writer.write(chosen, *self.variants[variant])
        return network.Network(model, self.judge.daemon, self.judge.settings.threads)

    def drift(self, chosen, variant, most):
        """(drift, decibels) of the network with the layers `chosen` in 8 bits, over `most` pictures of the sample."""
        net = self.network(chosen, variant)
        raws = net.over(self.sample[:most], net.raw)
        moved = [net.candidates(*pair) for pair in zip(self.sample, raws)]
        drifts = [network.drift(*pair) for pair in zip(self.sample_candidates, moved)]
        return float(np.mean(drifts)), float(np.mean([network.signal_to_noise(*pair) for pair in zip(self.sample_raw, raws)]))

    def rank(self):
        """The variants, best first: by drift with the layers in float whose own errors are worst."""
        if self.order is None:
            names = self.by_own_error()
            worst = int(np.ceil(WORST_SHARE * len(names))) if len(names) > 1 else 0
            plain = [variant for variant in self.variants if not variant.endswith("+bias")]
            self.competition = {}

            def compete(variants):
                for index, variant in enumerate(variants):
                    self.competition[variant] = self.drift(names[worst:], variant, VARIANT_PICTURES)[0]
                    self.judge.progress(f"{self.name}: variants", index + 1, len(variants))
                self.order = sorted(self.competition, key=self.competition.get)

            compete(plain)
            # Only the best are worth a second run with corrected biases, and one of these with weights rounded for it.
            corrected = [f"{name}+bias" for name in self.order[:2] if f"{name}+bias" in self.variants]
            compete(corrected)
            for name in sorted(corrected, key=self.competition.get)[: self.judge.settings.target == "tensorrt"]:
                self.variants[f"{name}+weights"] = self._rounded(name)
                compete([f"{name}+weights"])
        return self.order

    def by_own_error(self):
        """All layers, worst first; one whose error is unknown counts as the worst."""
        names = [layer.name for layer in self.judge.writer.layers]
        return sorted(names, key=lambda name: -self.errors.get(name, np.inf))

    def suspects(self):
        """Name -> (drift, decibels) of each suspect alone in 8 bits, measured once."""
        if self.drifts is None:
            variant, names = self.rank()[0], self.by_own_error()[: SUSPECTS[self.judge.settings.target]]
            self.drifts = {}
            for index, name in enumerate(names):
                self.drifts[name] = self.drift([name], variant, DRIFT_PICTURES)
                self.judge.progress(f"{self.name}: one layer in 8 bits", index + 1, len(names))
        return self.drifts

    def choose(self, share):
        """The choice with at least `share` of the multiplications in 8 bits: in float the layers that are worth most there."""
        drifts = {name: drift for name, (drift, _) in self.suspects().items()}
        macs = {layer.name: layer.macs for layer in self.judge.writer.layers}
        return Choice(self.rank()[0], floats_for(share, drifts, macs))

    def build(self, choice):
        """The network of a choice."""
        names = [layer.name for layer in self.judge.writer.layers if layer.name not in choice.floats]
        return self.network(names, choice.variant)


class Judge:
    """Builds and measures networks; what all folds share."""

    def __init__(self, model, layers, daemon, settings, progress, say):
        """`progress(what, done, of)` is called often, `say(sentence)` where something was measured."""
        self.daemon, self.spec, self.settings, self.progress, self.say = daemon, daemon.spec, settings, progress, say
        self.writer = qdq.Writer(model, layers, settings.target, settings.reduce_range)
        self.float_network = network.Network(model, daemon, settings.threads)
        self.float_found = {}

    def share(self, floats):
        """Share of the multiplications in 8 bits when the layers `floats` (names) are in float."""
        total = sum(layer.macs for layer in self.writer.layers)
        return sum(layer.macs for layer in self.writer.layers if layer.name not in floats) / max(total, 1)

    def found(self, net, some):
        return net.found(some, self.settings.score_threshold, self.settings.nms_iou)

    def matches(self, found, some):
        return accuracy.Matches(found, some, len(self.spec.labels))

    def found_by_float(self, some):
        """What the float network finds. Each picture is run once."""
        missing = [picture for picture in some if picture.name not in self.float_found]
        for picture, found in zip(missing, self.found(self.float_network, missing)):
            self.float_found[picture.name] = found
        return [self.float_found[picture.name] for picture in some]

    def float_matches(self, some):
        """The float network's matches."""
        return self.matches(self.found_by_float(some), some)


def worth_of_float(drifts, macs):
    """The layers of `drifts` (name -> drift alone in 8 bits), those first that are worth most in float: errors that know nothing of
    each other add by their squares, and a layer costs its multiplications and a little more."""
    total = max(sum(macs.values()), 1)
    return sorted(drifts, key=lambda name: -(drifts[name] ** 2) / (macs[name] / total + SMALL_SHARE))


def floats_for(share, drifts, macs):
    """Names of the layers in float, those worth most, when at least `share` of the multiplications `macs` stays in 8 bits."""
    left, floats = (1 - share) * sum(macs.values()), []
    for name in worth_of_float(drifts, macs):
        if macs[name] <= left:
            floats.append(name)
            left -= macs[name]
    return tuple(floats)


def folds_of(some, count, seed):
    """`count` parts of the pictures, drawn at random, in the order of the pictures."""
    order = np.random.default_rng(seed).permutation(len(some))
    return [[some[index] for index in sorted(order[start::count])] for start in range(count)]


def paired(reference, other, seed):
    """A paired comparison as a dict: both APs, the difference in points, its 95 % interval."""
    low, high = accuracy.interval(reference, other, BOOTSTRAP_ROUNDS, seed)
    return {
        "pictures": reference.pictures,
        "float_ap": reference.average_precision(),
        "int8_ap": other.average_precision(),
        "float_ap50": reference.average_precision(iou=0),
        "int8_ap50": other.average_precision(iou=0),
        "difference_points": (other.average_precision() - reference.average_precision()) * 100,
        "interval_points": [low * 100, high * 100],
    }


def lower_end(*measured):
    """Points of AP that may be lost: the lowest of the lower ends of the intervals, 0 or more."""
    return max(0.0, *(-entry["interval_points"][0] for entry in measured))


def point_loss(*measured):
    """The largest loss of the figures themselves, in points."""
    return max(-entry["difference_points"] for entry in measured)


def taken(rounds, budget):
    """Of the rounds, highest share first, the first whose lower ends keep the budget, else the one with the smallest promise."""
    kept = [entry for entry in rounds if lower_end(*_figures(entry)) <= budget]
    return kept[0] if kept else min(rounds, key=lambda entry: lower_end(*_figures(entry)))


def _figures(entry):
    return [entry[key] for key in ("held_out", "written") if key in entry]


class CrossFit:
    """Folds, the rounds measured on them, and what they say."""

    def __init__(self, judge, some, fold_count):
        self.judge, self.some, self.settings = judge, some, judge.settings
        self.parts = folds_of(some, fold_count, self.settings.seed)
        # A fold is chosen on all parts but its own and judged on its own.
        training = [[p for other in self.parts if other is not part for p in other] for part in self.parts]
        self.folds = [Fold(judge, pictures, f"fold {place + 1}") for place, pictures in enumerate(training)]
        self.whole = Fold(judge, some, "all")
        # The order of suspects for the final choice is the mean of what the folds measured, each on its own pictures.
        self.whole.drifts = _mean_drifts([fold.suspects() for fold in self.folds])
        self.judged, self.written, self.choices = {}, {}, {}

    def naive(self):
        """All layers with the first method, and nothing done for the accuracy."""
        judge, writer = self.judge, self.judge.writer
        histograms = calibration.Histograms.collect(judge.float_network, writer.tensors(), self.whole.calibration, judge.progress)
        ranges = histograms.ranges(self.settings.methods[0], writer.symmetric, writer.through)
        net = network.Network(writer.write([layer.name for layer in writer.layers], ranges), judge.daemon, self.settings.threads)
        found = self.judge.found(net, self.some)
        return paired(self.whole.reference, self.judge.matches(found, self.some), self.settings.seed)

    def fold_found(self, place, share):
        """What the choice of fold `place` at `share` finds in the part that it has not seen; None where it was not measured."""
        return self.judged.get((place, self.choices[place, share].floats))

    def measure(self, share):
        """The round of `share`, or None if it gives the same networks as one above."""
        choices = [fold.choose(share) for fold in self.folds]
        self.choices.update({(place, share): choice for place, choice in enumerate(choices)})
        if all((place, choice.floats) in self.judged for place, choice in enumerate(choices)):
            return None
        of_folds = []
        for place, (fold, choice, part) in enumerate(zip(self.folds, choices, self.parts)):
            if (place, choice.floats) not in self.judged:
                self.judged[place, choice.floats] = self.judge.found(fold.build(choice), part)
            of_folds.append(
                {
                    "variant": choice.variant,
                    "layers_in_float": len(choice.floats),
                    "held_out": self.compare({place: share}),
                }
            )
        choice = self.whole.choose(share)
        if choice.floats not in self.written:
            net = self.whole.build(choice)
            matches = self.judge.matches(self.judge.found(net, self.some), self.some)
            self.written[choice.floats] = (choice, net, paired(self.whole.reference, matches, self.settings.seed))
        return {
            "least_share": share,
            "share": self.judge.share(choice.floats),
            "layers_in_float": len(choice.floats),
            "held_out": self.compare(dict.fromkeys(range(len(self.parts)), share)),
            "written": self.written[choice.floats][2],
            "folds": of_folds,
        }

    def compare(self, shares):
        """The paired comparison on the parts `shares` (place -> share), each judged by the choice that has not seen it."""
        pictures = sum((self.parts[place] for place in shares), [])
        found = sum((self.fold_found(place, share) for place, share in shares.items()), [])
        return paired(self.judge.float_matches(pictures), self.judge.matches(found, pictures), self.settings.seed)

    def share_by_others(self, place, rounds):
        """The share that the held-out pictures of all folds but `place` pick."""
        others = [
            {"least_share": entry["least_share"],
             "held_out": self.compare({fold: entry["least_share"] for fold in range(len(self.parts)) if fold != place})}
            for entry in rounds
        ]
        return taken(others, self.settings.budget)["least_share"]

    def run(self):
        """(choice on all pictures, its network, results as a dict)."""
        budget, rounds = self.settings.budget, []
        naive = self.naive()
        for share in SHARES:
            entry = self.measure(share)
            if entry is not None:
                rounds.append(entry)
                held, written = entry["held_out"], entry["written"]
                self.judge.say(
                    f"at least {100 * share:.0f} % of the multiplications in 8 bits, {100 * entry['share']:.0f} % are: "
                    f"{held['difference_points']:+.2f} points on held-out pictures [{held['interval_points'][0]:+.2f}, "
                    f"{held['interval_points'][1]:+.2f}], {written['difference_points']:+.2f} of the network chosen on all"
                )
            best = taken(rounds, budget)
            figures = _figures(best)
            if lower_end(*figures) <= budget or (share <= ENOUGH and point_loss(*figures) <= budget):
                break
        shares = {place: self.share_by_others(place, rounds) for place in range(len(self.parts))}
        by_others = self.compare(shares)
        final, net, written = self.written[self.whole.choose(best["least_share"]).floats]
        promise = lower_end(best["held_out"], written, by_others)
        return final, net, {
            "naive": naive,
            "rounds": rounds,
            "held_out": {**best["held_out"], "least_share": best["least_share"], "folds": best["folds"]},
            "share_by_others": {**by_others, "shares": list(shares.values())},
            "all": written,
            "promised_points": promise,
            "bound_kept": promise <= budget,
            # Either figure alone is unlucky at times: only both together say that the budget cannot be kept.
            "within_budget": promise <= budget or min(point_loss(best["held_out"]), point_loss(written)) <= budget,
        }


def _mean_drifts(drifts):
    """Layer -> (drift, decibels), each the mean over those of the dicts `drifts` that know the layer."""
    known = {name: [of_fold[name] for of_fold in drifts if name in of_fold] for of_fold in drifts for name in of_fold}
    return {name: tuple(float(np.mean(column)) for column in zip(*measured)) for name, measured in known.items()}
