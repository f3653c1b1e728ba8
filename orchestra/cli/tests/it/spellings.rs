//! Pipelines with the spellings of other tools, and with misspellings that would drop a guard, through the program.

#![cfg(unix)]

use crate::support;

use support::Scratch;

fn scratch(name: &str, text: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write(name, text);
    scratch
}

#[test]
fn a_condition_of_a_goal_gate_sends_the_run_back_until_it_holds() {
    let scratch = scratch(
        "g.dot",
        r#"digraph g {
    start -> measure -> report -> exit
    measure [shape=parallelogram, tool_command="echo x >> tries; wc -l < tries",
             goal_gate="outcome = success && tool.last_line >= 3", retry_target=measure]
    report  [shape=parallelogram, tool_command="cat tries | wc -l"]
}
"#,
    );
    scratch.call(&["check", "g.dot"]).exits(0);
    let run = scratch.call(&["run", "g.dot"]).exits(0);
    assert_eq!(
        run.stdout,
        "success: start -> measure -> report -> measure -> report -> measure -> report -> exit\n"
    );
    assert_eq!(scratch.lines("tries"), 3);
}

#[test]
fn a_goal_gate_that_never_holds_fails_the_run_with_what_it_saw() {
    let scratch = scratch(
        "g.dot",
        r#"digraph g {
    start -> measure -> exit
    measure [shape=parallelogram, tool_command="echo 41", goal_gate="tool.last_line >= 80"]
}
"#,
    );
    let run = scratch.call(&["run", "g.dot"]).exits(1);
    let said =
        "the goal gate `measure` is unsatisfied, `tool.last_line >= 80` is false, tool.last_line is `41`";
    assert!(run.stderr.contains(said), "{}", run.stderr);
}

#[test]
fn a_condition_on_the_exit_holds_before_the_run_ends() {
    let scratch = scratch(
        "g.dot",
        r#"digraph g {
    start -> work
    work -> exit
    work -> exit [condition="outcome=fail"]
    work [shape=parallelogram, tool_command="test -e tried || { touch tried; exit 1; }"]
    exit [shape=Msquare, goal_gate="outcome = success", retry_target=work]
}
"#,
    );
    let run = scratch.call(&["run", "g.dot"]).exits(0);
    assert_eq!(run.stdout, "success: start -> work -> work -> exit\n");
}

#[test]
fn children_are_named_by_dot_file_whatever_their_ending_is() {
    let scratch = scratch(
        "main.dot",
        r#"digraph main {
    start -> lint -> watch -> exit
    lint  [shape=folder, dot_file="parts/lint.fabro"]
    watch [shape=house, dot_file="parts/lint.fabro"]
}
"#,
    );
    let child = "digraph lint { start -> check -> exit; check [shape=parallelogram, tool_command=\"echo linted >> log\"] }";
    scratch.write("parts/lint.fabro", child);
    let checked = scratch.call(&["check", "main.dot"]).exits(0);
    assert!(!checked.stdout.contains("warning") && !checked.stderr.contains("warning"));
    scratch.call(&["run", "main.dot"]).exits(0);
    assert_eq!(scratch.lines("log"), 2);
    scratch.write("parts/lint.fabro", child.replace("-> exit", "-> exot"));
    let checked = scratch.call(&["check", "main.dot"]).exits(3);
    let said = checked.stdout + &checked.stderr;
    assert!(
        said.contains("lint.fabro") && said.contains("child_invalid"),
        "{said}"
    );
}

#[test]
fn a_block_whose_branches_must_all_succeed_fails_with_the_first_that_does_not() {
    let text = |policy: &str| {
        format!(
            r#"digraph fan {{
    start -> fan
    fan -> a -> join
    fan -> b -> join
    fan [shape=component, join_policy={policy}]
    a   [shape=parallelogram, tool_command="true"]
    b   [shape=parallelogram, tool_command="false"]
    join [shape=tripleoctagon]
    join -> exit
}}
"#
        )
    };
    let scratch = scratch("fan.dot", &text("all_success"));
    scratch.call(&["check", "fan.dot"]).exits(0);
    scratch.call(&["run", "fan.dot"]).exits(1);
    scratch.write("fan.dot", text("any_success"));
    scratch.call(&["run", "fan.dot"]).exits(0);
}

