//! The doc comment of every public type contains an example that runs.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// Files whose types need no example, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("src/private/handlers.rs", HIDDEN),
    ("src/private/lazy.rs", HIDDEN),
];

const HIDDEN: &str = "the module is hidden: only generated code names its types";

#[test]
fn every_public_type_has_an_example_that_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut bare, mut seen) = (Vec::new(), 0);
    for file in sources(root) {
        let name = file
            .strip_prefix(root)
            .unwrap()
            .to_string_lossy()
            .replace('\\', "/");
        if EXCEPTIONS.iter().any(|(path, _)| *path == name) {
            continue;
        }
        for (line, item, example) in types(&std::fs::read_to_string(&file).unwrap()) {
            seen += 1;
            if !example {
                bare.push(format!("{name}:{line}: `{item}`"));
            }
        }
    }
    assert!(
        seen > 100,
        "only {seen} types were found, so this test looks at the wrong place"
    );
    let list = bare.join("\n");
    assert!(bare.is_empty(), "types without an example that runs:\n{list}");
}

#[test]
fn exceptions_are_files_that_are_there() {
    for (path, reason) in EXCEPTIONS {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        assert!(file.is_file() && !reason.is_empty(), "{path}");
    }
}

#[test]
fn a_type_without_an_example_is_found() {
    let text = r##"
/// Plain words.
pub struct Bare;

/// An example that nobody runs.
///
/// ```ignore
/// Ignored::new();
/// ```
#[derive(Clone)]
pub enum Ignored {}

/// Shown.
///
/// ```
/// assert!(true);
/// ```
#[diagnostic::on_unimplemented(
    message = "not shown",
    note = "more of it"
)]
pub trait Shown<T>: Sized {}

pub(crate) struct Inner;

macro_rules! made {
    () => {
        /// Without one, and inside a macro.
        pub struct Made(u8);
    };
}
"##;
    let bare: Vec<_> = types(text)
        .into_iter()
        .filter(|(_, _, example)| !example)
        .collect();
    let bare: Vec<&str> = bare.iter().map(|(_, item, _)| item.as_str()).collect();
    assert_eq!(bare, ["Bare", "Ignored", "Made"]);
    assert_eq!(types(text).len(), 4);
}

/// Returns the public types of a source text: line, name, and whether an example in the doc comment runs.
fn types(text: &str) -> Vec<(usize, String, bool)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let item = |(at, line): (usize, &&str)| {
        let rest = line.strip_prefix("pub ")?;
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
        let rest = ["struct ", "enum ", "trait "]
            .iter()
            .find_map(|word| rest.strip_prefix(word))?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = rest.get(..end.unwrap_or(rest.len()))?;
        Some((at + 1, name.to_owned(), runs(&doc(lines.get(..at)?))))
    };
    lines.iter().enumerate().filter_map(item).collect()
}

/// Returns the doc comment at the end of some lines. Only attributes may follow it.
fn doc<'t>(above: &[&'t str]) -> Vec<&'t str> {
    let mut doc = Vec::new();
    // `true` inside an attribute of several lines.
    let mut inside = false;
    for line in above.iter().rev() {
        match line.strip_prefix("///") {
            Some(text) if !inside => doc.push(text.trim()),
            _ if line.starts_with("#[") => inside = false,
            _ if inside || line.ends_with(")]") => inside = true,
            _ => break,
        }
    }
    doc.reverse();
    doc
}

/// Returns whether a doc comment contains a block that `cargo test` builds and runs.
fn runs(doc: &[&str]) -> bool {
    let fences = doc.iter().filter_map(|line| line.strip_prefix("```"));
    let mut openings = fences.step_by(2);
    openings.any(|info| matches!(info, "" | "rust"))
}

/// Returns the source files of the facade and of the crates in its folders.
fn sources(root: &Path) -> Vec<PathBuf> {
    let inner = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"));
    let mut files: Vec<PathBuf> = inner
        .chain([root.join("src")])
        .filter(|folder| folder.is_dir())
        .flat_map(|folder| files(&folder))
        .collect();
    files.sort();
    files
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}
