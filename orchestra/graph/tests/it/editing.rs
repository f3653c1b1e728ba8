//! Tests of the facts that an editor shows: the syntax around a position, and the attributes and names that fit there.

use std::path::{Path, PathBuf};

use orchestra_graph::ast::{Attribute, EdgeStatement, Identifier, Statement};
use orchestra_graph::condition::ConditionCursor;
use orchestra_graph::{
    ATTRIBUTES, AssertionCursor, AttributeOwner, Cursor, DeclarationCursor, Known, Limits, Scope, Source,
    Span, SyntaxContext, kind, load, parse, value_range,
};

/// Returns the pipelines of the repository.
fn examples() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> = vec![root.join("tests/corpus"), root.join("../../examples")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "dot") {
                let text = std::fs::read_to_string(&path).expect("text");
                files.push((path.display().to_string(), text));
            }
        }
    }
    files.sort();
    assert!(files.len() > 20, "the examples are there");
    files
}

fn at_end(text: &str) -> Cursor {
    Cursor::new(&Source::new("a.dot", text), text.len() as u32)
}

/// Returns a short text for a context.
fn shown(cursor: &Cursor) -> String {
    let owner = |owner: &AttributeOwner| match owner {
        AttributeOwner::Graph => "graph".to_owned(),
        AttributeOwner::Subgraph => "subgraph".to_owned(),
        AttributeOwner::NodeDefaults => "node [..]".to_owned(),
        AttributeOwner::EdgeDefaults => "edge [..]".to_owned(),
        AttributeOwner::Node(id) => id.text.to_string(),
        AttributeOwner::Edge(nodes) => chain(nodes),
    };
    match &cursor.context {
        SyntaxContext::Outside => "outside".to_owned(),
        SyntaxContext::Comment => "comment".to_owned(),
        SyntaxContext::Statement { nested } => {
            if *nested { "nested statement" } else { "statement" }.to_owned()
        }
        SyntaxContext::Target { from } => format!("target of {}", chain(from)),
        SyntaxContext::Key { owner: of, set } => format!("key of {} beside {}", owner(of), set.join(",")),
        SyntaxContext::Value {
            owner: of,
            key,
            before,
            quoted,
        } => {
            let quote = if *quoted { "\"" } else { "" };
            format!("{} of {}: {quote}{before}", key.text, owner(of))
        }
        _ => "other".to_owned(),
    }
}

fn chain(nodes: &[Identifier]) -> String {
    let ids: Vec<&str> = nodes.iter().map(|node| node.text.as_str()).collect();
    ids.join("->")
}

