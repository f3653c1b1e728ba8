//! What `orchestra.yaml` may say, and what is told of one that says something else.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use orchestra_config::Configuration;
use orchestra_graph::render;

fn told(text: &str) -> String {
    let (_, report) = Configuration::parse("orchestra.yaml", text.as_bytes());
    render::concise(&report)
}

#[test]
fn a_whole_project_is_understood() {
    let text = include_str!("data/review.yaml");
    let (configuration, report) = Configuration::parse("orchestra.yaml", text.as_bytes());
    assert_eq!(render::concise(&report), "");
    let anthropic = &configuration.providers.named["anthropic"];
    assert_eq!(anthropic.models["cheap"].as_str(), "claude-haiku-3-20250514");
    assert_eq!(anthropic.max_tokens.map(|tokens| tokens.value), Some(8192));
    let synthesizer = &configuration.agents["synthesizer"];
    assert_eq!(
        synthesizer.tools.as_deref(),
        Some([].as_slice()),
        "an empty list is no missing one"
    );
    assert!(
        configuration
            .tool_names()
            .contains(&"frontend:run-lint".to_owned())
    );
}

#[test]
fn every_fault_of_a_file_is_told_with_its_place() {
    let text = "\
providers:
  default: antropic
  anthropic:
    modles: {smart: claude}
    max_tokens: many
    timeout: soon
  mine: {models: {smart: 1.10}}
backend: langgraph
agents:
  critic:
    reasoning_effort: hihg
    tools: read-file
    max_turns: 0
  critic: {}
tools:
  shell: {command: sh}
  deploy: {parameters: {PATH: {type: strng}}}
workspace:
  repos: {backend: {}}
  tools: {bakend: {lint: {command: make}}}
environment: [OK, not-ok]
pipelines:
  review: {provider: openia}
backends:
  coder: {kind: cli, max_turns: 3}
  helper: {}
";
    insta::assert_snapshot!(told(text));
}

#[test]
fn a_model_that_looks_like_a_number_is_taken_as_written() {
    let (configuration, report) = Configuration::parse(
        "orchestra.yaml",
        b"providers: {ollama: {models: {smart: 4.10, cheap: 007}}}\n",
    );
    assert_eq!(render::concise(&report), "");
    let models = &configuration.providers.named["ollama"].models;
    assert_eq!(
        (models["smart"].as_str(), models["cheap"].as_str()),
        ("4.10", "007")
    );
}

#[test]
fn what_is_no_yaml_is_told_where_it_ends_to_be() {
    for text in [
        "agents: [",
        "agents:\n\t- x",
        "a: b: c",
        "&a [*b]",
        "\u{0}",
        "a: !!binary x\n--- \nb: c",
        "- 1",
    ] {
        let told = told(text);
        assert!(told.starts_with("orchestra.yaml:"), "{text:?} gives {told:?}");
    }
    assert_eq!(told(""), "");
    assert_eq!(told("# nothing yet\n"), "");
    let (_, report) = Configuration::parse("orchestra.yaml", b"agents:\n  caf\xe9: {}\n");
    assert!(render::concise(&report).starts_with("orchestra.yaml:2:6: error[config_syntax]"));
}
