//! The examples in Rust of the book. Each file with one is compiled as documentation.

// `file=~/NAME` is not for rustdoc.
#![allow(rustdoc::invalid_codeblock_attributes)]

#[doc = include_str!("../../../REFERENCE.md")]
struct Reference;

#[doc = include_str!("../../../book/src/how-to/fleet.md")]
struct Fleet;

#[doc = include_str!("../../../book/src/how-to/rust.md")]
struct Rust;

#[doc = include_str!("../../../book/src/how-to/test.md")]
struct Test;
