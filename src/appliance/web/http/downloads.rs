// SPDX-License-Identifier: Apache-2.0
//! Snapshots and clips: whole, or the range of bytes that a player asks for.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_RANGE, HeaderValue, RANGE,
};

use super::body::{AnswerBody, PieceSender};
use super::limits::Work;
use super::lists::time;
use super::request::Head;
use super::response::{Answer, refuse, stream};
use super::service::Service;
use crate::media::MediaPart;

/// Longest span that is one video.
const MAX_EXPORT: Duration = Duration::from_secs(3600);

/// Bytes that are read at a time.
const PIECE_BYTES: u64 = 64 * 1024;

/// A part of a kept item.
pub(super) async fn part(
    service: &Arc<Service>,
    head: &Head<'_>,
    id: &str,
    is_clip: bool,
) -> Answer {
    let part = match is_clip {
        true => MediaPart::Clip,
        false => MediaPart::Snapshot,
    };
    let (asked, item) = (Arc::clone(service), id.to_owned());
    let open = move || asked.backend.media()?.open(&item, part);
    let content = match service.threads.run(Work::Files, open).await {
        Ok(Some(content)) => content,
        Ok(None) => return refuse(StatusCode::NOT_FOUND, "there is no such item any more"),
        Err(refusal) => return *refusal,
    };
    let range = head
        .headers
        .get(RANGE)
        .and_then(|range| range.to_str().ok());
    let (first, end, is_partial) = match range.map(|range| byte_range(range, content.bytes)) {
        None | Some(Range::Whole) => (0, content.bytes, false),
        Some(Range::Part(first, end)) => (first, end, true),
        Some(Range::Outside) => {
            let mut answer = refuse(StatusCode::RANGE_NOT_SATISFIABLE, "it is shorter");
            let text = format!("bytes */{}", content.bytes);
            if let Ok(text) = HeaderValue::from_str(&text) {
                answer.headers_mut().insert(CONTENT_RANGE, text);
            }
            return answer;
        }
    };
    let (sender, body) = AnswerBody::pieces(Some(end - first));
    let reader = Arc::clone(service);
    tokio::spawn(send_file(reader, content.file, first, end, sender));
    let mut answer = stream(if is_clip { "video/mp4" } else { "image/jpeg" }, body);
    let mut headers = vec![
        (ACCEPT_RANGES, "bytes".to_owned()),
        (CACHE_CONTROL, "private, max-age=60".to_owned()),
    ];
    if is_partial {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        headers.push((
            CONTENT_RANGE,
            format!("bytes {first}-{}/{}", end - 1, content.bytes),
        ));
    }
    if head.parameter("download").is_some() {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
        let name: String = content.name.chars().filter(is_plain).collect();
        headers.push((
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ));
    }
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

/// A span of time of a source as one video, for an hour at most.
pub(super) async fn export(service: &Arc<Service>, head: &Head<'_>, source: &str) -> Answer {
    let (Some(from), Some(to)) = (time(head, "from"), time(head, "to")) else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "the query needs from and to, as RFC 3339",
        );
    };
    if to.duration_since(from).is_ok_and(|span| span > MAX_EXPORT) || to <= from {
        let reason = "expected from before to, and an hour between them at most";
        return refuse(StatusCode::BAD_REQUEST, reason);
    }
    let (asked, name) = (Arc::clone(service), source.to_owned());
    let open = move || asked.backend.media()?.export(&name, from, to);
    let mut export = match service.threads.run(Work::Files, open).await {
        Ok(Some(export)) => export,
        Ok(None) => return refuse(StatusCode::NOT_FOUND, "there is no video of this time"),
        Err(refusal) => return *refusal,
    };
    let (sender, body) = AnswerBody::pieces(None);
    let reader = Arc::clone(service);
    tokio::spawn(async move {
        loop {
            let read = reader.threads.run(Work::Files, move || {
                let piece = export.next();
                (export, piece)
            });
            let Ok((rest, Some(piece))) = read.await else {
                return;
            };
            if sender.send(piece).await.is_err() {
                return;
            }
            export = rest;
        }
    });
    let mut answer = stream("video/mp4", body);
    let at = jiff::Timestamp::try_from(from).map_or(0, jiff::Timestamp::as_second);
    let name = format!("attachment; filename=\"{source}-{at}.mp4\"");
    if let Ok(name) = HeaderValue::from_str(&name.replace(':', "_")) {
        answer.headers_mut().insert(CONTENT_DISPOSITION, name);
    }
    answer
}

/// Reads on a thread that may block, a piece at a time, as the client takes them.
async fn send_file(service: Arc<Service>, file: File, first: u64, end: u64, sender: PieceSender) {
    let mut file = Some(file);
    let mut at = first;
    while at < end {
        let Some(mut opened) = file.take() else {
            return;
        };
        let bytes = PIECE_BYTES.min(end - at);
        let read = service.threads.run(Work::Files, move || {
            let mut piece = vec![0; bytes as usize];
            opened.seek(SeekFrom::Start(at))?;
            opened.read_exact(&mut piece)?;
            std::io::Result::Ok((opened, Bytes::from(piece)))
        });
        // A file that has become shorter ends the connection, as does a disk that does not answer.
        let Ok(Ok((opened, piece))) = read.await else {
            return;
        };
        if sender.send(piece).await.is_err() {
            return;
        }
        file = Some(opened);
        at += bytes;
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Range {
    /// No range, or one that is not understood.
    Whole,
    /// From the first to before the second.
    Part(u64, u64),
    Outside,
}

/// The one range of a `Range` header, of `bytes` bytes.
fn byte_range(header: &str, bytes: u64) -> Range {
    let Some((first, last)) = header
        .strip_prefix("bytes=")
        .filter(|ranges| !ranges.contains(','))
        .and_then(|range| range.trim().split_once('-'))
    else {
        return Range::Whole;
    };
    let number = |text: &str| text.parse::<u64>().ok();
    match (number(first), number(last)) {
        (Some(first), _) if first >= bytes => Range::Outside,
        (Some(first), None) if last.is_empty() => Range::Part(first, bytes),
        (Some(first), Some(last)) if last >= first => {
            Range::Part(first, last.saturating_add(1).min(bytes))
        }
        (None, Some(0)) if first.is_empty() => Range::Outside,
        (None, Some(length)) if first.is_empty() && bytes > 0 => {
            Range::Part(bytes.saturating_sub(length), bytes)
        }
        _ => Range::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_rfc_9110() {
        for (header, wanted) in [
            ("bytes=0-", Range::Part(0, 100)),
            ("bytes=0-0", Range::Part(0, 1)),
            ("bytes=10-19", Range::Part(10, 20)),
            ("bytes=90-200", Range::Part(90, 100)),
            ("bytes=-10", Range::Part(90, 100)),
            ("bytes=-1000", Range::Part(0, 100)),
            ("bytes=100-", Range::Outside),
            ("bytes=-0", Range::Outside),
            ("bytes=5-4", Range::Whole),
            ("bytes=0-1,5-6", Range::Whole),
            ("bytes=x-y", Range::Whole),
            ("bytes=0-18446744073709551615", Range::Part(0, 100)),
            ("lines=0-1", Range::Whole),
        ] {
            assert_eq!(byte_range(header, 100), wanted, "{header}");
        }
    }
}
