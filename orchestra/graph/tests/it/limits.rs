//! Limits of runs, and assertions about them (rule V4).

use std::time::Instant;

use orchestra_graph::{Diagnostic, RunLimits, Source, load};

fn text(graph: &str, body: &str) -> String {
    format!("digraph a {{ {graph}\nstart [shape=Mdiamond]; exit [shape=Msquare]\n{body} }}")
}

fn limits_of(graph: &str, body: &str) -> RunLimits {
    let text = text(graph, body);
    let loaded = load(Source::new("a.dot", text.as_str()), &Default::default());
    loaded
        .limits()
        .unwrap_or_else(|| panic!("{text}\n{:#?}", loaded.report))
}

/// Compares the limits of some nodes: visits, attempts.
#[track_caller]
fn expect(graph: &str, body: &str, expected: &[(&str, u64, u64)]) {
    let limits = limits_of(graph, body);
    let found: Vec<(&str, u64, u64)> = expected
        .iter()
        .map(|(node, ..)| {
            let limit = limits.node(node).unwrap();
            (*node, limit.visits, limit.attempts)
        })
        .collect();
    assert_eq!(found, expected, "{body}\n{limits:#?}");
}

/// Compares all visits and all attempts.
#[track_caller]
fn expect_sums(graph: &str, body: &str, visits: u64, attempts: u64) {
    let limits = limits_of(graph, body);
    assert_eq!(
        (limits.visits, limits.attempts),
        (visits, attempts),
        "{limits:#?}"
    );
}

/// Returns the reason for the limit of a node.
fn reason(graph: &str, body: &str, node: &str) -> String {
    limits_of(graph, body).node(node).unwrap().reason.clone()
}

/// Returns the failed assertions.
fn failed(assert: &str, body: &str) -> Vec<Diagnostic> {
    let text = text(&format!("graph [assert=\"{assert}\"]"), body);
    let report = load(Source::new("a.dot", text.as_str()), &Default::default()).report;
    let errors = report.errors().cloned().collect();
    for error in report.errors() {
        assert_eq!(error.code, "assertion_failed", "{text}\n{}", error.message);
    }
    errors
}

