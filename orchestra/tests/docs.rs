//! Every public type has an example that runs in its doc comment, and `RULES.md` defines every rule that is cited.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
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

#[test]
fn every_cited_rule_is_defined() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let defined: BTreeSet<Number> = rules(&root).into_iter().map(|row| row.rule).collect();
    let (mut undefined, mut seen) = (Vec::new(), 0);
    for file in texts(&root) {
        for (letter, number) in cited(&std::fs::read_to_string(&file).unwrap()) {
            seen += 1;
            if !defined.contains(&(letter, number)) {
                let name = file.strip_prefix(&root).unwrap().display();
                undefined.push(format!("{name}: rule {letter}{number}"));
            }
        }
    }
    assert!(
        seen > 300,
        "only {seen} citations were found, so this test looks at the wrong place"
    );
    let list = undefined.join("\n");
    assert!(
        undefined.is_empty(),
        "rules that RULES.md does not define:\n{list}"
    );
}

#[test]
fn rules_are_numbered_without_gaps_and_name_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let rows = rules(&root);
    assert!(rows.len() > 50, "RULES.md has only {} rows", rows.len());
    let mut groups = BTreeSet::new();
    let mut before: Option<Number> = None;
    for row in rows {
        let (letter, number) = row.rule;
        match before {
            Some((group, last)) if group == letter => {
                assert_eq!(number, last + 1, "{letter}{number} follows {letter}{last}");
            }
            _ => {
                assert!(groups.insert(letter), "the group {letter} is not in one piece");
                assert_eq!(number, 1, "the group {letter} begins with {letter}{number}");
            }
        }
        before = Some(row.rule);
        assert!(!row.statement.trim().is_empty(), "{letter}{number}");
        for file in row.files {
            assert!(root.join(&file).is_file(), "{letter}{number} names {file}");
        }
    }
}

#[test]
fn citations_are_found() {
    let text = "
//! Gates and their answers (Attractor 4.6, rules H1 to H3, Y6 and
//! D10). An answer can overrule P1.

/// Conditions (rule
/// C2), and `condition_value` (rules C3-C5, R11).
fn rule(rules: R1) {} // Rule L7: `rule K1x` is no rule.
";
    let found: Vec<String> = cited(text)
        .into_iter()
        .map(|(letter, number)| format!("{letter}{number}"))
        .collect();
    let expected = ["C2", "C3", "C4", "C5", "D10", "H1", "H2", "H3", "L7", "R11", "Y6"];
    assert_eq!(found, expected);
}

/// The letter and the number of a rule.
type Number = (char, u32);

/// A row of `RULES.md`.
struct Row {
    rule: Number,
    statement: String,
    files: Vec<String>,
}

/// Returns the rows of the tables of `RULES.md`.
fn rules(root: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(root.join("RULES.md")).unwrap();
    let row = |line: &str| {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let mut cells = line.split(" | ");
        let (rule, statement, files) = (cells.next()?, cells.next()?, cells.next()?);
        let (rule, "") = number(rule)? else {
            return None;
        };
        assert!(cells.next().is_none(), "too many columns: {line}");
        let files = files.split(", ").map(|file| file.trim_matches('`').to_owned());
        Some(Row {
            rule,
            statement: statement.to_owned(),
            files: files.collect(),
        })
    };
    text.lines().filter_map(row).collect()
}

/// Returns the rules that a text cites as `rule`, with numbers separated by commas and `and`, and ranges with `to` or
/// `-`. A citation may span several lines of a comment.
fn cited(text: &str) -> BTreeSet<Number> {
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.trim().trim_start_matches('/').trim_start_matches('!').trim())
        .collect();
    let text = lines.join(" ");
    let mut found = BTreeSet::new();
    for word in ["rule ", "rules ", "Rule ", "Rules "] {
        for (at, _) in text.match_indices(word) {
            let before = text.get(..at).and_then(|text| text.chars().next_back());
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let mut rest = text.get(at + word.len()..).unwrap_or_default();
            while let Some(((letter, first), after)) = number(rest) {
                let end = after.strip_prefix(" to ").or_else(|| after.strip_prefix('-'));
                let (last, after) = match end.and_then(number) {
                    Some(((group, last), behind)) if group == letter => (last, behind),
                    _ => (first, after),
                };
                found.extend((first..=last).map(|number| (letter, number)));
                let separators = [", and ", ", ", " and "];
                let next = separators.iter().find_map(|text| after.strip_prefix(*text));
                match next {
                    Some(next) => rest = next,
                    None => break,
                }
            }
        }
    }
    found
}

/// Parses the number of a rule at the beginning of a text. Returns it and the rest of the text.
fn number(text: &str) -> Option<(Number, &str)> {
    let letter = text.chars().next().filter(char::is_ascii_uppercase)?;
    let digits = text.get(1..)?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    if rest.starts_with(is_part) {
        return None;
    }
    Some(((letter, digits.parse().ok()?), rest))
}

/// Returns the Rust and Markdown files below a folder, without those that a build or a run of the program leaves.
fn texts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let name = path.file_name().unwrap().to_string_lossy();
            if name != "target" && !name.starts_with('.') {
                found.extend(texts(&path));
            }
        } else if path
            .extension()
            .is_some_and(|ending| ending == "rs" || ending == "md")
        {
            found.push(path);
        }
    }
    found
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
