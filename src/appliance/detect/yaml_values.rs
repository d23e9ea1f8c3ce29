// SPDX-License-Identifier: Apache-2.0
//! Readers of values that several keys of `model.yaml` have in common.

use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};

use jetwatch_config::{Map, Node};

/// Gives the text of a file in the model's folder; `None` when it cannot be read, which is reported elsewhere.
pub(super) type FileReader<'a> = &'a mut dyn FnMut(&Path) -> Option<String>;

/// Records what is wrong with a value that has the right form.
pub(super) fn invalid<T>(node: &Node<'_>, what: &str, expected: &str) -> Option<T> {
    node.report(what, Some(expected.to_owned()), None);
    None
}

/// Whether text has more than blanks: names are compared, and a blank one could not be seen in any message.
pub(super) fn is_filled(text: &str) -> bool {
    !text.trim().is_empty()
}

/// A text with more than blanks.
pub(super) fn non_empty<'d>(node: &Node<'d>, expected: &str) -> Option<&'d str> {
    let text = node.text(expected)?;
    match is_filled(text) {
        true => Some(text),
        false => node.type_error(expected),
    }
}

/// A path below the model's folder.
pub(super) fn inside(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let is_inside = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (is_filled(text) && is_inside).then(|| path.to_owned())
}

/// A path below the model's folder.
pub(super) fn relative_path(node: &Node<'_>) -> Option<PathBuf> {
    let expected = "a path inside the model's folder, without `..`";
    inside(node.text(expected)?).or_else(|| node.type_error(expected))
}

/// The numbers of a list, each within `range`.
pub(super) fn numbers_of(
    node: &Node<'_>,
    range: RangeInclusive<f64>,
    form: &str,
) -> Option<Vec<f32>> {
    let items = node.items(form)?;
    let numbers: Vec<Option<f64>> = items
        .iter()
        .map(|item| item.number(range.clone()))
        .collect();
    let numbers = numbers.into_iter().map(|number| Some(number? as f32));
    numbers.collect()
}

/// The reader of keys that depend on others: it reads nothing.
pub(super) fn elsewhere<T: Default>(_: &Map<'_>) -> Option<T> {
    Some(T::default())
}
