//! Pipelines that clients send as text.

use orchestra_server::Submit;
use serde_json::json;

use crate::support::{Reply, TestServer};

const HARMLESS: &str = "digraph ask { start -> ask; ask [shape=hexagon]; ask -> exit [label=Go] }";

async fn submit(server: &TestServer, text: &str) -> Reply {
    let request = server.authorized("POST", "/pipelines");
    request.body("text/vnd.graphviz", text.as_bytes()).send().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_may_only_ask_models_and_people() {
    let server = TestServer::with(|server| server).await;
    let reply = submit(&server, HARMLESS).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let run = reply.json()["id"].as_str().expect("an id").to_owned();
    server.until_asked(&run).await;
    let canary = server.runs_dir.with_file_name("canary");
    for (stage, power) in [
        (
            format!("shape=parallelogram, tool_command=\"touch {}\"", canary.display()),
            "tool_command",
        ),
        (
            "prompt=x, \"tool_hooks.pre\"=\"touch canary\"".to_owned(),
            "tool_hooks.pre",
        ),
        ("prompt_file=\"/etc/passwd\"".to_owned(), "prompt_file"),
        (
            "shape=folder, \"subpipeline.file\"=\"other.dot\"".to_owned(),
            "subpipeline.file",
        ),
        ("type=own_handler".to_owned(), "handler"),
        // Which tools a model has is a matter of the project.
        (
            "prompt=\"Delete everything.\"".to_owned(),
            "asks a model that may use tools",
        ),
        (
            "prompt=x, backend=coder".to_owned(),
            "asks a model that may use tools",
        ),
    ] {
        let text = format!("digraph a {{\n start -> s -> exit\n s [{stage}]\n}}");
        let reply = submit(&server, &text).await;
        let body = reply.json();
        let message = body["message"].as_str().unwrap_or_default();
        match reply.status {
            403 => {
                assert_eq!(reply.code(), "needs_power", "{message}");
                assert!(
                    message.contains("node `s`") && message.contains("line 3"),
                    "{message}"
                );
                assert!(message.contains(power), "{power}: {message}");
            }
            // A file that the submission cannot read is an error of the pipeline.
            422 => assert!(
                body["diagnostics"]
                    .as_array()
                    .is_some_and(|list| !list.is_empty()),
                "{body}"
            ),
            status => panic!("{status} {body}"),
        }
    }
    assert!(!canary.exists());
    let simulated = json!({ "source": "digraph a { start -> s -> exit; s [shape=parallelogram, tool_command=\"touch canary\"] }", "simulate": true });
    let reply = server.post("/pipelines", simulated).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let run = reply.json()["id"].as_str().expect("an id").to_owned();
    server.until_status(&run, "success").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_decides_what_may_be_submitted() {
    let tool = "digraph a { start -> s -> exit; s [shape=parallelogram, tool_command=true] }";
    for (kind, harmless, simulated, with_tool) in [
        (Submit::Off, 403, 403, 403),
        (Submit::Simulate, 403, 201, 403),
        (Submit::Safe, 201, 201, 403),
        (Submit::Any, 201, 201, 201),
    ] {
        let server = TestServer::with(|server| server.submit(kind)).await;
        assert_eq!(submit(&server, HARMLESS).await.status, harmless, "{kind}");
        assert_eq!(submit(&server, tool).await.status, with_tool, "{kind}");
        let body = json!({ "source": tool, "simulate": true });
        assert_eq!(server.post("/pipelines", body).await.status, simulated, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_texts_are_refused_in_good_order() {
    let server = TestServer::with(|server| server).await;
    let nested = format!("digraph a {{ {} }}", "subgraph { ".repeat(20_000));
    let many = format!("digraph a {{ start -> exit; {} }}", "n; ".repeat(200_000));
    let wide: String = (0..3_000).map(|at| format!("n{at} -> exit; ")).collect();
    let wide = format!("digraph a {{ {wide} }}");
    let quotes = "\"".repeat(500_000);
    let texts = [
        "",
        "\u{feff}",
        "digraph",
        "digraph {",
        "}{",
        "digraph a { a -> a }",
        "\0",
        &nested,
        &many,
        &wide,
        &quotes,
    ];
    for text in texts {
        let reply = submit(&server, text).await;
        assert_eq!(
            reply.status,
            422,
            "{}: {}",
            &text.chars().take(30).collect::<String>(),
            reply.text()
        );
        assert!(reply.code() == "invalid_pipeline" || reply.code() == "too_many_nodes");
    }
    let reply = server
        .authorized("POST", "/pipelines")
        .body("text/vnd.graphviz", b"digraph \xff")
        .send()
        .await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "malformed"));
    let reply = submit(&server, &"x".repeat(2 << 20)).await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "too_large"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_conditions_does_not_stop_the_server() {
    let server = TestServer::with(|server| server).await;
    let text = "digraph loop { max_node_visits=100000000; start -> a -> b; b -> a; b -> exit [condition=\"outcome=fail\"]
        a [shape=diamond]; b [shape=diamond] }";
    let reply = submit(&server, text).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let run = reply.json()["id"].as_str().expect("an id").to_owned();
    let ended = server.until_status(&run, "fail").await;
    assert_eq!(ended["run"]["code"], "busy_loop");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_field_does_not_start_a_real_run() {
    let server = TestServer::with(|server| server).await;
    for field in ["Simulate", "simulated", "max_costs"] {
        let reply = server
            .post("/pipelines", json!({ "source": HARMLESS, field: true }))
            .await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "malformed"),
            "{field}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_run_continues_with_its_own_text() {
    let dir = tempfile::tempdir().expect("a folder");
    let canary = dir.path().join("canary");
    let text = format!(
        "digraph ask {{ start -> ask; ask [shape=hexagon]; ask -> exit [label=Go]; \
         exit [shape=parallelogram, tool_command=\"touch {}\"]; exit -> done; done [shape=Msquare] }}",
        canary.display()
    );
    for name in ["submitted.dot", "http:submitted.dot"] {
        std::fs::write(dir.path().join(name), &text).expect("written");
    }
    let mut server = TestServer::in_folder(dir.path(), |engine| engine, |server| server).await;
    let reply = submit(&server, HARMLESS).await;
    let run = reply.json()["id"].as_str().expect("an id").to_owned();
    server.until_asked(&run).await;
    server.post(&format!("/api/v1/runs/{run}/pause"), json!({})).await;
    server.until_status(&run, "paused").await;
    server.stop().await;
    let server = TestServer::in_folder(dir.path(), |engine| engine, |server| server).await;
    let resume = json!({ "accept_changes": true });
    server.post(&format!("/api/v1/runs/{run}/resume"), resume).await;
    server
        .post(
            &format!("/pipelines/{run}/questions/ask/answer"),
            json!({ "choice": "Go" }),
        )
        .await;
    assert!(!canary.exists());
}
