//! The headings and links of a page.

use crate::Page;

/// A heading of a page.
///
/// ```
/// use orchestra_book_tests::{Page, headings};
/// let page = Page::new("page.md", "# The `goal`\n\n```text\n# No heading\n```\n");
/// let headings = headings(&page);
/// assert_eq!((headings.len(), headings[0].id.as_str()), (1, "the-goal"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The number of `#`.
    pub level: usize,
    /// The fragment of links to it.
    pub id: String,
    /// The text.
    pub text: String,
}

/// A link or a picture of a page.
///
/// ```
/// use orchestra_book_tests::{Page, links};
/// let page = Page::new("page.md", "See [that](a.md) and [this][b], not `[x](y)`.\n\n[b]: b.md#c\n");
/// let targets: Vec<String> = links(&page).into_iter().map(|link| link.target).collect();
/// assert_eq!(targets, ["a.md", "b.md#c"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The number of the line, from 1.
    pub line: usize,
    /// The target. `?LABEL` if the label has no definition.
    pub target: String,
}

/// Returns the headings of a page. Headings with the same text get numbers, as in mdBook and GitHub.
pub fn headings(page: &Page) -> Vec<Heading> {
    let mut found: Vec<Heading> = Vec::new();
    for (_, line) in prose(page) {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let Some(text) = line.get(level..).and_then(|text| text.strip_prefix(' ')) else {
            continue;
        };
        if !(1..=6).contains(&level) {
            continue;
        }
        let id = slug(text);
        let before = found.iter().filter(|heading| slug(&heading.text) == id).count();
        let id = if before == 0 { id } else { format!("{id}-{before}") };
        found.push(Heading {
            level,
            id,
            text: text.trim().to_owned(),
        });
    }
    found
}

/// Returns the fragment of links to a heading.
///
/// ```
/// assert_eq!(orchestra_book_tests::slug("A tool's environment"), "a-tools-environment");
/// ```
pub fn slug(heading: &str) -> String {
    let mut text = String::new();
    for c in heading.trim().chars() {
        match c {
            ' ' | '-' => text.push('-'),
            '_' => text.push('_'),
            c if c.is_alphanumeric() => text.extend(c.to_lowercase()),
            _ => {}
        }
    }
    text
}

/// Returns the links of a page: `[text](target)`, `[text][label]` and `<img src="target">`. A label alone, as in `[text]`, is a
/// link only if it has a definition.
pub fn links(page: &Page) -> Vec<Link> {
    let definition = |line: &str| -> Option<(String, String)> {
        let (label, target) = line.strip_prefix('[')?.split_once("]: ")?;
        Some((label.to_lowercase(), target.trim().to_owned()))
    };
    let definitions: Vec<(String, String)> = prose(page).filter_map(|(_, line)| definition(&line)).collect();
    let target_of = |label: &str| {
        let label = label.to_lowercase();
        let found = definitions.iter().find(|(known, _)| *known == label);
        found.map(|(_, target)| target.clone())
    };
    // A link may span lines, so a paragraph is searched as a whole.
    let mut found = Vec::new();
    let mut paragraph = (0, String::new());
    let lines = prose(page).filter(|(_, line)| definition(line).is_none());
    for (number, line) in lines.chain([(page.lines.len() + 1, String::new())]) {
        if !line.trim().is_empty() {
            if paragraph.1.is_empty() {
                paragraph.0 = number;
            }
            paragraph.1.push_str(&line);
            paragraph.1.push('\n');
            continue;
        }
        let (first, text) = std::mem::take(&mut paragraph);
        let text = without_code(&text);
        for (at, target) in targets(&text, &target_of) {
            let before = text.get(..at).unwrap_or_default();
            found.push(Link {
                line: first + before.matches('\n').count(),
                target,
            });
        }
    }
    found
}

fn targets(text: &str, target_of: &dyn Fn(&str) -> Option<String>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("](") {
        let rest = text.get(at + 2..).unwrap_or_default();
        if let Some((target, _)) = rest.split_once(')') {
            found.push((at, target.to_owned()));
        }
    }
    for (at, _) in text.match_indices("][") {
        let rest = text.get(at + 2..).unwrap_or_default();
        if let Some((label, _)) = rest.split_once(']') {
            let label = label.replace('\n', " ");
            found.push((at, target_of(&label).unwrap_or_else(|| format!("?{label}"))));
        }
    }
    for (at, _) in text.match_indices('[') {
        let rest = text.get(at + 1..).unwrap_or_default();
        let Some((label, after)) = rest.split_once(']') else {
            continue;
        };
        let alone = !after.starts_with(['(', '[']) && !text.get(..at).unwrap_or_default().ends_with(']');
        if alone && let Some(target) = target_of(&label.replace('\n', " ")) {
            found.push((at, target));
        }
    }
    for word in ["src=\"", "srcset=\"", "href=\""] {
        for (at, _) in text.match_indices(word) {
            let rest = text.get(at + word.len()..).unwrap_or_default();
            if let Some((target, _)) = rest.split_once('"') {
                found.push((at, target.to_owned()));
            }
        }
    }
    found.sort();
    found
}

/// Returns a text with a blank in place of each code span.
fn without_code(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        kept.push_str(before);
        let more = after.bytes().take_while(|byte| *byte == b'`').count();
        let marks = "`".repeat(more + 1);
        let after = after.get(more..).unwrap_or_default();
        match after.split_once(&marks) {
            Some((code, after)) => {
                // Lines keep their numbers.
                kept.extend(code.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
                rest = after;
            }
            None => rest = after,
        }
    }
    kept + rest
}

/// Returns the lines outside of fences, with their numbers.
fn prose(page: &Page) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut open: Option<String> = None;
    page.lines.iter().enumerate().filter_map(move |(at, line)| {
        let content = line.trim_start();
        let marks: String = content.chars().take_while(|c| *c == '`').collect();
        match &open {
            Some(opening) => {
                if marks.len() >= opening.len() && content.trim_end() == marks {
                    open = None;
                }
                None
            }
            None if marks.len() >= 3 => {
                open = Some(marks);
                None
            }
            None => Some((at + 1, line.clone())),
        }
    })
}
