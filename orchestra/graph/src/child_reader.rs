//! Reading of the files that a pipeline names: child pipelines and prompts. The macro and the command line differ only
//! in how they read them.

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
