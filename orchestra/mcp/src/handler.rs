//! What a server may ask of this program: a question to a person, as a part of a call. Everything else is refused.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_agent::ToolContext;
use orchestra_engine::{AnsweredBy, AskError, StageContext};
use rmcp::RoleClient;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
};
use rmcp::service::RequestContext;
use tokio::sync::watch;

use crate::form::{Filled, Form};

/// Number of answers of programs that may not fit a question before it is declined.
const MAX_WRONG: usize = 3;
/// The code of the warning about a question that may be one of several stages.
const UNCLEAR_QUESTION: &str = "mcp_unclear_question";

/// The calls that a server executes, and whether a person is asked meanwhile.
pub(crate) struct Calls {
    next: AtomicU64,
    active: Mutex<Vec<(u64, ToolContext)>>,
    asking: watch::Sender<usize>,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls {
            next: AtomicU64::new(0),
            active: Mutex::default(),
            asking: watch::Sender::new(0),
        }
    }
}

/// A call that a server executes. Dropping it ends the call.
pub(crate) struct ActiveCall<'c> {
    calls: &'c Calls,
    number: u64,
}

impl Calls {
    /// Registers a call.
    pub(crate) fn begin(&self, context: &ToolContext) -> ActiveCall<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        active.push((number, context.clone()));
        ActiveCall { calls: self, number }
    }

    /// Returns the stages whose calls the server executes, each with the context of its latest call.
    fn callers(&self) -> Vec<ToolContext> {
        let active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        let mut callers: BTreeMap<Option<String>, ToolContext> = BTreeMap::new();
        for (_, context) in active.iter() {
            let attempt = context.stage().map(StageContext::attempt_key);
            callers.insert(attempt, context.clone());
        }
        callers.into_values().collect()
    }

    /// Returns the number of questions that wait for a person, as it changes.
    pub(crate) fn asking(&self) -> watch::Receiver<usize> {
        self.asking.subscribe()
    }
}

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        let mut active = self.calls.active.lock().unwrap_or_else(PoisonError::into_inner);
        active.retain(|(number, _)| *number != self.number);
    }
}

/// A question that waits for a person. Dropping it withdraws the question.
struct Asking<'c>(&'c Calls);

impl<'c> Asking<'c> {
    fn begin(calls: &'c Calls) -> Asking<'c> {
        calls.asking.send_modify(|number| *number += 1);
        Asking(calls)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0
            .asking
            .send_modify(|number| *number = number.saturating_sub(1));
    }
}

/// Returns why a question is declined while several stages call a server.
fn unclear(server: &str) -> String {
    format!(
        "a question of the MCP server `{server}` is declined, because several stages were calling the server; give each stage \
         its own with `scope: stage`"
    )
}

/// The handler of the requests of a server.
pub(crate) struct Handler {
    pub(crate) server: String,
    pub(crate) calls: Arc<Calls>,
}

impl Handler {
    /// Asks the person of the stage that makes the call. A question that may be one of several stages is declined: a
    /// person would answer it for the wrong one.
    async fn ask(&self, form: &Form) -> ElicitResult {
        let decline = || ElicitResult::new(ElicitationAction::Decline);
        let callers = self.calls.callers();
        let [context] = callers.as_slice() else {
            for stage in callers.iter().filter_map(ToolContext::stage) {
                stage.warn(UNCLEAR_QUESTION, unclear(&self.server));
            }
            return decline();
        };
        let Some(stage) = context.stage() else {
            return decline();
        };
        let _asking = Asking::begin(&self.calls);
        let mut wrong = None;
        let mut wrong_of_programs = 0;
        while wrong_of_programs < MAX_WRONG {
            let question = form.question(wrong.as_deref());
            // Silence is not an answer: the run is suspended until somebody answers.
            let answer = match stage.require_answer(question.clone()).await {
                Ok(answer) => answer,
                Err(AskError::Failed(error)) => {
                    stage.log(format!(
                        "the question of the MCP server `{}` is declined: {error}",
                        self.server
                    ));
                    return decline();
                }
                Err(error) => {
                    context.interrupt(error);
                    return ElicitResult::new(ElicitationAction::Cancel);
                }
            };
            match form.fill(&question, &answer) {
                Filled::Accepted(content) => {
                    return ElicitResult::new(ElicitationAction::Accept).with_content(content);
                }
                Filled::Declined => return decline(),
                Filled::Wrong(reason) => wrong = Some(reason),
            }
            // A person is asked until the answer fits; a program may give the same one forever.
            if answer.by != AnsweredBy::Person {
                wrong_of_programs += 1;
            }
        }
        stage.log(format!(
            "the question of the MCP server `{}` is declined: {MAX_WRONG} answers did not fit",
            self.server
        ));
        decline()
    }
}

#[expect(deprecated, reason = "servers still ask for sampling and roots")]
impl ClientHandler for Handler {
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<rmcp::model::ListRootsRequestMethod>())
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } = request
        else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let schema = serde_json::to_value(&requested_schema)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let form = Form::new(&self.server, &message, &schema);
        tokio::select! {
            result = self.ask(&form) => Ok(result),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    fn get_info(&self) -> ClientConfig {
        // The formats of texts are not validated, so the validation of answers is not claimed.
        let form = FormElicitationCapability::new();
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        let name = Implementation::new("orchestra", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_validation_of_answers_is_not_claimed() {
        let handler = Handler {
            server: "files".to_owned(),
            calls: Arc::default(),
        };
        let elicitation = handler.get_info().capabilities.elicitation.expect("offered");
        assert_eq!(elicitation.form.expect("offered").schema_validation, None);
    }
}