const LOOP: &str = "build [max_visits=3]; test; start -> build -> test
    test -> build [condition=\"outcome=fail\"]; test -> exit; build -> exit [condition=\"outcome=skipped\"]";

#[test]
fn without_loops_a_node_is_visited_once() {
    let body =
        "a; b; c; d; start -> a; a -> b; a -> c [condition=\"outcome=fail\"]; b -> d; c -> d; d -> exit";
    expect(
        "",
        body,
        &[("start", 1, 1), ("a", 1, 1), ("d", 1, 1), ("exit", 1, 1)],
    );
    // A run takes one of the two ways.
    expect_sums("", body, 5, 5);
    assert_eq!(reason("", body, "d"), "no run visits it again");
    expect(
        "",
        "a; start -> a -> exit; a [retry_target=a2]; a2 -> exit",
        &[("a2", 1, 1)],
    );
}

#[test]
fn a_node_of_a_loop_limits_the_others() {
    expect("", LOOP, &[("build", 3, 3), ("test", 3, 3), ("exit", 1, 1)]);
    expect_sums("", LOOP, 8, 8);
    assert_eq!(reason("", LOOP, "test"), "`max_visits=3` of `build`");
    // The node before the one with the limit has one visit more, after which the run fails.
    let other = LOOP.replace("build [max_visits=3]; test", "build; test [max_visits=3]");
    expect("", &other, &[("build", 4, 4), ("test", 3, 3)]);
    let default = LOOP.replace(" [max_visits=3]", "");
    expect("", &default, &[("build", 1_000, 1_000), ("test", 1_000, 1_000)]);
    assert!(limits_of("", &default).node("test").unwrap().by_default);
    assert_eq!(
        reason("", &default, "test"),
        "`max_node_visits=1000` (the default) at `build`"
    );
    expect("max_node_visits=7", &default, &[("build", 7, 7), ("test", 7, 7)]);
    assert!(
        !limits_of("max_node_visits=7", &default)
            .node("test")
            .unwrap()
            .by_default
    );
    // A choice in a loop is made once in each turn.
    let choice = "a [max_visits=5]; b; c; d; e; start -> a; a -> b; a -> c [condition=\"outcome=fail\"]
        b -> d; c -> d; d -> e; d -> f [condition=\"outcome=fail\"]; e -> a; f -> a; a -> exit [condition=\"outcome=skipped\"]";
    expect(
        "",
        choice,
        &[("b", 5, 5), ("c", 5, 5), ("d", 5, 5), ("e", 5, 5), ("f", 5, 5)],
    );
    expect_sums("", choice, 2 + 5 * 4, 2 + 5 * 4);
}

#[test]
fn loops_in_loops_multiply() {
    let body = "outer [max_visits=3]; inner; check; start -> outer -> inner -> check
        check -> inner [condition=\"visits.check < 2\"]; check -> outer [condition=\"outcome=fail\"]; check -> exit";
    // The condition is on all visits in the run, so the inner loop takes its edge once in all.
    expect("", body, &[("outer", 3, 3), ("inner", 4, 4), ("check", 4, 4)]);
    let body = "outer [max_visits=3]; a; b [max_visits=10]; start -> outer -> a -> b
        b -> a [condition=\"outcome=fail\"]; b -> outer; outer -> exit [condition=\"outcome=skipped\"]";
    expect("", body, &[("outer", 3, 3), ("a", 11, 11), ("b", 10, 10)]);
}

#[test]
fn attempts_are_counted_with_their_policies() {
    for (attributes, attempts) in [
        ("max_retries=2", 3),
        ("retry_policy=standard", 5),
        ("retry_policy=patient", 3),
        ("retry_policy=standard, max_retries=0", 1),
    ] {
        let body = format!("a [{attributes}]; start -> a -> exit");
        expect("", &body, &[("a", 1, attempts), ("start", 1, 1)]);
    }
    expect(
        "default_max_retries=3",
        "a; d [shape=diamond]; start -> a -> d -> exit",
        &[("a", 1, 4), ("d", 1, 1)],
    );
    let body = LOOP.replace("[max_visits=3]", "[max_visits=3, max_retries=1]");
    expect("", &body, &[("build", 3, 6)]);
    assert_eq!(
        reason("", &body, "build"),
        "`max_visits=3` of `build`; up to 2 attempts each"
    );
}

#[test]
fn an_edge_with_a_condition_on_visits_is_taken_so_often() {
    let body = |condition: &str| {
        format!(
            "work; check; start -> work -> check; check -> work [condition=\"outcome=fail && {condition}\"]; check -> exit"
        )
    };
    for (condition, visits) in [
        ("visits.check < 3", 3),
        ("visits.check <= 3", 4),
        ("visits.check < 2.5", 3),
        ("visits.check = 2", 2),
        ("visits.work < 3", 4),
        ("(visits.check < 3 || visits.work = 7)", 4),
        ("visits.check > 3", 1_000),
        ("visits.start < 3", 1_000),
        ("(visits.check < 3 || context.more)", 1_000),
    ] {
        // The source has been visited before, so `visits.work` counts from one: three visits allow two ways back.
        let visits = if condition == "visits.work < 3" {
            3 + 1
        } else {
            visits
        };
        expect("", &body(condition), &[("work", visits, visits)]);
    }
    assert_eq!(
        reason("", &body("visits.check < 3"), "work"),
        "the limited edge `check` -> `work`"
    );
}

#[test]
fn goal_gates_and_restarts_repeat_a_run() {
    let gate = "work; test [goal_gate=true, retry_target=work]; tail; start -> work -> test -> tail -> exit
        test -> tail [condition=\"outcome=fail\"]";
    expect(
        "",
        gate,
        &[
            ("start", 1, 1),
            ("work", 51, 51),
            ("tail", 51, 51),
            ("exit", 1, 1),
        ],
    );
    assert_eq!(
        reason("", gate, "test"),
        "`max_goal_gate_reroutes=50` (the default)"
    );
    expect(
        "max_goal_gate_reroutes=2",
        gate,
        &[("work", 3, 3), ("test", 3, 3), ("exit", 1, 1)],
    );
    expect_sums("max_goal_gate_reroutes=2", gate, 11, 11);
    expect("max_goal_gate_reroutes=0", gate, &[("work", 1, 1)]);
    // Runs may also end as a success elsewhere.
    let ends = "work [goal_gate=true]; test [end=success]; start -> work; work -> test [condition=\"outcome=fail\"]; work -> exit";
    expect(
        "max_goal_gate_reroutes=2; retry_target=work",
        ends,
        &[("work", 3, 3), ("test", 3, 3), ("exit", 1, 1)],
    );
    let restart = "plan; work [max_visits=2]; start -> plan -> work -> exit
        work -> plan [condition=\"outcome=fail\", loop_restart=true]; work -> work [condition=\"outcome=skipped\"]";
    expect(
        "",
        restart,
        &[
            ("start", 1, 1),
            ("plan", 21, 21),
            ("work", 42, 42),
            ("exit", 1, 1),
        ],
    );
    expect("max_restarts=2", restart, &[("plan", 3, 3), ("work", 6, 6)]);
    assert_eq!(
        reason("max_restarts=2", restart, "work"),
        "`max_visits=2` of `work`; again after each restart (`max_restarts=2`)"
    );
    // While a branch restarts the run, another one may have passed an inner block.
    let block = "fan [shape=component]; a; in [shape=component]; x; y; jin [shape=tripleoctagon]; z; join [shape=tripleoctagon]; tail
        start -> fan; fan -> a -> join; fan -> in; in -> x -> jin; in -> y -> jin; jin -> z -> join; join -> tail -> exit
        a -> fan [condition=\"outcome=fail\", loop_restart=true]";
    expect(
        "max_restarts=2",
        block,
        &[
            ("a", 3, 3),
            ("x", 3, 3),
            ("z", 3, 3),
            ("join", 1, 1),
            ("tail", 1, 1),
        ],
    );
    // Nothing leads back to the restart, so it happens once.
    let once = "plan; work; start -> plan -> exit; plan -> work [condition=\"outcome=fail\", loop_restart=true]; work -> exit";
    expect("", once, &[("plan", 1, 1), ("work", 1, 1)]);
}

#[test]
fn revisits_are_limited_in_first_match_routing() {
    let body = |revisit: &str| {
        format!("a; b; start -> a; a -> b; b -> a [condition_type=failure{revisit}]; b -> exit")
    };
    expect("routing=first_match", &body(""), &[("a", 1, 1), ("b", 1, 1)]);
    let limited = body(", allow_revisit=true, max_revisits=2");
    let limited = limited.replace("a -> b;", "a -> b [allow_revisit=true];");
    expect("routing=first_match", &limited, &[("a", 3, 3), ("b", 3, 3)]);
    let free = limited.replace(", max_revisits=2", "");
    expect("routing=first_match", &free, &[("a", 1_000, 1_000)]);
}

const BLOCK: &str = "fan [shape=component FAN]; a A; b; join [shape=tripleoctagon]
    start -> fan; fan -> a; fan -> b; a -> join; b -> join; join -> exit; join -> fan [condition=\"outcome=fail\"]";

#[test]
fn the_branches_of_a_block_have_counts_of_their_own() {
    let block = |fan: &str, a: &str| BLOCK.replace("FAN", fan).replace("a A;", &format!("a {a};"));
    expect(
        "",
        &block(", max_visits=2", ""),
        &[("fan", 2, 2), ("a", 2, 2), ("join", 2, 2)],
    );
    // A block that cannot fail is not attempted again.
    expect(
        "",
        &block(", max_visits=2, max_retries=3", ""),
        &[("fan", 2, 2), ("a", 2, 2)],
    );
    let fast = ", max_visits=2, max_retries=3, error_policy=fail_fast";
    expect("", &block(fast, ""), &[("fan", 2, 8), ("a", 8, 8)]);
    expect("", &block(fast, "[max_visits=3]"), &[("a", 3, 3)]);
    // Each branch may visit a shared node as often as its limit says.
    let shared = "fan [shape=component]; a; b; both [max_visits=2]; join [shape=tripleoctagon]
        start -> fan; fan -> a; fan -> b; a -> both; b -> both; both -> both [condition=\"outcome=fail\"]; both -> join -> exit";
    expect("", shared, &[("a", 1, 1), ("both", 4, 4)]);
    assert_eq!(
        reason("", shared, "both"),
        "`max_visits=2` of `both`; in up to 2 branches at the same time"
    );
    let nested = "fan [shape=component]; a; in [shape=component]; x; y; jin [shape=tripleoctagon]; join [shape=tripleoctagon]
        start -> fan; fan -> a -> join; fan -> in; in -> x -> jin; in -> y -> jin; jin -> join -> exit; fan -> in";
    expect(
        "",
        nested,
        &[
            ("in", 2, 2),
            ("x", 2, 2),
            ("jin", 2, 2),
            ("a", 1, 1),
            ("join", 1, 1),
        ],
    );
    expect_sums("", nested, 4 + 1 + 2 * 4, 4 + 1 + 2 * 4);
}

#[test]
fn an_assertion_on_a_limit_holds_or_says_what_limits_the_node() {
    let body = LOOP.replace("[max_visits=3]", "[max_visits=3, max_retries=1]");
    assert_eq!(
        failed(
            "at_most(build, 6); at_most(test, 3); total(visits) <= 8; total(attempts) <= 11",
            &body
        ),
        []
    );
    let errors = failed("at_most(build, 5)", &body);
    assert_eq!(errors[0].message, "a run may attempt `build` 6 times");
    assert_eq!(
        errors[0].notes,
        ["`build` has up to 3 visits (`max_visits=3` of `build`; up to 2 attempts each)"]
    );
    assert_eq!(
        errors[0].help.as_deref(),
        Some(
            "set `max_visits=2` on `build`, or `max_retries=0`, because one visit has up to 2 attempts; or raise the number in the assertion"
        )
    );
    let errors = failed("at_most(build, 1)", &body);
    let help = errors[0].help.as_deref().unwrap();
    assert!(help.starts_with("lower the retries of `build`"), "{help}");
    let errors = failed("total(attempts) <= 10", &body);
    assert_eq!(errors[0].message, "a run may have 11 attempts");
    assert!(errors[0].notes[0].starts_with("the nodes with the most are: `build` has up to 3 visits ("));
    // What the help says is enough.
    let restarts = "graph [max_restarts=3]; a; start -> a; a -> exit; a -> a [condition=\"outcome=fail\"]
        a -> a [condition=\"outcome=skipped\", loop_restart=true]; a [max_visits=9]";
    let errors = failed("at_most(a, 10)", restarts);
    let help = errors[0].help.as_deref().unwrap();
    assert!(help.starts_with("set `max_visits=2` on `a`"), "{help}");
    assert_eq!(
        failed(
            "at_most(a, 10)",
            &restarts.replace("max_visits=9", "max_visits=2")
        ),
        []
    );
}

/// The time is linear, and a hostile graph has no limits rather than none that end.
#[test]
fn large_and_hostile_graphs_are_bounded_quickly() {
    let ring: String = (0..3_000)
        .map(|at| {
            format!(
                "n{at} -> n{}; n{at} -> n{} [condition=\"outcome=fail\"]\n",
                (at + 1) % 3_000,
                (at * 7 + 1) % 3_000
            )
        })
        .collect();
    let body = format!("start -> n0; n2999 -> exit\n{ring}");
    let began = Instant::now();
    let limits = limits_of("", &body);
    assert_eq!(limits.node("n17").unwrap().visits, 1_000);
    // Fan-outs that share their branches, 24 deep.
    let mut body = String::from("start -> f0; join [shape=tripleoctagon]; join -> exit\n");
    for at in 0..24 {
        body.push_str(&format!(
            "f{at} [shape=component]; f{at} -> a{at}; f{at} -> b{at}; a{at} -> j{at}; b{at} -> j{at}
            j{at} [shape=tripleoctagon]; j{at} -> {}\n",
            if at == 23 {
                "join".to_owned()
            } else {
                format!("f{}", at + 1)
            }
        ));
    }
    assert_eq!(limits_of("", &body).node("a23").unwrap().visits, 1);
    println!("{:?}", began.elapsed());
}
