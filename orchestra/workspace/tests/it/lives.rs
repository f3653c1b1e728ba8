//! Worktrees of runs that are nested, restarted, paused, replayed, and edited by a person.

use crate::pair;

use std::path::Path;
use std::sync::{Arc, Mutex};

use orchestra_engine::{
    Answer, BackendError, CodergenBackend, CodergenReply, CodergenRequest, RunResult, RunStatus,
};
use orchestra_graph::Stage;
use pair::{NAMES, Pair, git, pipeline, succeeded};

const SESSION: &str = "orchestra/t/first";

/// A backend whose stages execute the commands in their prompt like a shell. `wait` blocks forever the first time.
#[derive(Clone, Default)]
struct Shell {
    seen: Arc<Mutex<Vec<String>>>,
}

impl Shell {
    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl CodergenBackend for Shell {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let scratch = request.stage.workplace().unwrap().clone();
        let heads: Vec<String> = scratch
            .repositories()
            .map(|(name, folder)| format!("{name} {}", git(folder, &["rev-parse", "HEAD"]).trim()))
            .collect();
        let node = request.stage.node().id().to_owned();
        for line in request.prompt.split(';').map(str::trim) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["write", file, text] => {
                    let file = scratch.root().join(file);
                    std::fs::write(file, format!("{text}\n")).unwrap();
                }
                ["where"] => {
                    let seen = format!("{node} {}", scratch.root().display());
                    self.seen.lock().unwrap().push(seen);
                }
                ["heads"] => self
                    .seen
                    .lock()
                    .unwrap()
                    .push(format!("{node} {}", heads.join(" "))),
                ["wait"] if !request.stage.is_repeat() => {
                    self.seen.lock().unwrap().push("waits".to_owned());
                    std::future::pending::<()>().await;
                }
                ["wait"] | ["nothing"] => {}
                ["fail"] => return Err(BackendError::retryable("it fails")),
                _ => panic!("`{line}` is unknown"),
            }
        }
        Ok("done".into())
    }

    fn may_write(&self, stage: Stage<'_>) -> bool {
        stage
            .text("prompt")
            .is_none_or(|prompt| prompt.contains("write") || prompt.contains("wait"))
    }
}

async fn run(pair: &Pair, shell: &Shell, text: &str) -> RunResult {
    let engine = pair.engine().backend(shell.clone()).build().unwrap();
    let run = engine.start(pipeline(text), ()).run_id("first").await.unwrap();
    run.wait().await.unwrap()
}

#[tokio::test]
async fn blocks_within_blocks_are_merged_from_the_inside() {
    let pair = Pair::new();
    let text = r#"digraph t { start -> fan; fan [shape=component]
        fan -> in; in [shape=component]; in -> a -> inner; in -> b -> inner; inner [shape=tripleoctagon]
        inner -> c -> join; fan -> d -> join; join [shape=tripleoctagon]; join -> exit
        a [prompt="write backend/a.txt a"]; b [prompt="write frontend/b.txt b"]
        c [prompt="write backend/c.txt c; where"]; d [prompt="write backend/d.txt d"] }"#;
    let shell = Shell::default();
    succeeded(&run(&pair, &shell, text).await);
    assert!(
        shell.seen()[0].ends_with("worktrees/first/fan-1-in"),
        "{:?}",
        shell.seen()
    );
    for (name, files) in [("backend", "a.txt c.txt d.txt"), ("frontend", "b.txt")] {
        let tree = git(&pair.repository(name), &["ls-tree", "--name-only", SESSION]);
        for file in files.split(' ') {
            assert!(tree.contains(file), "{tree}");
        }
        assert_eq!((pair.branches(name).len(), pair.trees(name)), (1, 0));
        assert_eq!(pair.lost(name), Vec::<String>::new());
    }
    let merges = pair.log("backend", SESSION);
    assert_eq!(merges, ["join: merge `d`", "join: merge `in`"]);
}

