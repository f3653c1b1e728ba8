//! Tests of the page of each diagnostic code: the files on the page are resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use orchestra_config::{Project, Resolution, ResolveOptions, explain, rules};
use orchestra_graph::{LoadOptions, Page, ReadError, Severity, Source, load, render};

const CONFIGURATION: &str =
    "providers: {default: anthropic, anthropic: {models: {smart: claude-opus-4-6}}}\n";
const PIPELINE: &str = "digraph release {\n    write [prompt=Write]\n    start -> write -> exit\n}\n";

/// A fenced block of a page.
struct Block<'p> {
    /// The words after the opening fence, such as `yaml bad 4:14`.
    words: Vec<&'p str>,
    text: &'p str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some((_, behind)) = rest.split_once("```") {
        let (head, behind) = behind.split_once('\n').expect("a line behind the fence");
        let (text, behind) = behind.split_once("```").expect("a closing fence");
        found.push(Block {
            words: head.split_whitespace().collect(),
            text,
        });
        rest = behind;
    }
    found
}

/// Resolves the files of a page, with one block as the text of `path`.
fn resolve(page: &Page, path: &str, text: &str) -> Resolution {
    let mut files = BTreeMap::from([("orchestra.yaml", CONFIGURATION), ("a.dot", PIPELINE)]);
    let aside = blocks(page.text)
        .into_iter()
        .filter_map(|block| match block.words.as_slice() {
            [_, "file", path] => Some((*path, block.text)),
            _ => None,
        });
    files.extend(aside);
    files.insert(path, text);
    let reader = |path: &str, _: u64| {
        let text = files.get(path).map(|text| text.as_bytes().to_vec());
        text.ok_or(ReadError::Missing)
    };
    let project = Project::load("orchestra.yaml", &reader);
    let loaded = load(Source::new("a.dot", files["a.dot"]), &LoadOptions::default());
    assert_eq!(render::concise(&loaded.report), "", "{}: the pipeline", page.code);
    let options = ResolveOptions {
        reader: Some(&reader),
        ..ResolveOptions::default()
    };
    project.resolve_graph(&loaded.analysis(), &options)
}

/// Returns the diagnostics as `file:line:column code`.
fn locations(resolution: &Resolution) -> Vec<String> {
    let mut locations = Vec::new();
    for report in &resolution.reports {
        for diagnostic in &report.diagnostics {
            let at = report.source.position(diagnostic.span.start);
            locations.push(format!(
                "{}:{}:{} {}",
                report.source.name(),
                at.line,
                at.column,
                diagnostic.code
            ));
        }
    }
    locations
}

#[test]
fn every_page_holds_what_it_says() {
    let mut mistakes = Vec::new();
    for page in rules() {
        let mut seen = BTreeSet::new();
        for block in blocks(page.text) {
            let default = |language: &str| {
                if language == "dot" {
                    "a.dot"
                } else {
                    "orchestra.yaml"
                }
            };
            let (path, at) = match block.words.as_slice() {
                [_, "file", _] => continue,
                [language, "bad", at] => (default(language), Some(*at)),
                [_, "bad", path, at] => (*path, Some(*at)),
                [language, "good"] => (default(language), None),
                [_, "good", path] => (*path, None),
                words => panic!("{}: unknown block {words:?}", page.code),
            };
            let found = locations(&resolve(page, path, block.text));
            let expected: Vec<String> = at
                .map(|at| format!("{path}:{at} {}", page.code))
                .into_iter()
                .collect();
            if found != expected {
                mistakes.push(format!("{}: {expected:?} expected, {found:?} found", page.code));
            }
            seen.insert(at.is_some());
        }
        assert_eq!(seen.len(), 2, "{} has a bad and a good example", page.code);
        let kind = match page.severity {
            Severity::Error => "Error",
            Severity::Warning => "Warning",
            Severity::Info => "Note",
        };
        let head = format!(
            "# `{}`\n\n*{kind}: {} ({}).*\n",
            page.code, page.summary, page.source
        );
        assert!(
            page.text.starts_with(&head),
            "{} does not begin with:\n{head}",
            page.code
        );
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let names = folder.read_dir().expect("the folder of pages");
    let files: BTreeSet<String> = names
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
    assert!(rules().is_sorted_by_key(|page| page.code));
    assert!(
        rules()
            .iter()
            .all(|page| orchestra_graph::explain(page.code).is_none())
    );
    assert!(explain("unknown_agent").is_some());
}
