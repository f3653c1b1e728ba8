//! The language: pipelines, conditions, stylesheets, values.

use std::path::{Path, PathBuf};

use orchestra_codegen::{ReadError, Reader, expand_pipeline};
use orchestra_graph::condition::{Expression, Facts, parse_condition};
use orchestra_graph::{
    Diagnostic, Graph, Limits, LoadOptions, Loaded, Parsed, Source, Value, accelerator_key, format,
    format_duration, is_identifier, label_text, load, load_bytes, lower, normalize_label, parse,
    parse_duration, parse_stylesheet,
};
use orchestra_oracle_tests::conditions::{holds, needs_failure};
use orchestra_oracle_tests::generate::seen;

use super::{Target, chance_of, no_corpus};
use crate::Random;
use crate::generate::{condition, dot, made_of, word};
use crate::inputs::files;

/// The pipelines of the language's own tests, and of the examples.
pub(super) fn pipelines() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = files(&root.join("orchestra/graph/tests/corpus"));
    for example in [
        "pr_review/pr_review.dot",
        "supervisor/supervisor.dot",
        "stations/stations.dot",
    ] {
        let path = root.join("examples").join(example);
        all.push(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    }
    all
}

fn a_pipeline(random: &mut Random) -> Vec<u8> {
    dot::text(random).into_bytes()
}

/// Loading: every diagnostic points into the text and is one line; a pipeline without errors has a table, whose
/// canonical text is that of the same text loaded again.
pub(super) const DOT: Target = Target {
    name: "dot",
    run: dot,
    generate: a_pipeline,
    corpus: pipelines,
    words: dot::WORDS,
    suite: 3_000,
    share: 1,
};

fn dot(input: &[u8]) {
    let loaded = load_bytes("fuzz.dot", input, &LoadOptions::default());
    for fault in &loaded.report.diagnostics {
        check_places(&loaded, fault);
    }
    let pipeline = loaded.pipeline();
    if loaded.report.has_errors() {
        return;
    }
    let pipeline = pipeline.expect("a pipeline without errors has a table");
    assert_eq!(pipeline.nodes.len(), loaded.graph.nodes.len());
    assert_eq!(pipeline.edges.len(), loaded.graph.edges.len());
    let again = load(
        Source::new("fuzz.dot", loaded.source.text()),
        &LoadOptions::default(),
    );
    let again = again.pipeline().expect("what was sound stays so");
    assert_eq!(pipeline.canonical(), again.canonical());
}

fn check_places(loaded: &Loaded, fault: &Diagnostic) {
    let related = fault.related.iter().map(|related| related.span);
    let all = std::iter::once(fault.span)
        .chain(related)
        .chain(fault.fix.iter().map(|fix| fix.span));
    for span in all {
        let part = loaded.source.text().get(span.start as usize..span.end as usize);
        assert!(
            part.is_some(),
            "`{}` points outside the text or into a character",
            fault.code
        );
    }
    assert!(
        !fault.message.contains('\n') && fault.message.len() < 1_000,
        "the message of `{}` is not one line: {:?}",
        fault.code,
        fault.message
    );
}

/// Formatting: what it gives has no errors, the same graph, the same comments and the same canonical text; formatting
/// it again changes nothing.
pub(super) const FORMAT: Target = Target {
    name: "format",
    run: formatter,
    generate: a_pipeline,
    corpus: pipelines,
    words: dot::WORDS,
    suite: 3_000,
    share: 1,
};

