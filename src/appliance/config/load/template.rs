//! `source_templates`: each with its parameters, and with a source that is one whatever values they have.

use super::super::map::Map;
use super::super::template::{Choices, SourceTemplate, TemplateParameter, placeholder};
use super::super::tree::{Located, Tree};
use super::{MAX_NAME_CHARS, scene, source};

/// Addresses that a parameter may be a part of. In all others it would be part of a path, or of elements to be run.
const MAY_VARY: [&str; 5] = ["rtsp://", "rtsps://", "v4l2://", "csi://", "synthetic://"];

/// The templates; `None` when one of them has a problem. What they ask for is held against `detector` as the sources of the file are.
pub(super) fn templates(
    maps: &[Map<'_>],
    detector: Option<&Map<'_>>,
) -> Option<Vec<SourceTemplate>> {
    let mut names: Vec<String> = Vec::new();
    let mut templates = Vec::new();
    for map in maps {
        let read = template(map);
        if let Some(template) = &read {
            if names.contains(&template.name) {
                let what = format!("`{}` is the name of an earlier template", template.name);
                map.unfit("name", &what, Some("choose another name"));
            }
            names.push(template.name.clone());
            if let Some(detector) = detector {
                check_against(map, template, detector);
            }
        }
        templates.push(read);
    }
    templates.into_iter().collect()
}

fn template(map: &Map<'_>) -> Option<SourceTemplate> {
    let name = name(map);
    let parameters = match map.has("parameters") {
        true => map.sections("parameters").and_then(|maps| {
            let parameters: Vec<_> = maps.iter().map(parameter).collect();
            parameters.into_iter().collect::<Option<Vec<_>>>()
        }),
        false => Some(Vec::new()),
    };
    let source = map.get("source")?;
    // Keys that no source has are told here, with their places.
    source.map(super::super::keys::TEMPLATE_SOURCE)?;
    let template = SourceTemplate {
        name: name?,
        parameters: parameters?,
        label: source.label().to_owned(),
        source: Located {
            place: None,
            tree: without_places(source.tree().clone()),
        },
    };
    is_sound(map, &template).then_some(template)
}

/// Records what the detector never gives: with it, what commands add would count nothing.
fn check_against(map: &Map<'_>, template: &SourceTemplate, detector: &Map<'_>) {
    let keys = map.get("source");
    if let Some(keys) = keys.and_then(|node| node.map(super::super::keys::TEMPLATE_SOURCE)) {
        scene::check_objects(std::slice::from_ref(&keys), detector);
        source::check_filters(std::slice::from_ref(&keys), detector);
    }
    if let Ok(example) = template.example(0) {
        let who = format!("the template `{}`", template.name);
        super::check_scripted(detector, &who, &example.uri);
    }
}

fn name(map: &Map<'_>) -> Option<String> {
    let name = map.text("name")?;
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.len() > MAX_NAME_CHARS || !name.chars().all(is_name_char) {
        return map.get("name")?.expect(&super::form_of(map, "name"));
    }
    Some(name)
}

fn parameter(map: &Map<'_>) -> Option<TemplateParameter> {
    let name = name(map);
    let values = map.texts("values")?;
    let (min, max) = (map.integer("min"), map.integer("max"));
    let choices = match (map.has("values"), min, max) {
        (true, None, None) if !values.is_empty() => Choices::Values(values),
        (false, Some(min), Some(max)) if min <= max => Choices::Numbers { min, max },
        _ => {
            let what = "a parameter has either values, or min and max with min no greater than max";
            map.unfit("name", what, None);
            return None;
        }
    };
    Some(TemplateParameter {
        name: name?,
        choices,
    })
}

/// Whether the template gives a source whatever its parameters are; records why not.
fn is_sound(map: &Map<'_>, template: &SourceTemplate) -> bool {
    let uri = template.uri();
    let may_vary = MAY_VARY.iter().any(|scheme| uri.starts_with(scheme));
    if !template.parameters.is_empty() && !may_vary {
        let what = format!(
            "parameters can be part of an address that begins with {}, and of nothing else",
            MAY_VARY.join(", ")
        );
        map.unfit("parameters", &what, Some("leave the parameters out"));
        return false;
    }
    for parameter in &template.parameters {
        if !uri.contains(&placeholder(&parameter.name)) {
            let what = format!(
                "the address has no {} for the parameter",
                placeholder(&parameter.name)
            );
            map.unfit("source", &what, None);
            return false;
        }
    }
    for end in [0, 1] {
        if let Err(error) = template.example(end) {
            map.unfit("source", &format!("gives no source: {error}"), None);
            return false;
        }
    }
    true
}

/// What is put together from it stands at no place in the file.
fn without_places(tree: Tree) -> Tree {
    let bare = |located: Located| Located {
        place: None,
        tree: without_places(located.tree),
    };
    match tree {
        Tree::List(items) => Tree::List(items.into_iter().map(bare).collect()),
        Tree::Map(mut entries) => {
            for entry in &mut entries {
                entry.place = None;
                let value = std::mem::replace(
                    &mut entry.value,
                    Located {
                        place: None,
                        tree: Tree::Null,
                    },
                );
                entry.value = bare(value);
            }
            Tree::Map(entries)
        }
        other => other,
    }
}
