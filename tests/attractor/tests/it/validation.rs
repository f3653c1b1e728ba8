//! Attractor 11.2: validation and linting.

use orchestra::graph::{Diagnostic, Severity};
use orchestra_attractor_tests::loaded;

/// The diagnostics of a code.
#[track_caller]
fn reported(text: &str, code: &str) -> Vec<Diagnostic> {
    let loaded = loaded(text);
    let all = &loaded.report.diagnostics;
    all.iter().filter(|one| one.code == code).cloned().collect()
}

/// Asserts that a text has one error of a code, and that the same text without the fault has none.
#[track_caller]
fn is_an_error(code: &str, wrong: &str, right: &str) -> Diagnostic {
    let found = reported(wrong, code);
    assert_eq!(found.len(), 1, "{code}: {found:?}");
    assert_eq!(found[0].severity, Severity::Error, "{code}");
    assert!(loaded(wrong).pipeline().is_none());
    assert!(reported(right, code).is_empty());
    assert!(loaded(right).pipeline().is_some(), "{right}");
    found[0].clone()
}

const SOUND: &str = "digraph t { a [prompt=A]; start -> a -> exit }";

#[test]
fn exactly_one_start_node_is_required() {
    is_an_error("start_node", "digraph t { a [prompt=A]; a -> exit }", SOUND);
    let two = "digraph t { s [shape=Mdiamond]; t [shape=Mdiamond]; s -> exit; t -> exit }";
    is_an_error("start_node", two, SOUND);
}

#[test]
fn exactly_one_exit_node_is_required() {
    is_an_error(
        "terminal_node",
        "digraph t { a [prompt=A, end=success]; start -> a }",
        SOUND,
    );
    let two = "digraph t { e [shape=Msquare]; f [shape=Msquare]; start -> a; a -> e; a -> f }";
    is_an_error("terminal_node", two, SOUND);
}

#[test]
fn the_start_node_has_no_incoming_edges() {
    let back = "digraph t { start -> a -> exit; a -> start [condition=\"outcome=fail\"] }";
    let problem = is_an_error("start_no_incoming", back, SOUND);
    assert_eq!(problem.edge, Some(("a".to_owned(), "start".to_owned())));
}

#[test]
fn the_exit_node_has_no_outgoing_edges() {
    let on = "digraph t { start -> a -> exit; exit -> a }";
    let problem = is_an_error("exit_no_outgoing", on, SOUND);
    assert_eq!(problem.edge, Some(("exit".to_owned(), "a".to_owned())));
}

#[test]
fn all_nodes_are_reachable_from_the_start() {
    let orphan = "digraph t { start -> a -> exit; orphan [prompt=B]; orphan -> exit }";
    let problem = is_an_error("reachability", orphan, SOUND);
    assert_eq!(problem.node.as_deref(), Some("orphan"));
}

#[test]
fn edges_reference_nodes_that_are_there() {
    let wrong =
        "digraph t { build [prompt=B]; start -> build -> exit; build -> buidl [condition=\"outcome=fail\"] }";
    let problem = is_an_error("edge_target_exists", wrong, SOUND);
    assert!(problem.message.contains("`buidl`"), "{}", problem.message);
    assert_eq!(problem.help.as_deref(), Some("did you mean `build`?"));
}

#[test]
fn a_model_stage_without_a_prompt_is_a_warning() {
    let bare = reported(
        "digraph t { start -> a -> exit; a [shape=box] }",
        "prompt_on_llm_nodes",
    );
    assert_eq!((bare.len(), bare[0].severity), (1, Severity::Warning));
    assert_eq!(bare[0].node.as_deref(), Some("a"));
    assert!(reported(SOUND, "prompt_on_llm_nodes").is_empty());
    // As 7.2 says, a label will do.
    let labelled = "digraph t { a [label=\"Do it\"]; start -> a -> exit }";
    assert!(reported(labelled, "prompt_on_llm_nodes").is_empty());
}

#[test]
fn conditions_on_edges_must_parse() {
    let wrong = "digraph t { start -> a -> exit [condition=\"outcome ==\"] }";
    is_an_error(
        "condition_syntax",
        wrong,
        "digraph t { start -> a; a -> exit [condition=\"outcome=success\"]; a -> exit }",
    );
}

#[test]
fn what_has_errors_cannot_be_run_and_what_has_warnings_can() {
    let warned = loaded("digraph t { start -> a -> exit; a [shape=box] }");
    assert!(!warned.report.has_errors() && warned.pipeline().is_some());
    let refused = loaded("digraph t { a -> exit }");
    assert!(refused.report.has_errors());
    assert!(refused.pipeline().is_none(), "there is no table to run");
}

#[test]
fn a_diagnostic_has_rule_severity_place_and_message() {
    let text = "digraph t {\n    start -> a -> exit\n    a [prompt=A]\n    orphan [prompt=B]\n    orphan -> exit\n}\n";
    let all = loaded(text);
    let problem = all.report.errors().next().unwrap();
    assert_eq!(
        (problem.code, problem.severity),
        ("reachability", Severity::Error)
    );
    assert_eq!(problem.node.as_deref(), Some("orphan"));
    assert!(problem.message.contains("`orphan`"), "{}", problem.message);
    assert_eq!(
        &text[problem.span.start as usize..problem.span.end as usize],
        "orphan"
    );
}
