//! Reading of the files that a pipeline names: child pipelines and prompts. The macro and the command line differ only
//! in how they read them.

use crate::diagnostic::did_you_mean;

/// The reason why a file could not be read.
///
/// ```
/// use orchestra_graph::{LoadOptions, ReadError, Source, load};
/// let locked = |_: &str, _: u64| Err(ReadError::Other("permission denied".to_owned()));
/// let text = r#"digraph { start -> lint -> exit; lint [shape=folder, subpipeline.file="lint.dot"] }"#;
/// let options = LoadOptions { children: Some(&locked), ..LoadOptions::default() };
/// let report = load(Source::new("a.dot", text), &options).report;
/// assert_eq!(report.diagnostics[0].message, "child pipeline `lint.dot` cannot be read: permission denied");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// There is no such file.
    Missing,
    /// The file exceeds the limit. The value is its length in bytes.
    TooLong(u64),
    /// Any other error, as the message of the system.
    Other(String),
}

/// A source of the texts of child pipelines. Functions implement it.
///
/// ```
/// use orchestra_graph::{LoadOptions, ReadError, Source, load};
/// let files = |path: &str, _limit: u64| match path {
///     "flows/lint.dot" => Ok(b"digraph lint { start -> work -> exit }".to_vec()),
///     _ => Err(ReadError::Missing),
/// };
/// let text = r#"digraph { start -> lint -> exit; lint [shape=folder, subpipeline.file="lint.dot"] }"#;
/// let options = LoadOptions { children: Some(&files), ..LoadOptions::default() };
/// let pipeline = load(Source::new("flows/a.dot", text), &options).pipeline().expect("sound");
/// let lint = pipeline.stage(pipeline.find("lint").expect("declared"));
/// assert_eq!(pipeline.child(lint.row()).expect("it is loaded").pipeline.name, "lint");
/// ```
pub trait ChildReader {
    /// Reads a file of at most `limit` bytes. The path is relative to the same directory as the name of the parent's
    /// source. Its parts are separated by `/`, and it contains no `.` and no needless `..`.
    ///
    /// # Errors
    /// Fails if the file is missing, too long or unreadable.
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError>;

    /// Returns the names of the files in a folder, for suggestions. A reader that cannot list them returns none.
    fn names(&self, _folder: &str) -> Vec<String> {
        Vec::new()
    }
}

impl<F: Fn(&str, u64) -> Result<Vec<u8>, ReadError>> ChildReader for F {
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        self(path, limit)
    }
}

/// Returns the path of a file that a parent names.
pub(crate) fn joined(parent: &str, file: &str) -> String {
    let file = file.trim_start_matches('/');
    match parent.rsplit_once('/') {
        Some((folder, _)) => plain_path(&format!("{folder}/{file}")),
        None => plain_path(file),
    }
}

/// Returns the file in the same folder that a misspelt name of a file probably means, as the parent would name it.
/// `path` is the path of the misspelt name.
pub(crate) fn nearest_file(reader: &dyn ChildReader, parent: &str, file: &str, path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let before = file.strip_suffix(name)?;
    let names = reader.names(folder);
    let (_, parent) = parent.rsplit_once('/').unwrap_or(("", parent));
    let others = names.iter().map(String::as_str).filter(|other| *other != parent);
    // An ending that they share says nothing about how near two names are.
    let ending = name.rfind('.').map_or("", |dot| &name[dot..]);
    let stems = others.clone().filter_map(|other| other.strip_suffix(ending));
    let near = match did_you_mean(name.strip_suffix(ending)?, stems) {
        Some(stem) => format!("{stem}{ending}"),
        None => did_you_mean(name, others.filter(|other| !other.ends_with(ending)))?.to_owned(),
    };
    Some(format!("{before}{near}"))
}

/// Normalizes a path: removes `.` and needless `..`, so that each file has exactly one path. Parts are separated by
/// `/`.
///
/// ```
/// use orchestra_graph::plain_path;
/// assert_eq!(plain_path("flows/./parts/../lint.dot"), "flows/lint.dot");
/// assert_eq!(plain_path("../lint.dot"), "../lint.dot");
/// assert_eq!(plain_path("/../lint.dot"), "/lint.dot", "there is nothing above the root");
/// ```
pub fn plain_path(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            ("..", None) if !root.is_empty() => {}
            _ => parts.push(part),
        }
    }
    format!("{root}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn one_file_has_one_path() {
        for (parent, file, path) in [
            ("a.dot", "b.dot", "b.dot"),
            ("./a.dot", "./b.dot", "b.dot"),
            ("flows/a.dot", "b.dot", "flows/b.dot"),
            ("flows/a.dot", "sub/../b.dot", "flows/b.dot"),
            ("flows/a.dot", "../b.dot", "b.dot"),
            ("flows/a.dot", "../../b.dot", "../b.dot"),
            ("../a.dot", "../b.dot", "../../b.dot"),
            ("/work/flows/a.dot", "..//b.dot", "/work/b.dot"),
            ("/a.dot", "../b.dot", "/b.dot"),
        ] {
            assert_eq!(joined(parent, file), path, "{parent} names {file}");
        }
    }
}
