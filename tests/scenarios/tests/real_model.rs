//! The review pipeline of the design document, asked about a small change of a real provider.
//!
//! It costs money, so it is done only with `ORCHESTRA_REAL_LLM=1` and the key of a provider in the environment. The same
//! steps are done against the scripted model in every run of the tests.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

#[allow(unused_imports, reason = "the scenarios need all of it")]
mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orchestra_model_server_tests::{ModelServer, Script, Wire};
use support::{command, commit_all, copy_project, finish_within, home};

/// A provider, the variable of its key, and a model of it that costs little.
const PROVIDERS: [(&str, &str, &str); 4] = [
    ("anthropic", "ANTHROPIC_API_KEY", "claude-haiku-4-5"),
    ("openai", "OPENAI_API_KEY", "gpt-5-mini"),
    ("gemini", "GEMINI_API_KEY", "gemini-2.5-flash"),
    ("openrouter", "OPENROUTER_API_KEY", "anthropic/claude-haiku-4.5"),
];

/// Makes the project of the scenario `review` one of a single provider.
fn project(folder: &Path, provider: &str, model: &str, base: Option<&str>) {
    copy_project("review", folder);
    let graph = std::fs::read_to_string(folder.join("review.dot")).unwrap();
    let graph = ["anthropic", "openrouter"].iter().fold(graph, |graph, other| {
        graph.replace(
            &format!("llm_provider: {other};"),
            &format!("llm_provider: {provider};"),
        )
    });
    std::fs::write(folder.join("review.dot"), graph).unwrap();
    let configuration = std::fs::read_to_string(folder.join("orchestra.yaml")).unwrap();
    let (_, rest) = configuration.split_once("\nworkspace:").unwrap();
    let base = base.map_or(String::new(), |base| format!("    api_base: {base:?}\n"));
    let own = format!(
        "providers:\n  default: {provider}\n  {provider}:\n{base}    models: {{smart: {model:?}, worker: {model:?}}}\n    \
         max_tokens: 8192\n\nworkspace:{rest}"
    );
    std::fs::write(folder.join("orchestra.yaml"), own).unwrap();
    for repository in ["backend", "frontend"] {
        commit_all(&folder.join(repository));
    }
}

/// Reviews the change of the scenario, and gives the review that a person approved.
fn review(folder: &Path, key: (&str, &str), limit: &str) -> String {
    let arguments = [
        "run",
        "review.dot",
        "--set",
        "pr_diff=@change.diff",
        "--answer",
        "synthesizer=/approve",
        "--max-cost",
        "2.00",
        "--max-time",
        limit,
        "--run-dir",
        "run",
    ];
    let mut command = command(folder, &arguments);
    command.env(key.0, key.1);
    finish_within(command, None, Duration::from_secs(1200)).exits(0);
    std::fs::read_to_string(folder.join("run/synthesizer/response.md")).unwrap()
}

#[test]
fn a_real_model_finds_what_is_wrong_with_a_small_change() {
    if std::env::var("ORCHESTRA_REAL_LLM").as_deref() != Ok("1") {
        eprintln!("skipped: ORCHESTRA_REAL_LLM=1 is not set");
        return;
    }
    let keys = PROVIDERS
        .iter()
        .find_map(|provider| Some((provider, std::env::var(provider.1).ok()?)));
    let Some(((provider, variable, model), key)) = keys else {
        eprintln!("skipped: no provider has a key in the environment");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    project(folder.path(), provider, model, None);
    let review = review(folder.path(), (variable, &key), "15m");
    assert!(
        review.contains("eval"),
        "the gravest finding is missing: {review}"
    );
}

#[test]
fn the_same_steps_with_the_scripted_model() {
    let rules = std::fs::read_to_string(home().join("review/model.yaml")).unwrap();
    // The scenario itself asks the other two.
    let others = |provider: &&(&str, &str, &str)| ["openai", "gemini"].contains(&provider.0);
    for (provider, variable, model) in PROVIDERS.iter().filter(others).copied() {
        let script = Arc::new(Script::parse(&rules).unwrap());
        let server = ModelServer::start();
        server.play(&script);
        let wire = if provider == "gemini" {
            Wire::Gemini
        } else {
            Wire::OpenAi
        };
        let folder = tempfile::tempdir().unwrap();
        project(folder.path(), provider, model, Some(&server.base(wire)));
        let key = (variable, "key-of-the-scenarios-0123456789");
        let review = review(folder.path(), key, "20s");
        assert!(review.contains("REVIEW-1"), "{provider}: {review}");
        assert!(script.unmatched().is_empty(), "{provider}");
    }
}
