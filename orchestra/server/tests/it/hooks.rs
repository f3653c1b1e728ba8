//! Webhooks: deliveries that start runs.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use orchestra_engine::{Budget, Limits};
use orchestra_server::{Server, ServerError, Webhook};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::{Reply, TestRequest, TestServer, entry};

const SECRET: &str = "a secret that both sides know";

/// Writes its inputs into the working folder, as values and never as a part of the command.
const REVIEW: &str = r#"digraph review {
    inputs="pr: int, title: text"
    start -> note -> exit
    note [shape=parallelogram, tool_command="echo \"$PR $TITLE\" >> notes",
          tool_env_from.PR=pr, tool_env_from.TITLE=title]
}"#;

fn webhook() -> Webhook {
    Webhook::new("review", "review", SECRET)
        .expect("sound")
        .event("pull_request")
        .when("/action", ["opened", "synchronize"])
        .input("pr", "/pull_request/number")
        .input("title", "/pull_request/title")
}

fn with(webhook: Webhook) -> impl FnOnce(Server) -> Server {
    |server| server.entry(entry("review", REVIEW)).webhook(webhook)
}

fn opened(pr: impl Into<Value>) -> Value {
    json!({ "action": "opened", "pull_request": { "number": pr.into(), "title": "Fix it" }, "sender": { "id": 1 } })
}

