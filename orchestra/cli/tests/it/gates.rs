//! Human gates of `orchestra run`, through the program: the sources of answers, their order, and missing answers.

#![cfg(unix)]

use crate::support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;
use support::{Scratch, done};

/// A gate with an edge to the exit and an edge back. `attributes` are the attributes of the gate.
fn gate(attributes: &str) -> String {
    format!(
        r#"digraph gate {{
    start -> build -> approve
    build   [shape=parallelogram, tool_command="echo built"]
    approve [shape=hexagon, label="Ship it?"{attributes}]
    approve -> ship [label="[Y] Yes, ship"]
    approve -> mend [label="[N] No"]
    mend    [shape=parallelogram, tool_command="echo mended"]
    mend -> approve
    ship    [shape=parallelogram, tool_command="echo shipped"]
    ship -> exit
}}
"#
    )
}

fn scratch(attributes: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(attributes));
    scratch
}

const SHIPPED: &str = "success: start -> build -> approve -> ship -> exit\n";
const MENDED: &str = "success: start -> build -> approve -> mend -> approve -> ship -> exit\n";

#[test]
fn lines_of_a_pipe_answer_and_nonsense_is_asked_again() {
    let run = scratch("")
        .call_with(&["run", "g.dot"], "maybe\nno\nY\n")
        .exits(0);
    assert_eq!(run.stdout, MENDED);
    let question = "        -> approve (only edge)\n[?] approve: Ship it?\n    [Y] Yes, ship\n    [N] No\n    Select: \n    \
                    the line is not one of the answers: [Y] Yes, ship, [N] No\n    Select: [N] No\n    ok approve ";
    assert!(
        run.stderr.contains(question),
        "what came before is shown before: {}",
        run.stderr
    );
    assert!(
        run.stderr.contains("[N] No (answered beforehand)"),
        "{}",
        run.stderr
    );
}

#[test]
fn nobody_to_ask_is_code_5_with_the_gate_and_the_way_to_answer_it() {
    let run = scratch("").call(&["run", "g.dot"]).exits(5);
    assert_eq!(run.stdout, "paused: start -> build\n");
    for part in [
        "error: the gate `approve` waits for a person: standard input is closed",
        "`--answer approve=Y` (of [Y] Yes, ship, [N] No)",
        "`--auto-approve`",
    ] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    let json = scratch("").call(&["run", "g.dot", "--json"]).exits(5);
    let objects = json.objects();
    let (result, events) = objects.split_last().unwrap();
    assert_eq!(result["status"], "paused");
    assert_eq!(
        (&result["failure"]["code"], &result["failure"]["node"]),
        (&"waits_for_human".into(), &"approve".into())
    );
    assert!(
        events
            .iter()
            .any(|event| event["event"] == "PipelinePaused" && event["gate"] == "approve")
    );
}

#[test]
fn silence_never_approves_in_a_simulation_either() {
    let run = scratch("").call(&["run", "g.dot", "--simulate"]).exits(5);
    assert_eq!(run.stdout, "paused: start -> build\n");
}

