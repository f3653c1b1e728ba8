//! Parsing of `orchestra.yaml`, and the diagnostics of invalid files.

use orchestra_config::Configuration;
use orchestra_graph::render;

fn reported(text: &str) -> String {
    let (_, report) = Configuration::parse("orchestra.yaml", text.as_bytes());
    render::concise(&report)
}

#[test]
fn a_whole_project_is_understood() {
    let text = include_str!("../data/review.yaml");
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
fn every_fault_of_a_file_is_reported_with_its_position() {
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
  deploy: {parameters: {dry-run: {type: strng}, DRY_RUN: {}, 'a b': {}}}
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
    insta::assert_snapshot!(reported(text));
}

#[test]
fn repositories_that_cannot_be_are_reported() {
    let text = "\
workspace:
  repos:
    api: {path: ../api}
    API: {path: ../other}
    my_app: {path: app, branch_prefix: 'a b/'}
    my-app: {path: ./app/, branch_prefix: ''}
    ../up: {path: ../up, branch_prefix: bot-}
    lib: {branch_prefix: x.lock/}
  tools: {api: {read_file: {command: cat}}}
environment: [GIT_DIR, GIT_SSH_COMMAND]
backends:
  coder: {kind: cli, command: my-agent, environment: [GIT_INDEX_FILE]}
";
    insta::assert_snapshot!(reported(text));
}

#[test]
fn tools_of_repositories_are_known_however_their_names_are_written() {
    let text = b"agents: {a: {only_tools: ['my_app:read_file', 'my-app:run-tests']}}
workspace: {repos: {my_app: {path: app}}, tools: {my_app: {run_tests: {command: make, read_only: true}}}}";
    let (configuration, report) = Configuration::parse("orchestra.yaml", text);
    assert_eq!(render::concise(&report), "");
    let names = configuration.tool_names();
    for name in ["my-app:read-file", "my-app:shell", "my-app:run-tests"] {
        assert!(
            names.iter().any(|known| known == name),
            "{name} is not in {names:?}"
        );
    }
    assert!(configuration.tool_is_read_only("my_app:run_tests"));
    assert!(!configuration.tool_is_read_only("my_app:edit_file"));
    assert!(!configuration.tool_is_read_only("other:run-tests"));
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
fn what_is_no_yaml_is_reported_where_it_ends_to_be() {
    for text in [
        "agents: [",
        "agents:\n\t- x",
        "a: b: c",
        "&a [*b]",
        "\u{0}",
        "a: !!binary x\n--- \nb: c",
        "- 1",
    ] {
        let reported = reported(text);
        assert!(
            reported.starts_with("orchestra.yaml:"),
            "{text:?} gives {reported:?}"
        );
    }
    assert_eq!(reported(""), "");
    assert_eq!(reported("# nothing yet\n"), "");
    let (_, report) = Configuration::parse("orchestra.yaml", b"agents:\n  caf\xe9: {}\n");
    assert!(render::concise(&report).starts_with("orchestra.yaml:2:6: error[config_syntax]"));
}

#[test]
fn bombs_are_refused() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let names = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{names}]\n"));
    }
    let deep = format!("agents: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let blocks: String = (0..2_000)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    let lists = "- ".repeat(100_000);
    let maps = "{a: ".repeat(100_000);
    let wide = "- x\n".repeat(250_000);
    let long = " ".repeat(2 << 20);
    for (what, text) in [
        ("laughs", laughs),
        ("deep", deep),
        ("blocks", blocks),
        ("lists", lists),
        ("maps", maps),
        ("wide", wide),
        ("long", long),
    ] {
        let begin = std::time::Instant::now();
        let reported = reported(&text);
        assert!(
            reported.contains("error[config_syntax]"),
            "{what}: {reported:.200}"
        );
        assert!(begin.elapsed() < std::time::Duration::from_secs(30), "{what}");
    }
}

#[test]
fn the_configuration_of_the_reference_is_sound() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../REFERENCE.md");
    let reference = std::fs::read_to_string(path).expect("the reference");
    let (_, section) = reference
        .split_once("## The project configuration")
        .expect("the section");
    let (_, rest) = section.split_once("```yaml\n").expect("an example");
    let (text, _) = rest.split_once("```").expect("its end");
    assert_eq!(reported(text), "");
}
