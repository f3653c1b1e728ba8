//! Event streams: whole, cut and continued.

use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{case_count, seed};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use crate::support::{RELEASE, SOON, TestServer, entry, unchunked};

/// Returns the ids and texts of the complete messages in a stream.
fn messages(text: &str) -> Vec<(String, String)> {
    let parts = text.split_inclusive("\n\n").filter(|part| part.ends_with("\n\n"));
    let message = |part: &str| {
        let field = |name: &str| {
            part.lines()
                .find_map(|line| line.strip_prefix(name).map(str::to_owned))
        };
        Some((field("id: ")?, field("data: ")?))
    };
    parts.filter_map(message).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_goes_on_without_loss_or_repetition() {
    // `ORACLE_CASES=4000` makes 1,000 cuts in more than 10,000 events.
    let stages = case_count(300);
    let cuts = stages / 4;
    let server = TestServer::with(|server| server.entry(entry("chain", &chain_of(stages)))).await;
    let run = server.begin("chain").await;
    server.until_status(&run, "success").await;
    let path = format!("/pipelines/{run}/events");
    let reply = server.get(&path).await.text();
    let whole = messages(&reply);
    let file: Vec<String> = std::fs::read_to_string(server.runs_dir.join(&run).join("events.jsonl"))
        .expect("events")
        .lines()
        .map(str::to_owned)
        .collect();
    let texts: Vec<String> = whole.iter().map(|(_, text)| text.clone()).collect();
    assert_eq!(texts, file);
    assert!(file.len() > stages * 5 / 2);
    let mut received: Vec<(String, String)> = Vec::new();
    let (mut random, mut count) = (Random::new(seed(5)), 0);
    while received.len() < whole.len() {
        let mut request = server.authorized("GET", &path);
        if let Some((last, _)) = received.last() {
            request = request.header("Last-Event-ID", last);
        }
        let mut stream = request.open().await;
        // The number of bytes after which the client loses the connection.
        let length = reply.len() / cuts;
        let mut bytes = vec![0; 500 + length / 2 + random.below(length)];
        let read = timeout(SOON, async {
            let mut filled = 0;
            while filled < bytes.len() {
                match stream.read(&mut bytes[filled..]).await {
                    Ok(0) | Err(_) => break,
                    Ok(count) => filled += count,
                }
            }
            filled
        });
        let filled = read.await.expect("bytes soon");
        let bytes = &bytes[..filled];
        let head = bytes
            .windows(4)
            .position(|part| part == b"\r\n\r\n")
            .expect("a head")
            + 4;
        let body = String::from_utf8_lossy(&unchunked(&bytes[head..])).into_owned();
        received.extend(messages(&body));
        count += 1;
    }
    assert_eq!(received, whole);
    assert!(count >= cuts / 2, "{count} cuts");
    let last = &whole.last().expect("an event").0;
    let over = server
        .authorized("GET", &path)
        .header("Last-Event-ID", last)
        .send()
        .await;
    assert_eq!(over.status, 204, "there is nothing to reconnect for");
}

/// A chain of stages that do nothing.
fn chain_of(stages: usize) -> String {
    let names: Vec<String> = (0..stages).map(|at| format!("n{at}")).collect();
    let nodes: String = names
        .iter()
        .map(|name| format!("{name} [shape=diamond];\n"))
        .collect();
    format!(
        "digraph chain {{\n{nodes} start -> {} -> exit\n}}",
        names.join(" -> ")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_event_starts_over() {
    let server = TestServer::start().await;
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    server.post(&format!("/pipelines/{run}/cancel"), json!({})).await;
    server.until_status(&run, "cancelled").await;
    let path = format!("/pipelines/{run}/events");
    let whole = messages(&server.get(&path).await.text());
    for id in ["9999", "3-00000000", "nonsense"] {
        let text = server
            .authorized("GET", &path)
            .header("Last-Event-ID", id)
            .send()
            .await
            .text();
        assert!(text.starts_with("event: reset\n"), "{id}: {text}");
        assert_eq!(messages(&text), whole, "{id}");
    }
    let from = server
        .authorized("GET", &path)
        .header("Last-Event-ID", "3")
        .send()
        .await
        .text();
    assert_eq!(messages(&from), whole[3..], "the number alone is enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_receives_rows_as_they_change() {
    let server = TestServer::with(|server| server.entry(entry("release", RELEASE))).await;
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    let watch = format!("/api/v1/stream?watch=runs,gates,run:{run}");
    let mut stream = server.authorized("GET", &watch).open().await;
    let mut seen = String::new();
    let mut buffer = vec![0; 64 << 10];
    let mut until = async |part: &str| {
        let reading = async {
            while !seen.contains(part) {
                let count = stream.read(&mut buffer).await.expect("a stream");
                assert!(count > 0, "{seen}");
                seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        };
        timeout(SOON, reading)
            .await
            .unwrap_or_else(|_| panic!("no `{part}`"));
    };
    until("event: gates\ndata: {\"gates\":[{").await;
    until("event: run\n").await;
    server
        .post(
            &format!("/pipelines/{run}/questions/approve/answer"),
            json!({ "choice": "A" }),
        )
        .await;
    until("event: gates\ndata: {\"gates\":[]}").await;
    until("event: runs\n").await;
    until("\"status\":\"success\"").await;
    let page = server
        .get(&format!("/api/v1/runs/{run}/events?limit=3"))
        .await
        .json();
    assert_eq!(
        (page["events"].as_array().map(Vec::len), &page["next"]),
        (Some(3), &json!(3))
    );
    let rest = server
        .get(&format!("/api/v1/runs/{run}/events?after=3"))
        .await
        .json();
    assert_eq!(
        (&rest["events"][0]["seq"], &rest["next"]),
        (&json!(4), &json!(null))
    );
}
