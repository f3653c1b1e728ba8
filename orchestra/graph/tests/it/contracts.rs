//! Tests of the presence of declared values (rules T1, T3, T4): each row of the table in the reference.

use orchestra_graph::{LoadOptions, Loaded, MissingValues, Source, load, render};

fn loaded(body: &str) -> Loaded {
    let text = format!("digraph {{\n{body}\n}}\n");
    load(Source::new("a.dot", text), &LoadOptions::default())
}

/// Returns the declared keys that may be missing at a node, separated by spaces; at `end`, those after a success.
fn missing(body: &str, node: &str) -> String {
    let loaded = loaded(body);
    let errors: Vec<_> = loaded
        .report
        .errors()
        .filter(|error| error.code != "maybe_unset")
        .collect();
    assert!(errors.is_empty(), "{}", render::concise(&loaded.report));
    let analysis = loaded.analysis();
    let missing = MissingValues::new(&analysis).expect("values are declared");
    let keys = missing.contract().keys().map(|(key, _)| key);
    let may = |key: &&str| match node {
        "end" => missing.may_be_missing_at_end(key),
        node => missing.may_be_missing(loaded.graph.find(node).expect("the node exists"), key),
    };
    keys.filter(may).collect::<Vec<_>>().join(" ")
}

#[test]
fn inputs_are_set_from_the_start_unless_they_are_optional() {
    let body = "inputs=\"a: int, b: text?\"; start -> work -> exit; work [type=t, outputs=\"b: text\"]";
    assert_eq!(missing(body, "work"), "b");
    assert_eq!(missing(body, "exit"), "");
    assert_eq!(missing(body, "end"), "");
}