#[tokio::test]
async fn stages_that_only_read_have_no_trees_of_their_own() {
    let pair = Pair::new();
    let text = r#"digraph t { start -> a -> fan; a [prompt="write backend/a.txt a"]; fan [shape=component]
        fan -> look -> join; fan -> edit -> join; join [shape=tripleoctagon]; join -> exit
        look [prompt="where; heads"]; edit [prompt="write backend/e.txt e; where"] }"#;
    let shell = Shell::default();
    succeeded(&run(&pair, &shell, text).await);
    let mut seen = shell.seen();
    seen.sort();
    assert!(
        seen[0].starts_with("edit ") && seen[0].ends_with("/first/fan-1-edit"),
        "{seen:?}"
    );
    let first = git(
        &pair.repository("backend"),
        &["rev-parse", &format!("{SESSION}^1")],
    );
    assert!(
        seen.iter().any(|reported| reported.contains(first.trim())),
        "{seen:?}"
    );
    assert!(
        seen.iter()
            .any(|reported| reported.starts_with("look ") && reported.ends_with("/first/session")),
        "{seen:?}"
    );
}

#[tokio::test]
async fn branches_that_meet_at_a_stage_are_merged_before_it() {
    let pair = Pair::new();
    let text = r#"digraph t { start -> fan; fan [shape=component]; fan -> a -> both; fan -> b -> both; both -> exit
        a [prompt="write backend/a.txt a"]; b [prompt="write backend/b.txt b"]; both [prompt="write backend/c.txt c; heads"] }"#;
    let shell = Shell::default();
    let result = run(&pair, &shell, text).await;
    succeeded(&result);
    assert_eq!(
        pair.log("backend", SESSION),
        [
            "both: Stage completed: both",
            "both: merge `b`",
            "both: merge `a`"
        ]
    );
    assert_eq!(
        result.context.get("workspace.merged").unwrap().to_string(),
        r#"["a","b"]"#
    );
    let refused = r#"digraph t { start -> fan; fan [shape=component]; fan -> a -> exit; fan -> b -> exit
        a [prompt="write backend/a.txt a"]; b [prompt="write backend/b.txt b"] }"#;
    let pair = Pair::new();
    let result = run(&pair, &shell, refused).await;
    assert_eq!(result.status, RunStatus::Fail);
    assert!(result.failure.unwrap().to_string().contains("put a fan-in"));
}

#[tokio::test]
async fn a_restarted_run_begins_again_from_the_base_and_keeps_what_was_done() {
    let pair = Pair::new();
    let text = r#"digraph t { start -> a; a -> b
        b -> a [condition="outcome=fail", loop_restart=true]; b -> exit
        a [prompt="heads; write backend/a.txt a"]
        b [shape=parallelogram, tool_command="test -e ../../../../again || { touch ../../../../again; exit 1; }"] }"#;
    let shell = Shell::default();
    let result = run(&pair, &shell, text).await;
    succeeded(&result);
    let seen = shell.seen();
    assert_eq!((seen.len(), &seen[0]), (2, &seen[1]), "both began at the base");
    assert_eq!(
        pair.branches("backend"),
        [SESSION, &format!("{SESSION}.restart-1")]
    );
    assert_eq!(pair.log("backend", SESSION).len(), 1);
    assert_eq!(pair.log("backend", &format!("{SESSION}.restart-1")).len(), 1);
}

