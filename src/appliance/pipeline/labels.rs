// SPDX-License-Identifier: Apache-2.0
//! Compares the labels that a configuration names with those of its model, once that is loaded.

use jetwatch_config::{Config, Problem, SourceConfig};
use jetwatch_detect as detect;
use jetwatch_types::{Classes, LabelGroup};

use crate::error::suggestion;

/// Names in the sources and the source templates of `config` that are neither labels nor groups of `classes`, each with its
/// place in the file.
pub fn unknown_labels(config: &Config, classes: &Classes) -> Vec<Problem> {
    let sources = config.sources.iter().enumerate();
    let sources = sources.map(|(index, source)| (format!("sources[{index}]"), source.clone()));
    let templates = config.source_templates.iter().enumerate();
    let templates = templates.filter_map(|(index, template)| {
        let place = format!("source_templates[{index}].source");
        Some((place, template.example_source()?))
    });
    let names = classes.names();
    let of_source = |(place, source): (String, SourceConfig)| {
        let problem = |(key, label): (String, String)| {
            config.problem(
                &format!("{place}.{key}"),
                format!("the model has no label `{label}`"),
                Some(suggestion(&detect::suggest_labels(&names, &label), &names)),
            )
        };
        let unknown = unknown_labels_of(&source, classes);
        unknown.into_iter().map(problem).collect::<Vec<Problem>>()
    };
    sources.chain(templates).flat_map(of_source).collect()
}

/// Names in `source` that are neither labels nor groups of `classes`, each with its key: `classes`, and the `objects` of its
/// rules.
pub(crate) fn unknown_labels_of(source: &SourceConfig, classes: &Classes) -> Vec<(String, String)> {
    let kept = source.classes.iter();
    let kept = kept.filter(|label| !classes.contains(label));
    let kept = kept.map(|label| ("classes".to_owned(), label.as_str()));
    let unknown = kept.chain(source.rules.unknown_objects(classes));
    unknown
        .map(|(key, label)| (key, label.to_owned()))
        .collect()
}

/// Labels of the groups of `config` that the model does not have, one problem for each group. A group may have labels of other
/// networks, but one of them may also be misspelled.
pub fn missing_group_labels(config: &Config, classes: &Classes) -> Vec<Problem> {
    let known = classes.labels();
    let of_group = |group: &LabelGroup| {
        let is_missing = |label: &&String| classes.label_for(label).is_none();
        let missing = group.labels.iter().filter(is_missing);
        let missing: Vec<&String> = missing.collect();
        if missing.is_empty() {
            return None;
        }
        let near = missing.iter().flat_map(|label| {
            let near = detect::suggest_labels(known, label);
            near.into_iter().filter(|label| !group.includes(label))
        });
        let mut near: Vec<String> = near.collect();
        near.dedup();
        let listed: Vec<String> = missing.iter().map(|label| format!("`{label}`")).collect();
        let (noun, pronoun) = match listed.len() {
            1 => ("label", "it"),
            _ => ("labels", "them"),
        };
        let hint = match near.is_empty() {
            true => format!("the group is used without {pronoun}"),
            false => format!("did you mean {}?", near.join(" or ")),
        };
        let what = format!("the model has no {noun} {}", listed.join(", "));
        let key = format!("detector.groups.{}", group.name);
        Some(config.problem(&key, what, Some(hint)))
    };
    config.detector.groups.iter().filter_map(of_group).collect()
}

/// One line about the labels of `config` that the model has under COCO's other name, at the first of them; `None` where
/// there are none. They mean the classes with these names.
pub fn renamed_labels(config: &Config, classes: &Classes) -> Option<Problem> {
    let renamed: Vec<(&String, String)> = config
        .renamed_labels()
        .iter()
        .filter_map(|(key, label)| {
            let own = classes.label_for(label).filter(|own| own != label)?;
            Some((key, format!("`{label}` is `{own}`")))
        })
        .collect();
    let (first, _) = renamed.first()?;
    let mut pairs: Vec<&str> = renamed.iter().map(|(_, pair)| pair.as_str()).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let what = format!(
        "in the model {}: COCO's older and newer names of a class are read as the same",
        pairs.join(", ")
    );
    Some(config.problem(first, what, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_labels_are_listed_in_one_line_with_the_models_names() {
        let text = "sources:\n  - name: a\n    uri: synthetic://traffic\n    classes: [sofa, motorbike]\n\
                    detector:\n  backend: scripted\n  groups: {seat: [sofa, tv]}\n";
        let config = Config::from_str("f.yaml", text).expect("a good file");
        let line = |labels: &[&str]| {
            let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
            let classes = Classes::new(&labels, &config.detector.groups);
            assert!(unknown_labels(&config, &classes).is_empty());
            Some(renamed_labels(&config, &classes)?.to_string())
        };
        assert_eq!(line(&["motorbike", "sofa", "tv"]), None);
        let wanted = "f.yaml:4: sources[0].classes: in the model `motorbike` is `motorcycle`, `sofa` is `couch`: COCO's older \
                      and newer names of a class are read as the same";
        assert_eq!(
            line(&["motorcycle", "couch", "tv"]).as_deref(),
            Some(wanted)
        );
    }

    #[test]
    fn missing_labels_of_groups_are_listed_with_their_line() {
        let text = "sources: [{name: a, uri: synthetic://traffic}]\ndetector:\n  backend: scripted\n  groups:\n    \
                    vehicle: [car, bus, lorry, tram]\n    pet: [dog]\n    rider: [bicycl, bus stop]\n";
        let config = Config::from_str("f.yaml", text).expect("a good file");
        let labels = ["car", "bus", "dog", "bicycle"].map(str::to_owned);
        let classes = Classes::new(&labels, &config.detector.groups);
        let problems: Vec<String> = missing_group_labels(&config, &classes)
            .iter()
            .map(ToString::to_string)
            .collect();
        let wanted = [
            "f.yaml:5: detector.groups.vehicle: the model has no labels `lorry`, `tram`; the group is used without them",
            "f.yaml:7: detector.groups.rider: the model has no labels `bicycl`, `bus stop`; did you mean bicycle?",
        ];
        assert_eq!(problems, wanted);
    }
}
