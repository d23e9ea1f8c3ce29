//! What is asked of a running chain from outside: to read the configuration again, and commands. Nothing that was asked is lost
//! without a word: a wish to reload stays until it is looked at, and a command that finds no room is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};

use jetwatch_publish::{Command, Reply};

use super::track::TrackMessage;

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
        messages: Sender<TrackMessage>,
    ) -> impl Fn(Vec<u8>) + Send + use<> {
        let asking = self.tx.clone();
        move |payload| {
            // Read here, so that what waits is as small as a command may be.
            let sent = Command::read(&payload);
            if let Err(SendTimeoutError::Timeout(sent)) = asking.send_timeout(sent, ENQUEUE_TIMEOUT)
            {
                log::warn!("a command was refused: {MAX_PENDING} others wait");
                let busy = format!("busy: {MAX_PENDING} commands wait; send it again later");
                let _ = messages.send(TrackMessage::CommandReply(refused(sent, busy)));
            }
        }
    }

    /// Answers what is still waiting when the chain ends.
    pub(super) fn close(&self, messages: &Sender<TrackMessage>) {
        for sent in self.rx.try_iter() {
            let _ = messages.send(TrackMessage::CommandReply(refused(
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

#[cfg(test)]
mod tests {
    use super::*;

    fn removal(number: usize) -> Vec<u8> {
        format!(r#"{{"id": "{number}", "command": "remove_source", "name": "x{number}"}}"#)
            .into_bytes()
    }

    fn answer(messages: &Receiver<TrackMessage>) -> Option<Reply> {
        match messages.try_recv() {
            Ok(TrackMessage::CommandReply(reply)) => Some(reply),
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
