//! Hostile names and texts at random, and secrets that no reply may contain. `ORACLE_CASES=100000` makes them longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{case_count, graphs, seed};
use orchestra_server::Submit;
use serde_json::json;

use crate::support::description::routes;
use crate::support::{RELEASE, TestServer, entry};

/// The number of requests at once.
const CLIENTS: usize = 8;

/// What names of files are made of.
const PIECES: &[&str] = &[
    "..",
    ".",
    "/",
    "\\",
    "//",
    "\0",
    "%2e",
    "secret.txt",
    "link",
    "inside",
    "events.jsonl",
    "~",
    "C:",
    "\u{202e}",
    "\u{ff0e}",
    "\n",
    "a",
    "é",
    "CON",
    "::$DATA",
    "proc/self/environ",
    "etc/passwd",
    "?",
    "*",
    " ",
    ":",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_name_leads_out_of_the_folder_of_a_run() {
    let server = Arc::new(TestServer::start().await);
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    let folder = server.folder(&run).path().to_owned();
    let outside = server.runs_dir.with_file_name("outside");
    std::fs::create_dir(&outside).expect("a folder");
    std::fs::write(outside.join("secret.txt"), "CANARY").expect("written");
    std::fs::create_dir(folder.join("inside")).expect("a folder");
    std::fs::write(folder.join("inside/secret.txt"), "harmless").expect("written");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&outside, folder.join("link")).expect("linked");

    // The folder is a link to the outside half of the time.
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = std::thread::spawn({
        let (stop, inside, aside) = (stop.clone(), folder.join("inside"), folder.join("aside"));
        move || {
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(&inside, &aside).expect("moved");
                #[cfg(unix)]
                std::os::unix::fs::symlink(&outside, &inside).expect("linked");
                std::thread::yield_now();
                #[cfg(unix)]
                std::fs::remove_file(&inside).expect("removed");
                std::fs::rename(&aside, &inside).expect("moved back");
            }
        }
    });
    let cases = case_count(1_500) / CLIENTS;
    let clients = (0..CLIENTS).map(|client| {
        let (server, path) = (server.clone(), format!("/api/v1/runs/{run}/files"));
        tokio::spawn(async move {
            let mut random = Random::new(seed(7) + client as u64);
            for _ in 0..cases {
                let name: String = match random.chance(30) {
                    true => "inside/secret.txt".to_owned(),
                    false => (0..random.between(1, 6)).map(|_| *random.pick(PIECES)).collect(),
                };
                let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
                let reply = server.get(&format!("{path}/{hex}")).await;
                assert!(!reply.text().contains("CANARY"), "{name:?}");
                assert!(matches!(reply.status, 200 | 404), "{name:?}: {}", reply.status);
                if reply.status == 200 {
                    assert!(!name.contains("..") && !name.contains("link"), "{name:?}");
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("no panic");
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().expect("no panic");
    let hex: String = b"inside/secret.txt"
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let reply = server.get(&format!("/api/v1/runs/{run}/files/{hex}")).await;
    assert_eq!(
        (reply.status, reply.text().as_ref()),
        (200, "harmless"),
        "the name of a file is read"
    );
}

/// Returns a text that was damaged at random places.
fn damaged(random: &mut Random, text: &str) -> String {
    const TOKENS: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        "->",
        "--",
        "\"",
        "\\",
        ";",
        ",",
        "=",
        "/*",
        "*/",
        "//",
        "#",
        "<",
        ">",
        "\0",
        "\u{feff}",
        "subgraph",
        "digraph",
        "node",
        "edge",
        "strict",
        "tool_command=\"touch canary\"",
        "condition=\"",
        "&&",
        "!=",
        "max_retries=99999999999999999999",
        "shape=component",
        "é",
        "\u{202e}",
        "\r\n",
        "type=",
        "-9e999",
        "$goal",
    ];
    let mut text = text.to_owned();
    for _ in 0..random.between(1, 8) {
        let places: Vec<usize> = text
            .char_indices()
            .map(|(at, _)| at)
            .chain([text.len()])
            .collect();
        let (a, b) = (*random.pick(&places), *random.pick(&places));
        let (from, to) = (a.min(b), a.max(b));
        let token: &str = random.pick::<&str>(TOKENS);
        match random.below(4) {
            0 => text.insert_str(from, token),
            1 => text.replace_range(from..to, ""),
            2 => text.replace_range(from..to, token),
            _ => {
                let again = text[from..to].to_owned();
                text.insert_str(to, &again);
            }
        }
        if text.len() > 100_000 {
            text.truncate(*places.iter().rfind(|at| **at <= 1_000).expect("a place"));
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_pipelines_are_answered_and_execute_nothing() {
    let cases = case_count(160) / CLIENTS;
    let clients = (0..CLIENTS).map(|client| {
        tokio::spawn(async move {
            // A server accepts a limited number of writes in a second.
            let server = TestServer::with(|server| server.submit(Submit::Safe).max_runs(1 << 20)).await;
            let mut random = Random::new(seed(11) + client as u64);
            let sound: Vec<String> = graphs(random.number() >> 1, 20).map(|(text, _)| text).collect();
            let mut slowest = std::time::Duration::ZERO;
            for case in 0..cases {
                let text = match random.pick(&sound) {
                    _ if random.chance(20) => RELEASE,
                    text => text.as_str(),
                };
                let text = damaged(&mut random, text);
                let body = json!({ "source": text });
                let path = if case % 2 == 0 {
                    "/api/v1/check"
                } else {
                    "/pipelines"
                };
                let began = std::time::Instant::now();
                let mut reply = server.post(path, body.clone()).await;
                slowest = slowest.max(began.elapsed());
                if reply.status == 429 {
                    reply = server.authorized("POST", path).json(&body).send_patiently().await;
                }
                match reply.status {
                    200 | 201 | 403 => {}
                    // There are no models here.
                    409 => assert_eq!(reply.code(), "refused", "{}", reply.text()),
                    422 => assert!(
                        ["invalid_pipeline", "too_many_nodes", "missing_param"]
                            .contains(&reply.code().as_str()),
                        "{}\n{text}",
                        reply.text()
                    ),
                    status => panic!("{status} {}\n{text}", reply.text()),
                }
            }
            assert_eq!(server.get("/api/v1/health").await.status, 200);
            assert!(!server.runs_dir.with_file_name("canary").exists());
            slowest
        })
    });
    let mut slowest = std::time::Duration::ZERO;
    for client in clients.collect::<Vec<_>>() {
        slowest = slowest.max(client.await.expect("no panic"));
    }
    eprintln!("the slowest of {} replies took {slowest:?}", cases * CLIENTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_reply_contains_a_secret() {
    const SECRET: &str = "sk-canary-4f1d0c7b9a";
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("key.txt"), SECRET).expect("written");
    let text = RELEASE.replace(
        "echo tested",
        "cat key.txt; cat key.txt >&2; echo published > key.txt",
    );
    let server = TestServer::in_folder(
        dir.path(),
        |engine| engine.secrets([SECRET]),
        |server| server.entry(entry("release", &text)),
    )
    .await;
    let started = server
        .post(
            "/api/v1/definitions/release/runs",
            json!({ "params": { "note": format!("use {SECRET}") } }),
        )
        .await;
    assert_eq!(started.status, 201, "{}", started.text());
    let run = started.json()["id"].as_str().expect("an id").to_owned();
    server.until_asked(&run).await;
    let files = server.get(&format!("/api/v1/runs/{run}/files")).await.json();
    let mut paths: Vec<String> = files["files"]
        .as_array()
        .expect("files")
        .iter()
        .map(|file| format!("/api/v1/runs/{run}/files/{}", file["id"].as_str().expect("an id")))
        .collect();
    let answered = server
        .post(
            &format!("/pipelines/{run}/questions/approve/answer"),
            json!({ "choice": "A" }),
        )
        .await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    server.until_status(&run, "success").await;
    for (route, methods) in routes() {
        if methods.iter().any(|method| method == "GET") && route != "/api/v1/stream" {
            paths.push(
                route
                    .replace("{id}", &run)
                    .replace("{file}", "00")
                    .replace("{name}", "release"),
            );
        }
    }
    paths.extend(["dot", "mermaid", "scene"].map(|format| format!("/pipelines/{run}/graph?format={format}")));
    assert!(paths.len() > 20, "{paths:?}");
    let mut redacted = 0;
    for path in paths {
        let text = server.get(&path).await.text();
        assert!(!text.contains(SECRET), "{path}: {text}");
        redacted += usize::from(text.contains("[redacted]"));
    }
    assert!(
        redacted >= 4,
        "the events, the files and the context show where it was: {redacted}"
    );
}
