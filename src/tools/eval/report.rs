// SPDX-License-Identifier: Apache-2.0
//! The results of `jetwatch eval`, as JSON and as tables.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use jetwatch_tables::TextTable;

use crate::annotations::{Category, Truth};
use crate::bootstrap::{ConfidenceIntervals, Interval};
use crate::classes::{ClassMap, MatchedBy};
use crate::covered::CoveredCategories;
use crate::evaluation::{Accuracy, ClassAccuracy, Evaluation, OperatingPoint};
use crate::evaluator::EvaluationRun;

/// Everything that was measured. Field names carry their units; shares are 0 to 1.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    /// Version of the format: 1.
    pub(crate) version: u32,
    /// Name of the model.
    pub(crate) model: &'a str,
    /// Images evaluated.
    pub(crate) images: usize,
    /// Objects in them, without crowds, of the evaluated classes.
    pub(crate) objects: usize,
    /// Crowds in them.
    pub(crate) crowds: usize,
    /// Skipped images.
    pub(crate) unreadable: Vec<Unreadable<'a>>,
    /// `name` or `request`.
    pub(crate) matched_by: &'static str,
    /// Which label is which category.
    pub(crate) classes: Vec<ClassPair<'a>>,
    /// Minimum score for precision, recall and F1.
    pub(crate) score_threshold: f32,
    /// Minimum score of any detection.
    pub(crate) least_score: f32,
    /// Maximum number of detections of one image.
    pub(crate) most_detections: usize,
    /// Number of bootstrap samples.
    pub(crate) draws: u32,
    /// Seed of the bootstrap.
    pub(crate) seed: u64,
    /// Images evaluated in parallel.
    pub(crate) workers: usize,
    /// Threads of the network for each.
    pub(crate) threads_per_worker: usize,
    /// Images per second, each through every network.
    pub(crate) images_per_s: f64,
    /// One for each precision.
    pub(crate) networks: Vec<Network<'a>>,
}

/// A skipped image.
#[derive(Debug, Serialize)]
pub(crate) struct Unreadable<'a> {
    image_id: i64,
    file_name: &'a str,
    reason: &'a str,
}

/// A label and its category.
#[derive(Debug, Serialize)]
pub(crate) struct ClassPair<'a> {
    /// In the model; `None`: the model has no label for this category, and it is not evaluated.
    label: Option<&'a str>,
    /// In the annotations; `None`: detections with this label are ignored.
    category: Option<&'a str>,
    category_id: Option<i64>,
    /// Categories of the annotations that are evaluated as this one, by `covers` of the model.
    covers: &'a [String],
}

/// One precision.
#[derive(Debug, Serialize)]
pub(crate) struct Network<'a> {
    /// The precision's name; `precision` is a share of boxes here.
    #[serde(rename = "name")]
    precision: &'a str,
    /// Mean time of one image inside the network, in ms.
    infer_ms: f64,
    #[serde(flatten)]
    accuracy: Accuracy,
    #[serde(flatten)]
    operating: OperatingPoint,
    /// 95 % intervals.
    interval: Option<ConfidenceIntervals>,
    /// This network minus the first, with 95 % intervals on the same draws; `None` for the first itself.
    against_first: Option<Difference<'a>>,
    classes: Vec<ClassAccuracy>,
}

/// One network minus the first.
#[derive(Debug, Serialize)]
pub(crate) struct Difference<'a> {
    first: &'a str,
    ap: Option<f64>,
    ap50: Option<f64>,
    interval: Option<ConfidenceIntervals>,
}

/// The skipped images, by name.
pub(crate) fn unreadable<'a>(run: &'a EvaluationRun, truth: &'a Truth) -> Vec<Unreadable<'a>> {
    let named = run.unreadable.iter().map(|(place, reason)| {
        let image = &truth.images[*place];
        Unreadable {
            image_id: image.id,
            file_name: &image.file_name,
            reason,
        }
    });
    named.collect()
}

/// How labels and categories were matched.
pub(crate) fn matched_by(classes: &ClassMap) -> &'static str {
    match classes.by {
        MatchedBy::Name => "name",
        MatchedBy::Order => "order",
    }
}

