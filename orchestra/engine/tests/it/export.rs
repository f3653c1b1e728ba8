//! Copies of runs that another process decides about.

use crate::support;

use std::path::Path;

use orchestra_core::{Context, Effect, Event, Machine, SharedPipeline};
use orchestra_engine::{
    Answer, Engine, EventKind, ExportedCopy, ExportedPhase, ExportedRun, HostedText, ObservedStage, RunEvent,
    RunFile, RunFolder, RunId, StageFile, StoreError, Timestamp,
};
use support::pipeline;

const ASK: &str = "digraph ask { start -> ask -> exit; ask [shape=hexagon, label=Ship] }";

/// A run that waits at its gate.
struct Elsewhere {
    machine: Machine,
    events: Vec<RunEvent>,
}

impl Elsewhere {
    fn start() -> Elsewhere {
        let mut effects = Vec::new();
        let pipeline = SharedPipeline::from(pipeline(ASK));
        let machine = Machine::start(pipeline, Context::new(), 7, &mut effects);
        let mut run = Elsewhere {
            machine,
            events: Vec::new(),
        };
        run.observe(effects);
        run
    }

    fn answer(&mut self) {
        let (id, _) = self.machine.questions().remove(0);
        let answer = Answer::choice("exit");
        let mut effects = Vec::new();
        self.machine.on(Event::Answered { id, answer }, &mut effects);
        self.observe(effects);
    }

    fn observe(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let Effect::Observe(observation) = effect else {
                continue;
            };
            let observed = ObservedStage::default();
            let kind = EventKind::from_observation(self.machine.pipeline(), observation, observed);
            let Some(kind) = kind else { continue };
            let seq = self.events.len() as u64 + 1;
            self.events.push(RunEvent {
                seq,
                time: at(seq),
                run: RunId::new("far").unwrap(),
                kind,
            });
        }
    }

    fn exported(&self) -> ExportedRun {
        let run = RunId::new("far").unwrap();
        let pipeline = self.machine.pipeline().clone();
        let mut exported = ExportedRun::new(run, "http://far", pipeline, self.machine.saved());
        exported.started = at(0);
        exported.time = at(self.events.len() as u64);
        exported.events.clone_from(&self.events);
        exported
            .texts
            .push((0, HostedText::new("ask#1", StageFile::Conversation, "{}")));
        exported
    }
}

fn at(seq: u64) -> Timestamp {
    Timestamp::from_millis(1_000 + seq)
}

fn code(folder: &Path, exported: &ExportedRun) -> &'static str {
    exported.write(folder).unwrap_err().code()
}

#[test]
fn a_later_state_replaces_an_earlier_one_and_never_the_reverse() {
    let runs = tempfile::tempdir().unwrap();
    let folder = runs.path().join("far");
    let mut run = Elsewhere::start();
    let early = run.exported();
    assert!(early.write(&folder).unwrap());
    let copy = ExportedCopy::read(&folder).unwrap().unwrap();
    assert_eq!((copy.server.as_str(), copy.started), ("http://far", at(0)));
    assert_eq!((copy.events, copy.has_ended), (early.events.len() as u64, false));
    assert!(
        !folder.join("ask/conversation.json").exists(),
        "the visit has not ended"
    );

    run.answer();
    let mut late = run.exported();
    late.phase = ExportedPhase::Ended(None);
    // What an interrupted export left.
    let staged = runs.path().join(".exports/far");
    std::fs::create_dir_all(staged.join("ask")).unwrap();
    std::fs::write(RunFile::Manifest.path(&staged), "{").unwrap();
    assert!(late.write(&folder).unwrap());
    assert!(!early.write(&folder).unwrap());
    let copy = ExportedCopy::read(&folder).unwrap().unwrap();
    assert_eq!((copy.time, copy.has_ended), (late.time, true));
    let read = RunFolder::open(&folder).unwrap();
    assert_eq!(read.checkpoint().unwrap().unwrap().status, "success");
    assert_eq!(read.events(1).unwrap().len(), late.events.len());
    assert_eq!(read.records().unwrap().len(), 2);
    for (file, text) in [
        ("prompt.md", "Ship"),
        ("response.md", "exit"),
        ("conversation.json", "{}"),
    ] {
        assert_eq!(
            std::fs::read_to_string(folder.join("ask").join(file)).unwrap(),
            text
        );
    }
    assert!(!staged.exists());
    assert_eq!(RunFolder::list(runs.path()).unwrap(), [folder]);
}

#[tokio::test]
async fn a_folder_with_something_else_is_left_as_it_is() {
    let runs = tempfile::tempdir().unwrap();
    let exported = Elsewhere::start().exported();
    let engine = Engine::builder().runs_dir(runs.path()).build().unwrap();
    let run = engine.start(pipeline(ASK), ()).run_id("far").await.unwrap();
    let folder = runs.path().join("far");
    assert_eq!(code(&folder, &exported), "store_not_a_copy");
    run.cancel("enough");
    run.wait().await.unwrap();
    assert_eq!(code(&folder, &exported), "store_not_a_copy");

    let other = runs.path().join("other");
    let mut later = exported.clone();
    later.started = at(1);
    assert!(exported.write(&other).unwrap());
    assert_eq!(code(&other, &later), "store_not_a_copy");

    let file = runs.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(code(&file, &exported), "store_io");
}

#[tokio::test]
async fn nobody_resumes_a_copy() {
    let runs = tempfile::tempdir().unwrap();
    let folder = runs.path().join("far");
    Elsewhere::start().exported().write(&folder).unwrap();
    let engine = Engine::builder().build().unwrap();
    let refused = engine.resume(&folder, pipeline(ASK), ()).take_over().await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), "run_exported");
    assert!(
        refused
            .to_string()
            .contains("is a copy: http://far executes it; answer, cancel or resume it there"),
        "{refused}"
    );
    let unknown = engine.replay(&folder, "cp_000002", pipeline(ASK), ()).await;
    let unknown = unknown.unwrap_err().to_string();
    assert!(unknown.contains("it has `cp_000000` to `cp_000001`"), "{unknown}");
    let again = engine
        .replay(&folder, "cp_000001", pipeline(ASK), ())
        .run_id("near");
    let again = again.await.unwrap();
    while again.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    // A replay is a run of this machine, which nothing overwrites.
    let near = runs.path().join("near");
    let written = Elsewhere::start().exported().write(&near);
    assert!(matches!(written, Err(StoreError::NotACopy { .. })), "{written:?}");
    again.answer("ask", Answer::choice("exit")).unwrap();
    assert_eq!(again.wait().await.unwrap().path, ["start", "ask", "exit"]);
}
