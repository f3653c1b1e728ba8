//! The tool `choose`, with which a model that judges a fan-in names its choice (rule F6).

use orchestra_engine::StageContext;
use orchestra_graph::{did_you_mean, kind};
use serde_json::{Map, Value, json};

use crate::tool::ToolSpec;

/// The name by which the model calls the tool.
pub(crate) const NAME: &str = "choose";

/// Returns the ids of the branches among which a stage chooses: those that succeeded. Returns an empty list if the
/// stage is not a fan-in.
pub(crate) fn choices(stage: &StageContext) -> Vec<String> {
    if stage.node().kind() != kind::FAN_IN {
        return Vec::new();
    }
    let candidates = orchestra_engine::candidates(stage.context()).unwrap_or_default();
    let succeeded = candidates.iter().filter(|candidate| candidate.succeeded());
    succeeded.map(|candidate| candidate.id.to_owned()).collect()
}

pub(crate) fn spec(choices: &[String]) -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description:
            "Names the best candidate and ends this stage. Call it once, when you have compared them all."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "best": {"type": "string", "enum": choices, "description": "The id of the best candidate."},
                "reason": {"type": "string", "description": "Why it is the best: one to five sentences."},
            },
            "required": ["best", "reason"],
            "additionalProperties": false,
        }),
    }
}

/// A choice of a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) best: String,
    pub(crate) reason: String,
}

impl Choice {
    /// Parses the arguments of the tool call.
    ///
    /// # Errors
    /// Returns a message for the model that describes the problem.
    pub(crate) fn parse(fields: &Map<String, Value>, choices: &[String]) -> Result<Choice, String> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::trim);
        let Some(best) = text("best").filter(|best| !best.is_empty()) else {
            return Err("`best` is missing: it is the id of the best candidate.".to_owned());
        };
        if !choices.iter().any(|choice| choice == best) {
            let near = did_you_mean(best, choices.iter().map(String::as_str));
            let near = near.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
            return Err(format!(
                "`{best}` cannot be chosen.{near} The candidates are: {}.",
                choices.join(", ")
            ));
        }
        Ok(Choice {
            best: best.to_owned(),
            reason: text("reason").unwrap_or_default().to_owned(),
        })
    }

    /// Returns the choice as a response that the engine can parse.
    pub(crate) fn response(&self, words: &str) -> String {
        let mut text = String::new();
        for part in [words.trim(), self.reason.as_str()] {
            if !part.is_empty() {
                text.push_str(part);
                text.push_str("\n\n");
            }
        }
        text.push_str(&format!("```json\n{}\n```\n", json!({"best": self.best})));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_candidate_is_chosen() {
        let choices = ["fast".to_owned(), "deep".to_owned()];
        let of = |fields: Value| Choice::parse(fields.as_object().unwrap(), &choices);
        let choice = of(json!({"best": " deep ", "reason": "It is right."})).unwrap();
        assert_eq!(choice.best, "deep");
        assert_eq!(
            choice.response("I read both."),
            "I read both.\n\nIt is right.\n\n```json\n{\"best\":\"deep\"}\n```\n"
        );
        let error = of(json!({"best": "deap"})).unwrap_err();
        assert!(error.contains("Did you mean `deep`?"), "{error}");
        assert!(of(json!({})).unwrap_err().starts_with("`best` is missing"));
    }
}
