//! The choice enums of compiled human gates: typed answers.

#![cfg(feature = "macros")]
#![allow(clippy::unwrap_used)]

use orchestra::engine::{AnsweredBy, QueueInterviewer, Reply};
use orchestra::prelude::*;

orchestra::pipeline! {
    mod review = digraph review {
        start -> ask
        ask  [shape=hexagon, label="Ship?"]
        ask  -> exit [label="[A] ALL"]
        ask  -> mend [label="[F] Fix it"]
        ask  -> mend [label="[F] Fix it", condition="context.urgent=true"]
        ask  -> note [label="Comment", freeform=true]
        ask  -> note [condition="outcome=fail"]
        mend [shape=diamond]
        note [shape=diamond]
        mend -> ask
        note -> ask
    }
}

use review::choices::Ask;

#[test]
fn a_choice_is_listed_once_and_an_unlabelled_condition_is_none() {
    let labels: Vec<&str> = Ask::ALL.iter().map(|choice| choice.label()).collect();
    assert_eq!(labels, ["[A] ALL", "[F] Fix it", "Comment"]);
    assert_eq!(Ask::FixIt.target(), review::Node::Mend);
}

#[test]
fn a_text_is_read_as_the_gate_reads_an_answer() {
    for text in ["f", "FIX IT", "[F] Fix it", "mend"] {
        assert!(matches!(text.parse(), Ok(Ask::FixIt)), "{text}");
    }
    let refused = "ship".parse::<Ask>().err().unwrap();
    assert_eq!(
        refused.to_string(),
        "`ship` is not one of the answers: [A] ALL, [F] Fix it, [C] Comment"
    );
}

#[tokio::test]
async fn typed_answers_lead_a_run() {
    let answers = QueueInterviewer::new().answers_for("ask", [Ask::FixIt, Ask::ALL_2]);
    let engine = Engine::builder().interviewer(answers.clone()).build().unwrap();
    let result = engine
        .start(&review::PIPELINE, ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert_eq!(result.path, ["start", "ask", "mend", "ask", "exit"]);
    assert!(answers.is_empty());
    let selected = result.context.text("human.gate.selected");
    assert!(matches!(selected.parse(), Ok(Ask::ALL_2)), "{selected}");
    assert_eq!(
        result.context.text("human.gate.answered_by"),
        AnsweredBy::Prepared.word()
    );
}

#[tokio::test]
async fn a_handle_takes_a_typed_answer() {
    let run = Engine::builder()
        .build()
        .unwrap()
        .start(&review::PIPELINE, ())
        .await
        .unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(
        run.answer("ask", Answer::choice("")).is_err(),
        "an empty answer is none"
    );
    run.answer("ask", Ask::ALL_2.into()).unwrap();
    assert!(run.wait().await.unwrap().is_success());
}

#[test]
fn an_answer_keeps_what_was_chosen() {
    assert_eq!(
        Answer::from(Ask::FixIt).reply,
        Reply::Chosen(vec!["F".to_owned()])
    );
}
