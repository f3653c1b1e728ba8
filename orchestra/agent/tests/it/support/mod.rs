//! Shared helpers of the agent tests: a scripted model, and projects and pipelines from text.
#![allow(dead_code)]

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};

use orchestra_agent::{
    Agents, AgentsBuilder, Arguments, Model, ModelError, ModelFuture, ModelReply, ModelRequest, OnText,
    StopReason, ToolCall,
};
use orchestra_config::Project;
use orchestra_engine::{Durability, Engine, EngineBuilder, RunResult};
use orchestra_graph::{LoadOptions, Pipeline, ReadError, Source, load};
use serde_json::Value;

type Says = Box<dyn FnMut(&ModelRequest) -> Result<ModelReply, ModelError> + Send>;

/// A model that answers as a test defines, and records its requests.
#[derive(Clone)]
pub(crate) struct Scripted {
    says: Arc<Mutex<Says>>,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Scripted {
    pub(crate) fn new(
        says: impl FnMut(&ModelRequest) -> Result<ModelReply, ModelError> + Send + 'static,
    ) -> Scripted {
        Scripted {
            says: Arc::new(Mutex::new(Box::new(says))),
            asked: Arc::default(),
        }
    }

    /// Returns a model that gives these answers one after the other.
    pub(crate) fn list(replies: impl IntoIterator<Item = ModelReply>) -> Scripted {
        let mut replies: VecDeque<ModelReply> = replies.into_iter().collect();
        Scripted::new(move |request| {
            let reply = replies.pop_front();
            Ok(reply.unwrap_or_else(|| panic!("it is asked once more: {:?}", request.messages.last())))
        })
    }

    pub(crate) fn asked(&self) -> Vec<ModelRequest> {
        self.asked.lock().unwrap().clone()
    }
}

impl Model for Scripted {
    fn call<'a>(&'a self, request: &'a ModelRequest, on_text: Option<OnText<'a>>) -> ModelFuture<'a> {
        self.asked.lock().unwrap().push(request.clone());
        let reply = (self.says.lock().unwrap())(request);
        Box::pin(async move {
            tokio::task::yield_now().await;
            let reply = reply?;
            if let Some(on_text) = on_text {
                reply.text.split_inclusive(' ').for_each(on_text);
            }
            Ok(reply)
        })
    }
}

pub(crate) fn calls(calls: &[(&str, Value)]) -> ModelReply {
    let mut reply = ModelReply::text("");
    let numbered = calls.iter().enumerate();
    reply.tool_calls = numbered
        .map(|(at, (name, arguments))| ToolCall {
            id: format!("call-{at}"),
            name: (*name).to_owned(),
            arguments: Arguments::parse(&arguments.to_string()),
        })
        .collect();
    reply.stop = StopReason::ToolCalls;
    reply
}

pub(crate) fn report(fields: Value) -> ModelReply {
    calls(&[("report_outcome", fields)])
}

pub(crate) fn files(
    all: &[(&str, &str)],
) -> impl Fn(&str, u64) -> Result<Vec<u8>, ReadError> + Send + Sync + Clone + 'static {
    let all = all.iter();
    let all: BTreeMap<String, String> = all.map(|(path, text)| ((*path).into(), (*text).into())).collect();
    move |path: &str, _: u64| {
        all.get(path)
            .map(|text| text.clone().into_bytes())
            .ok_or(ReadError::Missing)
    }
}

const PROVIDERS: &str = "providers: {default: house, house: {kind: ollama, models: {smart: owl-7b}, \
    prices: {owl-7b: {input: 1.0, output: 2.0}}}}\n";

/// Returns the agents of a configuration, whose only provider is replaced by the model.
pub(crate) fn agents(yaml: &str, more: &[(&str, &str)], model: Scripted) -> Agents {
    builder(yaml, more, model).build().unwrap()
}

pub(crate) fn builder(yaml: &str, more: &[(&str, &str)], model: Scripted) -> AgentsBuilder {
    let yaml = format!("{PROVIDERS}{yaml}");
    let mut all = vec![("orchestra.yaml", yaml.as_str())];
    all.extend(more);
    let files = files(&all);
    let project = Project::load("orchestra.yaml", &files);
    assert!(!project.report.has_errors(), "{:#?}", project.report.diagnostics);
    Agents::builder(project).reader(files).model(model)
}

pub(crate) fn pipeline(text: &str) -> Pipeline {
    let loaded = load(Source::new("flow.dot", text), &LoadOptions::default());
    loaded
        .pipeline()
        .unwrap_or_else(|| panic!("{:#?}", loaded.report.diagnostics))
}

pub(crate) fn engine(agents: &Agents, folder: &Path) -> EngineBuilder {
    Engine::builder()
        .backend(agents.clone())
        .working_dir(folder)
        .runs_dir(folder.join("runs"))
        .durability(Durability::Process)
}

pub(crate) async fn run(agents: &Agents, text: &str) -> (RunResult, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let pipeline = pipeline(text);
    let resolution = agents.resolve(&pipeline);
    assert!(!resolution.has_errors(), "{:#?}", resolution.reports);
    let engine = engine(agents, dir.path()).build().unwrap();
    let run = engine.start(pipeline, ()).await.unwrap();
    (run.wait().await.unwrap(), dir)
}
