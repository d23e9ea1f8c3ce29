// SPDX-License-Identifier: Apache-2.0
//! Time of the streaming threads in single elements: from a push into an element to the return of that push, without the pushes
//! of the element itself.
//!
//! A pad probe sees a buffer enter and leave an element, but not the return of its calls. GStreamer's tracer hooks see both ends of
//! every push. They are registered once per process, when the first element is watched; a push through any other pad costs one
//! look into a table.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use gstreamer as gst;
use gstreamer::glib;
use gstreamer::prelude::*;
use gstreamer::subclass::prelude::*;
use parking_lot::RwLock;

use jetwatch_telemetry::{Recorder, Section, Stage, thread_cpu_time, thread_stage_cpu_time};

/// Elements from the push into the first to the push out of the last.
pub(super) struct Watched {
    stage: Stage,
    recorder: Recorder,
    /// Called at the end of each visit.
    after: Box<dyn Fn() + Send + Sync>,
}

/// CPU time that the streaming threads of a launch line spend outside of all stages, such as in elements that draw images.
#[derive(Debug, Default)]
pub(super) struct LaunchWork(AtomicU64);

impl LaunchWork {
    /// What was spent since the last call.
    pub(super) fn take(&self) -> Duration {
        Duration::from_nanos(self.0.swap(0, Ordering::AcqRel))
    }

    /// Adds what the calling thread has spent since it was here last. Waits cost no CPU time.
    fn count(self: &Arc<Self>) {
        let now = thread_cpu_time().saturating_sub(thread_stage_cpu_time());
        let before = COUNTED.replace(Some((Arc::as_ptr(self) as usize, now)));
        if let Some((of, before)) = before
            && of == Arc::as_ptr(self) as usize
        {
            let spent = now.saturating_sub(before).as_nanos();
            let spent = u64::try_from(spent).unwrap_or(u64::MAX);
            self.0.fetch_add(spent, Ordering::AcqRel);
        }
    }
}

/// What a push through a pad means for watched elements.
#[derive(Default, Clone)]
struct Roles {
    /// It leaves these elements.
    leaves: Option<Arc<Watched>>,
    /// It enters these elements.
    enters: Option<Arc<Watched>>,
    /// The pad's element runs a thread of a launch line.
    drives: Option<Arc<LaunchWork>>,
}

/// Roles by the address of the pad that pushes.
static ROLES: LazyLock<RwLock<HashMap<usize, Roles>>> = LazyLock::new(RwLock::default);

static TRACER: OnceLock<StageTracer> = OnceLock::new();

/// A push that has not returned.
enum Push {
    Inside(usize, Arc<Watched>, Section),
    Outside(usize),
    Driven(usize, Arc<LaunchWork>),
}

thread_local! {
    /// The pushes of this thread that have not returned, the innermost last; only those through watched pads.
    static OPEN: RefCell<Vec<Push>> = const { RefCell::new(Vec::new()) };
    /// CPU time of this thread outside of all stages when it was last counted, and the address of the counter.
    static COUNTED: Cell<Option<(usize, Duration)>> = const { Cell::new(None) };
}

/// Watches elements until it is dropped.
pub(super) struct WatchGuard(Vec<gst::Pad>);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let mut roles = ROLES.write();
        for pad in &self.0 {
            roles.remove(&address(pad));
        }
    }
}

/// Records as `stage` the time of threads in the elements from `first` to `last`; `after` is called at the end of each visit. `None`
/// where they have no pads on both sides.
pub(super) fn watch(
    first: &gst::Element,
    last: &gst::Element,
    stage: Stage,
    recorder: &Recorder,
    after: impl Fn() + Send + Sync + 'static,
) -> Option<WatchGuard> {
    let entry = first.static_pad("sink")?.peer()?;
    let exit = last.static_pad("src")?;
    trace_pushes();
    let watched = Arc::new(Watched {
        stage,
        recorder: recorder.clone(),
        after: Box::new(after),
    });
    let mut roles = ROLES.write();
    roles.entry(address(&entry)).or_default().enters = Some(Arc::clone(&watched));
    roles.entry(address(&exit)).or_default().leaves = Some(watched);
    drop(roles);
    Some(WatchGuard(vec![entry, exit]))
}