#[test]
fn incomplete_text_is_understood() {
    for (text, expected) in [
        ("", "outside"),
        ("digr", "outside"),
        ("digraph a {", "statement"),
        ("digraph a { sta", "statement"),
        ("digraph { a\n", "statement"),
        ("digraph { a ", "other"),
        ("digraph { a -> b; ", "statement"),
        ("digraph { a -> ", "target of a"),
        ("digraph { a -> b -> c", "target of a->b"),
        ("digraph { a -> b ->", "target of a->b"),
        ("digraph { a -", "other"),
        ("digraph { a [", "key of a beside "),
        ("digraph { a [retry_tar", "key of a beside "),
        ("digraph { a [shape=box, retry_tar", "key of a beside shape"),
        ("digraph { a [tool_env_from.", "key of a beside "),
        ("digraph { a [shape=", "shape of a: "),
        ("digraph { a [shape=hex", "shape of a: hex"),
        ("digraph { a [shape=hexagon ", "key of a beside shape"),
        ("digraph { a [shape", "key of a beside "),
        ("digraph { a [shape ", "other"),
        ("digraph { a [shape=box] [ti", "key of a beside shape"),
        ("digraph { a [label=\"x\\\"y", "label of a: \"x\"y"),
        ("digraph { a [label=\"x\\", "label of a: \"x\\"),
        (
            "digraph { a [\"manager.actions\"=\"obs",
            "manager.actions of a: \"obs",
        ),
        (
            "digraph { x -> y [condition=\"outcome=",
            "condition of x->y: \"outcome=",
        ),
        ("digraph { x -> y -> z [wei", "key of x->y->z beside "),
        ("digraph { node [sha", "key of node [..] beside "),
        ("digraph { edge [weight=2] graph [go", "key of graph beside "),
        ("digraph { goal=", "goal of graph: "),
        ("digraph { goal=\"ship it", "goal of graph: \"ship it"),
        ("digraph { goal=ship\n a [", "key of a beside "),
        ("digraph { subgraph cluster_a { lab", "nested statement"),
        (
            "digraph { subgraph cluster_a { label=\"x\"; a -> b",
            "target of a",
        ),
        ("digraph { subgraph cluster_a { label=", "label of subgraph: "),
        ("digraph { subgraph cluster_a { a } b", "statement"),
        ("digraph { a } ", "outside"),
        ("digraph { // a [", "comment"),
        ("digraph { /* a [", "comment"),
        ("digraph { /* a */", "statement"),
        ("digraph {\n# a [", "comment"),
        ("digraph { a [x=\"// b", "x of a: \"// b"),
        ("digraph { a [shape=box\n b -> ", "target of b"),
        ("digraph { a [shape=\n b=", "b of a: "),
        ("digraph { a:n -> ", "target of a"),
        ("digraph { \"start\" -> \"ex", "target of start"),
    ] {
        assert_eq!(shown(&at_end(text)), expected, "{text}");
    }
}

#[test]
fn text_after_the_position_does_not_matter() {
    let cases = [
        ("digraph { a [| b -> c }", "key of a beside "),
        ("digraph { a [ti|]\n b -> c }", "key of a beside "),
        ("digraph { a [ti|, shape=box] }", "key of a beside shape"),
        ("digraph { a [shape=|]\n b [label=\"x\"] }", "shape of a: "),
        ("digraph { a [shape=|\n b [label=\"x\"] }", "shape of a: "),
        ("digraph { a [re|\n b [label=\"x\"] }", "key of a beside "),
        ("digraph { a [re|\n label=x] }", "key of a beside label"),
        ("digraph { a -> |\n}", "target of a"),
        (
            "digraph { a -> b [condition=\"out|]\n b [label=\"x\"] }",
            "condition of a->b: \"out",
        ),
        (
            "digraph { a -> b [condition=\"out|come=fail\"] }",
            "condition of a->b: \"out",
        ),
        ("digraph { a [shape=box]\n|\n b -> c }", "statement"),
        ("digraph { a [shape=b|ox] }", "shape of a: b"),
        ("dig|raph { a }", "outside"),
    ];
    for (text, expected) in cases {
        let offset = text.find('|').expect("a mark") as u32;
        let source = Source::new("a.dot", text.replacen('|', "", 1));
        assert_eq!(shown(&Cursor::new(&source, offset)), expected, "{text}");
    }
    let source = Source::new("a.dot", "digraph { a [label=\"some text\", shape=box] }");
    assert_eq!(source.slice(Cursor::new(&source, 22).word), "some text");
    assert_eq!(source.slice(Cursor::new(&source, 40).word), "box");
}

#[test]
fn no_position_of_any_example_or_of_its_begin_is_out_of_bounds() {
    for (name, text) in examples() {
        let whole = Source::new(&*name, &*text);
        // Each position of the text, and of the text up to there, as it is while someone types it.
        for offset in 0..=text.len() + 1 {
            check_cursor(&whole, offset);
            if text.is_char_boundary(offset) {
                check_cursor(&Source::new(&*name, &text[..offset]), offset);
            }
        }
    }
}

