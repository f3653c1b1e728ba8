//! A worktree of 10,000 files: creating it, and a stage that changes nothing or one file. Also the overhead of a
//! workspace for stages that may write but change nothing.

#[path = "../../../orchestra/workspace/tests/it/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::{Yard, message, write};
use orchestra_benches::measure::{Bench, middle, seconds};
use orchestra_engine::{
    BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine, EngineBuilder,
};
use orchestra_graph::{LoadOptions, Pipeline, Source, load};
use orchestra_workspace::GitWorkspace;

const FILES: usize = 10_000;
const ROUNDS: usize = 20;

/// Returns the median time of some rounds, in milliseconds.
fn median(rounds: usize, mut once: impl FnMut(usize)) -> f64 {
    let mut times: Vec<f64> = (0..rounds).map(|round| 1e3 * seconds(|| once(round))).collect();
    middle(&mut times)
}

pub(crate) fn measure(bench: &mut Bench) {
    if !bench.wants("git") {
        return;
    }
    let yard = Yard::bare_start(&[]);
    for number in 0..FILES {
        let path = format!("d{}/e{}/f{number}.txt", number % 50, number % 1000);
        yard.write(&path, &format!("file {number}\n"));
    }
    yard.commit_all("many files");
    let repository = yard.open();
    let base = repository.head().expect("a commit");
    let bare = median(5, |round| {
        let folder = format!("../bare{round}");
        yard.git(&["worktree", "add", "-q", "--detach", &folder, "HEAD"]);
    });
    let trees: Vec<_> = (0..5)
        .map(|round| yard.tree(&repository, &format!("line-{round}")))
        .collect();
    let made = median(5, |round| {
        trees[round].ensure(&base, &base).expect("the tree is made");
    });
    bench.record("git: a worktree of 10,000 files is made", "ms", made, bare, None);
    let tree = &trees[0];
    let status = median(ROUNDS, |_| {
        common::run(&tree.root(), &["status", "--porcelain"]);
    });
    let nothing = median(ROUNDS, |_| {
        assert!(tree.restore(&base).expect("it is restored").is_empty());
        assert!(!tree.changed().expect("it is compared"));
        assert_eq!(tree.commit(&message("nothing")).expect("no commit"), None);
    });
    bench.record("git: a stage that changes nothing", "ms", nothing, status, None);
    let one = median(ROUNDS, |round| {
        write(&tree.root(), "d1/new.txt", &round.to_string());
        assert!(tree.commit(&message("one file")).expect("a commit").is_some());
    });
    bench.record("git: a stage that changes one file", "ms", one, status, None);
    let alone = run(Engine::builder());
    let workspace = GitWorkspace::builder(yard.folder.path().join("worktrees"))
        .repository("backend", &yard.user)
        .git(common::git())
        .build()
        .expect("a workspace");
    let within = run(Engine::builder().workspace(workspace));
    bench.record(
        "git: a stage of a run, more than without",
        "ms",
        within - alone,
        status,
        None,
    );
}

/// A backend whose stages may write but change nothing.
struct Idle;

impl CodergenBackend for Idle {
    async fn run(&self, _: CodergenRequest) -> Result<CodergenReply, BackendError> {
        Ok("nothing".into())
    }
}

const STAGES: usize = 50;

/// Returns the median duration of a stage in milliseconds, without the first ones, which wait for the creation of the
/// worktree.
fn run(builder: EngineBuilder) -> f64 {
    let names: Vec<String> = (0..STAGES).map(|stage| format!("s{stage}")).collect();
    let text = format!(
        "digraph {{ node [prompt=x]; start -> {} -> exit }}",
        names.join(" -> ")
    );
    let pipeline: Pipeline = load(Source::new("a.dot", text), &LoadOptions::default())
        .pipeline()
        .expect("the run works");
    let engine = builder.backend(Idle).build().expect("the run works");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("the run works");
    runtime.block_on(async {
        let run = engine.start(pipeline, ()).await.expect("the run works");
        let mut events = run.events();
        let mut times = Vec::new();
        while let Some(event) = events.recv().await {
            if event.kind.name() == "StageCompleted" {
                times.push(Instant::now());
            }
        }
        assert!(run.wait().await.expect("the run works").is_success());
        let mut took: Vec<Duration> = times[2..STAGES].windows(2).map(|two| two[1] - two[0]).collect();
        took.sort();
        1e3 * took[took.len() / 2].as_secs_f64()
    })
}
