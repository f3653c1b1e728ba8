//! `status`, `checkpoints`, `graph --run` and `cleanup`, through the program.

#![cfg(unix)]

use crate::support;

use serde_json::json;
use support::{SLOW, Scratch, gate, tools};

/// A stage with two attempts, a condition on a value, and a gate.
fn rich() -> Scratch {
    let scratch = Scratch::new();
    scratch.write(
        "r.dot",
        r#"digraph rich {
    graph [goal="Ship it"]
    start -> build -> size
    build [shape=parallelogram, tool_command="test -f tried || { touch tried; echo broken >&2; exit 3; }", max_retries=1, retry_initial_delay=1ms, retry_jitter=false]
    size  [shape=diamond]
    size -> large [condition="context.lines>=100"]
    size -> small [condition="context.lines<100"]
    small [shape=parallelogram, tool_command="echo small"]
    large [shape=parallelogram, tool_command="echo large"]
    small -> ask
    large -> ask
    ask [shape=hexagon, label="Ship it?", timeout=90m, "human.default_choice"=N]
    ask -> exit [label="[Y] Yes"]
    ask -> small [label="[N] No"]
}
"#,
    );
    scratch.call(&["run", "r.dot", "--set", "lines=12"]).exits(5);
    scratch
}

#[test]
fn a_run_in_depth_shows_its_path_and_why_each_edge_was_taken() {
    let scratch = rich();
    let reported = scratch.call(&["status", "last"]).exits(0);
    assert!(!reported.stdout.contains('\x1b'), "a pipe takes no colours");
    let folder = format!(".orchestra/runs/{}", scratch.runs().remove(0));
    for part in [
        "status      paused: the gate `ask` waits for a person",
        "goal        Ship it",
        "file        r.dot",
        &format!("folder      {folder}"),
        "again build",
        "exit code 3: broken",
        "ok build, attempt 2",
        "tool shell",
        "-> small (condition holds)",
        " no context.lines>=100  -> large  context.lines is `12`",
        "yes context.lines<100   -> small  context.lines is `12`",
        "-> ask (only edge)",
        "now:\n  ask waits for an answer: Ship it?\n      [Y] Yes  [N] No\n      until ",
        " left, then `[N] No` is taken",
        "NODE   ATTEMPTS  FAILED  TOOLS",
        "errors:\n  build, tried again\n      exit code 3: broken",
        "resume with: orchestra resume ",
    ] {
        assert!(reported.stdout.contains(part), "{part}:\n{}", reported.stdout);
    }
    let json = scratch
        .call(&["status", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(
        (&json["schema"], &json["status"]),
        (&"orchestra.session/1".into(), &"paused".into())
    );
    let decided = json["transitions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["from"] == "size")
        .unwrap();
    assert_eq!(
        (&decided["to"], &decided["rule"]),
        (&"small".into(), &"condition".into())
    );
    let tested = json!({"to": "small", "edge": 1, "condition": "context.lines<100", "held": true, "values": {"context.lines": "12"}});
    assert!(
        decided["tested"].as_array().unwrap().contains(&tested),
        "{decided}"
    );
    let attempts: Vec<_> = json["path"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["node"] == "build")
        .collect();
    assert_eq!(attempts.len(), 2);
    assert_eq!(
        (&attempts[0]["error"], &attempts[1]["attempt"]),
        (&"exit code 3: broken".into(), &2.into())
    );
    assert_eq!(
        (&json["questions"][0]["node"], &json["owner"]),
        (&"ask".into(), &json!(null))
    );
    assert!(json["resume"].as_str().unwrap().starts_with("orchestra resume "));
}

#[test]
fn runs_are_listed_with_the_latest_first_and_as_they_stand() {
    let scratch = Scratch::new();
    let none = scratch.call(&["status"]).exits(0);
    assert_eq!(
        (none.stdout.as_str(), none.stderr.trim_end()),
        ("", "there are no runs in `.orchestra/runs`")
    );
    assert!(!scratch.path(".orchestra").exists());
    scratch
        .write("a.dot", tools(false))
        .write("b.dot", tools(true))
        .write("s.dot", SLOW);
    scratch.call(&["run", "a.dot"]).exits(0);
    scratch.call(&["run", "b.dot"]).exits(1);
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    let stands = |limit: &[&str]| -> Vec<String> {
        let listed = scratch
            .call(&[&["status", "--json"], limit].concat())
            .exits(0)
            .objects();
        assert!(
            listed
                .iter()
                .all(|session| session["schema"] == "orchestra.session/1")
        );
        listed
            .iter()
            .map(|session| session["status"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(stands(&[]), ["running", "fail", "success"]);
    let reported = scratch.call(&["status"]).exits(0).stdout;
    let heads: Vec<&str> = reported.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(heads[..3], ["RUN", "PIPELINE", "STATUS"]);
    assert!(
        reported.lines().nth(1).unwrap().contains("slow") && reported.lines().count() == 4,
        "{reported}"
    );
    let depth = scratch.call(&["status", "last"]).exits(0).stdout;
    assert!(
        depth.contains(&format!("owner       process {}", run.pid())),
        "{depth}"
    );
    assert!(depth.contains("now:\n  wait runs, since "), "{depth}");
    run.signal("KILL");
    run.end().exits(-1);
    assert_eq!(stands(&["--limit", "2"]), ["interrupted", "fail"]);
    let depth = scratch.call(&["status", "last"]).exits(0).stdout;
    assert!(
        depth.contains("status      interrupted") && depth.contains("resume with: "),
        "{depth}"
    );
    // The list is only an index: if it is missing, it is rebuilt.
    for entry in std::fs::read_dir(scratch.path(".orchestra/runs")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(stands(&[]), ["interrupted", "fail", "success"]);
    scratch.call(&["status", "nothing"]).exits(2);
}

#[test]
fn long_paths_are_cut_unless_all_is_asked_for() {
    let scratch = Scratch::new();
    scratch.write(
        "l.dot",
        r#"digraph loop { start -> turn; turn [prompt="Turn"]; turn -> turn [condition="context.on=true"]
            turn -> exit [condition="context.on=false"] }"#,
    );
    let turn = "{outcome: success, context: {on: true}}";
    let turns = vec![turn; 150].join(", ");
    scratch.write(
        "script.yaml",
        format!("turn: [{turns}, {{outcome: success, context: {{on: false}}}}]\n"),
    );
    scratch
        .call(&["run", "l.dot", "--simulate", "script.yaml"])
        .exits(0);
    let short = scratch.call(&["status", "last"]).exits(0).stdout;
    assert!(
        short.contains("entries before, which `--all` shows") && !short.contains("turn, visit 2 "),
        "{short}"
    );
    let all = scratch.call(&["status", "last", "--all"]).exits(0).stdout;
    assert!(all.contains("turn, visit 2 ") && all.contains("turn, visit 151 "));
    let json = scratch
        .call(&["status", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(json["path"].as_array().unwrap().len(), 153);
}

#[test]
fn checkpoints_are_listed_with_what_ended_and_what_came_next() {
    let scratch = rich();
    let points = scratch
        .call(&["checkpoints", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(points["schema"], "orchestra.checkpoint_list/1");
    let points = points["checkpoints"].as_array().unwrap();
    let of = |field: &str| -> Vec<&serde_json::Value> { points.iter().map(|point| &point[field]).collect() };
    assert_eq!(of("node"), ["start", "build", "size", "small"]);
    assert_eq!(of("outcome"), ["success", "fail", "success", "success"]);
    assert_eq!(points[1]["next"], json!(["build"]));
    assert_eq!(points[3]["next"], json!(["ask"]));
    let reported = scratch.call(&["checkpoints", "last"]).exits(0);
    assert!(
        reported.stdout.starts_with("CHECKPOINT  TIME (UTC)"),
        "{}",
        reported.stdout
    );
    assert!(
        reported.last_line().contains("orchestra replay "),
        "{}",
        reported.stderr
    );
}

#[test]
fn a_picture_is_coloured_by_a_run_and_counts_its_edges() {
    let scratch = rich();
    let text = scratch
        .call(&["graph", "r.dot", "--run", "last", "--format", "text"])
        .exits(0)
        .stdout;
    for part in [
        "not reached: exit, large\n",
        "running: ask\n",
        "done: start, build, size, small\n",
    ] {
        assert!(
            text.contains(part) || text.contains(&part.replace("exit, large", "large, exit")),
            "{part}: {text}"
        );
    }
    let dot = scratch
        .call(&["graph", "r.dot", "--run", "last", "--format", "dot"])
        .exits(0)
        .stdout;
    let plain = scratch
        .call(&["graph", "r.dot", "--format", "dot"])
        .exits(0)
        .stdout;
    assert!(
        dot.contains("\"start\" -> \"build\" [label=\" x1 \"]") && dot != plain,
        "{dot}"
    );
    assert!(dot.contains("x1") && !plain.contains("x1"));
    for format in ["svg", "mermaid"] {
        let picture = scratch
            .call(&["graph", "r.dot", "--run", "last", "--format", format])
            .exits(0)
            .stdout;
        assert!(picture.contains("x1"), "{picture}");
    }
    scratch.call(&["graph", "r.dot", "--run", "none"]).exits(2);
}

#[test]
fn the_branches_of_a_parallel_block_are_counted_too() {
    let scratch = Scratch::new();
    scratch.write(
        "p.dot",
        "digraph p { start -> fan; fan [shape=component]; fan -> a; fan -> b; a [prompt=A]; b [prompt=B]
            a -> join; b -> join; join [shape=tripleoctagon]; join -> exit }",
    );
    scratch.call(&["run", "p.dot", "--simulate"]).exits(0);
    let dot = scratch
        .call(&["graph", "p.dot", "--run", "last", "--format", "dot"])
        .exits(0)
        .stdout;
    for edge in [
        "\"fan\" -> \"a\" [label=\" x1 \"]",
        "\"b\" -> \"join\" [label=\" x1 \"]",
    ] {
        assert!(dot.contains(edge), "{edge}: {dot}");
    }
    let reported = scratch.call(&["status", "last"]).exits(0).stdout;
    assert!(
        reported.contains("2 branches") && reported.contains("[a] -> join ("),
        "{reported}"
    );
}

#[test]
fn cleanup_removes_runs_that_are_over_and_nothing_else() {
    let scratch = Scratch::new();
    scratch
        .write("a.dot", tools(false))
        .write("g.dot", gate(""))
        .write("s.dot", SLOW);
    scratch.call(&["run", "a.dot"]).exits(0);
    let over = scratch.runs().remove(0);
    scratch.call(&["run", "g.dot"]).exits(5);
    let paused = scratch.runs().remove(0);
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    let running = scratch.runs().remove(0);
    // A folder that is not a run of the engine, a link out of the folder, and a run that never started.
    scratch
        .write("precious/manifest.json", "{}")
        .write(".orchestra/runs/notes/mine.txt", "mine");
    std::os::unix::fs::symlink(scratch.path("precious"), scratch.path(".orchestra/runs/linked")).unwrap();
    let inside = scratch.path(&format!(".orchestra/runs/{over}/first/out"));
    std::os::unix::fs::symlink(scratch.path("precious"), inside).unwrap();
    scratch.write(".orchestra/runs/unborn/owner.lock", "{}\n");

    let young = scratch.call(&["cleanup"]).exits(0);
    assert_eq!(
        (young.stdout.as_str(), young.stderr.trim_end()),
        ("", "nothing is old enough to be removed")
    );
    let dry = scratch
        .call(&["cleanup", "--older-than", "0s", "--dry-run"])
        .exits(0);
    assert!(
        dry.stdout
            .starts_with(&format!("would remove .orchestra/runs/{over} (tools, success, ")),
        "{}",
        dry.stdout
    );
    assert!(
        dry.stdout
            .contains("would remove .orchestra/runs/unborn (never began)"),
        "{}",
        dry.stdout
    );
    assert!(
        dry.stderr.starts_with("2 folders, ") && dry.stderr.ends_with(" would be freed\n"),
        "{}",
        dry.stderr
    );
    assert_eq!(scratch.runs(), [&*running, &*paused, &*over]);

    let clean = scratch
        .call(&["cleanup", "--older-than", "0s", "--json"])
        .exits(0)
        .objects();
    let schemas: Vec<&str> = clean
        .iter()
        .map(|object| object["schema"].as_str().unwrap())
        .collect();
    assert_eq!(
        schemas,
        [
            "orchestra.cleanup/1",
            "orchestra.cleanup/1",
            "orchestra.cleanup_summary/1"
        ]
    );
    assert_eq!(
        (&clean[0]["run"], &clean[0]["removed"]),
        (&over.clone().into(), &true.into())
    );
    assert!(clean[2]["bytes"].as_u64().unwrap() > 1_000);
    assert!(
        !scratch.path(".orchestra/runs").join(&over).exists()
            && !scratch.path(".orchestra/runs/unborn").exists()
    );
    assert_eq!(scratch.runs(), [&*running, &*paused]);
    assert!(
        scratch.path("precious/manifest.json").exists()
            && scratch.path(".orchestra/runs/notes/mine.txt").exists()
    );
    assert!(scratch.path(".orchestra/runs/linked").exists());

    let with_paused = scratch
        .call(&["cleanup", "--older-than", "0s", "--paused"])
        .exits(0);
    assert!(
        with_paused
            .stdout
            .contains(&format!("removed .orchestra/runs/{paused} (gate, paused, ")),
        "{}",
        with_paused.stdout
    );
    assert_eq!(scratch.runs(), [&*running]);
    scratch.write("go", "");
    run.end().exits(0);
    scratch.call(&["cleanup", "--older-than", "soon"]).exits(2);
}

#[test]
fn what_a_cleanup_left_behind_is_removed_by_the_next() {
    let scratch = Scratch::new();
    scratch.write(".orchestra/runs/.removing-old/manifest.json", "{}");
    let clean = scratch.call(&["cleanup"]).exits(0);
    assert!(
        clean.stdout.contains("(removed in part before)"),
        "{}",
        clean.stdout
    );
    assert!(!scratch.path(".orchestra/runs/.removing-old").exists());
}
