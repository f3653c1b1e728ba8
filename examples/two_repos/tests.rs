//! Runs the pipeline in simulation and for real. From each checkpoint, a run resumes with the worktrees of that
//! moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use orchestra::Outcome;
use orchestra::engine::{
    Durability, OpenedWorkspace, RunFolder, Snapshot, StageEnd, Workspace, WorkspaceEnd, WorkspaceError,
    WorkspaceFuture, WorkspaceRun, WorkspaceSession, WorkspaceStage,
};

use super::two_repos::Node;
use super::*;

#[test]
fn a_clean_merge_needs_nobody_to_settle_it() {
    let run = two_repos::simulate().run();
    run.assert_success();
    assert_eq!(run.taken(Node::Merge, Node::Order), 1);
    assert_eq!(run.taken(Node::Merge, Node::Settle), 0);
}

#[test]
fn both_sides_of_a_conflict_are_kept_and_nothing_of_what_was_before() {
    let text = "a\n<<<<<<< ours\nb\n||||||| base\nold\n=======\nc\n>>>>>>> theirs\nd\n";
    assert_eq!(both_sides(text), "a\nb\nc\nd\n");
}

/// The positions of the worktrees of each execution path: the commit in each repository.
type Lines = BTreeMap<String, BTreeMap<String, String>>;

/// The same when a stage received them first.
type Begun = Arc<Mutex<Lines>>;

/// Repositories that record the positions of the worktrees that they provide.
struct Looking {
    inner: GitWorkspace,
    begun: Begun,
}

struct LookingSession {
    inner: Arc<dyn WorkspaceSession>,
    begun: Begun,
}

impl Workspace for Looking {
    fn open<'w>(
        &'w self,
        run: WorkspaceRun<'w>,
    ) -> WorkspaceFuture<'w, Result<OpenedWorkspace, WorkspaceError>> {
        Box::pin(async move {
            let mut opened = self.inner.open(run).await?;
            opened.session = Arc::new(LookingSession {
                inner: opened.session,
                begun: self.begun.clone(),
            });
            Ok(opened)
        })
    }
}

impl WorkspaceSession for LookingSession {
    fn enter<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Workplace, WorkspaceError>> {
        Box::pin(async move {
            let given = self.inner.enter(stage).await?;
            let stands = given.repositories().map(|(name, folder)| {
                let words = ["rev-parse", "HEAD"];
                let said = SystemGit::find()
                    .unwrap()
                    .run(&GitCommand::new(folder).args(words));
                let sha = String::from_utf8(said.unwrap().stdout).unwrap();
                let mut stands = sha.trim().to_owned();
                // An unfinished merge is in the files, on top of that commit.
                let text = fs::read_to_string(folder.join("menu.txt")).unwrap_or_default();
                if text.contains("<<<<<<<") {
                    stands.push_str(" merging");
                }
                (name.to_owned(), stands)
            });
            let stands = stands.collect();
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            begun.entry(stage.path_id().to_owned()).or_insert(stands);
            Ok(given)
        })
    }

    fn leave<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
        outcome: Outcome,
    ) -> WorkspaceFuture<'s, (StageEnd, Option<Snapshot>)> {
        self.inner.leave(stage, outcome)
    }

    fn save<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Option<Snapshot>, WorkspaceError>> {
        self.inner.save(stage)
    }

    fn end(&self, end: WorkspaceEnd) -> WorkspaceFuture<'_, Result<(), WorkspaceError>> {
        self.inner.end(end)
    }
}

/// Returns the positions of the execution paths at each checkpoint, from the snapshots in the events.
fn checkpoints(events: &[RunEvent]) -> Vec<(String, Lines)> {
    let mut lines = Lines::new();
    let mut points: Vec<(String, Lines)> = vec![("cp_000000".to_owned(), Lines::new())];
    for event in events {
        match &event.kind {
            EventKind::SnapshotSaved { branch, snapshot, .. } => {
                let line = branch
                    .as_deref()
                    .map_or_else(|| "session".to_owned(), |branch| branch.replace(['#', ':'], "-"));
                let stands = snapshot.as_object().unwrap().iter().map(|(name, state)| {
                    let mut stands = state["git_sha"].as_str().unwrap().to_owned();
                    if state.get("merging").is_some() {
                        stands.push_str(" merging");
                    }
                    (name.clone(), stands)
                });
                lines.insert(line, stands.collect::<BTreeMap<_, _>>());
            }
            EventKind::CheckpointSaved { checkpoint, .. } if !checkpoint.is_empty() => {
                points.pop_if(|(name, _)| name == checkpoint);
                points.push((checkpoint.clone(), lines.clone()));
            }
            _ => {}
        }
    }
    points
}

#[tokio::test(flavor = "current_thread")]
async fn from_each_checkpoint_a_run_goes_on_in_trees_as_they_were_there() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().canonicalize().unwrap();
    let dir = DemoFolder::make(&folder).unwrap();
    let result = run(&dir).await.unwrap();
    assert_eq!(result.failure, None);
    let first = result.run_dir.unwrap();
    let events = RunFolder::open(&first).unwrap().events(1).unwrap();
    let events: Vec<RunEvent> = events
        .into_iter()
        .map(|event| serde_json::from_value(event).unwrap())
        .collect();
    let bases: BTreeMap<String, String> = ["backend", "frontend"]
        .map(|name| (name.to_owned(), dir.git(name, &["rev-parse", "main"]).unwrap()))
        .into();
    let mut points = checkpoints(&events);
    // The last one is the end, from which nothing resumes.
    let (_, last) = points.pop().unwrap();
    let last = last["session"].clone();
    assert!(points.len() >= 8, "{points:?}");
    let mut merging = 0;
    for (checkpoint, lines) in &points {
        let begun = Begun::default();
        let workspace = Looking {
            inner: dir.workspace().unwrap(),
            begun: begun.clone(),
        };
        let engine = Engine::builder()
            .workspace(workspace)
            .runs_dir(dir.runs())
            .durability(Durability::Process);
        let engine = engine.build().unwrap();
        let again = engine
            .replay(&first, checkpoint, &two_repos::PIPELINE, Team)
            .await;
        let again = again.unwrap().wait().await.unwrap();
        assert_eq!(again.failure, None, "{checkpoint}");
        let begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
        let main = lines.get("session");
        for (line, stands) in begun.iter() {
            // A branch begins at the position of the main path, which moves on until the branch begins.
            let moves = main.is_none() && line != "session";
            let expected = lines.get(line).or(main).unwrap_or(&bases);
            if !moves {
                assert_eq!(stands, expected, "line `{line}` from {checkpoint}");
                merging += usize::from(stands.values().any(|stands| stands.ends_with("merging")));
            }
        }
        assert!(
            begun.contains_key("session") || *main.unwrap_or(&bases) == last,
            "from {checkpoint} nothing was looked at"
        );
    }
    assert!(merging > 0, "no checkpoint had an open merge");
    for name in ["backend", "frontend"] {
        assert_eq!(dir.git(name, &["status", "--porcelain"]).unwrap(), "");
        assert_eq!(dir.git(name, &["rev-parse", "HEAD"]).unwrap(), bases[name]);
    }
}
