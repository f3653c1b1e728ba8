//! The environment of tool stages and of commands that models start.

#![cfg(unix)]

use crate::agents_support;

use std::collections::BTreeMap;
use std::process::Command;

use agents_support::{Done, KEY, Project, done, reports};
use orchestra_model_server_tests::Answer;
use serde_json::json;

const HOUSE_KEY: &str = "key-of-the-house-0123456789";
const FILE_KEY: &str = "key-of-the-file-0123456789";

/// Typical variables of a shell and of a build server.
const SET: &[(&str, &str)] = &[
    ("CI", "true"),
    ("JAVA_HOME", "/opt/java"),
    ("HTTPS_PROXY", "http://me:pa55-w0rd@proxy.example:3128"),
    ("no_proxy", "localhost"),
    ("MY_OWN", "a b"),
    ("SSH_KEY", "/etc/hosts"),
];

/// Variables with secrets: API keys of providers, which are recognised by name even if they are short, and others that
/// are recognised by value or name.
const SECRET: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", KEY),
    ("OPENAI_API_KEY", "x"),
    ("HOUSE_MODELS", HOUSE_KEY),
    ("COPY_OF_A_FILE", FILE_KEY),
    (
        "DATABASE_URL",
        "postgres://me:key-of-the-tests-0123456789@localhost/db",
    ),
    ("GITHUB_TOKEN", "ghp_0123456789abcdefghij"),
    ("GOOGLE_API_KEY", "x"),
    ("PGPASSWORD", "a1"),
    ("STORE", "postgres://me:pa55-w0rd@localhost/db"),
];

