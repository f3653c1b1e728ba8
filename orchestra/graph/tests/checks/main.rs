//! Tests of the checks together: valid graphs raise nothing, and one mistake raises one diagnostic.

mod parallel;

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
fn covering_conditions_raise_nothing() {
    // The failure of a work stage needs no edge. Success and failure are its only outcomes by default.
    clean("start -> a; a -> exit [condition=\"outcome=success\"]");
    clean("start -> a; a -> exit [condition=\"outcome=success\"]; a -> a [condition=\"outcome=fail\"]");
    clean("start -> a; a -> exit [condition=\"outcome!=fail\"]; a -> a [condition=\"outcome=fail\"]");
    clean("start -> a -> d; d -> exit [condition=\"outcome=success\"]; d -> a [condition=\"outcome=fail\"]");
    clean(
        "start -> a -> d; d -> exit [condition=\"outcome=success\"]; d -> a [condition=\"outcome!=success\"]",
    );
    // The failure never reaches the routing node.
    clean(
        "start -> a; a -> d [condition=\"outcome=success\"]; a -> f [condition=\"outcome=fail\"]; d -> exit [condition=\"outcome=success\"]",
    );
    clean(
        "start -> a; a -> d; a -> f [condition=\"outcome=fail\"]; d -> exit [condition=\"outcome=success\"]",
    );
    // Other keys, each compared with its opposite.
    clean(
        "start -> a; a -> exit [condition=\"context.x=1\"]; a -> b [condition=\"context.x!=1\"]; b -> exit",
    );
    clean("start -> a; a -> exit [condition=\"context.x\"]; a -> b [condition=\"!context.x\"]; b -> exit");
    clean(
        "start -> a; a -> exit [condition=\"context.x matches y\"]; a -> b [condition=\"!(context.x matches y)\"]; b -> exit",
    );
    clean(
        "start -> a; a -> exit [condition=\"context.n<3\"]; a -> b [condition=\"!(context.n<3)\"]; b -> exit",
    );
    clean(
        "start -> a; a -> exit [condition=\"outcome=success && context.x=1\"]; a -> b [condition=\"outcome=success && context.x!=1\"]; b -> exit",
    );
    // Declared outcomes are those that the stage returns.
    clean(
        "start -> a; a [label=A, outcomes=\"yes,no\"]; a -> exit [condition=\"outcome=yes\"]; a -> b [condition=\"outcome=no\"]; b -> exit",
    );
    clean(
        "start -> a -> d; a [label=A, outcomes=\"yes\"]; d -> exit [condition=\"outcome=yes\"]; d -> f [condition=\"outcome=fail\"]",
    );
    // A person answers with one of the choices.
    clean(
        "start -> h; h -> exit [label=Yes, condition=\"preferred_label=Yes\"]; h -> f [label=No, condition=\"preferred_label=No\"]",
    );
    clean(
        "start -> h -> d; d -> exit [condition=\"human.gate.selected=Y\"]; d -> f [condition=\"human.gate.selected=N\"]",
    );
    // Too many cases to enumerate.
    let many: String = (0..30)
        .map(|key| {
            format!("a -> exit [condition=\"context.k{key} contains x && outcome=success\", label=l{key}];")
        })
        .collect();
    clean(&format!("start -> a; {many}"));
}

#[test]
fn records_of_stages_name_nodes_and_what_is_kept_of_them() {
    let syntax = ["condition_syntax"];
    let edge =
        |condition: &str| format!("start -> a; a -> exit; a -> b [condition=\"{condition}\"]; b -> exit");
    clean(&edge("visits.a>=3 && stages.b.outcome=fail"));
    for condition in [
        "visits.nowhere>=3",
        "stages.nowhere.outcome=fail",
        "stages.a.notes=x",
        "stages.a=x",
    ] {
        raises(&edge(condition), &syntax);
    }
    raises(
        "graph [retry_target=a]; start -> a -> exit; a [label=A, goal_gate=\"visits.nowhere>1\"]",
        &syntax,
    );
}

