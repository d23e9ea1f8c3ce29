// SPDX-License-Identifier: Apache-2.0
//! A program with one error of each kind, by which `run` sees that the sanitizer is there and reports: `planted address | thread`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

static mut SHARED: u32 = 0;

/// Ends the wait of both threads without ordering what they do then.
static STARTED: AtomicBool = AtomicBool::new(false);

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("address") => {
            let value = Box::into_raw(Box::new(7_u32));
            // SAFETY: none; it is read after its end.
            unsafe {
                drop(Box::from_raw(value));
                println!("{}", value.read_volatile());
            }
        }
        Some("thread") => {
            let write = || {
                while !STARTED.load(Ordering::Relaxed) {}
                // SAFETY: none; two threads write at once.
                unsafe { (&raw mut SHARED).write_volatile(1) };
            };
            let threads = [thread::spawn(write), thread::spawn(write)];
            STARTED.store(true, Ordering::Relaxed);
            for thread in threads {
                thread.join().expect("it does not panic");
            }
        }
        other => panic!("{other:?} is no error of this program"),
    }
}
