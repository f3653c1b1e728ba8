//! The models that an alias stands for: a model, and the models that are asked if it does not answer.

use std::fmt;
use std::ops::Deref;

use crate::decode::{Decode, Diagnostics, section};
use crate::located::Located;
use crate::tree::{Node, Tree};

section! {
    /// A model that is asked if the models before it do not answer. A name alone means a model of the same provider.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let text = b"providers:\n  openai: {models: {smart: [gpt-5.2, {provider: anthropic, model: claude-opus-4-6}]}}\n";
    /// let (configuration, report) = Configuration::parse("orchestra.yaml", text);
    /// assert!(!report.has_errors());
    /// let fallback = &configuration.providers.named["openai"].models["smart"].fallbacks[0];
    /// assert_eq!(fallback.provider.as_ref().expect("it is set").as_str(), "anthropic");
    /// ```
    pub struct Fallback {
        /// The provider of the model, where it is another one.
        pub provider: Option<Located<String>>,
        /// The model: one of the provider's `models`, or a model itself.
        pub model: Option<Located<String>>,
    }
}

/// The models that an alias stands for: the first is asked, and the others in turn if the models before them do not
/// answer. It is written as a name or as a list.
///
/// ```
/// use orchestra_config::Configuration;
/// let text = b"providers: {openai: {models: {smart: [gpt-5.2, gpt-5], cheap: gpt-5-mini}}}";
/// let (configuration, report) = Configuration::parse("orchestra.yaml", text);
/// assert!(!report.has_errors());
/// let models = &configuration.providers.named["openai"].models;
/// assert_eq!((models["smart"].as_str(), models["smart"].fallbacks.len()), ("gpt-5.2", 1));
/// assert_eq!(models["cheap"].to_string(), "gpt-5-mini");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelChain {
    /// The model that is asked first.
    pub model: String,
    /// The models that are asked if the models before them do not answer.
    pub fallbacks: Vec<Located<Fallback>>,
}

impl From<String> for ModelChain {
    fn from(model: String) -> ModelChain {
        ModelChain {
            model,
            fallbacks: Vec::new(),
        }
    }
}

impl From<String> for Located<ModelChain> {
    fn from(model: String) -> Located<ModelChain> {
        ModelChain::from(model).into()
    }
}

impl Deref for ModelChain {
    type Target = String;

    fn deref(&self) -> &String {
        &self.model
    }
}

impl fmt::Display for ModelChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.model)?;
        for fallback in &self.fallbacks {
            let model = fallback.model.as_ref().map_or("", |model| model.as_str());
            match &fallback.provider {
                Some(provider) => write!(f, ", then {model} of {}", provider.value)?,
                None => write!(f, ", then {model}")?,
            }
        }
        Ok(())
    }
}

impl Decode for ModelChain {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<ModelChain> {
        let Node::List(items) = &tree.node else {
            return String::decode(tree, diagnostics).map(ModelChain::from);
        };
        let Some((first, others)) = items.split_first() else {
            diagnostics.value("the list of models is empty", tree.span, "name a model");
            return None;
        };
        if matches!(first.node, Node::Map(_)) {
            diagnostics.value(
                "the first model of a list is one of the provider itself",
                first.span,
                "write its name; models of other providers may follow it",
            );
            return None;
        }
        let model = String::decode(first, diagnostics)?;
        let fallbacks = others.iter().filter_map(|tree| {
            let fallback = match &tree.node {
                Node::Map(_) => Fallback::decode(tree, diagnostics)?,
                _ => Fallback {
                    provider: None,
                    model: Some(Located::new(String::decode(tree, diagnostics)?, tree.span)),
                },
            };
            Some(Located::new(fallback, tree.span))
        });
        Some(ModelChain {
            model,
            fallbacks: fallbacks.collect(),
        })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ModelChain {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ModelChain".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let name = generator.subschema_for::<String>();
        let fallback = generator.subschema_for::<Fallback>();
        schemars::json_schema!({
            "description": "A model, or a list of models, each of which is asked if those before it do not answer.",
            "anyOf": [name, {"type": "array", "items": {"anyOf": [name, fallback]}, "minItems": 1}],
        })
    }
}
