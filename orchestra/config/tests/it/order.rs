//! The order of precedence of settings, compared with a second, simple implementation.

use std::fmt::Write as _;

use orchestra_config::{Project, ResolveOptions};
use orchestra_graph::{LoadOptions, ReadError, Source, load, render};
use proptest::prelude::*;

/// The values of one setting by source: node, class and universal rule of the stylesheet, agent, graph, pipeline,
/// project.
type LayerValues = [Option<String>; 7];

/// The values of all settings. With `own_default`, the provider `one` has a default model.
#[derive(Clone, Debug)]
struct Case {
    model: LayerValues,
    provider: LayerValues,
    backend: LayerValues,
    effort: LayerValues,
    own_default: bool,
    with_agent: bool,
}

fn said(words: &'static [&'static str], may: [bool; 7]) -> impl Strategy<Value = LayerValues> {
    let one = proptest::option::weighted(0.4, proptest::sample::select(words))
        .prop_map(|word| word.map(str::to_owned));
    proptest::array::uniform7(one).prop_map(move |mut said| {
        said.iter_mut()
            .zip(may)
            .filter(|(_, may)| !may)
            .for_each(|(said, _)| *said = None);
        said
    })
}

fn case() -> impl Strategy<Value = Case> {
    let styled = [true, true, true, true, true, true, false];
    let plain = [true, false, false, true, true, true, true];
    (
        said(&["smart", "worker", "gpt-5", "own-model"], styled),
        said(&["one", "two"], [true; 7]),
        said(&["agent", "direct", "simulation", "quick"], plain),
        said(&["low", "medium", "high"], styled),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(model, provider, backend, effort, own_default, with_agent)| Case {
                model,
                provider,
                backend,
                effort,
                own_default,
                with_agent,
            },
        )
}

impl Case {
    /// Returns the settings of one source, as keys and values.
    fn at(&self, position: usize) -> Vec<(&'static str, &str)> {
        let all = [
            ("model", &self.model),
            ("provider", &self.provider),
            ("backend", &self.backend),
            ("reasoning_effort", &self.effort),
        ];
        all.into_iter()
            .filter_map(|(key, said)| Some((key, said[position].as_deref()?)))
            .collect()
    }

    fn pipeline(&self) -> String {
        let attributes = |position: usize| {
            let mut text = String::new();
            for (key, value) in self.at(position) {
                let prefix = if matches!(key, "model" | "provider") {
                    "llm_"
                } else {
                    ""
                };
                let _ = write!(text, "{prefix}{key}=\"{value}\" ");
            }
            text
        };
        let rule = |position: usize| {
            let said = self.at(position);
            said.iter().fold(String::new(), |text, (key, value)| {
                format!("{text}{key}: {value}; ")
            })
        };
        let agent = if self.with_agent { "agent=helper" } else { "" };
        format!(
            "digraph flow {{\n graph [model_stylesheet=\"* {{ {} }} .quick {{ {} }}\" {}]\n \
             start -> work -> exit\n work [class=quick prompt=\"Work\" {agent} {}]\n}}\n",
            rule(2),
            rule(1),
            attributes(4),
            attributes(0)
        )
    }

    fn configuration(&self) -> String {
        let map = |position: usize| {
            let said = self.at(position);
            let said: Vec<String> = said
                .iter()
                .map(|(key, value)| format!("{key}: {value}"))
                .collect();
            format!("{{{}}}", said.join(", "))
        };
        let mut text = String::new();
        if let Some(backend) = &self.backend[6] {
            let _ = writeln!(text, "backend: {backend}");
        }
        let own = if self.own_default {
            ", default_model: worker"
        } else {
            ""
        };
        let default = self.provider[6]
            .as_ref()
            .map_or(String::new(), |name| format!("  default: {name}\n"));
        let _ = write!(
            text,
            "providers:\n{default}  one: {{kind: openai, models: {{smart: one-smart, worker: one-worker}}{own}}}\n  \
             two: {{kind: gemini, models: {{smart: two-smart, worker: two-worker}}}}\n\
             backends: {{quick: {{kind: direct}}}}\nagents: {{helper: {}}}\npipelines: {{flow: {}}}\n",
            map(3),
            map(5)
        );
        text
    }

    /// Returns the first value in the order of precedence.
    fn first(&self, said: &LayerValues) -> Option<String> {
        let agent = |position: usize| position != 3 || self.with_agent;
        (0..said.len())
            .filter(|position| agent(*position))
            .find_map(|position| said[position].clone())
    }

    /// Returns the expected backend, provider, model and effort.
    fn expected(&self) -> (String, Option<String>, Option<String>, Option<String>) {
        let backend = self.first(&self.backend).unwrap_or_else(|| "agent".to_owned());
        // The model's name ranks below an explicit provider and above the project's default.
        let mut named = self.provider.clone();
        let default = named[6].take();
        let by_model = (self.first(&self.model).as_deref() == Some("gpt-5")).then(|| "one".to_owned());
        let provider = self.first(&named).or(by_model).or(default);
        let Some(named) = &provider else {
            return (backend, None, self.first(&self.model), self.first(&self.effort));
        };
        let model = Some(named).map(|provider| {
            let word = self.first(&self.model).unwrap_or_else(|| {
                let own = self.own_default && provider == "one";
                if own { "worker" } else { "smart" }.to_owned()
            });
            match word.as_str() {
                "smart" | "worker" => format!("{provider}-{word}"),
                _ => word,
            }
        });
        (backend, provider, model, self.first(&self.effort))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_chosen_is_what_comes_first(case in case()) {
        let (pipeline, configuration) = (case.pipeline(), case.configuration());
        let files = |path: &str, _: u64| match path {
            "orchestra.yaml" => Ok(configuration.clone().into_bytes()),
            _ => Err(ReadError::Missing),
        };
        let project = Project::load("orchestra.yaml", &files);
        prop_assert_eq!(render::concise(&project.report), "", "{}", configuration);
        let loaded = load(Source::new("flow.dot", pipeline.as_str()), &LoadOptions::default());
        prop_assert!(!loaded.report.has_errors(), "{}", pipeline);
        let options = ResolveOptions::default();
        let analysis = loaded.analysis();
        let checked = project.resolve_graph(&analysis, &options);
        let running = project.resolve(&loaded.pipeline().expect("it is sound"), &options);
        for resolution in [checked, running] {
            let stage = resolution.stage("work").expect("a model stage");
            let found = (
                stage.backend.value.clone(),
                stage.provider.as_ref().map(|provider| provider.value.clone()),
                stage.model.as_ref().map(|model| model.value.clone()),
                stage.reasoning_effort.as_ref().map(|effort| effort.value.word().to_owned()),
            );
            prop_assert_eq!(found, case.expected(), "{}\n{}", pipeline, configuration);
            // With two providers and no default, only a stage that calls a model is refused.
            let lacks = stage.provider.is_none() && stage.backend_kind.needs_model();
            prop_assert_eq!(resolution.has_errors(), lacks);
        }
    }
}
