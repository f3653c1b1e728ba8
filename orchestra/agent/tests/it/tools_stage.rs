//! Tool calls of a running stage: hooks of the pipeline, and the events that the run emits.
#![cfg(unix)]

use crate::tools_support;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use orchestra_agent::{SelectedTools, ToolContext, ToolHooks, ToolRunner, select};
use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine, EventKind};
use orchestra_graph::{Source, load};
use serde_json::{Value, json};
use tools_support::{call, registry};

/// A backend that makes one tool call and records its result.
struct OneCall {
    root: PathBuf,
    said: Arc<Mutex<Vec<(String, bool)>>>,
}

impl CodergenBackend for OneCall {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let tools = SelectedTools::new(select(&registry(), &["write-file"], &[], None).unwrap());
        let hooks = ToolHooks::from_stage(&request.stage);
        let context = ToolContext::new(&self.root).of_stage(request.stage.clone());
        let path = request.stage.node().id().to_owned();
        let result = ToolRunner::new(tools, context)
            .hooks(hooks)
            .call(&call("write_file", json!({"path": path, "content": ""})))
            .await;
        self.said.lock().unwrap().push((result.content, result.is_error));
        Ok("done".into())
    }
}

#[tokio::test]
async fn hooks_of_node_and_graph_run_around_the_calls_of_a_stage() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"digraph {
        tool_hooks.pre = "cat >>hooks.json; echo >>hooks.json"
        start -> first -> second -> third -> exit
        first [prompt=a]
        second [prompt=b, "tool_hooks.pre"="echo 'not this one'; exit 2"]
        third [prompt=c, "tool_hooks.pre"="", "tool_hooks.post"="exit 9"]
    }"#;
    let pipeline = load(Source::new("a.dot", text), &Default::default())
        .pipeline()
        .expect("sound");
    let said = Arc::new(Mutex::new(Vec::new()));
    let backend = OneCall {
        root: folder.path().to_owned(),
        said: said.clone(),
    };
    let engine = Engine::builder().backend(backend).build().unwrap();
    let handle = engine.start(pipeline, ()).await.unwrap();
    let mut events = handle.events();
    let result = handle.wait().await.unwrap();
    let run = result.run_id.to_string();
    let mut reported = Vec::new();
    while let Some(event) = events.recv().await {
        match &event.kind {
            EventKind::StageLog { node, message } => reported.push(format!("{node} log {message}")),
            EventKind::ToolCallCompleted {
                node, tool, error, ..
            } => reported.push(format!("{node} {tool} {error:?}")),
            _ => {}
        }
    }
    assert_eq!(
        reported,
        [
            "first write-file None",
            "second log the call of `write-file` was not made: its hook `tool_hooks.pre` failed: exit code 2: not this one",
            "second write-file Some(\"the call was not made, because a check before it failed: exit code 2: not this one\")",
            "third log behind the call of `write-file` its hook `tool_hooks.post` failed: exit code 9",
            "third write-file None",
        ]
    );
    let said = said.lock().unwrap();
    assert_eq!(
        said.iter().map(|(_, is_error)| *is_error).collect::<Vec<_>>(),
        [false, true, false]
    );
    assert!(folder.path().join("first").exists() && folder.path().join("third").exists());
    assert!(!folder.path().join("second").exists());
    let hook = std::fs::read_to_string(folder.path().join("hooks.json")).unwrap();
    let hook: Vec<Value> = hook
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        hook,
        [json!({
            "hook": "pre", "tool": "write-file", "call_id": "call_1", "node": "first", "run": run,
            "attempt_key": "first#1/1", "arguments": {"path": "first", "content": ""},
        })]
    );
}
