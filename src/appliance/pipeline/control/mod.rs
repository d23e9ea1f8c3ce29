// SPDX-License-Identifier: Apache-2.0
//! Requests to a running pipeline: reloads of the configuration, and commands. One at a time, on the thread that waits for the end
//! of the run.

mod commands;
mod queue;
mod reload;

use crossbeam_channel::Sender;

use jetwatch_config::Config;
use jetwatch_publish::{CommandListener, EmbeddedBroker, PublishError};
use jetwatch_telemetry::LogBudget;

use self::queue::{ControlQueue, Request};
use super::health::ReloadNotice;
use super::options::ConfigLoader;
use super::outputs::with_bound_address;
use super::sources::Sources;
use super::track::ControlMessage;

/// The running configuration, and the requests that change it.
pub(super) struct Control {
    config: Config,
    config_loader: Option<ConfigLoader>,
    queue: ControlQueue,
    notice: ReloadNotice,
    messages: Sender<ControlMessage>,
    command_log: LogBudget,
    /// `None` where commands are not enabled.
    listener: Option<CommandListener>,
}

impl Control {
    /// For a run of `config`. Results are published through `messages`.
    pub(super) fn new(
        config: &Config,
        config_loader: Option<ConfigLoader>,
        messages: Sender<ControlMessage>,
    ) -> Self {
        Self {
            config: config.clone(),
            config_loader,
            queue: ControlQueue::default(),
            notice: ReloadNotice::default(),
            messages,
            command_log: LogBudget::default(),
            listener: None,
        }
    }

    /// What systemd receives of reloads.
    pub(super) fn notice(&self) -> &ReloadNotice {
        &self.notice
    }

    /// A function that requests a reload and does not wait for it.
    pub(super) fn reload_request(&self) -> impl Fn() + Send + Sync + use<> {
        self.queue.reload_request()
    }

    /// Starts to receive commands, where the configuration enables them.
    pub(super) fn start_listener(
        &mut self,
        broker: Option<&EmbeddedBroker>,
    ) -> Result<(), PublishError> {
        let Some(mqtt) = &self.config.publish.mqtt else {
            return Ok(());
        };
        if self.config.commands.enabled {
            let on_payload = self.queue.command_handler(self.messages.clone());
            let states = mqtt.for_states();
            let mqtt = states.unwrap_or_else(|| with_bound_address(mqtt, broker));
            let listener = CommandListener::start(
                &mqtt,
                &self.config.device,
                &self.config.commands.reply_topics,
                on_payload,
            )?;
            self.listener = Some(listener);
        }
        Ok(())
    }

    /// Executes one request; false: there is none.
    pub(super) fn handle_next(&mut self, sources: &mut Sources) -> bool {
        match self.queue.next() {
            Some(Request::Reload) => self.reload(sources),
            Some(Request::Command(received)) => {
                let reply =
                    commands::execute(received, sources, &self.config, &mut self.command_log);
                // Fails where the tracking stage has ended, and with it all subscribers.
                let _ = self.messages.send(ControlMessage::CommandReply(reply));
            }
            None => return false,
        }
        true
    }

    fn reload(&mut self, sources: &mut Sources) {
        let Some(load) = &self.config_loader else {
            log::warn!("this run has no configuration file to read again");
            return;
        };
        self.notice.reloading();
        let status = match load() {
            Ok(config) => reload::apply(config, &mut self.config, sources),
            Err(error) => reload::refused(reload::problems(&error)),
        };
        reload::log_outcome(&status);
        self.notice.reloaded(reload::summary(&status));
        let _ = self.messages.send(ControlMessage::Reload(Box::new(status)));
    }

    /// Stops to receive commands, and refuses those that wait.
    pub(super) fn close(&mut self) {
        drop(self.listener.take());
        self.queue.close(&self.messages);
    }
}
