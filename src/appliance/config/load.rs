// SPDX-License-Identifier: Apache-2.0
//! From the YAML tree to the checked [`Config`], and the rules between its sections.
//!
//! Every section is read to its end even after a problem, so that one run shows all problems. The rules inside a section
//! stand with it.

use std::path::Path;

use super::error::ConfigError;
use super::section::Section;
use super::written::redacted;
use super::yaml::document::Document;
use super::yaml::map::Map;
use super::yaml::tree::{Spanned, YamlValue};
use super::{
    Config, MAX_SOURCES, analytics, camera_keys, detector, home_assistant, metrics, other_formats,
    placeholder, record, renamed, secondary, source, template_rules, web,
};

impl Config {
    /// Reads and checks the file at `path`. Relative paths in it count from its folder.
    ///
    /// # Errors
    /// All problems of the file, each with its line; or that it cannot be read.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::load_with(path, &[])
    }

    /// As [`load`](Self::load), with `settings` instead of the values in the file: keys by their path, such as
    /// `detector.workers`, with their values as they would stand in the file.
    ///
    /// # Errors
    /// As [`load`](Self::load); keys that do not exist come with the nearest that does.
    pub fn load_with(path: &Path, settings: &[(String, String)]) -> Result<Self, ConfigError> {
        Self::with_overrides(Document::read(path)?, settings)
    }

    /// The file at `path` as YAML, without passwords and other secrets: for who is to help with an installation.
    ///
    /// # Errors
    /// The file cannot be read, or is no YAML.
    pub fn redacted_yaml(path: &Path) -> Result<String, ConfigError> {
        Ok(redacted(&Document::read(path)?))
    }

    /// As [`load`](Self::load) for text that is there already. `label` names it in problems, and relative paths count
    /// from the folder of `label`.
    ///
    /// ```
    /// use jetwatch_config::Config;
    ///
    /// let text = "sources: [{name: gate, uri: rtsp://camera/1}]\ndetector: {model: models/x, worker: 2}\n";
    /// let error = Config::from_str("box.yaml", text).expect_err("one key is mistyped");
    /// assert!(error.to_string().starts_with("box.yaml:2: detector.worker: unknown key"));
    ///
    /// let config = Config::from_str("box.yaml", &text.replace("worker:", "workers:"))?;
    /// assert_eq!(config.sources[0].name, "gate");
    /// # Ok::<(), jetwatch_config::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// All problems of the text, each with its line.
    pub fn from_str(label: &str, text: &str) -> Result<Self, ConfigError> {
        Self::from_str_with(label, text, &[])
    }

    /// As [`load_with`](Self::load_with) for text that is there already.
    ///
    /// # Errors
    /// As [`load_with`](Self::load_with).
    pub(crate) fn from_str_with(
        label: &str,
        text: &str,
        settings: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        Self::with_overrides(Document::parse(label, text)?, settings)
    }

    /// The configuration of a command line without a file: one source, named `source`, and every other key at its
    /// default, so the embedded broker on 127.0.0.1:1883. Relative paths count from the working directory.
    ///
    /// With a `model`, the backend is [`Backend::Auto`](super::Backend::Auto). Without one, it is [`Backend::Scripted`](super::Backend::Scripted), which only a synthetic
    /// source can feed; for any other source the missing model is a problem. The caller may change the fields of the
    /// result, which are not checked again.
    ///
    /// # Errors
    /// What is wrong with `uri` or `model`; problems name the file `command line` and no line.
    pub fn for_source(uri: &str, model: Option<&str>) -> Result<Self, ConfigError> {
        Self::for_source_with(uri, model, &[])
    }

    /// As [`for_source`](Self::for_source), with other keys set as by [`load_with`](Self::load_with).
    ///
    /// # Errors
    /// As [`for_source`](Self::for_source) and [`load_with`](Self::load_with).
    pub fn for_source_with(
        uri: &str,
        model: Option<&str>,
        settings: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        Self::with_overrides(command_line(uri, model), settings)
    }

    fn with_overrides(
        mut document: Document,
        settings: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        for (key, value) in settings {
            document.set(key, value);
        }
        Self::from_document(document)
    }

    pub(super) fn from_document(mut document: Document) -> Result<Self, ConfigError> {
        placeholder::refuse(&mut document, Self::KEYS);
        let notes = renamed::apply(&mut document);
        let root = document.root();
        let config = root.map(Self::KEYS).and_then(|map| {
            check(&map);
            let mut config = Self::from_map(&map);
            resolve_secondary(&map, config.as_mut());
            metrics::check_port(&map, config.as_ref());
            web::check_port(&map, config.as_ref());
            if let Some(config) = &mut config {
                config.notes = notes;
            }
            config
        });
        document.finish(config)
    }
}