/// Labels with their categories, then categories without a label.
pub(crate) fn classes<'a>(
    labels: &'a [String],
    categories: &'a [Category],
    classes: &ClassMap,
    covered: &'a [CoveredCategories],
) -> Vec<ClassPair<'a>> {
    let of_label = labels.iter().zip(0..).map(|(label, class)| {
        let category = classes.category(class).map(|index| &categories[index]);
        let covered = covered.iter().find(|covered| covered.class == class);
        ClassPair {
            label: Some(label),
            category: category.map(|category| category.name.as_str()),
            category_id: category.map(|category| category.id),
            covers: covered.map_or(&[], |covered| &covered.names),
        }
    });
    let untaught = categories
        .iter()
        .enumerate()
        .filter(|(index, _)| classes.label(*index).is_none())
        .map(|(_, category)| ClassPair {
            label: None,
            category: Some(&category.name),
            category_id: Some(category.id),
            covers: &[],
        });
    of_label.chain(untaught).collect()
}

/// Per second.
pub(crate) fn rate(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// Numbers of each network.
pub(crate) fn networks<'a>(
    precisions: &'a [String],
    evaluations: Vec<Evaluation>,
    run: &EvaluationRun,
    intervals: Option<&(Vec<ConfidenceIntervals>, Vec<ConfidenceIntervals>)>,
) -> Vec<Network<'a>> {
    let first = evaluations.first().map(|evaluation| evaluation.accuracy);
    let numbered = precisions.iter().zip(evaluations).enumerate();
    let network = |(index, (precision, evaluation)): (usize, (&'a String, Evaluation))| {
        let accuracy = evaluation.accuracy;
        let minus = |own: Option<f64>, first: Option<f64>| Some(own? - first?);
        let against_first = first.filter(|_| index > 0).map(|first| Difference {
            first: &precisions[0],
            ap: minus(accuracy.ap, first.ap),
            ap50: minus(accuracy.ap50, first.ap50),
            interval: intervals.map(|(_, differences)| differences[index - 1]),
        });
        Network {
            precision,
            infer_ms: run.infer_ms[index],
            accuracy,
            operating: evaluation.operating,
            interval: intervals.map(|(own, _)| own[index]),
            against_first,
            classes: evaluation.classes,
        }
    };
    numbered.map(network).collect()
}