#[test]
fn each_outcome_sets_what_the_stage_declares_for_it() {
    let body = "start -> work
        work [type=t, outcomes=\"odd\", outputs=\"a: int, b: int?\", outputs.odd=\"c: int\", outputs.fail=\"d: int\"]
        work -> good [condition=\"outcome=success\"]; work -> odd [condition=\"outcome=odd\"]
        work -> bad [condition=\"outcome=fail\"]; work -> other [condition=\"outcome=skipped\"]; work -> exit
        good [type=t]; odd [type=t]; bad [type=t]; other [type=t]
        good -> exit; odd -> exit; bad -> exit; other -> exit";
    assert_eq!(missing(body, "good"), "b c d");
    assert_eq!(missing(body, "odd"), "b d");
    assert_eq!(missing(body, "bad"), "a b c d", "a time-out sets nothing");
    assert_eq!(
        missing(body, "other"),
        "b c d",
        "a skipped stage sets its outputs too"
    );
}

#[test]
fn a_condition_on_the_outcome_rules_out_all_others() {
    let loaded = loaded(
        "start -> work; work [type=t, outputs.success=\"a: int\"]; next [type=t]; next -> exit; work -> exit
         work -> next [condition=\"outcome=success && context.a != 3\"]",
    );
    assert!(!loaded.report.has_errors(), "{}", render::concise(&loaded.report));
}

#[test]
fn an_optional_output_may_be_missing_again() {
    let body = "start -> one -> two -> three -> exit; three [type=t]
        one [type=t, outputs=\"a: int\"]; two [type=t, outputs=\"a: int?\"]";
    assert_eq!(
        (missing(body, "two"), missing(body, "three")),
        (String::new(), "a".to_owned())
    );
}

#[test]
fn exhausted_retries_prove_nothing() {
    let body = |more: &str| {
        format!(
            "start -> work; work [type=t, outputs=\"a: int\"{more}]
             work -> next [condition=\"outcome=partial_success\"]; work -> exit; next [type=t]; next -> exit"
        )
    };
    assert_eq!(missing(&body(""), "next"), "");
    assert_eq!(missing(&body(", allow_partial=true, max_retries=1"), "next"), "a");
}

#[test]
fn a_partial_success_may_take_the_edge_of_a_success() {
    let body = "start -> work; work [type=t, outputs=\"a: int\", outputs.success=\"b: int\"]
        work -> next [condition=\"outcome=success && context.a > 3\"]; work -> exit [condition=\"outcome=fail\"]
        next [type=t]; next -> exit";
    assert_eq!(missing(body, "next"), "b");
}

#[test]
fn a_condition_proves_a_value_and_rules_out_what_is_certainly_missing() {
    let body = "start -> work; work [type=t, outputs=\"a: int?, b: int\"]
        work -> next [condition=\"context.a > 3\"]; work -> exit; next [type=t, outputs=\"c: int\"]; next -> exit";
    // After a failure of `work`, `a` is missing, so the edge is not taken and `b` is set.
    assert_eq!(missing(body, "next"), "c");
    assert_eq!(missing(body, "exit"), "a c");
    // In a loop, `a` may be left from an earlier visit, together with `b`.
    let again = body.replace("next -> exit", "next -> work");
    assert_eq!(missing(&again, "next"), "c");
}

#[test]
fn a_retry_target_proves_nothing() {
    let body = "start -> work; work [type=t, outputs=\"a: int?\", retry_target=next]
        work -> next [condition=\"context.a > 3\"]; work -> exit; next [type=t]; next -> exit";
    assert_eq!(missing(body, "next"), "a");
}

#[test]
fn nothing_that_a_branch_sets_reaches_the_join() {
    let body = "inputs=\"i: int?\"; start -> first -> fan; first [type=t, outputs=\"a: int\"]
        fan [shape=component]; join [shape=tripleoctagon]
        fan -> left [condition=\"context.i > 3\"]; fan -> right
        left [type=t, outputs=\"b: int\"]; more [type=t]; right [type=t, outputs=\"b: int\"]
        left -> more -> join; right -> join; join -> last -> exit; last [type=t]";
    assert_eq!(missing(body, "left"), "b");
    assert_eq!(missing(body, "more"), "");
    assert_eq!(missing(body, "right"), "b i");
    assert_eq!(
        missing(body, "join"),
        "b i",
        "the condition of a branch says nothing about the join"
    );
    assert_eq!(missing(body, "last"), "b i");
}

#[test]
fn a_restart_keeps_only_what_the_pipeline_names() {
    let body = |keep: &str| {
        format!(
            "inputs=\"a: int, b: int\"; restart_keep=\"{keep}\"; start -> one -> work; one [type=t, outputs=\"c: int\"]
             work [type=t]; work -> again [condition=\"outcome=fail\", loop_restart=true]
             again [type=t]; again -> exit; work -> exit"
        )
    };
    assert_eq!(missing(&body("b, c"), "work"), "");
    assert_eq!(missing(&body("b, c"), "again"), "a");
    assert_eq!(missing(&body(""), "again"), "a b c");
}

#[test]
fn a_goal_gate_sends_a_run_back_with_its_values() {
    let body = "start -> work; work [type=t, goal_gate=true, retry_target=mend, outputs=\"a: int\"]
        work -> exit [condition=\"outcome=fail\"]; work -> exit; mend [type=t]; mend -> work";
    assert_eq!(missing(body, "mend"), "a");
}

#[test]
fn a_routing_node_keeps_the_outcome_before_it() {
    let body = "start -> work; work [type=t, outputs=\"a: int\"]; work -> gate; gate [shape=diamond]
        gate -> good [condition=\"outcome=success\"]; gate -> bad [condition=\"outcome=fail\"]; gate -> exit
        good [type=t]; bad [type=t]; good -> exit; bad -> exit";
    assert_eq!(
        (missing(body, "good"), missing(body, "bad")),
        (String::new(), "a".to_owned())
    );
}

#[test]
fn many_states_of_a_node_are_merged_without_losing_one() {
    // Each stage may fail without its value, so the last one is reached in 128 states.
    let mut body = "start -> s0\n".to_owned();
    for stage in 0..7 {
        body += &format!(
            "s{stage} [type=t, on_failure=route, outputs=\"k{stage}: int\"]; s{stage} -> s{}\n",
            stage + 1
        );
    }
    body += "s7 [type=t, outputs=\"last: int\"]; s7 -> exit";
    assert_eq!(missing(&body, "s7"), "k0 k1 k2 k3 k4 k5 k6 last");
    assert_eq!(missing(&body, "exit"), "k0 k1 k2 k3 k4 k5 k6");
}

#[test]
fn a_message_shows_a_path_and_what_to_do() {
    for (body, expected) in [
        (
            "start -> review; review [type=t, outputs=\"verdict: yes|no\"]
             review -> work [condition=\"context.verdict != yes\"]; review -> exit; work [type=t]; work -> exit",
            "`verdict` may not be set when this condition reads it\n\
             it is missing, for example, on the path `start` -> `review` (fail)\n\
             `review` sets it only if it succeeds (a.dot:2:18)\n\
             lead this path elsewhere after `review` (fail), or say what counts \
             without it: `context.verdict != '' && ..` does not hold then, and `context.verdict = '' || ..` does",
        ),
        (
            "inputs=\"dry: bool?\"; start -> work; work [type=t]
             work -> ship [condition=\"context.dry != true\"]; work -> exit; ship [type=t]; ship -> exit",
            "`dry` may not be set when this condition reads it\n\
             it is missing, for example, on the path `start` -> `work`\n\
             `dry` is an optional input\n\
             make the input required, or say what counts without it: `context.dry != '' && ..` does not hold then, and \
             `context.dry = '' || ..` does",
        ),
        (
            "start -> fan; fan [shape=component]; join [shape=tripleoctagon]; fan -> a -> join; fan -> b -> join
             a [type=t, outputs=\"found: bool\"]; b [type=t]; join -> last [condition=\"context.found != false\"]
             join -> exit; last [type=t]; last -> exit",
            "`found` may not be set when this condition reads it\n\
             it is missing, for example, on the path `start` -> `fan` -> `join`\n\
             `a` sets it in a branch, and nothing that a branch sets reaches the join (a.dot:3:14)\n\
             read it in the branch of `a`, or set it after the join, or say what counts \
             without it: `context.found != '' && ..` does not hold then, and `context.found = '' || ..` does",
        ),
    ] {
        let loaded = loaded(body);
        let error = loaded.report.errors().next().expect("it is refused");
        let lines = [vec![error.message.clone()], error.notes.clone(), error.help.iter().cloned().collect()];
        assert_eq!(lines.concat().join("\n"), expected);
    }
}

#[test]
fn outputs_that_a_node_cannot_set_are_refused() {
    let part = "part [shape=folder, label=P, subpipeline.name=p";
    for (body, expected) in [
        (
            "start -> ask; ask [shape=hexagon, outputs=\"a: int\"]; ask -> exit [label=Yes]".to_owned(),
            "`ask` sets no values, so it has no outputs",
        ),
        (
            format!("start -> part -> exit; {part}, outputs=\"a: int\"]"),
            "`part` never sets its output `a`",
        ),
        (
            format!(
                "start -> one -> part -> exit; one [type=t, outputs=\"a: int\"]; {part}, subpipeline.outputs=\"a\"]"
            ),
            "`part` sets `a`, but does not declare it as an output",
        ),
    ] {
        let loaded = loaded(&body);
        let messages: Vec<&str> = loaded
            .report
            .errors()
            .map(|error| error.message.as_str())
            .collect();
        assert_eq!(messages, [expected]);
    }
    let sound =
        format!("start -> part -> exit; {part}, outputs=\"a: int, b: int?\", subpipeline.outputs=\"a=x\"]");
    assert!(!loaded(&sound).report.has_errors());
}

#[test]
fn files_without_declarations_have_no_contract() {
    let loaded = loaded("inputs=\"plan, diff\"; start -> work -> exit; work [outputs=\"report.md, notes\"]");
    let codes: Vec<&str> = loaded.report.diagnostics.iter().map(|found| found.code).collect();
    assert_eq!(
        codes,
        ["prompt_on_llm_nodes", "contract_syntax", "contract_syntax"],
        "warnings"
    );
    assert!(!loaded.report.has_errors() && MissingValues::new(&loaded.analysis()).is_none());
}

#[test]
fn conditions_need_not_cover_values_that_the_contract_excludes() {
    let gap = |outputs: &str, first: &str, second: &str| {
        let text = format!(
            "digraph r {{ start -> review -> decide; review [type=review, outputs=\"{outputs}\"]
                decide [shape=diamond]; decide -> ship [condition=\"{first}\"]; ship [type=ship]; ship -> exit
                decide -> fix [condition=\"{second}\"]; fix [type=fix]; fix -> exit
                review -> fix [condition=\"outcome=fail\"] }}"
        );
        let report = load(Source::new("r.dot", text), &LoadOptions::default()).report;
        let mut found = report.diagnostics.into_iter();
        found
            .find(|found| found.code == "non_exhaustive_conditions")
            .map(|found| found.message)
    };
    let score = "score: int";
    assert_eq!(gap(score, "context.score >= 5", "context.score < 5"), None);
    assert_eq!(gap(score, "context.score >= 5", "context.score <= 4"), None);
    assert!(gap("score: number", "context.score >= 5", "context.score <= 4").is_some());
    assert!(gap(score, "context.score > 5", "context.score < 5").is_some());
    assert!(gap(score, "context.score = 5", "context.score = 4").is_some());
    assert!(gap("score: int?", "context.score >= 5", "context.score < 5").is_some());
    let verdict = "verdict: ship|fix";
    assert_eq!(
        gap(verdict, "context.verdict = ship", "context.verdict = fix"),
        None
    );
    let more = "verdict: ship|fix|hold";
    let message = gap(more, "context.verdict = ship", "context.verdict = fix");
    assert!(message.is_some_and(|text| text.contains("`context.verdict` is something else")));
    assert_eq!(gap("ok: bool", "context.ok", "context.ok = false"), None);
    assert_eq!(gap("ok: bool", "context.ok = true", "context.ok = false"), None);
    assert!(gap("ok: text", "context.ok = true", "context.ok = false").is_some());
}
