// SPDX-License-Identifier: Apache-2.0
//! The body of an answer: whole, or piece by piece from a task that waits for the client.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// Whether a stream may go on.
type Permission = Box<dyn Fn() -> bool + Send + Sync>;

pub(in super::super) enum AnswerBody {
    /// All of it.
    Whole(Option<Bytes>),
    /// Pieces; its length is known where the answer says so.
    Pieces {
        pieces: mpsc::Receiver<Bytes>,
        bytes: Option<u64>,
        permission: Option<Permission>,
    },
}

/// Sends pieces of a body. One piece waits at most: who sends waits for the client.
pub(super) type PieceSender = mpsc::Sender<Bytes>;

impl AnswerBody {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    /// A body that a task sends; `bytes`: its length, where it is known.
    pub(super) fn pieces(bytes: Option<u64>) -> (PieceSender, Self) {
        let (sender, pieces) = mpsc::channel(1);
        let body = Self::Pieces {
            pieces,
            bytes,
            permission: None,
        };
        (sender, body)
    }

    /// A stream without an end is asked before each piece whether it may go on; other bodies are not.
    pub(super) fn end_unless(&mut self, may_go_on: impl Fn() -> bool + Send + Sync + 'static) {
        if let Self::Pieces {
            bytes: None,
            permission,
            ..
        } = self
        {
            *permission = Some(Box::new(may_go_on));
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Pieces {
                pieces, permission, ..
            } => pieces.poll_recv(context).map(|piece| {
                let may_go_on = permission.as_ref().is_none_or(|permission| permission());
                let piece = piece.filter(|_| may_go_on)?;
                Some(Ok(Frame::data(piece)))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Pieces { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Pieces {
                bytes: Some(bytes), ..
            } => SizeHint::with_exact(*bytes),
            Self::Pieces { bytes: None, .. } => SizeHint::default(),
        }
    }
}
