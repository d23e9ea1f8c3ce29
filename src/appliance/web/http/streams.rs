// SPDX-License-Identifier: Apache-2.0
//! Answers that go on: messages as server-sent events, pictures of one or several sources, encoded streams.
//!
//! Each has a task that waits for its client: what comes meanwhile takes the place of what was to be sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use hyper::StatusCode;
use hyper::header::HeaderValue;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::body::{AnswerBody, PieceSender};
use super::limits::{StreamGuard, Work};
use super::request::Head;
use super::response::{Answer, refuse, refuse_for, stream, with_type};
use super::service::Service;
use crate::media::OpenedStream;
use crate::pictures::{Look, Picture, Viewer};
use jetwatch_http::Peer;

/// Maximum of the streams of messages at a time, and of those of pictures and video; and of those of one client.
pub(super) const MAX_STREAMS: [usize; 2] = [64, 48];

/// The same of encoded streams: each occupies a thread.
pub(in super::super) const MAX_ENCODED: [usize; 2] = [10, 8];

/// Most sources in one stream of pictures.
const MAX_SOURCES: usize = 64;

/// Time after which a stream without messages gives a sign of life, so that a client that is gone is found, and the page finds a lost connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Longest wait for a picture.
const PICTURE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for a piece of an encoded stream before the client is looked at again.
const PIECE_TIMEOUT: Duration = Duration::from_millis(500);

/// Between two pictures of MJPEG.
const BOUNDARY: &str = "jetwatch-picture";

fn too_many() -> Answer {
    refuse_for(
        5,
        StatusCode::SERVICE_UNAVAILABLE,
        "too many streams are open",
    )
}

/// Messages of the daemon as server-sent events: first all that are valid now, then each as it comes.
pub(super) fn live(service: &Arc<Service>, peer: &Peer, client: &str) -> Answer {
    let Some(guard) = service.message_streams.admit(peer, client) else {
        return too_many();
    };
    let (sender, body) = AnswerBody::pieces(None);
    tokio::spawn(send_messages(Arc::clone(service), sender, guard));
    stream("text/event-stream", body)
}

async fn send_messages(service: Arc<Service>, sender: PieceSender, _guard: StreamGuard) {
    loop {
        let (retained, mut live) = service.hub.join();
        let mut start = BytesMut::from("retry: 2000\nevent: begin\ndata: {}\n\n");
        for message in retained {
            put_message(&mut start, &message);
        }
        start.put_slice(b"event: complete\ndata: {}\n\n");
        if sender.send(start.freeze()).await.is_err() {
            return;
        }
        loop {
            let message = tokio::select! {
                () = sender.closed() => return,
                message = tokio::time::timeout(KEEP_ALIVE, live.recv()) => message,
            };
            let piece = match message {
                Err(_) => Bytes::from_static(b"event: alive\ndata: {}\n\n"),
                Ok(Ok(message)) => {
                    let mut piece = BytesMut::with_capacity(message.len() + 8);
                    put_message(&mut piece, &message);
                    // What else has come goes along.
                    while piece.len() < 32 * 1024
                        && let Ok(message) = live.try_recv()
                    {
                        put_message(&mut piece, &message);
                    }
                    piece.freeze()
                }
                // The client was too slow: it gets what is valid now in place of what it missed.
                Ok(Err(RecvError::Lagged(_))) => break,
                Ok(Err(RecvError::Closed)) => return,
            };
            if sender.send(piece).await.is_err() {
                return;
            }
        }
    }
}

/// Messages have no line breaks.
fn put_message(piece: &mut BytesMut, message: &[u8]) {
    piece.put_slice(b"data: ");
    piece.put_slice(message);
    piece.put_slice(b"\n\n");
}