fn check_cursor(source: &Source, offset: usize) {
    let cursor = Cursor::new(source, offset as u32);
    let word = cursor.word.start as usize..cursor.word.end as usize;
    let name = source.name();
    assert!(
        source.text().get(word.clone()).is_some(),
        "{name}: {offset}: {cursor:?}"
    );
    let at = offset.min(source.text().len());
    assert!(
        word.start <= at && at <= word.end + 3,
        "{name}: {offset}: {cursor:?}"
    );
    if let SyntaxContext::Value { before, .. } = &cursor.context {
        // The parts of texts are found at the end of any text.
        let _ = ConditionCursor::at_end(before);
        let _ = AssertionCursor::at_end(before);
        let _ = DeclarationCursor::at_end(before);
    }
}

#[test]
fn the_syntax_agrees_with_the_tree_of_each_example() {
    let mut compared = 0;
    for (name, text) in examples() {
        let source = Source::new(&*name, &*text);
        let parsed = parse(&source, &Limits::default());
        let mut ahead: Vec<(&Statement, bool)> = parsed
            .file
            .statements
            .iter()
            .map(|statement| (statement, false))
            .collect();
        while let Some((statement, nested)) = ahead.pop() {
            let owner = match statement {
                Statement::Subgraph(inner) => {
                    ahead.extend(inner.statements.iter().map(|statement| (statement, true)));
                    continue;
                }
                Statement::Assignment(attribute) => {
                    compared += values(
                        &source,
                        std::slice::from_ref(attribute),
                        if nested { "subgraph" } else { "graph" },
                    );
                    continue;
                }
                Statement::Defaults(block) => {
                    let names = ["graph", "node [..]", "edge [..]"];
                    let name = names[block.target as usize];
                    compared += list(
                        &source,
                        &block.attributes,
                        if nested && name == "graph" {
                            "subgraph"
                        } else {
                            name
                        },
                    );
                    continue;
                }
                Statement::Node(node) => {
                    let found = shown(&Cursor::new(&source, node.id.span.start + 1));
                    assert!(found.ends_with("statement"), "{name}: {found}");
                    compared += list(&source, &node.attributes, &node.id.text);
                    continue;
                }
                Statement::Edge(EdgeStatement {
                    nodes, attributes, ..
                }) => {
                    for (at, node) in nodes.iter().enumerate().skip(1) {
                        let found = shown(&Cursor::new(&source, node.span.start + 1));
                        assert_eq!(found, format!("target of {}", chain(&nodes[..at])), "{name}");
                    }
                    compared += list(&source, attributes, &chain(nodes));
                    chain(nodes)
                }
            };
            assert!(!owner.is_empty());
        }
    }
    assert!(compared > 1_000, "{compared}");
}

/// Compares all positions in a list.
fn list(source: &Source, attributes: &[Attribute], owner: &str) -> usize {
    for attribute in attributes {
        for offset in attribute.key.span.start + 1..attribute.key.span.end {
            let found = shown(&Cursor::new(source, offset));
            assert!(
                found.starts_with(&format!("key of {owner} beside ")),
                "{}: {found}",
                source.name()
            );
        }
    }
    values(source, attributes, owner) + attributes.len()
}

/// Compares all positions in the values of attributes.
fn values(source: &Source, attributes: &[Attribute], owner: &str) -> usize {
    for attribute in attributes {
        let Span { start, end } = attribute.value_span;
        for offset in start + 1..end {
            let found = shown(&Cursor::new(source, offset));
            let expected = format!("{} of {owner}: ", attribute.key.text);
            assert!(
                found.starts_with(&expected),
                "{}: {found}, not {expected}",
                source.name()
            );
        }
        if attribute.quoted && end - start > 2 {
            let cursor = Cursor::new(source, end - 1);
            let SyntaxContext::Value { before, .. } = &cursor.context else {
                panic!("a value")
            };
            let text = attribute.value.as_str().expect("text");
            assert_eq!(before, text, "{}", source.name());
            let last = text.char_indices().last().expect("it is not empty").0;
            let span = value_range(source, attribute.value_span, last..text.len());
            assert_eq!(span.end, end - 1, "{}", source.name());
        }
    }
    attributes.len()
}

