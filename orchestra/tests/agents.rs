//! Structs as agents, with `#[agent]`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use orchestra::Engine;
use orchestra::agents::{
    AgentDefinition, Agents, Arguments, Message, Model, ModelFuture, ModelReply, ModelRequest, OnText,
    StopReason, ToolCall, ToolSet,
};
use orchestra::config::{Project, ResolveOptions};
use orchestra::graph::{Source, load};
use orchestra::{agent, tool};

/// Looks up a fault by its number.
#[tool(read_only)]
fn look_up(number: u32) -> u32 {
    number
}

#[agent(
    role = "security-reviewer",
    persona = "senior-security-engineer",
    task = "review-pr-security",
    model = "claude-opus-4-6",
    tools = ["read-file", "look-up"],
    tool_set = (look_up,)
)]
struct Reviewer {
    pr_diff: Vec<String>,
}

#[agent(name = "free", crate = orchestra)]
struct Free;

#[test]
fn a_prompt_is_made_of_the_layers_and_the_fields() {
    let reviewer = Reviewer {
        pr_diff: vec!["+ eval(input)".to_owned()],
    };
    let prompt = reviewer.prompt().unwrap();
    assert!(prompt.message.contains("+ eval(input)") && !prompt.message.contains("{{"));
    let (role, persona) = (prompt.system.find("attacker"), prompt.system.find("incidents"));
    assert!(role.is_some() && role < persona, "{}", prompt.system);
    let free = Free.prompt().unwrap();
    assert_eq!((Free::NAME, free.system.as_str()), ("free", ""));
}

/// A stage that names the agent has the same settings as the agent itself.
#[test]
fn a_stage_that_names_the_agent_has_its_prompt_model_and_tools() {
    let text = "digraph { inputs=pr_diff; start -> review -> exit; review [agent=reviewer] }";
    let pipeline = load(Source::new("a.dot", text), &Default::default())
        .pipeline()
        .unwrap();
    let options = ResolveOptions {
        agents: [(Reviewer::NAME.to_owned(), Reviewer::definition())].into(),
        tools: look_up::NAMES.iter().map(str::to_owned).collect(),
        ..ResolveOptions::default()
    };
    let resolution = Project::default().resolve(&pipeline, &options);
    assert!(!resolution.has_errors(), "{:?}", resolution.reports);
    let stage = resolution.stage("review").unwrap();
    assert_eq!(stage.model.as_ref().unwrap().value, "claude-opus-4-6");
    assert_eq!(stage.tools, ["look-up", "read-file"]);
    let reviewer = Reviewer { pr_diff: Vec::new() };
    let prompt = reviewer.prompt().unwrap();
    assert_eq!(stage.system, prompt.system);
    let message = stage.message(&(&reviewer.variables().unwrap()).into()).unwrap();
    assert_eq!(message, prompt.message);
}

/// A model that looks up a fault and then reports the result.
#[derive(Clone, Default)]
struct Curious(Arc<Mutex<Vec<ModelRequest>>>);

impl Model for Curious {
    fn call<'a>(&'a self, request: &'a ModelRequest, _: Option<OnText<'a>>) -> ModelFuture<'a> {
        self.0.lock().unwrap().push(request.clone());
        let (name, arguments) = match request.messages.last() {
            Some(Message::Tools { results }) => {
                let notes = format!("fault {}", results[0].content);
                (
                    "report_outcome",
                    format!(r#"{{"status": "success", "notes": "{notes}"}}"#),
                )
            }
            _ => ("look_up", r#"{"number": 7}"#.to_owned()),
        };
        let mut reply = ModelReply::text("");
        reply.stop = StopReason::ToolCalls;
        reply.tool_calls.push(ToolCall {
            id: "call".into(),
            name: name.into(),
            arguments: Arguments::parse(&arguments),
        });
        Box::pin(async move { Ok(reply) })
    }
}

#[tokio::test]
async fn an_agent_of_the_program_does_a_stage_with_its_tools() {
    let model = Curious::default();
    let agents = Agents::builder(Project::default())
        .tools(look_up {})
        .defined::<Reviewer>()
        .model(model.clone())
        .build()
        .unwrap();
    let text = "digraph { inputs=pr_diff; start -> review -> exit; review [agent=reviewer] }";
    let pipeline = load(Source::new("a.dot", text), &Default::default())
        .pipeline()
        .unwrap();
    assert!(!agents.resolve(&pipeline).has_errors());
    let engine = Engine::builder().backend(agents).build().unwrap();
    let run = engine.start(pipeline, ()).param("pr_diff", "+ eval(input)");
    let result = run.await.unwrap().wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("last_response"), "fault 7");
    let asked = model.0.lock().unwrap();
    assert_eq!(asked[0].model, "claude-opus-4-6");
    assert!(asked[0].system.contains("attacker"), "{}", asked[0].system);
    let Message::User { text } = &asked[0].messages[0] else {
        panic!("the task comes first");
    };
    assert!(text.contains("+ eval(input)"), "{text}");
}
