// SPDX-License-Identifier: Apache-2.0
//! The calls of CUDA and of the operating system's libraries by thread, in the order of time.

use super::super::capture::{Capture, Name};

/// Calls by kind and thread, as numbers of the capture's lists, by begin: there are millions of them.
#[derive(Debug)]
pub(crate) struct ThreadCalls([Vec<Vec<u32>>; 2]);

/// What a call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CallKind {
    /// CUDA.
    Cuda,
    /// The operating system's libraries.
    System,
}

/// One call. Times are in ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadCall {
    /// Begin.
    pub start: i64,
    /// End.
    pub end: i64,
    /// The function.
    pub name: Name,
    /// What it belongs to.
    pub kind: CallKind,
}

impl CallKind {
    /// A call of this kind by its number in the capture.
    fn call(self, capture: &Capture, at: u32) -> ThreadCall {
        let (start, end, name) = match self {
            Self::Cuda => {
                let call = &capture.calls[at as usize];
                (call.start, call.end, call.name)
            }
            Self::System => {
                let wait = &capture.waits[at as usize];
                (wait.start, wait.end, wait.name)
            }
        };
        ThreadCall {
            start,
            end,
            name,
            kind: self,
        }
    }
}

impl ThreadCalls {
    /// Of a capture.
    pub(crate) fn from_capture(capture: &Capture) -> Self {
        let mut lists = [(); 2].map(|()| vec![Vec::new(); capture.threads.len()]);
        for (at, call) in (0..).zip(&capture.calls) {
            lists[CallKind::Cuda as usize][usize::from(call.thread)].push(at);
        }
        for (at, wait) in (0..).zip(&capture.waits) {
            lists[CallKind::System as usize][usize::from(wait.thread)].push(at);
        }
        for kind in [CallKind::Cuda, CallKind::System] {
            for list in &mut lists[kind as usize] {
                // Rows of the database are almost in order, which a stable sort makes use of.
                list.sort_by_key(|at| kind.call(capture, *at).start);
            }
        }
        Self(lists)
    }

    /// The calls of a kind by a thread, by begin.
    pub(crate) fn of<'a>(
        &'a self,
        capture: &'a Capture,
        kind: CallKind,
        thread: u16,
    ) -> impl Iterator<Item = ThreadCall> + 'a {
        let list = &self.0[kind as usize][usize::from(thread)];
        list.iter().map(move |at| kind.call(capture, *at))
    }

    /// The calls of a thread that are in no other, by begin.
    pub(crate) fn outermost<'a>(
        &'a self,
        capture: &'a Capture,
        thread: u16,
    ) -> impl Iterator<Item = ThreadCall> + 'a {
        let mut cuda = self.of(capture, CallKind::Cuda, thread);
        let mut system = self.of(capture, CallKind::System, thread);
        let mut next = [cuda.next(), system.next()];
        let mut end = i64::MIN;
        std::iter::from_fn(move || {
            loop {
                // Of two that begin together, the longer one is around the other.
                let is_system = match (&next[0], &next[1]) {
                    (Some(a), Some(b)) => (b.start, -b.end) < (a.start, -a.end),
                    (None, Some(_)) => true,
                    _ => false,
                };
                let call = match is_system {
                    true => std::mem::replace(&mut next[1], system.next()),
                    false => std::mem::replace(&mut next[0], cuda.next()),
                }?;
                if call.start >= end {
                    end = call.end;
                    return Some(call);
                }
            }
        })
    }
}
