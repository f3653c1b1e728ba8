//! `orchestra compare`, through the program.

#![cfg(unix)]

use crate::support;

use support::{Done, Scratch, gate};

/// A tool that fails until the file `mended` exists, then a decision on a value, and a loop.
const BUILD: &str = r#"digraph build {
    start -> fetch -> build
    fetch [shape=parallelogram, tool_command="echo fetched"]
    build [shape=parallelogram, tool_command="test -f mended || { echo the linker is missing >&2; exit 3; }"]
    build -> size   [condition="outcome=success"]
    build -> report [condition="outcome=fail"]
    size [shape=diamond]
    size -> large [condition="context.lines>=100"]
    size -> small [condition="context.lines<100"]
    small  [shape=parallelogram, tool_command="true"]
    large  [shape=parallelogram, tool_command="true"]
    report [shape=parallelogram, tool_command="true", end="fail"]
    small -> exit
    large -> exit
}
"#;

#[track_caller]
fn shows(done: &Done, parts: &[&str]) {
    for part in parts {
        assert!(done.stdout.contains(part), "{part}:\n{}", done.stdout);
    }
    assert!(!done.stdout.contains('\x1b'), "a pipe takes no colours");
    for line in done.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn a_failed_run_and_its_replay_differ_where_the_outcome_does() {
    let scratch = Scratch::new();
    scratch.write("b.dot", BUILD);
    scratch.call(&["run", "b.dot", "--set", "lines=12"]).exits(1);
    let failed = scratch.runs().remove(0);
    scratch.write("mended", "");
    scratch
        .call(&["replay", &failed, "--checkpoint", "cp_000001"])
        .exits(0);
    let replayed = scratch.runs().remove(0);
    assert_ne!(failed, replayed);
    let compared = scratch.call(&["compare", &failed, "last"]).exits(0);
    shows(
        &compared,
        &[
            "the runs agree for 2 steps, then build ends differently\n",
            &format!("  left   {failed}  build  fail\n"),
            &format!("  right  {replayed}  build  success\n"),
            &format!("         replayed from cp_000001 of run {failed}\n"),
            "  left   build fail: exit code 3: the linker is missing -> report\n",
            "  right  build success -> size\n",
            "  same     start success -> fetch",
            "> outcome  build fail -> report",
            "  left     report success\n",
            "from there on, left: 2 attempts, ",
        ],
    );
    let json = scratch.call(&["compare", &failed, &replayed, "--json"]).exits(0);
    let json = json.objects().remove(0);
    assert_eq!(json["schema"], "orchestra.comparison/1");
    assert_eq!(
        (json["common"].as_u64(), json["same_pipeline"].as_bool()),
        (Some(2), Some(true))
    );
    assert_eq!(json["divergence"]["kind"], "outcome");
    assert_eq!(json["right"]["replayed_from"]["run"], failed.as_str());
}

#[test]
fn runs_with_other_values_differ_at_the_decision() {
    let scratch = Scratch::new();
    scratch.write("b.dot", BUILD).write("mended", "");
    for (folder, lines) in [("one", "lines=12"), ("other", "lines=120")] {
        let run_dir = format!("runs/{folder}");
        let run = [
            "run",
            "b.dot",
            "--set",
            lines,
            "--runs",
            "runs",
            "--run-dir",
            &run_dir,
        ];
        scratch.call(&run).exits(0);
    }
    let compared = scratch
        .call(&["compare", "one", "other", "--runs", "runs"])
        .exits(0);
    shows(
        &compared,
        &[
            "the runs agree for 3 steps, then size takes different edges\n",
            "  left   size -> small (condition holds)\n",
            "  right  size -> large (condition holds)\n",
            "  value  context.lines: `12` left, `120` right\n",
            "> edge   size success -> small   size success -> large\n",
            "  same   exit success",
        ],
    );
    // Folders are named as everywhere.
    let by_path = scratch.call(&["compare", "runs/one", "./runs/other"]).exits(0);
    let behind_the_names = |done: &Done| done.stdout.lines().skip(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(behind_the_names(&by_path), behind_the_names(&compared));
    let same = scratch
        .call(&["compare", "one", "one", "--runs", "runs"])
        .exits(0);
    shows(&same, &["the runs agree: 6 steps\n"]);
    assert!(!same.stdout.contains("from there on"), "{}", same.stdout);
}

#[test]
fn values_that_change_nothing_at_first_are_named_with_the_step_at_which_the_paths_part() {
    let scratch = Scratch::new();
    scratch.write(
        "v.dot",
        r#"digraph values {
    start -> first [condition="context.lines>0"]
    first [shape=parallelogram, tool_command="true"]
    last  [shape=parallelogram, tool_command="true"]
    first -> last [condition="context.lines>=100"]
    first -> exit [condition="context.lines<100"]
    last -> exit
}
"#,
    );
    for (folder, lines) in [("one", "lines=12"), ("other", "lines=120")] {
        let run_dir = format!(".orchestra/runs/{folder}");
        scratch
            .call(&["run", "v.dot", "--set", lines, "--run-dir", &run_dir])
            .exits(0);
    }
    let compared = scratch.call(&["compare", "one", "other"]).exits(0);
    shows(
        &compared,
        &[
            "the runs agree for 0 steps, then the conditions at start read different values;\n\
             the paths part after 1 step\n",
            "  value  context.lines: `12` left, `120` right\n",
            "> values  start success -> first",
            "  edge    first success -> exit",
        ],
    );
}

#[test]
fn an_edited_pipeline_and_a_shorter_run_are_named() {
    let scratch = Scratch::new();
    scratch.write("b.dot", BUILD).write("mended", "");
    scratch
        .call(&[
            "run",
            "b.dot",
            "--set",
            "lines=1",
            "--run-dir",
            ".orchestra/runs/one",
        ])
        .exits(0);
    let gate = r#"small [shape=hexagon, label="Ship it?"]"#;
    let text = BUILD.replace(r#"small  [shape=parallelogram, tool_command="true"]"#, gate);
    scratch.write("b.dot", text);
    scratch
        .call(&[
            "run",
            "b.dot",
            "--set",
            "lines=1",
            "--run-dir",
            ".orchestra/runs/two",
        ])
        .exits(5);
    let compared = scratch.call(&["compare", "one", "two"]).exits(0);
    shows(
        &compared,
        &[
            "the runs agree for 4 steps, then one has not completed small\n",
            "the pipelines differ:\n",
            "node small",
            "> end   small success -> exit   small cancelled",
        ],
    );
}

#[test]
fn a_run_that_waited_for_its_answer_agrees_with_one_that_did_not() {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    scratch
        .call(&[
            "run",
            "g.dot",
            "--answer",
            "approve=Y",
            "--run-dir",
            ".orchestra/runs/at-once",
        ])
        .exits(0);
    scratch
        .call(&["run", "g.dot", "--run-dir", ".orchestra/runs/later"])
        .exits(5);
    scratch
        .call(&["resume", "later", "--answer", "approve=Y"])
        .exits(0);
    let compared = scratch.call(&["compare", "at-once", "later"]).exits(0);
    shows(&compared, &["the runs agree: 5 steps\n"]);
    scratch
        .call(&[
            "run",
            "g.dot",
            "--run-dir",
            ".orchestra/runs/refused",
            "--answer",
            "approve=N",
        ])
        .exits(5);
    let compared = scratch.call(&["compare", "at-once", "refused"]).exits(0);
    shows(
        &compared,
        &[
            "the runs agree for 2 steps, then approve ends differently\n",
            "  left   approve success, prefers `[Y] Yes, ship` -> ship\n",
            "  right  approve success, prefers `[N] No` -> mend\n",
        ],
    );
}

#[test]
fn long_runs_show_the_steps_around_the_divergence() {
    let scratch = Scratch::new();
    // The twentieth call of the tool fails, which is in the first run.
    scratch.write(
        "l.dot",
        r#"digraph loops {
    start -> work
    work [shape=parallelogram, tool_command="echo >> calls; test $(wc -l < calls) -ne 20"]
    work -> work [condition="outcome=success && visits.work<30"]
    work -> exit [condition="outcome=fail || visits.work>=30"]
}
"#,
    );
    for folder in ["short", "long"] {
        let run_dir = format!(".orchestra/runs/{folder}");
        scratch.call(&["run", "l.dot", "--run-dir", &run_dir]).exits(0);
    }
    let compared = scratch.call(&["compare", "short", "long"]).exits(0);
    shows(
        &compared,
        &[
            "the runs agree for 20 steps, then work, visit 20 ends differently\n",
            ".. 10 rows before, which `--all` shows\n",
            "  same     work, visit 10 success -> work",
            "> outcome  work, visit 20 fail -> exit",
        ],
    );
    let all = scratch.call(&["compare", "short", "long", "--all"]).exits(0);
    shows(&all, &["  same     start success -> work"]);
    assert!(!all.stdout.contains("which `--all` shows"), "{}", all.stdout);
}

#[test]
fn runs_that_do_not_exist_are_wrong_usage() {
    let scratch = Scratch::new();
    scratch.write("a.dot", "digraph { start -> exit }");
    let none = scratch.call(&["compare", "last", "last"]).exits(2);
    assert!(none.stderr.contains("error[unknown_run]"), "{}", none.stderr);
    scratch
        .call(&["run", "a.dot", "--run-dir", ".orchestra/runs/one"])
        .exits(0);
    for args in [["compare", "one", "ome"], ["compare", "ome", "one"]] {
        let unknown = scratch.call(&args).exits(2);
        assert!(
            unknown.stderr.contains("did you mean `one`?") && unknown.stdout.is_empty(),
            "{}",
            unknown.stderr
        );
    }
}
