//! Tests of parallel blocks in real runs: branches that are not needed any longer really stop (rules P1 to P4).
use crate::support;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use orchestra_engine::{Engine, EventKind, Outcome, RunStatus, Script};
use support::{Acts, pipeline, run, start};

/// Returns a block of branches of kind `act` with attributes for the fan-out.
fn block(attributes: &str, branches: &[&str]) -> orchestra_graph::Pipeline {
    let edges: Vec<String> = branches
        .iter()
        .map(|branch| format!("fan -> {branch} -> join\n {branch} [type=act]"))
        .collect();
    pipeline(&format!(
        "digraph t {{ start -> fan; fan [shape=component, max_parallel=64, {attributes}]\n {}\n \
         join [shape=tripleoctagon]; join -> exit }}",
        edges.join("\n ")
    ))
}

/// Records the time at which it is dropped.
struct Dropped(Arc<Mutex<Option<Instant>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = Some(Instant::now());
    }
}

#[tokio::test]
async fn branches_run_at_the_same_time_and_the_path_is_in_the_order_of_the_edges() {
    let together = Arc::new(tokio::sync::Barrier::new(3));
    let mut acts = Acts::new();
    for branch in ["a", "b", "c"] {
        let together = together.clone();
        acts = acts.on(branch, move |_| {
            let together = together.clone();
            async move {
                together.wait().await;
                Outcome::success()
            }
        });
    }
    let result = run(block("", &["a", "b", "c"]), acts).await;
    assert_eq!(result.path, ["start", "a", "b", "c", "fan", "join", "exit"]);
    assert_eq!(result.context.get("parallel.success_count"), Some(&3.into()));
    assert_eq!(result.context.text("parallel.branch.b.status"), "success");
}

#[tokio::test]
async fn no_more_than_max_parallel_branches_run_at_once() {
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let branches: Vec<String> = (0..9).map(|at| format!("b{at}")).collect();
    let mut acts = Acts::new();
    for branch in &branches {
        let (now, most) = (now.clone(), most.clone());
        acts = acts.on(branch, move |_| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                Outcome::success()
            }
        });
    }
    let names: Vec<&str> = branches.iter().map(String::as_str).collect();
    let graph = block("", &names);
    let text = graph.source.replace("max_parallel=64", "max_parallel=2");
    assert!(run(pipeline(&text), acts).await.is_success());
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_branch_does_not_see_what_another_sets_and_the_parent_sees_neither() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut acts = Acts::new();
    for branch in ["a", "b"] {
        let seen = seen.clone();
        acts = acts.on(branch, move |stage| {
            seen.lock().unwrap().push(stage.context().text("color"));
            std::future::ready(Outcome::success().set("color", branch))
        });
    }
    let result = run(block("max_visits=9", &["a", "b"]), acts).await;
    assert_eq!(*seen.lock().unwrap(), ["", ""]);
    assert_eq!(result.context.get("color"), None);
    let results = result.context.get("parallel.results").unwrap();
    assert_eq!(results[1]["context_updates"]["color"], "b");
    assert_eq!(result.context.text("parallel.fan_in.best_id"), "a");
}

#[tokio::test]
async fn first_success_drops_the_others_at_once() {
    let dropped = Arc::new(Mutex::new(None));
    let held = dropped.clone();
    let acts = Acts::new()
        .on("slow", move |_| {
            let guard = Dropped(held.clone());
            async move {
                std::future::pending::<()>().await;
                drop(guard);
                Outcome::success()
            }
        })
        .on("fast", |_| async {
            tokio::task::yield_now().await;
            Outcome::success()
        });
    let began = Instant::now();
    let result = run(block("join_policy=first_success", &["slow", "fast"]), acts).await;
    assert!(result.is_success());
    let dropped = dropped.lock().unwrap().unwrap();
    // The branch would never end by itself.
    assert!(dropped.duration_since(began) < Duration::from_secs(30));
    assert_eq!(result.context.text("parallel.branch.slow.status"), "cancelled");
    assert_eq!(result.context.text("parallel.branch.fast.status"), "success");
}

