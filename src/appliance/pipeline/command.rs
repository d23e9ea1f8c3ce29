//! What commands do: sources of the configuration's templates join, and leave again. Sources of the file are the file's:
//! no command removes or changes one.

use std::collections::BTreeMap;

use jetwatch_config::{Config, MAX_SOURCES, SourceConfig};
use jetwatch_publish::{Command, CommandListener, EmbeddedBroker, PublishError, Reply};

use super::Pipeline;
use super::follow::News;
use super::requests::Sent;
use super::scene::labels_without_class;
use super::sinks::reachable;

/// How a source came that is not in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Made {
    pub(super) template: String,
    pub(super) parameters: BTreeMap<String, String>,
}

impl Made {
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
    pub(super) fn listen(
        &self,
        broker: Option<&EmbeddedBroker>,
    ) -> Result<Option<CommandListener>, PublishError> {
        let Some(mqtt) = &self.config.publish.mqtt else {
            return Ok(None);
        };
        if !self.config.commands.enabled {
            return Ok(None);
        }
        let hear = self.requests.hearing(self.news.clone());
        CommandListener::start(&reachable(mqtt, broker), &self.config.device, hear).map(Some)
    }

    /// Carries out what was sent, and answers.
    pub(super) fn obey(&mut self, sent: Sent) {
        let mut what = String::new();
        let reply = match sent {
            Ok((id, command)) => {
                let name = command.name().to_owned();
                what = format!("{} {name}", command.word());
                let error = self.carry_out(command).err();
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
        let _ = self.news.send(News::Reply(reply));
    }

    fn carry_out(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::AddSource {
                name,
                template,
                parameters,
            } => self.add_made(
                &name,
                Made {
                    template,
                    parameters,
                },
            ),
            Command::RemoveSource { name } => self.remove_made(&name),
        }
    }

    fn add_made(&mut self, name: &str, made: Made) -> Result<(), String> {
        if self.sources.len() >= MAX_SOURCES {
            return Err(format!(
                "there are {MAX_SOURCES} sources, which is as many as can be"
            ));
        }
        let source = made.source(name, &self.config)?;
        let is_taken = |known: &str| known.eq_ignore_ascii_case(name);
        if self
            .sources
            .iter()
            .any(|member| is_taken(&member.config.name))
        {
            return Err("there is a source of this name (case is ignored)".to_owned());
        }
        if let Some((key, label)) = labels_without_class(&source, &self.inlet.labels).first() {
            return Err(format!("{key}: the model has no label `{label}`"));
        }
        self.join_source(&source)
            .map_err(|error| error.to_string())?;
        if let Some(member) = self.sources.last_mut() {
            member.made = Some(made);
        }
        Ok(())
    }

    fn remove_made(&mut self, name: &str) -> Result<(), String> {
        let found = self
            .sources
            .iter()
            .find(|member| member.config.name == name);
        match found.map(|member| &member.made) {
            None => return Err("there is no source of this name".to_owned()),
            Some(None) => {
                return Err(
                    "this source is in the configuration file: take it out there and reload"
                        .to_owned(),
                );
            }
            Some(Some(_)) => {}
        }
        let late = self.let_go(&[name.to_owned()]);
        match late.is_empty() {
            true => Ok(()),
            false => {
                Err("it does not end; it was left behind, and nothing it gives is taken".to_owned())
            }
        }
    }
}