/// The document of a command line: one source, and a model or the scripted detector.
fn command_line(uri: &str, model: Option<&str>) -> Document {
    let text = |text: &str| YamlValue::Text(text.to_owned());
    let source = YamlValue::map([("name", text("source")), ("uri", text(uri))]);
    let mut sections = vec![(
        "sources",
        YamlValue::List(vec![Spanned::without_span(source)]),
    )];
    match model {
        Some(model) => sections.push(("detector", YamlValue::map([("model", text(model))]))),
        // Any other source runs into the missing model, which is reported.
        None if uri
            .trim_start()
            .to_ascii_lowercase()
            .starts_with("synthetic:") =>
        {
            sections.push(("detector", YamlValue::map([("backend", text("scripted"))])));
        }
        None => {}
    }
    Document::without_spans("command line", YamlValue::map(sections))
}

/// Records what does not hold between sections.
fn check(map: &Map<'_>) {
    let detector = map.section("detector");
    if let Some(sources) = map.list("sources") {
        check_count(map, sources.len());
        source::check_names(&sources);
        if let Some(detector) = &detector {
            check_sources(&sources, detector);
        }
        other_formats::check_sources(map, &sources);
    }
    if let Some(templates) = map.list("source_templates") {
        template_rules::check(&templates, detector.as_ref());
    }
    if let (Some(networks), Some(tracker)) = (map.list("secondary"), map.section("tracker")) {
        secondary::check_appearance(&networks, &tracker);
    }
    home_assistant::check(map);
    let sources = map.list("sources").unwrap_or_default();
    record::check(map, &sources, detector.as_ref());
}

fn check_count(map: &Map<'_>, count: usize) {
    if count > MAX_SOURCES {
        let what = format!("found {count} sources, expected {MAX_SOURCES} at most");
        let hint = "give the others to a daemon on another machine";
        map.invalid("sources", &what, Some(hint));
    }
}

/// Records what the detector cannot give the sources.
fn check_sources(sources: &[Map<'_>], detector: &Map<'_>) {
    for map in sources {
        if let (Some(name), Some(uri)) = (map.text("name"), camera_keys::parse_address(map)) {
            detector::check_scripted(detector, &format!("the source `{name}`"), &uri);
        }
    }
    analytics::check_objects(sources, detector);
    source::check_filters(sources, detector);
}

/// Sets which network each secondary one runs on, which is known only once all were read.
fn resolve_secondary(map: &Map<'_>, config: Option<&mut Config>) {
    let networks = config.map_or(&mut [][..], |config| &mut config.secondary);
    if let (Some(maps), Some(detector)) = (map.list("secondary"), map.section("detector")) {
        secondary::resolve(networks, &maps, &detector);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Backend, SourceUri};
    use super::*;

    #[test]
    fn too_many_sources_are_rejected_with_count() {
        let file = |count: usize| {
            let sources: String = (0..count)
                .map(|n| format!("  - name: cam{n}\n    uri: synthetic://traffic\n"))
                .collect();
            let text = format!("sources:\n{sources}detector:\n  backend: scripted\n");
            Config::from_str("f.yaml", &text)
        };
        assert_eq!(
            file(MAX_SOURCES).expect("as many as may be").sources.len(),
            64
        );
        let error = file(200).expect_err("too many").to_string();
        assert!(
            error.starts_with("f.yaml:1: sources: found 200 sources, expected 64 at most"),
            "{error}"
        );
    }

    #[test]
    fn command_line_requires_model_unless_source_is_synthetic() {
        let config = Config::for_source("synthetic://traffic?seed=3", None).expect("complete");
        assert_eq!(config.detector.backend, Backend::Scripted);
        assert_eq!(config.sources[0].name, "source");

        let config = Config::for_source("a.mp4", Some("models/x")).expect("complete");
        assert_eq!(config.detector.backend, Backend::Auto);
        let wanted = Some(Path::new("models/x"));
        assert_eq!(config.detector.model.as_deref(), wanted);
        assert_eq!(config.sources[0].uri, SourceUri::File("a.mp4".into()));

        let error = Config::for_source("a.mp4", None)
            .expect_err("no model")
            .to_string();
        assert!(
            error.starts_with("command line: detector.model: missing, expected"),
            "{error}"
        );

        let error =
            Config::for_source("ftp://a:hunter2@b/c", Some("m")).expect_err("unknown scheme");
        let error = error.to_string();
        assert!(
            error.starts_with("command line: sources[0].uri: found \"ftp://***@b/c\""),
            "{error}"
        );
    }
}