/// A pipeline in which the node `n` has a kind and an attribute, but may be wrong otherwise.
fn with_attribute(of: &str, attribute: &str) -> String {
    format!(
        "digraph {{ start -> n; n -> b [label=B]; n -> c [label=C]; b -> j; c -> j; j -> exit
            n [type=\"{of}\", {attribute}]; b [prompt=\"B.\"]; c [prompt=\"C.\"]
            j [shape=tripleoctagon] }}"
    )
}

#[test]
fn attributes_that_a_kind_reads_are_never_reported_as_without_effect() {
    let mut refused = 0;
    for spec in ATTRIBUTES.iter().filter(|spec| spec.scopes.contains(Scope::Node)) {
        for of in kind::BUILT_IN {
            // A fan-in calls a model only with a prompt.
            let prompt = if *of == kind::FAN_IN && spec.known != Known::Prompt {
                ", prompt=\"Compare.\""
            } else {
                ""
            };
            let value = match spec.known.fixed_values().as_slice() {
                // The last value is not the neutral one, except for flags.
                [first, .., last] => {
                    if *first == "true" {
                        *first
                    } else {
                        *last
                    }
                }
                _ if spec.ty.coerce(&orchestra_graph::Value::Integer(3)).is_some() => "3",
                _ => "1",
            };
            let text = with_attribute(of, &format!("{}=\"{value}\"{prompt}", spec.name));
            let loaded = load(Source::new("a.dot", text), &Default::default());
            let without_effect = loaded.report.diagnostics.iter().filter(|found| {
                found.code == "attribute_without_effect" && found.message.contains(spec.name)
            });
            let is_reported = without_effect.count() > 0;
            refused += usize::from(is_reported);
            assert_eq!(is_reported, !spec.known.is_read_by(of), "{} of {of}", spec.name);
        }
    }
    assert!(
        refused > 100,
        "the attributes without an effect are reported: {refused}"
    );
}

#[test]
fn fixed_values_are_values_of_their_attributes() {
    for spec in ATTRIBUTES {
        for value in spec.known.fixed_values() {
            let written = orchestra_graph::Value::String(value.into());
            assert!(spec.ty.coerce(&written).is_some(), "{}={value}", spec.name);
        }
    }
}

#[test]
fn each_outcome_leads_to_the_nodes_that_the_router_chooses() {
    let text = r#"digraph { start -> work -> ask
        work -> fix [condition="outcome=fail"]; fix -> work; work [max_retries=2]
        ask [shape=hexagon]; ask -> exit [label="[S] Ship"]; ask -> work [label="[R] Redo"]; fix [prompt="Fix."] }"#;
    let loaded = load(Source::new("a.dot", text), &Default::default());
    let mut steps = loaded.possible_steps().expect("sound");
    let mut exits = |id: &str| {
        let node = loaded.graph.find(id).expect("named");
        let exits = steps.exits(node).into_iter().map(|exit| {
            let steps: Vec<String> = exit
                .steps
                .iter()
                .map(|step| step.describe(&loaded.graph))
                .collect();
            let answer = exit
                .answer
                .map(|answer| format!(" ({answer})"))
                .unwrap_or_default();
            format!("{}{answer}: {}", exit.outcome, steps.join(", "))
        });
        exits.collect::<Vec<String>>()
    };
    assert_eq!(exits("start"), ["success: `work`"]);
    let work = exits("work");
    assert!(work.contains(&"success: `ask`".to_owned()), "{work:?}");
    assert!(work.contains(&"fail: `fix`".to_owned()), "{work:?}");
    let ask = exits("ask");
    assert!(ask.contains(&"success ([S] Ship): `exit`".to_owned()), "{ask:?}");
    assert!(ask.contains(&"success ([R] Redo): `work`".to_owned()), "{ask:?}");
    assert!(ask.contains(&"fail: the run fails".to_owned()), "{ask:?}");
    assert_eq!(exits("exit"), ["success: the run succeeds"]);
}
