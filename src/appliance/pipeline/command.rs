//! What commands do: sources of the configuration's templates join, and leave again. Sources of the file are the file's:
//! no command removes or changes one.

use std::collections::BTreeMap;

use jetwatch_config::{Config, MAX_SOURCES, SourceConfig};
use jetwatch_publish::{Command, CommandListener, EmbeddedBroker, PublishError, Reply};

use super::Pipeline;
use super::analytics::unknown_labels_of;
use super::control::ReceivedCommand;
use super::sinks::with_bound_address;
use super::track::TrackMessage;

/// How a source came that is not in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FromTemplate {
    pub(super) template: String,
    pub(super) parameters: BTreeMap<String, String>,
}

impl FromTemplate {
    /// The source named `name`, by the templates of `config`, or why there is none.
    pub(super) fn source(&self, name: &str, config: &Config) -> Result<SourceConfig, String> {
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

impl Pipeline {
    /// Starts to listen where the configuration allows it.
    pub(super) fn start_command_listener(
        &self,
        broker: Option<&EmbeddedBroker>,
    ) -> Result<Option<CommandListener>, PublishError> {
        let Some(mqtt) = &self.config.publish.mqtt else {
            return Ok(None);
        };
        if !self.config.commands.enabled {
            return Ok(None);
        }
        let on_payload = self.control.command_handler(self.messages.clone());
        CommandListener::start(
            &with_bound_address(mqtt, broker),
            &self.config.device,
            on_payload,
        )
        .map(Some)
    }

    /// Carries out what was sent, and answers.
    pub(super) fn execute(&mut self, sent: ReceivedCommand) {
        let mut what = String::new();
        let reply = match sent {
            Ok((id, command)) => {
                let name = command.name().to_owned();
                what = format!("{} {name}", command.command_name());
                let error = self.apply(command).err();
                let name = Some(name);
                Reply { id, name, error }
            }
            Err(reply) => reply,
        };
        match &reply.error {
            Some(error) => log::warn!(
                "command refused: {what}{}{error}",
                if what.is_empty() { "" } else { ": " }
            ),
            None => log::info!("command carried out: {what}"),
        }
        let _ = self.messages.send(TrackMessage::CommandReply(reply));
    }

    fn apply(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::AddSource {
                name,
                template,
                parameters,
            } => self.add_from_template(
                &name,
                FromTemplate {
                    template,
                    parameters,
                },
            ),
            Command::RemoveSource { name } => self.remove_added(&name),
        }
    }

    fn add_from_template(&mut self, name: &str, from_template: FromTemplate) -> Result<(), String> {
        if self.sources.len() >= MAX_SOURCES {
            return Err(format!(
                "there are {MAX_SOURCES} sources, which is as many as can be"
            ));
        }
        let source = from_template.source(name, &self.config)?;
        let is_taken = |known: &str| known.eq_ignore_ascii_case(name);
        if self
            .sources
            .iter()
            .any(|member| is_taken(&member.config.name))
        {
            return Err("there is a source of this name (case is ignored)".to_owned());
        }
        if let Some((key, label)) = unknown_labels_of(&source, &self.source_defaults.labels).first()
        {
            return Err(format!("{key}: the model has no label `{label}`"));
        }
        self.add_source(&source)
            .map_err(|error| error.to_string())?;
        if let Some(member) = self.sources.last_mut() {
            member.from_template = Some(from_template);
        }
        Ok(())
    }

    fn remove_added(&mut self, name: &str) -> Result<(), String> {
        let found = self
            .sources
            .iter()
            .find(|member| member.config.name == name);
        match found.map(|member| &member.from_template) {
            None => return Err("there is no source of this name".to_owned()),
            Some(None) => {
                return Err(
                    "this source is in the configuration file: take it out there and reload"
                        .to_owned(),
                );
            }
            Some(Some(_)) => {}
        }
        let late = self.remove_sources(&[name.to_owned()]);
        match late.is_empty() {
            true => Ok(()),
            false => {
                Err("it does not end; it was left behind, and nothing it gives is taken".to_owned())
            }
        }
    }
}