#[test]
fn auto_approve_takes_the_first_choice_and_says_so() {
    let scratch = scratch("");
    let run = scratch
        .call_with(&["run", "g.dot", "--auto-approve", "--run-dir", "out"], "N\n")
        .exits(0);
    assert_eq!(run.stdout, SHIPPED);
    assert!(
        run.stderr.contains("[Y] Yes, ship (approved automatically)"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains("Select:"), "nobody is asked: {}", run.stderr);
    let checkpoint: Value = serde_json::from_str(&scratch.read("out/checkpoint.json")).unwrap();
    let text = checkpoint.to_string();
    assert!(text.contains(r#""human.gate.answered_by":"automatic""#), "{text}");
}

#[test]
fn answers_of_the_command_line_are_taken_in_turn_and_come_before_everybody_else() {
    let scratch = scratch("");
    let answers = [
        "run",
        "g.dot",
        "--answer",
        "approve=mend",
        "--answer",
        "approve=yes, SHIP",
    ];
    assert_eq!(scratch.call_with(&answers, "Y\n").exits(0).stdout, MENDED);
    let then_automatic = ["run", "g.dot", "--answer", "approve=N", "--auto-approve"];
    assert_eq!(scratch.call(&then_automatic).exits(0).stdout, MENDED);
    let then_person = ["run", "g.dot", "--answer", "approve=N"];
    assert_eq!(scratch.call_with(&then_person, "Y\n").exits(0).stdout, MENDED);
    assert_eq!(
        scratch.call(&then_person).exits(5).stdout,
        "paused: start -> build -> approve -> mend\n"
    );
}

#[test]
fn wrong_answers_of_the_command_line_are_wrong_usage_and_run_nothing() {
    let scratch = scratch("");
    let cases = [
        ("aprove=Y", "did you mean `approve`?"),
        ("approve=shop", "did you mean `ship`?"),
        ("approve=later", "its choices are [Y] Yes, ship, [N] No"),
        ("build=Y", "`build` is not a human gate"),
        ("nowhere=Y", "its human gates are approve"),
        ("approve", "NODE=CHOICE"),
        ("approve=", "NODE=CHOICE"),
        ("=Y", "NODE=CHOICE"),
    ];
    for (answer, help) in cases {
        let run = scratch.call(&["run", "g.dot", "--answer", answer]).exits(2);
        assert!(run.stderr.contains(help), "{answer}: {}", run.stderr);
    }
    scratch.write("plain.dot", "digraph plain { start -> exit }");
    let none = scratch.call(&["run", "plain.dot", "--answer", "exit=Y"]).exits(2);
    assert!(
        none.stderr.contains("the pipeline has no human gates"),
        "{}",
        none.stderr
    );
    assert!(!scratch.path(".orchestra").exists());
}

#[test]
fn a_script_answers_gates_in_turn_before_the_command_line_does() {
    let scratch = scratch("");
    scratch.write(
        "script.yaml",
        "approve: [N, {preferred_label: 'Yes, ship', notes: fine}]\n",
    );
    let run = [
        "run",
        "g.dot",
        "--simulate",
        "script.yaml",
        "--answer",
        "approve=Y",
    ];
    assert_eq!(scratch.call(&run).exits(0).stdout, MENDED);
    let inline = ["run", "g.dot", "--simulate", "--outcome", "approve=mend,ship"];
    assert_eq!(scratch.call(&inline).exits(0).stdout, MENDED);
    // A gate without an entry in the script is answered by the other sources.
    let given = [
        "run",
        "g.dot",
        "--simulate",
        "--outcome",
        "build=success",
        "--answer",
        "approve=Y",
    ];
    assert_eq!(scratch.call(&given).exits(0).stdout, SHIPPED);
    let automatic = ["run", "g.dot", "--simulate", "--auto-approve"];
    assert_eq!(scratch.call(&automatic).exits(0).stdout, SHIPPED);
    assert_eq!(
        scratch
            .call_with(&["run", "g.dot", "--simulate"], "Y\n")
            .exits(0)
            .stdout,
        SHIPPED
    );
}

#[test]
fn a_script_may_skip_a_gate_or_let_its_time_run_out() {
    let timed = scratch(", timeout=90m, \"human.default_choice\"=\"mend\", max_visits=2");
    let skipped = timed
        .call(&["run", "g.dot", "--simulate", "--outcome", "approve=skipped"])
        .exits(1);
    assert!(
        skipped.stderr.contains("the person skipped the question"),
        "{}",
        skipped.stderr
    );
    let silent = timed
        .call(&["run", "g.dot", "--simulate", "--outcome", "approve=timeout,Y"])
        .exits(0);
    assert_eq!(silent.stdout, MENDED);
    assert!(
        silent
            .stderr
            .contains("approve: nobody answered within 90:00 min, the default `[N] No` is taken"),
        "{}",
        silent.stderr
    );
    let retried = scratch(", timeout=90m, max_retries=1, retry_policy=none");
    let run = retried
        .call(&["run", "g.dot", "--simulate", "--outcome", "approve=timeout,Y"])
        .exits(0);
    assert_eq!(run.stdout, SHIPPED);
    assert!(run.stderr.contains("there is no default"), "{}", run.stderr);
    assert!(run.stderr.contains("ok approve, attempt 2"), "{}", run.stderr);
}

#[test]
fn a_choice_of_that_name_comes_before_the_meaning_of_a_word() {
    let scratch = Scratch::new();
    scratch.write(
        "g.dot",
        r#"digraph g { start -> ask; ask [shape=hexagon]; ask -> exit [label="Skipped"]; ask -> mend [label="Retry"]
            mend [shape=parallelogram, tool_command="true"]; mend -> ask }"#,
    );
    let run = scratch
        .call(&["run", "g.dot", "--simulate", "--outcome", "ask=retry,skipped"])
        .exits(0);
    assert_eq!(run.stdout, "success: start -> ask -> mend -> ask -> exit\n");
}

#[test]
fn a_wrong_answer_of_a_script_is_wrong_usage() {
    let scratch = scratch("");
    for (script, help) in [
        ("approve: shop\n", "did you mean `ship`?"),
        (
            "approve: {preferred_label: Yess}\n",
            "its choices are [Y] Yes, ship, [N] No",
        ),
        ("approve: success\n", "the gate `approve` has no choice `success`"),
        ("approve: timeot\n", "did you mean `timeout`?"),
        (
            "approve: {preferred_label: No, context: {a: 1}}\n",
            "sets no context",
        ),
    ] {
        scratch.write("script.yaml", script);
        let run = scratch
            .call(&["run", "g.dot", "--simulate", "script.yaml"])
            .exits(2);
        assert!(run.stderr.contains(help), "{script}: {}", run.stderr);
    }
}

#[test]
fn a_time_out_takes_the_default_although_the_console_waits() {
    let scratch = scratch(", timeout=300ms, \"human.default_choice\"=\"Y\"");
    // The pipe stays open and provides nothing.
    let child = scratch
        .command(&["run", "g.dot"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = child;
    let input = child.stdin.take().unwrap();
    let run = done(child.wait_with_output().unwrap()).exits(0);
    drop(input);
    assert_eq!(run.stdout, SHIPPED);
    for part in [
        "    1 s left to answer, then `[Y] Yes, ship` is taken\n    Select: \n        approve: nobody",
        "approve: nobody answered within 300 ms, the default `[Y] Yes, ship` is taken",
        "(default, nobody answered in time)",
    ] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
}

#[test]
fn free_text_goes_on_with_the_run() {
    let scratch = Scratch::new();
    scratch.write(
        "g.dot",
        r#"digraph g { start -> ask; ask [shape=hexagon, label="Why?"]; ask -> say [freeform=true]
            say [shape=diamond]; say -> exit [condition="context.human.gate.text=Because"]; say -> ask }"#,
    );
    let run = scratch.call_with(&["run", "g.dot"], "\nBecause\n").exits(0);
    assert!(
        run.stderr
            .contains("    > \n    an empty answer is not an answer\n    > (a text, which is not shown)\n"),
        "{}",
        run.stderr
    );
    assert_eq!(run.stdout, "success: start -> ask -> say -> exit\n");
    let given = scratch
        .call(&["run", "g.dot", "--answer", "ask=Because"])
        .exits(0);
    assert_eq!(given.stdout, "success: start -> ask -> say -> exit\n");
}

#[test]
fn what_a_pipe_answers_is_not_shown() {
    let scratch = Scratch::new();
    scratch.write(
        "g.dot",
        r#"digraph g { start -> ask; ask [shape=hexagon, label="Password?"]
            ask -> say [freeform=true, label="Any"]; say -> choose
            say [shape=parallelogram, tool_command="echo said"]
            choose [shape=hexagon, label="Sure?"]; choose -> exit [label="[S] Sure"]; choose -> say [label="[N] No"] }"#,
    );
    let run = scratch
        .call_with(&["run", "g.dot"], "hunter2\nswordfish\nsure\n")
        .exits(0);
    let shown = run.stdout + &run.stderr;
    assert!(
        !shown.contains("hunter2") && !shown.contains("swordfish"),
        "{shown}"
    );
    for part in [
        "    > (a text, which is not shown)\n",
        "    Select: \n    the line is not one of the answers: [S] Sure, [N] No\n    Select: [S] Sure\n",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    // The invalid lines of a pipe are not shown either.
    let nonsense = scratch
        .call_with(&["run", "g.dot"], "hunter2\na1\na2\nswordfish\n")
        .exits(5);
    let reported = nonsense.stdout + &nonsense.stderr + &scratch.call(&["status", "last"]).exits(0).stdout;
    assert!(
        !reported.contains("hunter2") && !reported.contains("swordfish"),
        "{reported}"
    );
}

#[test]
fn gates_of_parallel_branches_are_asked_one_after_the_other_and_lines_name_their_branch() {
    let scratch = Scratch::new();
    scratch.write(
        "p.dot",
        r#"digraph p {
    start -> fan
    fan [shape=component]
    fan -> docs; fan -> code; fan -> test
    docs [shape=hexagon, label="Docs good?"]
    code [shape=hexagon, label="Code good?"]
    docs -> join [label="[G] Good"]
    code -> note [label="[G] Good"]
    note [shape=parallelogram, tool_command="echo noted"]
    test [shape=parallelogram, tool_command="test -f tried || { touch tried; exit 3; }", max_retries=1, retry_initial_delay=10ms, retry_jitter=false]
    note -> join; test -> join
    join [shape=tripleoctagon]
    join -> exit
}"#,
    );
    let run = scratch.call_with(&["run", "p.dot"], "G\ng\n").exits(0);
    let questions: Vec<&str> = run
        .stderr
        .lines()
        .filter(|line| line.starts_with("[?]") || line.contains("Select: "))
        // Output of a branch may come between a prompt and its answer.
        .map(|line| line.split_inclusive("Select: ").next().unwrap_or(line))
        .collect();
    assert_eq!(
        questions,
        [
            "[?] docs: Docs good?",
            "    Select: ",
            "[?] code: Code good?",
            "    Select: "
        ]
    );
    for part in [
        "        fan: 3 branches\n",
        "ok [docs] ",
        "        [docs] -> join (",
        "ok [code] note ",
        " again [test] ",
        "        [test] again in 10 ms, attempt 2 of 2\n",
        "ok [test], attempt 2 ",
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
}

#[test]
fn goal_gates_and_restarts_are_reported() {
    let scratch = Scratch::new();
    scratch.write(
        "r.dot",
        r#"digraph r {
    start -> work -> test
    work [prompt="Work"]
    test [prompt="Test", goal_gate=true, retry_target=work]
    test -> go [condition="outcome=success"]
    test -> go [condition="outcome=fail"]
    go [shape=diamond]
    go -> work [condition="context.again=true", loop_restart=true]
    go -> exit [condition="context.again!=true"]
}"#,
    );
    scratch.write(
        "script.yaml",
        "work: [{outcome: success, context: {again: true}}, success]\ntest: [success, fail, success]\n",
    );
    let run = scratch
        .call(&["run", "r.dot", "--simulate", "script.yaml"])
        .exits(0);
    for part in [
        "        `go` restarts the run at `work`, restart 1\n",
        "        the goal gate `test` is not satisfied\n        -> work (goal gate unsatisfied)\n",
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
}

#[test]
fn an_interrupt_pauses_a_run_that_waits_for_an_answer() {
    let scratch = scratch("");
    let mut run = scratch.command(&["run", "g.dot", "--json"]);
    let mut child = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let asked = |line: std::io::Result<String>| line.unwrap().contains("InterviewStarted");
    assert!(lines.by_ref().any(asked));
    let input = child.stdin.take();
    let interrupt = ["-INT", &child.id().to_string()];
    std::process::Command::new("kill")
        .args(interrupt)
        .status()
        .unwrap();
    let last = lines.map(Result::unwrap).last().unwrap();
    let run = done(child.wait_with_output().unwrap()).exits(130);
    drop(input);
    let result: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(result["status"], "paused");
    let prompt = "    Select: \npausing: running stages are asked to stop; once more stops at once\n";
    assert!(run.stderr.contains(prompt), "{}", run.stderr);
    let asked_again = scratch.call_with(&["resume", "last"], "Y\n").exits(0);
    assert_eq!(asked_again.stdout, SHIPPED);
}

#[test]
fn a_gate_of_a_child_is_answered_like_one_of_the_pipeline() {
    let scratch = scratch("");
    scratch.write(
        "p.dot",
        r#"digraph p {
    graph [stack.child_dotfile="g.dot"]
    start -> watch -> exit
    watch [shape=house, label="Watch", manager.actions="wait", manager.poll_interval=10ms]
}"#,
    );
    let run = scratch.call(&["run", "p.dot", "--answer", "approve=Y"]).exits(0);
    for part in [
        "watch-1 > gate\n",
        "    ok watch-1 > build ",
        "        watch-1 > -> approve (only edge)\n",
        "    ok watch-1 > approve ",
        "    ok watch ",
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let scripted = ["run", "p.dot", "--simulate", "--outcome", "approve=N,Y"];
    let run = scratch.call(&scripted).exits(0);
    assert!(run.stderr.contains("ok watch-1 > mend "), "{}", run.stderr);
    let wrong = scratch.call(&["run", "p.dot", "--answer", "aprove=Y"]).exits(2);
    assert!(
        wrong.stderr.contains("did you mean `approve`?"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_child_that_waits_for_a_person_pauses_the_run_and_names_its_gate() {
    let scratch = scratch("");
    scratch.write(
        "p.dot",
        r#"digraph p { start -> sub -> exit; sub [shape=folder, label="Ship", subpipeline.file="g.dot"] }"#,
    );
    let run = scratch.call(&["run", "p.dot"]).exits(5);
    assert_eq!(run.stdout, "paused: start\n");
    for part in [
        "the gate `approve` waits",
        "`--answer approve=Y` (of [Y] Yes, ship, [N] No)",
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    scratch.call(&["run", "p.dot", "--answer", "approve=Y"]).exits(0);
}
