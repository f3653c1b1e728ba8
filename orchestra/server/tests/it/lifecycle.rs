//! Runs from their start to their end, and the end of the server.

use serde_json::json;

use crate::support::{RELEASE, TestServer, entry};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_and_replayed() {
    let server = TestServer::start().await;
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    let reply = server
        .post(
            &format!("/pipelines/{run}/cancel"),
            json!({ "reason": "not today" }),
        )
        .await;
    assert_eq!(reply.status, 202);
    let rows = server.until_status(&run, "cancelled").await;
    assert_eq!(rows["run"]["reason"], "not today");
    for path in [
        format!("/pipelines/{run}/cancel"),
        format!("/api/v1/runs/{run}/pause"),
        format!("/api/v1/runs/{run}/resume"),
    ] {
        let reply = server.post(&path, json!({})).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (409, "run_ended"),
            "{path}"
        );
    }
    let points = server
        .get(&format!("/api/v1/runs/{run}/checkpoints"))
        .await
        .json();
    let names: Vec<&str> = points["checkpoints"]
        .as_array()
        .expect("points")
        .iter()
        .filter_map(|point| point["name"].as_str())
        .collect();
    assert_eq!(names, ["start#1/1", "test#1/1"]);
    let checkpoint = points["checkpoints"][1]["checkpoint"].clone();
    let context = server
        .get(&format!(
            "/pipelines/{run}/context?at={}",
            checkpoint.as_str().expect("a name")
        ))
        .await
        .json();
    assert_eq!(context["values"]["tool.output"], "tested\n");
    let before = server
        .get(&format!("/pipelines/{run}/context?at=cp_000000"))
        .await
        .json();
    assert_eq!(before["values"].get("tool.output"), None);
    let state = server.get(&format!("/pipelines/{run}/checkpoint")).await.json();
    assert_eq!(
        (&state["current_node"], state.get("state")),
        (&json!("test"), None)
    );
    assert_eq!(
        server
            .get(&format!("/pipelines/{run}/context?at=cp_9"))
            .await
            .status,
        404
    );
    let reply = server
        .post(
            &format!("/api/v1/runs/{run}/replay"),
            json!({ "checkpoint": checkpoint }),
        )
        .await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let replayed = reply.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        reply.header("location"),
        Some(format!("/pipelines/{replayed}").as_str())
    );
    let rows = server.until_asked(&replayed).await;
    assert_eq!(rows["run"]["replayed_from"]["run"], json!(run));
    let status = server.get(&format!("/pipelines/{replayed}")).await.json();
    assert_eq!(status["position"], json!(["approve"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_pauses_its_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let start = || {
        TestServer::in_folder(
            dir.path(),
            |engine| engine,
            |server| {
                server
                    .entry(entry("release", RELEASE))
                    .token_file(dir.path().join("token"))
            },
        )
    };
    let mut server = start().await;
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    let watching = server.authorized("GET", &format!("/pipelines/{run}/events"));
    let watching = tokio::spawn(watching.send());
    server
        .until(&run, |rows| rows["run"]["status"] == "running")
        .await;
    assert_eq!(server.stop().await, std::slice::from_ref(&run));
    let events = watching.await.expect("no panic").text();
    assert!(events.contains("event: bye"), "{events}");
    let again = start().await;
    assert_eq!(again.token, server.token, "a page that is open stays valid");
    let rows = again.get(&format!("/api/v1/runs/{run}")).await.json();
    assert_eq!(
        (&rows["run"]["status"], &rows["run"]["reason"]),
        (&json!("paused"), &json!("the run was paused: the server stops"))
    );
    assert_eq!(
        again
            .post(&format!("/api/v1/runs/{run}/resume"), json!({}))
            .await
            .status,
        202
    );
    again.until(&run, |rows| rows["executed_by"] == "server").await;
    let reply = again.post(&format!("/api/v1/runs/{run}/resume"), json!({})).await;
    assert_eq!((reply.status, reply.code().as_str()), (409, "owned"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_executes_a_limited_number_of_runs() {
    let server = TestServer::with(|server| server.entry(entry("release", RELEASE)).max_runs(1)).await;
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    let reply = server.post("/api/v1/definitions/release/runs", json!({})).await;
    assert_eq!((reply.status, reply.code().as_str()), (429, "too_many"));
    assert!(reply.header("retry-after").is_some());
    server.post(&format!("/pipelines/{run}/cancel"), json!({})).await;
    server.until(&run, |rows| rows["executed_by"].is_null()).await;
    server.begin("release").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simulated_run_executes_nothing() {
    let server = TestServer::start().await;
    let reply = server
        .post("/api/v1/definitions/release/runs", json!({ "simulate": true }))
        .await;
    let run = reply.json()["id"].as_str().expect("an id").to_owned();
    // People are asked in a simulation too.
    server.until_asked(&run).await;
    let answer = format!("/pipelines/{run}/questions/approve/answer");
    assert_eq!(server.post(&answer, json!({ "choice": "A" })).await.status, 200);
    let rows = server.until_status(&run, "success").await;
    assert_eq!(
        (&rows["run"]["simulated"], &rows["tool_calls"]),
        (&json!(true), &json!([]))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_tell_what_their_runs_did() {
    let server = TestServer::start().await;
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    server
        .post(
            &format!("/pipelines/{run}/questions/approve/answer"),
            json!({ "choice": "A" }),
        )
        .await;
    server.until_status(&run, "success").await;
    let list = server.get("/api/v1/definitions").await.json();
    assert_eq!(
        list["definitions"],
        json!([{ "name": "release", "kind": "compiled", "file": "release.dot", "runs": 1 }])
    );
    let one = server.get("/api/v1/definitions/release").await.json();
    assert_eq!(
        (&one["goal"], &one["source"], &one["valid"]),
        (&json!("Ship the crate"), &json!(RELEASE), &json!(true))
    );
    let taken: Vec<(&str, u64)> = one["edges"]
        .as_array()
        .expect("edges")
        .iter()
        .filter(|edge| edge["from"] == "approve")
        .filter_map(|edge| Some((edge["from"].as_str()?, edge["edge"].as_u64()?)))
        .collect();
    assert_eq!(taken, [("approve", 0)]);
    let checked = server
        .post(
            "/api/v1/check",
            json!({ "source": "digraph a {\n start -> b\n}" }),
        )
        .await
        .json();
    assert_eq!(checked["valid"], false);
    assert!(
        checked["diagnostics"]
            .as_array()
            .is_some_and(|list| list.iter().all(|one| one["line"].is_number()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_made_again_with_other_values() {
    let text = r#"digraph tries {
        start -> try
        try [shape=parallelogram, tool_command="echo 3"]
        try -> exit [condition="outcome=success && context.limit=small"]
        try -> mend [condition="outcome=fail"]
        try -> more
        mend [shape=parallelogram, tool_command=true]
        more [shape=parallelogram, tool_command=true]
        mend -> exit
        more -> exit
    }"#;
    let server = TestServer::with(|server| server.entry(entry("tries", text))).await;
    let run = server.begin("tries").await;
    let rows = server.until_status(&run, "success").await;
    let decisions = rows["transitions"].as_array().expect("rows");
    let decision = decisions
        .iter()
        .find(|row| row["from"] == "try")
        .expect("a decision");
    assert_eq!(decision["to"], "more");
    let path = format!("/api/v1/runs/{run}/decisions/{}/what-if", decision["seq"]);
    for (values, to, same) in [
        (json!({}), "more", true),
        (json!({ "outcome": "fail" }), "mend", false),
        (json!({ "context.limit": "small" }), "exit", false),
        (json!({ "limit": "large" }), "more", true),
    ] {
        let reply = server.post(&path, json!({ "values": values })).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let again = reply.json();
        assert_eq!(
            (&again["to"], &again["same"]),
            (&json!(to), &json!(same)),
            "{values}: {again}"
        );
    }
    let tested = server.post(&path, json!({ "values": {} })).await.json()["tested"].clone();
    assert_eq!(
        tested, decision["tested"],
        "the router tells the same as it told then"
    );
    let unknown = format!("/api/v1/runs/{run}/decisions/1/what-if");
    assert_eq!(server.post(&unknown, json!({ "values": {} })).await.status, 404);
}
