// SPDX-License-Identifier: Apache-2.0
//! Ports for programs that cannot choose one themselves, or whose port a test must know before they start.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// An unused port, below those that the kernel gives to others meanwhile. The search starts at a port that depends on the number of this
/// process, so that concurrent tests find different ones.
pub fn free_port() -> u16 {
    static SEARCHES: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id()
        .wrapping_mul(7919)
        .wrapping_add(SEARCHES.fetch_add(1, Ordering::Relaxed) * 101);
    (0..20_000)
        .map(|step| {
            10_000 + u16::try_from((begin.wrapping_add(step)) % 20_000).expect("below 20,000")
        })
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .expect("a free port")
}
