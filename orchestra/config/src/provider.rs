//! The choice of a stage's provider, and the provider of a model (rule F11).

use orchestra_graph::{Diagnostic, NodeIndex};

use crate::backend::BackendKind;
use crate::candidate::{AgentLayer, Candidate, Location, from_attribute, from_configuration};
use crate::check::unknown_provider;
use crate::choose::Resolver;
use crate::located::{Located, Names};
use crate::model_chain::{Fallback, ModelChain};
use crate::resolved::Reason;
use crate::rules;
use crate::settings::{PipelineSettings, ProviderKind};

impl ProviderKind {
    /// All kinds.
    pub const ALL: [ProviderKind; 6] = [
        ProviderKind::Anthropic,
        ProviderKind::OpenAi,
        ProviderKind::Gemini,
        ProviderKind::OpenRouter,
        ProviderKind::Ollama,
        ProviderKind::OpenAiCompatible,
    ];

    /// Returns the address of the API if the configuration names none. Returns `None` if there is no such default.
    ///
    /// ```
    /// use orchestra_config::ProviderKind;
    /// assert_eq!(ProviderKind::Anthropic.api_base(), Some("https://api.anthropic.com"));
    /// assert_eq!(ProviderKind::OpenAiCompatible.api_base(), None);
    /// ```
    pub const fn api_base(self) -> Option<&'static str> {
        match self {
            ProviderKind::Anthropic => Some("https://api.anthropic.com"),
            ProviderKind::OpenAi => Some("https://api.openai.com/v1"),
            ProviderKind::Gemini => Some("https://generativelanguage.googleapis.com/v1beta"),
            ProviderKind::OpenRouter => Some("https://openrouter.ai/api/v1"),
            ProviderKind::Ollama => Some("http://127.0.0.1:11434/v1"),
            ProviderKind::OpenAiCompatible => None,
        }
    }

    /// Returns the kind of provider that has a model, judged by the model's name: `claude-*`, `gpt-*`, `o3*`,
    /// `gemini-*`, `VENDOR/MODEL` for OpenRouter, `MODEL:TAG` for Ollama. Returns `None` if the name fits none of them.
    ///
    /// ```
    /// use orchestra_config::ProviderKind;
    /// assert_eq!(ProviderKind::of_model("claude-sonnet-4-5"), Some(ProviderKind::Anthropic));
    /// assert_eq!(ProviderKind::of_model("o4-mini"), Some(ProviderKind::OpenAi));
    /// assert_eq!(ProviderKind::of_model("my-own-model"), None);
    /// ```
    pub fn of_model(model: &str) -> Option<ProviderKind> {
        let model = model.to_ascii_lowercase();
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| model.starts_with(prefix));
        if model.contains('/') {
            Some(ProviderKind::OpenRouter)
        } else if model.contains(':') && !model.starts_with("ft:") {
            Some(ProviderKind::Ollama)
        } else if starts(&["claude-"]) {
            Some(ProviderKind::Anthropic)
        } else if starts(&["gemini-", "gemma-"]) {
            Some(ProviderKind::Gemini)
        } else if starts(&["gpt-oss"]) {
            // Its weights are public: many providers serve it, OpenAI does not.
            None
        } else if starts(&["gpt-", "chatgpt-", "codex-", "ft:"]) || is_o_series(&model) {
            Some(ProviderKind::OpenAi)
        } else {
            None
        }
    }

    /// Returns whether one vendor alone offers the models of this kind, so that a model's name identifies the provider.
    const fn is_vendor(self) -> bool {
        matches!(
            self,
            ProviderKind::Anthropic | ProviderKind::OpenAi | ProviderKind::Gemini
        )
    }
}

/// Returns whether a lower-case name is one of `o1`, `o3-mini`, `o4-mini-2025-04-16` and so on.
///
/// ```
/// use orchestra_config::is_o_series;
/// assert!(is_o_series("o3-mini") && !is_o_series("opus") && !is_o_series("o-1"));
/// ```
pub fn is_o_series(model: &str) -> bool {
    let Some(rest) = model.strip_prefix('o') else {
        return false;
    };
    let version = rest.split('-').next().unwrap_or_default();
    !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit())
}

/// The provider as far as the name of a model determines it.
enum ModelProvider {
    One(String, Reason),
    /// Several providers have the model; sorted by name.
    Several(Vec<String>),
    Unknown,
}

