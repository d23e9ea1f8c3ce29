// SPDX-License-Identifier: Apache-2.0
//! Progress of a build: TensorRT reports it phase by phase since version 10.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::ffi_guard::{no_unwind, text};
use super::logger::{InterfaceInfo, Table, api_language, not_deleted};
use super::object::FunctionPointer;
use super::shared_object::SharedObject;

/// One step of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// TensorRT's name of the phase.
    pub phase: String,
    /// Name of the enclosing phase; empty for an outermost one.
    pub parent: String,
    /// Steps done, 0 to `steps`.
    pub done: u32,
    /// Steps of the phase, at least 1.
    pub steps: u32,
}

/// Called for each step; `false` cancels the build.
pub(super) type ProgressCallback<'t> = &'t (dyn Fn(&Progress) -> bool + Sync);

/// An `IProgressMonitor`. Must outlive the build.
#[repr(C)]
pub(super) struct ProgressMonitor<'t> {
    table: *const FunctionPointer,
    callback: ProgressCallback<'t>,
    /// Open phases. TensorRT calls from several threads.
    open: Mutex<Vec<Progress>>,
    canceled: AtomicBool,
}

impl<'t> ProgressMonitor<'t> {
    pub(super) fn new(callback: ProgressCallback<'t>) -> SharedObject<Self> {
        SharedObject::new(Self {
            table: TABLE.functions.as_ptr(),
            callback,
            open: Mutex::default(),
            canceled: AtomicBool::new(false),
        })
    }

    /// Whether the callback has returned `false`.
    pub(super) fn is_canceled(&self) -> bool {
        self.canceled.load(Ordering::Relaxed)
    }

    /// Reports a step; returns whether to continue. TensorRT evaluates the result only at some steps, so a cancellation is stored.
    fn report(&self, progress: &Progress) -> bool {
        if !(self.callback)(progress) {
            self.canceled.store(true, Ordering::Relaxed);
        }
        !self.is_canceled()
    }

    /// Updates the phase with that name and reports it; returns whether to continue.
    fn step(&self, name: &str, done: impl FnOnce(u32) -> u32, ends: bool) -> bool {
        let mut open = self.open.lock();
        let Some(at) = open.iter().rposition(|phase| phase.phase == name) else {
            return true;
        };
        let steps = open[at].steps;
        open[at].done = done(steps).min(steps);
        let snapshot = open[at].clone();
        if ends {
            open.remove(at);
        }
        drop(open);
        self.report(&snapshot)
    }
}

/// The monitor behind `this`.
///
/// # Safety
/// `this` is a [`ProgressMonitor`] that is alive, as during a build.
unsafe fn monitor<'m>(this: *const c_void) -> &'m ProgressMonitor<'m> {
    // SAFETY: guaranteed by the caller.
    unsafe { &*this.cast::<ProgressMonitor<'m>>() }
}

unsafe extern "C" fn info(_this: *const c_void) -> InterfaceInfo {
    InterfaceInfo {
        kind: c"IProgressMonitor".as_ptr(),
        major: 1,
        minor: 0,
    }
}

unsafe extern "C" fn phase_start(
    this: *mut c_void,
    name: *const c_char,
    parent: *const c_char,
    steps: i32,
) {
    // SAFETY: TensorRT passes the monitor of the running build.
    let monitor = unsafe { monitor(this) };
    no_unwind("the progress monitor", (), || {
        // SAFETY: TensorRT passes zero-terminated texts; the parent may be null.
        let (name, parent) = unsafe { (text(name), text(parent)) };
        let phase = Progress {
            phase: name,
            parent,
            done: 0,
            steps: u32::try_from(steps).unwrap_or(1).max(1),
        };
        let mut open = monitor.open.lock();
        open.push(phase.clone());
        drop(open);
        monitor.report(&phase);
    });
}

unsafe extern "C" fn step_complete(this: *mut c_void, name: *const c_char, step: i32) -> bool {
    // SAFETY: TensorRT passes the monitor of the running build.
    let monitor = unsafe { monitor(this) };
    no_unwind("the progress monitor", true, || {
        // SAFETY: TensorRT passes a zero-terminated text.
        let name = unsafe { text(name) };
        let done = u32::try_from(step).unwrap_or(0).saturating_add(1);
        monitor.step(&name, |_| done, false)
    })
}

unsafe extern "C" fn phase_finish(this: *mut c_void, name: *const c_char) {
    // SAFETY: TensorRT passes the monitor of the running build.
    let monitor = unsafe { monitor(this) };
    no_unwind("the progress monitor", (), || {
        // SAFETY: TensorRT passes a zero-terminated text.
        let name = unsafe { text(name) };
        monitor.step(&name, |steps| steps, true);
    });
}

static TABLE: Table<7> = Table::new([
    api_language as *const c_void,
    info as *const c_void,
    not_deleted as *const c_void,
    not_deleted as *const c_void,
    phase_start as *const c_void,
    step_complete as *const c_void,
    phase_finish as *const c_void,
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_reported_step_by_step_and_can_be_canceled() {
        let reported = Mutex::new(Vec::new());
        let report = |progress: &Progress| {
            let mut reported = reported.lock();
            reported.push(format!(
                "{} {}/{}",
                progress.phase, progress.done, progress.steps
            ));
            reported.len() < 4
        };
        let monitor = ProgressMonitor::new(&report);
        let this = monitor.pointer();
        // SAFETY: the monitor is alive, and the texts are zero-terminated.
        let continues = unsafe {
            phase_start(this, c"Building".as_ptr(), std::ptr::null(), 2);
            phase_start(this, c"Tactics".as_ptr(), c"Building".as_ptr(), 3);
            (
                step_complete(this, c"Tactics".as_ptr(), 0),
                step_complete(this, c"Tactics".as_ptr(), 1),
            )
        };
        // SAFETY: as above.
        unsafe { phase_finish(this, c"Tactics".as_ptr()) };
        assert_eq!(continues, (true, false));
        assert_eq!(
            reported.lock().as_slice(),
            [
                "Building 0/2",
                "Tactics 0/3",
                "Tactics 1/3",
                "Tactics 2/3",
                "Tactics 3/3"
            ]
        );
    }
}
