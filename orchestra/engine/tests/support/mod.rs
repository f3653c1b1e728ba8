//! Shared parts of the engine's tests: pipelines from text, and stages with scripted behaviour.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use orchestra_engine::{
    Access, Engine, EventKind, FieldSpec, FieldType, FileSystem, Handler, HandlerFuture, HandlerSet,
    KindSpec, Kinds, OpenFile, Outcome, Registry, RunEvent, RunHandle, RunResult, StageContext, StageEnd,
    SystemFiles, Words,
};
use orchestra_graph::{LoadOptions, Pipeline, Source, load};
use serde_json::Value;

/// Parses a whole pipeline.
pub(crate) fn pipeline(text: &str) -> Pipeline {
    let loaded = load(Source::new("t.dot", text), &LoadOptions::default());
    loaded.pipeline().unwrap_or_else(|| {
        let faults: Vec<String> = loaded
            .report
            .errors()
            .map(|fault| format!("{}: {}", fault.code, fault.message))
            .collect();
        panic!("{faults:#?}\n{text}")
    })
}

/// Returns a pipeline of stages of kind `act` with these edges.
pub(crate) fn acts(edges: &str) -> Pipeline {
    pipeline(&format!(
        "digraph t {{\n    node [type=act]\n    start [shape=Mdiamond, type=start]\n    \
         exit [shape=Msquare, type=exit]\n    {edges}\n}}"
    ))
}

type Act = Arc<dyn Fn(StageContext) -> HandlerFuture<'static> + Send + Sync>;

/// Handlers of kind `act`. Each node does what the test configured, or succeeds.
#[derive(Clone, Default)]
pub(crate) struct Acts {
    acts: HashMap<String, Act>,
}

impl Acts {
    pub(crate) fn new() -> Acts {
        Acts::default()
    }

    pub(crate) fn on<F>(self, node: &str, act: impl Fn(StageContext) -> F + Send + Sync + 'static) -> Acts
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.ends(node, move |stage| {
            let outcome = act(stage);
            async move { outcome.await.into() }
        })
    }

    /// Like [`on`](Acts::on), for a stage that may return a suspension.
    pub(crate) fn ends<F>(
        mut self,
        node: &str,
        act: impl Fn(StageContext) -> F + Send + Sync + 'static,
    ) -> Acts
    where
        F: Future<Output = StageEnd> + Send + 'static,
    {
        self.acts
            .insert(node.to_owned(), Arc::new(move |stage| Box::pin(act(stage))));
        self
    }

    /// Sets the outcomes of a node, one per visit. The last one repeats.
    pub(crate) fn gives(self, node: &str, outcomes: impl IntoIterator<Item = Outcome>) -> Acts {
        let outcomes: Vec<Outcome> = outcomes.into_iter().collect();
        self.on(node, move |stage| {
            let at = (stage.visit() as usize - 1).min(outcomes.len() - 1);
            std::future::ready(outcomes[at].clone())
        })
    }

    pub(crate) fn fails(self, node: &str, reason: &str) -> Acts {
        self.gives(node, [Outcome::fail(reason)])
    }
}

impl Handler for Acts {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        match self.acts.get(stage.node().id()) {
            Some(act) => act(stage),
            None => Box::pin(async { Outcome::success().into() }),
        }
    }
}

const ACT: KindSpec = KindSpec {
    kind: "act",
    fields: &[&[FieldSpec {
        name: "strictness",
        ty: FieldType::Integer,
        required: false,
    }]],
    words: Words::Open,
};

impl HandlerSet for Acts {
    const KINDS: Kinds = Kinds::List(&[ACT]);

    fn register(self, registry: &mut Registry) {
        registry.add(ACT, Arc::new(self));
    }
}

pub(crate) fn engine() -> Engine {
    Engine::builder().build().unwrap()
}

pub(crate) async fn start(pipeline: Pipeline, acts: Acts) -> RunHandle {
    engine().start(pipeline, acts).await.unwrap()
}

pub(crate) async fn run(pipeline: Pipeline, acts: Acts) -> RunResult {
    start(pipeline, acts).await.wait().await.unwrap()
}

/// Runs a pipeline to its end in a folder.
pub(crate) async fn run_in(folder: &Path, pipeline: Pipeline, acts: Acts) -> RunResult {
    let engine = Engine::builder().runs_dir(folder).build().unwrap();
    let run = engine.start(pipeline, acts).run_id("one").await.unwrap();
    run.wait().await.unwrap()
}

