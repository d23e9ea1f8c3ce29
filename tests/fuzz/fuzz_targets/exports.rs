// SPDX-License-Identifier: Apache-2.0
//! Fuzz target: databases that Nsight Systems exports, and what is computed from them.

#![no_main]

use std::fs;
use std::path::Path;

use jetwatch_nsys::report::capture::TimeWindow;
use jetwatch_nsys::report::{ALL_TABLES, Plots, Request, analyze, page};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = format!("/dev/shm/jetwatch-fuzz-{}.sqlite", std::process::id());
    let path = Path::new(&path);
    fs::write(path, bytes).expect("it is writable");
    let request = Request {
        tables: &[ALL_TABLES.to_owned()],
        rows: 5,
        window: TimeWindow::default(),
        within: None,
        plots: Plots::Include,
        nsys: Path::new("/nonexistent/nsys"),
    };
    match analyze(path, "drawn", &request, &|_, _| {}) {
        Ok(analysis) => {
            assert!(page(&[analysis], &[], &[]).contains("<html"));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