#[tokio::test]
async fn children_work_in_the_trees_of_the_stage_that_runs_them() {
    let pair = Pair::new();
    let child = r#"digraph child { start -> fan; fan [shape=component]; fan -> x -> join; fan -> y -> join
        join [shape=tripleoctagon]; join -> z -> exit
        x [prompt="write backend/x.txt x"]; y [prompt="write frontend/y.txt y"]; z [prompt="write backend/z.txt z; where"] }"#;
    let read = |path: &str, _: u64| match path {
        "child.dot" => Ok(child.as_bytes().to_vec()),
        _ => Err(orchestra_graph::ReadError::Missing),
    };
    let options = orchestra_graph::LoadOptions {
        children: Some(&read),
        ..orchestra_graph::LoadOptions::default()
    };
    let text = r#"digraph t { start -> a -> sub -> b -> exit; a [prompt="write backend/a.txt a"]
        sub [shape=folder, "subpipeline.file"="child.dot"]; b [prompt="write frontend/b.txt b; heads"] }"#;
    let loaded = orchestra_graph::load(orchestra_graph::Source::new("t.dot", text), &options);
    let parent = loaded.pipeline().unwrap();
    let shell = Shell::default();
    let engine = pair.engine().backend(shell.clone()).build().unwrap();
    let run = engine.start(parent, ()).run_id("first").await.unwrap();
    succeeded(&run.wait().await.unwrap());
    assert!(shell.seen()[0].ends_with("/first/session"), "{:?}", shell.seen());
    for (name, files) in [("backend", "a.txt x.txt z.txt"), ("frontend", "b.txt y.txt")] {
        let tree = git(&pair.repository(name), &["ls-tree", "--name-only", SESSION]);
        for file in files.split(' ') {
            assert!(tree.contains(file), "{name}: {file} is not in {tree}");
        }
        assert_eq!((pair.branches(name).len(), pair.trees(name)), (1, 0));
    }
}

#[tokio::test]
async fn what_an_interrupted_stage_did_is_set_aside_and_what_a_person_did_is_kept() {
    let pair = Pair::new();
    let text = r#"digraph t { start -> a -> b -> exit; a [prompt="write backend/a.txt a"]
        b [prompt="heads; write backend/half.txt half; wait; write backend/b.txt b"] }"#;
    let shell = Shell::default();
    let engine = pair.engine().backend(shell.clone()).build().unwrap();
    let run = engine.start(pipeline(text), ()).run_id("first").await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    while !shell.seen().contains(&"waits".to_owned()) {
        tokio::task::yield_now().await;
    }
    run.pause("lunch");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
    let tree = pair.folder().join(".orchestra/worktrees/first/session/backend");
    assert!(
        tree.join("half.txt").exists(),
        "a paused run's trees stay as they are"
    );
    std::fs::write(tree.join("half.txt"), "more than half\n").unwrap();
    let result = engine
        .resume(&folder, pipeline(text), ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    succeeded(&result);
    let seen = shell.seen();
    assert_eq!(seen[0], seen[2], "it began again where it had begun");
    assert_eq!(pair.log("backend", SESSION).len(), 2);
    let kept = pair.git(
        "backend",
        &["for-each-ref", "--format=%(refname)", "refs/orchestra/kept"],
    );
    let kept = kept.lines().next().expect("the interrupted work is kept");
    assert_eq!(
        pair.git("backend", &["show", &format!("{kept}:half.txt")]),
        "more than half\n"
    );
    assert_eq!(pair.lost("backend"), Vec::<String>::new());
}

#[tokio::test]
async fn a_replay_begins_at_the_snapshot_of_its_checkpoint_on_a_branch_of_its_own() {
    let pair = Pair::new();
    let text = r#"digraph t { start -> a -> b -> c -> exit; a [prompt="write backend/a.txt a; heads"]
        b [prompt="write frontend/b.txt b; heads"]; c [prompt="write backend/c.txt c; heads"] }"#;
    let shell = Shell::default();
    let result = run(&pair, &shell, text).await;
    succeeded(&result);
    let engine = pair.engine().backend(shell.clone()).build().unwrap();
    let folder = result.run_dir.unwrap();
    let replayed = engine
        .replay(&folder, "b#1/1", pipeline(text), ())
        .run_id("second")
        .await
        .unwrap();
    succeeded(&replayed.wait().await.unwrap());
    let seen = shell.seen();
    assert_eq!(seen[2], seen[3], "`c` began where it had begun before");
    assert_eq!(pair.branches("backend"), [SESSION, "orchestra/t/second"]);
    assert_eq!(
        pair.log("frontend", "orchestra/t/second"),
        pair.log("frontend", SESSION)
    );
}

