//! Assertions about all runs of a pipeline (rules V1 to V3).

use orchestra_graph::{Source, load};

/// Returns the first note of each failed assertion of a pipeline without other errors.
fn failed(assert: &str, body: &str) -> Vec<String> {
    let text = format!(
        "digraph a {{ graph [assert=\"{assert}\"]\nstart [shape=Mdiamond]; exit [shape=Msquare]\n{body} }}"
    );
    let report = load(Source::new("a.dot", text.as_str()), &Default::default()).report;
    let mut notes = Vec::new();
    for diagnostic in &report.diagnostics {
        if diagnostic.code == "assertion_failed" {
            notes.push(diagnostic.notes[0].clone());
        } else {
            assert!(
                !diagnostic.is_error(),
                "{text}\n{}: {}",
                diagnostic.code,
                diagnostic.message
            );
        }
    }
    notes
}

fn holds(assert: &str, body: &str) {
    assert_eq!(failed(assert, body), [""; 0], "{assert}\n{body}");
}

fn breaks(assert: &str, body: &str, path: &str) {
    let notes = failed(assert, body);
    assert!(
        notes.len() == 1 && notes[0].contains(path),
        "{assert}\n{body}\n{notes:#?}"
    );
}

const RELEASE: &str = "build [shape=parallelogram, tool_command=make]; approve [shape=hexagon]
    ship [shape=parallelogram, tool_command=ship]
    start -> build; build -> approve [condition=\"outcome=success\"]; build -> exit [condition=\"outcome!=success\"]
    approve -> ship [label=Ship]; approve -> build [label=Again]; approve -> exit [label=Stop]; ship -> exit";

#[test]
fn an_approval_must_follow_the_last_build() {
    holds("requires(ship, approve=Ship, since=build)", RELEASE);
    holds(
        "requires(ship, approve=S); requires(ship, approve=ship); requires(ship, build)",
        RELEASE,
    );
    breaks(
        "requires(ship, approve=Again)",
        RELEASE,
        "`start` -> `build` -> `approve` (Ship) -> `ship`",
    );
    breaks(
        "requires(exit, approve=Ship)",
        RELEASE,
        "`build` (partial_success) -> `exit`",
    );
    holds("requires(approve, build)", RELEASE);
    let stale = "build; approve [shape=hexagon]; polish; ship
        start -> build -> approve; approve -> polish [label=Ship]; approve -> exit [label=Stop]
        polish -> ship [condition=\"outcome=success\"]; polish -> build2 [condition=\"outcome!=success\"]
        build2 -> ship -> exit";
    holds("requires(ship, approve=Ship, since=build)", stale);
    breaks(
        "requires(ship, approve=Ship, since=build2)",
        stale,
        "`approve` (Ship) -> `polish` (partial_success) -> `build2` -> `ship`",
    );
}

#[test]
fn a_later_answer_or_failure_revokes_an_earlier_success() {
    let body = "ask [shape=hexagon]; work; ship
        start -> ask; ask -> work [label=Yes]; ask -> ship [label=No]
        work -> ask [condition=\"outcome=success\"]; work -> ship [condition=\"outcome!=success\"]; ship -> exit";
    breaks("requires(ship, ask=Yes)", body, "`start` -> `ask` (No) -> `ship`");
    let tests = "test [shape=parallelogram, tool_command=t]; repair; ship
        start -> test; test -> repair [condition=\"outcome=success\"]; test -> ship [condition=\"outcome=fail\"]
        test -> exit; repair -> test; ship -> exit";
    breaks("requires(ship, test)", tests, "`test` (fail) -> `ship`");
    holds("requires(repair, test=success)", tests);
    breaks(
        "requires(repair, test=partial_success)",
        tests,
        "`test` -> `repair`",
    );
}

#[test]
fn routing_nodes_pass_on_the_outcome_of_the_stage_before() {
    let body = "test; decide [shape=diamond]; ship
        start -> test -> decide; decide -> ship [condition=\"outcome=success\"]; decide -> exit; ship -> exit";
    holds("requires(ship, test); requires(ship, test=success)", body);
    breaks(
        "requires(exit, ship)",
        body,
        "`test` (partial_success) -> `decide` -> `exit`",
    );
    holds("handled(test)", body);
    let strict = "test; decide [shape=diamond]
        start -> test -> decide; decide -> exit [condition=\"outcome=success\"]";
    breaks("handled(test)", strict, "after `test` (fail) -> `decide`");
}

#[test]
fn a_failure_is_handled_by_an_edge_or_a_jump() {
    holds(
        "handled(a)",
        "start -> a -> exit; a -> b [condition=\"outcome=fail\"]; b -> a",
    );
    holds("handled(a)", "start -> a -> exit; a [retry_target=b]; b -> a");
    holds("handled(a)", "a [on_failure=route]; start -> a -> exit");
    breaks("handled(a)", "start -> a -> exit", "after `a` (fail)");
    breaks(
        "handled(a)",
        "start -> a -> exit; a -> b [condition=\"outcome=fail && context.again\"]; b -> a",
        "after `a` (fail)",
    );
}

#[test]
fn jumps_and_restarts_are_paths_too() {
    let retry = "check; build [retry_target=ship]; ship; start -> check -> build -> exit; ship -> exit";
    holds("requires(ship, check)", retry);
    breaks("requires(ship, build)", retry, "`build` (fail) -> `ship`");
    let gate = "review; test [goal_gate=true, retry_target=mend]; mend
        start -> review -> test; test -> exit; test -> exit [condition=\"outcome=fail\"]; mend -> exit";
    breaks("requires(mend, test)", gate, "`test` (fail) -> `exit` -> `mend`");
    holds("requires(mend, review)", gate);
    let restart = "plan; work; start -> plan -> work; work -> exit [condition=\"outcome=success\"]
        work -> work [condition=\"outcome!=success\", loop_restart=true]";
    breaks("requires(work, plan)", restart, ", restart) -> `work`");
}

#[test]
fn a_run_may_end_as_a_success_elsewhere() {
    let body = "work; review; done [end=success]
        start -> work; work -> review [condition=\"outcome=success\"]; work -> done; review -> exit";
    breaks(
        "requires(exit, review)",
        body,
        "`work` (partial_success) -> `done`",
    );
}

const BLOCK: &str = "fan [shape=component OPTIONS]; a; b; join [shape=tripleoctagon]; ship
    start -> fan; fan -> a; fan -> b; a -> join; b -> join; join -> ship -> exit";

#[test]
fn a_block_that_waits_for_all_branches_keeps_what_they_proved() {
    let block = |options: &str| BLOCK.replace("OPTIONS", options);
    holds("requires(ship, fan); requires(ship, start)", &block(""));
    breaks(
        "requires(ship, fan=success)",
        &block(""),
        "`fan` (partial_success) -> `join`",
    );
    // A partial success of the block means that a branch failed.
    breaks(
        "requires(ship, a)",
        &block(""),
        "`fan` (partial_success) -> `join` -> `ship`",
    );
    for options in [
        ", join_policy=first_success",
        ", join_policy=k_of_n, join_k=1",
        ", error_policy=ignore",
    ] {
        breaks("requires(ship, a)", &block(options), "-> `join` -> `ship`");
    }
    for options in [
        ", error_policy=fail_fast",
        ", join_policy=k_of_n, join_k=2",
        ", join_policy=quorum, join_quorum=1.0",
    ] {
        holds("requires(ship, a); requires(ship, b)", &block(options));
    }
    // A branch that another one can disturb proves nothing.
    breaks("requires(b, start, since=a)", &block(""), "`fan` -> `b`");
    // A branch that ends after a failed stage has failed.
    let early = block(", error_policy=fail_fast").replace(
        "a -> join",
        "a -> a2 [condition=\"outcome=success\"]; a2 -> join; a -> join [condition=\"outcome!=success\"]",
    );
    holds("requires(ship, a); requires(join, b)", &early);
    breaks("requires(ship, a=success)", &early, "-> `join` -> `ship`");
    holds("requires(join, start)", &block(""));
    // Within a branch, the stages of other branches have not run.
    breaks("requires(b, a)", &block(""), "`start` -> `fan` -> `b`");
    // What held before a block still holds after it, unless a branch makes it stale.
    let before = BLOCK
        .replace("start -> fan", "start -> check -> fan")
        .replace("OPTIONS", "");
    holds("requires(ship, check); requires(a, check)", &before);
    breaks("requires(ship, check, since=b)", &before, "-> `join` -> `ship`");
}

#[test]
fn an_assertion_about_a_misspelt_name_is_refused() {
    for (assert, message) in [
        ("requires(shipp, build)", "the pipeline has no node `shipp`"),
        (
            "requires(ship, approve=Shp)",
            "the gate `approve` has no choice `Shp`",
        ),
        (
            "requires(ship, build=done)",
            "the stage `build` has no outcome `done`",
        ),
        (
            "requires(ship, build, since=bild)",
            "the pipeline has no node `bild`",
        ),
        ("handled(nothing)", "the pipeline has no node `nothing`"),
        (
            "requires(ship, approve=Comment)",
            "the choice `Comment` of the gate `approve` is any text",
        ),
        ("handled", "`handled` is not an assertion"),
        ("", "`assert` contains no assertion"),
    ] {
        let text = format!(
            "digraph a {{ graph [assert=\"{assert}\"]\nstart [shape=Mdiamond]; exit [shape=Msquare]\n{RELEASE}
            approve -> build [label=Comment, freeform=true] }}"
        );
        let report = load(Source::new("a.dot", text.as_str()), &Default::default()).report;
        let errors: Vec<&str> = report
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.is_error())
            .map(|diagnostic| diagnostic.message.as_str())
            .collect();
        assert!(
            errors.len() == 1 && errors[0].starts_with(message),
            "{assert}: {errors:?}"
        );
    }
}

/// Where no stage is right before a routing node, any outcome may be.
#[test]
fn a_routing_node_after_a_restart_or_the_exit_sees_any_outcome() {
    let body = "work; decide [shape=diamond, end=success]; start -> work -> exit
        work -> decide [condition=\"outcome=fail\", loop_restart=true]";
    breaks("requires(exit, work)", body, "`work` (fail, restart) -> `decide`");
    let gate = "work [goal_gate=true, retry_target=decide]; decide [shape=diamond]; ship; other
        start -> work -> exit; work -> exit [condition=\"outcome=fail\"]
        decide -> ship [condition=\"outcome=fail\"]; decide -> other; ship -> exit; other -> exit";
    breaks(
        "requires(ship, other)",
        gate,
        "`exit` -> `decide` (fail) -> `ship`",
    );
}

/// A handler may report an outcome that the file does not name, and that a condition still fits.
#[test]
fn an_outcome_that_nobody_names_may_fit_a_condition() {
    for condition in ["outcome contains ok", "outcome matches ^looks", "outcome < 7"] {
        let body = format!(
            "work; check; ship; start -> work; work -> ship [condition=\"{condition}\"]
            work -> check; work -> check [condition=\"outcome=fail\"]; check -> ship -> exit"
        );
        breaks(
            "requires(ship, check)",
            &body,
            "`work` (another outcome) -> `ship`",
        );
    }
}

/// The conditions of a fan-out decide which branches run, however many there are.
#[test]
fn a_block_with_many_conditions_is_still_a_block() {
    let keys: Vec<String> = (0..70).map(|at| format!("context.k{at}=1")).collect();
    let body = BLOCK.replace("OPTIONS", ", error_policy=fail_fast").replace(
        "fan -> b;",
        &format!("fan -> b [condition=\"{}\"];", keys.join(" || ")),
    );
    holds("requires(ship, a)", &body);
    breaks("requires(ship, b)", &body, "`fan` -> `join` -> `ship`");
    // A branch may be an edge to the join.
    let direct = "check; fan [shape=component]; a; join [shape=tripleoctagon]; ship
        start -> check -> fan; fan -> a -> join; fan -> join; join -> ship -> exit";
    holds("requires(ship, check); requires(join, check)", direct);
}

/// A pipeline whose steps are too many to be examined is refused, and quickly.
#[test]
fn what_cannot_be_examined_is_refused() {
    let many = |count: usize, edge: &dyn Fn(usize) -> String| -> String { (0..count).map(edge).collect() };
    let plain = many(3_000, &|at| format!("work -> n{at} -> exit\n"));
    breaks(
        "requires(exit, work)",
        &format!("work\nstart -> work\n{plain}"),
        "too many conditions or edges meet at some nodes",
    );
    let answers = many(1_000, &|at| {
        format!("ask -> n{at} [label=\"answer {at}\"]; n{at} -> exit\n")
    });
    holds(
        "requires(exit, ask)",
        &format!("ask [shape=hexagon]\nstart -> ask\n{answers}"),
    );
    let keys = many(12, &|at| {
        format!("work -> exit [condition=\"context.k{at}=1 || context.l{at}=2\"]\n")
    });
    holds(
        "requires(exit, start)",
        &format!("work\nstart -> work -> exit\n{keys}"),
    );
}

#[test]
fn no_assertion_is_ignored() {
    for (text, message) in [
        (
            "graph [assert=\"handled(a)\"]; graph [assert=\"handled(b)\"]",
            "a second `assert`: a pipeline has one",
        ),
        (
            "subgraph cluster_x { graph [assert=\"handled(a)\"] }",
            "an assertion in a subgraph: it is about the whole pipeline",
        ),
        (
            "subgraph cluster_x { assert=\"handled(a)\" }",
            "an assertion in a subgraph: it is about the whole pipeline",
        ),
    ] {
        let text = format!("digraph x {{ {text}\nstart -> a -> exit; a [retry_target=b]; b -> exit }}");
        let report = load(Source::new("a.dot", text.as_str()), &Default::default()).report;
        let errors: Vec<&str> = report.errors().map(|error| error.message.as_str()).collect();
        assert!(errors.contains(&message), "{text}\n{errors:?}");
    }
}
