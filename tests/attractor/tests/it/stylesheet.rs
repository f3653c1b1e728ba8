//! Attractor 11.10: the model stylesheet.

use orchestra::graph::{Known, parse_stylesheet};
use orchestra_attractor_tests::{loaded, problems};

/// The model and the effort that a node gets in a graph with a stylesheet.
fn styled(stylesheet: &str, nodes: &str, id: &str) -> (String, String) {
    let text =
        format!("digraph t {{ graph [model_stylesheet=\"{stylesheet}\"]; {nodes}; start -> {id} -> exit }}");
    let loaded = loaded(&text);
    assert_eq!(problems(&loaded), [""; 0], "{text}");
    let node = loaded.graph.node(loaded.graph.find(id).unwrap());
    let of = |known| node.attributes.text(known).unwrap_or_default().to_owned();
    (of(Known::LlmModel), of(Known::ReasoningEffort))
}

fn model(stylesheet: &str, node: &str) -> String {
    styled(stylesheet, node, "review").0
}

#[test]
fn a_stylesheet_is_read_from_the_graph_and_its_faults_are_reported() {
    let (rules, problems) = parse_stylesheet("* { llm_model: small; } .fast { llm_provider: gemini }");
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(rules.len(), 2, "{rules:?}");
    assert_eq!(model("* { llm_model: small; }", "review [prompt=R]"), "small");
    let broken = loaded("digraph t { graph [model_stylesheet=\"* { llm_model small }\"]; start -> exit }");
    let codes: Vec<&str> = broken.report.errors().map(|problem| problem.code).collect();
    assert_eq!(codes, ["stylesheet_syntax"]);
}

#[test]
fn selectors_by_shape_work() {
    let sheet = "box { model = 'claude-opus-4-6' }".replace('\'', "\\\"");
    assert_eq!(model(&sheet, "review [shape=box, prompt=R]"), "claude-opus-4-6");
    assert_eq!(model(&sheet, "review [shape=ellipse, prompt=R]"), "");
}

#[test]
fn selectors_by_class_work() {
    let sheet = ".fast { model = 'gemini-3-flash-preview' }".replace('\'', "\\\"");
    assert_eq!(
        model(&sheet, "review [prompt=R, class=\"other,fast\"]"),
        "gemini-3-flash-preview"
    );
    assert_eq!(model(&sheet, "review [prompt=R, class=faster]"), "");
}

#[test]
fn selectors_by_id_work() {
    let sheet = "#review { reasoning_effort = 'low' }".replace('\'', "\\\"");
    assert_eq!(styled(&sheet, "review [prompt=R]", "review").1, "low");
    assert_ne!(styled(&sheet, "other [prompt=R]", "other").1, "low");
}

#[test]
fn the_more_exact_selector_wins_whatever_the_order() {
    let rules = [
        "* { model: universal }",
        "box { model: shape }",
        ".fast { model: class }",
        "#review { model: id }",
    ];
    let wins = ["universal", "shape", "class", "id"];
    for count in 1..=rules.len() {
        let mut sheet = rules[..count].to_vec();
        for _ in 0..2 {
            assert_eq!(
                model(&sheet.join(" "), "review [shape=box, prompt=R, class=fast]"),
                wins[count - 1],
                "{sheet:?}"
            );
            sheet.reverse();
        }
    }
    assert_eq!(
        model(
            ".a { model: first } .b { model: second }",
            "review [prompt=R, class=\"b,a\"]"
        ),
        "second"
    );
}

#[test]
fn attributes_of_the_node_itself_win() {
    let sheet = "#review { model: styled; reasoning_effort: low }";
    let (model, effort) = styled(sheet, "review [prompt=R, llm_model=own]", "review");
    assert_eq!((model.as_str(), effort.as_str()), ("own", "low"));
}
