//! The tool `search-code`.

use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use orchestra_engine::CancellationToken;
use schemars::JsonSchema;
use serde::Deserialize;

use super::confined::{Confined, shown};
use super::file_tool::FileCall;
use super::text::{self, is_binary};
use super::walk::{Ended, Pattern, files};
use crate::tool::ToolError;

/// Maximum number of terms of a query; more terms do not improve the result.
const MAX_TERMS: usize = 16;
/// Maximum size of a file that is searched, in bytes. Larger files are usually data or generated.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The default and the maximum number of files that are shown.
const FILES: (usize, usize) = (8, 50);
/// Maximum number of matching lines that are shown of a file.
const MAX_LINES: usize = 4;
/// Maximum number of bytes that are shown of a line.
const MAX_LINE_BYTES: usize = 200;
/// Words before a name that mark its definition.
const DEFINING: &[&str] = &[
    "fn",
    "struct",
    "enum",
    "trait",
    "type",
    "const",
    "static",
    "mod",
    "macro_rules!",
    "class",
    "def",
    "function",
    "func",
    "interface",
    "impl",
    "module",
    "package",
    "namespace",
    "union",
    "record",
    "#define",
    "var",
    "let",
    "val",
];

/// A call of the tool `search-code`, which finds the files that match some words best.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchCode {
    /// Words or names, such as `retry backoff` or `parse_config`. Capitals do not matter, and `parse_config` also finds
    /// `parseConfig` and `parse-config`.
    query: String,
    /// The file or folder to look in, relative to the working folder; all of it unless given.
    path: Option<String>,
    /// Which files to look into, such as `*.rs`; all unless given.
    glob: Option<String>,
    /// How many files to show: 8 unless given, 50 at most.
    limit: Option<usize>,
}

impl FileCall for SearchCode {
    const NAME: &'static str = "search_code";
    const DESCRIPTION: &'static str = "Finds the files that fit some words best, when it is not known \
        exactly what to look for. A file counts the more, the more of the words it holds, the rarer those \
        are elsewhere, and if it defines them or is named after them. Each file is shown with its best \
        places. For exact patterns there is `grep`.";
    const IS_READ_ONLY: bool = true;

    fn run(&self, folder: &Confined, stop: &CancellationToken, limit: usize) -> Result<String, ToolError> {
        let start = folder.start(self.path.as_deref())?;
        let terms = terms(&self.query)?;
        let only = self.glob.as_deref().map(Pattern::new).transpose()?;
        let (mut hits, mut looked_at) = (Vec::new(), 0_usize);
        let ended = files(folder, &start, stop, &mut |path| {
            if only.as_ref().is_none_or(|only| only.matches(path))
                && let Some(content) = content(folder, path)
            {
                looked_at += 1;
                hits.extend(Hit::find(path, &content, &terms));
            }
            ControlFlow::Continue(())
        })?;
        let ranked = rank(hits, &terms, looked_at);
        let most = self.limit.unwrap_or(FILES.0).clamp(1, FILES.1);
        let mut report = String::new();
        let mut left_out = ranked.len();
        // The last line, a note on omitted files, needs space.
        let room = limit.saturating_sub(300);
        for (score, hit) in ranked.iter().take(most) {
            let shown = entry(folder, *score, hit, &terms);
            if report.len() + shown.len() > room {
                break;
            }
            report.push_str(&shown);
            left_out -= 1;
        }
        let words: Vec<&str> = terms.iter().map(|term| term.text.as_str()).collect();
        if ranked.is_empty() {
            report = format!("none of {} files holds {}\n", looked_at, words.join(", "));
        } else if left_out > 0 {
            report.push_str(&format!(
                "[{} more; for those narrow the query, look in a `path`, or raise `limit`]\n",
                text::count(left_out, "file")
            ));
        }
        if ended == Ended::TooMany {
            report.push_str("[the folder is too large to be looked through as a whole; look in a `path`]\n");
        }
        Ok(report)
    }
}

/// A word of the query.
struct Term {
    text: String,
    matcher: RegexMatcher,
}

