//! Conversations with people, and interrupted conversations.

use crate::support;

use std::path::Path;
use std::sync::{Arc, Mutex};

use orchestra_agent::{Message, ModelReply};
use orchestra_engine::{Answer, QueueInterviewer, RunStatus};
use serde_json::{Value, json};
use support::{Scripted, agents, calls, engine, pipeline, report};

const CHAT: &str =
    "digraph { start -> talk -> exit; talk [prompt=\"Draft a note.\", agent.mode=interactive] }";

fn says<'a>(said: impl IntoIterator<Item = &'a str>) -> QueueInterviewer {
    QueueInterviewer::new().answers(said.into_iter().map(Answer::choice))
}

/// Returns the checkpoints of a node, in order.
fn checkpoints(folder: &Path, node: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    events
        .filter(|event| event["event"] == "CheckpointSaved" && event["node"] == node)
        .map(|event| event["checkpoint"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_person_talks_with_the_model_until_they_approve() {
    let model = Scripted::list([ModelReply::text("Draft one."), ModelReply::text("Draft two.")]);
    let dir = tempfile::tempdir().unwrap();
    let agents = agents("", &[], model.clone());
    let seen = Arc::new(Mutex::new(String::new()));
    let sees = seen.clone();
    let engine = engine(&agents, dir.path())
        .interviewer(says(["Shorter.", "/approve"]))
        .on_text(move |piece| sees.lock().unwrap().push_str(&piece.text));
    let run = engine.build().unwrap().start(pipeline(CHAT), ());
    let result = run.await.unwrap().wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("last_response"), "Draft two.");
    assert_eq!(result.context.text("human.chat.verdict"), "approved");
    assert_eq!(*seen.lock().unwrap(), "Draft one.Draft two.");
    assert_eq!(model.asked()[1].messages.last(), Some(&Message::user("Shorter.")));
}

#[tokio::test]
async fn a_rejection_fails_the_stage_and_says_why() {
    let model = Scripted::list([ModelReply::text("Draft one.")]);
    let dir = tempfile::tempdir().unwrap();
    let agents = agents("", &[], model);
    let engine = engine(&agents, dir.path()).interviewer(says(["/reject it is about cats"]));
    let run = engine.build().unwrap().start(pipeline(CHAT), ());
    let result = run.await.unwrap().wait().await.unwrap();
    let reported = result.failure.unwrap().to_string();
    assert!(
        reported.contains("a person rejected it: it is about cats"),
        "{reported}"
    );
}

#[tokio::test]
async fn a_conversation_goes_on_after_a_stop_from_any_turn() {
    let model = Scripted::new(|request| Ok(ModelReply::text(format!("Draft {}.", request.messages.len()))));
    let dir = tempfile::tempdir().unwrap();
    let agents = agents("", &[], model.clone());
    // The interviewer has no answer after the second turn.
    let first = engine(&agents, dir.path()).interviewer(says(["Shorter.", "Bolder."]));
    let run = first.build().unwrap().start(pipeline(CHAT), ()).await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    let result = run.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Paused, "{:?}", result.failure);
    assert_eq!(model.asked().len(), 3);
    let again = engine(&agents, dir.path())
        .interviewer(says(["/done"]))
        .build()
        .unwrap();
    let run = again.resume(&folder, pipeline(CHAT), ()).await.unwrap();
    let result = run.wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(model.asked().len(), 3, "no answer of the model is paid for twice");
    assert_eq!(result.context.text("last_response"), "Draft 5.");
    let turns = checkpoints(&folder, "talk");
    assert_eq!(turns.len(), 3);
    // Replay from the checkpoint after the first turn.
    let back = engine(&agents, dir.path())
        .interviewer(says(["/approve"]))
        .build()
        .unwrap();
    let replay = back.replay(&folder, &turns[0], pipeline(CHAT), ());
    let result = replay.await.unwrap().wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("last_response"), "Draft 3.");
}

#[tokio::test]
async fn an_agent_that_is_cut_short_pays_for_no_answer_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut turn = 0;
    let (arrived, hangs) = tokio::sync::oneshot::channel();
    let mut arrived = Some(arrived);
    let model = Scripted::new(move |_| {
        turn += 1;
        if turn == 3 {
            arrived.take().map(|arrived| arrived.send(()));
        }
        Ok(match turn {
            3 => calls(&[("shell", json!({"command": "test -e go || sleep 600"}))]),
            1 | 2 => calls(&[(
                "write_file",
                json!({"path": format!("{turn}.txt"), "content": "x"}),
            )]),
            _ => report(json!({"status": "success", "notes": "Done."})),
        })
    });
    let agents = agents("", &[], model.clone());
    let flow = || pipeline("digraph { start -> work -> exit; work [prompt=x] }");
    let run = engine(&agents, dir.path()).build().unwrap();
    let run = run.start(flow(), ()).await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    hangs.await.unwrap();
    let journal = folder.join("journal.jsonl");
    while !std::fs::read_to_string(&journal).unwrap().contains("sleep 600") {
        tokio::task::yield_now().await;
    }
    run.pause("lunch");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
    std::fs::write(dir.path().join("go"), "").unwrap();
    let run = engine(&agents, dir.path()).build().unwrap();
    let run = run.resume(&folder, flow(), ()).await.unwrap();
    let result = run.wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    let asked = model.asked();
    assert_eq!(asked.len(), 4, "only the call of the tool was made again");
    assert_eq!(asked[3].messages.len(), 7, "the conversation is whole");
}