#[tokio::test]
async fn many_runs_at_once_do_not_disturb_each_other() {
    let pair = Pair::new();
    let before = pair.users();
    let text = r#"digraph t { start -> fan; fan [shape=component]; fan -> a -> join; fan -> b -> join
        join [shape=tripleoctagon]; join -> exit
        a [prompt="write backend/a.txt a"]; b [prompt="write frontend/b.txt b"] }"#;
    let shell = Shell::default();
    let engine = pair.engine().backend(shell).build().unwrap();
    let mut runs = Vec::new();
    for number in 0..4 {
        let run = engine
            .start(pipeline(text), ())
            .run_id(format!("run{number}"))
            .await
            .unwrap();
        runs.push(tokio::spawn(run.wait()));
    }
    for run in runs {
        succeeded(&run.await.unwrap().unwrap());
    }
    for name in NAMES {
        assert_eq!((pair.branches(name).len(), pair.trees(name)), (4, 0));
        assert_eq!(pair.lost(name), Vec::<String>::new());
    }
    assert_eq!(pair.users(), before);
    assert!(!Path::new(&pair.folder().join(".orchestra/worktrees/run0")).exists());
}

/// Two branches that change the same line, followed by the given stages.
fn conflict(join: &str, behind: &str) -> String {
    format!(
        r#"digraph t {{ start -> fan; fan [shape=component]; fan -> a -> join; fan -> b -> join
        a [prompt="write backend/same.txt a; write frontend/a.txt a"]; b [prompt="write backend/same.txt b"]
        join [shape=tripleoctagon {join}]; {behind} }}"#
    )
}

#[tokio::test]
async fn one_node_may_join_a_block_and_that_around_it() {
    let pair = Pair::new();
    let text = r#"digraph t { start -> fan; fan [shape=component]
        fan -> in; in [shape=component]; in -> a -> join; in -> b -> join; fan -> d -> join
        join [shape=tripleoctagon]; join -> exit
        a [prompt="write backend/a.txt a"]; b [prompt="write frontend/b.txt b"]; d [prompt="write backend/d.txt d"] }"#;
    let result = run(&pair, &Shell::default(), text).await;
    succeeded(&result);
    assert_eq!(
        pair.log("backend", SESSION),
        ["join: merge `d`", "join: merge `in/a`"]
    );
    assert_eq!(pair.log("frontend", SESSION), ["join: merge `in/b`"]);
    assert_eq!(pair.trees("backend") + pair.trees("frontend"), 0);
}

#[tokio::test]
async fn a_merge_that_is_open_is_in_the_way_of_the_next_one_and_of_every_end() {
    let shell = Shell::default();
    let again = conflict(
        "",
        r#"join -> more; more [shape=component]; more -> c -> last; more -> d -> last; last [shape=tripleoctagon]
        last -> exit; last -> late [condition="outcome=fail"]; late -> exit
        c [prompt="write backend/c.txt c"]; d [prompt="write backend/d.txt d"]; late [prompt="write backend/late.txt l"]"#,
    );
    let ends = conflict(
        "",
        r#"join -> exit [condition="context.never=1"]; join -> look; look [prompt=nothing, end=success]"#,
    );
    for text in [again, ends] {
        let pair = Pair::new();
        let result = run(&pair, &shell, &text).await;
        assert_eq!(result.status, RunStatus::Fail, "{text}");
        let reason = result.failure.unwrap().to_string();
        assert!(reason.contains("not finished"), "{reason}");
        for name in NAMES {
            assert_eq!(
                pair.log(name, SESSION),
                Vec::<String>::new(),
                "nothing is merged in any repository"
            );
            assert_eq!(pair.lost(name), Vec::<String>::new());
            assert_eq!(pair.trees(name), 0);
        }
        assert!(pair.branches("backend").contains(&format!("{SESSION}.fan-1-b")));
    }
}

