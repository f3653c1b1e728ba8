//! Requests that are wrong, and lists.

use serde_json::json;

use crate::support::{RELEASE, TestServer, entry};

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_are_told_what_is_wrong() {
    let server = TestServer::start().await;
    let reply = server.get("/api/v1/runs?stats=running").await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "malformed"));
    assert_eq!(reply.json()["help"], "did you mean `status`?");
    let reply = server.get("/api/v1/runs?status=done").await;
    assert!(
        reply.json()["help"]
            .as_str()
            .is_some_and(|help| help.contains("success"))
    );
    for (path, status, code) in [
        ("/api/v1/runs?cursor=x", 400, "malformed"),
        ("/api/v1/runs?limit=ten", 400, "malformed"),
        ("/api/v1/stream?watch=everything", 400, "malformed"),
        ("/api/v1/runs/unknown", 404, "unknown_run"),
        ("/api/v1/runs/..%2f..%2fetc", 404, "unknown_run"),
        ("/api/v1/runs/%00", 404, "unknown_run"),
        ("/pipelines/unknown", 404, "unknown_run"),
        ("/pipelines/unknown/events", 404, "unknown_run"),
        ("/api/v1/definitions/unknown", 404, "unknown_definition"),
        ("/api/v1/definitions/..%2Frelease", 404, "unknown_definition"),
    ] {
        let reply = server.get(path).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{path}");
    }
    let deep = "[".repeat(100_000);
    for body in ["", "{", "[]", "{\"param\":1}", deep.as_str()] {
        let request = server
            .authorized("POST", "/api/v1/check")
            .body("application/json", body.as_bytes());
        let reply = request.send().await;
        assert!(
            matches!(reply.status, 400 | 413),
            "{}: {}",
            &body[..body.len().min(20)],
            reply.status
        );
    }
    let before = server.get("/api/v1/runs").await.json()["runs"].clone();
    for body in ["[]", " [{}]", "[{}, true]", "null", "\"simulate\"", "7"] {
        let request = server
            .authorized("POST", "/api/v1/definitions/release/runs")
            .body("application/json", body.as_bytes());
        let reply = request.send().await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "malformed"),
            "{body}"
        );
    }
    let compressed = server
        .authorized("POST", "/api/v1/definitions/release/runs")
        .header("Content-Encoding", "gzip")
        .body("application/json", b"{}");
    let reply = compressed.send().await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (415, "unsupported_media_type")
    );
    assert_eq!(server.get("/api/v1/runs").await.json()["runs"], before);
    let large = json!({ "params": { "text": "x".repeat(100_000) } });
    let reply = server.post("/api/v1/definitions/release/runs", large).await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "too_large"));
    for (start, code) in [
        (json!({ "max_time": "soon" }), "malformed"),
        (json!({ "max_cost": "-1" }), "malformed"),
        (json!({ "params": { "outcome": "success" } }), "reserved_key"),
    ] {
        let reply = server
            .post("/api/v1/definitions/release/runs", start.clone())
            .await;
        assert_eq!(reply.code(), code, "{start}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_read_page_by_page() {
    let text = "digraph short { start -> exit }";
    let server = TestServer::with(|server| {
        server
            .entry(entry("short", text))
            .entry(entry("release", RELEASE))
    })
    .await;
    let mut begun = Vec::new();
    for _ in 0..5 {
        let run = server.begin("short").await;
        server.until_status(&run, "success").await;
        begun.push(run);
    }
    let waiting = server.begin("release").await;
    server.until_asked(&waiting).await;
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server
            .get(&format!("/api/v1/runs?limit=2&cursor={cursor}"))
            .await
            .json();
        let runs = page["runs"].as_array().expect("runs");
        assert!(runs.len() <= 2);
        listed.extend(
            runs.iter()
                .map(|run| run["run"].as_str().expect("an id").to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    begun.push(waiting.clone());
    let mut sorted = listed.clone();
    sorted.sort();
    begun.sort();
    assert_eq!(sorted, begun, "each run once");
    assert_eq!(listed[0], waiting, "the latest first");
    let open = server.get("/api/v1/runs?status=running,paused").await.json();
    assert_eq!(open["runs"].as_array().map(Vec::len), Some(1));
    let named = server.get("/api/v1/runs?name=short&status=success").await.json();
    assert_eq!(named["runs"].as_array().map(Vec::len), Some(5));
    let none = server.get("/api/v1/runs?status=interrupted").await.json();
    assert_eq!(none, json!({ "runs": [], "next": null }));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_contains_what_changed() {
    let server = TestServer::start().await;
    let run = server.begin("release").await;
    let first = server.until_asked(&run).await;
    assert_eq!(first["whole"], true);
    let position = first["position"].as_u64().expect("a position");
    let same = server
        .get(&format!("/api/v1/runs/{run}?since={position}"))
        .await
        .json();
    assert_eq!((&same["stages"], &same["whole"]), (&json!([]), &json!(false)));
    assert_eq!(same["questions"], first["questions"]);
    let path = format!("/pipelines/{run}/questions/approve/answer");
    assert_eq!(server.post(&path, json!({ "choice": "R" })).await.status, 200);
    server.until_status(&run, "success").await;
    let after = server
        .get(&format!("/api/v1/runs/{run}?since={position}"))
        .await
        .json();
    let nodes: Vec<&str> = after["stages"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["node"].as_str())
        .collect();
    assert_eq!(
        nodes,
        ["approve", "stop", "exit"],
        "the gate changed, the others are new"
    );
    let behind = server
        .get(&format!("/api/v1/runs/{run}?since=1000000"))
        .await
        .json();
    assert_eq!(behind["whole"], true, "the events were replaced");
    assert_eq!(behind["stages"].as_array().map(Vec::len), Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_has_several_forms() {
    let server = TestServer::start().await;
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    let path = format!("/pipelines/{run}/graph");
    let svg = server.get(&path).await;
    assert_eq!(svg.header("content-type"), Some("image/svg+xml"));
    assert!(svg.text().starts_with("<svg"));
    let scene = server.get(&format!("{path}?format=scene")).await.json();
    assert_eq!(scene["nodes"].as_array().map(Vec::len), Some(6));
    let source = server.get(&format!("{path}?format=source")).await;
    assert_eq!(source.text(), RELEASE);
    for (format, begin) in [("dot", "digraph"), ("mermaid", "---")] {
        let text = server.get(&format!("{path}?format={format}")).await.text();
        assert!(
            text.trim_start().starts_with(begin) || text.contains("flowchart"),
            "{text}"
        );
    }
    let tag = svg.header("etag").expect("a tag").to_owned();
    let again = server
        .authorized("GET", &path)
        .header("If-None-Match", &tag)
        .send()
        .await;
    assert_eq!(again.status, 304);
    assert_eq!(
        server.get(&format!("{path}?format=png")).await.code(),
        "malformed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_with_a_key_happens_once() {
    let server = TestServer::start().await;
    let start = |key: &str, body: serde_json::Value| {
        let path = "/api/v1/definitions/release/runs";
        server
            .authorized("POST", path)
            .header("Idempotency-Key", key)
            .json(&body)
    };
    let first = start("deploy-17", json!({})).send().await;
    assert_eq!(first.status, 201, "{}", first.text());
    let id = first.json()["id"].clone();
    let again = start("deploy-17", json!({})).send().await;
    assert_eq!((again.status, &again.json()["id"]), (200, &id));
    let other = start("deploy-17", json!({ "params": { "colour": "red" } }))
        .send()
        .await;
    assert_eq!((other.status, other.code().as_str()), (422, "key_reused"));
    for other in [
        json!({ "simulate": true }),
        json!({ "max_time": "5m" }),
        json!({ "max_cost": "1" }),
    ] {
        let other = start("deploy-17", other).send().await;
        assert_eq!((other.status, other.code().as_str()), (422, "key_reused"));
    }
    let requests = (0..8).map(|_| {
        let request = start("deploy-18", json!({}));
        tokio::spawn(async move { request.send_patiently().await })
    });
    let mut replies = Vec::new();
    for request in requests.collect::<Vec<_>>() {
        replies.push(request.await.expect("no panic"));
    }
    let started = replies.iter().filter(|reply| reply.status == 201).count();
    assert_eq!(started, 1, "{replies:?}");
    assert!(
        replies
            .iter()
            .all(|reply| reply.json()["id"] == replies[0].json()["id"]),
        "{replies:?}"
    );
    let runs = server.get("/api/v1/runs").await.json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2));
    let empty = start("", json!({})).send().await;
    assert_eq!((empty.status, empty.code().as_str()), (400, "malformed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_for_monitoring_count_runs_and_questions() {
    let server = TestServer::start().await;
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    // A simulated run asks too, but it is not counted.
    let simulated = server
        .post("/api/v1/definitions/release/runs", json!({ "simulate": true }))
        .await
        .json();
    let simulated = simulated["id"].as_str().expect("an id");
    server.until_asked(simulated).await;
    let numbers = server.get("/api/v1/metrics").await;
    let kind = numbers.header("content-type").expect("a type");
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let text = numbers.text();
    for line in [
        "# TYPE orchestra_runs_total counter",
        "orchestra_runs_active 1",
        "orchestra_human_waiting 1",
        "orchestra_stage_duration_seconds_bucket{pipeline=\"release\",node=\"start\",outcome=\"success\",le=\"+Inf\"} 1",
        "orchestra_stage_duration_seconds_count{pipeline=\"release\",node=\"start\",outcome=\"success\"} 1",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in\n{text}"
        );
    }
    assert!(
        !text.contains(&run),
        "runs are not labels, because there is no limit on them:\n{text}"
    );
    assert!(
        !text.contains("orchestra_runs_total{"),
        "the run has not ended:\n{text}"
    );
}
