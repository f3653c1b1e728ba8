//! Agents through the program: their configuration, its errors, and a task that an agent does with tools.

#![cfg(unix)]

use crate::agents_support;

use agents_support::{Done, Project, Scratch, reports};
use orchestra_model_server_tests::Answer;
use serde_json::Value;

const TIERS: &str = "providers:
  default: anthropic
  anthropic: {models: {smart: claude-opus-4-6, worker: claude-sonnet-4-5}}
  openai: {models: {smart: gpt-5, worker: gpt-5-mini}}
  gemini: {models: {smart: gemini-2.5-pro}}
agents:
  writer: {model: worker}
  loyal: {provider: gemini}
";

const HOUSE: &str = r##"digraph house {
    model_stylesheet = "#ruled { llm_provider: openai; llm_model: smart; }"
    start -> plan -> write -> check -> ruled -> exact -> exit
    plan  [prompt="Plan it."]
    write [prompt="Write it.", agent=writer]
    check [prompt="Check it.", agent=loyal]
    ruled [prompt="Judge it."]
    exact [prompt="Sign it.", llm_provider=anthropic, llm_model="claude-haiku-4-5"]
}
"##;

/// Returns the provider, the model and the origin of the provider for each model stage.
fn chosen(compiled: &Value) -> Vec<[String; 4]> {
    let nodes = compiled["nodes"].as_array().unwrap().iter();
    let agents = nodes.filter(|node| !node["resolved"].is_null());
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
    let chosen = agents.map(|node| {
        let stage = &node["resolved"];
        [
            text(&stage["node"]),
            text(&stage["provider"]["value"]),
            text(&stage["model"]["value"]),
            text(&stage["provider"]["reason"]),
        ]
    });
    chosen.collect()
}

#[test]
fn another_default_provider_switches_every_stage_that_does_not_say_otherwise() {
    let scratch = Scratch::new();
    scratch.write("house.dot", HOUSE).write("orchestra.yaml", TIERS);
    let compiled = |scratch: &Scratch| {
        let compiled = scratch.call(&["compile", "house.dot", "--json"]).exits(0);
        chosen(&compiled.objects().pop().unwrap())
    };
    let stage = |node: &str, provider: &str, model: &str, reason: &str| {
        [node, provider, model, reason].map(str::to_owned)
    };
    let loyal = [
        stage("check", "gemini", "gemini-2.5-pro", "agent"),
        stage("ruled", "openai", "gpt-5", "stylesheet"),
        stage("exact", "anthropic", "claude-haiku-4-5", "node"),
    ];
    let mut before = vec![
        stage("plan", "anthropic", "claude-opus-4-6", "project"),
        stage("write", "anthropic", "claude-sonnet-4-5", "project"),
    ];
    before.extend(loyal.clone());
    assert_eq!(compiled(&scratch), before);
    let table = scratch.call(&["compile", "house.dot"]).exits(0).stdout;
    for part in [
        "anthropic [project]",
        "smart = claude-opus-4-6 [provider]",
        "worker = claude-sonnet-4-5 [agent]",
        "gemini [agent]",
        "openai [stylesheet]",
        "claude-haiku-4-5 [node]",
    ] {
        assert!(table.contains(part), "{part}\n{table}");
    }

    scratch.write(
        "orchestra.yaml",
        TIERS.replace("default: anthropic", "default: openai"),
    );
    let mut after = vec![
        stage("plan", "openai", "gpt-5", "project"),
        stage("write", "openai", "gpt-5-mini", "project"),
    ];
    after.extend(loyal);
    assert_eq!(compiled(&scratch), after);
}

/// Returns the provider that `compile` resolves for a model, with the rule that chose it.
fn provider_of(scratch: &Scratch, providers: &str, model: &str) -> (String, String) {
    scratch.write("orchestra.yaml", format!("providers:\n{providers}"));
    scratch.write(
        "a.dot",
        format!("digraph {{ start -> ask -> exit; ask [prompt=x, llm_model={model:?}] }}"),
    );
    let compiled = scratch.call(&["compile", "a.dot", "--json"]).exits(0);
    let [_, provider, _, rule] = chosen(&compiled.objects().pop().unwrap()).remove(0);
    (provider, rule)
}

