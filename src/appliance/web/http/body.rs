//! The body of an answer: whole, or piece by piece from a task that waits for the client.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// The body of an answer.
#[derive(Debug)]
pub(in super::super) enum AnswerBody {
    /// All of it.
    Whole(Option<Bytes>),
    /// Pieces; its length is known where the answer says so.
    Pieces {
        pieces: mpsc::Receiver<Bytes>,
        bytes: Option<u64>,
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
        (sender, Self::Pieces { pieces, bytes })
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
            Self::Pieces { pieces, .. } => pieces
                .poll_recv(context)
                .map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
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
