//! Support for the tests of the book in `book/`.
//!
//! A *fence* is a block of code in a page. Its info string says what it is and how it is tested:
//!
//! | Info string | Test |
//! |---|---|
//! | `dot` | `orchestra check` reports neither an error nor a warning |
//! | `dot,bad=CODE` | `orchestra check` reports this diagnostic |
//! | `yaml` | a sound `orchestra.yaml` |
//! | `yaml,script` | a sound simulation script |
//! | `yaml,layer` | a sound prompt layer, or an agent or tool of a user; `file=` says which |
//! | `console` | lines that begin with `$ ` are commands of one shell for the page; `> ` continues a command. They exit with 0 |
//! | `console,exit=N` | the last command exits with N |
//! | `console,needs=PROGRAM` | the rest of the page is skipped on a machine without the program |
//! | `rust` | compiled and run as an example of this crate (`doctests.rs`); `no_run` only compiles it |
//! | `json` | valid JSON, as a whole or in each line |
//! | `text` | nothing: text for people |
//! | any, with `ignore (REASON)` | nothing, for the reason |
//!
//! `file=NAME` writes a fence to a file in the folder of the page, before the fences after it are tested; the text before it
//! names the file, because a reader does not see the info string. `model` on a
//! configuration lets its providers be a server on loopback, which answers each request. The lines after a command are
//! its output: `..` stands for any part of a line, `.. ms` for any duration, and a line `..` for any lines. Without such lines, any output passes.
//!
//! ```
//! use orchestra_book_tests::{Page, Fence};
//! let page = Page::new("page.md", "Run it:\n\n```console,exit=1\n$ false\n```\n");
//! let fences = Fence::all(&page).unwrap();
//! assert_eq!(fences[0].language, "console");
//! assert_eq!(fences[0].value("exit"), Some("1"));
//! ```

// A warning stops a reader too.
#![doc(test(attr(deny(warnings), allow(dead_code))))]

mod expected;
mod fence;
mod links;
mod page;
mod run;
mod shell;
mod yaml;

#[cfg(doctest)]
mod doctests;

pub use expected::matches;
pub use fence::Fence;
pub use links::{Heading, Link, headings, links, slug};
pub use page::{Page, book, chapters, pages, root};
pub use run::{Programs, run};
pub use shell::{Ended, Shell};