impl Resolver<'_> {
    /// Chooses the provider of a stage: the one named for it, else the one that its model determines, else the default
    /// of the project. Reports an ambiguous, unknown or missing provider.
    pub(crate) fn provider(
        &mut self,
        node: NodeIndex,
        agent_layer: &AgentLayer<'_>,
        own: Option<&PipelineSettings>,
        kind: BackendKind,
        model: Option<&Candidate<String>>,
    ) -> Option<Candidate<String>> {
        let configuration = &self.project.configuration;
        let providers = &configuration.providers;
        let named = from_attribute(self.stages.of_node(node, "llm_provider"))
            .or_else(|| agent_layer.candidate(&agent_layer.agent.provider))
            .or_else(|| from_attribute(self.stages.of_graph("llm_provider")))
            .or_else(|| from_configuration(own.and_then(|own| own.provider.as_ref()), Reason::Pipeline));
        let only = || {
            let mut named = providers.named.iter();
            let (Some((name, provider)), None) = (named.next(), named.next()) else {
                return None;
            };
            Some(Candidate {
                value: name.clone(),
                reason: Reason::Project,
                location: Location::Configuration(provider.span),
            })
        };
        let mut ambiguous = None;
        let chosen = named.or_else(|| {
            let usual = from_configuration(providers.default.as_ref(), Reason::Project).or_else(only);
            let model = match model {
                Some(model) if self.project.path.is_some() => model,
                _ => return usual,
            };
            match self.provider_of_model(&model.value, usual.as_ref().map(|usual| usual.value.as_str())) {
                ModelProvider::Unknown => usual,
                ModelProvider::One(value, reason) => Some(Candidate {
                    value,
                    reason,
                    location: model.location,
                }),
                ModelProvider::Several(names) => {
                    ambiguous = Some((model.clone(), names));
                    None
                }
            }
        });
        if let Some((model, names)) = &ambiguous
            && kind.needs_model()
        {
            self.report_ambiguous(node, model, names);
        }
        let configuration = &self.project.configuration;
        match &chosen {
            None if ambiguous.is_some() => {}
            Some(chosen) => {
                let known = configuration.provider_kind(&chosen.value).is_some()
                    || configuration.providers.named.contains_key(&chosen.value);
                if !known {
                    self.report_name(node, chosen.location, &chosen.value, |span| {
                        unknown_provider(configuration, &chosen.value, span)
                    });
                }
            }
            None if !kind.needs_model() => {}
            // Without a configuration nothing is reported yet; a run reports a missing provider when it needs one.
            None if self.project.path.is_some() => {
                let message = format!("no provider is named for `{}`", self.stages.id(node));
                self.report(node, Location::Nowhere, |span| {
                    Diagnostic::from_rule(&rules::UNKNOWN_PROVIDER, message, span)
                        .help("add `providers: {default: NAME}` to the configuration")
                });
            }
            None => {}
        }
        chosen
    }

    /// Finds the provider that has a model. `usual` is the default of the project; it is used if the name determines
    /// nothing, and if it is among several that fit.
    fn provider_of_model(&self, model: &str, usual: Option<&str>) -> ModelProvider {
        let configuration = &self.project.configuration;
        let named = &configuration.providers.named;
        let decide = |names: Vec<String>, reason: Reason| match names.as_slice() {
            [] => None,
            names if names.iter().any(|name| usual == Some(name)) => Some(ModelProvider::Unknown),
            [one] => Some(ModelProvider::One(one.clone(), reason)),
            _ => Some(ModelProvider::Several(names)),
        };
        let is_own = |fallback: &Located<Fallback>| {
            let own = fallback.model.as_ref().filter(|_| fallback.provider.is_none());
            own.is_some_and(|own| own.as_str() == model)
        };
        let names_it = |models: &Names<ModelChain>| {
            let mut chains = models.values();
            models.contains_key(model)
                || chains.any(|chain| chain.model == model || chain.fallbacks.iter().any(is_own))
        };
        let by_models = named
            .iter()
            .filter(|(_, provider)| names_it(&provider.value.models));
        let by_models = by_models.map(|(name, _)| name.clone()).collect();
        if let Some(found) = decide(by_models, Reason::Models) {
            return found;
        }
        let Some(family) = ProviderKind::of_model(model) else {
            return ModelProvider::Unknown;
        };
        // The name of a model at OpenRouter or Ollama determines the provider only if the project has no default.
        if !family.is_vendor() && usual.is_some() {
            return ModelProvider::Unknown;
        }
        let is_of_family = |name: &&String| configuration.provider_kind(name) == Some(family);
        let by_family = named.keys().filter(is_of_family).cloned().collect();
        if let Some(found) = decide(by_family, Reason::Family) {
            return found;
        }
        // The default provider cannot have the model if it is the API of another vendor. The API of the model's vendor
        // is known without a configuration.
        let is_elsewhere = usual.is_none_or(|usual| {
            let is_proxied = named
                .get(usual)
                .is_some_and(|usual| usual.value.api_base.is_some());
            let kind = configuration.provider_kind(usual);
            kind.is_some_and(|kind| kind.is_vendor() && kind != family) && !is_proxied
        });
        if is_elsewhere {
            ModelProvider::One(family.word().to_owned(), Reason::Family)
        } else {
            ModelProvider::Unknown
        }
    }

    fn report_ambiguous(&mut self, node: NodeIndex, model: &Candidate<String>, names: &[String]) {
        let id = self.stages.id(node);
        let message = format!("several providers have the model `{}` of `{id}`", model.value);
        let note = format!("the providers are `{}`", names.join("`, `"));
        let help = match names.first() {
            Some(first) => {
                format!("write `llm_provider={first}` on `{id}`, or make one the default provider")
            }
            None => String::new(),
        };
        self.report(node, model.location, |span| {
            Diagnostic::from_rule(&rules::AMBIGUOUS_PROVIDER, message, span)
                .note(note)
                .help(help)
        });
    }
}
