//! Tests of the checks together: valid graphs raise nothing, and one mistake raises one diagnostic.

mod attributes;
mod conditions;
mod parallel;
mod routing;

use orchestra_graph::{LoadOptions, Severity, Source, load};

fn codes(text: &str) -> Vec<&'static str> {
    let loaded = load(Source::new("test.dot", text), &LoadOptions::default());
    let diagnostics = loaded.report.diagnostics.iter();
    diagnostics.map(|diagnostic| diagnostic.code).collect()
}

/// Returns a pipeline around some statements. `a` and `b` are work stages, `d` is a routing node, `h` a human gate.
fn around(body: &str) -> String {
    let mut text = String::from("digraph {\nstart [shape=Mdiamond]\nexit [shape=Msquare]\n");
    let nodes = [
        ("a", "label=A"),
        ("b", "label=B"),
        ("c", "label=C"),
        ("d", "shape=diamond"),
        ("h", "shape=hexagon, label=H"),
        ("f", "label=F, end=fail"),
    ];
    let words: Vec<&str> = body.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for (id, attributes) in nodes {
        let own = format!("{id} [");
        let declared = body
            .split([';', '\n', '{'])
            .any(|part| part.trim().starts_with(&own));
        if words.contains(&id) && !declared {
            text.push_str(&format!("{id} [{attributes}]\n"));
        }
    }
    text + body + "\n}"
}

#[track_caller]
fn clean(body: &str) {
    assert_eq!(codes(&around(body)), [""; 0], "{body}");
}

#[track_caller]
fn raises(body: &str, expected: &[&str]) {
    assert_eq!(codes(&around(body)), expected, "{body}");
}

#[test]
fn one_mistake_is_one_fault() {
    // No start: no node is reported as unreachable.
    assert_eq!(
        codes("digraph { a [label=A]; b [label=B]; exit [shape=Msquare]; a -> b -> exit }"),
        ["start_node"]
    );
    // No exit: the last node is reported neither as a dead end nor as unknown.
    assert_eq!(
        codes("digraph { start [shape=Mdiamond]; a [label=A]; start -> a }"),
        ["terminal_node"]
    );
    assert_eq!(
        codes("digraph { start [shape=Mdiamond]; a [label=A]; start -> a -> Exit }"),
        ["terminal_node"]
    );
    assert_eq!(
        codes("digraph { start [shape=mdiamond]; exit [shape=Msquare]; a [label=A]; start -> a -> exit }"),
        ["type_known"]
    );
    // A misspelt target: the nodes after the intended one are not reported as unreachable.
    let text = "digraph { start [shape=Mdiamond]; exit [shape=Msquare]; build [label=B]; sign [label=S]; start -> buidl; build -> sign -> exit }";
    assert_eq!(codes(text), ["edge_target_exists"]);
    let text = "digraph { start [shape=Mdiamond]; exit [shape=Msquare]; build [label=B]; undo [label=U]; start -> build -> exit; build [retry_target=udno]; undo -> build }";
    assert_eq!(codes(text), ["retry_target_exists"]);
    // A misspelt source.
    let text = "digraph { start [shape=Mdiamond]; exit [shape=Msquare]; build [label=B]; sign [label=S]; start -> build; buidl -> sign; build -> exit }";
    assert_eq!(codes(text), ["reachability"]);
    // Only the beginning of an unreachable chain and of an unreachable loop is reported.
    raises("start -> exit; a -> b -> c -> exit", &["reachability"]);
    raises("start -> exit; a -> b -> a; b -> c; c -> exit", &["reachability"]);
    // A start without an outgoing edge.
    raises("a -> exit; start", &["reachability"]);
    // A loop without an exit, and a node that leads into it.
    raises(
        "start -> a -> b -> c -> b; a -> exit [condition=\"outcome=skipped\"]",
        &["no_path_to_exit"],
    );
    // Names that differ only in case.
    assert_eq!(
        codes(
            "digraph { start [shape=Mdiamond]; exit [shape=Msquare]; build [label=B]; start -> build; Build -> exit; build -> Build }"
        ),
        ["node_id_case_clash"]
    );
    // An undeclared outcome is not also a gap.
    raises(
        "start -> a; a -> exit [condition=\"outcome=ok\"]; a -> b [condition=\"outcome=fail\"]; b -> exit",
        &["unknown_outcome"],
    );
    // A branch without a next step is not also a dead end.
    raises(
        "p [shape=component]; start -> p; p -> a; p -> b; a -> exit",
        &["parallel_no_join"],
    );
    // One key for a whole block.
    raises(
        "subgraph { node [thread_id=t]; a [label=A]; b [label=B] }; start -> a -> b -> exit",
        &["thread_id_without_full_fidelity"],
    );
    clean(
        "subgraph { node [thread_id=t]; a [label=A, fidelity=full]; b [label=B] }; start -> a -> b -> exit",
    );
    // A chain puts its attributes on two edges.
    raises(
        "start -> a -> b -> exit [condition=\"outcme=success\"]",
        &["condition_syntax"],
    );
}