impl Report<'_> {
    /// As tables for a terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}: {} images with {} objects and {} crowds; {:.1} images/s with {} workers.",
            self.model, self.images, self.objects, self.crowds, self.images_per_s, self.workers
        );
        self.write_classes(&mut text);
        text.push('\n');
        self.write_averages(&mut text);
        self.write_operating(&mut text);
        self.write_differences(&mut text);
        self.write_each_class(&mut text);
        text
    }

    fn write_classes(&self, text: &mut String) {
        let pairs = self
            .classes
            .iter()
            .filter_map(|pair| Some((pair.label?, pair.category?)));
        let (same, other): (Vec<_>, Vec<_>) =
            pairs.partition(|(label, category)| label == category);
        let _ = writeln!(
            text,
            "Labels and categories are matched by {}: {} have the same name.",
            self.matched_by,
            same.len()
        );
        let renamed = other
            .iter()
            .map(|(label, category)| format!("{label} = {category}"));
        let covering = self.classes.iter().filter(|pair| !pair.covers.is_empty());
        let covering = covering.filter_map(|pair| Some((pair.label?, pair.covers.join(" + "))));
        let covering = covering.map(|(label, names)| format!("{label} = {names}"));
        let lines = [
            ("Covered by a label of the model", covering.collect()),
            ("Spelled differently", renamed.collect::<Vec<_>>()),
            (
                "Not annotated, not evaluated",
                self.unmatched(|pair| pair.category.is_none().then_some(pair.label?)),
            ),
            (
                "Unknown to the model, not evaluated",
                self.unmatched(|pair| pair.label.is_none().then_some(pair.category?)),
            ),
        ];
        for (what, names) in lines {
            if !names.is_empty() {
                let _ = writeln!(text, "  {what}: {}", names.join(", "));
            }
        }
    }

    fn unmatched<'a>(&'a self, name: impl Fn(&'a ClassPair<'a>) -> Option<&'a str>) -> Vec<String> {
        let names = self.classes.iter().filter_map(name);
        names.map(str::to_owned).collect()
    }

    fn write_averages(&self, text: &mut String) {
        type Row = (&'static str, fn(&Accuracy) -> Option<f64>);
        let rows: [Row; 12] = [
            ("AP     overlap 0.50 to 0.95", |a| a.ap),
            ("AP50   overlap 0.50", |a| a.ap50),
            ("AP75   overlap 0.75", |a| a.ap75),
            ("AP     small, to 32×32", |a| a.ap_small),
            ("AP     medium, to 96×96", |a| a.ap_medium),
            ("AP     large", |a| a.ap_large),
            ("AR1    1 detection per class", |a| a.ar_1),
            ("AR10   10 detections", |a| a.ar_10),
            ("AR100  100 detections", |a| a.ar_100),
            ("AR     small", |a| a.ar_small),
            ("AR     medium", |a| a.ar_medium),
            ("AR     large", |a| a.ar_large),
        ];
        self.write_row(text, "", |network| network.precision.to_owned());
        for (name, read) in rows {
            self.write_row(text, name, |network| number(read(&network.accuracy)));
        }
        if self
            .networks
            .iter()
            .any(|network| network.interval.is_some())
        {
            let interval = |of: fn(&ConfidenceIntervals) -> Interval| {
                move |network: &Network<'_>| {
                    network
                        .interval
                        .as_ref()
                        .map_or_else(String::new, |spread| {
                            let interval = of(spread);
                            format!("{:.3} to {:.3}", interval.low, interval.high)
                        })
                }
            };
            self.write_row(text, "AP     95 % of draws", interval(|spread| spread.ap));
            self.write_row(text, "AP50   95 % of draws", interval(|spread| spread.ap50));
        }
    }

    fn write_operating(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "\nAt a score of {} and an overlap of 0.50:",
            self.score_threshold
        );
        self.write_row(text, "Precision", |network| {
            number(network.operating.precision)
        });
        self.write_row(text, "Recall", |network| number(network.operating.recall));
        self.write_row(text, "F1", |network| number(network.operating.f1));
        self.write_row(text, "Right, wrong, missed", |network| {
            let OperatingPoint {
                right,
                wrong,
                missed,
                ..
            } = network.operating;
            format!("{right}, {wrong}, {missed}")
        });
        self.write_row(text, "Network, ms per image", |network| {
            format!("{:.2}", network.infer_ms)
        });
    }

    fn write_row(&self, text: &mut String, name: &str, cell: impl Fn(&Network<'_>) -> String) {
        let cells: String = self
            .networks
            .iter()
            .map(|network| format!("  {:>16}", cell(network)))
            .collect();
        let _ = writeln!(text, "{name:<28}{cells}");
    }

    fn write_differences(&self, text: &mut String) {
        for network in &self.networks {
            let Some(difference) = &network.against_first else {
                continue;
            };
            let _ = write!(
                text,
                "\n{} minus {}: AP {}",
                network.precision,
                difference.first,
                signed(difference.ap)
            );
            if let Some(spread) = &difference.interval {
                let (low, high) = (spread.ap.low, spread.ap.high);
                let _ = write!(
                    text,
                    ", in 95 % of {} draws of images between {low:+.4} and {high:+.4}",
                    self.draws
                );
            }
            let _ = writeln!(text, "; AP50 {}.", signed(difference.ap50));
        }
    }

    fn write_each_class(&self, text: &mut String) {
        for network in &self.networks {
            let classes = network.classes.iter().filter(|class| class.objects > 0);
            let classes: Vec<&ClassAccuracy> = classes.collect();
            let table = TextTable::of(&classes)
                .left(network.precision, |class| class.name.as_str())
                .right("objects", |class| class.objects.to_string())
                .right("AP", |class| number(class.ap))
                .right("AP50", |class| number(class.ap50))
                .right("precision", |class| number(class.operating.precision))
                .right("recall", |class| number(class.operating.recall))
                .right("F1", |class| number(class.operating.f1))
                .build();
            let _ = writeln!(text, "\n{table}");
        }
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"))
}

fn signed(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:+.4}"))
}
