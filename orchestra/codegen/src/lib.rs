//! Code generation of Orchestra: turns a checked graph into a Rust module and annotated functions into handlers.
//!
//! This is an ordinary library on top of `proc_macro2`, so that ordinary unit tests can cover it; the macro crate only
//! passes tokens through. Files are read through a [`Reader`].
//!
//! # Glossary
//!
//! - **Invocation**: the tokens passed to `pipeline!`, which declare one or more pipelines.
//! - **Inline pipeline**: a pipeline whose text is Rust tokens instead of a file.
//! - **Table**: the compiled form of a pipeline, as constant data in the generated module.
//! - **Descendants**: all child pipelines that a pipeline runs, directly or indirectly.
//! - **Handler**: a function or method of the program that executes the nodes of a kind.
//! - **Requirements**: the attributes and outcomes that a pipeline requires of custom handlers. They are compared with
//!   the handlers when the program is compiled.
//! - **Binding**: the connection of a pipeline to a set of handlers.
//! - **Span**: a byte range in the text of a pipeline (`orchestra_graph::Span`), or the location of a Rust token
//!   (`proc_macro2::Span`).
//!
//! # Modules, in reading order
//!
//! - `reader`: file access for code generation.
//! - `invocation`: the syntax of `pipeline!`.
//! - `inline`: conversion of the Rust tokens of an inline pipeline to text.
//! - `text`: the text of a pipeline, from a file or from tokens.
//! - `pipeline`: expansion of `pipeline!`.
//! - `children`: the child pipelines of a module.
//! - `config`: build-time resolution of a pipeline with its configuration (`no_config` without the feature `agents`).
//! - `lock`: build-time comparison of a pipeline with its locked versions, and their tables.
//! - `report`: diagnostics as errors and warnings of rustc.
//! - `code`: a buffer in which code is generated.
//! - `names`: conversion of the names of a pipeline to Rust names.
//! - `krate`: the path of the `orchestra` crate, and helpers for spans.
//! - `contract`: the declared inputs and outputs of a pipeline as Rust types.
//! - `limits`: the limits of the runs of a pipeline.
//! - `paths`: the generated tests of a pipeline.
//! - `module`: the generated module.
//! - `table`: the table of a pipeline as constant data.
//! - `requirements`: the generated code for the requirements on custom handlers.
//! - `picture`: the picture in the documentation of a generated module.
//! - `docs`: the documentation of a generated module.
//! - `bind`: expansion of `bind!`.
//! - `signature`: the rules for the signatures of handlers and tools.
//! - `handler`: expansion of `#[handler]` and `#[handlers]`.
//! - `attributes`: expansion of `#[derive(Attributes)]`.
//! - `outcome`: expansion of `#[derive(Outcome)]`.
//! - `tool`: expansion of `#[tool]`.
//! - `agent`: expansion of `#[agent]`.
//!
//! # Examples
//!
//! ```
//! let item = "enum Verdict { Approved, Rejected }".parse().expect("tokens");
//! let code = orchestra_codegen::expand_outcome(item).to_string();
//! assert!(code.contains("\"approved\" , \"rejected\""));
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "agents")]
mod agent;
mod attributes;
mod bind;
mod children;
mod code;
#[cfg(feature = "agents")]
mod config;
#[cfg(not(feature = "agents"))]
#[path = "no_config.rs"]
mod config;
mod contract;
mod docs;
mod handler;
mod inline;
mod invocation;
mod krate;
mod limits;
mod lock;
mod module;
mod names;
mod outcome;
mod paths;
mod picture;
mod pipeline;
mod reader;
mod report;
mod requirements;
mod signature;
mod table;
mod text;
mod tool;

use std::panic::{AssertUnwindSafe, catch_unwind};

use proc_macro2::{Span, TokenStream};

pub use orchestra_graph::ReadError;
pub use reader::Reader;

/// Expands `pipeline!`.
pub fn expand_pipeline(input: TokenStream, reader: &dyn Reader) -> TokenStream {
    catch_panic(|| pipeline::expand(input, reader))
}

/// Expands `bind!`.
pub fn expand_bind(input: TokenStream) -> TokenStream {
    catch_panic(|| bind::expand(input))
}

/// Expands `#[handler(..)]` on a function.
pub fn expand_handler(arguments: TokenStream, item: TokenStream) -> TokenStream {
    catch_panic(|| handler::function(arguments, item))
}

/// Expands `#[handlers]` on an `impl` block.
pub fn expand_handlers(arguments: TokenStream, item: TokenStream) -> TokenStream {
    catch_panic(|| handler::set(arguments, item))
}

/// Expands `#[derive(Attributes)]`.
pub fn expand_attributes(item: TokenStream) -> TokenStream {
    catch_panic(|| attributes::derive(item))
}

/// Expands `#[derive(Outcome)]`.
pub fn expand_outcome(item: TokenStream) -> TokenStream {
    catch_panic(|| outcome::derive(item))
}

/// Expands `#[tool(..)]` on a function.
pub fn expand_tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    catch_panic(|| tool::function(arguments, item))
}

/// Expands `#[agent(..)]` on a struct.
#[cfg(feature = "agents")]
pub fn expand_agent(arguments: TokenStream, item: TokenStream, reader: &dyn Reader) -> TokenStream {
    catch_panic(|| agent::expand(arguments, item, reader))
}

/// Runs an expansion. Turns a panic into an error that reports a bug, because a macro must not panic.
fn catch_panic(expand: impl FnOnce() -> TokenStream) -> TokenStream {
    catch_unwind(AssertUnwindSafe(expand)).unwrap_or_else(|payload| {
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        report::bug(&format!("the macro panicked: {message}"), Span::call_site())
    })
}