/// One picture of a source, not older than the request where the source gives any.
pub(super) async fn picture(service: &Arc<Service>, source: &str) -> Answer {
    let Some(mut viewer) = service.pictures.look(source, Look::Drawn) else {
        return refuse(StatusCode::NOT_FOUND, "there is no such source");
    };
    let old = viewer.newest();
    let fresh = tokio::time::timeout(PICTURE_TIMEOUT, viewer.next()).await;
    let Some(picture) = fresh.ok().flatten().or(old) else {
        return refuse_for(
            10,
            StatusCode::SERVICE_UNAVAILABLE,
            "the source gives no picture now",
        );
    };
    let mut answer = with_type("image/jpeg", picture.jpeg.clone());
    if let Ok(at) = HeaderValue::from_str(&captured_ms(&picture).to_string()) {
        answer.headers_mut().insert("x-captured-ms", at);
    }
    answer
}

/// Pictures of a source as `multipart/x-mixed-replace`.
pub(super) fn mjpeg(service: &Arc<Service>, source: &str, peer: &Peer, client: &str) -> Answer {
    let Some(mut viewer) = service.pictures.look(source, Look::Drawn) else {
        return refuse(StatusCode::NOT_FOUND, "there is no such source");
    };
    let Some(guard) = service.picture_streams.admit(peer, client) else {
        return too_many();
    };
    let (sender, body) = AnswerBody::pieces(None);
    tokio::spawn(async move {
        let _guard = guard;
        let _ = sender.send(Bytes::from(format!("--{BOUNDARY}\r\n"))).await;
        let mut last = viewer.newest();
        loop {
            if let Some(picture) = &last {
                let head = format!(
                    "Content-Type: image/jpeg\r\nContent-Length: {}\r\nX-Captured-Ms: {}\r\n\r\n",
                    picture.jpeg.len(),
                    captured_ms(picture)
                );
                let end = Bytes::from(format!("\r\n--{BOUNDARY}\r\n"));
                for piece in [Bytes::from(head), picture.jpeg.clone(), end] {
                    if sender.send(piece).await.is_err() {
                        return;
                    }
                }
            }
            // The last one again where none follows, so that a client that is gone is found.
            let next = tokio::select! {
                () = sender.closed() => return,
                next = tokio::time::timeout(KEEP_ALIVE, viewer.next()) => next,
            };
            match next {
                Ok(Some(picture)) => last = Some(picture),
                Ok(None) => return,
                Err(_) => {}
            }
        }
    });
    stream("multipart/x-mixed-replace; boundary=jetwatch-picture", body)
}

/// Pictures of several sources in one stream, since a browser opens six connections to a host at most. Each has a head of 24 bytes:
/// the length of the name and of the picture as 32 bits, the time of capture in ms and the time of sending as 64 bits, all with the
/// most significant byte first; then the name and the picture. A head without lengths is a sign of life. With the parameter `marks`
/// nothing is drawn in the picture: a line feed and [`Picture::marks`] follow the name, and count for its length.
pub(super) fn pictures(
    service: &Arc<Service>,
    head: &Head<'_>,
    peer: &Peer,
    client: &str,
) -> Answer {
    // A name that repeats gives no second picture.
    let names: BTreeSet<String> = head.parameters("source").take(MAX_SOURCES).collect();
    let look = match head.parameter("marks") {
        Some(_) => Look::Plain,
        None => Look::Drawn,
    };
    let viewers: Vec<(String, Viewer)> = names
        .into_iter()
        .filter_map(|name| {
            let viewer = service.pictures.look(&name, look);
            viewer.map(|viewer| (name, viewer))
        })
        .collect();
    if viewers.is_empty() {
        return refuse(StatusCode::NOT_FOUND, "there is no such source");
    }
    let Some(guard) = service.picture_streams.admit(peer, client) else {
        return too_many();
    };
    let (sender, body) = AnswerBody::pieces(None);
    tokio::spawn(send_pictures(viewers, sender, guard));
    stream("application/octet-stream", body)
}

