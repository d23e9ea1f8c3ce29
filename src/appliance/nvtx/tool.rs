// SPDX-License-Identifier: Apache-2.0
//! Finds the tool and lets it write its functions: what `nvtxInit.h`, `nvtxImpl.h` and `nvtxTypes.h` of NVTX 3 do.
//!
//! A tool sets `NVTX_INJECTION64_PATH` to the path of its library before the process starts. The first call of NVTX opens that library
//! and calls its `InitializeInjectionNvtx2`. That asks for tables of the slots for functions, and writes those of its functions into
//! them that it wants to be called. The other slots remain null.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

/// Version of the interface, in events and for the tool.
pub(crate) const NVTX_VERSION: u16 = 3;

/// Names the library of the tool; programs of 32 bits have another variable.
const INJECTION_PATH: &str = "NVTX_INJECTION64_PATH";

const _: () = assert!(size_of::<usize>() == 8);

/// Place of a tool's function; null: none.
pub(crate) type Slot = AtomicPtr<c_void>;

/// `NvtxCallbackIdCore`: slots by the number of the callback. Number 0 is none.
pub(crate) static CORE: [Slot; 16] = empty();
/// `NvtxCallbackIdCore2`: the functions with a domain.
pub(crate) static CORE2: [Slot; 16] = empty();

/// `NvtxCallbackModule` 1 to 6. A tool may write into all of them; functions of CUDA, OpenCL and synchronization are never called here.
static MODULES: [Module; 6] = [
    Module::new(&CORE, &addresses::<16, 17>(&CORE)),
    Module::new(&CUDA, &addresses::<9, 10>(&CUDA)),
    Module::new(&OPENCL, &addresses::<15, 16>(&OPENCL)),
    Module::new(&CUDART, &addresses::<7, 8>(&CUDART)),
    Module::new(&CORE2, &addresses::<16, 17>(&CORE2)),
    Module::new(&SYNC, &addresses::<7, 8>(&SYNC)),
];
static CUDA: [Slot; 9] = empty();
static OPENCL: [Slot; 15] = empty();
static CUDART: [Slot; 7] = empty();
static SYNC: [Slot; 7] = empty();

/// An entry of a table of slots: a pointer that is null for number 0 and for the entry after the last one.
type Address = Option<&'static Slot>;

struct Module {
    slots: &'static [Slot],
    addresses: &'static [Address],
}

impl Module {
    const fn new(slots: &'static [Slot], addresses: &'static [Address]) -> Self {
        Self { slots, addresses }
    }
}

const fn empty<const SLOTS: usize>() -> [Slot; SLOTS] {
    [const { Slot::new(null_mut()) }; SLOTS]
}

/// The table of a module: an entry for each slot, and a null after them.
const fn addresses<const SLOTS: usize, const ENTRIES: usize>(
    slots: &'static [Slot; SLOTS],
) -> [Address; ENTRIES] {
    assert!(ENTRIES == SLOTS + 1);
    let mut entries = [None; ENTRIES];
    let mut id = 1;
    while id < SLOTS {
        entries[id] = Some(&slots[id]);
        id += 1;
    }
    entries
}

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct CallbacksTable {
    size: usize,
    module_table: unsafe extern "C" fn(u32, *mut *const Address, *mut c_uint) -> c_int,
}

static CALLBACKS_TABLE: CallbacksTable = CallbacksTable {
    size: size_of::<CallbacksTable>(),
    module_table,
};

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionTable {
    size: usize,
    version: u32,
    reserved: u32,
    set_tool_version: extern "C" fn(u32),
}

static VERSION_TABLE: VersionTable = VersionTable {
    size: size_of::<VersionTable>(),
    version: NVTX_VERSION as u32,
    reserved: 0,
    set_tool_version,
};

/// `nvtxGetExportTable`: the table with this `NvtxExportTableID`, else null.
extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        1 => (&raw const CALLBACKS_TABLE).cast(),
        3 => (&raw const VERSION_TABLE).cast(),
        _ => null(),
    }
}

/// `GetModuleFunctionTable`: 1, with the table of a module and the number of its slots; 0 for an unknown module.
///
/// # Safety
/// `table` and `size` are null or may be written.
unsafe extern "C" fn module_table(
    module: u32,
    table: *mut *const Address,
    size: *mut c_uint,
) -> c_int {
    let Some(found) = (module as usize)
        .checked_sub(1)
        .and_then(|index| MODULES.get(index))
    else {
        return 0;
    };
    if !size.is_null() {
        // SAFETY: it is not null, so that the caller allows to write it.
        unsafe { size.write(found.slots.len() as c_uint) };
    }
    if !table.is_null() {
        // SAFETY: as above.
        unsafe { table.write(found.addresses.as_ptr()) };
    }
    1
}

/// `SetInjectionNvtxVersion`: for programs that refuse some versions of a tool.
extern "C" fn set_tool_version(_version: u32) {}

/// `InitializeInjectionNvtx2`.
type Initialize = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;

/// The library of the tool, which stays open until the process ends; `None`: no tool.
static TOOL: OnceLock<Option<Library>> = OnceLock::new();

thread_local! {
    static IS_INITIALIZING: Cell<bool> = const { Cell::new(false) };
}

/// Finds the tool at the first call. Other threads wait until it is initialized. A tool that calls back on the same thread does not
/// wait for itself: such a call does what the slots hold by then.
pub(crate) fn initialize() {
    if IS_INITIALIZING.get() {
        return;
    }
    TOOL.get_or_init(|| {
        IS_INITIALIZING.set(true);
        let tool = open();
        IS_INITIALIZING.set(false);
        tool
    });
}

/// The library of the tool, after it has written its functions; `None` when there is no tool, or it refuses.
fn open() -> Option<Library> {
    let path = std::env::var_os(INJECTION_PATH)?;
    // SAFETY: opening runs the initializers of the library. The user of the variable wants this library to run in this process.
    let library = unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_LOCAL) }.ok()?;
    // SAFETY: the function has this type in every library for NVTX 3.
    let function = unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2\0") }.ok()?;
    // SAFETY: the library is open, and `export_table` gives what it needs for as long as the process runs.
    if unsafe { function(export_table) } == 0 {
        // The library is closed now: no slot may lead into it.
        for slot in MODULES.iter().flat_map(|module| module.slots) {
            slot.store(null_mut(), Ordering::Relaxed);
        }
        return None;
    }
    Some(library)
}
