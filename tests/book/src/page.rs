//! The pages of the book, with what they include.

use std::path::{Path, PathBuf};

/// A page of the book.
///
/// ```
/// use orchestra_book_tests::Page;
/// let page = Page::new("page.md", "# Title\n");
/// assert_eq!(page.position(1), "page.md:1");
/// ```
#[derive(Clone, Debug)]
pub struct Page {
    /// The path, relative to the folder of the sources.
    pub name: String,
    /// The lines of the page, with those that it includes.
    pub lines: Vec<String>,
    /// The file and the number of each line.
    origins: Vec<(String, usize)>,
}

impl Page {
    /// Creates a page that includes nothing.
    pub fn new(name: &str, text: &str) -> Page {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let origins = (1..=lines.len())
            .map(|number| (name.to_owned(), number))
            .collect();
        Page {
            name: name.to_owned(),
            lines,
            origins,
        }
    }

    /// Reads a page and what it includes.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or if an included anchor does not exist.
    pub fn read(folder: &Path, name: &str) -> Result<Page, String> {
        let mut page = Page {
            name: name.to_owned(),
            lines: Vec::new(),
            origins: Vec::new(),
        };
        page.append(&folder.join(name), None)?;
        Ok(page)
    }

    /// Returns the position of a line, counted from 1, for messages.
    pub fn position(&self, line: usize) -> String {
        match self.origins.get(line.saturating_sub(1)) {
            Some((file, number)) => format!("{file}:{number}"),
            None => self.name.clone(),
        }
    }

    fn append(&mut self, file: &Path, anchor: Option<&str>) -> Result<(), String> {
        let shown = shown(file);
        let text = std::fs::read_to_string(file).map_err(|error| format!("{shown}: {error}"))?;
        let mut inside = anchor.is_none();
        let mut found = inside;
        for (at, line) in text.lines().enumerate() {
            if let Some(name) = after(line, "ANCHOR: ") {
                if anchor == Some(name) {
                    (inside, found) = (true, true);
                }
                continue;
            }
            if let Some(name) = after(line, "ANCHOR_END: ") {
                if anchor == Some(name) {
                    inside = false;
                }
                continue;
            }
            if !inside {
                continue;
            }
            match include(line) {
                Some((path, anchor)) => {
                    let folder = file.parent().unwrap_or(Path::new("."));
                    self.append(&folder.join(path), anchor)?;
                }
                None => {
                    self.lines.push(line.to_owned());
                    self.origins.push((shown.clone(), at + 1));
                }
            }
        }
        if found {
            Ok(())
        } else {
            Err(format!("{shown}: no anchor `{}`", anchor.unwrap_or_default()))
        }
    }
}

/// Returns the path of a file for messages: relative to the root of the repository, if it is there.
fn shown(file: &Path) -> String {
    let (Ok(file), Ok(root)) = (file.canonicalize(), root().canonicalize()) else {
        return file.display().to_string();
    };
    file.strip_prefix(root).unwrap_or(&file).display().to_string()
}

/// Returns the name of an anchor, if a line is one.
fn after<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(word)?;
    rest.split_whitespace().next()
}

/// Returns the path and the anchor of a line that includes a file.
fn include(line: &str) -> Option<(&str, Option<&str>)> {
    let target = line
        .trim()
        .strip_prefix("{{#include ")?
        .strip_suffix("}}")?
        .trim();
    Some(match target.split_once(':') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    })
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folder of the sources of the book.
pub fn book() -> PathBuf {
    root().join("book/src")
}

/// Returns the names of the files that `SUMMARY.md` lists, in its order.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn chapters(folder: &Path) -> Result<Vec<String>, String> {
    let summary = Page::read(folder, "SUMMARY.md")?;
    let targets = super::links(&summary).into_iter().map(|link| link.target);
    Ok(targets.collect())
}

/// Returns the names of all pages in a folder and the folders in it, without `SUMMARY.md`, sorted.
///
/// # Errors
/// Fails if a folder cannot be read.
pub fn pages(folder: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    collect(folder, "", &mut found).map_err(|error| format!("{}: {error}", folder.display()))?;
    found.retain(|name| name != "SUMMARY.md");
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, prefix: &str, found: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), found)?;
        } else if name.ends_with(".md") {
            found.push(name);
        }
    }
    Ok(())
}
