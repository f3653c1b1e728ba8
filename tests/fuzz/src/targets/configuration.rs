//! YAML files and templates: configuration, layers of prompts, agents and tools of a user, scripts.

use std::path::Path;

use orchestra_config::{Configuration, Project, Resolution, ResolveOptions, TaskTemplate, UserFiles};
use orchestra_graph::{LoadOptions, Pipeline, ReadError, Report, Source, load};
use orchestra_testkit::{check_script, read_script};
use serde_json::{Map, Value, json};

use super::{Target, no_corpus};
use crate::Random;
use crate::generate::{json, template, word, yaml};
use crate::inputs::files;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every diagnostic has a page and points into the text.
fn check_report(report: &Report) {
    for fault in &report.diagnostics {
        assert!(
            orchestra_config::explain(fault.code).is_some(),
            "`{}` has no page",
            fault.code
        );
        let related = fault.related.iter().map(|related| related.span);
        for span in std::iter::once(fault.span)
            .chain(related)
            .chain(fault.fix.iter().map(|fix| fix.span))
        {
            let part = report.source.text().get(span.start as usize..span.end as usize);
            assert!(
                part.is_some(),
                "`{}` points outside the text or into a character",
                fault.code
            );
        }
        assert!(
            !fault.message.contains('\n'),
            "the message is not one line: {:?}",
            fault.message
        );
    }
}

/// `orchestra.yaml`: what it says of a pipeline is the same over the graph and over the table.
pub(super) const CONFIGURATION: Target = Target {
    name: "configuration",
    run: configuration,
    generate: a_configuration,
    corpus: || {
        vec![std::fs::read(root().join("orchestra/config/tests/data/review.yaml")).unwrap_or_default()]
    },
    words: yaml::WORDS,
    suite: 500,
    share: 4,
};

const PIPELINE: &str = r#"digraph {
    inputs=plan; start -> work -> check -> exit
    work [agent=critic, prompt="Do $goal."]
    check [agent.role=planner, llm_model=smart, agent.tools="read_file, backend:grep", reasoning_effort=high]
}"#;

fn configuration(input: &[u8]) {
    let (understood, report) = Configuration::parse("orchestra.yaml", input);
    check_report(&report);
    let _ = (
        understood.tool_names(),
        understood.provider_names(),
        understood.backend_names(),
    );
    let reader = |path: &str, _: u64| match path {
        "orchestra.yaml" => Ok(input.to_vec()),
        _ => Err(ReadError::Missing),
    };
    let project = Project::load("orchestra.yaml", &reader);
    let loaded = load(Source::new("flow.dot", PIPELINE), &LoadOptions::default());
    let options = ResolveOptions {
        reader: Some(&reader),
        ..ResolveOptions::default()
    };
    let checked = project.resolve_graph(&loaded.analysis(), &options);
    checked.reports.iter().for_each(check_report);
    let running = project.resolve(&loaded.pipeline().expect("it is sound"), &options);
    assert_eq!(stages(&checked), stages(&running), "graph and table");
    assert_eq!(checked.files, running.files);
}

/// The stages without the reasons, which tell a node from a stylesheet in the graph alone.
fn stages(resolution: &Resolution) -> Vec<Value> {
    let stage = |stage| {
        let mut stage = serde_json::to_value(stage).expect("it is data");
        for (_, field) in stage.as_object_mut().expect("a map") {
            if let Some(field) = field.as_object_mut() {
                field.remove("reason");
                field.remove("location");
            }
        }
        stage
    };
    resolution.stages.iter().map(stage).collect()
}

fn a_configuration(random: &mut Random) -> Vec<u8> {
    let mut value = json!({
        "backend": random.pick(&["agent", "simulation", "direct", "claude"]),
        "providers": {
            "default": "anthropic",
            "anthropic": {"models": {"smart": "claude-opus-4-6", "cheap": "claude-haiku-4-5"}, "max_tokens": 8192},
            "openai": {"models": {"smart": "gpt-5.2"}, "api_base": "https://example.com/v1", "timeout": "90s"},
            "local": {"kind": "ollama", "models": {"smart": "qwen"}},
        },
        "backends": {"claude": {"kind": "cli", "command": "claude -p", "output": "json"}},
        "agents": {
            "critic": {"role": "adversarial-critic", "persona": "tech-lead", "tools": ["read_file", "backend:grep", "lint"],
                "model": "smart", "reasoning_effort": "high", "temperature": 0.5},
            "coder": {"extends": "critic", "task": "do", "mode": "write"},
        },
        "tools": {"lint": {"command": "make lint", "description": "Finds mistakes.", "parameters": {"path": "string"}}},
        "prices": {"claude-opus-4-6": {"input": 5, "output": 25}},
        "prompts": {"folders": ["../prompts"], "roles": {"planner": {"role": "You plan."}}},
        "pipeline": {"budget": 5.0, "max_parallel": 4},
        "workspace": {"repos": {"backend": {"path": "../backend", "branch_prefix": "orchestra/"}}},
    });
    for _ in 0..random.below(6) {
        json::vary(&mut value, random);
    }
    if random.chance(10) {
        yaml::any(random).into_bytes()
    } else {
        yaml::print(&value, random).into_bytes()
    }
}

