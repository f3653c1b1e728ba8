//! Two runs, aligned to their first divergence.

use serde_json::{Value, json};

use crate::support::{TestServer, entry};

const SIZES: &str = r#"digraph sizes {
    start -> measure -> size
    measure [shape=parallelogram, tool_command="true"]
    size  [shape=diamond]
    size -> large [condition="context.lines>=100"]
    size -> small [condition="context.lines<100"]
    small [shape=parallelogram, tool_command="true"]
    large [shape=parallelogram, tool_command="false", end="fail"]
    small -> exit
}"#;

async fn begin(server: &TestServer, lines: u32, status: &str) -> String {
    let path = "/api/v1/definitions/sizes/runs";
    let reply = server.post(path, json!({ "params": { "lines": lines } })).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let run = reply.json()["id"].as_str().expect("an id").to_owned();
    server.until_status(&run, status).await;
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_are_aligned_to_their_first_divergence() {
    let server = TestServer::with(|server| server.entry(entry("sizes", SIZES))).await;
    let good = begin(&server, 12, "success").await;
    let bad = begin(&server, 120, "fail").await;
    let reply = server
        .get(&format!("/api/v1/runs/{good}/compare?with={bad}"))
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let compared = reply.json();
    assert_eq!(compared["schema"], "orchestra.comparison/1");
    assert_eq!(
        (&compared["left"]["run"], &compared["right"]["run"]),
        (&json!(good), &json!(bad))
    );
    assert_eq!(
        (&compared["left"]["status"], &compared["right"]["status"]),
        (&json!("success"), &json!("fail"))
    );
    assert_eq!(
        (&compared["common"], &compared["same_pipeline"]),
        (&json!(2), &json!(true))
    );
    let divergence = &compared["divergence"];
    assert_eq!(
        (&divergence["kind"], &divergence["row"]),
        (&json!("edge"), &json!(2))
    );
    assert_eq!(
        divergence["values"],
        json!([{ "key": "context.lines", "left": "12", "right": "120" }])
    );
    let decisions = ["left", "right"].map(|side| divergence[side]["decision"]["to"].clone());
    assert_eq!(decisions, [json!("small"), json!("large")]);
    let rows = compared["rows"].as_array().expect("rows");
    let marks: Vec<&Value> = rows.iter().map(|row| &row["same"]).collect();
    assert_eq!(marks[..3], [&json!(true), &json!(true), &json!(false)]);
    // A run and itself.
    let path = format!("/api/v1/runs/{good}/compare?with={good}");
    let same = server.get(&path).await.json();
    assert_eq!((&same["divergence"], &same["common"]), (&json!(null), &json!(5)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_names_two_runs_that_exist() {
    let server = TestServer::with(|server| server.entry(entry("sizes", SIZES))).await;
    let run = begin(&server, 12, "success").await;
    for (path, status, code) in [
        (format!("{run}/compare"), 400, "malformed"),
        (format!("{run}/compare?with="), 400, "malformed"),
        (format!("{run}/compare?with={run}&with={run}"), 400, "malformed"),
        (format!("{run}/compare?other={run}"), 400, "malformed"),
        (format!("{run}/compare?with=unknown"), 404, "unknown_run"),
        (format!("{run}/compare?with=..%2F{run}"), 404, "unknown_run"),
        (format!("{run}/compare?with=%00"), 404, "unknown_run"),
        // A path names one run for ever, and so does the parameter.
        (
            format!("{run}/compare?with={}", &run[..run.len() - 1]),
            404,
            "unknown_run",
        ),
        (format!("unknown/compare?with={run}"), 404, "unknown_run"),
    ] {
        let reply = server.get(&format!("/api/v1/runs/{path}")).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{path}");
    }
    let reply = server.get(&format!("/api/v1/runs/{run}/compare")).await;
    assert_eq!(reply.json()["help"], "name the other run: `?with=ID`");
}