fn terms(query: &str) -> Result<Vec<Term>, ToolError> {
    let mut terms: Vec<Term> = Vec::new();
    let words = query.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'));
    for word in words.map(|word| word.trim_matches(['_', '-'])) {
        let parts = parts(word);
        let text = parts.join("_");
        if text.is_empty() || terms.iter().any(|term| term.text == text) || terms.len() == MAX_TERMS {
            continue;
        }
        // The parts contain only letters and digits, so they need no escaping.
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(true)
            .build(&parts.join("[_-]?"));
        let matcher =
            matcher.map_err(|error| ToolError::new(format!("`{word}` cannot be searched for: {error}")))?;
        terms.push(Term { text, matcher });
    }
    if terms.is_empty() {
        Err(ToolError::new(
            "`query` holds no word; give words or names to look for",
        ))
    } else {
        Ok(terms)
    }
}

/// Returns the parts of a name in lower case: `parseConfig`, `parse_config` and `PARSE-CONFIG` have the parts `parse`
/// and `config`.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut before = '_';
    for character in name.chars() {
        let begins = character.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit());
        if matches!(before, '_' | '-') || begins {
            parts.push(String::new());
        }
        if let (Some(part), true) = (parts.last_mut(), character.is_alphanumeric()) {
            part.extend(character.to_lowercase());
        }
        before = character;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the content of a text file, or `None` if the file is unreadable, binary or too large.
