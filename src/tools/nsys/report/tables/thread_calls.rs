// SPDX-License-Identifier: Apache-2.0
//! The calls of CUDA and of the operating system's libraries by thread, in the order of time.

use super::super::capture::{Capture, Name};

/// Calls by thread, as numbers of the capture's lists: there are millions of them.
#[derive(Debug)]
pub(crate) struct ThreadCalls {
    /// For each thread, its calls of CUDA by begin.
    cuda: Vec<Vec<u32>>,
    /// For each thread, its calls of the operating system's libraries by begin.
    system: Vec<Vec<u32>>,
}

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

impl ThreadCalls {
    /// Of a capture.
    pub(crate) fn from_capture(capture: &Capture) -> Self {
        let threads = capture.threads.len();
        Self {
            cuda: by_thread(
                threads,
                capture.calls.iter().map(|call| call.thread),
                |at| capture.calls[at as usize].start,
            ),
            system: by_thread(
                threads,
                capture.waits.iter().map(|wait| wait.thread),
                |at| capture.waits[at as usize].start,
            ),
        }
    }

    /// The calls of CUDA by a thread, by begin.
    pub(crate) fn cuda<'a>(
        &'a self,
        capture: &'a Capture,
        thread: u16,
    ) -> impl Iterator<Item = ThreadCall> + 'a {
        self.cuda[usize::from(thread)].iter().map(|at| {
            let call = &capture.calls[*at as usize];
            ThreadCall {
                start: call.start,
                end: call.end,
                name: call.name,
                kind: CallKind::Cuda,
            }
        })
    }

    /// The calls of the operating system's libraries by a thread, by begin.
    pub(crate) fn system<'a>(
        &'a self,
        capture: &'a Capture,
        thread: u16,
    ) -> impl Iterator<Item = ThreadCall> + 'a {
        self.system[usize::from(thread)].iter().map(|at| {
            let wait = &capture.waits[*at as usize];
            ThreadCall {
                start: wait.start,
                end: wait.end,
                name: wait.name,
                kind: CallKind::System,
            }
        })
    }

    /// The calls of a thread that are in no other, by begin.
    pub(crate) fn outermost<'a>(
        &'a self,
        capture: &'a Capture,
        thread: u16,
    ) -> impl Iterator<Item = ThreadCall> + 'a {
        let mut cuda = self.cuda(capture, thread);
        let mut system = self.system(capture, thread);
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

fn by_thread(
    threads: usize,
    of_events: impl Iterator<Item = u16>,
    start: impl Fn(u32) -> i64,
) -> Vec<Vec<u32>> {
    let mut lists: Vec<Vec<u32>> = vec![Vec::new(); threads];
    for (at, thread) in (0..).zip(of_events) {
        lists[usize::from(thread)].push(at);
    }
    for list in &mut lists {
        // Rows of the database are almost in order, which a stable sort makes use of.
        list.sort_by_key(|at| start(*at));
    }
    lists
}
