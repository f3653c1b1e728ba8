//! What may still happen in a run, and where its values come from.

use serde_json::{Value, json};

use crate::support::{TestServer, entry};

const LOOP: &str = r#"digraph crate {
    start -> build -> both
    build [shape=parallelogram, tool_command="echo built", max_visits=2]
    both [shape=component]
    both -> left -> join
    both -> right -> join
    left [shape=parallelogram, tool_command="echo left"]
    right [shape=parallelogram, tool_command="echo right"]
    join [shape=tripleoctagon]
    join -> ask
    ask [shape=hexagon, label="Ship it?"]
    ask -> rework [label="[R] Rework"]
    ask -> publish [label="[P] Publish"]
    rework [shape=parallelogram, tool_command="echo again"]
    rework -> build [condition="context.human.gate.selected=R"]
    rework -> exit
    publish [shape=parallelogram, tool_command="echo published"]
    publish -> exit
}"#;

/// Answers the question that is asked first in these rows.
async fn answer(server: &TestServer, run: &str, rows: &Value, choice: &str) {
    let question = rows["questions"][0]["id"].as_str().expect("a question");
    let question = question.replace('#', "%23").replace('/', "%2F");
    let path = format!("/pipelines/{run}/questions/{question}/answer");
    let reply = server.post(&path, json!({ "choice": choice })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// Begins a run, has it rework once, and returns its rows when it asks again.
async fn reworked(server: &TestServer) -> (String, Value) {
    let run = server.begin("crate").await;
    let first = server.until_asked(&run).await;
    answer(server, &run, &first, "R").await;
    let is_asked_again = |rows: &Value| {
        let question = &rows["questions"][0]["id"];
        question.is_string() && *question != first["questions"][0]["id"]
    };
    let rows = server.until(&run, is_asked_again).await;
    (run, rows)
}

fn names(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_still_happen_follows_the_run() {
    let server = TestServer::with(|server| server.entry(entry("crate", LOOP))).await;
    let run = server.begin("crate").await;
    server.until_asked(&run).await;
    let path = format!("/api/v1/runs/{run}/reachable");
    let ahead = server.get(&path).await.json();
    assert_eq!(names(&ahead["from"]), ["ask"]);
    assert_eq!(names(&ahead["unreachable"]), ["start"]);
    let nodes = ahead["nodes"].as_array().expect("nodes");
    let row = |node: &str| {
        nodes
            .iter()
            .find(|row| row["node"] == node)
            .expect("the node is reachable")
    };
    assert_eq!(
        (&row("ask")["steps"], &row("ask")["kind"]),
        (&json!(0), &json!("wait.human"))
    );
    assert_eq!(row("ask")["label"], "Ship it?");
    assert_eq!(
        (&row("publish")["steps"], &row("exit")["steps"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        (&row("build")["visits"], &row("build")["visits_left"]),
        (&json!(1), &json!(1))
    );
    let (run, rows) = reworked(&server).await;
    let path = format!("/api/v1/runs/{run}/reachable");
    let ahead = server.get(&path).await.json();
    let nodes = ahead["nodes"].as_array().expect("nodes");
    let build = nodes
        .iter()
        .find(|row| row["node"] == "build")
        .expect("it can be reached, once too often");
    assert_eq!(build["visits_left"], 0);
    assert_eq!(
        names(&ahead["unreachable"]),
        ["start", "both", "left", "join", "right"]
    );
    answer(&server, &run, &rows, "P").await;
    server.until_status(&run, "success").await;
    let over = server.get(&path).await.json();
    assert_eq!((&over["from"], &over["nodes"]), (&json!([]), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_value_names_the_stage_that_wrote_it_and_the_edges_that_read_it() {
    let server = TestServer::with(|server| server.entry(entry("crate", LOOP))).await;
    let (run, _) = reworked(&server).await;
    let context = server.get(&format!("/pipelines/{run}/context")).await.json();
    let writer = |key: &str| context["writers"][key].clone();
    // The branches wrote to copies of the context.
    assert_eq!(context["values"]["tool.output"], "built\n");
    assert_eq!(
        writer("tool.output"),
        json!({ "node": "build", "visit": 2, "attempt": 1 })
    );
    assert_eq!(writer("parallel.results")["node"], "both");
    assert_eq!(writer("parallel.fan_in.best_id")["node"], "join");
    assert_eq!(writer("human.gate.selected")["node"], "ask");
    assert_eq!(
        context["readers"]["human.gate.selected"],
        json!([{ "from": "rework", "to": "build", "condition": "context.human.gate.selected=R" }])
    );
    let begin = server
        .get(&format!("/pipelines/{run}/context?at=cp_000000"))
        .await
        .json();
    assert_eq!((&begin["writers"], &begin["readers"]), (&json!({}), &json!({})));
}
