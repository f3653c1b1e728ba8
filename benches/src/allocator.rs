//! An allocator that counts, for programs that measure memory.

#![allow(unsafe_code, reason = "an allocator is not safe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The allocator of the system, with counters. A program uses it as its `global_allocator`.
pub struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static MADE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system allocator unchanged; only counters are added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        MADE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of the system allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Returns the memory in use, in bytes.
pub fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// Returns the peak memory since [`reset_most`], in bytes.
pub fn most() -> usize {
    MOST.load(Ordering::Relaxed)
}

/// Sets the peak to the memory in use.
pub fn reset_most() {
    MOST.store(held(), Ordering::Relaxed);
}

/// Returns the number of allocations so far.
pub fn made() -> usize {
    MADE.load(Ordering::Relaxed)
}
