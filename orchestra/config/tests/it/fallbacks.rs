//! Aliases that stand for several models (rule F14).

use orchestra_config::{Configuration, Project, Resolution, ResolveOptions};
use orchestra_graph::{LoadOptions, ReadError, Source, load, render};

fn reported(text: &str) -> String {
    let (_, report) = Configuration::parse("orchestra.yaml", text.as_bytes());
    render::concise(&report)
}

fn resolve(yaml: &'static str, attributes: &str) -> Resolution {
    let files = move |path: &str, _: u64| match path {
        "orchestra.yaml" => Ok(yaml.as_bytes().to_vec()),
        _ => Err(ReadError::Missing),
    };
    let text = format!("digraph {{ start -> work -> exit; work [prompt=x{attributes}] }}");
    let loaded = load(Source::new("a.dot", text), &LoadOptions::default());
    let options = ResolveOptions {
        reader: Some(&files),
        ..ResolveOptions::default()
    };
    Project::load("orchestra.yaml", &files).resolve_graph(&loaded.analysis(), &options)
}

const CHAIN: &str = "providers:
  default: openai
  openai: {models: {smart: [gpt-5.2, gpt-5, {provider: anthropic, model: worker}], cheap: gpt-5-mini}}
  anthropic: {models: {worker: [claude-sonnet-4-5, claude-haiku-4-5]}}
";

#[test]
fn an_alias_leads_to_its_fallbacks_in_their_order() {
    let fallbacks = |attributes: &str| {
        let resolution = resolve(CHAIN, attributes);
        assert!(!resolution.has_errors(), "{:#?}", resolution.reports);
        let stage = resolution.stage("work").unwrap().clone();
        let fallbacks: Vec<String> = stage.fallbacks.iter().map(ToString::to_string).collect();
        (stage.model.unwrap().value, fallbacks)
    };
    let (model, chain) = fallbacks("");
    assert_eq!(model, "gpt-5.2", "`smart` is the default");
    // Of the alias of another provider, the first model counts.
    assert_eq!(chain, ["gpt-5 (openai)", "claude-sonnet-4-5 (anthropic)"]);
    assert_eq!(fallbacks(", llm_model=cheap"), ("gpt-5-mini".to_owned(), vec![]));
    assert_eq!(
        fallbacks(", llm_model=\"gpt-5.2\""),
        ("gpt-5.2".to_owned(), vec![])
    );
    // A model that is only a fallback is one of its provider too.
    let haiku = resolve(CHAIN, ", llm_model=\"claude-haiku-4-5\"");
    assert_eq!(
        haiku.stage("work").unwrap().provider.as_ref().unwrap().value,
        "anthropic"
    );
    let stage = resolve(CHAIN, "");
    assert_eq!(
        stage.stage("work").unwrap().fallbacks[0].location,
        "orchestra.yaml:3:38"
    );
    let table = stage.table();
    let line = "  models  gpt-5.2, then gpt-5 (openai), then claude-sonnet-4-5 (anthropic)\n";
    assert!(table.contains(line), "{table}");
}

#[test]
fn mistakes_in_a_list_of_models_are_located() {
    for (models, expected) in [
        ("[]", "1:38: error[config_value]: the list of models is empty"),
        (
            "[a, a]",
            "1:42: error[config_value]: `smart` lists the model `a` twice",
        ),
        (
            "[a, {model: ''}]",
            "1:42: error[config_value]: a fallback of `smart` names no model",
        ),
        (
            "[a, {modle: b}]",
            "1:43: error[config_unknown_key]: unknown key `modle`",
        ),
        (
            "[a, {provider: nobody, model: b}]",
            "1:53: error[unknown_provider]: unknown provider `nobody`",
        ),
        (
            "[{model: a}, b]",
            "1:39: error[config_value]: the first model of a list is one of the provider itself",
        ),
        (
            "[a, [b]]",
            "1:42: error[config_value]: expected text, found a list",
        ),
    ] {
        let text = format!("providers: {{openai: {{models: {{smart: {models}}}}}}}");
        let found = reported(&text);
        assert!(found.contains(expected), "{models}: {found}");
    }
}
