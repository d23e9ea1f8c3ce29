"""Which layers stay in float: chosen by measurement, and the choice itself judged on pictures it has not seen.

On a set of pictures: variants (how ranges are cut, biases corrected or not) compete by the drift of detections; with the
best of them, the drift when each suspect alone is in 8 bits gives their order; suspects go to float, worst first, until
the drift is below a level; then large layers in float are tried in 8 bits again.

Drift decides here and not average precision, which over some dozens of pictures scatters by a point: the best of many
tries would be the luckiest. Precision sets the level: in two-fold cross-validation the whole choice, calibration included,
is made on one half and judged on the other, and the other way round; the network to write is chosen with the same level
on all pictures. The highest level is taken at which both keep the budget, and that network and the mean of both figures
keep it with a margin: either figure alone is lucky at times, and a network at the edge of its budget is over it on the
next pictures. So one number is picked by the pictures that judge, out of a short list; the figures of all levels tried are
in the report.
"""
from dataclasses import dataclass, field

import numpy as np

from . import accuracy, calibration, errors, network, qdq
from .spec import Mistake

# How many suspects are in float, step by step.
STEPS = (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 256)
# Pictures on which one suspect's drift is measured: their order settles early, the number of runs is suspects times this.
DRIFT_PICTURES = 6
# Pictures on which the variants compete by drift; there are few of them, and they lie close together.
VARIANT_PICTURES = 12
# Pictures over which a layer's own error is averaged; each gives hundreds of numbers for every channel.
ERROR_PICTURES = 10
# Share of the layers that are in float while variants compete: where one layer ruins all, no variant shows its worth.
WORST_SHARE = 0.05
# Layers whose drift is measured, those with the largest errors of their own: a layer that rounds well ruins nothing. On the
# CPU all: what lies between two chosen layers is rounded too, and no error of one layer tells of that.
SUSPECTS = {"tensorrt": 40, "cpu": None}
# Float layers that are tried in 8 bits again, largest first, if they are worth this share of all multiplications.
SECOND_CHANCES = 20
WORTH = 0.01
# Levels of drift, highest first. Networks that keep a point of AP lie around 0.1.
LEVELS = (0.25, 0.2, 0.16, 0.13, 0.115, 0.1, 0.09, 0.08, 0.075, 0.07, 0.065, 0.06, 0.055, 0.05, 0.045, 0.04, 0.03, 0.02, 0.01)
# Share of the budget that the network which is written may lose, and that it and the held-out pictures may lose in the mean:
# stopping at the first level that does it favors luck a little. The held-out figure alone scatters more, since each fold
# chooses and calibrates on a part of the pictures: it need only keep the budget.
MARGIN = 0.8
BOOTSTRAP_ROUNDS = 1000


@dataclass
class Settings:
    methods: tuple
    target: str
    budget: float  # points of AP, 0..100
    score_threshold: float
    nms_iou: float
    calibration_pictures: int
    seed: int
    threads: int
    reduce_range: bool = False
    correct_biases: bool = True


