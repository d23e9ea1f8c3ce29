// SPDX-License-Identifier: Apache-2.0
//! Sweeps: keys of the configuration with lists of values, and all combinations of these, or their values one after the other.

use anyhow::{Context, ensure};

/// Keys of the configuration, each with one value.
pub(crate) type Settings = Vec<(String, String)>;

/// `KEY=VALUE` for each of `settings`.
pub(crate) fn setting_texts(settings: &[(String, String)]) -> Vec<String> {
    let text = |(key, value): &(String, String)| format!("{key}={value}");
    settings.iter().map(text).collect()
}

/// A key of the configuration and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Path of the key, such as `detector.workers`, or its last part alone.
    pub key: String,
    /// At least one value, each as written in the file.
    pub values: Vec<String>,
}

impl Axis {
    /// Reads `KEY=VALUE,VALUE…`. A value that holds a comma stands in brackets or quotes: `uri="a,b",c`.
    ///
    /// # Errors
    /// The key or a value is empty.
    pub(crate) fn read(text: &str) -> anyhow::Result<Self> {
        let (key, values) = text.split_once('=').unwrap_or_default();
        let axis = Self {
            key: key.trim().to_owned(),
            values: split(values),
        };
        let is_complete = !axis.key.is_empty() && axis.values.iter().all(|value| !value.is_empty());
        let wanted = "expected KEY=VALUE,VALUE…, such as detector.batch_size=1,2,4";
        Some(axis)
            .filter(|_| is_complete)
            .with_context(|| format!("--sweep {text}: {wanted}"))
    }
}

/// Splits at commas outside of quotes, brackets and braces.
fn split(values: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut quote) = (0_usize, None);
    for c in values.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// Every combination of the values of `axes`, each as keys with values; the last key changes fastest. Without an axis there
/// is one combination, an empty one.
///
/// # Errors
/// Two axes have the same key.
pub(crate) fn cartesian(axes: &[Axis]) -> anyhow::Result<Vec<Settings>> {
    check_keys(axes)?;
    let mut points = vec![Vec::new()];
    for axis in axes {
        let with = |point: &Settings, value: &String| {
            [point.as_slice(), &[(axis.key.clone(), value.clone())]].concat()
        };
        let all = points
            .iter()
            .flat_map(|point| axis.values.iter().map(move |value| with(point, value)));
        points = all.collect();
    }
    Ok(points)
}

/// The first value of each of `axes`, and then one key after the other with its further values, which it keeps.
///
/// # Errors
/// Two axes have the same key.
pub(crate) fn one_by_one(axes: &[Axis]) -> anyhow::Result<Vec<Settings>> {
    check_keys(axes)?;
    let first = |axis: &Axis| Some((axis.key.clone(), axis.values.first()?.clone()));
    let mut point: Settings = axes.iter().filter_map(first).collect();
    let mut points = vec![point.clone()];
    for (index, axis) in axes.iter().enumerate() {
        for value in axis.values.iter().skip(1) {
            point[index].1.clone_from(value);
            points.push(point.clone());
        }
    }
    Ok(points)
}

fn check_keys(axes: &[Axis]) -> anyhow::Result<()> {
    for (index, Axis { key, .. }) in axes.iter().enumerate() {
        let is_new = axes[..index].iter().all(|other| other.key != *key);
        ensure!(
            is_new,
            "--sweep {key} is given twice; write all its values into one: {key}=VALUE,VALUE…"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_parses_key_and_values() {
        let axis = Axis::read("detector.batch_size=1, 2,4").expect("an axis");
        assert_eq!(axis.key, "detector.batch_size");
        assert_eq!(axis.values, ["1", "2", "4"]);
        let axis = Axis::read("detector.classes=[car, bus],[person],\"a,b\"").expect("an axis");
        assert_eq!(axis.values, ["[car, bus]", "[person]", "\"a,b\""]);
        for wrong in ["", "a", "=1", "a=", "a=1,,2"] {
            assert!(Axis::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn axes_form_cartesian_product() {
        let axes = ["a=1,2", "b=x,y,z"].map(|text| Axis::read(text).expect("an axis"));
        let shown = |points: Vec<Vec<(String, String)>>| -> Vec<String> {
            let name = |point: &Vec<(String, String)>| {
                let parts: Vec<_> = point.iter().map(|(k, v)| format!("{k}{v}")).collect();
                parts.join(" ")
            };
            points.iter().map(name).collect()
        };
        assert_eq!(
            shown(cartesian(&axes).expect("different keys")),
            ["a1 bx", "a1 by", "a1 bz", "a2 bx", "a2 by", "a2 bz"]
        );
        assert_eq!(
            shown(one_by_one(&axes).expect("different keys")),
            ["a1 bx", "a2 bx", "a2 by", "a2 bz"]
        );
        assert_eq!(cartesian(&[]).expect("no keys"), [vec![]]);
        let twice = [axes[0].clone(), axes[0].clone()];
        assert!(
            cartesian(&twice)
                .expect_err("twice")
                .to_string()
                .contains("--sweep a is given twice")
        );
    }
}
