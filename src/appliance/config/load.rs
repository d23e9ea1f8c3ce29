//! From the located tree to the checked [`Config`]: the whole file, the device's name and the log; sources, detector,
//! publishing and the machine's settings each have a file of their own below.
//!
//! Every section is read to its end before anything is given up, so that one run shows all problems. What holds between
//! sections is checked here.

mod detector;
mod publish;
mod scene;
mod secondary;
mod source;
mod template;
mod tracker;
mod tune;

use std::path::Path;

use log::LevelFilter;

pub(super) use self::source::one_source;

use super::document::Document;
use super::error::ConfigError;
use super::keys;
use super::map::Map;
use super::places::Places;
use super::tree::{Entry, Located, Place, Tree};
use super::{Backend, CommandsConfig, Config, LogConfig, MAX_SOURCES, Secret, SourceUri};

/// Longest device or source name, so that topics stay far below MQTT's limit.
const MAX_NAME_CHARS: usize = 64;

impl Config {
    /// Reads and checks the file at `path`. Relative paths in it count from its folder.
    ///
    /// # Errors
    /// All problems of the file, each with its line; or that it cannot be read.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::load_with(path, &[])
    }

    /// As [`load`](Self::load), with `settings` in the place of what the file says: keys by their path, such as
    /// `detector.workers`, with their values as they would stand in the file.
    ///
    /// # Errors
    /// As [`load`](Self::load); keys that do not exist come with the nearest that does.
    pub fn load_with(path: &Path, settings: &[(String, String)]) -> Result<Self, ConfigError> {
        Self::from_changed(Document::read(path)?, settings)
    }

    /// As [`load`](Self::load) for text that is there already. `label` names it in problems, and relative paths count
    /// from the folder of `label`.
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
    pub fn from_str_with(
        label: &str,
        text: &str,
        settings: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        Self::from_changed(Document::parse(label, text)?, settings)
    }

    /// The configuration of a command line without a file: one source, named `source`, and every other key at its
    /// default, so the embedded broker on 127.0.0.1:1883. Relative paths count from the working directory.
    ///
    /// With a `model`, the backend is [`Backend::Auto`]. Without one, it is [`Backend::Scripted`], which only a synthetic
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
        let text = |text: &str| Tree::Text(text.to_owned());
        let source = unplaced_map([("name", text("source")), ("uri", text(uri))]);
        let mut sections = vec![(
            "sources",
            Tree::List(vec![Located {
                place: None,
                tree: source,
            }]),
        )];
        match model {
            Some(model) => sections.push(("detector", unplaced_map([("model", text(model))]))),
            // Any other source runs into the missing model, which is what its user has to be told.
            None if uri
                .trim_start()
                .to_ascii_lowercase()
                .starts_with("synthetic:") =>
            {
                sections.push(("detector", unplaced_map([("backend", text("scripted"))])));
            }
            None => {}
        }
        let document = Document::unplaced("command line", unplaced_map(sections));
        Self::from_changed(document, settings)
    }

    fn from_changed(
        mut document: Document,
        settings: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        for (key, value) in settings {
            document.set(key, value);
        }
        Self::from_document(document)
    }

    fn from_document(document: Document) -> Result<Self, ConfigError> {
        let places = Places::of(&document);
        let read = |map: Map<'_>| root(&map, places);
        let config = document.root().map(keys::ROOT).and_then(read);
        document.finish(config)
    }
}

