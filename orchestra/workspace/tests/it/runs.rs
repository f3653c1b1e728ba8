//! Runs in two repositories with the real git: the final state of their branches and of the user's repositories.

use crate::pair;

use std::sync::{Arc, Mutex};

use orchestra_engine::{Answer, CallbackInterviewer, RunStatus};
use pair::{LIST, NAMES, Pair, pipeline, succeeded};

const SESSION: &str = "orchestra/t/first";

/// Three writers that each change both repositories. If `same_line` is set, `mid` and `right` change the same line.
fn three(join: &str, behind: &str, same_line: bool) -> String {
    let edit = |name: &str, line: &str| {
        let line = if same_line { "two" } else { line };
        format!(
            "for r in backend frontend; do sed -i 's/^{line}$/{line} {name}/' $r/list.txt; echo {name} > $r/{name}.txt; done"
        )
    };
    format!(
        "digraph t {{
            node [shape=parallelogram]
            start [shape=Mdiamond]; exit [shape=Msquare]
            start -> prepare -> fan
            prepare [tool_command=\"echo prepared > backend/prepared.txt\"]
            fan [shape=component]
            fan -> left -> join; fan -> mid -> join; fan -> right -> join
            left [tool_command=\"{}\"]
            mid [tool_command=\"{}\"]
            right [tool_command=\"{}\"]
            join [shape=tripleoctagon {join}]
            {behind}
        }}",
        edit("left", "one"),
        edit("mid", "two"),
        edit("right", "three"),
    )
}

#[tokio::test]
async fn three_writers_in_two_repositories_are_merged_in_the_order_of_their_edges() {
    let pair = Pair::new();
    let before = pair.users();
    let result = pair.run(&three("", "join -> exit", false)).await;
    succeeded(&result);
    assert_eq!(
        result.context.get("workspace.merged").unwrap().to_string(),
        r#"["left","mid","right"]"#
    );
    assert_eq!(result.context.get("workspace.conflict_count").unwrap(), 0);
    for name in NAMES {
        assert_eq!(
            pair.on(name, SESSION, "list.txt"),
            LIST.replace("one", "one left")
                .replace("two", "two mid")
                .replace("three", "three right")
        );
        for file in ["left.txt", "mid.txt", "right.txt"] {
            assert_eq!(
                pair.on(name, SESSION, file),
                format!("{}\n", file.trim_end_matches(".txt"))
            );
        }
        let mut history = vec!["join: merge `right`", "join: merge `mid`", "join: merge `left`"];
        if name == "backend" {
            history.push("prepare: changes");
        }
        let log = pair.log(name, SESSION);
        assert_eq!(log.len(), history.len(), "{log:?}");
        assert_eq!(log[..3], history[..3]);
        // Merged branches and all worktrees are removed, and the user's repository is unchanged.
        assert_eq!(pair.branches(name), [SESSION]);
        assert_eq!(pair.trees(name), 0);
        assert_eq!(pair.lost(name), Vec::<String>::new());
    }
    assert_eq!(pair.users(), before);
    let message = pair.git(
        "backend",
        &[
            "log",
            "--format=%an <%ae>%n%B",
            "--skip=3",
            "-1",
            "--first-parent",
            SESSION,
        ],
    );
    assert!(
        message.starts_with("Orchestra <orchestra@localhost>\nprepare: "),
        "{message}"
    );
    for trailer in [
        "Orchestra-Run: first",
        "Orchestra-Node: prepare",
        "Orchestra-Attempt: prepare#1/1",
        "Orchestra-Checkpoint: prepare#1/1",
    ] {
        assert!(message.contains(trailer), "{message}");
    }
}

#[tokio::test]
async fn a_stage_resolves_a_conflict_and_its_commit_is_the_merge() {
    let pair = Pair::new();
    let before = pair.users();
    let resolve = "join -> resolve -> exit
        resolve [tool_command=\"for r in backend frontend; do grep -q '<<<<<<<' $r/list.txt || exit 9; \
        printf 'one\\ntwo all\\nthree\\n' > $r/list.txt; done\"]";
    let result = pair.run(&three("", resolve, true)).await;
    succeeded(&result);
    for name in NAMES {
        assert_eq!(pair.on(name, SESSION, "list.txt"), "one\ntwo all\nthree\n");
        assert_eq!(pair.on(name, SESSION, "mid.txt"), "mid\n");
        let parents = pair.git(name, &["log", "-1", "--format=%p", SESSION]);
        assert_eq!(
            parents.split_whitespace().count(),
            3,
            "the clean part and two branches: {parents}"
        );
        assert_eq!(pair.branches(name), [SESSION]);
        assert_eq!(pair.lost(name), Vec::<String>::new());
    }
    assert_eq!(result.context.get("workspace.conflict_count").unwrap(), 0);
    assert_eq!(pair.users(), before);
}

#[tokio::test]
async fn a_conflict_is_reported_as_data_and_a_stage_that_leaves_markers_fails() {
    let pair = Pair::new();
    let before = pair.users();
    let behind = "join -> careless; careless -> exit [condition=\"outcome=success\"]
        careless [tool_command=\"echo more > backend/more.txt\"]";
    let result = pair.run(&three("", behind, true)).await;
    assert_eq!(result.status, RunStatus::Fail);
    let failure = result.failure.as_ref().unwrap().to_string();
    assert!(
        failure.contains("conflict markers are left in backend: list.txt, frontend: list.txt"),
        "{failure}"
    );
    let conflicts = result.context.get("workspace.conflicts").unwrap();
    let first = &conflicts[0];
    assert_eq!(
        (&first["repository"], &first["path"], &first["kind"]),
        (&"backend".into(), &"list.txt".into(), &"content".into())
    );
    assert_eq!(first["branches"].to_string(), r#"["left","mid"]"#);
    let hunk = &first["hunks"][0];
    assert_eq!(
        (
            hunk["ours"].as_str(),
            hunk["base"].as_str(),
            hunk["theirs"].as_str()
        ),
        (Some("two left\n"), Some("two\n"), Some("two mid\n"))
    );
    // Nothing is merged in any repository, and nothing is lost.
    for name in NAMES {
        assert_eq!(pair.on(name, SESSION, "list.txt"), LIST);
        let lines = [".fan-1-left", ".fan-1-mid", ".fan-1-right"].map(|line| format!("{SESSION}{line}"));
        assert_eq!(pair.branches(name), [&[SESSION.to_owned()][..], &lines].concat());
        assert_eq!(pair.lost(name), Vec::<String>::new());
        assert_eq!(pair.trees(name), 0);
    }
    assert_eq!(pair.users(), before);
}

#[tokio::test]
async fn conflicts_can_be_refused() {
    let pair = Pair::new();
    let behind = "join -> exit; join -> mend [condition=\"outcome=fail\"]; mend -> exit
        mend [tool_command=\"cat backend/list.txt > seen.txt; test ! -e backend/left.txt\"]";
    let result = pair.run(&three(", on_conflict=fail", behind, true)).await;
    succeeded(&result);
    assert_eq!(result.path.iter().last(), Some("exit"));
    assert!(result.path.iter().any(|node| node == "mend"));
    for name in NAMES {
        assert_eq!(pair.on(name, SESSION, "list.txt"), LIST);
        assert_eq!(pair.branches(name).len(), 4);
        assert_eq!(pair.lost(name), Vec::<String>::new());
    }
    assert_eq!(result.context.get("workspace.merged").unwrap().to_string(), "[]");
    assert_eq!(
        result
            .context
            .get("workspace.unmerged")
            .unwrap()
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

/// Answers the questions of a merge with the given answers in order.
async fn with_person(
    pair: &Pair,
    answers: &[&'static str],
    edits: bool,
) -> (orchestra_engine::RunResult, Vec<String>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (reported, folder) = (asked.clone(), pair.folder());
    let answers: Vec<&'static str> = answers.to_vec();
    let person = CallbackInterviewer::new(move |question| {
        let mut reported = reported.lock().unwrap();
        let turn = reported.len();
        reported.push(question.text.clone());
        if edits && turn + 1 == answers.len() {
            for name in NAMES {
                let file = folder
                    .join(".orchestra/worktrees/first/session")
                    .join(name)
                    .join("list.txt");
                assert!(std::fs::read_to_string(&file).unwrap().contains("<<<<<<<"));
                std::fs::write(file, "one\ntwo by hand\nthree\n").unwrap();
            }
        }
        let answer = answers[turn.min(answers.len() - 1)];
        async move { Ok(Answer::choice(answer)) }
    });
    let engine = pair.engine().interviewer(person).build().unwrap();
    let flow = pipeline(&three(", on_conflict=human", "join -> exit", true));
    let run = engine.start(flow, ()).run_id("first").await.unwrap();
    let result = run.wait().await.unwrap();
    let asked = asked.lock().unwrap().clone();
    (result, asked)
}

#[tokio::test]
async fn a_person_finishes_a_merge_by_hand_and_is_asked_again_while_markers_are_left() {
    let pair = Pair::new();
    let (result, asked) = with_person(&pair, &["D", "D"], true).await;
    succeeded(&result);
    assert_eq!(asked.len(), 2);
    assert!(
        asked[0].contains("backend: list.txt") && asked[0].contains(".orchestra/worktrees/first/session"),
        "{asked:?}"
    );
    assert!(
        asked[1].starts_with("Conflict markers are still left"),
        "{asked:?}"
    );
    for name in NAMES {
        assert_eq!(pair.on(name, SESSION, "list.txt"), "one\ntwo by hand\nthree\n");
        assert_eq!(pair.lost(name), Vec::<String>::new());
    }
    assert_eq!(
        result.context.get("workspace.merged").unwrap().to_string(),
        r#"["left","mid","right"]"#
    );
}

#[tokio::test]
async fn a_person_takes_a_side_or_refuses() {
    for (answer, line) in [("O", "two left"), ("T", "two right")] {
        let pair = Pair::new();
        let (result, _) = with_person(&pair, &[answer], false).await;
        succeeded(&result);
        for name in NAMES {
            assert_eq!(pair.on(name, SESSION, "list.txt"), LIST.replace("two", line));
            assert_eq!(pair.on(name, SESSION, "right.txt"), "right\n");
            assert_eq!(pair.lost(name), Vec::<String>::new());
        }
    }
    let pair = Pair::new();
    let (result, _) = with_person(&pair, &["R"], false).await;
    assert_eq!(result.status, RunStatus::Fail);
    assert!(
        result
            .failure
            .unwrap()
            .to_string()
            .contains("the branches conflict, and nothing is merged")
    );
    for name in NAMES {
        assert_eq!(pair.on(name, SESSION, "list.txt"), LIST);
        assert_eq!(pair.branches(name).len(), 4);
        assert_eq!(pair.lost(name), Vec::<String>::new());
    }
}

#[tokio::test]
async fn only_the_best_branch_is_merged_or_none() {
    for (policy, merged) in [("best_only", Some("left")), ("none", None)] {
        let pair = Pair::new();
        let result = pair
            .run(&three(&format!(", merge_policy={policy}"), "join -> exit", true))
            .await;
        succeeded(&result);
        for name in NAMES {
            let expected = merged.map_or("two".to_owned(), |branch| format!("two {branch}"));
            assert_eq!(
                pair.on(name, SESSION, "list.txt"),
                LIST.replace("two", &expected),
                "{policy}"
            );
            // The other branches stay for inspection.
            assert_eq!(pair.branches(name).len(), if merged.is_some() { 3 } else { 4 });
            assert_eq!(pair.lost(name), Vec::<String>::new());
        }
    }
}

#[tokio::test]
async fn a_branch_that_failed_is_not_merged_and_its_work_is_kept() {
    let pair = Pair::new();
    let text = "digraph t { node [shape=parallelogram]; start [shape=Mdiamond]; exit [shape=Msquare]
        start -> fan; fan [shape=component]; fan -> good -> join; fan -> bad -> join
        good [tool_command=\"echo good > backend/good.txt\"]
        bad [tool_command=\"echo bad > frontend/bad.txt; false\"]
        join [shape=tripleoctagon]; join -> exit }";
    let result = pair.run(text).await;
    succeeded(&result);
    assert_eq!(pair.on("backend", SESSION, "good.txt"), "good\n");
    assert!(
        !pair
            .git("frontend", &["ls-tree", "--name-only", "main"])
            .contains("bad.txt")
    );
    assert_eq!(
        pair.on("frontend", &format!("{SESSION}.fan-1-bad"), "bad.txt"),
        "bad\n"
    );
    let unmerged = result.context.get("workspace.unmerged").unwrap().to_string();
    assert_eq!(unmerged, r#"[{"branch":"bad","reason":"it failed"}]"#);
}

#[tokio::test]
async fn a_stage_that_changes_nothing_makes_no_commit_and_no_snapshot() {
    let pair = Pair::new();
    let text = "digraph t { node [shape=parallelogram]; start [shape=Mdiamond]; exit [shape=Msquare]
        start -> look -> write -> look2 -> exit
        look [tool_command=\"cat backend/list.txt\"]
        write [tool_command=\"echo x > backend/x.txt\"]
        look2 [tool_command=\"cat frontend/list.txt\"] }";
    let result = pair.run(text).await;
    succeeded(&result);
    assert_eq!(pair.log("backend", SESSION).len(), 1);
    assert_eq!(pair.log("frontend", SESSION).len(), 0);
    let events = std::fs::read_to_string(result.run_dir.unwrap().join("events.jsonl")).unwrap();
    assert_eq!(events.matches("\"SnapshotSaved\"").count(), 1);
}
