// SPDX-License-Identifier: Apache-2.0
//! The calls of CUDA and of the operating system's libraries by thread, in the order of time.

use super::super::capture::{Call, Capture};

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

impl CallKind {
    /// All calls of this kind.
    fn calls(self, capture: &Capture) -> &[Call] {
        match self {
            Self::Cuda => &capture.calls,
            Self::System => &capture.waits,
        }
    }
}

impl ThreadCalls {
    /// Of a capture.
    pub(crate) fn from_capture(capture: &Capture) -> Self {
        Self([CallKind::Cuda, CallKind::System].map(|kind| {
            let calls = kind.calls(capture);
            let mut lists = vec![Vec::new(); capture.threads.len()];
            for (at, call) in (0..).zip(calls) {
                lists[usize::from(call.thread)].push(at);
            }
            for list in &mut lists {
                // Rows of the database are almost in order, which a stable sort makes use of.
                list.sort_by_key(|at: &u32| calls[*at as usize].start);
            }
            lists
        }))
    }

    /// The calls of a kind by a thread, by begin.
    pub(crate) fn of<'a>(
        &'a self,
        capture: &'a Capture,
        kind: CallKind,
        thread: u16,
    ) -> impl Iterator<Item = &'a Call> {
        let list = &self.0[kind as usize][usize::from(thread)];
        list.iter()
            .map(move |at| &kind.calls(capture)[*at as usize])
    }

    /// The calls of a thread that are in no other, by begin.
    pub(crate) fn outermost<'a>(
        &'a self,
        capture: &'a Capture,
        thread: u16,
    ) -> impl Iterator<Item = (CallKind, &'a Call)> {
        let mut cuda = self.of(capture, CallKind::Cuda, thread);
        let mut system = self.of(capture, CallKind::System, thread);
        let mut next = [cuda.next(), system.next()];
        let mut end = i64::MIN;
        std::iter::from_fn(move || {
            loop {
                // Of two that begin together, the longer one is around the other.
                let (kind, call) = match next {
                    [Some(a), Some(b)] if (b.start, -b.end) < (a.start, -a.end) => {
                        (CallKind::System, b)
                    }
                    [Some(a), _] => (CallKind::Cuda, a),
                    [None, b] => (CallKind::System, b?),
                };
                match kind {
                    CallKind::Cuda => next[0] = cuda.next(),
                    CallKind::System => next[1] = system.next(),
                }
                if call.start >= end {
                    end = call.end;
                    return Some((kind, call));
                }
            }
        })
    }
}
