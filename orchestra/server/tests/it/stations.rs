//! Station workflows by HTTP: rows, versions, checks, executions and analytics.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest, Outcome};
use orchestra_server::Submit;
use orchestra_stations::StationStore;
use serde_json::{Value, json};

use crate::support::{Reply, TestRequest, TestServer};

/// Replaces a model: answers with the JSON that the run was given, or fails.
#[derive(Clone, Default)]
pub(crate) struct Answers {
    pub(crate) is_away: Arc<AtomicBool>,
}

impl CodergenBackend for Answers {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let context = request.stage.context();
        if self.is_away.load(Ordering::SeqCst) || context.text("answer") == "nothing" {
            return Ok(Outcome::fail("the model is away").into());
        }
        let answer = context.get("answer").cloned().unwrap_or_default();
        Ok(format!("This is what I found.\n\n```json\n{answer}\n```\n").into())
    }
}

pub(crate) async fn serve(dir: &Path, submit: Submit) -> TestServer {
    serve_with(dir, submit, Answers::default()).await
}

pub(crate) async fn serve_with(dir: &Path, submit: Submit, answers: Answers) -> TestServer {
    TestServer::in_folder(
        dir,
        |engine| engine.backend(answers),
        |server| server.stations(dir.join("stations.sqlite")).submit(submit),
    )
    .await
}

pub(crate) fn database(dir: &Path) -> StationStore {
    StationStore::open(dir.join("stations.sqlite")).expect("a database")
}

pub(crate) const SHOP: &str = "digraph shop {
    routing=first_match
    node [backend=direct]
    start -> pick
    pick -> exit
    pick [prompt=\"Pick the goods.\"]
}";

/// A text whose subgraph gives its nodes a class.
const CLASSED: &str = r#"digraph { model_stylesheet=".slow { llm_model: big; }"; node [backend=direct]; start -> a -> exit
    subgraph cluster_slow { label=Slow; a [prompt="Think."] } }"#;

pub(crate) fn with_tag(request: TestRequest, tag: &str) -> TestRequest {
    request.header("If-Match", &format!("\"{tag}\""))
}

impl TestServer {
    pub(crate) async fn create(&self, name: &str, dot: &str) -> Value {
        let reply = self
            .post("/api/workflows", json!({ "name": name, "dot": dot }))
            .await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()
    }

    /// Sends a change of a workflow with its present tag.
    pub(crate) async fn change(&self, method: &str, workflow: &str, below: &str, body: Value) -> Reply {
        let present = self.get(&format!("/api/workflows/{workflow}")).await;
        assert_eq!(present.status, 200, "{}", present.text());
        let tag = present.header("etag").expect("a tag").to_owned();
        let path = format!("/api/workflows/{workflow}{below}");
        let request = self.authorized(method, &path).header("If-Match", &tag);
        request.json(&body).send_patiently().await
    }

    pub(crate) async fn add(&self, workflow: &str, dot: &str) -> Value {
        let reply = self
            .change("POST", workflow, "/versions", json!({ "dot": dot }))
            .await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()
    }

    pub(crate) async fn activate(&self, workflow: &str, version: u32) {
        let below = format!("/versions/{version}/activate");
        let reply = self.change("POST", workflow, &below, json!({})).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.json()["active"], version);
    }

    /// Starts an execution and waits until it has this status.
    pub(crate) async fn execute(&self, workflow: &str, body: Value, status: &str) -> String {
        let reply = self
            .post(&format!("/api/workflows/{workflow}/execute"), body)
            .await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        let run = reply.json()["id"].as_str().expect("an id").to_owned();
        let path = format!("/api/workflow-executions/{run}");
        assert_eq!(reply.header("location"), Some(path.as_str()));
        self.until_status(&run, status).await;
        run
    }

    pub(crate) async fn execution(&self, run: &str) -> Value {
        self.get(&format!("/api/workflow-executions/{run}")).await.json()
    }
}

/// Returns the stations that an execution visited.
pub(crate) fn visited(execution: &Value) -> Vec<&str> {
    let stations = execution["stations"].as_array().expect("stations");
    stations
        .iter()
        .filter_map(|station| station["node"].as_str())
        .collect()
}