/// Counts as `work` what the threads that elements of a launch line run do outside of all stages.
pub(super) fn watch_threads<'a>(
    elements: impl Iterator<Item = &'a gst::Element>,
    work: &Arc<LaunchWork>,
) -> WatchGuard {
    trace_pushes();
    let runs = |pad: &gst::Pad| pad.task_state() != gst::TaskState::Stopped;
    let drivers = elements.filter(|element| element.pads().iter().any(runs));
    let pads: Vec<gst::Pad> = drivers.flat_map(|element| element.src_pads()).collect();
    let mut roles = ROLES.write();
    for pad in &pads {
        roles.entry(address(pad)).or_default().drives = Some(Arc::clone(work));
    }
    drop(roles);
    WatchGuard(pads)
}

fn trace_pushes() {
    TRACER.get_or_init(|| {
        let tracer: StageTracer = glib::Object::new();
        tracer.imp().register_hook(TracerHook::PadPushPre);
        tracer.imp().register_hook(TracerHook::PadPushPost);
        tracer
    });
}

fn address(pad: &gst::Pad) -> usize {
    pad.as_ptr() as usize
}

fn push_begins(pad: &gst::Pad, buffer: &gst::BufferRef) {
    let pad = address(pad);
    let Some(roles) = ROLES.read().get(&pad).cloned() else {
        return;
    };
    OPEN.with_borrow_mut(|open| {
        if let Some(work) = roles.drives.filter(|_| open.is_empty()) {
            open.push(Push::Driven(pad, work));
        }
        // Elements with threads of their own push from one that never entered them.
        if let (Some(watched), Some(Push::Inside(_, inside, section))) =
            (&roles.leaves, open.last_mut())
            && Arc::ptr_eq(watched, inside)
        {
            section.pause();
            open.push(Push::Outside(pad));
        }
        if let Some(watched) = roles.enters {
            let payload = buffer.pts().map_or(0, gst::ClockTime::mseconds);
            let section = Section::start(&watched.recorder, watched.stage, payload);
            open.push(Push::Inside(pad, watched, section));
        }
    });
}

fn push_returns(pad: &gst::Pad) {
    let pad = address(pad);
    OPEN.with_borrow_mut(|open| {
        if let Some(Push::Inside(entry, ..)) = open.last()
            && *entry == pad
            && let Some(Push::Inside(_, watched, section)) = open.pop()
        {
            section.end(&watched.recorder);
            (watched.after)();
        }
        if matches!(open.last(), Some(Push::Outside(exit)) if *exit == pad) {
            open.pop();
            if let Some(Push::Inside(_, _, section)) = open.last_mut() {
                section.resume();
            }
        }
        if let Some(Push::Driven(driver, work)) = open.last()
            && *driver == pad
        {
            work.count();
            open.pop();
        }
    });
}

glib::wrapper! {
    /// Calls [`push_begins`] and [`push_returns`].
    pub struct StageTracer(ObjectSubclass<imp::StageTracer>) @extends gst::Tracer, gst::Object;
}

mod imp {
    use gstreamer as gst;
    use gstreamer::glib;
    use gstreamer::subclass::prelude::*;

    #[derive(Default)]
    pub struct StageTracer;

    #[glib::object_subclass]
    impl ObjectSubclass for StageTracer {
        const NAME: &'static str = "JetwatchStageTracer";
        type Type = super::StageTracer;
        type ParentType = gst::Tracer;
    }

    impl ObjectImpl for StageTracer {}
    impl GstObjectImpl for StageTracer {}

    impl TracerImpl for StageTracer {
        fn pad_push_pre(&self, _ts: u64, pad: &gst::Pad, buffer: &gst::Buffer) {
            super::push_begins(pad, buffer);
        }

        fn pad_push_post(
            &self,
            _ts: u64,
            pad: &gst::Pad,
            _result: Result<gst::FlowSuccess, gst::FlowError>,
        ) {
            super::push_returns(pad);
        }
    }
}