fn content(folder: &Confined, path: &Path) -> Option<String> {
    let (file, metadata) = folder.walked_file(path).ok()?;
    if metadata.len() > MAX_FILE_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    (!is_binary(&bytes)).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The matches of all terms in a file.
struct Hit {
    path: PathBuf,
    terms: Vec<Found>,
    /// The indices of the best lines, best first.
    lines: Vec<usize>,
}

/// The matches of one term in a file.
#[derive(Clone, Copy, Default)]
struct Found {
    count: usize,
    whole: bool,
    defined: bool,
    in_path: bool,
}

impl Found {
    fn weight(self) -> f64 {
        let bonus = |holds: bool, weight: f64| if holds { weight } else { 0.0 };
        let count = u32::try_from(self.count).unwrap_or(u32::MAX);
        f64::from(count).ln_1p()
            + bonus(self.whole, 1.0)
            + bonus(self.defined, 2.0)
            + bonus(self.in_path, 2.0)
    }
}

impl Hit {
    fn find(path: &Path, content: &str, terms: &[Term]) -> Option<Hit> {
        let name = shown(path);
        let mut found = vec![Found::default(); terms.len()];
        let mut lines: Vec<(usize, usize)> = Vec::new();
        for (found, term) in found.iter_mut().zip(terms) {
            found.in_path = is_in(&term.matcher, name.as_bytes());
            // Most files contain no term, so search the whole file before its lines.
            if !is_in(&term.matcher, content.as_bytes()) {
                continue;
            }
            for (number, line) in content.lines().enumerate() {
                let mut best = 0;
                let searched = term.matcher.find_iter(line.as_bytes(), |position| {
                    let (whole, defined) = kind(line, position.start(), position.end());
                    found.count += 1;
                    found.whole |= whole;
                    found.defined |= defined;
                    best = best.max(1 + usize::from(whole) + 2 * usize::from(defined));
                    true
                });
                if searched.is_ok() && best > 0 {
                    lines.push((number, best));
                }
            }
        }
        let any = found.iter().any(|found| found.count > 0 || found.in_path);
        any.then(|| Hit {
            path: path.to_owned(),
            terms: found,
            lines: best(lines),
        })
    }
}

/// Returns the best lines. The weight of a line is the sum of the weights of its terms.
fn best(mut lines: Vec<(usize, usize)>) -> Vec<usize> {
    lines.sort_unstable();
    let mut summed: Vec<(usize, usize)> = Vec::new();
    for (number, weight) in lines {
        match summed.last_mut() {
            // A second term in the line counts more than a better match of the first.
            Some((last, sum)) if *last == number => *sum += weight + 2,
            _ => summed.push((number, weight)),
        }
    }
    summed.sort_by(|(left, heavy), (right, light)| light.cmp(heavy).then(left.cmp(right)));
    summed
        .into_iter()
        .take(MAX_LINES)
        .map(|(number, _)| number)
        .collect()
}

fn is_in(matcher: &RegexMatcher, bytes: &[u8]) -> bool {
    matcher.is_match(bytes).unwrap_or(false)
}

/// Returns whether a match is a whole name, and whether the line defines that name.
fn kind(line: &str, start: usize, end: usize) -> (bool, bool) {
    let (before, behind) = (
        line.get(..start).unwrap_or_default(),
        line.get(end..).unwrap_or_default(),
    );
    let of_name = |c: char| c.is_alphanumeric() || c == '_';
    let whole = !before.ends_with(of_name) && !behind.starts_with(of_name);
    let word = before.split_whitespace().next_back();
    let defined =
        whole && before.ends_with(char::is_whitespace) && word.is_some_and(|word| DEFINING.contains(&word));
    (whole, defined)
}

/// Returns the files with their scores, best first.
fn rank(hits: Vec<Hit>, terms: &[Term], looked_at: usize) -> Vec<(f64, Hit)> {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let rarity: Vec<f64> = (0..terms.len())
        .map(|at| {
            let has = |hit: &&Hit| {
                hit.terms
                    .get(at)
                    .is_some_and(|found| found.count > 0 || found.in_path)
            };
            let holders = hits.iter().filter(has).count().max(1);
            (1.0 + number(looked_at) / number(holders)).ln()
        })
        .collect();
    let mut ranked: Vec<(f64, Hit)> = hits
        .into_iter()
        .map(|hit| {
            let sum: f64 = hit
                .terms
                .iter()
                .zip(&rarity)
                .map(|(found, rarity)| found.weight() * rarity)
                .sum();
            let held = hit.terms.iter().filter(|found| found.weight() > 0.0).count();
            (sum * number(held) / number(terms.len()), hit)
        })
        .collect();
    ranked.sort_by(|(low, left), (high, right)| high.total_cmp(low).then_with(|| left.path.cmp(&right.path)));
    ranked
}

/// Returns the report of a file: its score, its terms, and its best lines with one line around each.
fn entry(folder: &Confined, score: f64, hit: &Hit, terms: &[Term]) -> String {
    let counts: Vec<String> = terms
        .iter()
        .zip(&hit.terms)
        .filter(|(_, found)| found.count > 0)
        .map(|(term, found)| format!("{} {}", term.text, found.count))
        .collect();
    let counts = if counts.is_empty() {
        "by its name".to_owned()
    } else {
        counts.join(", ")
    };
    let mut report = format!("{} (score {score:.1}; {counts})\n", shown(&hit.path));
    let content = content(folder, &hit.path).unwrap_or_default();
    let lines: Vec<&str> = content.lines().collect();
    let mut wanted: Vec<usize> = hit
        .lines
        .iter()
        .flat_map(|at| at.saturating_sub(1)..=at + 1)
        .filter(|at| *at < lines.len())
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut last = None;
    for at in wanted {
        if last.is_some_and(|last: usize| last + 1 < at) {
            report.push_str("  --\n");
        }
        last = Some(at);
        let sign = if hit.lines.contains(&at) { ':' } else { '-' };
        let (line, left_out) = text::line_start(lines.get(at).copied().unwrap_or_default(), MAX_LINE_BYTES);
        let more = if left_out > 0 { " .." } else { "" };
        report.push_str(&format!("  {}{sign} {line}{more}\n", at + 1));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_same_parts_however_it_is_written() {
        for name in [
            "parseConfig",
            "parse_config",
            "PARSE-CONFIG",
            "ParseConfig",
            "_parse__config",
        ] {
            assert_eq!(parts(name), ["parse", "config"], "{name}");
        }
        assert_eq!(parts("HTTPServer2Go"), ["httpserver2", "go"]);
        assert!(parts("__").is_empty());
    }
}
