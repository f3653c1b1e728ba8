//! The macros of Orchestra: thin wrappers around `orchestra_codegen`, documented in the crate `orchestra`.
//!
//! # Glossary
//!
//! - **Pipeline**: a graph of stages in the language DOT, from a file or inline.
//! - **Handler**: a function or method that executes the nodes of a kind.
//! - **Outcome**: the result of a stage, which the conditions of edges refer to.
//! - **Attribute**: a named value of a node, which a handler can read as a field of a struct.
//! - **Tool**: a function that a model may call.
//! - **Agent**: a struct with prompt layers, a model and tools; its fields are the variables of its task.
//!
//! # Modules, in reading order
//!
//! This crate has no modules: each macro calls the function of `orchestra_codegen` that expands it, with the files on
//! disk.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use orchestra_codegen::{ReadError, Reader};
use proc_macro::TokenStream;
use proc_macro2::Span;

/// Checks a pipeline at build time and generates a typed module from it.
#[proc_macro]
pub fn pipeline(input: TokenStream) -> TokenStream {
    orchestra_codegen::expand_pipeline(input.into(), &Disk).into()
}

/// Binds a pipeline of another module or crate to handlers of this program.
#[proc_macro]
pub fn bind(input: TokenStream) -> TokenStream {
    orchestra_codegen::expand_bind(input.into()).into()
}

/// Makes a function a handler.
#[proc_macro_attribute]
pub fn handler(arguments: TokenStream, item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_handler(arguments.into(), item.into()).into()
}

/// Makes the marked methods of an `impl` block handlers.
#[proc_macro_attribute]
pub fn handlers(arguments: TokenStream, item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_handlers(arguments.into(), item.into()).into()
}

/// Makes a function a tool for models.
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_tool(arguments.into(), item.into()).into()
}

/// Makes a struct an agent.
#[cfg(feature = "agents")]
#[proc_macro_attribute]
pub fn agent(arguments: TokenStream, item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_agent(arguments.into(), item.into(), &Disk).into()
}

/// Makes a struct of a node's custom attributes an argument for handlers.
#[proc_macro_derive(Attributes, attributes(attribute))]
pub fn attributes(item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_attributes(item.into()).into()
}

/// Makes the variants of an enum without fields the outcomes of a handler.
#[proc_macro_derive(Outcome, attributes(outcome))]
pub fn outcome(item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_outcome(item.into()).into()
}

/// The reader of files on disk.
struct Disk;

impl Reader for Disk {
    fn manifest(&self) -> PathBuf {
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from)
    }

    fn source_file(&self, span: Span) -> Option<PathBuf> {
        // rustc names files relative to its working directory.
        let file = span.local_file().or_else(|| Span::call_site().local_file())?;
        std::path::absolute(file).ok()
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
        let diagnostic = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => ReadError::Missing,
            _ => ReadError::Other(error.to_string()),
        };
        let metadata = fs::metadata(path).map_err(diagnostic)?;
        if !metadata.is_file() {
            return Err(ReadError::Other("it is not a regular file".to_owned()));
        }
        if metadata.len() > limit {
            return Err(ReadError::TooLong(metadata.len()));
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(diagnostic)?;
        file.take(limit + 1).read_to_end(&mut bytes).map_err(diagnostic)?;
        Ok(bytes)
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .take(1_000)
            .collect()
    }

    fn tokens(&self, code: &str) -> Option<proc_macro2::TokenStream> {
        code.parse::<TokenStream>().ok().map(Into::into)
    }
}
