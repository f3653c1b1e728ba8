//! A process that lost its run to another process changes nothing in git.

use crate::pair;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use orchestra_engine::Engine;
use orchestra_workspace::{Git, GitCommand, GitError, GitOutput, GitWorkspace, SystemGit};
use pair::{NAMES, Pair, pipeline, succeeded};

/// A git that suspends its process before one call, and records the commands that ran after it was resumed.
struct Frozen {
    git: SystemGit,
    folder: std::path::PathBuf,
    at: usize,
    calls: AtomicUsize,
    /// The calls after the start of the run that were made without holding a repository lock.
    free: Mutex<Vec<usize>>,
    frozen: Mutex<Option<std::sync::mpsc::Sender<()>>>,
    thawed: Mutex<std::sync::mpsc::Receiver<()>>,
    ran: Mutex<Vec<String>>,
}

impl Git for Frozen {
    fn run(&self, command: &GitCommand) -> Result<GitOutput, GitError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let is_locked = |name: &&str| {
            let lock = self.folder.join(name).join(".git/orchestra.lock");
            std::fs::File::open(lock).is_ok_and(|file| file.try_lock().is_err())
        };
        if !NAMES.iter().any(is_locked) && run_of(&self.folder).join("manifest.json").exists() {
            self.free.lock().unwrap().push(call);
        }
        if call == self.at {
            self.frozen.lock().unwrap().take();
            let _ = self.thawed.lock().unwrap().recv();
        }
        let done = self.git.run(command);
        if call >= self.at && done.is_ok() {
            self.ran.lock().unwrap().push(command.name());
        }
        done
    }
}

fn run_of(folder: &Path) -> std::path::PathBuf {
    folder.join(".orchestra/runs/first")
}

/// Returns an engine whose git is suspended before a call, the sender that resumes it when dropped, and the receiver
/// that disconnects when the git is suspended.
fn frozen_at(
    pair: &Pair,
    at: usize,
) -> (
    Engine,
    Arc<Frozen>,
    std::sync::mpsc::Sender<()>,
    std::sync::mpsc::Receiver<()>,
) {
    let (thaw, thawed) = std::sync::mpsc::channel();
    let (frozen, is_frozen) = std::sync::mpsc::channel();
    let git = Arc::new(Frozen {
        git: SystemGit::find().unwrap(),
        folder: pair.folder(),
        at,
        calls: AtomicUsize::new(0),
        free: Mutex::default(),
        frozen: Mutex::new(Some(frozen)),
        thawed: Mutex::new(thawed),
        ran: Mutex::default(),
    });
    let mut builder = GitWorkspace::builder(pair.folder().join(".orchestra/worktrees")).git(git.clone());
    for name in NAMES {
        builder = builder.repository(name, pair.repository(name));
    }
    let engine = pair.engine().workspace(builder.build().unwrap());
    (engine.build().unwrap(), git, thaw, is_frozen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_that_lost_its_run_changes_nothing_in_git() {
    const FLOW: &str = "digraph t {
        node [shape=parallelogram]
        start [shape=Mdiamond]; exit [shape=Msquare]
        start -> one -> two -> exit
        one [tool_command=\"echo one > backend/one.txt\"]
        two [tool_command=\"echo two > frontend/two.txt\"]
    }";
    let calls = {
        let pair = Pair::new();
        let (engine, git, _thaw, _) = frozen_at(&pair, usize::MAX);
        let run = engine.start(pipeline(FLOW), ()).run_id("first");
        succeeded(&run.await.unwrap().wait().await.unwrap());
        git.free.lock().unwrap().clone()
    };
    assert!(calls.len() > 5, "{calls:?}");
    for at in calls.iter().copied().step_by(calls.len().div_ceil(8)) {
        let pair = Pair::new();
        let (old, git, thaw, is_frozen) = frozen_at(&pair, at);
        let first = tokio::spawn(async move {
            let run = old.start(pipeline(FLOW), ()).run_id("first").await;
            run.unwrap().wait().await
        });
        let frozen = tokio::task::spawn_blocking(move || is_frozen.recv());
        assert!(frozen.await.unwrap().is_err(), "it hangs up");
        let new = pair.engine().build().unwrap();
        let resumed = new.resume(run_of(&pair.folder()), pipeline(FLOW), ());
        succeeded(&resumed.take_over().await.unwrap().wait().await.unwrap());
        // If the run had ended before it was taken over, the worktrees stay until cleanup.
        let known = || NAMES.map(|name| (pair.git(name, &["for-each-ref"]), pair.trees(name)));
        let before = known();
        drop(thaw);
        assert!(first.await.unwrap().is_err(), "call {at}");
        assert_eq!(*git.ran.lock().unwrap(), [""; 0], "behind call {at}");
        assert_eq!(known(), before, "behind call {at}");
    }
}
