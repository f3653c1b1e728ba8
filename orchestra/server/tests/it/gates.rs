//! Questions and their answers.

use orchestra_engine::Engine;
use orchestra_graph::{Source, load};
use serde_json::json;

use crate::support::{RELEASE, TestServer, entry};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_counts_once_and_may_be_repeated() {
    let server = TestServer::start().await;
    let run = server.begin("release").await;
    let asked = server.until_asked(&run).await;
    let question = &asked["questions"][0];
    assert_eq!(
        (&question["node"], &question["text"]),
        (&json!("approve"), &json!("Ship it?"))
    );
    let keys: Vec<&str> = question["options"]
        .as_array()
        .expect("options")
        .iter()
        .filter_map(|o| o["key"].as_str())
        .collect();
    assert_eq!(keys, ["A", "R"]);
    let gates = server.get("/api/v1/gates").await.json();
    assert_eq!(
        (&gates["gates"][0]["run"], &gates["gates"][0]["name"]),
        (&json!(run), &json!("release"))
    );
    let id = question["id"]
        .as_str()
        .expect("an id")
        .replace('#', "%23")
        .replace('/', "%2F");
    let path = format!("/pipelines/{run}/questions/{id}/answer");
    for wrong in [
        json!({}),
        json!({ "choice": "A", "skip": true }),
        json!({ "choise": "A" }),
    ] {
        assert_eq!(server.post(&path, wrong.clone()).await.status, 400, "{wrong}");
    }
    let reply = server.post(&path, json!({ "choice": "X" })).await;
    assert_eq!((reply.status, reply.code().as_str()), (422, "not_offered"));
    let reply = server.post(&path, json!({ "choice": "A" })).await;
    assert_eq!((reply.status, &reply.json()["repeated"]), (200, &json!(false)));
    server.until_status(&run, "success").await;
    for same in ["A", "a", "[A] Approve"] {
        let reply = server.post(&path, json!({ "choice": same })).await;
        assert_eq!(
            (reply.status, &reply.json()["repeated"]),
            (200, &json!(true)),
            "{same}"
        );
    }
    let reply = server.post(&path, json!({ "choice": "R" })).await;
    assert_eq!((reply.status, reply.code().as_str()), (409, "answered"));
    let reply = server
        .post(
            &format!("/pipelines/{run}/questions/test/answer"),
            json!({ "choice": "A" }),
        )
        .await;
    assert_eq!((reply.status, reply.code().as_str()), (409, "no_question"));
    let rows = server.get(&format!("/api/v1/runs/{run}")).await.json();
    let path: Vec<&str> = rows["stages"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["node"].as_str())
        .collect();
    assert_eq!(path, ["start", "test", "approve", "publish", "exit"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_at_the_same_time_take_one_transition() {
    let server = TestServer::start().await;
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    let path = format!("/pipelines/{run}/questions/approve/answer");
    let answers: Vec<_> = ["A", "R"].iter().cycle().take(8).collect();
    let sent: Vec<_> = answers
        .iter()
        .map(|choice| {
            server
                .authorized("POST", &path)
                .json(&json!({ "choice": choice }))
        })
        .map(|request| tokio::spawn(request.send()))
        .collect();
    let mut accepted = Vec::new();
    for (choice, sent) in answers.iter().zip(sent) {
        let reply = sent.await.expect("no panic");
        match reply.status {
            200 => accepted.push((**choice, reply.json()["repeated"] == true)),
            409 => assert_eq!(reply.code(), "answered"),
            other => panic!("{other}: {}", reply.text()),
        }
    }
    assert_eq!(
        accepted.iter().filter(|(_, repeated)| !repeated).count(),
        1,
        "{accepted:?}"
    );
    let rows = server.until_status(&run, "success").await;
    let taken: Vec<&serde_json::Value> = rows["transitions"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| row["from"] == "approve")
        .collect();
    assert_eq!(taken.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_of_a_run_that_nobody_executes_can_be_answered() {
    let server = TestServer::start().await;
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    assert_eq!(
        server
            .post(&format!("/api/v1/runs/{run}/pause"), json!({}))
            .await
            .status,
        202
    );
    server.until_status(&run, "paused").await;
    let gates = server.get("/api/v1/gates").await.json();
    assert_eq!(gates["gates"][0]["status"], "paused");
    let reply = server
        .post(
            &format!("/pipelines/{run}/questions/approve/answer"),
            json!({ "choice": "R" }),
        )
        .await;
    assert_eq!((reply.status, &reply.json()["executed"]), (200, &json!(false)));
    let rows = server.get(&format!("/api/v1/runs/{run}")).await.json();
    assert_eq!(
        (&rows["run"]["status"], &rows["questions"]),
        (&json!("paused"), &json!([]))
    );
    let resumed = server
        .post(&format!("/api/v1/runs/{run}/resume"), json!({}))
        .await;
    assert_eq!((resumed.status, resumed.json()), (202, json!({ "id": run })));
    let rows = server.until_status(&run, "success").await;
    let last = rows["stages"]
        .as_array()
        .expect("rows")
        .iter()
        .rev()
        .nth(1)
        .expect("a row");
    assert_eq!(last["node"], "stop");
}

/// The run has its own engine here; the server reaches it only as it reaches a run of another process.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_somebody_else_is_seen_and_answered() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = TestServer::in_folder(
        dir.path(),
        |engine| engine,
        |server| server.entry(entry("release", RELEASE)),
    )
    .await;
    let engine = Engine::builder()
        .runs_dir(&server.runs_dir)
        .build()
        .expect("a sound engine");
    let pipeline = load(Source::new("release.dot", RELEASE), &Default::default())
        .pipeline()
        .expect("sound");
    let handle = engine
        .start(pipeline, ())
        .run_id("elsewhere")
        .await
        .expect("started");
    let asked = server.until_asked("elsewhere").await;
    assert_eq!(asked["executed_by"], "process");
    let path = "/pipelines/elsewhere/questions/approve/answer";
    let reply = server.post(path, json!({ "choice": "X" })).await;
    assert_eq!((reply.status, reply.code().as_str()), (422, "not_offered"));
    let reply = server.post(path, json!({ "choice": "A" })).await;
    assert_eq!(
        (reply.status, &reply.json()["executed"]),
        (200, &json!(true)),
        "{}",
        reply.text()
    );
    handle.wait().await.expect("it ends");
    server.until_status("elsewhere", "success").await;
    let reply = server.post(path, json!({ "choice": "R" })).await;
    assert_eq!((reply.status, reply.code().as_str()), (409, "answered"));
}