fn signature(secret: &str, body: &[u8]) -> String {
    let mut code = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
    code.update(body);
    let digits = code.finalize().into_bytes();
    let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

/// A delivery as GitHub sends it.
fn delivery(server: &TestServer, id: &str, payload: &Value) -> TestRequest {
    let body = payload.to_string();
    server
        .request("POST", "/hooks/review")
        .header("X-GitHub-Event", "pull_request")
        .header("X-GitHub-Delivery", id)
        .header("X-Hub-Signature-256", &signature(SECRET, body.as_bytes()))
        .body("application/json", body.as_bytes())
}

async fn runs(server: &TestServer) -> usize {
    let listed = server.get("/api/v1/runs").await.json();
    listed["runs"].as_array().expect("runs").len()
}

fn is(reply: &Reply, status: u16, code: &str) {
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (status, code),
        "{}",
        reply.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_starts_one_run_with_the_values_of_its_payload() {
    let server = TestServer::with(with(webhook())).await;
    let mut payload = opened(7);
    payload["pull_request"]["title"] = json!("$(touch broken); `touch broken`");
    let reply = delivery(&server, "d-1", &payload).send().await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let run = reply.json()["id"].as_str().expect("an id").to_owned();
    assert!(run.starts_with("hook-review-"), "{run}");
    assert_eq!(
        reply.header("location"),
        Some(format!("/pipelines/{run}").as_str())
    );
    server.until_status(&run, "success").await;
    let params = server.folder(&run).manifest().params.clone();
    assert_eq!(params.get("pr"), Some(&json!(7)));
    assert_eq!(params.len(), 2, "nothing else of the payload reaches the run");
    let folder = server.runs_dir.parent().expect("a folder");
    let notes = std::fs::read_to_string(folder.join("notes")).expect("written");
    assert_eq!(notes, "7 $(touch broken); `touch broken`\n");
    assert!(!folder.join("broken").exists(), "a value is no command");
    // The sender did not get the reply, or a person repeats the delivery.
    let again = delivery(&server, "d-1", &payload).send().await;
    assert_eq!(
        (again.status, again.json()["id"].as_str()),
        (200, Some(run.as_str()))
    );
    let other = delivery(&server, "d-2", &payload).send().await;
    assert_eq!(other.status, 201);
    assert_eq!(runs(&server).await, 2);
    is(
        &delivery(&server, "d-1", &opened(8)).send().await,
        422,
        "key_reused",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_at_the_same_time_and_after_a_restart_start_one_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut server = TestServer::in_folder(dir.path(), |engine| engine, with(webhook())).await;
    let sent: Vec<_> = (0..12)
        .map(|_| tokio::spawn(delivery(&server, "d-1", &opened(7)).send()))
        .collect();
    let mut replies = Vec::new();
    for reply in sent {
        let reply = reply.await.expect("no panic");
        replies.push((
            reply.status,
            reply.json()["id"].as_str().expect("an id").to_owned(),
        ));
    }
    replies.sort();
    let run = replies[0].1.clone();
    assert!(replies.iter().all(|(_, id)| *id == run), "{replies:?}");
    let begun = replies.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(begun, 1, "{replies:?}");
    server.until_status(&run, "success").await;
    server.stop().await;
    // The pipeline was changed meanwhile.
    let changed = REVIEW.replace("echo ", "echo changed ");
    let server = TestServer::in_folder(
        dir.path(),
        |engine| engine,
        |server| server.entry(entry("review", &changed)).webhook(webhook()),
    )
    .await;
    let reply = delivery(&server, "d-1", &opened(7)).send().await;
    assert_eq!(
        (reply.status, reply.json()["id"].as_str()),
        (200, Some(run.as_str()))
    );
    assert_eq!(runs(&server).await, 1);
    let notes = std::fs::read_to_string(dir.path().join("notes")).expect("written");
    assert_eq!(notes, "7 Fix it\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_knows_the_secret_starts_runs() {
    let server = TestServer::with(with(webhook())).await;
    let payload = opened(7);
    let body = payload.to_string();
    let request = || delivery(&server, "d-1", &payload).replace("X-Hub-Signature-256", None);
    let other = signature("another secret of some length", body.as_bytes());
    let of_other_body = signature(SECRET, b"{}");
    for wrong in [
        request(),
        request().header("X-Hub-Signature-256", &other),
        request().header("X-Hub-Signature-256", &of_other_body),
        request().header("X-Hub-Signature", "sha1=00"),
        request().header("Authorization", "Bearer guessed"),
        request().header("Authorization", &format!("Bearer {}", server.token)),
        request().header("X-Gitlab-Token", "guessed"),
        // A wrong token is not made good by a signature.
        delivery(&server, "d-1", &payload).header("Authorization", "Bearer guessed"),
    ] {
        is(&wrong.send_patiently().await, 401, "unauthorized");
    }
    assert_eq!(runs(&server).await, 0);
    // Guesses are limited, and do not keep the sender from starting runs.
    let mut limited = false;
    for _ in 0..40 {
        let reply = request().send().await;
        limited |= reply.status == 429;
    }
    assert!(limited);
    let tokens = [
        ("Authorization", format!("Bearer {SECRET}")),
        ("X-Gitlab-Token", SECRET.to_owned()),
    ];
    for (at, (header, token)) in tokens.iter().enumerate() {
        let reply = request()
            .replace("X-GitHub-Delivery", None)
            .header("Idempotency-Key", &format!("gitlab-{at}"))
            .header(header, token)
            .send()
            .await;
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    // The secret of a webhook opens nothing else.
    let reply = server
        .request("GET", "/api/v1/runs")
        .header("Authorization", &format!("Bearer {SECRET}"))
        .send_patiently()
        .await;
    is(&reply, 401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_delivery_is_refused_with_its_reason() {
    let server = TestServer::with(with(webhook())).await;
    for (payload, part) in [
        (
            opened("7; touch broken"),
            "`pr` is declared as `int`, but is the text",
        ),
        (opened(7.5), "`pr` is declared as `int`"),
        (
            json!({ "action": "opened" }),
            "no value at `/pull_request/number`",
        ),
        (
            json!({ "action": "opened", "pull_request": { "number": 7, "title": ["x"] } }),
            "`title`",
        ),
    ] {
        let reply = delivery(&server, "d-1", &payload).send().await;
        is(&reply, 422, "inputs");
        assert!(reply.text().contains(part), "{part}: {}", reply.text());
    }
    let raw = |body: &[u8]| {
        server
            .request("POST", "/hooks/review")
            .header("X-GitHub-Event", "pull_request")
            .header("X-Hub-Signature-256", &signature(SECRET, body))
            .body("application/json", body)
    };
    is(&raw(b"{\"action\": ").send().await, 400, "malformed");
    let deep = "[".repeat(10_000);
    is(&raw(deep.as_bytes()).send().await, 400, "malformed");
    let long = delivery(&server, &"d".repeat(256), &opened(7)).send().await;
    is(&long, 400, "malformed");
    let form = delivery(&server, "d-1", &opened(7)).replace("Content-Type", None);
    is(&form.clone().send().await, 415, "unsupported_media_type");
    let form = form.header("Content-Type", "application/x-www-form-urlencoded");
    is(&form.send().await, 415, "unsupported_media_type");
    let large = "x".repeat((1 << 20) + 1);
    is(&raw(large.as_bytes()).send().await, 413, "too_large");
    let unknown = server
        .request("POST", "/hooks/reviw")
        .body("application/json", b"{}");
    is(&unknown.send().await, 404, "unknown_webhook");
    let queried = server
        .request("POST", "/hooks/review?token=1")
        .body("application/json", b"{}");
    is(&queried.send().await, 400, "malformed");
    assert_eq!(runs(&server).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_webhook_does_not_wait_for_is_ignored() {
    let server = TestServer::with(with(webhook())).await;
    let closed = json!({ "action": "closed", "pull_request": { "number": 7 } });
    for (event, payload, reason) in [
        ("ping", json!({ "zen": "x" }), "`ping`"),
        ("push", opened(7), "`push`, not `pull_request`"),
        ("pull_request", closed, "`/action`"),
    ] {
        let reply = delivery(&server, "d-1", &payload)
            .replace("X-GitHub-Event", Some(event))
            .send()
            .await;
        assert_eq!(reply.status, 202, "{}", reply.text());
        let why = reply.json()["ignored"].as_str().expect("a reason").to_owned();
        assert!(why.contains(reason), "{why}");
    }
    assert_eq!(runs(&server).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_the_server_and_of_the_webhook_apply() {
    let limits = Limits {
        time: Some(Duration::from_secs(60)),
        budget: Budget {
            max_cost_micros: Some(2_500_000),
            ..Budget::default()
        },
    };
    let server = TestServer::with(with(webhook().limits(limits))).await;
    let reply = delivery(&server, "d-1", &opened(7)).send().await;
    let run = reply.json()["id"].as_str().expect("an id").to_owned();
    let manifest = server.folder(&run).manifest().clone();
    assert_eq!(
        (manifest.max_time, manifest.budget.max_cost_micros),
        (Some(Duration::from_secs(60)), Some(2_500_000))
    );
    let mut limited = None;
    for at in 0..60 {
        let reply = delivery(&server, &format!("e-{at}"), &json!({ "action": "closed" }));
        let reply = reply.send().await;
        if reply.status == 429 {
            limited = reply.header("retry-after").map(str::to_owned);
        }
    }
    assert_eq!(limited.as_deref(), Some("1"), "20 deliveries a second");
    let full = TestServer::with(|server| with(webhook())(server).max_runs(0)).await;
    is(&delivery(&full, "d-1", &opened(7)).send().await, 429, "too_many");
    let shows = TestServer::with(|server| with(webhook())(server).read_only()).await;
    is(
        &delivery(&shows, "d-1", &opened(7)).send().await,
        403,
        "read_only",
    );
}

#[tokio::test]
async fn a_webhook_that_can_never_start_a_run_keeps_the_server_from_starting() {
    let dir = tempfile::tempdir().expect("a folder");
    let listen = |webhook: Webhook| {
        let runs = dir.path().join("runs");
        async move {
            let engine = orchestra_engine::Engine::builder()
                .runs_dir(runs)
                .build()
                .expect("sound");
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
                .await
                .expect("a port");
            with(webhook)(Server::new(engine)).listen(listener).map(drop)
        }
    };
    let unknown = Webhook::new("review", "other", SECRET).expect("sound");
    let undeclared = webhook().input("author", "/sender/login");
    let missing = Webhook::new("review", "review", SECRET).expect("sound");
    for (webhook, part) in [
        (unknown, "no pipeline `other`"),
        (undeclared, "does not declare the input `author`"),
        (missing, "needs the input `pr: int`"),
    ] {
        let error = listen(webhook).await.expect_err("refused");
        assert!(matches!(error, ServerError::Webhook { .. }));
        assert!(error.to_string().contains(part), "{error}");
    }
    listen(webhook()).await.expect("a server");
}
