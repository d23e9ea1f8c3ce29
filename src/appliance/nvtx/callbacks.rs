// SPDX-License-Identifier: Apache-2.0
//! The tool's functions that are called here, with their types: `nvtxTypes.h` and `nvToolsExt.h` of NVTX 3.
//!
//! The W variants of functions are used for texts, since source names may hold any letter and the A variants are for ASCII.

use std::ffi::{c_char, c_int, c_void};
use std::mem::{offset_of, transmute};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use crate::tool::{CORE, CORE2, NVTX_VERSION};

/// Linux's `wchar_t`: 32 bits, signed or not.
pub(crate) type WideChar = u32;

/// `nvtxDomainHandle_t`, a pointer of the tool. It is never freed. Null is the domain without a name.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct DomainHandle(*mut c_void);

/// `nvtxStringHandle_t`, a pointer of the tool. It is never freed.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct StringHandle(*mut c_void);

impl DomainHandle {
    pub(crate) const NONE: Self = Self(null_mut());
}

impl StringHandle {
    pub(crate) const NONE: Self = Self(null_mut());
}

// SAFETY: the pointer is only handed back to the tool, whose functions may be called from any thread.
unsafe impl Send for DomainHandle {}
// SAFETY: as above.
unsafe impl Sync for DomainHandle {}
// SAFETY: as above.
unsafe impl Send for StringHandle {}
// SAFETY: as above.
unsafe impl Sync for StringHandle {}

/// `nvtxEventAttributes_v2`.
#[repr(C)]
pub(crate) struct EventAttributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: StringHandle,
}

const _: () = assert!(
    size_of::<EventAttributes>() == 48
        && offset_of!(EventAttributes, payload) == 24
        && offset_of!(EventAttributes, message) == 40
);

const NVTX_COLOR_UNKNOWN: i32 = 0;
const NVTX_PAYLOAD_UNKNOWN: i32 = 0;
const NVTX_PAYLOAD_TYPE_UNSIGNED_INT64: i32 = 1;
const NVTX_MESSAGE_TYPE_REGISTERED: i32 = 3;

impl EventAttributes {
    /// Attributes without a color; category 0 is none.
    #[inline]
    pub(crate) fn new(message: StringHandle, category: u32, payload: Option<u64>) -> Self {
        Self {
            version: NVTX_VERSION,
            size: size_of::<Self>() as u16,
            category,
            color_type: NVTX_COLOR_UNKNOWN,
            color: 0,
            payload_type: match payload {
                Some(_) => NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                None => NVTX_PAYLOAD_UNKNOWN,
            },
            reserved: 0,
            payload: payload.unwrap_or(0),
            message_type: NVTX_MESSAGE_TYPE_REGISTERED,
            message,
        }
    }
}

/// For each callback, a function that reads the tool's function out of its slot; `None`: the tool has none.
macro_rules! callbacks {
    ($($nvtx:literal $name:ident = $module:ident[$id:literal]: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {$(
        #[doc = concat!("`", $nvtx, "`")]
        #[inline]
        pub(crate) fn $name() -> Option<unsafe extern "C" fn($($argument),*) $(-> $result)?> {
            // Relaxed: the tool writes the slots while `initialize` runs, and callers have returned from that.
            let function = $module[$id].load(Ordering::Relaxed);
            // SAFETY: null, or what the tool has written into the slot of this number, which has this type in `nvtxTypes.h`. The
            // tool's library is never closed after that.
            unsafe { transmute::<*mut c_void, Option<unsafe extern "C" fn($($argument),*) $(-> $result)?>>(function) }
        }
    )*};
}

callbacks! {
    "nvtxNameOsThreadW" name_thread = CORE[15]: fn(u32, *const WideChar);
    "nvtxDomainRangeStartEx" range_start = CORE2[2]: fn(DomainHandle, *const EventAttributes) -> u64;
    "nvtxDomainRangeEnd" range_end = CORE2[3]: fn(DomainHandle, u64);
    "nvtxDomainRangePushEx" range_push = CORE2[4]: fn(DomainHandle, *const EventAttributes) -> c_int;
    "nvtxDomainRangePop" range_pop = CORE2[5]: fn(DomainHandle) -> c_int;
    "nvtxDomainNameCategoryW" name_category = CORE2[9]: fn(DomainHandle, u32, *const WideChar);
    "nvtxDomainRegisterStringW" register_string = CORE2[11]: fn(DomainHandle, *const WideChar) -> StringHandle;
    "nvtxDomainCreateA" domain_create = CORE2[12]: fn(*const c_char) -> DomainHandle;
}
