// SPDX-License-Identifier: Apache-2.0
//! NVTX 3, the interface by which a program shows ranges and names to tools such as Nsight Systems.
//!
//! It holds what `telemetry`, its only caller, uses: domains, registered strings, categories, ranges, and names of threads. Its
//! functions are safe and have no preconditions beyond their types. `tool.rs` finds the tool, `callbacks.rs` declares its functions.
//!
//! Written by hand from NVIDIA's headers: the crate `nvtx` needs libclang at build time. Without a tool, a range costs a load and a
//! null check when it is opened and when it ends, and nothing is allocated.

#![allow(unsafe_code)]

mod callbacks;
#[cfg(test)]
mod tests;
mod tool;

use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use callbacks::{DomainHandle, EventAttributes, StringHandle, WideChar};

/// A named set of ranges, strings and categories. It exists for the tool until the process ends, also when this is dropped.
pub struct Domain {
    handle: DomainHandle,
    categories: AtomicU32,
}

impl Domain {
    /// Creates the domain. The first call in the process looks for the tool.
    pub fn new(name: &CStr) -> Self {
        tool::initialize();
        let handle = callbacks::domain_create().map_or(DomainHandle::NONE, |create| {
            // SAFETY: the name ends with a zero and is valid during the call.
            unsafe { create(name.as_ptr()) }
        });
        Self {
            handle,
            categories: AtomicU32::new(0),
        }
    }

    /// Registers a text as the name of ranges. Zeros in it are left out. Each call takes a lock inside the tool.
    pub fn register_string(&self, text: &str) -> RegisteredString {
        let handle = callbacks::register_string().map_or(StringHandle::NONE, |register| {
            let text = wide(text);
            // SAFETY: the domain is one that the tool has returned, or null; the text ends with a zero and is valid during the call.
            unsafe { register(self.handle, text.as_ptr()) }
        });
        RegisteredString {
            domain: self.handle,
            handle,
        }
    }

    /// Registers a category under the next free number of the domain, from 1 on. Zeros in its name are left out.
    pub fn register_category(&self, name: &str) -> Category {
        let id = self.categories.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(name_category) = callbacks::name_category() {
            let name = wide(name);
            // SAFETY: as in `register_string`.
            unsafe { name_category(self.handle, id, name.as_ptr()) };
        }
        Category(id)
    }
}

/// A text that a domain has registered.
#[derive(Clone, Copy)]
pub struct RegisteredString {
    domain: DomainHandle,
    handle: StringHandle,
}

/// A category of a domain.
#[derive(Clone, Copy)]
pub struct Category(u32);

/// What a range shows. It is in the domain of its message.
#[derive(Clone, Copy)]
pub struct Event {
    /// Name of the range.
    pub message: RegisteredString,
    /// Category of the same domain.
    pub category: Option<Category>,
    /// Number shown with the range.
    pub payload: Option<u64>,
}

impl Event {
    /// Opens a range of the calling thread. Such ranges nest: the one that was opened last ends first.
    #[inline]
    #[must_use = "the range ends when the guard is dropped"]
    pub fn push(&self) -> LocalRange {
        let domain = self.message.domain;
        if let Some(push) = callbacks::range_push() {
            let attributes = self.attributes();
            // SAFETY: the domain is one that the tool has returned, or null; the attributes hold a string of that domain, and are
            // valid during the call.
            unsafe { push(domain, &attributes) };
        }
        LocalRange {
            domain,
            _thread: PhantomData,
        }
    }

    /// Starts a range that may end on another thread, and may overlap others.
    #[inline]
    #[must_use = "the range ends when the guard is dropped"]
    pub fn start(&self) -> Range {
        let domain = self.message.domain;
        let id = callbacks::range_start().map_or(0, |start| {
            let attributes = self.attributes();
            // SAFETY: as in `push`.
            unsafe { start(domain, &attributes) }
        });
        Range { domain, id }
    }

    fn attributes(&self) -> EventAttributes {
        let category = self.category.map_or(0, |category| category.0);
        EventAttributes::new(self.message.handle, category, self.payload)
    }
}

/// An open range of a thread, which ends when this is dropped, on the same thread.
pub struct LocalRange {
    domain: DomainHandle,
    /// The tool keeps a stack for each thread.
    _thread: PhantomData<*mut ()>,
}

impl Drop for LocalRange {
    #[inline]
    fn drop(&mut self) {
        if let Some(pop) = callbacks::range_pop() {
            // SAFETY: the domain is one that the tool has returned, or null.
            unsafe { pop(self.domain) };
        }
    }
}

/// An open range of any threads, which ends when this is dropped.
pub struct Range {
    domain: DomainHandle,
    id: u64,
}

impl Drop for Range {
    #[inline]
    fn drop(&mut self) {
        if let Some(end) = callbacks::range_end() {
            // SAFETY: the tool has returned this number for this domain, and it is ended once; without a tool it is 0.
            unsafe { end(self.domain, self.id) };
        }
    }
}

/// Names the thread with the number `id` of the operating system. Zeros in the name are left out.
pub fn name_thread(id: u32, name: &str) {
    tool::initialize();
    if let Some(name_thread) = callbacks::name_thread() {
        let name = wide(name);
        // SAFETY: the name ends with a zero and is valid during the call. The tool stores it under the number, whatever that is.
        unsafe { name_thread(id, name.as_ptr()) };
    }
}

/// The text in Linux's wide characters, which are code points, with a zero at the end.
fn wide(text: &str) -> Vec<WideChar> {
    let letters = text.chars().filter(|letter| *letter != '\0');
    letters.map(u32::from).chain([0]).collect()
}
