//! What is shown of texts that somebody else wrote: diagnostics and pictures.

use orchestra_graph::render::{Style, concise, json, text};
use orchestra_graph::{
    Diagnostic, Limits, PictureOptions, Report, Source, Span, load_bytes, lower, parse, print_mermaid,
};

use super::language::pipelines;
use super::{Target, chance_of};
use crate::Random;
use crate::generate::{dot, word};

/// Diagnostics with any places, labels and texts: plain text holds no control characters but line ends, the concise
/// form is a line for each, JSON is JSON.
pub(super) const DIAGNOSTICS: Target = Target {
    name: "diagnostics",
    run: diagnostics,
    generate: |random| {
        let lines: Vec<String> = (0..random.below(12)).map(|_| word(random)).collect();
        lines
            .join(random.pick::<&str>(&["\n", "\r\n", "\r", " "]))
            .into_bytes()
    },
    corpus: pipelines,
    words: &[
        "\n",
        "\r\n",
        "\t",
        "\u{202e}",
        "\u{1b}[2J",
        "大",
        "e\u{301}",
        "👩‍👩‍👧",
        "                ",
        "\u{9b}",
    ],
    suite: 2_000,
    share: 1,
};

fn diagnostics(input: &[u8]) {
    let content = String::from_utf8_lossy(input).into_owned();
    let mut random = chance_of(input);
    let count = 1 + random.below(3);
    let all = (0..count).map(|_| diagnostic(&content, &mut random)).collect();
    let name = piece(&content, &mut random);
    let report = Report::new(Source::new(name, content), all);
    let plain = text(&report, Style::Plain);
    let control = plain.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(control, None, "plain text holds a control character:\n{plain:?}");
    let _ = text(&report, Style::Coloured);
    let lines = concise(&report);
    assert_eq!(lines.lines().count(), count, "{lines:?}");
    assert!(lines.chars().all(|c| !c.is_control() || c == '\n'), "{lines:?}");
    for line in json(&report).lines() {
        let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(object.is_object() || object.is_array(), "{object}");
    }
}

fn diagnostic(content: &str, random: &mut Random) -> Diagnostic {
    let made = match random.below(3) {
        0 => Diagnostic::error("demo", piece(content, random), span(content, random)),
        1 => Diagnostic::warning("demo", piece(content, random), span(content, random)),
        _ => Diagnostic::info("demo", piece(content, random), span(content, random)),
    };
    let mut made = made.label(piece(content, random));
    for _ in 0..random.below(3) {
        made = made.related(span(content, random), piece(content, random));
    }
    if random.chance(50) {
        made = made.note(piece(content, random)).help(piece(content, random));
    }
    if random.chance(30) {
        made = made.fix(span(content, random), piece(content, random));
    }
    made
}

fn piece(content: &str, random: &mut Random) -> String {
    let from = random.below(content.chars().count() + 1);
    content.chars().skip(from).take(random.below(60)).collect()
}

/// Places in the text, behind it, within characters, and backwards.
fn span(content: &str, random: &mut Random) -> Span {
    let position = |random: &mut Random| match random.below(20) {
        0 => u32::MAX,
        _ => random.below(content.len() + 3) as u32,
    };
    Span {
        start: position(random),
        end: position(random),
    }
}

/// Pictures of graphs with whatever faults: DOT for Graphviz is DOT with the same nodes and edges, and neither that nor
/// Mermaid nor SVG nor text makes trouble.
pub(super) const PICTURES: Target = Target {
    name: "pictures",
    run: pictures,
    generate: |random| dot::text(random).into_bytes(),
    corpus: pipelines,
    words: dot::WORDS,
    suite: 200,
    share: 10,
};

fn pictures(input: &[u8]) {
    let graph = load_bytes("fuzz.dot", input, &Default::default()).graph;
    if graph.nodes.len() > 60 || graph.edges.len() > 120 {
        return;
    }
    let options = PictureOptions::default();
    let printed = orchestra_picture::dot(&graph, &options);
    let source = Source::new("picture.dot", printed.as_str());
    let parsed = parse(&source, &Limits::default());
    // Graphviz has no rule for ids.
    let syntax = |fault: &&Diagnostic| fault.is_error() && fault.code != "node_id_syntax";
    let errors: Vec<_> = parsed.diagnostics.iter().filter(syntax).collect();
    assert!(errors.is_empty(), "{errors:?}\n---\n{printed}");
    let (drawn, _) = lower(&source, &parsed.file);
    assert_eq!(
        (drawn.nodes.len(), drawn.edges.len()),
        (graph.nodes.len(), graph.edges.len()),
        "{printed}"
    );
    let _ = print_mermaid(&graph, &options);
    let _ = orchestra_picture::text(&graph);
    if let Ok(svg) = orchestra_picture::svg(&graph, &options) {
        assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{svg:.100}");
        let bad = svg
            .chars()
            .find(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'));
        assert_eq!(bad, None, "XML cannot hold it");
    }
}