fn formatter(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let before = parsed(&text);
    let Some(once) = format(&before) else {
        assert!(
            before.diagnostics.iter().any(Diagnostic::is_error),
            "a sound text is not formatted"
        );
        return;
    };
    let after = parsed(&once);
    assert!(
        !after.diagnostics.iter().any(Diagnostic::is_error),
        "formatting makes errors: {:?}\n---\n{once}",
        after.diagnostics
    );
    let comments = |parsed: &Parsed| -> Vec<String> {
        let all = parsed.file.comments.iter();
        all.map(|comment| parsed.source.slice(comment.span).to_owned())
            .collect()
    };
    assert_eq!(comments(&before), comments(&after), "comments\n---\n{once}");
    let graph = |parsed: &Parsed| outline(&lower(&parsed.source, &parsed.file).0);
    assert_eq!(graph(&before), graph(&after), "the graph\n---\n{once}");
    assert_eq!(format(&after).as_deref(), Some(once.as_str()), "formatted twice");
    let canonical = |text: &str| {
        let loaded = load(Source::new("fuzz.dot", text), &LoadOptions::default());
        let codes: Vec<&str> = loaded.report.errors().map(|fault| fault.code).collect();
        (
            loaded.pipeline().map(|pipeline| pipeline.canonical()),
            codes.len(),
        )
    };
    assert_eq!(canonical(&text), canonical(&once), "the table\n---\n{once}");
}

fn parsed(text: &str) -> Parsed {
    parse(&Source::new("fuzz.dot", text), &Limits::default())
}

/// A graph without the places in the text.
fn outline(graph: &Graph) -> String {
    let attributes = |attributes: &orchestra_graph::Attributes| {
        let all = attributes.iter();
        all.map(|a| format!("{}={:?}/{:?} ", a.key, a.value, a.origin))
            .collect::<String>()
    };
    let mut text = format!("{} {}\n", graph.name, attributes(&graph.attributes));
    for node in &graph.nodes {
        let (id, declared, attributes) = (&node.id, node.declared, attributes(&node.attributes));
        text += &format!(
            "{id} {declared} {:?} {:?} {attributes}\n",
            node.classes, node.subgraph
        );
    }
    for edge in &graph.edges {
        text += &format!("{:?} {:?} {}\n", edge.from, edge.to, attributes(&edge.attributes));
    }
    for subgraph in &graph.subgraphs {
        text += &format!("{:?} {:?} {:?}\n", subgraph.name, subgraph.label, subgraph.parent);
    }
    text
}

/// The macro: its expansion is Rust, with a compile error where the loader has errors and none where it has none, and
/// with as many nodes as the table. The text as tokens within the macro is expanded, too.
pub(super) const CODEGEN: Target = Target {
    name: "codegen",
    run: codegen,
    generate: a_pipeline,
    corpus: pipelines,
    words: dot::WORDS,
    suite: 500,
    share: 10,
};

struct OneFile<'i>(&'i [u8]);

impl Reader for OneFile<'_> {
    fn manifest(&self) -> PathBuf {
        PathBuf::from("/package")
    }

    fn source_file(&self, _: proc_macro2::Span) -> Option<PathBuf> {
        None
    }

    fn read(&self, path: &Path, _: u64) -> Result<Vec<u8>, ReadError> {
        if path == Path::new("/package/fuzz.dot") {
            Ok(self.0.to_vec())
        } else {
            Err(ReadError::Missing)
        }
    }

    fn list(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
}

