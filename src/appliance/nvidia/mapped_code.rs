// SPDX-License-Identifier: Apache-2.0
//! Gives back the memory of code and constants of the program and its libraries that was needed once, such as at the start.
//!
//! Such pages are copies of their files. A page that is needed again is mapped again from the kernel's page cache, without reading
//! the disk while it is there (`MADV_DONTNEED` in madvise(2)). The kernel itself does so only when memory is short.

use std::ffi::{c_int, c_void};
use std::fs;
use std::ops::Range;

use libc::{Elf64_Phdr, PF_W, PT_DYNAMIC, PT_LOAD, dl_iterate_phdr, dl_phdr_info};
use rustix::mm::{Advice, madvise};

/// Tags of the dynamic section, by the ELF specification.
const DT_NULL: u64 = 0;
const DT_TEXTREL: u64 = 22;
const DT_FLAGS: u64 = 30;
/// Bit of `DT_FLAGS`.
const DF_TEXTREL: u64 = 4;

/// A tag and a value, as in `Elf64_Dyn`.
type DynamicEntry = [u64; 2];

/// Addresses of whole pages.
type Pages = Range<usize>;

/// Unmaps the pages of read-only segments of the program and its libraries. Segments with a page that differs from its file, such as
/// one with a debugger's breakpoint, are left as they are. Costs some milliseconds, and less than a microsecond for each page that is needed again.
///
/// Returns the size of the address range in bytes; 0 where `/proc/self/smaps` cannot be read.
pub fn release() -> usize {
    let Ok(text) = fs::read_to_string("/proc/self/smaps") else {
        return 0;
    };
    let mut request = Request {
        unchanged: unchanged_pages(&text),
        released: 0,
    };
    // SAFETY: `release_object` has the type of the callback, and gets `request`, which outlives the call.
    unsafe { dl_iterate_phdr(Some(release_object), (&raw mut request).cast()) };
    request.released
}

struct Request {
    unchanged: Vec<Pages>,
    released: usize,
}

/// Read-only mappings of files whose pages are all as in the file, by `text` of `/proc/self/smaps`.
fn unchanged_pages(text: &str) -> Vec<Pages> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else {
            continue;
        };
        if let Some(pages) = parse_pages(first) {
            let is_read_only = words.next().is_some_and(|access| !access.contains('w'));
            // After offset and device; 0 for memory that is of no file.
            let is_file = words.nth(2).is_some_and(|inode| inode != "0");
            candidate = (is_read_only && is_file).then_some(pages);
        } else if first == "Anonymous:"
            && words.next() == Some("0")
            && let Some(pages) = candidate.take()
        {
            found.push(pages);
        }
    }
    found
}

/// Addresses as in `7f0000000000-7f0000001000`.
fn parse_pages(word: &str) -> Option<Pages> {
    let (start, end) = word.split_once('-')?;
    let parse = |address| usize::from_str_radix(address, 16).ok();
    Some(parse(start)?..parse(end)?)
}

/// Releases the read-only segments of one object. The loader holds a lock meanwhile: no object is removed.
unsafe extern "C" fn release_object(
    info: *mut dl_phdr_info,
    _size: usize,
    request: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid `info`, and `request` is that of `release`, which no other code uses meanwhile.
    let (info, request) = unsafe { (&*info, &mut *request.cast::<Request>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader passes the address and the number of the program headers.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let base = usize::try_from(info.dlpi_addr).unwrap_or_default();
    // The loader may be writing into it.
    if has_text_relocations(base, headers) {
        return 0;
    }
    let segments = headers
        .iter()
        .filter(|header| header.p_type == PT_LOAD && header.p_flags & PF_W == 0);
    for segment in segments {
        let start = base.wrapping_add(usize::try_from(segment.p_vaddr).unwrap_or_default());
        let length = usize::try_from(segment.p_memsz).unwrap_or_default();
        let segment = start..start.saturating_add(length);
        for pages in &request.unchanged {
            // The first and the last page of a segment belong to it as a whole: segments do not share pages in memory.
            if segment.start < pages.end && pages.start < segment.end {
                let size = rustix::param::page_size();
                let start = (segment.start / size * size).max(pages.start);
                let end = segment.end.next_multiple_of(size).min(pages.end);
                // SAFETY: these are whole pages of a loaded object's segment that is never written, and all are as in the file: each
                // later read gets the same from the file.
                let done =
                    unsafe { madvise(start as *mut c_void, end - start, Advice::LinuxDontNeed) };
                request.released += if done.is_ok() { end - start } else { 0 };
            }
        }
    }
    0
}

/// Whether relocations change read-only segments of the object at `base`.
fn has_text_relocations(base: usize, headers: &[Elf64_Phdr]) -> bool {
    let Some(dynamic) = headers.iter().find(|header| header.p_type == PT_DYNAMIC) else {
        return false;
    };
    let address = base.wrapping_add(usize::try_from(dynamic.p_vaddr).unwrap_or_default());
    let count = usize::try_from(dynamic.p_memsz).unwrap_or_default() / size_of::<DynamicEntry>();
    // SAFETY: the dynamic section of an object that is loaded, which has its size in bytes in its header.
    let entries = unsafe { std::slice::from_raw_parts(address as *const DynamicEntry, count) };
    entries
        .iter()
        .take_while(|[tag, _]| *tag != DT_NULL)
        .any(|[tag, value]| match *tag {
            DT_TEXTREL => true,
            DT_FLAGS => value & DF_TEXTREL != 0,
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_mappings_as_in_their_files_are_found() {
        let text = "\
            55000000-55001000 r-xp 00000000 fe:01 12 /usr/bin/a b\nRss: 4 kB\nAnonymous:             0 kB\n\
            55001000-55002000 rw-p 00001000 fe:01 12 /usr/bin/a\nAnonymous:             0 kB\n\
            55002000-55003000 r--p 00002000 fe:01 12 /usr/bin/a\nAnonymous:             4 kB\n\
            55003000-55004000 r--p 00000000 00:00 0 [vvar]\nAnonymous:             0 kB\n\
            55004000-55006000 r--p 00000000 fe:01 13 /usr/share/b\nAnonymous:             0 kB\n";
        let found = unchanged_pages(text);
        assert_eq!(found, [0x5500_0000..0x5500_1000, 0x5500_4000..0x5500_6000]);
    }

    #[test]
    fn released_code_is_there_again_when_it_runs() {
        let resident = || {
            let text = fs::read_to_string("/proc/self/status").expect("readable");
            let line = text.lines().find(|line| line.starts_with("RssFile:"));
            let mut words = line.expect("it is there").split_ascii_whitespace();
            let kib = words.nth(1).expect("a number");
            kib.parse::<u64>().expect("a number")
        };
        let before = resident();
        let released = release();
        let after = resident();
        assert!(released > 100_000, "{released}");
        assert!(after < before, "{after} of {before} KiB");
        assert_eq!("[1,2]", format!("{:?}", [1, 2]).replace(' ', ""));
    }
}