#[cfg(unix)]
#[tokio::test]
async fn fail_fast_kills_the_tools_of_the_other_branches() {
    let dir = tempfile::tempdir().unwrap();
    let text = "digraph t { start -> fan; fan [shape=component, error_policy=fail_fast]
            fan -> long -> join; fan -> bad -> join
            long [shape=parallelogram, tool_command=\"echo $$ > pid; exec sleep 300\"]
            bad [shape=parallelogram, tool_command=\"while [ ! -s pid ]; do :; done; exit 3\"]
            join [shape=tripleoctagon]; join -> exit }";
    let engine = Engine::builder().working_dir(dir.path()).build().unwrap();
    let began = Instant::now();
    let result = engine
        .start(pipeline(text), ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_eq!(result.status, RunStatus::Fail);
    let reason = result.failure.unwrap().to_string();
    assert!(
        reason.contains("branch `bad`: ") && reason.contains("exit code 3"),
        "{reason}"
    );
    let pid: i32 = std::fs::read_to_string(dir.path().join("pid"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let alive = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    assert!(!alive.contains("sleep"), "{alive}");
}

#[tokio::test]
async fn events_tell_the_branches_and_which_stages_were_cut_short() {
    let acts = Acts::new()
        .on("slow", |_| std::future::pending())
        .fails("bad", "no disk");
    let run = start(block("error_policy=fail_fast", &["slow", "bad"]), acts).await;
    let mut events = run.events();
    let result = run.wait().await.unwrap();
    let mut reported = Vec::new();
    while let Some(event) = events.recv().await {
        match &event.kind {
            EventKind::ParallelStarted { branch_count, .. } => {
                reported.push(format!("started {branch_count}"))
            }
            EventKind::ParallelBranchStarted { branch, index, .. } => {
                reported.push(format!("{index} {branch}"))
            }
            EventKind::StageStarted { stage, .. } => {
                let branch = stage.branch.iter();
                reported.extend(branch.map(|branch| format!("{} in {branch}", stage.node)));
            }
            EventKind::StageCancelled { stage, .. } => reported.push(format!("{} cancelled", stage.node)),
            EventKind::ParallelBranchCompleted {
                branch,
                status,
                error,
                ..
            } => {
                let error = error.as_deref().unwrap_or("-");
                reported.push(format!("{branch} {} {error}", status.word()));
            }
            EventKind::ParallelCompleted {
                success_count,
                failure_count,
                ..
            } => {
                reported.push(format!("completed {success_count} {failure_count}"));
            }
            _ => {}
        }
    }
    assert_eq!(
        reported,
        [
            "started 2",
            "0 fan#1:slow",
            "slow in fan#1:slow",
            "1 fan#1:bad",
            "bad in fan#1:bad",
            "fan#1:bad fail stage `bad` failed: no disk",
            "slow cancelled",
            "fan#1:slow cancelled -",
            "completed 0 1",
        ]
    );
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `fan` failed: branch `bad`: stage `bad` failed: no disk"
    );
}

#[tokio::test]
async fn a_node_on_two_branches_keeps_its_files_apart() {
    let dir = tempfile::tempdir().unwrap();
    let text = "digraph t { start -> fan; fan [shape=component]; fan -> a -> both -> join; fan -> b -> both
        a [prompt=A]; b [prompt=B]; both [prompt=Both]; join [shape=tripleoctagon]; join -> exit }";
    let engine = Engine::builder().simulate(Script::new()).build().unwrap();
    let folder = dir.path().join("run");
    let run = engine.start(pipeline(text), ()).run_dir(&folder).await.unwrap();
    let result = run.wait().await.unwrap();
    assert_eq!(
        result.path,
        ["start", "a", "both", "b", "both", "fan", "join", "exit"]
    );
    for file in [
        "a/status.json",
        "both/branches/a/status.json",
        "both/branches/b/response.md",
    ] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    assert!(!folder.join("both/status.json").exists());
}

#[tokio::test]
async fn a_cancelled_run_drops_every_branch() {
    let left = Arc::new(AtomicU32::new(0));
    let began = Arc::new(AtomicU32::new(0));
    let mut acts = Acts::new();
    for branch in ["a", "b", "c"] {
        let (left, began) = (left.clone(), began.clone());
        acts = acts.on(branch, move |_| {
            struct Count(Arc<AtomicU32>);
            impl Drop for Count {
                fn drop(&mut self) {
                    self.0.fetch_add(1, Ordering::SeqCst);
                }
            }
            began.fetch_add(1, Ordering::SeqCst);
            let count = Count(left.clone());
            async move {
                let _count = count;
                std::future::pending().await
            }
        });
    }
    let run = start(block("", &["a", "b", "c"]), acts).await;
    while began.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    run.cancel("enough");
    let result = run.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Cancelled);
    assert_eq!(left.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_stage_that_panics_fails_its_branch_alone() {
    let ran = Arc::new(AtomicBool::new(false));
    let held = ran.clone();
    let acts = Acts::new()
        .on("bad", |_| -> std::future::Ready<Outcome> { panic!("oops") })
        .on("good", move |_| {
            held.store(true, Ordering::SeqCst);
            std::future::ready(Outcome::success())
        });
    let result = run(block("", &["bad", "good"]), acts).await;
    assert!(result.is_success() && ran.load(Ordering::SeqCst));
    assert_eq!(result.context.get("parallel.fail_count"), Some(&1.into()));
    assert_eq!(result.context.text("parallel.fan_in.best_id"), "good");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_the_block_cancels_its_branches_and_fails_it() {
    let acts = Acts::new().on("slow", |_| std::future::pending());
    let result = run(block("timeout=\"2m\"", &["slow", "fast"]), acts).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `fan` failed: timed out after 2m"
    );
    assert_eq!(result.context.text("parallel.branch.slow.status"), "cancelled");
    assert_eq!(result.context.text("parallel.branch.fast.status"), "success");
}

#[tokio::test]
async fn a_block_that_ends_in_time_leaves_no_timer() {
    let result = run(block("timeout=\"1h\"", &["a", "b"]), Acts::new()).await;
    assert!(result.is_success());
}