fn codegen(input: &[u8]) {
    let children = |_: &str, _: u64| Err(ReadError::Missing);
    let options = LoadOptions {
        children: Some(&children),
        ..LoadOptions::default()
    };
    let loaded = load_bytes("fuzz.dot", input, &options);
    let (errors, nodes) = expansion(r#"pub mod fuzz = "fuzz.dot";"#.parse().expect("it lexes"), input);
    assert_eq!(
        errors > 0,
        loaded.report.has_errors(),
        "the macro has {errors} errors, the loader says {:?}",
        loaded
            .report
            .errors()
            .map(|fault| &fault.message)
            .collect::<Vec<_>>()
    );
    if errors == 0 {
        assert_eq!(nodes, Some(loaded.graph.nodes.len()), "nodes of the expansion");
    }
    // The compiler itself goes down its stack with the tokens of an invocation.
    let opened = input.iter().filter(|byte| b"{[(".contains(byte)).count();
    let inline = std::str::from_utf8(input)
        .ok()
        .filter(|_| opened < 500)
        .and_then(|text| format!("pub mod fuzz {{ {text} }}").parse().ok());
    if let Some(tokens) = inline {
        expansion(tokens, input);
    }
}

/// The compile errors of an expansion, and how many nodes it has.
fn expansion(tokens: proc_macro2::TokenStream, input: &[u8]) -> (usize, Option<usize>) {
    let code = expand_pipeline(tokens, &OneFile(input));
    let file: syn::File =
        syn::parse2(code.clone()).unwrap_or_else(|fault| panic!("no Rust: {fault}\n{code}"));
    let mut counted = (0, None);
    count(&file.items, &mut counted);
    counted
}

fn count(items: &[syn::Item], counted: &mut (usize, Option<usize>)) {
    for item in items {
        match item {
            syn::Item::Macro(called) => {
                let name = called
                    .mac
                    .path
                    .segments
                    .last()
                    .map(|segment| segment.ident.to_string());
                counted.0 += usize::from(name.as_deref() == Some("compile_error"));
            }
            // A node that is called `node` has an empty enum of that name too, in a module of its own.
            syn::Item::Enum(item) if item.ident == "Node" => {
                counted.1 = counted.1.max(Some(item.variants.len()));
            }
            syn::Item::Mod(inner) => {
                if let Some((_, items)) = &inner.content {
                    count(items, counted);
                }
            }
            _ => {}
        }
    }
}

/// Conditions: what the parser takes the reference reads as well, and both answer alike on facts of any kind (but for
/// patterns that the reference does not know); faults
/// point into the text. As the condition of an edge, the text is checked together with its negation.
pub(super) const CONDITION: Target = Target {
    name: "condition",
    run: condition_target,
    generate: |random| condition::text(random).into_bytes(),
    corpus: no_corpus,
    words: condition::WORDS,
    suite: 5_000,
    share: 1,
};

/// Whether the reference knows all patterns of a condition: letters and digits, and those of the generator.
fn are_of_the_reference(expression: &Expression) -> bool {
    let known = ["^dry$", "[0-9]+", "^[a-z_]*$", "w.t", "ru?n$", "^$"];
    let mut all = true;
    expression.visit(&mut |part| {
        if let Expression::Matches { pattern, .. } = part {
            let text = pattern.as_str();
            all &= known.contains(&text) || text.chars().all(char::is_alphanumeric);
        }
    });
    all
}

fn condition_target(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match parse_condition(&text) {
        Ok(expression) => {
            let mut random = chance_of(input);
            let comparable = are_of_the_reference(&expression);
            if comparable {
                assert_eq!(
                    expression.needs_failure(),
                    needs_failure(&text),
                    "needs a failure"
                );
            }
            for _ in 0..3 {
                let seen = seen(&mut random);
                let facts = Facts {
                    outcome: &seen.outcome,
                    preferred_label: &seen.preferred_label,
                    failure_reason: &seen.failure_reason,
                    current_node: &seen.current_node,
                    last_stage: &seen.last_stage,
                    context: &seen.context,
                    ..Facts::default()
                };
                let holds_here = expression.holds(&facts);
                if comparable {
                    assert_eq!(holds_here, holds(&text, &seen), "on {seen:?}");
                }
            }
        }
        Err(fault) => {
            let part = text.get(fault.range.clone());
            assert!(part.is_some(), "{:?} is no part of the text", fault.range);
        }
    }
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    dot(format!(
        "digraph {{ start -> d; d [shape=diamond]; d -> exit [condition=\"{quoted}\"]; d -> d [condition=\"!({quoted})\"]; d -> exit }}"
    )
    .as_bytes());
}

/// Stylesheets: what is understood lies in the text, as do faults; as an attribute of a graph it is checked.
pub(super) const STYLESHEET: Target = Target {
    name: "stylesheet",
    run: stylesheet,
    generate: a_stylesheet,
    corpus: no_corpus,
    words: SHEET,
    suite: 5_000,
    share: 1,
};

const SHEET: &[&str] = &[
    "*",
    ".",
    "#",
    "box",
    ".code",
    "#n0",
    "{",
    "}",
    ":",
    "=",
    ";",
    "llm_model",
    "model",
    "reasoning_effort",
    "llm_provider",
    "high",
    "extreme",
    "gpt-5.2",
    "\"",
    "'",
    "/*",
    "*/",
    "//",
    "\n",
    "ü",
    ",",
    "* { llm_model: m; }",
    ".a.b",
    "\\",
];

fn a_stylesheet(random: &mut Random) -> Vec<u8> {
    if random.chance(30) {
        return made_of(SHEET, random).into_bytes();
    }
    let mut text = String::new();
    for _ in 0..random.below(5) {
        text.push_str(random.pick::<&str>(&["*", "box", ".code", "#n0", ".x-1", "#\"n 0\"", "hexagon"]));
        text.push_str(" { ");
        for _ in 0..random.below(4) {
            let key = *random.pick(&["llm_model", "llm_provider", "reasoning_effort", "model", "odd"]);
            let value = match random.below(3) {
                0 => word(random),
                1 => format!("\"{}\"", word(random)),
                _ => (*random.pick(&["low", "high", "claude-opus-4-6", "openai"])).to_owned(),
            };
            text.push_str(&format!("{key}: {value}{}", random.pick(&["; ", ";", " ", "\n"])));
        }
        text.push_str(random.pick::<&str>(&["}", "}\n", "};", ""]));
    }
    text.into_bytes()
}

fn stylesheet(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (rules, faults) = parse_stylesheet(&text);
    for fault in &faults {
        assert!(text.get(fault.range.clone()).is_some(), "{fault:?} lies outside");
    }
    for rule in &rules {
        assert!(text.get(rule.range.clone()).is_some(), "{rule:?} lies outside");
        for declaration in &rule.declarations {
            let part = text.get(declaration.range.clone());
            assert!(part.is_some(), "{declaration:?} lies outside");
        }
    }
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    dot(
        format!("digraph {{ model_stylesheet=\"{quoted}\" start -> n0 -> exit; n0 [class=code] }}")
            .as_bytes(),
    );
}

/// Durations, numbers, labels and identifiers: what is printed is read as the same value.
pub(super) const VALUES: Target = Target {
    name: "values",
    run: values,
    generate: |random| {
        let text = match random.below(4) {
            0 => word(random),
            1 => format!(
                "{}{}",
                random.between(-5, 99_999),
                random.pick(&["", "ms", "s", "m", "h", "d", "w", ".5", "e3"])
            ),
            2 => format!(
                "{}{}{}",
                random.pick(&["[Y] ", "Y) ", "Y - ", "[YES] ", "[] ", "[ Y]", " "]),
                word(random),
                word(random)
            ),
            _ => format!("{}.{}", random.number(), random.number()),
        };
        text.into_bytes()
    },
    corpus: no_corpus,
    words: &[
        "ms", "s", "m", "h", "d", "-", "+", ".", "e", "[Y] ", "Y) ", "Y - ", "true", "false", "[", "]", ")",
        " - ",
    ],
    suite: 10_000,
    share: 1,
};

fn values(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Some(duration) = parse_duration(&text) {
        assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
    }
    let value = Value::of_word(&text);
    match &value {
        Value::String(same) => assert_eq!(**same, *text),
        // A decimal number may be printed like a whole one.
        Value::Float(number) => assert_eq!(value.to_string().parse().ok(), Some(*number)),
        other => assert_eq!(Value::of_word(&other.to_string()), value),
    }
    let shown = label_text(&text);
    assert!(text.contains(shown));
    assert_eq!(normalize_label(&text), shown.to_lowercase());
    if let Some(key) = accelerator_key(&text) {
        assert!(!key.is_empty() && key.chars().count() <= 3 && text.contains(key) && !shown.is_empty());
    }
    if is_identifier(&text) {
        let loaded = load(
            Source::new("a.dot", format!("digraph {{ {text} }}")),
            &LoadOptions::default(),
        );
        let syntax = ["expected_token", "invalid_character"];
        assert!(
            loaded.report.errors().all(|fault| !syntax.contains(&fault.code)),
            "{text}"
        );
    }
}
