//! File access for code generation: a trait, so that a test needs no disk.

use std::path::{Path, PathBuf};

use orchestra_graph::{ChildReader, ReadError, normal_path};
use proc_macro2::{Span, TokenStream};

/// The environment of a macro: files, and the location of the invocation.
///
/// ```
/// use orchestra_codegen::{ReadError, Reader, expand_pipeline};
/// use std::path::{Path, PathBuf};
///
/// /// One file, without a disk.
/// struct One(&'static str);
/// impl Reader for One {
///     fn manifest(&self) -> PathBuf {
///         PathBuf::from("/package")
///     }
///     fn source_file(&self, _: proc_macro2::Span) -> Option<PathBuf> {
///         None
///     }
///     fn read(&self, path: &Path, _: u64) -> Result<Vec<u8>, ReadError> {
///         assert_eq!(path, Path::new("/package/release.dot"));
///         Ok(self.0.as_bytes().to_vec())
///     }
///     fn list(&self, _: &Path) -> Vec<String> {
///         Vec::new()
///     }
/// }
///
/// let input = r#"pub mod release = "release.dot";"#.parse().expect("it lexes");
/// let tokens = expand_pipeline(input, &One("digraph release { start -> work -> exit }")).to_string();
/// assert!(tokens.contains("pub mod release") && !tokens.contains("compile_error"));
/// ```
pub trait Reader {
    /// Returns the folder of the package that is built.
    fn manifest(&self) -> PathBuf;

    /// Returns the file that contains a token, or `None` if it is not known.
    fn source_file(&self, span: Span) -> Option<PathBuf>;

    /// Returns the content of a file, which may have at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing, too long or unreadable.
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadError>;

    /// Returns the names of the files in a folder, for suggestions. Returns none if the folder cannot be read.
    fn list(&self, folder: &Path) -> Vec<String>;

    /// Returns the tokens of generated code, or `None` if the code is not Rust. A macro should call the compiler, because
    /// `proc_macro2` lexes the code itself first, and is not optimised in most builds.
    fn tokens(&self, code: &str) -> Option<TokenStream> {
        code.parse().ok()
    }
}

/// A reader of child pipelines, whose paths are relative to the package.
pub(crate) struct Children<'r>(pub(crate) &'r dyn Reader);

impl ChildReader for Children<'_> {
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        self.0.read(&normal_path(&self.0.manifest().join(path)), limit)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        self.0.list(&normal_path(&self.0.manifest().join(folder)))
    }
}