@dataclass
class Choice:
    """Which layers are in float, and how that was come by."""

    variant: str
    floats: tuple  # names of the layers in float, worst first
    drift: float
    steps: list = field(default_factory=list)  # (layers in float, drift)


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
            )
        count = min(judge.settings.calibration_pictures, len(some))
        chosen = np.random.default_rng(judge.settings.seed).permutation(len(some))[:count]
        self.calibration = [some[index] for index in sorted(chosen)]
        self.histograms = calibration.Histograms.collect(
            judge.float_network, judge.writer.tensors(), self.calibration, judge.progress
        )
        self.variants = self._variants()
        self.sample = self.calibration[:VARIANT_PICTURES]
        self.sample_raw = judge.float_network.over(self.sample, judge.float_network.raw)
        self.drifts, self.order, self.tried = None, None, {}

    def _variants(self):
        """Name -> (ranges, corrections), and `self.errors`: layer -> its own relative error, the least of all methods."""
        judge, settings = self.judge, self.judge.settings
        ranges = {method: self.histograms.ranges(method, judge.writer.symmetric, judge.writer.through) for method in settings.methods}
        own = {name: self._errors(given) for name, given in ranges.items()}
        self.taken = None
        if len(ranges) > 1:
            ranges["mixed"], self.taken = errors.best_ranges(judge.writer, ranges, own)
            own["mixed"] = self._errors(ranges["mixed"])
        last = own[list(own)[-1]]
        self.errors = {name: float(np.minimum(squares, 1.0).mean()) for name, (_, squares) in last.items()}
        variants = {name: (given, None) for name, given in ranges.items()}
        if settings.correct_biases:
            weighted = {layer.name for layer in judge.writer.layers if layer.weight}
            for name, given in ranges.items():
                corrections = {layer: mean for layer, (mean, _) in own[name].items() if layer in weighted}
                variants[f"{name}+bias"] = (given, corrections)
        return variants

    def _errors(self, ranges):
        judge = self.judge
        return errors.measure(judge.float_network, judge.writer, ranges, self.calibration[:ERROR_PICTURES], judge.progress)

    def drift(self, chosen, variant, most):
        """(drift, decibels) of the network with the layers `chosen` in 8 bits, over `most` pictures of the sample."""
        net = self.judge.network(chosen, self.variants[variant])
        raws = list(zip(self.sample_raw, net.over(self.sample[:most], net.raw)))
        decode = self.judge.decoder.decode
        drifts = [network.drift(decode(a), decode(b)) for a, b in raws]
        return float(np.mean(drifts)), float(np.mean([network.signal_to_noise(a, b) for a, b in raws]))

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
            # Only the best are worth a second run with corrected biases.
            compete([f"{name}+bias" for name in self.order[:2] if f"{name}+bias" in self.variants])
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

    def choose(self, level):
        """The choice with the fewest layers in float whose drift is at most `level`, or the one with the least drift."""
        variant, drifts, judge = self.rank()[0], self.suspects(), self.judge
        order = sorted(drifts, key=lambda name: -drifts[name][0])
        order += [name for name in self.by_own_error() if name not in drifts]
        steps = []

        def attempt(floats):
            floats = tuple(floats)
            if floats not in self.tried:  # A lower level comes by here again.
                chosen = [name for name in order if name not in floats]
                self.tried[floats] = self.drift(chosen, variant, VARIANT_PICTURES)[0]
                judge.say(f"{self.name}: {len(floats)} of {len(order)} layers in float, {variant}: drift {self.tried[floats]:.4f}")
            steps.append((len(floats), self.tried[floats]))
            return Choice(variant, floats, self.tried[floats], steps)

        tried = []
        for count in [step for step in STEPS if step < len(order)]:
            best = attempt(order[:count])
            tried.append(best)
            if best.drift <= level:
                break
        else:
            return min(tried, key=lambda choice: choice.drift)
        macs = {layer.name: layer.macs for layer in judge.writer.layers}
        worth = [name for name in best.floats if macs[name] >= WORTH * sum(macs.values())]
        for name in sorted(worth, key=lambda name: -macs[name])[:SECOND_CHANCES]:
            again = attempt([other for other in best.floats if other != name])
            if again.drift <= level:
                best = again
        return best

    def build(self, choice):
        """The network of a choice."""
        names = [layer.name for layer in self.judge.writer.layers if layer.name not in choice.floats]
        return self.judge.network(names, self.variants[choice.variant])


class Judge:
    """Builds and measures networks; what all folds share."""

    def __init__(self, model, layers, spec, decoder, settings, progress, say):
        """`progress(what, done, of)` is called often, `say(sentence)` where something was measured."""
        self.spec, self.decoder, self.settings, self.progress, self.say = spec, decoder, settings, progress, say
        self.writer = qdq.Writer(model, layers, settings.target, settings.reduce_range)
        self.float_network = network.Network(model, spec, decoder, settings.threads)
        self.float_found = {}

    def network(self, chosen, variant):
        """The network with the layers `chosen` (names) in 8 bits; `variant`: (ranges, corrections)."""
        return network.Network(self.writer.write(chosen, *variant), self.spec, self.decoder, self.settings.threads)

    def found(self, net, some):
        return net.found(some, self.settings.score_threshold, self.settings.nms_iou)

    def matches(self, found, some):
        return accuracy.Matches(found, some, len(self.spec.labels))

    def float_matches(self, some):
        """The float network's matches. Each picture is run once."""
        missing = [picture for picture in some if picture.name not in self.float_found]
        for picture, found in zip(missing, self.found(self.float_network, missing)):
            self.float_found[picture.name] = found
        return self.matches([self.float_found[picture.name] for picture in some], some)


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