/// Returns an engine that collects all events.
pub(crate) fn listening() -> (Engine, Arc<Mutex<Vec<RunEvent>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let list = heard.clone();
    let engine = Engine::builder()
        .on_event(move |event| list.lock().unwrap().push(event.clone()))
        .build()
        .unwrap();
    (engine, heard)
}

/// Returns an event as a short line.
pub(crate) fn short(event: &RunEvent) -> String {
    let name = event.kind.name();
    match &event.kind {
        EventKind::StageStarted { stage, .. }
        | EventKind::StageCompleted { stage, .. }
        | EventKind::StageFailed { stage, .. } => format!("{name} {}", stage.node),
        EventKind::CheckpointSaved { node, .. } => format!("{name} {node}"),
        EventKind::StageLog { node, message } => format!("{name} {node}: {message}"),
        EventKind::EdgeSelected {
            from, to: Some(to), ..
        } => format!("{name} {from} -> {to}"),
        EventKind::EdgeSelected { from, .. } => format!("{name} {from} -> nowhere"),
        _ => name.to_owned(),
    }
}

/// Returns the files below a folder, in order, with `/` between folders.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    fn walk(root: &Path, folder: PathBuf, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, path, found);
            } else {
                let name = path.strip_prefix(root).unwrap().to_string_lossy();
                found.push(name.replace('\\', "/"));
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder.to_owned(), &mut found);
    found.sort();
    found
}

pub(crate) fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path.as_ref())
        .unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

pub(crate) fn json(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&text(path)).unwrap()
}

/// Returns the lines of the event file.
pub(crate) fn event_lines(run_dir: &Path) -> Vec<Value> {
    let lines = text(run_dir.join("events.jsonl"));
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A clock that follows tokio's, whose time a test may pause.
#[derive(Clone)]
pub(crate) struct TestClock(tokio::time::Instant);

pub(crate) fn clock() -> TestClock {
    TestClock(tokio::time::Instant::now())
}

impl orchestra_engine::Clock for TestClock {
    fn now(&self) -> orchestra_engine::Timestamp {
        let millis = 1_795_275_000_000 + self.0.elapsed().as_millis() as u64;
        orchestra_engine::Timestamp::from_millis(millis)
    }

    fn elapsed(&self) -> std::time::Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: std::time::Duration) -> orchestra_engine::Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A file system call that a test is notified of.
pub(crate) enum FileCall<'a> {
    /// The engine has checked whether a file has a name.
    Looked,
    /// The engine is about to write to a file.
    Writes(&'a Path),
    /// The engine is about to sync a file. The sync itself is skipped, because no test simulates a loss of power.
    Syncs(&'a Path),
}

type FileHook = dyn Fn(FileCall<'_>) -> io::Result<()> + Send + Sync;

/// The files of the system, with a test hook that may fail a call.
pub(crate) struct HookedFiles(Box<FileHook>);

impl HookedFiles {
    pub(crate) fn new(
        hook: impl Fn(FileCall<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Arc<HookedFiles> {
        Arc::new(HookedFiles(Box::new(hook)))
    }
}

impl FileSystem for HookedFiles {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        SystemFiles.make_folder(path)
    }
    fn open(&self, path: &Path, access: Access) -> io::Result<OpenFile> {
        SystemFiles.open(path, access)
    }
    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        (self.0)(FileCall::Writes(file.path()))?;
        SystemFiles.write_at(file, bytes, offset)
    }
    fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> io::Result<()> {
        SystemFiles.reserve(file, offset, length)
    }
    fn set_length(&self, file: &OpenFile, length: u64) -> io::Result<()> {
        SystemFiles.set_length(file, length)
    }
    fn sync_data(&self, file: &OpenFile) -> io::Result<()> {
        (self.0)(FileCall::Syncs(file.path()))
    }
    fn sync_all(&self, _: &OpenFile) -> io::Result<()> {
        Ok(())
    }
    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemFiles.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemFiles.remove(path)
    }
    fn try_lock(&self, file: &OpenFile) -> io::Result<bool> {
        SystemFiles.try_lock(file)
    }
    fn links(&self, file: &OpenFile) -> io::Result<u64> {
        let links = SystemFiles.links(file);
        (self.0)(FileCall::Looked)?;
        links
    }
}