fn unplaced_map(entries: impl IntoIterator<Item = (&'static str, Tree)>) -> Tree {
    let place: Place = None;
    let entry = |(key, tree)| Entry {
        key: String::from(key),
        place,
        value: Located { place, tree },
    };
    Tree::Map(entries.into_iter().map(entry).collect())
}

fn root(map: &Map<'_>, places: Places) -> Option<Config> {
    let device = device(map);
    let sources = map.sections("sources").and_then(|maps| {
        if maps.len() > MAX_SOURCES {
            let what = format!(
                "found {} sources, expected {MAX_SOURCES} at most",
                maps.len()
            );
            map.unfit(
                "sources",
                &what,
                Some("give the others to a daemon on another machine"),
            );
        }
        let sources = source::sources(&maps);
        if let Some(detector) = map.section("detector") {
            for source in sources.iter().flatten() {
                let who = format!("the source `{}`", source.name);
                check_scripted(&detector, &who, &source.uri);
            }
            scene::check_objects(&maps, &detector);
            source::check_filters(&maps, &detector);
        }
        // Ends as `None` when one of them has a problem, after all were read.
        sources.into_iter().collect::<Option<Vec<_>>>()
    });
    let detector = map
        .section("detector")
        .and_then(|map| detector::detector(&map));
    let tracker = map
        .section("tracker")
        .and_then(|map| tracker::tracker(&map));
    let of_detector = detector
        .as_ref()
        .map_or(&[][..], |detector| &detector.classes);
    let secondary = secondary::secondary(map, of_detector);
    let publish = map
        .section("publish")
        .and_then(|map| publish::publish(&map, device.as_deref()));
    let commands = map.section("commands").and_then(|map| {
        let enabled = map.boolean("enabled")?;
        Some(CommandsConfig { enabled })
    });
    let templates = match map.has("source_templates") {
        true => map
            .sections("source_templates")
            .and_then(|maps| template::templates(&maps, map.section("detector").as_ref())),
        false => Some(Vec::new()),
    };
    let tune = map.section("tune").and_then(|map| tune::tune(&map));
    let log = map.section("log").and_then(|map| log_section(&map));
    Some(Config {
        device: device?,
        sources: sources?,
        detector: detector?,
        tracker: tracker?,
        secondary: secondary?,
        publish: publish?,
        commands: commands?,
        source_templates: templates?,
        tune: tune?,
        log: log?,
        places,
    })
}

fn device(map: &Map<'_>) -> Option<String> {
    if !map.has("device") {
        return Some(device_from_host_name(
            &rustix::system::uname().nodename().to_string_lossy(),
        ));
    }
    let device = map.text("device")?;
    if device.chars().count() > MAX_NAME_CHARS || !device.chars().all(is_device_char) {
        return map.get("device")?.expect(&form_of(map, "device"));
    }
    Some(device)
}

/// A host name as one topic level: what does not belong there becomes `-`.
fn device_from_host_name(host: &str) -> String {
    let device: String = host
        .chars()
        .take(MAX_NAME_CHARS)
        .map(|c| if is_device_char(c) { c } else { '-' })
        .collect();
    if device.is_empty() {
        "jetwatch".to_owned()
    } else {
        device
    }
}

fn is_device_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// The scripted detector repeats ground truth, which only synthetic sources have.
fn check_scripted(map: &Map<'_>, who: &str, uri: &SourceUri) {
    let scripted = || map.choice("backend", &detector::BACKENDS);
    if !map.has("backend") || scripted() != Some(Backend::Scripted) {
        return;
    }
    if !matches!(uri, SourceUri::Synthetic(_)) {
        let what =
            format!("scripted needs the ground truth of a synthetic source, and {who} has none");
        map.unfit(
            "backend",
            &what,
            Some("give a model and write backend: auto"),
        );
    }
}

fn log_section(map: &Map<'_>) -> Option<LogConfig> {
    let levels = [
        LevelFilter::Error,
        LevelFilter::Warn,
        LevelFilter::Info,
        LevelFilter::Debug,
        LevelFilter::Trace,
    ];
    let level = map.choice("level", &levels);
    let gst_debug = map
        .text("gst_debug")
        .and_then(|text| match is_gst_debug(&text) {
            true => Some(text),
            false => map.get("gst_debug")?.expect(&form_of(map, "gst_debug")),
        });
    Some(LogConfig {
        level: level?,
        gst_debug: gst_debug?,
    })
}

/// `LEVEL` or `CATEGORY:LEVEL`, separated by commas.
fn is_gst_debug(text: &str) -> bool {
    text.split(',').all(|part| {
        let (category, level) = part.rsplit_once(':').unwrap_or(("*", part));
        let is_category_char = |c: char| c.is_ascii_alphanumeric() || "-_*?.".contains(c);
        !category.is_empty()
            && category.chars().all(is_category_char)
            && level.len() == 1
            && level.bytes().all(|b| b.is_ascii_digit())
    })
}

/// The accepted form of a key in words.
fn form_of(map: &Map<'_>, name: &str) -> String {
    map.key(name).form.to_string()
}

/// The one of `password`, `password_file` and `password_env` that is given. Two of them are a problem, and so is one
/// without `user` or `user` without one.
fn credentials(map: &Map<'_>) -> (Option<String>, Option<Secret>) {
    const PLACES: [&str; 3] = ["password", "password_file", "password_env"];
    let given: Vec<_> = PLACES.into_iter().filter(|name| map.has(name)).collect();
    let user = map.text("user");
    let secrets = [
        map.secret("password").map(Secret::Inline),
        map.path("password_file").map(Secret::File),
        map.text("password_env")
            .and_then(|name| match is_variable_name(&name) {
                true => Some(Secret::env(&name, map.get("password_env")?.label())),
                false => map
                    .get("password_env")?
                    .expect(&form_of(map, "password_env")),
            }),
    ];
    if let [first, others @ ..] = given.as_slice() {
        for other in others {
            map.unfit(
                other,
                &format!("given beside {first}"),
                Some("keep one of them"),
            );
        }
        if !map.has("user") {
            map.unfit(first, "given without user", None);
        }
    } else if map.has("user") {
        let hint = "add password_file, password_env or password (\"\" for an empty one)";
        map.unfit("user", "given without a password", Some(hint));
    }
    (user, secrets.into_iter().flatten().next())
}

fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostname_becomes_one_topic_level() {
        for (host, wanted) in [
            ("xavier", "xavier"),
            ("gate north/1+#$", "gate-north-1---"),
            ("ümlaut.local", "-mlaut.local"),
            ("", "jetwatch"),
        ] {
            assert_eq!(device_from_host_name(host), wanted);
        }
        assert_eq!(
            device_from_host_name(&"x".repeat(100)).len(),
            MAX_NAME_CHARS
        );
    }

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
    fn gst_debug_accepts_variable_syntax() {
        for good in ["2", "*:2", "3,rtspsrc:5", "*:1,v4l2*:6,GST_CAPS:4"] {
            assert!(is_gst_debug(good), "{good}");
        }
        for bad in ["", "debug", "*:", ":2", "*:10", "*:2,", "a b:2", "*:-1"] {
            assert!(!is_gst_debug(bad), "{bad}");
        }
    }

    #[test]
    fn command_line_requires_model_unless_source_is_synthetic() {
        let config = Config::for_source("synthetic://traffic?seed=3", None).expect("complete");
        assert_eq!(config.detector.backend, Backend::Scripted);
        assert_eq!(config.sources[0].name, "source");

        let config = Config::for_source("a.mp4", Some("models/x")).expect("complete");
        assert_eq!(config.detector.backend, Backend::Auto);
        assert_eq!(
            config.detector.model.as_deref(),
            Some(Path::new("models/x"))
        );
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
            error.starts_with("command line: sources[0].uri: found \"ftp://a:***@b/c\""),
            "{error}"
        );
    }
}