#[test]
fn gaps_in_conditions_are_named() {
    let gap = ["non_exhaustive_conditions"];
    raises("start -> a; a -> exit [condition=\"outcome=fail\"]", &gap);
    raises("start -> a -> d; d -> exit [condition=\"outcome=success\"]", &gap);
    raises(
        "start -> a; a -> exit [condition=\"context.x=1\"]; a -> b [condition=\"context.x=2\"]; b -> exit",
        &gap,
    );
    // A partial success is routed as a success if no edge handles it (rule R12).
    clean("start -> a; a [label=A, allow_partial=true]; a -> exit [condition=\"outcome=success\"]");
    raises(
        "start -> a; a -> exit [condition=\"outcome=success && context.x=1\"]; a -> exit [condition=\"outcome=success && context.x!=1 && context.y\"]",
        &gap,
    );
    clean("start -> a; a -> b [condition=\"visits.a<3\"]; a -> exit [condition=\"visits.a>=3\"]; b -> a");
    raises(
        "start -> a; a -> b [condition=\"visits.a<3\"]; a -> exit [condition=\"visits.a>3\"]; b -> a",
        &gap,
    );
    raises(
        "start -> a; a [label=A, outcomes=\"yes,no\"]; a -> exit [condition=\"outcome=yes\"]",
        &gap,
    );
    raises(
        "start -> a; a -> exit [condition=\"context.n<3\"]; a -> b [condition=\"context.n>=3\"]; b -> exit",
        &gap,
    );
    let loaded = load(
        Source::new(
            "a.dot",
            around(
                "start -> a -> d; d -> exit [condition=\"outcome=success && context.ok=yes\"]; d -> a [condition=\"outcome=fail\"]",
            ),
        ),
        &LoadOptions::default(),
    );
    let message = "no edge of `d` is taken when the outcome is `success` and `context.ok` is missing";
    assert_eq!(loaded.report.diagnostics[0].message, message);
}

