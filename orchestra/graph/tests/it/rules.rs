//! Tests the documentation page of each rule: the graphs on the page are checked.

use std::collections::BTreeSet;
use std::path::Path;

use orchestra_graph::{
    Compatibility, Diagnostic, LoadOptions, Loaded, Page, ReadError, Source, explain, load, load_bytes, rules,
};

/// A fenced block of a page.
struct Block<'p> {
    /// The words after the fence, such as `dot bad 4:14`.
    words: Vec<&'p str>,
    text: &'p str,
    line: usize,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = page[at..].find("```") {
        let start = at + open + 3;
        let body = start + page[start..].find('\n').expect("a line behind the fence") + 1;
        let end = body + page[body..].find("```").expect("a closing fence");
        found.push(Block {
            words: page[start..body].split_whitespace().collect(),
            text: &page[body..end],
            line: page[..start].lines().count(),
        });
        at = end + 3;
    }
    found
}

/// Loads a graph of a page. The graph may name files of the page as children. If the page has a locked version, its
/// unfinished runs are checked too.
fn check(page: &Page, text: &str) -> Loaded {
    let mut loaded = plain(page, text);
    let mut blocks = blocks(page.text).into_iter();
    if let Some(block) = blocks.find(|block| block.words == ["dot", "locked"]) {
        let locked = plain(page, block.text);
        let found = Compatibility::between(&locked, &loaded).expect("both versions are sound");
        let reports = found.reports(&locked, &loaded, 1).into_iter();
        let diagnostics: Vec<Diagnostic> = reports.flat_map(|report| report.diagnostics).collect();
        loaded.report.diagnostics.extend(diagnostics);
    }
    loaded
}

fn plain(page: &Page, text: &str) -> Loaded {
    let files = |path: &str, _: u64| {
        let mut blocks = blocks(page.text).into_iter();
        let file = blocks.find(|block| block.words == ["dot", "file", path]);
        file.map(|block| block.text.into()).ok_or(ReadError::Missing)
    };
    let options = LoadOptions {
        children: Some(&files),
        ..LoadOptions::default()
    };
    load(Source::new(format!("{}.dot", page.code), text), &options)
}

/// Generates and loads a text that a page cannot show.
fn generate(wish: &str) -> Loaded {
    let made = match wish.split_once('=') {
        None if wish == "invalid_utf8" => {
            b"digraph greeting {\n    start -> gr\xfc\xdfe -> exit\n}\n".to_vec()
        }
        Some(("nesting", depth)) => {
            let depth: usize = depth.parse().expect("a number");
            format!(
                "digraph deep {{\n{}{}}}\n",
                "subgraph {\n".repeat(depth),
                "}\n".repeat(depth)
            )
            .into_bytes()
        }
        Some(("children", count)) => return family(count.parse().expect("a number")),
        Some(("size", bytes)) => vec![b' '; bytes.parse().expect("a number")],
        _ => panic!("`{wish}` is not a known way to make a text"),
    };
    load_bytes("made.dot", &made, &LoadOptions::default())
}

/// Loads a pipeline with many children.
fn family(count: usize) -> Loaded {
    let names: String = (0..count)
        .map(|at| format!("c{at} [shape=folder, subpipeline.file=\"c{at}.dot\"]\nstart -> c{at} -> exit\n"))
        .collect();
    let child = |_: &str, _: u64| Ok(b"digraph { start -> exit }".to_vec());
    let options = LoadOptions {
        children: Some(&child),
        ..LoadOptions::default()
    };
    load(
        Source::new("made.dot", format!("digraph {{\n{names}}}")),
        &options,
    )
}

fn index(loaded: &Loaded, diagnostic: &Diagnostic) -> String {
    let position = loaded.source.position(diagnostic.span.start);
    format!("{}:{}", position.line, position.column)
}

fn listed(loaded: &Loaded) -> String {
    let diagnostics = loaded.report.diagnostics.iter();
    let lines: Vec<String> = diagnostics
        .map(|diagnostic| {
            format!(
                "  {} {} at {}: {}",
                diagnostic.severity.word(),
                diagnostic.code,
                index(loaded, diagnostic),
                diagnostic.message
            )
        })
        .collect();
    lines.join("\n")
}

/// Returns the mistakes on a page.
fn mistakes(page: &Page) -> Vec<String> {
    let mut mistakes = Vec::new();
    let mut seen = BTreeSet::new();
    for block in blocks(page.text) {
        let mut say = |what: &str, loaded: &Loaded| {
            mistakes.push(format!(
                "{}.md:{}: {what}\n{}",
                page.code,
                block.line,
                listed(loaded)
            ));
        };
        match block.words.as_slice() {
            ["dot", "bad", at] => {
                let loaded = check(page, block.text);
                let mut own = loaded
                    .report
                    .diagnostics
                    .iter()
                    .filter(|diagnostic| diagnostic.code == page.code);
                match own.next() {
                    None => say("the bad graph does not raise the code", &loaded),
                    Some(diagnostic) if index(&loaded, diagnostic) != *at => {
                        say(&format!("not at {at}"), &loaded)
                    }
                    Some(diagnostic) if diagnostic.severity > page.severity => {
                        say("graver than the page says", &loaded)
                    }
                    Some(_) => {}
                }
                // The graph must raise only the rule of its page.
                if loaded
                    .report
                    .diagnostics
                    .iter()
                    .any(|diagnostic| diagnostic.code != page.code)
                {
                    say("the bad graph has other faults too", &loaded);
                }
                seen.insert("bad");
            }
            ["generate", "bad", wish] => {
                let loaded = generate(wish);
                if !loaded
                    .report
                    .diagnostics
                    .iter()
                    .any(|diagnostic| diagnostic.code == page.code)
                {
                    say("the made text does not raise the code", &loaded);
                }
                seen.insert("bad");
            }
            ["dot", "good"] => {
                let loaded = check(page, block.text);
                if !loaded.report.diagnostics.is_empty() {
                    say("the good graph has faults", &loaded);
                }
                seen.insert("good");
            }
            // A child of the other graphs on the page, or the locked version of them.
            ["dot", "file", _] | ["dot", "locked"] => {}
            words => mistakes.push(format!(
                "{}.md:{}: unknown block {words:?}",
                page.code, block.line
            )),
        }
    }
    if seen.len() < 2 {
        mistakes.push(format!("{}.md: a page has a bad and a good graph", page.code));
    }
    mistakes
}

#[test]
fn every_page_holds_what_it_says() {
    let mistakes: Vec<String> = rules().iter().flat_map(mistakes).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn every_rule_has_a_page_and_every_page_a_rule() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("the folder of pages")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .replace(".md", "")
        })
        .collect();
    let codes: BTreeSet<String> = rules().iter().map(|page| page.code.to_owned()).collect();
    assert_eq!(files, codes);
    for page in rules() {
        let head = format!("# `{}`\n\n*", page.code);
        assert!(page.text.starts_with(&head), "{}", page.code);
        let severity = page.severity.word();
        let line = format!("{severity}: {} ({}).", page.summary, page.source);
        assert!(
            page.text.to_lowercase().contains(&line.to_lowercase()),
            "{}: {line}",
            page.code
        );
        assert_eq!(explain(page.code), Some(page));
    }
}