async fn send_pictures(viewers: Vec<(String, Viewer)>, sender: PieceSender, _guard: StreamGuard) {
    // One picture of each source waits at most: a task for each source waits until it is taken.
    let (pictures, mut waiting) = mpsc::channel::<(usize, Arc<Picture>)>(1);
    let mut names = BTreeMap::new();
    let mut tasks = tokio::task::JoinSet::new();
    for (index, (name, mut viewer)) in viewers.into_iter().enumerate() {
        names.insert(index, name);
        let pictures = pictures.clone();
        tasks.spawn(async move {
            let mut next = viewer.newest();
            loop {
                if let Some(picture) = next.take() {
                    let Ok(place) = pictures.reserve().await else {
                        return;
                    };
                    // A newer one may have come during the wait.
                    place.send((index, viewer.newest().unwrap_or(picture)));
                }
                next = viewer.next().await;
                if next.is_none() {
                    return;
                }
            }
        });
    }
    drop(pictures);
    loop {
        let next = tokio::select! {
            () = sender.closed() => return,
            next = tokio::time::timeout(KEEP_ALIVE, waiting.recv()) => next,
        };
        let (head, jpeg) = match next {
            Ok(Some((index, picture))) => {
                let name = names.get(&index).map_or("", String::as_str);
                (picture_head(name, &picture), picture.jpeg.clone())
            }
            Ok(None) => return,
            Err(_) => (Bytes::from_static(&[0; 24]), Bytes::new()),
        };
        for piece in [head, jpeg] {
            if !piece.is_empty() && sender.send(piece).await.is_err() {
                return;
            }
        }
    }
}

fn picture_head(name: &str, picture: &Picture) -> Bytes {
    let marks = match picture.marks.is_empty() {
        true => 0,
        false => 1 + picture.marks.len(),
    };
    let mut head = BytesMut::with_capacity(24 + name.len() + marks);
    // Names have at most 64 bytes, marks and pictures some hundred thousand.
    head.put_u32((name.len() + marks) as u32);
    head.put_u32(picture.jpeg.len() as u32);
    head.put_u64(captured_ms(picture));
    head.put_u64(milliseconds(SystemTime::now()));
    head.put_slice(name.as_bytes());
    if marks > 0 {
        head.put_u8(b'\n');
        head.put_slice(&picture.marks);
    }
    head.freeze()
}

fn captured_ms(picture: &Picture) -> u64 {
    milliseconds(picture.captured_at)
}

fn milliseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The encoded stream of a source as fragmented MP4, from its newest keyframe on.
pub(super) async fn encoded(
    service: &Arc<Service>,
    source: &str,
    peer: &Peer,
    client: &str,
) -> Answer {
    let Some(thread) = service.encoded_streams.admit(peer, client) else {
        return too_many();
    };
    let (asked, name) = (Arc::clone(service), source.to_owned());
    let opened = service
        .threads
        .run(Work::Files, move || asked.backend.streams()?.open(&name));
    let OpenedStream {
        codecs,
        first,
        rest: mut view,
    } = match opened.await {
        Ok(Some(opened)) => opened,
        Ok(None) => {
            return refuse(
                StatusCode::NOT_FOUND,
                "the source has no stream that browsers play",
            );
        }
        Err(refusal) => return *refusal,
    };
    let Some(guard) = service.picture_streams.admit(peer, client) else {
        return too_many();
    };
    let (sender, body) = AnswerBody::pieces(None);
    let is_gone = Arc::new(AtomicBool::new(false));
    let (gone, watched) = (Arc::clone(&is_gone), sender.clone());
    tokio::spawn(async move {
        watched.closed().await;
        gone.store(true, Ordering::Release);
    });
    // A view blocks; the number of streams limits these threads' work, and they end with their clients.
    tokio::task::spawn_blocking(move || {
        let _guards = (guard, thread);
        if sender.blocking_send(first).is_err() {
            return;
        }
        while !is_gone.load(Ordering::Acquire) {
            match view.next(PIECE_TIMEOUT) {
                Some(piece) if piece.is_empty() => {}
                Some(piece) => {
                    if sender.blocking_send(piece).is_err() {
                        return;
                    }
                }
                None => return,
            }
        }
    });
    let mut answer = stream("video/mp4", body);
    if let Ok(codecs) = HeaderValue::from_str(&codecs) {
        answer.headers_mut().insert("x-codecs", codecs);
    }
    answer
}