#[test]
fn only_edges_that_never_win_are_shadowed() {
    let shadowed = ["shadowed_edge"];
    raises("start -> a; a -> b; a -> b; b -> exit", &shadowed);
    raises(
        "start -> a; a -> exit [condition=\"outcome=success\"]; a -> b [condition=\"outcome=success\", weight=-1]; b -> exit",
        &shadowed,
    );
    raises(
        "start -> a; a -> b [condition=\"context.n>5\", weight=1]; a -> exit [condition=\"context.n>9\"]; a -> c; b -> exit; c -> exit",
        &["shadowed_edge"],
    );
    raises(
        "graph [routing=first_match]; start -> a; a -> exit; a -> b [condition_type=success]; b -> exit",
        &shadowed,
    );
    // A label, a suggestion or a weight may still choose them.
    clean("start -> a; a -> b; a -> exit; b -> exit");
    clean("start -> a; a -> b [label=One]; a -> b [label=Two]; b -> exit");
    clean("start -> a; a -> b; a -> b [weight=1, label=Two]; b -> exit");
    clean(
        "start -> a; a -> exit [condition=\"context.n>9\", weight=1]; a -> b [condition=\"context.n>5\"]; a -> b; b -> exit",
    );
    clean("start -> a; a -> exit [condition=\"outcome=success\"]; a -> b; b -> exit");
    clean("start -> p; p [shape=component]; p -> a; p -> a; a -> exit");
    clean("graph [routing=first_match]; start -> a; a -> b [condition_type=success]; a -> exit; b -> exit");
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
fn attributes_that_nothing_reads_are_found() {
    let nothing = ["attribute_without_effect"];
    let way =
        "start -> a -> d; d -> exit [condition=\"outcome=success\"]; d -> a [condition=\"outcome!=success\"]";
    clean(way);
    for attribute in [
        "max_retries=2",
        "retry_policy=standard",
        "timeout=5m",
        "allow_partial=true",
    ] {
        raises(&format!("d [shape=diamond, {attribute}]; {way}"), &nothing);
        raises(&format!("start [{attribute}]; {way}"), &nothing);
        raises(&format!("exit [{attribute}]; {way}"), &nothing);
        clean(&format!("a [label=A, {attribute}]; {way}"));
        // Defaults are meant for other nodes, and the handler of another kind may read any attribute.
        clean(&format!("node [{attribute}]; {way}"));
        clean(&format!("d [type=\"acme.choose\", label=D, {attribute}]; {way}"));
    }
    raises(
        &format!("graph [retry_target=a]; d [shape=diamond, goal_gate=true]; {way}"),
        &nothing,
    );
    // These values are neutral.
    clean(&format!(
        "d [shape=diamond, max_retries=0, retry_policy=none, goal_gate=false, allow_partial=false]; {way}"
    ));
    for attribute in [
        "join_policy=first_success",
        "join_k=1",
        "join_quorum=0.5",
        "error_policy=ignore",
        "max_parallel=2",
    ] {
        raises(&format!("a [label=A, {attribute}]; start -> a -> exit"), &nothing);
        clean(&format!("node [{attribute}]; start -> a -> exit"));
        clean(&format!("a [type=\"acme.fan\", {attribute}]; start -> a -> exit"));
    }
    for attribute in ["merge_policy=best_only", "on_conflict=human"] {
        raises(&format!("a [label=A, {attribute}]; start -> a -> exit"), &nothing);
        clean(&format!("node [{attribute}]; start -> a -> exit"));
        clean(&format!(
            "a [type=\"acme.merge\", {attribute}]; start -> a -> exit"
        ));
        clean(&format!(
            "f [shape=component]; j [shape=tripleoctagon, {attribute}]; a [label=A]; b [label=B]\nstart -> f; f -> a -> j; f -> b -> j -> exit"
        ));
    }
    for shape in [
        "diamond",
        "hexagon",
        "house, stack.child_dotfile=\"x.dot\"",
        "folder, subpipeline.name=lint",
    ] {
        raises(
            &format!("d [shape={shape}, label=D, repo=api]; start -> d -> exit"),
            &nothing,
        );
    }
    for shape in [
        "box",
        "parallelogram, tool_command=ls",
        "box, type=\"acme.build\"",
    ] {
        clean(&format!(
            "a [shape={shape}, label=A, repo=api]; start -> a -> exit"
        ));
    }
    for attribute in [
        "manager.poll_interval=5s",
        "manager.max_cycles=3",
        "manager.stop_condition=\"context.done\"",
        "manager.actions=wait",
        "manager.guard.intervene=\"context.stuck\"",
        "manager.guard.escalate=\"context.lost\"",
        "manager.steer_message=Hurry",
        "manager.steer_cooldown=5s",
    ] {
        raises(&format!("a [label=A, {attribute}]; start -> a -> exit"), &nothing);
        clean(&format!(
            "a [shape=house, label=A, stack.child_dotfile=\"a.dot\", {attribute}]; start -> a -> exit"
        ));
    }
    for attribute in [
        "subpipeline.file=\"a.dot\"",
        "subpipeline.name=lint",
        "subpipeline.inputs=a",
        "subpipeline.outputs=a",
    ] {
        raises(&format!("a [label=A, {attribute}]; start -> a -> exit"), &nothing);
        clean(&format!(
            "node [subpipeline.name=lint]; a [shape=folder, label=A, {attribute}]; start -> a -> exit"
        ));
    }
    raises(
        "a [label=A, human.default_choice=exit]; start -> a -> exit",
        &nothing,
    );
    raises(
        "a [label=A, human.default_choice=none]; start -> a -> exit",
        &nothing,
    );
    // Only the misspelt shape is a mistake.
    raises(
        "a [shape=hexagn, label=A, human.default_choice=exit]; start -> a -> exit",
        &["type_known"],
    );
    raises("start -> a; a -> exit [freeform=true]", &nothing);
    clean("start -> a; a -> exit [freeform=false]");
    clean("edge [freeform=true]; start -> a -> exit");
    clean("start -> h; h -> exit [freeform=true, label=Say]");
    // A chain sets it on each of its edges.
    clean("start -> h -> a -> exit [freeform=true]");
    clean("a [type=\"acme.ask\"]; start -> a; a -> exit [freeform=true]");
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
fn goal_gates_in_the_way_are_told_from_those_beside_it() {
    let graph = "graph [retry_target=a]\n";
    clean(&format!(
        "{graph} start -> a -> exit; a [label=A, goal_gate=true]"
    ));
    clean(&format!(
        "{graph} b [label=B, goal_gate=true]; start -> a -> b -> exit; a -> c -> b; b -> a [condition=\"outcome=fail\"]"
    ));
    clean(&format!(
        "{graph} p [shape=component]; a [label=A, goal_gate=true]; start -> p; p -> a -> j; p -> b -> j; j [shape=tripleoctagon]; j -> exit"
    ));
    raises(
        &format!("{graph} b [label=B, goal_gate=true]; start -> a -> b -> exit; a -> c -> exit"),
        &["goal_gate_bypass"],
    );
    raises(
        &format!("{graph} b [label=B, goal_gate=true]; start -> a -> c -> exit; a -> b -> c"),
        &["goal_gate_bypass"],
    );
}

#[test]
fn failures_that_would_end_as_successes_are_noted() {
    clean("start -> a -> exit");
    clean("start -> a -> d; d -> b [condition=\"outcome=fail\"]; d -> exit; b -> exit");
    raises(
        "start -> a -> d; d -> b [condition=\"context.x=1\"]; d -> exit; b -> exit",
        &["success_only_into_exit"],
    );
    raises(
        "start -> a -> exit; a [label=A, auto_status=true]",
        &["success_only_into_exit"],
    );
    raises(
        "graph [on_failure=route]; start -> a -> exit",
        &["success_only_into_exit"],
    );
    clean("graph [on_failure=route]; start -> a -> exit; a [label=A, on_failure=fail]");
}

#[test]
fn choices_of_a_gate_need_written_keys_and_labels_of_their_own() {
    let twice = ["duplicate_choice_key"];
    raises(
        "start -> h; h -> exit [label=\"[Y] Yes\"]; h -> f [label=\"y) Perhaps\"]",
        &twice,
    );
    clean("start -> h; h -> exit [label=Approve]; h -> f [label=Abort]");
    clean("s1 [label=S]; s2 [label=S]; start -> h; h -> s1; h -> s2; s1 -> exit; s2 -> exit");
    raises(
        "start -> h; h -> exit [label=Approve]; h -> f [label=\"[X] approve\"]",
        &twice,
    );
    raises(
        "start -> h; h -> exit [label=Ok]; h -> exit [label=ok]",
        &["shadowed_edge"],
    );
    clean("start -> h; h -> exit; h -> f");
    clean("start -> h; h -> exit [label=Approve]; h -> f [label=\"anything else\", freeform=true]");
    clean("start -> h; h -> exit [label=Fine]; h -> f [condition=\"outcome=fail\"]");
    clean(
        "start -> h; h -> a [label=Ok, condition=\"context.x=1\"]; h -> exit [label=Ok, condition=\"context.x!=1\"]; a -> exit",
    );
    clean("start -> h; h -> a [label=Ok, condition=\"context.x=1\"]; h -> exit [label=ok]; a -> exit");
    // Choices do not compete with each other, whatever their conditions.
    clean(
        "start -> h; h -> a [label=Ok, condition=\"context.x=1\"]; h -> exit [label=No, condition=\"context.x=1\"]; h -> f [label=Stop]; a -> exit",
    );
    // An edge for a failed gate is not an answer.
    let default = "h [shape=hexagon, label=H, human.default_choice=f]; start -> h; h -> exit [label=Yes];";
    raises(
        &format!("{default} h -> f [condition=\"outcome=fail\"]"),
        &["unknown_default_choice"],
    );
    clean(&format!("{default} h -> f [label=No]"));
    let any_text = default.replace("default_choice=f", "default_choice=Later");
    clean(&format!(
        "{any_text} h -> a [label=Say, freeform=true]; a -> exit"
    ));
    for choice in ["Y", "y", "yes", "[Y] Yes", "exit", "YES", "Exit", "x) yes"] {
        clean(&format!(
            "h [shape=hexagon, label=H, human.default_choice=\"{choice}\"]; start -> h; h -> exit [label=\"[Y] Yes\"]; h -> f [label=\"[N] No\"]"
        ));
    }
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

#[test]
fn a_condition_that_is_not_read_is_an_error() {
    let way = |edge: &str| format!("routing=first_match; start -> a; a -> exit [{edge}]; a -> b; b -> exit");
    for lost in [
        "condition_value=ready",
        "condition_type=success, condition_value=ready",
        "condition_type=always, condition_value=ready",
        "condition=\"context.x=1\", condition_type=success",
        "condition=\"context.x=1\", condition_value=ready",
        "condition=\"context.x=1\", condition_type=conditional, condition_value=ready",
    ] {
        let text = around(&way(lost));
        let loaded = load(Source::new("test.dot", &*text), &LoadOptions::default());
        let found: Vec<_> = loaded.report.errors().map(|diagnostic| diagnostic.code).collect();
        assert_eq!(found, ["ignored_condition"], "{lost}");
        assert!(loaded.pipeline().is_none(), "{lost}");
    }
    let text = around(&way("condition=\"context.x=1\", condition_type=always"));
    let loaded = load(Source::new("test.dot", &*text), &LoadOptions::default());
    let found: Vec<_> = loaded
        .report
        .diagnostics
        .iter()
        .map(|diagnostic| (diagnostic.code, diagnostic.severity))
        .collect();
    assert_eq!(found, [("ignored_condition", Severity::Warning)]);
    // A blank value has no effect, and an edge may override a default.
    clean(&way("condition_type=success, condition_value=\"\""));
    clean(&format!(
        "edge [condition_type=success]; {}",
        way("condition=\"context.x=1\"")
    ));
    // The fix turns it into a condition.
    let text = around(&way("condition_value=ready"));
    let loaded = load(Source::new("test.dot", &*text), &LoadOptions::default());
    let fix = loaded.report.diagnostics[0].fix.as_ref().expect("it has one");
    let mut fixed = text.clone();
    fixed.replace_range(fix.span.start as usize..fix.span.end as usize, &fix.replacement);
    assert_eq!(codes(&fixed), [""; 0], "{fixed}");
}

#[test]
fn attributes_of_the_other_way_of_routing_are_reported() {
    let other = ["routing_dialect"];
    let first = "routing=first_match; start -> a; a -> b [condition_type=failure];";
    clean(&format!("{first} a -> exit; b -> exit"));
    raises(&format!("{first} a -> exit [weight=2]; b -> exit"), &other);
    raises(&format!("edge [weight=2]; {first} a -> exit; b -> exit"), &other);
    clean(&format!("{first} a -> exit [weight=0]; b -> exit"));
    raises(
        &format!("{first} a -> exit; b -> a [condition=\"outcome=fail\", max_revisits=2]; b -> exit"),
        &other,
    );
    clean(&format!(
        "{first} a -> exit; b -> a [condition=\"outcome=fail\", allow_revisit=true, max_revisits=2]; b -> exit"
    ));
    let five = "start -> a; a -> exit;";
    for attribute in [
        "allow_revisit=true",
        "max_revisits=2",
        "allow_revisit=true, max_revisits=2",
    ] {
        raises(
            &format!("{five} a -> a [condition=\"outcome=fail\", {attribute}]"),
            &other,
        );
    }
    clean(&format!(
        "{five} a -> a [condition=\"outcome=fail\", allow_revisit=false]"
    ));
    // One graph attribute is missing, so there is one diagnostic.
    raises(
        "start -> a; a -> exit [condition_type=success]; a -> b [condition_type=failure]; b -> exit [condition_type=always]",
        &other,
    );
}

#[test]
fn a_diamond_that_does_not_see_a_tool_fail_is_reported() {
    let tool = "a [shape=parallelogram, tool_command=\"cargo test\"]; start -> a -> d;";
    let loaded = load(
        Source::new(
            "test.dot",
            around(&format!(
                "{tool} d -> exit [label=Yes]; d -> f [label=No]; f [label=F]; f -> a"
            )),
        ),
        &LoadOptions::default(),
    );
    let [diagnostic] = &loaded.report.diagnostics[..] else {
        panic!("{:?}", loaded.report.diagnostics);
    };
    assert_eq!(
        (diagnostic.code, diagnostic.severity),
        ("failure_routed_as_success", Severity::Warning)
    );
    assert_eq!(
        diagnostic.message,
        "`d` leads to `exit` whether `a` succeeds or fails"
    );
    assert!(
        diagnostic.notes[1].ends_with("can end as a success: `a` -> `d` -> `exit`"),
        "{:?}",
        diagnostic.notes
    );
    assert!(
        diagnostic
            .help
            .as_deref()
            .is_some_and(|help| help.contains("condition=\"outcome=fail\""))
    );
    let reported = ["failure_routed_as_success"];
    // The weight decides; the same through another diamond, and if the first edge of the file is taken.
    raises(
        &format!("{tool} d -> b [label=Yes, weight=2]; d -> exit; b -> exit"),
        &reported,
    );
    raises(
        &format!(
            "{tool} d -> e; e [shape=diamond, label=E]; e -> exit [label=Yes]; e -> b [label=No]; b -> a"
        ),
        &reported,
    );
    raises(
        &format!("routing=first_match; {tool} d -> exit [label=Yes]; d -> b [label=No]; b -> exit"),
        &["failure_routed_as_success", "shadowed_edge"],
    );
    // The failure is distinguished, is routed elsewhere, or a model chooses the label.
    clean(&format!(
        "{tool} d -> exit [label=Yes, condition=\"outcome=success\"]; d -> b [label=No, condition=\"outcome=fail\"]; b -> a"
    ));
    clean(&format!(
        "{tool} d -> exit [label=Yes, condition=\"outcome=success\"]; d -> b [label=No]; b -> a"
    ));
    clean(&format!(
        "{tool} a -> f [condition=\"outcome=fail\"]; d -> b [label=Yes]; d -> c [label=No]; b -> exit; c -> exit"
    ));
    raises(
        "start -> a -> d; d -> exit [label=Yes]; d -> b [label=No]; b -> exit",
        &["success_only_into_exit"],
    );
}

#[test]
fn keys_of_other_tools_are_named() {
    let help = |condition: &str| {
        let text = around(&format!(
            "start -> a; a -> exit [condition=\"{condition}\"]; a -> b; b -> exit"
        ));
        let loaded = load(Source::new("test.dot", text), &LoadOptions::default());
        let [diagnostic] = &loaded.report.diagnostics[..] else {
            panic!("{condition}: {:?}", loaded.report.diagnostics);
        };
        let fix = diagnostic.fix.as_ref().map(|fix| fix.replacement.clone());
        (
            diagnostic.code,
            diagnostic.help.clone().unwrap_or_default(),
            fix.unwrap_or_default(),
        )
    };
    let (code, said, fix) = help("tool_stdout contains ready");
    assert_eq!((code, fix.as_str()), ("condition_syntax", "tool.output"));
    assert!(
        said.contains("`tool.output`") && said.contains("`tool.last_line`"),
        "{said}"
    );
    assert_eq!(help("tool_stdout=ready").2, "tool.last_line");
    assert_eq!(help("exit_code!=0").2, "tool.exit_code");
    assert_eq!(help("status=success").2, "outcome");
    assert!(help("not outcome=fail").1.contains("write `!`"));
    assert!(help("context.x not contains y").1.contains("write `!`"));
    assert!(help("context.x startswith y").1.contains("matches \"^TEXT\""));
    assert!(help("context.x in a,b").1.contains("`||`"));
    for (condition, meant) in [
        ("context.tool_stdout=ready", "tool.last_line"),
        ("context.tool_stdout contains ready", "tool.output"),
        ("context.tool_exit_code!=0", "tool.exit_code"),
        ("ctx.outcome=success", "outcome"),
        ("ctx.approved", "context.approved"),
    ] {
        let (code, said, fix) = help(condition);
        assert_eq!(
            (code, fix.as_str()),
            ("foreign_context_key", meant),
            "{condition}"
        );
        assert_eq!(said, format!("did you mean `{meant}`?"));
    }
    // A stage declares that it sets the key.
    clean(
        "start -> a; a [label=A, output_keys=tool_stdout]; a -> exit [condition=\"context.tool_stdout=x\"]; a -> b; b -> exit",
    );
    clean("start -> a; a -> exit [condition=\"context.status=x\"]; a -> b; b -> exit");
}
