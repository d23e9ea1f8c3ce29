//! The value of a key `model`: the path of a model folder, or `bundle:NAME/FOLDER` for one that `jetwatch model install` keeps.

use std::path::{Path, PathBuf};

use super::yaml::map::Map;
use super::yaml::node::Value;

/// Folder in which installed bundles are kept.
pub const BUNDLES_FOLDER: &str = "/var/lib/jetwatch/models";

/// Beginning of the text that names a bundle.
const SCHEME: &str = "bundle:";

/// Folder of the models inside a bundle.
const MODELS: &str = "models";

/// Name of the model folder where none is given.
const DEFAULT_FOLDER: &str = "model";

/// The model folder at the key `model`, where it need not be given.
pub(super) fn read_optional(map: &Map<'_>) -> Option<Option<PathBuf>> {
    map.optional("model", || read(map))
}

/// The model folder at the key `model`.
pub(super) fn read(map: &Map<'_>) -> Option<PathBuf> {
    let node = map.get("model")?;
    let Value::Text(text) = node.value() else {
        return map.path("model");
    };
    let Some(name) = text.strip_prefix(SCHEME) else {
        return map.path("model");
    };
    let path = bundle_folder(name);
    if path.is_none() {
        let expected = "bundle:NAME or bundle:NAME/FOLDER, each of lower-case letters, digits, `-` and `_`, beginning with a letter";
        node.reject(Some(expected.to_owned()), None);
    }
    path
}

/// The model folder of `NAME` or `NAME/FOLDER`; `None`: the form is wrong.
fn bundle_folder(text: &str) -> Option<PathBuf> {
    let (name, folder) = text.split_once('/').unwrap_or((text, DEFAULT_FOLDER));
    let is_name = |name: &str| {
        let is_inner =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        name.bytes().next().is_some_and(|c| c.is_ascii_lowercase()) && name.bytes().all(is_inner)
    };
    let is_valid = is_name(name) && is_name(folder);
    is_valid.then(|| {
        Path::new(BUNDLES_FOLDER)
            .join(name)
            .join(MODELS)
            .join(folder)
    })
}

#[cfg(test)]
mod tests {
    use crate::Config;

    use super::*;

    #[test]
    fn bundle_is_a_model_folder_of_the_store() {
        let text = "sources: [{name: gate, uri: rtsp://camera/1}]
detector: {model: bundle:street}
secondary: [{name: colour, model: bundle:street/colour-2}, {name: age, model: here/age}]
";
        let config = Config::from_str("/etc/jetwatch/box.yaml", text).expect("valid");
        assert_eq!(
            config.detector.model.as_deref(),
            Some(Path::new("/var/lib/jetwatch/models/street/models/model"))
        );
        let models = config
            .secondary
            .iter()
            .map(|network| network.model.as_path());
        let models: Vec<&Path> = models.collect();
        let expected = [
            "/var/lib/jetwatch/models/street/models/colour-2",
            "/etc/jetwatch/here/age",
        ];
        assert_eq!(models, expected.map(Path::new));
    }
}
