//! Whole pipelines with a model server on loopback, in each wire format, streamed and not. The requests are compared
//! with recordings, and the stages change a real repository.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::Command;

use orchestra_agent::Agents;
use orchestra_config::Project;
use orchestra_engine::{Disk, Engine, RunStatus, Usage};
use orchestra_graph::{ChildReader as _, ReadError};
use orchestra_model_server_tests::{Answer, Fault, ModelServer, Wire};
use serde_json::{Value, json};
use support::pipeline;

/// The providers, each with a model and its wire format.
const PROVIDERS: [(&str, &str, Wire); 3] = [
    ("anthropic", "claude-sonnet-4-5", Wire::Anthropic),
    ("openai", "gpt-4.1", Wire::OpenAi),
    ("gemini", "gemini-2.5-flash", Wire::Gemini),
];

const KEY: &str = "key-of-the-tests-0123456789";

/// Returns the agents of a configuration whose only provider is the server.
fn agents(server: &ModelServer, provider: (&str, &str, Wire), dir: &Path, streamed: bool) -> Agents {
    let (name, model, wire) = provider;
    let key = dir.join("key");
    std::fs::write(&key, KEY).unwrap();
    let yaml = format!(
        "providers:\n  default: {name}\n  {name}: {{api_base: {:?}, api_key_file: {key:?}, models: {{smart: {model}}}, \
         max_tokens: 1000, timeout: 20s}}\n",
        server.base(wire),
    );
    let files = move |path: &str, limit: u64| match path {
        "orchestra.yaml" => Ok(yaml.clone().into_bytes()),
        other if Path::new(other).is_absolute() => Disk.read(other, limit),
        _ => Err(ReadError::Missing),
    };
    let project = Project::load("orchestra.yaml", &files);
    assert!(!project.report.has_errors(), "{:#?}", project.report.diagnostics);
    let agents = Agents::builder(project).reader(files).streaming(streamed);
    agents.build().unwrap()
}

/// Creates a repository with a bug and a test that detects it.
fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("sum.sh", "# Adds two numbers.\necho $(($1 - $2))\n");
    write(
        "test.sh",
        "[ \"$(sh sum.sh 2 3)\" = 5 ] && echo 1 passed || { echo 1 failed; exit 1; }\n",
    );
    let git = Command::new("git")
        .args(["init", "-q"])
        .current_dir(dir.path())
        .status();
    assert!(git.unwrap().success());
    dir
}