#[test]
fn a_weight_with_a_point_is_a_whole_number() {
    let text = |weight: &str| {
        format!(
            r#"digraph w {{
    start -> work
    work -> first
    work -> last [weight={weight}]
    first -> exit
    last -> exit
    work  [shape=parallelogram, tool_command="true"]
    first [shape=parallelogram, tool_command="true"]
    last  [shape=parallelogram, tool_command="true"]
}}
"#
        )
    };
    let scratch = scratch("w.dot", &text("2.0"));
    let run = scratch.call(&["run", "w.dot"]).exits(0);
    assert_eq!(run.stdout, "success: start -> work -> last -> exit\n");
    scratch.write("w.dot", text("2.5"));
    let checked = scratch.call(&["check", "w.dot"]).exits(3);
    let said = checked.stdout + &checked.stderr;
    assert!(
        said.contains("`weight` must be a whole number, but `2.5` is not"),
        "{said}"
    );
}

#[test]
fn a_guard_that_would_be_dropped_is_refused_by_check_and_run() {
    let scratch = scratch(
        "s.dot",
        r#"digraph s {
    routing=first_match
    start -> work
    work -> ship [condition_value="approved"]
    work -> exit
    ship -> exit
    work [shape=parallelogram, tool_command="true"]
    ship [shape=parallelogram, tool_command="touch shipped"]
}
"#,
    );
    for command in ["check", "run"] {
        let done = scratch.call(&[command, "s.dot"]).exits(3);
        let said = done.stdout + &done.stderr;
        assert!(said.contains("ignored_condition"), "{command}: {said}");
        assert!(said.contains("condition_type=conditional"), "{command}: {said}");
    }
    assert!(!scratch.path("shipped").exists());
}

#[test]
fn attributes_of_the_other_way_of_routing_are_named_by_check() {
    let scratch = scratch(
        "s.dot",
        r#"digraph s {
    start -> work -> exit
    work -> work [condition="outcome=fail", allow_revisit=true, max_revisits=2]
    work [shape=parallelogram, tool_command="true"]
}
"#,
    );
    let checked = scratch.call(&["check", "s.dot"]).exits(0);
    let said = checked.stdout + &checked.stderr;
    assert!(said.contains("warning[routing_dialect]"), "{said}");
    assert!(
        said.contains("routing=first_match") && said.contains("max_visits"),
        "{said}"
    );
}

#[test]
fn a_failed_tool_before_yes_and_no_is_a_warning_that_says_how_it_ends_as_a_success() {
    let scratch = scratch(
        "y.dot",
        r#"digraph y {
    start -> tests -> green
    tests [shape=parallelogram, tool_command="false"]
    green [shape=diamond, label="Green?"]
    green -> exit [label="Yes"]
    green -> fix  [label="No"]
    fix   [shape=parallelogram, tool_command="true"]
    fix -> tests
}
"#,
    );
    let checked = scratch.call(&["check", "y.dot"]).exits(0);
    let said = checked.stdout + &checked.stderr;
    assert!(said.contains("warning[failure_routed_as_success]"), "{said}");
    assert!(said.contains("`tests` -> `green` -> `exit`"), "{said}");
    assert!(said.contains("condition=\"outcome=fail\""), "{said}");
    // The behaviour of which the check warns.
    let run = scratch.call(&["run", "y.dot"]).exits(0);
    assert_eq!(run.stdout, "success: start -> tests -> green -> exit\n");
    scratch.call(&["check", "--deny", "warnings", "y.dot"]).exits(3);
}

#[test]
fn the_output_of_a_tool_is_named_where_a_condition_reads_that_of_another_engine() {
    let text = |key: &str| {
        format!(
            r#"digraph t {{
    start -> probe
    probe [shape=parallelogram, tool_command="echo ready"]
    probe -> exit [condition="{key}=ready"]
    probe -> wait
    wait  [shape=parallelogram, tool_command="true"]
    wait -> exit
}}
"#
        )
    };
    let scratch = scratch("t.dot", &text("tool_stdout"));
    let checked = scratch.call(&["check", "t.dot"]).exits(3);
    let said = checked.stdout + &checked.stderr;
    assert!(
        said.contains("`tool.output`") && said.contains("`tool.last_line`"),
        "{said}"
    );
    scratch.write("t.dot", text("context.tool_stdout"));
    let checked = scratch.call(&["check", "t.dot"]).exits(0);
    let said = checked.stdout + &checked.stderr;
    assert!(said.contains("warning[foreign_context_key]"), "{said}");
    scratch.write("t.dot", text("tool.last_line"));
    let run = scratch.call(&["run", "t.dot"]).exits(0);
    assert_eq!(run.stdout, "success: start -> probe -> exit\n");
}