#[test]
fn a_model_without_a_provider_tells_its_provider() {
    let scratch = Scratch::new();
    let is = |providers: &str, model: &str, provider: &str, rule: &str| {
        let found = provider_of(&scratch, providers, model);
        assert_eq!(
            found,
            (provider.to_owned(), rule.to_owned()),
            "{model} of {providers}"
        );
    };
    let two = "  default: anthropic\n  anthropic: {models: {smart: claude-opus-4-6}}\n  \
               openai: {models: {best: gpt-5, own: house-model}}\n";
    is(two, "house-model", "openai", "models");
    is(two, "own", "openai", "models");
    for model in ["gpt-4.1", "o3-mini", "codex-mini-latest"] {
        is(two, model, "openai", "family");
    }
    is(two, "claude-haiku-4-5", "anthropic", "project");
    is(two, "some-other-model", "anthropic", "project");
    // No default is needed if the model name implies the provider.
    let without = two.replace("  default: anthropic\n", "");
    is(&without, "claude-haiku-4-5", "anthropic", "family");
    // A model that the default provider does not have belongs to its vendor, which is known without configuration.
    is(two, "gemini-2.5-pro", "gemini", "family");
    // A server that is compatible with a provider may have any model.
    let proxy =
        "  default: anthropic\n  anthropic: {api_base: 'https://proxy.example.org', models: {smart: x}}\n";
    is(proxy, "gemini-2.5-pro", "anthropic", "project");
    let mirrored =
        "  default: west\n  east: {kind: anthropic, models: {}}\n  west: {kind: anthropic, models: {}}\n";
    is(mirrored, "claude-haiku-4-5", "west", "project");
    let table = scratch.call(&["compile", "a.dot"]).exits(0).stdout;
    assert!(table.contains("west [project]"), "{table}");
    scratch.write(
        "orchestra.yaml",
        format!(
            "providers:\n{}",
            mirrored.replace("default: west", "default: openai")
        ),
    );
    let refused = scratch.call(&["compile", "a.dot"]).exits(3);
    for part in [
        "a.dot:1:",
        "ambiguous_provider",
        "`east`, `west`",
        "llm_provider=east",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}

#[test]
fn a_key_that_is_missing_is_named_and_exits_with_code_4() {
    let project = Project::new("");
    project
        .scratch
        .write("a.dot", "digraph { start -> ask -> exit; ask [prompt=x] }");
    let mut command = project.command(&["run", "a.dot"]);
    let run = agents_support::done(command.env_remove("ANTHROPIC_API_KEY").output().unwrap());
    let run = run.exits(4);
    assert!(run.stderr.contains("ANTHROPIC_API_KEY"), "{}", run.stderr);
    assert!(run.stderr.contains("--simulate"), "{}", run.stderr);
    assert!(!project.scratch.path(".orchestra").exists(), "nothing has begun");
    assert!(project.server.requests().is_empty());
}

#[test]
fn without_a_configuration_a_model_stage_exits_with_code_4_and_the_way_to_write_one() {
    let scratch = Scratch::new();
    scratch.write("a.dot", "digraph { start -> ask -> exit; ask [prompt=x] }");
    let run = scratch.call(&["run", "a.dot"]).exits(4);
    for part in ["`ask`", "`orchestra.yaml`", "`--config`", "`run --simulate`"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    assert!(!scratch.path(".orchestra").exists(), "nothing has begun");
}

#[test]
fn a_simulation_needs_neither_key_nor_configuration() {
    let scratch = Scratch::new();
    let talks = "digraph { start -> ask -> exit; ask [prompt=x, \"agent.mode\"=interactive] }";
    scratch.write("a.dot", talks);
    let mut command = scratch.command(&["run", "a.dot", "--simulate"]);
    let run = agents_support::done(command.env_remove("ANTHROPIC_API_KEY").output().unwrap());
    assert_eq!(run.exits(0).stdout, "success: start -> ask -> exit\n");
}

/// Asserts that `compile` and `run` reject the project with a diagnostic and exit with code 3.
#[track_caller]
fn refused(project: &Project, scratch: &str, code: &str, parts: &[&str]) {
    for command in ["compile", "run"] {
        let done: Done = project.call(&[command, "a.dot"]).exits(3);
        let reported = done.stderr + &done.stdout;
        for part in [scratch, code].iter().chain(parts) {
            assert!(reported.contains(part), "{command}, {part}:\n{reported}");
        }
    }
    assert!(!project.scratch.path(".orchestra").exists(), "nothing has begun");
    assert!(project.server.requests().is_empty());
}

#[test]
fn what_cannot_be_resolved_is_reported_with_its_position_and_exits_with_code_3() {
    let agents = "agents:\n  reviewer:\n    role: security-reviewer\n    task: judge\n";
    let task = "task:\n  name: judge\n  template: |\n    Judge this:\n    {{ change }}\n";
    let flow = "digraph flow {\n    start -> judge -> exit\n    judge [agent=reviewer]\n}\n";
    let project = |agents: &str, task: &str, flow: &str| {
        let project = Project::new(&format!("{agents}pipelines: {{flow: {{inputs: [change]}}}}\n"));
        project
            .scratch
            .write("prompts/tasks/judge.yaml", task)
            .write("a.dot", flow);
        project
    };
    let sound = project(agents, task, flow);
    sound.call(&["compile", "a.dot"]).exits(0);

    // `Project::new` writes six lines first.
    let layer = project(
        &agents.replace("security-reviewer", "security-reviewr"),
        task,
        flow,
    );
    let near = "did you mean `security-reviewer`?";
    refused(
        &layer,
        "orchestra.yaml:9:11",
        "prompt_layer_missing",
        &["security-reviewr", near],
    );

    let agent = project(agents, task, &flow.replace("agent=reviewer", "agent=reviever"));
    let near = "did you mean `reviewer`?";
    refused(&agent, "a.dot:3:18", "unknown_agent", &["`reviever`", near]);

    let tools = format!("{agents}    tools: [raed-file]\n");
    let tool = project(&tools, task, flow);
    let near = "did you mean `read-file`?";
    refused(
        &tool,
        "orchestra.yaml:11:13",
        "unknown_tool",
        &["raed-file", near],
    );

    let variable = project(agents, &task.replace("{{ change }}", "{{ chagne }}"), flow);
    let near = "did you mean `change`?";
    refused(
        &variable,
        "prompts/tasks/judge.yaml:5:8",
        "template_variable",
        &["chagne", near],
    );
}

#[test]
fn a_task_is_done_with_tools_of_orchestra_and_of_the_project() {
    let project = Project::new(
        "tools:\n  verify: {description: Runs the tests., command: 'sh test.sh', timeout: 30s}\n\
         agents:\n  mender: {tools: [verify]}\n",
    );
    project
        .scratch
        .write("sum.sh", "echo $(($1 - $2))\n")
        .write(
            "test.sh",
            "[ \"$(sh sum.sh 2 3)\" = 5 ] && echo passed || { echo failed; exit 1; }\n",
        )
        .write(
            "a.dot",
            "digraph { start -> mend -> exit; mend [prompt=\"Mend the sum.\", agent=mender] }",
        );
    let edit = r#"{"path": "sum.sh", "edits": [{"old_text": "$1 - $2", "new_text": "$1 + $2"}]}"#;
    for answer in [
        Answer::call("read_file", r#"{"path": "sum.sh"}"#).tokens(500, 20),
        Answer::call("verify", "{}").tokens(600, 20),
        Answer::call("edit_file", edit).tokens(700, 40),
        Answer::call("verify", "{}").tokens(800, 20),
        reports("The sum adds now.").tokens(900, 30),
    ] {
        project.server.push(answer);
    }
    let run = project.call(&["run", "a.dot"]).exits(0);
    assert_eq!(run.stdout, "success: start -> mend -> exit\n");
    assert_eq!(project.scratch.read("sum.sh"), "echo $(($1 + $2))\n");
    let results: Vec<String> = project.asked()[1..]
        .iter()
        .map(|messages| messages.last().unwrap()["content"][0]["content"].to_string())
        .collect();
    assert!(
        results[1].contains("failed") && results[3].contains("passed"),
        "{results:#?}"
    );
    let status = project.scratch.status();
    assert_eq!(status["status"], "success");
    let reported = project.call(&["status", "last"]).exits(0).stdout;
    assert!(reported.contains("The sum adds now."), "{reported}");
    assert!(
        reported.contains("3,630") || reported.contains("3630"),
        "the tokens: {reported}"
    );
}