const FLOW: &str = "digraph mend {
    goal = \"Make the tests pass\"
    start -> plan -> work
    plan [prompt=\"Say in one line what to do.\", backend=direct, reasoning_effort=low]
    work [prompt=\"Mend what is broken.\", output_keys=passed]
    work -> exit [label=Done]
    work -> give_up [label=\"Give up\"]
    give_up [shape=parallelogram, tool_command=\"exit 1\"]
    give_up -> exit
}";

fn script(server: &ModelServer) {
    server.push(Answer::text("Run the tests, then mend the sum.").tokens(100, 10));
    server.push(
        Answer::text("I look at it.")
            .and_call("read_file", r#"{"path": "sum.sh"}"#)
            .and_call("grep", r#"{"pattern": "sum", "path": "test.sh"}"#)
            .tokens(1_000, 50),
    );
    server.push(
        Answer::call(
            "edit_file",
            r#"{"path": "sum.sh", "edits": [{"old_text": "$1 - $2", "new_text": "$1 + $2"}]}"#,
        )
        .tokens(1_200, 60),
    );
    server.push(Answer::call("shell", r#"{"command": "sh test.sh"}"#).tokens(1_300, 20));
    let report = json!({
        "status": "success", "notes": "The sum adds now; 1 test passes.", "preferred_label": "Done",
        "context_updates": {"passed": 1},
    });
    server.push(Answer::call("report_outcome", report.to_string()).tokens(1_400, 30));
}

/// Compares a value with a recording. To renew the recording, remove the file and run the test twice.
fn compare(name: &str, value: &Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/pipelines");
    let path = path.join(format!("{name}.json"));
    match std::fs::read_to_string(&path) {
        Ok(recorded) => {
            let recorded: Value = serde_json::from_str(&recorded).unwrap();
            assert_eq!(recorded, *value, "{}: now it is\n{value:#}", path.display());
        }
        Err(_) => {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, format!("{value:#}\n")).unwrap();
            panic!(
                "{} was recorded; look at it and run the test again",
                path.display()
            );
        }
    }
}

#[tokio::test]
async fn direct_and_agent_stages_do_a_real_task_in_every_format() {
    for provider in PROVIDERS {
        for streamed in [true, false] {
            let (name, ..) = provider;
            let reported = format!("{name}, {}", if streamed { "streamed" } else { "whole" });
            let server = ModelServer::start();
            script(&server);
            let repository = repository();
            let keys = tempfile::tempdir().unwrap();
            let agents = agents(&server, provider, keys.path(), streamed);
            let flow = pipeline(FLOW);
            assert!(
                !agents.resolve(&flow).has_errors(),
                "{:#?}",
                agents.resolve(&flow).reports
            );
            assert!(agents.missing_keys(&flow).is_empty());
            let runs = keys.path().join("runs");
            let engine = Engine::builder()
                .backend(agents.clone())
                .secrets(agents.secrets())
                .working_dir(repository.path())
                .runs_dir(&runs)
                .build()
                .unwrap();
            let run = engine.start(flow, ()).run_id("the-run").await.unwrap();
            let result = run.wait().await.unwrap();
            assert!(result.is_success(), "{reported}: {:?}", result.failure);
            assert_eq!(result.path, ["start", "plan", "work", "exit"], "{reported}");
            assert_eq!(result.context.get("passed"), Some(&json!(1)));
            let mended = std::fs::read_to_string(repository.path().join("sum.sh")).unwrap();
            assert_eq!(mended, "# Adds two numbers.\necho $(($1 + $2))\n");
            let Usage {
                input_tokens,
                output_tokens,
                cost_micros,
            } = result.usage;
            assert_eq!(
                (input_tokens, output_tokens),
                (5_000, 170),
                "{reported}: counted once"
            );
            assert!(cost_micros > 0, "{reported}");
            let requests = server.requests();
            assert_eq!((requests.len(), server.left()), (5, 0), "{reported}");
            assert!(
                requests.iter().all(|request| request.streamed == streamed),
                "{reported}"
            );
            let bodies: Vec<&Value> = requests.iter().map(|request| &request.body).collect();
            let form = if streamed { "streamed" } else { "whole" };
            compare(&format!("{name}_{form}"), &json!(bodies));
            nothing_tells(&runs, KEY);
        }
    }
}

fn error(status: u16, code: &'static str) -> Answer {
    Answer::fault(Fault::Error {
        status,
        code,
        message: "Not now.",
        retry_after: Some("0.01".into()),
    })
}

fn nothing_tells(folder: &Path, secret: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            nothing_tells(&path, secret);
        } else {
            let bytes = std::fs::read(&path).unwrap();
            assert!(
                !String::from_utf8_lossy(&bytes).contains(secret),
                "{}",
                path.display()
            );
        }
    }
}

#[tokio::test]
async fn faults_of_a_server_are_outcomes_of_the_stage() {
    for provider in PROVIDERS {
        let server = ModelServer::start();
        server.push(error(503, "overloaded"));
        server.push(Answer::text("At last."));
        let dir = tempfile::tempdir().unwrap();
        let agents = agents(&server, provider, dir.path(), true);
        let engine = Engine::builder().backend(agents).build().unwrap();
        let text = "digraph { start -> ask -> exit; ask [prompt=x, backend=direct] }";
        let result = engine
            .start(pipeline(text), ())
            .await
            .unwrap()
            .wait()
            .await
            .unwrap();
        assert!(result.is_success(), "{provider:?}: {:?}", result.failure);
        server.push(error(401, "authentication_error"));
        let result = engine
            .start(pipeline(text), ())
            .await
            .unwrap()
            .wait()
            .await
            .unwrap();
        assert_eq!(result.status, RunStatus::Fail);
        let reported = result.failure.unwrap().to_string();
        assert!(
            reported.contains(provider.0) && !reported.contains(KEY),
            "{reported}"
        );
        assert_eq!(
            server.requests().len(),
            3,
            "a key that is refused is not tried again"
        );
    }
}

#[tokio::test]
async fn a_stage_that_is_cancelled_closes_its_connection() {
    let server = ModelServer::start();
    server.push(Answer::fault(Fault::HangBeforeHeaders));
    let dir = tempfile::tempdir().unwrap();
    let agents = agents(&server, PROVIDERS[0], dir.path(), true);
    let engine = Engine::builder().backend(agents).build().unwrap();
    let text = "digraph { start -> ask -> exit; ask [prompt=x, backend=direct] }";
    let run = engine.start(pipeline(text), ()).await.unwrap();
    while server.requests().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    run.cancel("enough");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Cancelled);
    while server.abandoned() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
