//! Benchmarks a worktree of 10,000 files: creating it, and a stage that changes nothing or one file. Also measures the
//! overhead of a workspace for stages that may write but change nothing.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

#[path = "../tests/it/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::{Yard, message, write};
use orchestra_engine::{
    BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine, EngineBuilder,
};
use orchestra_graph::{LoadOptions, Pipeline, Source, load};
use orchestra_workspace::GitWorkspace;

const FILES: usize = 10_000;
const ROUNDS: usize = 20;

/// Prints the median time of some rounds.
fn measure(name: &str, rounds: usize, mut once: impl FnMut(usize)) {
    let mut times: Vec<Duration> = Vec::new();
    for round in 0..rounds {
        let began = Instant::now();
        once(round);
        times.push(began.elapsed());
    }
    times.sort();
    println!("{name:40} {:>12.3?}", times[rounds / 2]);
}

fn main() {
    let yard = Yard::bare_start(&[]);
    for number in 0..FILES {
        let path = format!("d{}/e{}/f{number}.txt", number % 50, number % 1000);
        yard.write(&path, &format!("file {number}\n"));
    }
    yard.commit_all("many files");
    let repository = yard.open();
    let base = repository.head().unwrap();
    let bare = |round: usize| {
        yard.git(&[
            "worktree",
            "add",
            "-q",
            "--detach",
            &format!("../bare{round}"),
            "HEAD",
        ]);
    };
    measure("git worktree add, as a measure", 5, bare);
    let trees: Vec<_> = (0..5)
        .map(|round| yard.tree(&repository, &format!("line-{round}")))
        .collect();
    measure("a tree is made", 5, |round| {
        trees[round].ensure(&base, &base).unwrap();
    });
    let tree = &trees[0];
    measure("a stage that changes nothing", ROUNDS, |_| {
        assert!(tree.restore(&base).unwrap().is_empty() && !tree.changed().unwrap());
        assert_eq!(tree.commit(&message("nothing")).unwrap(), None);
    });
    measure("a stage that changes one file", ROUNDS, |round| {
        write(&tree.root(), "d1/new.txt", &round.to_string());
        assert!(tree.commit(&message("one file")).unwrap().is_some());
    });
    let alone = run(Engine::builder());
    let workspace = GitWorkspace::builder(yard.folder.path().join("worktrees"))
        .repository("backend", &yard.user)
        .git(common::git())
        .build()
        .unwrap();
    let within = run(Engine::builder().workspace(workspace));
    let more = within.saturating_sub(alone);
    println!("{:40} {more:>12.3?}", "a stage of a run, more than without");
}

/// A backend whose stages may write but change nothing.
struct Idle;

impl CodergenBackend for Idle {
    async fn run(&self, _: CodergenRequest) -> Result<CodergenReply, BackendError> {
        Ok("nothing".into())
    }
}

const STAGES: usize = 50;

/// Returns the median duration of a stage, without the first ones, which wait for the creation of the worktree.
fn run(builder: EngineBuilder) -> Duration {
    let names: Vec<String> = (0..STAGES).map(|stage| format!("s{stage}")).collect();
    let text = format!(
        "digraph {{ node [prompt=x]; start -> {} -> exit }}",
        names.join(" -> ")
    );
    let pipeline: Pipeline = load(Source::new("a.dot", text), &LoadOptions::default())
        .pipeline()
        .unwrap();
    let engine = builder.backend(Idle).build().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let run = engine.start(pipeline, ()).await.unwrap();
        let mut events = run.events();
        let mut times = Vec::new();
        while let Some(event) = events.recv().await {
            if event.kind.name() == "StageCompleted" {
                times.push(Instant::now());
            }
        }
        assert!(run.wait().await.unwrap().is_success());
        let mut took: Vec<Duration> = times[2..STAGES].windows(2).map(|two| two[1] - two[0]).collect();
        took.sort();
        took[took.len() / 2]
    })
}
