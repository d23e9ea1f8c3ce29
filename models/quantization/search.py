"""Which layers stay in float: chosen by measurement, and the choice itself judged on pictures it has not seen.

On a set of pictures: variants (how ranges are cut, biases corrected or not) compete by the drift of detections; with the
best of them, the drift when each suspect alone is in 8 bits gives their order; suspects go to float, worst first,
until the loss of average precision is within the target; then large layers in float are tried in 8 bits again.
Average precision over some dozens of pictures scatters by half a point and more, and the best of many tries is the
luckiest: so variants are told apart by drift alone, and the loss that decides is the mean over several variants.
Two-fold cross-validation makes the whole choice, calibration included, on one half and judges it on the other, and the
other way round. The network that is written is chosen on all."""
from dataclasses import dataclass, field

import numpy as np

from . import accuracy, calibration, errors, network, qdq
from .spec import Mistake

# How many suspects are in float, step by step.
STEPS = (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256)
# Pictures on which one suspect's drift is measured: their order settles early, the number of runs is suspects times this.
DRIFT_PICTURES = 6
# Pictures on which the variants compete by drift; there are few of them, and they lie close together.
VARIANT_PICTURES = 12
# Pictures over which a layer's own error is averaged; each gives hundreds of numbers for every channel.
ERROR_PICTURES = 10
# Share of the layers that are in float while variants compete: where one layer ruins all, no variant shows its worth.
WORST_SHARE = 0.05
# Variants over which the loss with one number of float layers is averaged.
RIVALS = 3
# Layers whose drift is measured, those with the largest errors of their own: a layer that rounds well ruins nothing.
SUSPECTS = 40
# Float layers that are tried in 8 bits again, largest first, if they are worth this share of all multiplications, and how
# much more drift that may cost.
SECOND_CHANCES = 3
WORTH = 0.02
MORE_DRIFT = 1.05
# What a choice may lose on the pictures it is made on, as a share of the budget, and tighter where held-out pictures say so.
MARGINS = (0.5, 0.25, 0.1)
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
    """A network in 8 bits, and how it was come by."""

    variant: str
    floats: list  # names of the layers in float, worst first
    model: object
    found: list  # detections of the pictures it was chosen on
    loss: float  # points of AP on them
    steps: list = field(default_factory=list)  # (layers in float, variant, AP)


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
        self.drifts, self.order, self.attempts = None, None, {}

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
            variant, names = self.rank()[0], self.by_own_error()[:SUSPECTS]
            self.drifts = {}
            for index, name in enumerate(names):
                self.drifts[name] = self.drift([name], variant, DRIFT_PICTURES)
                self.judge.progress(f"{self.name}: one layer in 8 bits", index + 1, len(names))
        return self.drifts

    def choose(self, margin):
        """The choice whose loss on these pictures is at most `margin` of the budget, or the least loss tried."""
        judge, allowed = self.judge, margin * self.judge.settings.budget
        variants, drifts = self.rank()[:RIVALS], self.suspects()
        order = sorted(drifts, key=lambda name: -drifts[name][0])
        order += [name for name in self.by_own_error() if name not in drifts]
        steps, tried = [], []

        def attempt(floats, variant):
            # A tighter margin comes by here again.
            if (variant, tuple(floats)) in self.attempts:
                tried.append(self.attempts[variant, tuple(floats)])
                return tried[-1]
            net = judge.network([name for name in order if name not in floats], self.variants[variant])
            found = judge.found(net, self.pictures)
            ap = judge.matches(found, self.pictures).average_precision()
            steps.append((len(floats), variant, ap))
            judge.say(f"{self.name}: {len(floats)} of {len(order)} layers in float, {variant}: AP {ap:.4f} (float {self.float_ap:.4f})")
            tried.append(Choice(variant, list(floats), net.model, found, (self.float_ap - ap) * 100, steps))
            self.attempts[variant, tuple(floats)] = tried[-1]
            return tried[-1]

        for count in [step for step in STEPS if step < len(order)]:
            best = attempt(order[:count], variants[0])
            # Far off the target no other variant would bring the mean within it.
            if best.loss > allowed + 2 * judge.settings.budget:
                continue
            losses = [best.loss] + [attempt(order[:count], variant).loss for variant in variants[1:]]
            if np.mean(losses) <= allowed and best.loss <= judge.settings.budget:
                break
        else:
            return min(tried, key=lambda choice: choice.loss)
        macs = {layer.name: layer.macs for layer in judge.writer.layers}
        worth = [name for name in best.floats if macs[name] >= WORTH * sum(macs.values())]
        for name in sorted(worth, key=lambda name: -macs[name])[:SECOND_CHANCES]:
            without = [other for other in best.floats if other != name]
            drift = [
                self.drift([other for other in order if other not in floats], best.variant, VARIANT_PICTURES)[0]
                for floats in (best.floats, without)
            ]
            if drift[1] <= MORE_DRIFT * drift[0]:
                again = attempt(without, best.variant)
                if again.loss <= judge.settings.budget:
                    best = again
        return best


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


def cross_validated(judge, some, fold_count):
    """(choice on all pictures, their fold, results as a dict). The choice within the budget on held-out pictures with the widest
    margin that does it; else the last one, with `within_budget` false."""
    settings = judge.settings
    parts = folds_of(some, fold_count, settings.seed)
    # A fold is chosen on all parts but its own and judged on its own.
    training = [[p for other in parts if other is not part for p in other] for part in parts]
    folds = [Fold(judge, pictures, f"fold {place + 1}") for place, pictures in enumerate(training)]
    whole = Fold(judge, some, "all")
    names = [layer.name for layer in judge.writer.layers]
    naive = judge.network(names, whole.variants[settings.methods[0]])
    naive_matches = judge.matches(judge.found(naive, some), some)
    result = {"naive": paired(whole.reference, naive_matches, settings.seed), "rounds": []}
    for margin in MARGINS:
        held_found, held_pictures, of_folds = [], [], []
        for fold, part in zip(folds, parts):
            choice = fold.choose(margin)
            net = network.Network(choice.model, judge.spec, judge.decoder, settings.threads)
            found = judge.found(net, part)
            held_found += found
            held_pictures += part
            of_folds.append(
                {
                    "variant": choice.variant,
                    "layers_in_float": len(choice.floats),
                    "loss_on_own_points": choice.loss,
                    "held_out": paired(judge.float_matches(part), judge.matches(found, part), settings.seed),
                }
            )
        held = paired(judge.float_matches(held_pictures), judge.matches(held_found, held_pictures), settings.seed)
        held["folds"] = of_folds
        result["rounds"].append({"margin_points": margin * settings.budget, **held})
        if -held["difference_points"] <= settings.budget:
            break
    # The order of suspects for the final choice is the mean of what the folds measured, each on its own pictures.
    whole.drifts = {
        name: tuple(float(np.mean([fold.drifts[name][place] for fold in folds if name in fold.drifts])) for place in (0, 1))
        for name in names
        if any(name in fold.drifts for fold in folds)
    }
    final = whole.choose(margin)
    result["cross_validated"] = result["rounds"][-1]
    result["all"] = paired(whole.reference, judge.matches(final.found, some), settings.seed)
    result["within_budget"] = (
        -result["cross_validated"]["difference_points"] <= settings.budget and final.loss <= settings.budget
    )
    return final, whole, result