#[test]
fn lost_statements_do_not_cause_further_faults() {
    let text = "digraph { start [shape=Mdiamond]\nexit [shape=Msquare]\nbuild1 [label=A\nbuild2 [label=B]\nstart -> build1 -> build2 -> exit }";
    assert_eq!(codes(text), ["unterminated_block"]);
    let text = "digraph { start [shape=Mdiamond]\nexit [shape=Msquare]\nbuild ] label=A\nsign [label=B]\nstart -> build -> sgin -> exit }";
    assert_eq!(codes(text), ["syntax_error", "implicit_node"]);
}

#[test]
fn several_mistakes_come_in_one_report_beside_the_graph() {
    let text = "digraph { start [shape=Mdiamond]; exit [shape=Msquare]; build [label=B, timeout=soon]; test [label=T]\n\
        start -> buidl; build -> test -> exit [condition=\"outcme=success\"] }";
    let loaded = load(Source::new("typos.dot", text), &LoadOptions::default());
    let found: Vec<_> = loaded.report.errors().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(
        found,
        ["attribute_type", "edge_target_exists", "condition_syntax"]
    );
    assert_eq!((loaded.graph.nodes.len(), loaded.graph.edges.len()), (5, 3));
}

#[test]
fn the_exit_and_start_may_be_circles_or_named() {
    clean("start -> a -> exit");
    assert_eq!(
        codes("digraph { s [shape=circle]; e [shape=doublecircle]; w [label=W]; s -> w -> e }"),
        [""; 0]
    );
    assert_eq!(codes("digraph { Start -> w -> end; w [label=W] }"), [""; 0]);
    assert_eq!(
        codes("digraph { start [shape=circle]; w [shape=circle, label=W]; start -> w -> end }"),
        [""; 0]
    );
}

#[test]
fn severities_are_as_listed() {
    let loaded = load(
        Source::new("a.dot", around("start -> aux -> exit; aux [label=A]")),
        &LoadOptions::default(),
    );
    assert_eq!(loaded.report.diagnostics[0].severity, Severity::Warning);
}

#[test]
fn kinds_of_the_program_are_known() {
    let text = around("a [type=\"acme.deploy\", label=A]; start -> a -> exit");
    assert_eq!(codes(&text), [""; 0]);
    let with = |kinds: &[&str]| {
        let options = LoadOptions {
            kinds: Some(kinds.iter().map(|kind| (*kind).to_owned()).collect()),
            ..LoadOptions::default()
        };
        load(Source::new("a.dot", &*text), &options).report.diagnostics
    };
    assert!(with(&["acme.deploy"]).is_empty());
    assert_eq!(
        with(&["acme.delpoy"])[0].help.as_deref(),
        Some("did you mean `acme.delpoy`?")
    );
}
