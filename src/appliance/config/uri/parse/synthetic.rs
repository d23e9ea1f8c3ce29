// SPDX-License-Identifier: Apache-2.0
//! `synthetic://traffic?seed=1&…`: the parameters of the built-in scene, which are the keys of [`SyntheticScene`].

use super::UriError;
use crate::schema::{KeySpec, ValueType, nearest};
use crate::section::{Section, from_value};
use crate::yaml::tree::YamlValue;
use crate::{SourceUri, SyntheticScene};

/// The parameters with their defaults.
///
/// # Errors
/// One for each parameter that is unknown or has a value that is not accepted.
pub(crate) fn parse(rest: &str) -> Result<SourceUri, Vec<UriError>> {
    let (scene, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut refusals = Vec::new();
    if scene != "traffic" {
        refusals.push(UriError::with_hint(
            "synthetic://traffic",
            "`traffic` is the only scene",
        ));
    }
    let mut given: Vec<(&'static str, YamlValue)> = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let names = || SyntheticScene::KEYS.iter().map(|key| key.name);
        let Some(key) = SyntheticScene::KEYS.iter().find(|key| key.name == name) else {
            let names_text = names().collect::<Vec<_>>().join(", ");
            let hint = nearest(name, names()).map(|near| format!("did you mean `{near}`?"));
            refusals.push(UriError {
                expected: format!("the parameters {names_text}"),
                hint,
            });
            continue;
        };
        if given.iter().any(|(known, _)| *known == name) {
            refusals.push(UriError::new(format!("the parameter `{name}` only once")));
        }
        match parameter_value(key, value) {
            Some(value) => given.push((key.name, value)),
            None => refusals.push(UriError::new(format!("`{name}` to be {}", key.value))),
        }
    }
    match refusals.is_empty() {
        true => Ok(SourceUri::Synthetic(from_value(YamlValue::map(given)))),
        false => Err(refusals),
    }
}

/// The value as the type of the key demands it.
fn parameter_value(key: &KeySpec, text: &str) -> Option<YamlValue> {
    match key.value {
        ValueType::Boolean => text.parse().ok().map(YamlValue::Boolean),
        ValueType::Integer { min, max, .. } => text
            .parse()
            .ok()
            .filter(|value| (min..=max).contains(value) && !text.starts_with('+'))
            .map(YamlValue::Integer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parsed, refused};
    use super::*;
    use crate::Pacing;

    #[test]
    fn synthetic_uri_is_parsed() {
        let default = SyntheticScene {
            seed: 1,
            objects: 8,
            width: 640,
            height: 360,
            fps: 30,
            frames: None,
            shake: 0,
            pacing: Pacing::Realtime,
        };
        assert_eq!(
            parsed("synthetic://traffic"),
            SourceUri::Synthetic(default.clone())
        );
        assert_eq!(
            parsed("synthetic://traffic?"),
            SourceUri::Synthetic(default)
        );
        let all = "synthetic://traffic?seed=9&objects=0&width=16&height=4320&fps=240&frames=5&shake=12&realtime=false";
        let scene = SyntheticScene {
            seed: 9,
            objects: 0,
            width: 16,
            height: 4320,
            fps: 240,
            frames: Some(5),
            shake: 12,
            pacing: Pacing::Unlimited,
        };
        assert_eq!(parsed(all), SourceUri::Synthetic(scene));
        // What is shown can be read again.
        assert_eq!(parsed(all).to_string(), all);
        #[rustfmt::skip]
        let cases = [
            ("synthetic://street", "`traffic` is the only scene"),
            ("synthetic://traffic?object=3", "did you mean `objects`?"),
            ("synthetic://traffic?fps=0", "`fps` to be a whole number of frames per second from 1 to 240"),
            ("synthetic://traffic?fps=+5", "`fps` to be"),
            ("synthetic://traffic?seed", "`seed` to be a whole number"),
            ("synthetic://traffic?realtime=no", "`realtime` to be true or false"),
            ("synthetic://traffic?fps=5&fps=6", "the parameter `fps` only once"),
        ];
        for (text, wanted) in cases {
            let found = refused(text);
            assert!(found.contains(wanted), "{text} gave {found}");
        }
        assert_eq!(refused("synthetic://x?fps=0&zones=1").lines().count(), 3);
    }
}
