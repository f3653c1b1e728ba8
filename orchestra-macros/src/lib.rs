//! The macros of Orchestra: thin doors to `orchestra_codegen`, documented at `orchestra`.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use orchestra_codegen::{ReadFault, Reader};
use proc_macro::TokenStream;
use proc_macro2::Span;

/// Checks a pipeline while the program is built and makes a typed module of it.
#[proc_macro]
pub fn pipeline(input: TokenStream) -> TokenStream {
    orchestra_codegen::expand_pipeline(input.into(), &Disk).into()
}

/// Binds a pipeline of another module or crate to handlers of this program.
#[proc_macro]
pub fn bind(input: TokenStream) -> TokenStream {
    orchestra_codegen::expand_bind(input.into()).into()
}

/// Makes a handler of a function.
#[proc_macro_attribute]
pub fn handler(arguments: TokenStream, item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_handler(arguments.into(), item.into()).into()
}

/// Makes handlers of the marked methods of an `impl` block.
#[proc_macro_attribute]
pub fn handlers(arguments: TokenStream, item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_handlers(arguments.into(), item.into()).into()
}

/// Makes a tool of a function, for models.
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_tool(arguments.into(), item.into()).into()
}

/// Makes an agent of a struct.
#[cfg(feature = "agents")]
#[proc_macro_attribute]
pub fn agent(arguments: TokenStream, item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_agent(arguments.into(), item.into(), &Disk).into()
}

/// Makes a struct of a node's custom attributes an argument of handlers.
#[proc_macro_derive(Attributes, attributes(attribute))]
pub fn attributes(item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_attributes(item.into()).into()
}

/// Makes an enum without fields the outcome words of a handler.
#[proc_macro_derive(Outcome, attributes(outcome))]
pub fn outcome(item: TokenStream) -> TokenStream {
    orchestra_codegen::expand_outcome(item.into()).into()
}

/// The files of the package that is built.
struct Disk;

impl Reader for Disk {
    fn manifest(&self) -> PathBuf {
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from)
    }

    fn source_file(&self, span: Span) -> Option<PathBuf> {
        // rustc names files relative to the folder in which it runs.
        let file = span.local_file().or_else(|| Span::call_site().local_file())?;
        std::path::absolute(file).ok()
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadFault> {
        let fault = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => ReadFault::Missing,
            _ => ReadFault::Other(error.to_string()),
        };
        let metadata = fs::metadata(path).map_err(fault)?;
        if !metadata.is_file() {
            return Err(ReadFault::Other("it is not a regular file".to_owned()));
        }
        if metadata.len() > limit {
            return Err(ReadFault::TooLong(metadata.len()));
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(fault)?;
        file.take(limit + 1).read_to_end(&mut bytes).map_err(fault)?;
        Ok(bytes)
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .take(1_000)
            .collect()
    }
}
