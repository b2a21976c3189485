//! Links Seawall's engines and server cores without the standard library.
//!
//! It guarantees that a research OS can embed them: with a panic handler and an allocator of its
//! own here, a second one that any loaded crate brings in with std ends the build with "duplicate
//! lang item". Nothing in here runs. A crate that is only a dependency is not loaded, so each has
//! its line below.
#![no_std]

extern crate alloc;

use alloc::boxed::Box;
use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_int;
use core::panic::PanicInfo;

// Everything that has to link without std, one line each. `cargo xtask nostd` fails when a crate
// has code and no line here.
use seawall_blockdev as _;
use seawall_diskfs as _;
use seawall_ext2 as _;
use seawall_fat as _;
use seawall_ipc as _;
use seawall_store as _;
use seawall_translator as _;

struct Refuse;

// SAFETY: it hands out no memory at all, which the contract allows: null means "refused".
unsafe impl GlobalAlloc for Refuse {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Refuse = Refuse;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Reaches the engines from outside, so that their code is generated and linked, not only read.
// SAFETY: no other symbol of this name is linked.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_nostd_gate() -> c_int {
    let buffer = Box::new(seawall_blockdev::PageBuf::from_slice(b"seawall"));
    c_int::from(buffer.is_empty())
}
