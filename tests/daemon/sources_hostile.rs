// SPDX-License-Identifier: Apache-2.0
//! Servers and files that block, stop in the middle of an answer, or answer nonsense: the source is retried, its thread stays
//! responsive, and the process survives.

use crate::support;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use jetwatch_config::{SourceConfig, SourceUri};
use jetwatch_source::SourceError;

use support::collector::{Collector, config, failure_of, first_reason, rtsp};
use support::daemon::wait_until_some;

/// How a server answers.
#[derive(Debug, Clone, Copy)]
enum Answers {
    /// A header without its end.
    HalfHeader,
    /// A description that is shorter than its length says.
    HalfDescription,
    /// One byte a second.
    Slow,
    /// This status.
    Status(u16),
    /// A description of this many video tracks, which cannot be set up: no answer names a transport.
    Tracks(usize),
}

/// Starts a server on a free port; it ends with the process. Returns its address.
fn serve(answers: Answers) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                // Fails when the client has left.
                let _ = answer(stream, answers);
            });
        }
    });
    format!("rtsp://{address}/video")
}

fn answer(mut stream: TcpStream, answers: Answers) -> std::io::Result<()> {
    let mut requests = BufReader::new(stream.try_clone()?);
    loop {
        let (mut method, mut sequence) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if requests.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            match line.split_once(": ") {
                Some(("CSeq", number)) => number.clone_into(&mut sequence),
                Some(_) => {}
                None => line
                    .split(' ')
                    .next()
                    .unwrap_or_default()
                    .clone_into(&mut method),
            }
        }
        let head = format!("RTSP/1.0 200 OK\r\nCSeq: {sequence}\r\n");
        match (answers, method.as_str()) {
            (Answers::HalfHeader, _) => stream.write_all(head.as_bytes())?,
            (Answers::Slow, _) => {
                for byte in head.bytes().chain(std::iter::repeat(b'x')) {
                    stream.write_all(&[byte])?;
                    thread::sleep(Duration::from_secs(1));
                }
            }
            (Answers::Status(status), _) => {
                write!(stream, "RTSP/1.0 {status} No\r\nCSeq: {sequence}\r\n\r\n")?;
            }
            (_, "OPTIONS") => {
                write!(
                    stream,
                    "{head}Public: OPTIONS, DESCRIBE, SETUP, PLAY\r\n\r\n"
                )?;
            }
            (Answers::HalfDescription, "DESCRIBE") => {
                write!(
                    stream,
                    "{head}Content-Type: application/sdp\r\nContent-Length: 500\r\n\r\nv=0\r\n"
                )?;
            }
            (Answers::Tracks(tracks), "DESCRIBE") => {
                let mut text =
                    "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=tracks\r\nt=0 0\r\n".to_owned();
                for track in 0..tracks {
                    text += &format!(
                        "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:track{track}\r\n"
                    );
                }
                write!(
                    stream,
                    "{head}Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{text}",
                    text.len()
                )?;
            }
            _ => write!(stream, "{head}Session: 1\r\n\r\n")?,
        }
    }
}

/// A source of the server that gives up after a second without a frame.
fn source_of(answers: Answers) -> SourceConfig {
    let mut config = config(rtsp(serve(answers), None));
    config.stall_timeout = Duration::from_secs(1);
    config.reconnect_max_wait = Duration::from_millis(100);
    config
}

#[test]
fn server_that_stops_in_an_answer_is_retried_and_its_thread_is_never_stalled() {
    for answers in [Answers::HalfHeader, Answers::HalfDescription, Answers::Slow] {
        let collector = Collector::start(&source_of(answers), usize::MAX);
        wait_until_some(&format!("attempts with {answers:?}"), || {
            // As long as the watchdog waits before it reports a thread.
            let stalled = collector.heartbeats.stalled(Duration::from_secs(15));
            assert!(stalled.is_none(), "{answers:?}: {stalled:?}");
            (collector.counters.reconnects() >= 2).then_some(())
        });
        collector.stop().1.expect("it was stopped");
    }
}

#[test]
fn statuses_401_and_403_are_refusals_and_others_are_not() {
    for (status, is_refusal) in [(401, true), (403, true), (404, false), (503, false)] {
        let source = SourceConfig {
            stall_timeout: Duration::from_secs(60),
            ..source_of(Answers::Status(status))
        };
        let reason = first_reason(&source);
        assert_eq!(reason.contains("refuses access"), is_refusal, "{reason}");
        assert!(
            reason.contains(&status.to_string())
                // GStreamer 1.16 does not tell it.
                || reason.contains("No supported authentication protocol")
                || !is_refusal,
            "{reason}"
        );
    }
}

#[test]
fn descriptions_of_many_tracks_that_cannot_be_set_up_crash_nothing() {
    let sources = [200, 200, 200, 20, 20, 2].map(|tracks| source_of(Answers::Tracks(tracks)));
    // Sources are stopped at any moment of an attempt.
    for _ in 0..8 {
        let collectors: Vec<_> = sources
            .iter()
            .map(|source| Collector::start(source, usize::MAX))
            .collect();
        for collector in &collectors {
            wait_until_some("three attempts", || {
                (collector.counters.reconnects() >= 3).then_some(())
            });
        }
        for collector in collectors {
            collector.stop().1.expect("it was stopped");
        }
    }
}

#[test]
fn pipe_without_writer_is_no_video_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pipe.mp4");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe can be made");
    let error = failure_of(&config(SourceUri::File(path)));
    assert!(matches!(error, SourceError::NotAFile { .. }), "{error}");
    assert!(error.to_string().contains("launch fragment"), "{error}");
}