def losses(entry):
    """Points of AP that a round lost: (on held-out pictures, by the network to write or None if that was not measured)."""
    written = entry.get("written")
    return -entry["difference_points"], written and -written["difference_points"]


def taken(rounds, budget):
    """(round, whether it ends the search), of the rounds so far, highest level first: the first that keeps the budget as
    MARGIN says; else the one that loses least in its worse figure, of those with both figures if there are any."""
    measured = [entry for entry in rounds if "written" in entry]
    for entry in measured:
        held, written = losses(entry)
        if held <= budget and max(written, (held + written) / 2) <= MARGIN * budget:
            return entry, True
    return min(measured or rounds, key=lambda entry: max(loss for loss in losses(entry) if loss is not None)), False


def cross_validated(judge, some, fold_count):
    """(choice on all pictures, its network, the fold of all pictures, results as a dict). The level is the one that
    `taken` names; `within_budget` is false when not even that keeps the budget."""
    settings = judge.settings
    parts = folds_of(some, fold_count, settings.seed)
    # A fold is chosen on all parts but its own and judged on its own.
    training = [[p for other in parts if other is not part for p in other] for part in parts]
    folds = [Fold(judge, pictures, f"fold {place + 1}") for place, pictures in enumerate(training)]
    whole = Fold(judge, some, "all")
    # The order of suspects for the final choice is the mean of what the folds measured, each on its own pictures.
    whole.drifts = _mean_drifts([fold.suspects() for fold in folds])
    names = [layer.name for layer in judge.writer.layers]
    naive_matches = judge.matches(judge.found(judge.network(names, whole.variants[settings.methods[0]]), some), some)
    result = {"naive": paired(whole.reference, naive_matches, settings.seed), "rounds": []}
    held_pictures = sum(parts, [])
    reference = judge.float_matches(held_pictures)
    judged, written = {}, {}

    def written_at(level):
        """The network to write if this were the level, measured once."""
        choice = whole.choose(level)
        if choice.floats not in written:
            net = whole.build(choice)
            measured = paired(whole.reference, judge.matches(judge.found(net, some), some), settings.seed)
            written[choice.floats] = (choice, net.model, measured)
        return written[choice.floats]

    for level in LEVELS:
        choices = [fold.choose(level) for fold in folds]
        if all((place, choice.floats) in judged for place, choice in enumerate(choices)):
            continue  # The same networks as one level above.
        of_folds = []
        for place, (fold, choice, part) in enumerate(zip(folds, choices, parts)):
            if (place, choice.floats) not in judged:
                judged[place, choice.floats] = judge.found(fold.build(choice), part)
            matches = judge.matches(judged[place, choice.floats], part)
            of_folds.append(
                {
                    "variant": choice.variant,
                    "layers_in_float": len(choice.floats),
                    "drift": choice.drift,
                    "held_out": paired(judge.float_matches(part), matches, settings.seed),
                }
            )
        found = sum((judged[place, choice.floats] for place, choice in enumerate(choices)), [])
        held = paired(reference, judge.matches(found, held_pictures), settings.seed)
        entry = {"level": level, **held, "folds": of_folds}
        if losses(entry)[0] <= settings.budget:
            choice, _, measured = written_at(level)
            entry["written"] = {"layers_in_float": len(choice.floats), **measured}
        result["rounds"].append(entry)
        judge.say(
            f"drift at most {level}: {held['difference_points']:+.2f} points on held-out pictures "
            f"[{held['interval_points'][0]:+.2f}, {held['interval_points'][1]:+.2f}]"
            + (f", {entry['written']['difference_points']:+.2f} of the network chosen on all" if "written" in entry else "")
        )
        if taken(result["rounds"], settings.budget)[1]:
            break
    best, _ = taken(result["rounds"], settings.budget)
    final, model, result["all"] = written_at(best["level"])
    result["cross_validated"] = best
    result["within_budget"] = all(-result[key]["difference_points"] <= settings.budget for key in ("cross_validated", "all"))
    return final, model, whole, result


def _mean_drifts(drifts):
    """Layer -> (drift, decibels), each the mean over those of the dicts `drifts` that know the layer."""
    known = {name: [of_fold[name] for of_fold in drifts if name in of_fold] for of_fold in drifts for name in of_fold}
    return {name: tuple(float(np.mean(column)) for column in zip(*measured)) for name, measured in known.items()}
