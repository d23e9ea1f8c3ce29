//! What is asked of a running chain from outside: to read the configuration again, and commands. Nothing that was asked is lost
//! without a word: a wish to reload stays until it is looked at, and a command that finds no room is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};

use jetwatch_publish::{Command, Reply};

use super::follow::News;

/// Commands that may wait: a few for each source that there can be.
const WAITING: usize = 256;

/// Longest that who listens waits for room; the broker waits meanwhile. Less than what the listener is given to end.
const PATIENCE: Duration = Duration::from_millis(500);

/// A command with the id that its sender gave it, or what is answered where it could not be read.
pub(super) type Sent = Result<(Option<String>, Command), Reply>;

/// One thing that was asked for.
pub(super) enum Request {
    /// Read the configuration again.
    Reload,
    /// Carry this out, and answer.
    Command(Sent),
}

/// What waits to be done.
pub(super) struct Requests {
    /// Of its own, since a queue may be full. Several wishes are one: the file is read after the last of them.
    reload: Arc<AtomicBool>,
    asking: Sender<Sent>,
    asked: Receiver<Sent>,
}

impl Default for Requests {
    fn default() -> Self {
        let (asking, asked) = bounded(WAITING);
        Self {
            reload: Arc::default(),
            asking,
            asked,
        }
    }
}

impl Requests {
    /// What is to be done next; does not wait.
    pub(super) fn next(&self) -> Option<Request> {
        if self.reload.swap(false, Ordering::AcqRel) {
            return Some(Request::Reload);
        }
        self.asked.try_recv().ok().map(Request::Command)
    }

    /// Asks for a reload; does not wait for it.
    pub(super) fn reload_request(&self) -> impl Fn() + Send + use<> {
        let reload = Arc::clone(&self.reload);
        move || reload.store(true, Ordering::Release)
    }

    /// Takes commands as they were sent. One that finds no room in time is answered through `news`.
    pub(super) fn hearing(&self, news: Sender<News>) -> impl Fn(Vec<u8>) + Send + use<> {
        let asking = self.asking.clone();
        move |payload| {
            // Read here, so that what waits is as small as a command may be.
            let sent = Command::read(&payload);
            if let Err(SendTimeoutError::Timeout(sent)) = asking.send_timeout(sent, PATIENCE) {
                log::warn!("a command was refused: {WAITING} others wait");
                let busy = format!("busy: {WAITING} commands wait; send it again later");
                let _ = news.send(News::Reply(refused(sent, busy)));
            }
        }
    }

    /// Answers what is still waiting when the chain ends.
    pub(super) fn close(&self, news: &Sender<News>) {
        for sent in self.asked.try_iter() {
            let _ = news.send(News::Reply(refused(sent, "the daemon ends".to_owned())));
        }
    }
}

/// The answer to a command that was not looked at.
fn refused(sent: Sent, error: String) -> Reply {
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

    fn answer(news: &Receiver<News>) -> Option<Reply> {
        match news.try_recv() {
            Ok(News::Reply(reply)) => Some(reply),
            _ => None,
        }
    }

    #[test]
    fn a_full_queue_loses_no_reload_and_answers_every_command() {
        let requests = Requests::default();
        let (news, heard) = bounded(WAITING + 2);
        let hear = requests.hearing(news.clone());
        (0..WAITING).for_each(|number| hear(removal(number)));
        assert!(answer(&heard).is_none(), "all of them have room");
        hear(removal(WAITING));
        let busy = answer(&heard).expect("an answer");
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
        requests.close(&news);
        let answered = std::iter::from_fn(|| answer(&heard)).count();
        assert_eq!(answered, WAITING - 1, "and the rest at the end");
        assert!(requests.next().is_none());
    }
}
