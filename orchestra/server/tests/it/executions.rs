//! Executions of station workflows by HTTP: routing, powers, retries, activation and analytics.

use std::sync::atomic::Ordering;

use orchestra_oracle_tests::case_count;
use orchestra_server::Submit;
use orchestra_stations::{StationError, VersionOrigin, VersionText};
use serde_json::{Value, json};

use crate::stations::{Answers, SHOP, database, is_error, serve, serve_with, visited, with_tag};
use crate::support::TestServer;

/// A review whose output decides, as rows in the order in which they are tested.
fn review() -> Value {
    let conditional = |target: &str, value: &str| json!({ "source": "review", "target": target, "condition_type": "conditional", "condition_value": value });
    let stations = [
        "deploy", "release", "recheck", "mention", "earlier", "other", "errors",
    ];
    let mut rows = vec![
        json!({ "node": "start", "attributes": { "shape": "Mdiamond" } }),
        json!({
            "node": "review", "prompt": "Review it.", "attributes": { "backend": "direct" },
            "output_context_keys": ["review_passed", "status", "test_failures", "reviewer", "legacy"],
        }),
    ];
    rows.extend(
        stations
            .iter()
            .map(|node| json!({ "node": node, "attributes": { "shape": "diamond" } })),
    );
    rows.push(json!({ "node": "exit", "attributes": { "shape": "Msquare" } }));
    let mut transitions = vec![
        json!({ "source": "start", "target": "review", "condition_type": "always" }),
        json!({ "source": "review", "target": "errors", "condition_type": "failure" }),
        conditional("deploy", r#"{"key": "review_passed", "value": true}"#),
        conditional("release", r#"{"key": "status", "value": "approved"}"#),
        conditional("recheck", r#"{"key": "test_failures", "value": 0}"#),
        conditional("mention", "reviewer"),
        conditional(
            "earlier",
            r#"{"check_output_key": "legacy", "expected_value": true}"#,
        ),
        json!({ "source": "review", "target": "other", "condition_type": "success" }),
    ];
    transitions.extend(
        stations
            .iter()
            .map(|source| json!({ "source": source, "target": "exit" })),
    );
    json!({
        "graph": "review", "attributes": { "routing": "first_match" },
        "stations": rows, "transitions": transitions,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_choose_the_first_transition_that_holds() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(dir.path(), Submit::Safe).await;
    let body = json!({ "name": "review", "rows": review() });
    let reply = server.post("/api/workflows", body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(
        server.get("/api/workflows/review/versions/1").await.json()["rows"],
        review()
    );
    server.activate("review", 1).await;
    let cases = [
        (json!({ "review_passed": true }), "deploy"),
        (json!({ "review_passed": true, "status": "approved" }), "deploy"),
        (
            json!({ "review_passed": "true", "status": "approved" }),
            "release",
        ),
        (json!({ "status": "pending", "test_failures": 0 }), "recheck"),
        (json!({ "test_failures": "0", "reviewer": "alice" }), "mention"),
        (json!({ "test_failures": 3, "legacy": true }), "earlier"),
        (json!({ "review_passed": false }), "other"),
        (json!({}), "other"),
        (json!("nothing"), "errors"),
    ];
    for (answer, station) in &cases {
        let body = json!({ "params": { "answer": answer } });
        let run = server.execute("review", body, "success").await;
        let execution = server.execution(&run).await;
        assert_eq!(
            visited(&execution),
            ["start", "review", station, "exit"],
            "{answer}"
        );
        assert_eq!(execution["workflow"]["name"], "review");
        assert_eq!(
            (&execution["version"], &execution["status"]),
            (&json!(1), &json!("success"))
        );
        let decision = &execution["transitions"][1];
        assert_eq!(
            (&decision["from"], &decision["to"]),
            (&json!("review"), &json!(station))
        );
        if let Some((key, value)) = answer.as_object().and_then(|answer| answer.iter().next_back()) {
            assert_eq!(&execution["context"][key], value, "the output of the stations");
        }
    }
    let analytics = server.get("/api/workflows/review/analytics").await.json();
    let version = &analytics["versions"][0];
    assert_eq!(
        (&version["version"], &version["runs"]),
        (&json!(1), &json!(cases.len()))
    );
    assert_eq!(version["statuses"], json!({ "success": cases.len() }));
    let transitions = version["transitions"].as_array().expect("transitions");
    let count = |target: &str| {
        let row = transitions.iter().find(|row| row["target"] == target);
        let row = row.unwrap_or_else(|| panic!("no transition to {target}"));
        ["tested", "held", "taken"].map(|field| row[field].as_u64().expect("a number"))
    };
    assert_eq!(count("errors"), [9, 1, 1]);
    assert_eq!(count("deploy"), [8, 2, 2]);
    assert_eq!(count("other"), [2, 2, 2]);
    let review = version["stations"].as_array().expect("stations")[1].clone();
    assert_eq!(
        (&review["node"], &review["visits"], &review["failures"]),
        (&json!("review"), &json!(9), &json!(1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transition_that_was_never_taken_is_in_the_analytics_and_a_new_name_keeps_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(dir.path(), Submit::Safe).await;
    server.create("shop", &SHOP.replace("pick -> exit", "pick -> exit [condition_type=success]; pick -> lost [condition_type=failure]; lost [shape=diamond]; lost -> exit")).await;
    server.activate("shop", 1).await;
    server.execute("shop", json!({}), "success").await;
    let renamed = server.change("PUT", "shop", "", json!({ "name": "store" })).await;
    assert_eq!(renamed.status, 200, "{}", renamed.text());
    server
        .execute("store", json!({ "simulate": true }), "success")
        .await;
    let unused = server.add("store", SHOP).await;
    assert_eq!(unused["version"], 2);
    let analytics = server.get("/api/workflows/store/analytics").await.json();
    let versions = analytics["versions"].as_array().expect("versions");
    assert_eq!(
        (&versions[0]["version"], &versions[0]["runs"]),
        (&json!(2), &json!(0))
    );
    let first = &versions[1];
    assert_eq!((&first["runs"], &first["simulated"]), (&json!(2), &json!(1)));
    let lost: Vec<&Value> = first["transitions"]
        .as_array()
        .expect("transitions")
        .iter()
        .filter(|row| row["taken"] == 0)
        .map(|row| &row["target"])
        .collect();
    assert_eq!(lost, ["lost", "exit"]);
    let stations = first["stations"].as_array().expect("stations");
    let unvisited: Vec<&Value> = stations
        .iter()
        .filter(|station| station["visits"] == 0)
        .map(|station| &station["node"])
        .collect();
    assert_eq!(unvisited, ["lost"]);
    // The page of the definition counts the same runs.
    let definition = server.get("/api/v1/definitions/stations:store").await.json();
    assert_eq!(
        (&definition["runs"], &definition["kind"]),
        (&json!(2), &json!("workflow"))
    );
    let listed = server.get("/api/v1/definitions").await.json();
    assert_eq!(listed["definitions"][0]["file"], "stations:store@1");
    // So do the lists of workflows and of their runs.
    server.create("other", SHOP).await;
    server.activate("other", 1).await;
    server
        .execute("other", json!({ "simulate": true }), "success")
        .await;
    let listed = server.get("/api/workflows").await.json();
    let counts: Vec<&Value> = listed["workflows"]
        .as_array()
        .expect("workflows")
        .iter()
        .map(|workflow| &workflow["runs"])
        .collect();
    assert_eq!(counts, [1, 2], "of `other` and `store`");
    let runs = server.get("/api/v1/runs?workflow=store&limit=1").await.json();
    assert_eq!(runs["runs"][0]["file"], "stations:store@1");
    let cursor = runs["next"].as_str().expect("a further page");
    let path = format!("/api/v1/runs?workflow=store&limit=1&cursor={cursor}");
    let runs = server.get(&path).await.json();
    assert_eq!(runs["runs"][0]["file"], "stations:shop@1");
    assert_eq!(runs["next"], Value::Null);
    let unknown = server.get("/api/v1/runs?workflow=stores").await;
    is_error(&unknown, 404, "unknown_workflow");
}

/// A tool that would leave a file behind.
fn canary(dir: &std::path::Path) -> String {
    format!(
        "digraph c {{\n start -> s -> exit\n s [shape=parallelogram, tool_command=\"touch {}\"]\n}}",
        dir.join("canary").display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_written_over_http_may_only_ask_models_and_people() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(dir.path(), Submit::Safe).await;
    server.create("shop", &canary(dir.path())).await;
    let refused = |reply: crate::support::Reply| {
        is_error(&reply, 403, "needs_power");
        let text = reply.text();
        for part in [
            "node `s`",
            "line 3",
            "tool_command",
            "--submit any",
            "written over HTTP",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    };
    let execute = json!({ "version": 1 });
    refused(server.post("/api/workflows/shop/execute", execute.clone()).await);
    refused(
        server
            .change("POST", "shop", "/versions/1/activate", json!({}))
            .await,
    );
    refused(
        server
            .post("/api/v1/definitions/stations:shop@1/runs", json!({}))
            .await,
    );
    // A person who has read it may activate it. It is refused by HTTP nevertheless.
    let store = database(dir.path());
    let shop = store.workflow("shop").expect("it is there");
    let shop = store.activate("shop", &shop.etag, 1).expect("it is sound");
    refused(server.post("/api/workflows/shop/execute", json!({})).await);
    refused(
        server
            .post("/api/v1/definitions/stations:shop/runs", json!({}))
            .await,
    );
    for (node, power) in [
        ("prompt=x, \"tool_hooks.pre\"=\"touch canary\"", "tool_hooks.pre"),
        ("prompt_file=\"/etc/passwd\"", "prompt_file"),
        (
            "shape=folder, \"subpipeline.file\"=\"other.dot\"",
            "subpipeline.file",
        ),
        ("type=own_handler", "handler"),
    ] {
        let version = server
            .add(
                "shop",
                &format!("digraph a {{\n start -> s -> exit\n s [{node}]\n}}"),
            )
            .await["version"]
            .clone();
        let reply = server
            .post("/api/workflows/shop/execute", json!({ "version": version }))
            .await;
        is_error(&reply, 403, "needs_power");
        assert!(reply.text().contains(power), "{power}: {}", reply.text());
    }
    server
        .execute("shop", json!({ "version": 1, "simulate": true }), "success")
        .await;
    assert!(!dir.path().join("canary").exists());
    // The same text of a local program is not restricted.
    let text = VersionText::Dot(canary(dir.path()));
    let present = store.workflow("shop").expect("it is there");
    assert_ne!(present.etag, shop.etag);
    let local = store
        .add_version("shop", &present.etag, &text, VersionOrigin::Local, "")
        .expect("stored");
    server
        .execute("shop", json!({ "version": local.latest }), "success")
        .await;
    assert!(dir.path().join("canary").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_decides_which_versions_written_over_http_run() {
    for (kind, harmless, simulated, with_tool) in [
        (Submit::Off, 403, 403, 403),
        (Submit::Simulate, 403, 201, 403),
        (Submit::Safe, 201, 201, 403),
        (Submit::Any, 201, 201, 201),
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        let server = serve(dir.path(), kind).await;
        server.create("shop", SHOP).await;
        server.create("tool", &canary(dir.path())).await;
        for (workflow, body, status) in [
            ("shop", json!({ "version": 1 }), harmless),
            ("shop", json!({ "version": 1, "simulate": true }), simulated),
            ("tool", json!({ "version": 1 }), with_tool),
        ] {
            let path = format!("/api/workflows/{workflow}/execute");
            let reply = server.post(&path, body).await;
            assert_eq!(reply.status, status, "{kind} {workflow}: {}", reply.text());
        }
        // Local programs run the active version.
        for (workflow, status) in [("shop", harmless), ("tool", with_tool)] {
            let tag = server.get(&format!("/api/workflows/{workflow}")).await.json()["etag"].clone();
            let path = format!("/api/workflows/{workflow}/versions/1/activate");
            let request = server.authorized("POST", &path).json(&json!({}));
            let reply = with_tag(request, tag.as_str().expect("a tag")).send().await;
            let status = if status == 201 { 200 } else { status };
            assert_eq!(reply.status, status, "{kind} {workflow}: {}", reply.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_version_written_over_http_is_recognised_when_it_is_resumed() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = format!(
        "digraph c {{\n start -> ask -> s -> exit\n ask [shape=hexagon]\n ask -> s [label=Go]\n \
         s [shape=parallelogram, tool_command=\"touch {}; exit 1\"]\n}}",
        dir.path().join("canary").display()
    );
    let text = text.replace("ask -> s -> exit", "ask; s -> exit");
    let mut server = serve(dir.path(), Submit::Any).await;
    server.create("shop", &text).await;
    server.activate("shop", 1).await;
    let waiting = server.execute("shop", json!({}), "running").await;
    server.until_asked(&waiting).await;
    let failed = server.execute("shop", json!({}), "running").await;
    server.until_asked(&failed).await;
    let answer = format!("/pipelines/{failed}/questions/ask/answer");
    assert_eq!(server.post(&answer, json!({ "choice": "G" })).await.status, 200);
    server.until_status(&failed, "fail").await;
    assert_eq!(server.stop().await, std::slice::from_ref(&waiting));
    std::fs::remove_file(dir.path().join("canary")).expect("the tool has run");
    let server = serve(dir.path(), Submit::Safe).await;
    let checkpoint = json!({ "checkpoint": "ask#1/1" });
    for (path, body) in [
        (format!("/api/v1/runs/{waiting}/resume"), json!({})),
        (
            format!("/api/v1/runs/{waiting}/resume"),
            json!({ "accept_changes": true }),
        ),
        (format!("/api/v1/runs/{failed}/resume"), json!({ "retry": true })),
        (format!("/api/v1/runs/{failed}/replay"), checkpoint),
        (
            format!("/api/workflow-executions/{failed}/retry-station"),
            json!({}),
        ),
        (
            format!("/api/workflow-executions/{failed}/retry-station"),
            json!({ "accept_changes": true }),
        ),
    ] {
        let reply = server.post(&path, body).await;
        is_error(&reply, 403, "needs_power");
        assert!(reply.text().contains("node `s`"), "{path}: {}", reply.text());
    }
    assert!(!dir.path().join("canary").exists());
    // The text is trusted from the moment at which a local program has written it too, whatever its name is.
    let store = database(dir.path());
    store
        .create("copy", &VersionText::Dot(text), VersionOrigin::Local, "")
        .expect("stored");
    let path = format!("/api/workflow-executions/{failed}/retry-station");
    assert_eq!(server.post(&path, json!({})).await.status, 202);
    server.until_status(&failed, "fail").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_station_that_failed_is_retried_under_the_same_id() {
    let dir = tempfile::tempdir().expect("a folder");
    let answers = Answers::default();
    answers.is_away.store(true, Ordering::SeqCst);
    let server = serve_with(dir.path(), Submit::Safe, answers.clone()).await;
    let shop = SHOP.replace("pick -> exit", "pick -> exit [condition_type=success]");
    server.create("shop", &shop).await;
    server.activate("shop", 1).await;
    let run = server.execute("shop", json!({}), "fail").await;
    let before = server.execution(&run).await;
    assert_eq!(before["failed_at"], "pick");
    answers.is_away.store(false, Ordering::SeqCst);
    let path = format!("/api/workflow-executions/{run}/retry-station");
    let reply = server.post(&path, json!({})).await;
    assert_eq!(
        (reply.status, &reply.json()["id"]),
        (202, &json!(run)),
        "{}",
        reply.text()
    );
    server.until_status(&run, "success").await;
    let after = server.execution(&run).await;
    let attempts = before["stations"].as_array().map_or(0, Vec::len);
    assert_eq!(
        after["stations"].as_array().expect("stations")[..attempts],
        before["stations"].as_array().expect("stations")[..],
        "the failed attempts stay"
    );
    assert_eq!(visited(&after).last(), Some(&"exit"));
    let again = server.post(&path, json!({})).await;
    assert_eq!(again.status, 409, "{}", again.text());
    let position = after["position"].as_u64().expect("a position");
    let rest = server
        .get(&format!("/api/workflow-executions/{run}?since={position}"))
        .await
        .json();
    assert_eq!(visited(&rest), Vec::<&str>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_without_a_matching_transition_goes_on_with_the_repaired_version() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(dir.path(), Submit::Safe).await;
    let stuck = SHOP.replace(
        "pick -> exit",
        "pick -> exit [condition_type=conditional, condition_value=found]",
    );
    server.create("shop", &stuck).await;
    server.activate("shop", 1).await;
    let run = server.execute("shop", json!({}), "fail").await;
    let rows = server.get(&format!("/api/v1/runs/{run}")).await.json();
    assert_eq!(rows["run"]["code"], "no_matching_edge");
    let repaired = SHOP.replace(
        "pick -> exit",
        "pick -> exit [condition_type=conditional, condition_value=found]; pick -> exit [condition_type=success]",
    );
    server.add("shop", &repaired).await;
    server.activate("shop", 2).await;
    server.change("PUT", "shop", "", json!({ "name": "store" })).await;
    let path = format!("/api/workflow-executions/{run}/retry-station");
    let reply = server.post(&path, json!({ "accept_changes": true })).await;
    assert_eq!(reply.status, 202, "{}", reply.text());
    server.until_status(&run, "success").await;
    let execution = server.execution(&run).await;
    assert_eq!(execution["workflow"]["name"], "store");
    assert_eq!(execution["version"], 2, "it goes on with the active version");
    assert_eq!(visited(&execution), ["start", "pick", "exit"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activation_does_not_touch_runs_in_progress_and_other_runs_are_no_executions() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(dir.path(), Submit::Safe).await;
    let gate = "digraph shop { start -> ask; ask [shape=hexagon]; ask -> first [label=Go]; first [shape=diamond]; first -> exit }";
    server.create("shop", gate).await;
    server.activate("shop", 1).await;
    let run = server.execute("shop", json!({}), "running").await;
    server.until_asked(&run).await;
    server.add("shop", &gate.replace("first", "second")).await;
    server.activate("shop", 2).await;
    let answer = format!("/pipelines/{run}/questions/ask/answer");
    assert_eq!(server.post(&answer, json!({ "choice": "G" })).await.status, 200);
    server.until_status(&run, "success").await;
    let execution = server.execution(&run).await;
    assert_eq!(visited(&execution), ["start", "ask", "first", "exit"]);
    assert_eq!(execution["version"], 1);
    let later = server.execute("shop", json!({}), "running").await;
    server.until_asked(&later).await;
    assert_eq!(server.execution(&later).await["version"], 2);
    assert_eq!(server.execution(&later).await["questions"][0]["node"], "ask");
    let analytics = server.get("/api/workflows/shop/analytics").await.json();
    let statuses: Vec<&Value> = analytics["versions"]
        .as_array()
        .expect("versions")
        .iter()
        .map(|version| &version["statuses"])
        .collect();
    assert_eq!(statuses, [&json!({ "running": 1 }), &json!({ "success": 1 })]);
    let submitted = server
        .authorized("POST", "/pipelines")
        .body("text/vnd.graphviz", b"digraph a { start -> exit }")
        .send()
        .await;
    let other = submitted.json()["id"].as_str().expect("an id").to_owned();
    let reply = server.get(&format!("/api/workflow-executions/{other}")).await;
    is_error(&reply, 404, "unknown_workflow_execution");
    let path = format!("/api/workflow-executions/{other}/retry-station");
    is_error(
        &server.post(&path, json!({})).await,
        404,
        "unknown_workflow_execution",
    );
}

/// Adds versions until `edits` of them were accepted, with a session of its own. Returns their numbers.
async fn edit(server: &TestServer, writer: usize, edits: usize) -> Vec<u64> {
    let begin = server
        .request("POST", "/api/v1/session")
        .header("X-Orchestra", "1");
    let reply = begin.json(&json!({ "token": server.token })).send().await;
    let cookie = reply.header("set-cookie").expect("a cookie");
    let cookie = cookie.split(';').next().expect("a pair").to_owned();
    let key = reply.json()["key"].as_str().expect("a key").to_owned();
    let request = |method: &str, path: &str| {
        let request = server.request(method, path).header("Cookie", &cookie);
        request.header("X-Orchestra", &key)
    };
    let mut accepted = Vec::new();
    while accepted.len() < edits {
        let seen = request("GET", "/api/workflows/shop").send().await.json();
        let tag = seen["etag"].as_str().expect("a tag");
        let note = format!("{writer}.{}", accepted.len());
        let body = json!({ "dot": SHOP, "note": note });
        let add = request("POST", "/api/workflows/shop/versions").json(&body);
        let reply = with_tag(add, tag).send_patiently().await;
        match reply.status {
            201 => {
                let version = reply.json()["version"].as_u64().expect("a number");
                assert_eq!(Some(version), seen["latest"].as_u64().map(|latest| latest + 1));
                accepted.push(version);
            }
            _ => is_error(&reply, 412, "changed"),
        }
    }
    accepted
}

/// Each writer adds 12 versions; `ORACLE_CASES=500` adds more.
#[tokio::test(flavor = "multi_thread")]
async fn no_change_of_many_writers_is_lost() {
    const WRITERS: usize = 8;
    let edits = case_count(12);
    let dir = tempfile::tempdir().expect("a folder");
    let server = std::sync::Arc::new(serve(dir.path(), Submit::Safe).await);
    let shop = server.create("shop", SHOP).await;
    // Of two changes that were made for the same state, exactly one counts.
    let tag = shop["etag"].as_str().expect("a tag").to_owned();
    let change = |name: &str| {
        let request = server.authorized("PUT", "/api/workflows/shop");
        tokio::spawn(with_tag(request, &tag).json(&json!({ "name": name })).send())
    };
    let (one, other) = (change("one"), change("other"));
    let mut statuses = [one.await, other.await].map(|reply| reply.expect("no panic").status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let server = server.clone();
            tokio::spawn(async move { edit(&server, writer, edits).await })
        })
        .collect();
    let mut accepted = Vec::new();
    for writer in writers {
        accepted.extend(writer.await.expect("no panic"));
    }
    accepted.sort_unstable();
    let expected: Vec<u64> = (2..).take(WRITERS * edits).collect();
    assert_eq!(accepted, expected);
    let notes: std::collections::BTreeSet<String> = database(dir.path())
        .versions("shop")
        .expect("versions")
        .into_iter()
        .map(|version| version.note)
        .collect();
    assert_eq!(notes.len(), WRITERS * edits + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_replaced_or_damaged_is_noticed() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(dir.path(), Submit::Safe).await;
    server.create("shop", SHOP).await;
    let path = dir.path().join("stations.sqlite");
    let backup = tempfile::tempdir().expect("a folder");
    let restored = database(backup.path());
    restored
        .create(
            "restored",
            &VersionText::Dot(SHOP.to_owned()),
            VersionOrigin::Local,
            "",
        )
        .expect("stored");
    drop(restored);
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(dir.path().join(format!("stations.sqlite{end}")));
    }
    std::fs::rename(backup.path().join("stations.sqlite"), &path).expect("moved");
    let list = server.get("/api/workflows").await.json();
    assert_eq!(list["workflows"][0]["name"], "restored");
    let damaged = tempfile::NamedTempFile::new_in(dir.path()).expect("a file");
    std::fs::write(damaged.path(), "not a database at all").expect("written");
    damaged.persist(&path).expect("moved");
    let reply = server.get("/api/workflows").await;
    is_error(&reply, 500, "stations_damaged");
    assert_eq!(server.get("/api/v1/definitions").await.status, 200);
    let refused = database_error(&path);
    assert_eq!(refused.code(), "stations_damaged");
}

fn database_error(path: &std::path::Path) -> StationError {
    orchestra_stations::StationStore::open(path).expect_err("it is damaged")
}
