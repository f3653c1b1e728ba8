//! Asks the person of a client the questions of gates.

use orchestra_engine::{Answer, InterviewError, Interviewer, Question};
use rmcp::RoleServer;
use rmcp::model::{ElicitRequestParams, ElicitationAction, ElicitationSchema};
use rmcp::service::{ElicitationMode, Peer};
use serde_json::{Value, json};

/// The interviewer of a run that a client started.
pub(crate) struct Elicitation {
    pub(crate) peer: Peer<RoleServer>,
}

/// The property with the choice.
const CHOICE: &str = "choice";

impl Interviewer for Elicitation {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        let offers = self.peer.supported_elicitation_modes();
        if !offers.contains(&ElicitationMode::Form) {
            return Err(InterviewError::unavailable(
                "the client of the protocol asks nobody",
            ));
        }
        let Some(schema) = schema(&question) else {
            return Err(InterviewError::unavailable(
                "the question has no choices that a client could list",
            ));
        };
        let message = if question.node.is_empty() {
            question.text.clone()
        } else {
            format!("[{}] {}", question.node, question.text)
        };
        let request = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message,
            requested_schema: schema,
        };
        let result = self.peer.create_elicitation(request).await.map_err(|error| {
            InterviewError::unavailable(format!("the client of the protocol did not ask: {error}"))
        })?;
        // Clients without people decline by themselves, and some accept without a content. Neither is an answer.
        let content = result
            .content
            .filter(|_| result.action == ElicitationAction::Accept);
        let choice = content.as_ref().and_then(|content| content.get(CHOICE));
        let key = choice.and_then(Value::as_str);
        let listed = key.and_then(|key| question.options.iter().find(|option| option.key == key));
        listed
            .map(|option| Answer::choice(&option.key))
            .ok_or_else(|| InterviewError::unavailable("nobody chose one of the listed answers"))
    }
}

/// Returns the schema of the answer to a question; `None` if the question takes other answers than its options.
fn schema(question: &Question) -> Option<ElicitationSchema> {
    let takes_text = question.options.iter().any(|option| option.freeform);
    if question.options.is_empty() || takes_text || question.is_chat() {
        return None;
    }
    let choices = question.options.iter();
    let choices = choices.map(|option| json!({"const": option.key, "title": option.label}));
    let schema = json!({
        "type": "object",
        "properties": {CHOICE: {"type": "string", "title": "Choice", "oneOf": choices.collect::<Vec<_>>()}},
        "required": [CHOICE],
    });
    serde_json::from_value(schema).ok()
}

#[cfg(test)]
mod tests {
    use orchestra_engine::{QuestionKind, QuestionOption};

    use super::*;

    #[test]
    fn only_questions_whose_answers_can_be_listed_are_passed_on() {
        let options = [QuestionOption::new("Y", "Yes"), QuestionOption::new("N", "No")];
        let listed = schema(&Question::select("Ship?", options.clone())).expect("a schema");
        let listed = serde_json::to_value(listed).expect("JSON");
        assert_eq!(
            listed["properties"]["choice"]["oneOf"][1],
            json!({"const": "N", "title": "No"})
        );
        let mut freeform = Question::select("Ship?", options);
        freeform.options[0].freeform = true;
        assert!(schema(&freeform).is_none());
        assert!(schema(&Question::new(QuestionKind::FreeText, "Why?")).is_none());
    }
}