const PROVIDERS: &str = "  default: anthropic
  house: {kind: openai-compatible, api_base: \"http://127.0.0.1:9\", api_key_env: HOUSE_MODELS}
  filed: {kind: openai-compatible, api_base: \"http://127.0.0.1:9\", api_key_file: filed.key}
";

fn project() -> Project {
    let project = Project::new(PROVIDERS);
    project.scratch.write("filed.key", format!("{FILE_KEY}\n"));
    project
}

/// Returns a command whose environment consists of [`SET`], [`SECRET`], `PATH` and `HOME` only.
fn command(project: &Project, args: &[&str]) -> Command {
    let mut command = project.command(args);
    command.env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap());
    command.env("HOME", project.scratch.path("home"));
    command.envs(SET.iter().copied()).envs(SECRET.iter().copied());
    command
}

fn run(project: &Project, args: &[&str]) -> Done {
    done(command(project, args).output().unwrap())
}

/// A pipeline with one tool that writes its environment to the file `seen`, with attributes of graph and node.
fn dump(graph: &str, node: &str) -> String {
    format!(
        "digraph dump {{\n {graph}\n start -> dump -> exit\n \
         dump [shape=parallelogram, tool_command=\"env -0 > seen\"{node}]\n}}"
    )
}

/// Returns the variables that a command wrote with `env -0`.
fn seen(project: &Project) -> BTreeMap<String, String> {
    let text = project.scratch.read("seen");
    let variables = text
        .split_terminator('\0')
        .map(|line| line.split_once('=').unwrap());
    // The shell itself sets these.
    let variables = variables.filter(|(name, _)| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Returns the variables that the tool of a pipeline sees.
fn seen_with(project: &Project, graph: &str, node: &str) -> BTreeMap<String, String> {
    project.scratch.write("a.dot", dump(graph, node));
    run(project, &["run", "a.dot"]).exits(0);
    seen(project)
}

#[test]
fn a_tool_stage_sees_the_environment_of_the_run_without_its_secrets() {
    let project = project();
    let seen = seen_with(&project, "", "");
    for (name, value) in SET {
        assert_eq!(seen.get(*name).map(String::as_str), Some(*value), "{name}");
    }
    for (name, _) in SECRET {
        assert!(!seen.contains_key(*name), "{name}");
    }
    for name in [
        "PATH",
        "HOME",
        "ORCHESTRA_RUN_DIR",
        "ORCHESTRA_STAGE_DIR",
        "ORCHESTRA_PROMPT_FILE",
    ] {
        assert!(seen.contains_key(name), "{name}");
    }
    assert_eq!(seen["ORCHESTRA_NODE_ID"], "dump");
    let secret =
        |(_, value): (&String, &String)| SECRET.iter().any(|(_, key)| key.len() > 2 && value.contains(key));
    assert!(!seen.iter().any(secret), "{seen:?}");
}

#[test]
fn a_pipeline_adds_variables_and_asks_for_withheld_ones_but_not_for_keys() {
    let project = project();
    let graph = "tool_env.CI=graph; tool_env.LEVEL=4.10; tool_env=GITHUB_TOKEN";
    let node = ", tool_env.CI=\"the node's\", tool_env=\"DATABASE_URL, NOT_SET\"";
    let seen = seen_with(&project, graph, node);
    assert_eq!((&*seen["CI"], &*seen["LEVEL"]), ("the node's", "4.10"));
    for name in ["GITHUB_TOKEN", "DATABASE_URL"] {
        let value = SECRET.iter().find(|(secret, _)| *secret == name).unwrap().1;
        assert_eq!(seen[name], value);
    }
    assert!(!seen.contains_key("NOT_SET") && !seen.contains_key("HOUSE_MODELS"));

    for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "HOUSE_MODELS"] {
        project
            .scratch
            .write("a.dot", dump("", &format!(", tool_env={key}")));
        let refused = run(&project, &["run", "a.dot"]).exits(1);
        let said = format!("`tool_env` lists `{key}`");
        assert!(refused.stderr.contains(&said), "{}", refused.stderr);
    }
}

#[test]
fn a_tool_stage_may_begin_with_an_empty_environment() {
    let project = project();
    let own = [
        "ATTEMPT",
        "ATTEMPT_KEY",
        "NODE_ID",
        "PROMPT_FILE",
        "RUN_DIR",
        "RUN_ID",
        "STAGE_DIR",
        "STAGE_KEY",
        "TOOL_ID",
    ];
    let mut own: Vec<String> = own.iter().map(|name| format!("ORCHESTRA_{name}")).collect();
    own.push("PATH".to_owned());
    let empty = seen_with(&project, "tool_env_inherit=false", "");
    assert_eq!(empty.into_keys().collect::<Vec<_>>(), own);
    let node =
        ", tool_env_inherit=false, tool_env=\"CI, MY_OWN\", tool_env.PATH=\"/usr/bin:/bin\", tool_env.Z=1";
    let seen = seen_with(&project, "", node);
    assert_eq!(
        (&*seen["CI"], &*seen["PATH"], &*seen["Z"]),
        ("true", "/usr/bin:/bin", "1")
    );
    let others = ["CI".to_owned(), "MY_OWN".to_owned()].into_iter().chain(own);
    let others: Vec<String> = others.chain(["Z".to_owned()]).collect();
    assert_eq!(seen.into_keys().collect::<Vec<_>>(), others);
}

#[test]
fn the_check_knows_the_attributes_and_refuses_the_variables_of_the_engine() {
    let project = project();
    let check = |text: &str, code: i32| {
        project.scratch.write("a.dot", text);
        let done = run(&project, &["check", "a.dot"]).exits(code);
        done.stdout + &done.stderr
    };
    let node = ", tool_env.LEVEL=3, tool_env=MY_OWN";
    let sound = check(&dump("tool_env.CI=true; tool_env_inherit=false", node), 0);
    assert!(!sound.contains("warning"), "{sound}");
    for (graph, node, error) in [
        (
            "",
            ", tool_env=\"CI=true\"",
            "error[attribute_type]: `tool_env` must be names",
        ),
        (
            "",
            ", tool_env.ORCHESTRA_STAGE_DIR=\"/tmp\"",
            "error[tool_env_name]",
        ),
        ("tool_env_inherit=maybe", "", "error[attribute_type]"),
    ] {
        let said = check(&dump(graph, node), 3);
        assert!(said.contains(error), "{said}");
    }
    let edge = "start -> dump [tool_env.CI=true]; dump";
    let said = check(&dump("", "").replace("start -> dump", edge), 0);
    assert!(said.contains("`tool_env.CI` has no meaning on an edge"), "{said}");
}

#[test]
fn a_command_that_a_model_starts_sees_the_short_list_only() {
    let project = project();
    let calls = json!({"command": "env -0 > seen"});
    project.server.push(Answer::call("shell", calls.to_string()));
    project.server.push(reports("done"));
    let text = "digraph { tool_env.CI=set; tool_env=MY_OWN; start -> work -> exit; work [prompt=x, agent.tools=shell] }";
    project.scratch.write("a.dot", text);
    run(&project, &["run", "a.dot"]).exits(0);
    let seen = seen(&project);
    assert!(seen.contains_key("PATH") && seen.contains_key("HOME"));
    for (name, _) in SET.iter().chain(SECRET) {
        assert!(!seen.contains_key(*name), "{name}");
    }
}
