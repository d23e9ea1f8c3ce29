//! Requests to a running pipeline: to read the configuration again, and commands, which add sources from the configuration's
//! templates and remove them. No request is lost: a reload stays requested until it is done, and a command that finds the queue
//! full is answered. No command removes or changes a source of the file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};

use jetwatch_config::{Config, MAX_SOURCES, SourceConfig};
use jetwatch_publish::{Command, CommandListener, EmbeddedBroker, PublishError, Reply};

use super::Pipeline;
use super::start::with_bound_address;
use super::track::{ControlMessage, unknown_labels_of};

/// Commands that may wait: a few for each source that there can be.
const MAX_PENDING: usize = 256;

/// Longest that who listens waits for room; the broker waits meanwhile. Less than what the listener is given to end.
const ENQUEUE_TIMEOUT: Duration = Duration::from_millis(500);

/// A command with the id that its sender gave it, or what is answered where it could not be read.
pub(super) type ReceivedCommand = Result<(Option<String>, Command), Reply>;

/// One thing that was asked for.
pub(super) enum Request {
    /// Read the configuration again.
    Reload,
    /// Carry this out, and answer.
    Command(ReceivedCommand),
}

/// What waits to be done.
pub(super) struct ControlQueue {
    /// Of its own, since a queue may be full. Several wishes are one: the file is read after the last of them.
    reload: Arc<AtomicBool>,
    tx: Sender<ReceivedCommand>,
    rx: Receiver<ReceivedCommand>,
}

impl Default for ControlQueue {
    fn default() -> Self {
        let (asking, asked) = bounded(MAX_PENDING);
        Self {
            reload: Arc::default(),
            tx: asking,
            rx: asked,
        }
    }
}

impl ControlQueue {
    /// What is to be done next; does not wait.
    pub(super) fn next(&self) -> Option<Request> {
        if self.reload.swap(false, Ordering::AcqRel) {
            return Some(Request::Reload);
        }
        self.rx.try_recv().ok().map(Request::Command)
    }

    /// Asks for a reload; does not wait for it.
    pub(super) fn reload_request(&self) -> impl Fn() + Send + use<> {
        let reload = Arc::clone(&self.reload);
        move || reload.store(true, Ordering::Release)
    }

    /// Takes commands as they were sent. One that finds no room in time is answered through `messages`.
    pub(super) fn command_handler(
        &self,
        messages: Sender<ControlMessage>,
    ) -> impl Fn(Vec<u8>) + Send + use<> {
        let asking = self.tx.clone();
        move |payload| {
            // Read here, so that what waits is as small as a command may be.
            let sent = Command::read(&payload);
            if let Err(SendTimeoutError::Timeout(sent)) = asking.send_timeout(sent, ENQUEUE_TIMEOUT)
            {
                log::warn!("a command was refused: {MAX_PENDING} others wait");
                let busy = format!("busy: {MAX_PENDING} commands wait; send it again later");
                let _ = messages.send(ControlMessage::CommandReply(refused(sent, busy)));
            }
        }
    }

    /// Answers what is still waiting when the chain ends.
    pub(super) fn close(&self, messages: &Sender<ControlMessage>) {
        for sent in self.rx.try_iter() {
            let _ = messages.send(ControlMessage::CommandReply(refused(
                sent,
                "the daemon ends".to_owned(),
            )));
        }
    }
}

/// The answer to a command that was not looked at.
fn refused(sent: ReceivedCommand, error: String) -> Reply {
    match sent {
        Ok((id, command)) => Reply {
            id,
            name: Some(command.name().to_owned()),
            error: Some(error),
        },
        Err(reply) => reply,
    }
}

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
        let on_payload = self.control.command_handler(self.control_messages.clone());
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
        let _ = self
            .control_messages
            .send(ControlMessage::CommandReply(reply));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn removal(number: usize) -> Vec<u8> {
        format!(r#"{{"id": "{number}", "command": "remove_source", "name": "x{number}"}}"#)
            .into_bytes()
    }

    fn answer(messages: &Receiver<ControlMessage>) -> Option<Reply> {
        match messages.try_recv() {
            Ok(ControlMessage::CommandReply(reply)) => Some(reply),
            _ => None,
        }
    }

    #[test]
    fn full_control_queue_keeps_reload_and_answers_commands() {
        let requests = ControlQueue::default();
        let (messages, received) = bounded(MAX_PENDING + 2);
        let handle = requests.command_handler(messages.clone());
        (0..MAX_PENDING).for_each(|number| handle(removal(number)));
        assert!(answer(&received).is_none(), "all of them have room");
        handle(removal(MAX_PENDING));
        let busy = answer(&received).expect("an answer");
        let (id, name) = (busy.id.as_deref(), busy.name.as_deref());
        assert_eq!((id, name), (Some("256"), Some("x256")));
        assert!(
            busy.error.is_some_and(|error| error.starts_with("busy")),
            "it says why"
        );

        let reload = requests.reload_request();
        reload();
        reload();
        assert!(matches!(requests.next(), Some(Request::Reload)));
        let Some(Request::Command(Ok((id, _)))) = requests.next() else {
            panic!("the first command");
        };
        assert_eq!(id.as_deref(), Some("0"));
        requests.close(&messages);
        let answered = std::iter::from_fn(|| answer(&received)).count();
        assert_eq!(answered, MAX_PENDING - 1, "and the rest at the end");
        assert!(requests.next().is_none());
    }
}