/// Layers of prompts, agents and tools of a user: first of the input is which of them it is.
pub(super) const LAYERS: Target = Target {
    name: "layers",
    run: layers,
    generate: a_layer,
    corpus: || {
        let prompts = root().join("orchestra/config/prompts");
        let kinds = ["roles", "personas", "personalities"].into_iter().enumerate();
        kinds
            .flat_map(|(kind, folder)| {
                let all = files(&prompts.join(folder)).into_iter().take(3);
                all.map(move |text| [&[b'0' + kind as u8], &text[..]].concat())
            })
            .collect()
    },
    words: yaml::WORDS,
    suite: 1_000,
    share: 2,
};

fn a_layer(random: &mut Random) -> Vec<u8> {
    let kind = random.below(6);
    let mut value = match kind {
        0 => json!({"role": "You plan.", "description": "Plans."}),
        1 => json!({"persona": {"role": "planner", "text": "You are old."}, "extends": "tech-lead"}),
        2 => json!({"personality": "Terse."}),
        3 => json!({"task": {"template": template::text(random), "description": word(random)}}),
        4 => json!({"agent": {"role": "adversarial-critic", "tools": ["lint", "+grep"], "model": "smart"}}),
        _ => {
            json!({"tool": {"command": "make $X", "description": "Makes.", "parameters": {"x": {"type": "string"}}}})
        }
    };
    for _ in 0..random.below(4) {
        json::vary(&mut value, random);
    }
    format!("{kind}{}", yaml::print(&value, random)).into_bytes()
}

fn layers(input: &[u8]) {
    let (kind, text) = input
        .split_first()
        .map_or((0, input), |(kind, rest)| (kind % 6, rest));
    if kind >= 4 {
        let mut user = UserFiles::default();
        match kind {
            4 => user.add_agent("critic", "agents/critic.yaml", text),
            _ => user.add_tool("lint", "tools/lint.yaml", text),
        }
        user.reports.iter().for_each(check_report);
        let understood = user.agents.len() + user.tools.len();
        let refused = user.reports.iter().any(Report::has_errors);
        assert_eq!(
            understood == 0,
            refused,
            "what is refused gives nothing, what is not gives something"
        );
        return;
    }
    let [attribute, path] = [
        ["role", "prompts/roles/one.yaml"],
        ["persona", "prompts/personas/one.yaml"],
        ["personality", "prompts/personalities/one.yaml"],
        ["task", "prompts/tasks/one.yaml"],
    ][usize::from(kind)];
    let reader = |asked: &str, _: u64| {
        if asked == path {
            Ok(text.to_vec())
        } else {
            Err(ReadError::Missing)
        }
    };
    let flow =
        format!("digraph {{ start -> work -> exit; work [agent.{attribute}=one, backend=simulation] }}");
    let loaded = load(Source::new("flow.dot", flow), &LoadOptions::default());
    let options = ResolveOptions {
        reader: Some(&reader),
        ..ResolveOptions::default()
    };
    let resolution = Project::default().resolve(&loaded.pipeline().expect("it is sound"), &options);
    resolution.reports.iter().for_each(check_report);
}

/// Scripts of simulations: what is understood is also checked against a pipeline.
pub(super) const SCRIPT: Target = Target {
    name: "script",
    run: script,
    generate: a_script,
    corpus: no_corpus,
    words: yaml::WORDS,
    suite: 2_000,
    share: 1,
};

fn a_script(random: &mut Random) -> Vec<u8> {
    let mut value = json!({
        "work": ["fail", "success", "needs_work"],
        "gate": [{"outcome": "success", "preferred_label": "Yes", "context": {"flag": true}, "notes": "second look"},
            {"preferred_label": "No"}],
        "check": {"outcome": "fail", "failure_reason": "too many", "failure_category": "retryable", "retry_after": "30s",
            "takes": "2s", "suggested_next_ids": ["exit"]},
    });
    for _ in 0..random.below(5) {
        json::vary(&mut value, random);
    }
    yaml::print(&value, random).into_bytes()
}

fn gate_pipeline() -> Pipeline {
    let text = "digraph { start -> work -> gate; gate [shape=hexagon]; gate -> check [label=\"[Y] Yes\"];
        gate -> work [label=\"[N] No\"]; check -> exit }";
    load(Source::new("flow.dot", text), &LoadOptions::default())
        .pipeline()
        .expect("it is sound")
}

fn script(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match read_script(&text) {
        Ok(script) => {
            for node in script.nodes() {
                assert!(!script.outcomes_of(node).is_empty(), "`{node}` gives nothing");
            }
            let _ = check_script(&gate_pipeline(), &script).map_err(|error| error.to_string());
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.code().is_empty()),
    }
}

/// Templates: rendering ends, with a text or with a fault that has a place in the template.
pub(super) const TEMPLATE: Target = Target {
    name: "template",
    run: template_target,
    generate: |random| template::text(random).into_bytes(),
    corpus: no_corpus,
    words: template::WORDS,
    suite: 2_000,
    share: 1,
};

fn values() -> Map<String, Value> {
    let values = json!({
        "goal": "it", "human.gate.text": "yes", "plan": {"steps": [{"title": "a"}, {"title": "b"}]}, "outcome": "success",
        "prompt": "Do it.\nWell.",
    });
    values.as_object().cloned().unwrap_or_default()
}

fn template_target(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let task = TaskTemplate::new("one", "one.yaml", &*text);
    let _ = (task.uses("goal"), task.stages());
    if let Err(error) = task.render(&values()) {
        let lines = text.lines().count().max(1) as u32;
        assert!((1..=lines).contains(&error.line) && error.column >= 1, "{error}");
        assert!(!error.message.contains('\n'), "{error}");
    }
}
