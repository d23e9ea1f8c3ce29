// SPDX-License-Identifier: Apache-2.0
//! Sources that a command has added from a template of the configuration.

use std::collections::BTreeMap;

use jetwatch_config::{Config, SourceConfig};

/// The template of a source that a command added.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FromTemplate {
    pub(crate) template: String,
    pub(crate) parameters: BTreeMap<String, String>,
}

impl FromTemplate {
    /// The source named `name`, from the templates of `config`, or why there is none.
    pub(crate) fn source(&self, name: &str, config: &Config) -> Result<SourceConfig, String> {
        let templates = &config.source_templates;
        let found = templates.iter().find(|known| known.name == self.template);
        let template = found.ok_or_else(|| {
            let names: Vec<&str> = templates.iter().map(|known| known.name.as_str()).collect();
            format!(
                "there is no such template; source_templates has: {}",
                names.join(", ")
            )
        })?;
        let source = template.source(name, &self.parameters);
        source.map_err(|error| error.to_string())
    }
}
