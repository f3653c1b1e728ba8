//! Code generation of Orchestra: a checked graph becomes a Rust module, annotated functions become handlers.
//!
//! An ordinary library over `proc_macro2`, so that it can be tested like any other; the macro crate only passes
//! tokens through. Files are read through a [`Reader`].
//!
//! ```
//! let item = "enum Verdict { Approved, Rejected }".parse().expect("tokens");
//! let code = orchestra_codegen::expand_outcome(item).to_string();
//! assert!(code.contains("\"approved\" , \"rejected\""));
//! ```

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
mod docs;
mod handler;
mod inline;
mod invocation;
mod krate;
mod module;
mod names;
mod needs;
mod outcome;
mod pipeline;
mod reader;
mod report;
mod table;
mod tool;

use std::panic::{AssertUnwindSafe, catch_unwind};

use proc_macro2::{Span, TokenStream};

pub use orchestra_graph::ReadFault;
pub use reader::Reader;

/// Expands `pipeline!`.
pub fn expand_pipeline(input: TokenStream, reader: &dyn Reader) -> TokenStream {
    guarded(|| pipeline::expand(input, reader))
}

/// Expands `bind!`.
pub fn expand_bind(input: TokenStream) -> TokenStream {
    guarded(|| bind::expand(input))
}

/// Expands `#[handler(..)]` on a function.
pub fn expand_handler(arguments: TokenStream, item: TokenStream) -> TokenStream {
    guarded(|| handler::function(arguments, item))
}

/// Expands `#[handlers]` on an `impl` block.
pub fn expand_handlers(arguments: TokenStream, item: TokenStream) -> TokenStream {
    guarded(|| handler::set(arguments, item))
}

/// Expands `#[derive(Attributes)]`.
pub fn expand_attributes(item: TokenStream) -> TokenStream {
    guarded(|| attributes::derive(item))
}

/// Expands `#[derive(Outcome)]`.
pub fn expand_outcome(item: TokenStream) -> TokenStream {
    guarded(|| outcome::derive(item))
}

/// Expands `#[tool(..)]` on a function.
pub fn expand_tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    guarded(|| tool::function(arguments, item))
}

/// Expands `#[agent(..)]` on a struct.
#[cfg(feature = "agents")]
pub fn expand_agent(arguments: TokenStream, item: TokenStream, reader: &dyn Reader) -> TokenStream {
    guarded(|| agent::expand(arguments, item, reader))
}

/// Runs an expansion; a panic in it becomes an error that names it a bug, because none may leave a macro.
fn guarded(expand: impl FnOnce() -> TokenStream) -> TokenStream {
    catch_unwind(AssertUnwindSafe(expand)).unwrap_or_else(|payload| {
        let words = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        report::bug(&format!("the macro panicked: {words}"), Span::call_site())
    })
}
