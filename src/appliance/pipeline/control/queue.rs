// SPDX-License-Identifier: Apache-2.0
//! Requests that wait for execution. No request is lost: a reload stays requested until it is done, and a command that finds the
//! queue full is refused with a reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};

use jetwatch_publish::{Command, CommandMessage, Reply, ReplyTo};
use jetwatch_telemetry::LogBudget;
use parking_lot::Mutex;

use crate::track::ControlMessage;

/// Most commands that may wait: a few for each source.
const MAX_PENDING: usize = 256;

/// Longest wait of the command listener for room in the queue; the broker waits meanwhile. Shorter than the time that the
/// listener has to end.
const ENQUEUE_TIMEOUT: Duration = Duration::from_millis(500);

/// A command that waits.
pub(super) struct ReceivedCommand {
    /// With the id of its sender, or the reply where it could not be parsed.
    pub command: Result<(Option<String>, Command), Reply>,
    /// Where the reply goes besides the topic of replies.
    pub reply_to: Option<ReplyTo>,
}

/// One request.
pub(super) enum Request {
    /// Read the configuration again.
    Reload,
    /// Execute this, and reply.
    Command(ReceivedCommand),
}

/// The requests that wait.
pub(super) struct ControlQueue {
    /// A flag, since a queue may be full. Several requests are one: the file is read after the last of them.
    reload: Arc<AtomicBool>,
    tx: Sender<ReceivedCommand>,
    rx: Receiver<ReceivedCommand>,
}

impl Default for ControlQueue {
    fn default() -> Self {
        let (tx, rx) = bounded(MAX_PENDING);
        Self {
            reload: Arc::default(),
            tx,
            rx,
        }
    }
}

impl ControlQueue {
    /// The next request; does not block.
    pub(super) fn next(&self) -> Option<Request> {
        if self.reload.swap(false, Ordering::AcqRel) {
            return Some(Request::Reload);
        }
        self.rx.try_recv().ok().map(Request::Command)
    }

    /// A function that requests a reload and does not wait for it.
    pub(super) fn reload_request(&self) -> impl Fn() + Send + Sync + use<> {
        let reload = Arc::clone(&self.reload);
        move || reload.store(true, Ordering::Release)
    }

    /// A function that takes the payloads of commands. One that finds no room in time is refused through `messages`.
    pub(super) fn command_handler(
        &self,
        messages: Sender<ControlMessage>,
    ) -> impl Fn(CommandMessage) + Send + use<> {
        let tx = self.tx.clone();
        let busy_log = Mutex::new(LogBudget::default());
        move |message| {
            // Parsed here, so that what waits is small.
            let sent = ReceivedCommand {
                command: Command::of_message(&message),
                reply_to: message.reply_to,
            };
            if let Err(SendTimeoutError::Timeout(sent)) = tx.send_timeout(sent, ENQUEUE_TIMEOUT) {
                if let Some(repeats) = busy_log.lock().admit(Instant::now()) {
                    log::warn!(repeats; "a command was refused: {MAX_PENDING} others wait");
                }
                let busy = format!("busy: {MAX_PENDING} commands wait; send it again later");
                let _ = messages.send(ControlMessage::CommandReply(refused(sent, busy)));
            }
        }
    }

    /// Refuses what still waits when the pipeline ends.
    pub(super) fn close(&self, messages: &Sender<ControlMessage>) {
        for sent in self.rx.try_iter() {
            let _ = messages.send(ControlMessage::CommandReply(refused(
                sent,
                "the daemon ends".to_owned(),
            )));
        }
    }
}

/// The reply to a command that is not executed.
fn refused(sent: ReceivedCommand, error: String) -> Reply {
    let reply_to = sent.reply_to;
    match sent.command {
        Ok((id, command)) => Reply {
            reply_to,
            id,
            name: Some(command.name().to_owned()),
            error: Some(error),
        },
        Err(reply) => Reply { reply_to, ..reply },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removal(number: usize) -> CommandMessage {
        let payload =
            format!(r#"{{"id": "{number}", "command": "remove_source", "name": "x{number}"}}"#)
                .into_bytes();
        let reply_to = ReplyTo {
            topic: format!("asker/{number}"),
            correlation: Some(Box::new([7])),
        };
        CommandMessage {
            payload,
            sets: None,
            reply_to: Some(reply_to),
        }
    }

    fn next_reply(messages: &Receiver<ControlMessage>) -> Option<Reply> {
        match messages.try_recv() {
            Ok(ControlMessage::CommandReply(reply)) => Some(reply),
            _ => None,
        }
    }

    #[test]
    fn full_control_queue_keeps_reload_and_answers_commands() {
        let queue = ControlQueue::default();
        let (messages, received) = bounded(MAX_PENDING + 2);
        let handle = queue.command_handler(messages.clone());
        (0..MAX_PENDING).for_each(|number| handle(removal(number)));
        // There is room for all of them.
        assert!(next_reply(&received).is_none());
        handle(removal(MAX_PENDING));
        let busy = next_reply(&received).expect("a reply");
        let (id, name) = (busy.id.as_deref(), busy.name.as_deref());
        assert_eq!((id, name), (Some("256"), Some("x256")));
        assert_eq!(busy.reply_to, removal(MAX_PENDING).reply_to);
        // The reason is given.
        assert!(busy.error.is_some_and(|error| error.starts_with("busy")));

        let reload = queue.reload_request();
        reload();
        reload();
        assert!(matches!(queue.next(), Some(Request::Reload)));
        let Some(Request::Command(first)) = queue.next() else {
            panic!("the first command");
        };
        let (id, _) = first.command.expect("a good command");
        assert_eq!(id.as_deref(), Some("0"));
        queue.close(&messages);
        let replies = std::iter::from_fn(|| next_reply(&received)).count();
        assert_eq!(replies, MAX_PENDING - 1, "the rest at the end");
        assert!(queue.next().is_none());
    }
}
