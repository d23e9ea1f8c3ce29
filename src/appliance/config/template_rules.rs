// SPDX-License-Identifier: Apache-2.0
//! The rules of `source_templates`: each gives a source, whatever values its parameters have.

use super::section::Section;
use super::template::{SOURCE_KEYS, SourceTemplate, placeholder};
use super::yaml::map::Map;
use super::{analytics, detector, source};

/// Addresses of which a parameter may be a part. In all others it would be part of a path, or of elements to be run.
const MAY_VARY: [&str; 5] = ["rtsp://", "rtsps://", "v4l2://", "csi://", "synthetic://"];

/// Records what is wrong with the templates `maps`. They are compared with `detector` as the sources of the file are.
pub(super) fn check(maps: &[Map<'_>], detector: Option<&Map<'_>>) {
    let mut names: Vec<String> = Vec::new();
    for map in maps {
        let Some(template) = SourceTemplate::from_map(map) else {
            continue;
        };
        check_address(map, &template);
        if names.contains(&template.name) {
            let what = format!("`{}` is the name of an earlier template", template.name);
            map.invalid("name", &what, Some("choose another name"));
        }
        if let Some(detector) = detector {
            check_against(map, &template, detector);
        }
        names.push(template.name);
    }
}

/// Records what the detector never gives: with it, what commands add would count nothing.
fn check_against(map: &Map<'_>, template: &SourceTemplate, detector: &Map<'_>) {
    if let Some(keys) = map.get("source").and_then(|node| node.map(SOURCE_KEYS)) {
        analytics::check_objects(std::slice::from_ref(&keys), detector);
        source::check_filters(std::slice::from_ref(&keys), detector);
    }
    if let Ok(example) = template.example(0) {
        let name = format!("the template `{}`", template.name);
        detector::check_scripted(detector, &name, &example.uri);
    }
}

/// Records parameters that the address does not have or may not have, and values that give no source.
fn check_address(map: &Map<'_>, template: &SourceTemplate) {
    let uri = template.uri();
    let may_vary = MAY_VARY.iter().any(|scheme| uri.starts_with(scheme));
    if !template.parameters.is_empty() && !may_vary {
        let what = format!(
            "parameters can be part of an address that begins with {}, and of nothing else",
            MAY_VARY.join(", ")
        );
        map.invalid("parameters", &what, Some("leave the parameters out"));
        return;
    }
    for parameter in &template.parameters {
        if !uri.contains(&placeholder(&parameter.name)) {
            let what = format!(
                "the address has no {} for the parameter",
                placeholder(&parameter.name)
            );
            map.invalid("source", &what, None);
            return;
        }
    }
    for end in [0, 1] {
        if let Err(error) = template.example(end) {
            map.invalid("source", &format!("gives no source: {error}"), None);
            return;
        }
    }
}
