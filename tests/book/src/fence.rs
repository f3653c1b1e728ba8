//! The fences of a page.

use crate::Page;

/// A block of code in a page, with its info string.
///
/// ```
/// use orchestra_book_tests::{Fence, Page};
/// let page = Page::new("page.md", "```rust,ignore (needs a server)\nconnect();\n```\n");
/// let fence = &Fence::all(&page).unwrap()[0];
/// assert_eq!((fence.language.as_str(), fence.line), ("rust", 1));
/// assert_eq!(fence.reason.as_deref(), Some("needs a server"));
/// assert!(fence.has("ignore"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// The first word of the info string.
    pub language: String,
    /// The words after it, with their values.
    pub words: Vec<(String, Option<String>)>,
    /// The text in parentheses at the end of the info string.
    pub reason: Option<String>,
    /// The number of the line at which it begins, in the page.
    pub line: usize,
    /// The text.
    pub text: String,
}

/// The words of info strings, each with the languages that have it; none means all.
const WORDS: &[(&str, &[&str])] = &[
    ("bad", &["dot"]),
    ("exit", &["console"]),
    ("file", &[]),
    ("ignore", &[]),
    ("layer", &["yaml"]),
    ("model", &["yaml"]),
    ("needs", &["console"]),
    ("no_run", &["rust"]),
    ("script", &["yaml"]),
];

/// The languages that are tested. Any other one must be ignored, with a reason.
const LANGUAGES: &[&str] = &["console", "dot", "json", "rust", "text", "yaml"];

impl Fence {
    /// Returns the fences of a page.
    ///
    /// # Errors
    /// Fails with a message for each fence that does not end or has an invalid info string.
    pub fn all(page: &Page) -> Result<Vec<Fence>, Vec<String>> {
        let (mut fences, mut problems) = (Vec::new(), Vec::new());
        // The fence that is open, its marks and its indentation.
        let mut open: Option<(Fence, &str, usize)> = None;
        for (at, line) in page.lines.iter().enumerate() {
            let content = line.trim_start();
            let marks = marks(content);
            match &mut open {
                Some((fence, opening, _))
                    if marks.len() >= opening.len()
                        && marks.starts_with(*opening)
                        && content.trim_end() == marks =>
                {
                    fences.push(std::mem::take(fence));
                    open = None;
                }
                Some((fence, _, indentation)) => {
                    let indented = line.len() - content.len();
                    let text = line.get(indented.min(*indentation)..).unwrap_or_default();
                    fence.text.push_str(text);
                    fence.text.push('\n');
                }
                None if marks.len() >= 3 => {
                    let info = content.get(marks.len()..).unwrap_or_default().trim();
                    let mut fence = parse(info);
                    fence.line = at + 1;
                    if info.contains('`') {
                        problems.push(format!(
                            "{}: an info string has no backticks",
                            page.position(at + 1)
                        ));
                    }
                    if let Err(problem) = fence.check() {
                        problems.push(format!("{}: {problem}", page.position(at + 1)));
                    }
                    open = Some((fence, marks, line.len() - content.len()));
                }
                None => {}
            }
        }
        if let Some((fence, _, _)) = open {
            problems.push(format!("{}: the fence does not end", page.position(fence.line)));
        }
        if problems.is_empty() {
            Ok(fences)
        } else {
            Err(problems)
        }
    }

    /// Returns whether the info string has a word.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|(name, _)| name == word)
    }

    /// Returns the value of a word of the info string.
    pub fn value(&self, word: &str) -> Option<&str> {
        let (_, value) = self.words.iter().find(|(name, _)| name == word)?;
        value.as_deref()
    }

    fn check(&self) -> Result<(), String> {
        let language = self.language.as_str();
        if language.is_empty() {
            return Err("the fence has no language; text for people is `text`".to_owned());
        }
        for (word, value) in &self.words {
            let Some((_, languages)) = WORDS.iter().find(|(name, _)| name == word) else {
                return Err(format!("unknown word `{word}` in the info string"));
            };
            if !languages.is_empty() && !languages.contains(&language) {
                return Err(format!("`{word}` has no meaning for `{language}`"));
            }
            let needs_value = matches!(word.as_str(), "bad" | "exit" | "file" | "needs");
            if needs_value != value.is_some() {
                let form = if needs_value { "needs a" } else { "has no" };
                return Err(format!("`{word}` {form} value"));
            }
        }
        let reason = self.reason.as_deref().unwrap_or_default().trim();
        match (self.has("ignore"), reason.is_empty()) {
            (true, true) => return Err("`ignore` needs a reason: `ignore (REASON)`".to_owned()),
            (false, false) => return Err("a reason without `ignore`".to_owned()),
            _ => {}
        }
        if !LANGUAGES.contains(&language) && !self.has("ignore") {
            if language == "sh" {
                return Err("commands are `console`, each after `$ `, so that they are executed".to_owned());
            }
            let known = LANGUAGES.join(", ");
            return Err(format!(
                "nothing tests `{language}` (tested are {known}); ignore it with a reason: `{language},ignore (REASON)`"
            ));
        }
        Ok(())
    }
}

/// Returns the marks at the beginning of a line that opens or closes a fence.
fn marks(line: &str) -> &str {
    let mark = if line.starts_with('~') { '~' } else { '`' };
    let end = line.find(|c| c != mark).unwrap_or(line.len());
    let marks = line.get(..end).unwrap_or_default();
    if marks.len() >= 3 { marks } else { "" }
}

fn parse(info: &str) -> Fence {
    let (words, reason) = match info.split_once('(') {
        Some((words, rest)) => (words, Some(rest.trim_end().trim_end_matches(')').to_owned())),
        None => (info, None),
    };
    let mut words = words.split([',', ' ']).filter(|word| !word.is_empty());
    Fence {
        language: words.next().unwrap_or_default().to_owned(),
        words: words
            .map(|word| match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word.to_owned(), None),
            })
            .collect(),
        reason,
        ..Fence::default()
    }
}