pub(crate) fn is_error(reply: &Reply, status: u16, code: &str) {
    let text = reply.text();
    assert_eq!((reply.status, reply.code().as_str()), (status, code), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_created_edited_activated_renamed_and_archived() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(dir.path(), Submit::Safe).await;
    assert_eq!(
        server.get("/api/workflows").await.json(),
        json!({ "workflows": [] })
    );
    assert!(
        !dir.path().join("stations.sqlite").exists(),
        "reading creates nothing"
    );
    let body = json!({ "name": "shop", "dot": SHOP, "note": "first" });
    let reply = server.post("/api/workflows", body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let shop = reply.json();
    let id = shop["id"].as_str().expect("an id");
    assert_eq!(
        reply.header("location"),
        Some(format!("/api/workflows/{id}").as_str())
    );
    let tag = format!("\"{}\"", shop["etag"].as_str().expect("a tag"));
    assert_eq!(reply.header("etag"), Some(tag.as_str()));
    for path in [format!("/api/workflows/{id}"), "/api/workflows/shop".to_owned()] {
        let reply = server.get(&path).await;
        assert_eq!((reply.json(), reply.header("etag")), (shop.clone(), Some(&*tag)));
        let known = server.authorized("GET", &path).header("If-None-Match", &tag);
        let reply = known.send().await;
        assert_eq!((reply.status, reply.header("etag")), (304, Some(&*tag)));
    }
    let added = server
        .add("shop", &SHOP.replace("pick -> exit", "pick -> wrap -> exit"))
        .await;
    assert_eq!((&added["version"], &added["origin"]), (&json!(2), &json!("http")));
    assert_eq!(added["valid"], true);
    let stale = server.authorized("GET", "/api/workflows/shop");
    assert_eq!(stale.header("If-None-Match", &tag).send().await.status, 200);
    let list = server.get("/api/workflows/shop/versions").await.json();
    let numbers: Vec<&Value> = list["versions"]
        .as_array()
        .expect("versions")
        .iter()
        .map(|version| &version["version"])
        .collect();
    assert_eq!(numbers, [2, 1]);
    let first = server.get("/api/workflows/shop/versions/1").await.json();
    assert_eq!((&first["dot"], &first["note"]), (&json!(SHOP), &json!("first")));
    assert_eq!(first["rows"]["stations"][1]["prompt"], "Pick the goods.");
    assert_eq!(first["scene"]["nodes"].as_array().map(Vec::len), Some(3));
    assert!(first["diagnostics"].is_array());
    let bare = server.get("/api/workflows/shop/versions/1.dot").await;
    assert_eq!(bare.text(), SHOP);
    assert!(
        bare.header("content-type")
            .is_some_and(|kind| kind.starts_with("text/vnd.graphviz"))
    );
    let difference = server
        .get("/api/workflows/shop/versions/2/difference?from=1")
        .await
        .json();
    let own = database(dir.path())
        .difference(("shop", 1), ("shop", 2))
        .expect("sound");
    assert_eq!(difference, serde_json::to_value(&own).expect("JSON"));
    server.activate("shop", 2).await;
    let reply = server.change("PUT", "shop", "", json!({ "name": "store" })).await;
    assert_eq!((reply.status, &reply.json()["name"]), (200, &json!("store")));
    let reply = server.change("DELETE", "store", "", json!({})).await;
    assert!(reply.json()["archived_at"].is_u64(), "{}", reply.text());
    assert_eq!(
        server.get("/api/workflows?archived=false").await.json(),
        json!({ "workflows": [] })
    );
    let all = server.get("/api/workflows?archived=true").await.json();
    assert_eq!(all["workflows"][0]["name"], "store");
    for (method, below, body) in [
        ("PUT", "", json!({ "name": "shop" })),
        ("DELETE", "", json!({})),
        ("POST", "/versions", json!({ "dot": SHOP })),
        ("POST", "/versions/1/activate", json!({})),
        ("POST", "/execute", json!({})),
        ("POST", "/execute", json!({ "version": 1 })),
    ] {
        let reply = server.change(method, "store", below, body).await;
        is_error(&reply, 409, "workflow_archived");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_names_the_state_that_it_was_made_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(dir.path(), Submit::Safe).await;
    let shop = server.create("shop", SHOP).await;
    let tag = shop["etag"].as_str().expect("a tag");
    for (method, below, body) in [
        ("PUT", "", json!({ "name": "store" })),
        ("DELETE", "", json!({})),
        ("POST", "/versions", json!({ "dot": SHOP })),
        ("POST", "/versions/1/activate", json!({})),
    ] {
        let path = format!("/api/workflows/shop{below}");
        let request = || server.authorized(method, &path).json(&body);
        is_error(&request().send().await, 428, "if_match_required");
        let any = request().header("If-Match", "*").send().await;
        is_error(&any, 428, "if_match_required");
        let bare = request().header("If-Match", tag).send().await;
        is_error(&bare, 400, "malformed");
        let other = with_tag(request(), "0123").send().await;
        is_error(&other, 412, "changed");
        assert_eq!(other.header("etag"), Some(format!("\"{tag}\"").as_str()));
    }
    assert_eq!(server.get("/api/workflows/shop").await.json(), shop);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_about_workflows_are_told_what_is_wrong() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(dir.path(), Submit::Safe).await;
    is_error(&server.get("/api/workflows/shop").await, 404, "unknown_workflow");
    server.create("shop", SHOP).await;
    let wrong = server.get("/api/workflows?archive=true").await;
    is_error(&wrong, 400, "malformed");
    assert_eq!(wrong.json()["help"], "did you mean `archived`?");
    let near = server.get("/api/workflows/shpo").await;
    is_error(&near, 404, "unknown_workflow");
    assert!(near.text().contains("did you mean `shop`?"), "{}", near.text());
    for (path, status, code) in [
        ("/api/workflows?archived=yes", 400, "malformed"),
        ("/api/workflows/shop?x=1", 400, "malformed"),
        ("/api/workflows/%00", 404, "unknown_workflow"),
        ("/api/workflows/..%2fshop", 404, "unknown_workflow"),
        ("/api/workflows/other/versions", 404, "unknown_workflow"),
        ("/api/workflows/other/analytics", 404, "unknown_workflow"),
        ("/api/workflows/shop/versions/2", 404, "unknown_version"),
        ("/api/workflows/shop/versions/0", 404, "unknown_version"),
        ("/api/workflows/shop/versions/one.dot", 404, "unknown_version"),
        ("/api/workflows/shop/versions/1/difference", 400, "malformed"),
        (
            "/api/workflows/shop/versions/1/difference?from=9",
            404,
            "unknown_version",
        ),
        ("/api/workflow-executions/x", 404, "unknown_workflow_execution"),
    ] {
        is_error(&server.get(path).await, status, code);
    }
    for (path, body, status, code) in [
        ("/api/workflows", json!({}), 400, "malformed"),
        ("/api/workflows", json!({ "name": "a" }), 400, "malformed"),
        (
            "/api/workflows",
            json!({ "name": "a", "dot": SHOP, "rows": {} }),
            400,
            "malformed",
        ),
        (
            "/api/workflows",
            json!({ "name": "a", "dot": SHOP, "nota": "" }),
            400,
            "malformed",
        ),
        (
            "/api/workflows",
            json!({ "name": "a", "rows": { "stationz": [] } }),
            400,
            "malformed",
        ),
        (
            "/api/workflows",
            json!({ "name": "a/b", "dot": SHOP }),
            422,
            "workflow_name",
        ),
        (
            "/api/workflows",
            json!({ "name": "shop", "dot": SHOP }),
            409,
            "workflow_name_taken",
        ),
        (
            "/api/workflows",
            json!({ "name": "a", "rows": { "stations": [{ "node": "a b" }] } }),
            422,
            "invalid_row",
        ),
        (
            "/api/workflows/shop/execute",
            json!({ "parms": {} }),
            400,
            "malformed",
        ),
        (
            "/api/workflows/shop/execute",
            json!({ "max_time": "soon" }),
            400,
            "malformed",
        ),
        ("/api/workflows/shop/execute", json!({}), 409, "no_active_version"),
        (
            "/api/workflows/shop/execute",
            json!({ "version": 7 }),
            404,
            "unknown_version",
        ),
        ("/api/workflows/other/execute", json!({}), 404, "unknown_workflow"),
        (
            "/api/workflows/shop/versions/1/validate",
            json!({ "x": 1 }),
            400,
            "malformed",
        ),
        (
            "/api/workflow-executions/x/retry-station",
            json!({}),
            404,
            "unknown_workflow_execution",
        ),
    ] {
        let request = server.authorized("POST", path).json(&body);
        is_error(&request.send_patiently().await, status, code);
    }
    let none = TestServer::start().await;
    is_error(&none.get("/api/workflows/shop").await, 404, "no_stations");
    let body = json!({ "name": "shop", "dot": SHOP });
    is_error(&none.post("/api/workflows", body).await, 404, "no_stations");
    for (server, has_stations) in [(&none, false), (&server, true)] {
        let about = server.get("/api/v1/about").await.json();
        assert_eq!(about["stations"], has_stations);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_with_errors_are_located_and_rows_lose_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(dir.path(), Submit::Safe).await;
    let torn = json!({ "name": "shop", "dot": "digraph {\n  start -> }" });
    let reply = server.post("/api/workflows", torn).await;
    is_error(&reply, 422, "invalid_workflow");
    assert_eq!(reply.json()["diagnostics"][0]["line"], 2);
    // A text that can be parsed is stored, but not activated or run.
    server.create("shop", "digraph {\n  start -> pick\n}").await;
    let checked = server
        .post("/api/workflows/shop/versions/1/validate", json!({}))
        .await
        .json();
    assert_eq!(checked["valid"], false);
    let reply = server
        .change("POST", "shop", "/versions/1/activate", json!({}))
        .await;
    is_error(&reply, 422, "invalid_workflow");
    let diagnostic = &reply.json()["diagnostics"][0];
    assert_eq!(diagnostic["file"], "stations:shop@1");
    assert!(diagnostic["line"].is_u64(), "{diagnostic}");
    let reply = server
        .post("/api/workflows/shop/execute", json!({ "version": 1 }))
        .await;
    is_error(&reply, 422, "invalid_pipeline");
    let difference = server
        .get("/api/workflows/shop/versions/1/difference?from=1")
        .await;
    is_error(&difference, 422, "invalid_workflow");
    // The classes of a subgraph belong to a stylesheet, which rows cannot hold.
    let classed = server.add("shop", CLASSED).await;
    assert_eq!(
        (&classed["valid"], &classed["version"]),
        (&json!(true), &json!(2))
    );
    let rows = server.get("/api/workflows/shop/versions/2").await.json()["rows"].clone();
    let reply = server
        .change("POST", "shop", "/versions", json!({ "rows": rows }))
        .await;
    is_error(&reply, 422, "not_representable");
    assert!(
        reply.json()["help"]
            .as_str()
            .is_some_and(|help| help.contains("`dot`"))
    );
}
