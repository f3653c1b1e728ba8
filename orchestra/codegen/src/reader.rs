//! How code generation reads files: through a trait, so that a test needs no disk.

use std::path::{Component, Path, PathBuf};

use orchestra_graph::{ChildReader, ReadFault};
use proc_macro2::Span;

/// What a macro may know of the world: files, and where the invocation stands.
///
/// ```
/// use orchestra_codegen::{ReadFault, Reader, expand_pipeline};
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
///     fn read(&self, path: &Path, _: u64) -> Result<Vec<u8>, ReadFault> {
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
    /// The folder of the package that is built.
    fn manifest(&self) -> PathBuf;

    /// The file in which a token stands, where that is known.
    fn source_file(&self, span: Span) -> Option<PathBuf>;

    /// The content of a file, which may not be longer than the limit, in bytes.
    ///
    /// # Errors
    /// The file is missing, too long or unreadable.
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadFault>;

    /// The names of the files in a folder, for suggestions; empty where it cannot be read.
    fn list(&self, folder: &Path) -> Vec<String>;
}

/// Reads child pipelines, whose paths are as seen from the package.
pub(crate) struct Children<'r>(pub(crate) &'r dyn Reader);

impl ChildReader for Children<'_> {
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadFault> {
        self.0.read(&tidy(&self.0.manifest().join(path)), limit)
    }
}

/// A path without `.` and, where it can be told from the text alone, without `..`.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(tidy.components().next_back(), Some(Component::Normal(_))) => {
                tidy.pop();
            }
            other => tidy.push(other),
        }
    }
    tidy
}

/// A path as seen from a folder, with forward slashes; both are absolute.
pub(crate) fn relative(path: &Path, folder: &Path) -> String {
    let (path, folder) = (tidy(path), tidy(folder));
    let mut there: Vec<String> = Vec::new();
    let mut ahead = path.components().peekable();
    let mut behind = folder.components().peekable();
    while let (Some(a), Some(b)) = (ahead.peek(), behind.peek()) {
        if a != b {
            break;
        }
        ahead.next();
        behind.next();
    }
    there.extend(behind.map(|_| "..".to_owned()));
    there.extend(ahead.map(|component| component.as_os_str().to_string_lossy().into_owned()));
    there.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_as_seen_from_the_package() {
        let folder = Path::new("/home/me/app");
        assert_eq!(
            relative(Path::new("/home/me/app/src/./a.dot"), folder),
            "src/a.dot"
        );
        assert_eq!(
            relative(Path::new("/home/me/app/src/../../shared/a.dot"), folder),
            "../shared/a.dot"
        );
    }
}