#[tokio::test]
async fn a_run_that_is_given_up_elsewhere_leaves_no_markers_on_its_branch() {
    let pair = Pair::new();
    let text = conflict(
        "",
        r#"join -> gate; gate [shape=hexagon]; gate -> mend [label="[M] Mend"]; gate -> exit [label="[A] Abandon"]
        mend [prompt="write backend/same.txt both"]; mend -> exit"#,
    );
    let shell = Shell::default();
    let first = pair.engine().backend(shell.clone()).build().unwrap();
    let run = first.start(pipeline(&text), ()).run_id("first").await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    run.pause("later");
    run.wait().await.unwrap();
    let file = pair
        .folder()
        .join(".orchestra/worktrees/first/session/backend/same.txt");
    assert!(std::fs::read_to_string(file).unwrap().contains("<<<<<<<"));
    let second = pair.engine().backend(shell).build().unwrap();
    let run = second.resume(&folder, pipeline(&text), ()).await.unwrap();
    while run.answer("gate", Answer::choice("A")).is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Fail);
    for name in NAMES {
        assert_eq!(pair.log(name, SESSION), Vec::<String>::new());
        assert_eq!((pair.trees(name), pair.lost(name)), (0, Vec::new()));
    }
}

#[tokio::test]
async fn a_person_may_go_on_with_a_merge_while_the_run_is_paused() {
    let pair = Pair::new();
    let text = conflict(", on_conflict=human", "join -> exit");
    let shell = Shell::default();
    // Nobody is there to answer, so the run waits.
    let engine = pair.engine().backend(shell.clone()).build().unwrap();
    let run = engine.start(pipeline(&text), ()).run_id("first").await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
    let file = pair
        .folder()
        .join(".orchestra/worktrees/first/session/backend/same.txt");
    assert!(std::fs::read_to_string(&file).unwrap().contains("<<<<<<<"));
    std::fs::write(&file, "by hand\n").unwrap();
    let person = orchestra_engine::CallbackInterviewer::new(|_| async { Ok(Answer::choice("D")) });
    let engine = pair.engine().backend(shell).interviewer(person).build().unwrap();
    let result = engine
        .resume(&folder, pipeline(&text), ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    succeeded(&result);
    assert_eq!(pair.on("backend", SESSION, "same.txt"), "by hand\n");
    assert_eq!(pair.on("frontend", SESSION, "a.txt"), "a\n");
}

#[tokio::test]
async fn a_run_that_asks_how_to_merge_can_be_cancelled() {
    let pair = Pair::new();
    let text = conflict(", on_conflict=human", "join -> exit");
    let silent = orchestra_engine::CallbackInterviewer::new(|_| std::future::pending());
    let engine = pair
        .engine()
        .backend(Shell::default())
        .interviewer(silent)
        .build()
        .unwrap();
    let run = engine.start(pipeline(&text), ()).run_id("first").await.unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    run.cancel("enough");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Cancelled);
    for name in NAMES {
        assert_eq!(pair.log(name, SESSION), Vec::<String>::new());
        assert_eq!((pair.trees(name), pair.lost(name)), (0, Vec::new()));
    }
}

#[tokio::test]
async fn what_a_person_changes_while_branches_run_is_merged_too() {
    let pair = Pair::new();
    let text = r#"digraph t { start -> first -> fan; first [prompt="write backend/first.txt f"]; fan [shape=component]
        fan -> a -> join; fan -> gate; gate [shape=hexagon]; gate -> b [label="[G] Go"]; b -> join
        join [shape=tripleoctagon]; join -> exit
        a [prompt="write backend/a.txt a"]; b [prompt="write backend/b.txt b"] }"#;
    let engine = pair.engine().backend(Shell::default()).build().unwrap();
    let run = engine.start(pipeline(text), ()).run_id("first").await.unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    let tree = pair.folder().join(".orchestra/worktrees/first/session/backend");
    std::fs::write(tree.join("mine.txt"), "mine\n").unwrap();
    run.answer("gate", Answer::choice("G")).unwrap();
    succeeded(&run.wait().await.unwrap());
    assert_eq!(pair.on("backend", SESSION, "mine.txt"), "mine\n");
    assert_eq!(pair.on("backend", SESSION, "b.txt"), "b\n");
}
