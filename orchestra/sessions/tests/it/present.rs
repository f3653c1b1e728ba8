//! The present status of runs.

use orchestra_engine::{Answer, Engine, InterviewError, Interviewer, Question};
use orchestra_graph::{LoadOptions, Source, load};
use orchestra_sessions::{SessionIndex, SessionStatus};

#[tokio::test]
async fn a_run_that_ends_while_its_status_is_asked_for_was_not_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::builder().runs_dir(directory.path()).build().unwrap();
    let text = "digraph gate { start -> ask; ask [shape=hexagon]; ask -> exit [label=Go] }";
    let gate = load(Source::new("gate.dot", text), &LoadOptions::default())
        .pipeline()
        .unwrap();
    let handle = engine
        .with_default_interviewer(NeverAnswers)
        .start(gate, ())
        .run_id("r")
        .await
        .unwrap();
    let index = SessionIndex::open(directory.path()).unwrap();
    let read = loop {
        let read = index.run("r").unwrap();
        if !read.questions().is_empty() {
            break read;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(
        index.with_present_status(read.clone()).status,
        read.status,
        "it is executed"
    );
    handle.canceller().answer("ask", Answer::choice("Go")).unwrap();
    handle.wait().await.unwrap();
    assert!(read.status.is_open());
    assert_eq!(index.with_present_status(read).status, SessionStatus::Success);
}

/// Leaves questions to others.
struct NeverAnswers;

impl Interviewer for NeverAnswers {
    async fn ask(&self, _: Question) -> Result<Answer, InterviewError> {
        std::future::pending().await
    }
}
