//! Calls of the models of a stage: retries, fallbacks and the budget (rules F9, F14).

use std::time::Duration;

use orchestra_config::{Chosen, Reason, ResolvedStage};
use orchestra_engine::{
    BackendError, FailureCategory, ModelCall, ModelContents, Reservation, StageContext, Usage,
};
use serde_json::{Value, json};

use crate::DEFAULT_MAX_OUTPUT_TOKENS;
use crate::agents::Agents;
use crate::compaction::tokens_of;
use crate::conversation::FailedModel;
use crate::model::{
    Arguments, Message, ModelErrorKind, ModelReply, ModelRequest, StopReason, TokenUsage, ToolCall,
};
use crate::tokens::{count_tokens, input_token_bound};
use crate::tools::error_line;

/// Maximum number of attempts of a model call that fails with a retryable error (rule F9).
const MAX_TRIES: u32 = 5;
/// The delay before the second attempt; it doubles with each further attempt.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay between attempts, even if a server requests a longer one (rule Y4).
const MAX_DELAY: Duration = Duration::from_secs(60);

/// The code of a stage whose model declined to answer.
pub(crate) const REFUSED: &str = "model_refused";
/// The code of a stage none of whose models answered.
const NO_MODEL: &str = "model_fallbacks_failed";
/// The code of the warning about a model that did not answer.
const FALLBACK: &str = "model_fallback";

/// The errors after which another model is asked: those of the provider or the account, not those of the request.
const FALLS_BACK: &[ModelErrorKind] = &[
    ModelErrorKind::MissingKey,
    ModelErrorKind::Authentication,
    ModelErrorKind::Quota,
    ModelErrorKind::UnknownModel,
    ModelErrorKind::RateLimited,
    ModelErrorKind::Unavailable,
    ModelErrorKind::Network,
    ModelErrorKind::Timeout,
    ModelErrorKind::Malformed,
];

/// A model that a stage can ask.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StageModel {
    pub(crate) provider: String,
    pub(crate) model: String,
    /// `true` if it is the first choice, whose settings the configuration may take from its provider.
    pub(crate) is_first: bool,
}

/// An answer, or the failure of a model after which the next one is asked.
pub(crate) enum Called {
    Answered(ModelReply, Reservation),
    /// The reservation is held until the failure is persisted.
    Failed(FailedModel, Option<Reservation>),
}

/// The calls of the models of one attempt of a stage.
pub(crate) struct ModelCalls<'a> {
    pub(crate) agents: &'a Agents,
    pub(crate) stage: &'a StageContext,
    pub(crate) resolved: &'a ResolvedStage,
    /// The thread of the stage; may be empty.
    pub(crate) thread: &'a str,
}

impl ModelCalls<'_> {
    /// Returns the models that have not failed in this conversation, in the order in which they are asked.
    pub(crate) fn models(&self, failed: &[FailedModel]) -> Vec<StageModel> {
        let text = |chosen: &Option<Chosen<String>>| {
            let chosen = chosen.as_ref().map(|chosen| chosen.value.clone());
            chosen.unwrap_or_default()
        };
        let model = text(&self.resolved.model);
        let provider = match text(&self.resolved.provider) {
            none if none.is_empty() => self.agents.provider_of(&model),
            provider => provider,
        };
        let first = StageModel {
            provider,
            model,
            is_first: true,
        };
        let fallbacks = self.resolved.fallbacks.iter().map(|fallback| StageModel {
            provider: fallback.provider.clone(),
            model: fallback.model.clone(),
            is_first: false,
        });
        let has_failed = |model: &StageModel| {
            let mut failed = failed.iter();
            failed.any(|failed| failed.provider == model.provider && failed.model == model.model)
        };
        std::iter::once(first)
            .chain(fallbacks)
            .filter(|model| !has_failed(model))
            .collect()
    }

    /// Sets the provider and the model of a request, and what depends on them.
    pub(crate) fn address(&self, request: &mut ModelRequest, model: &StageModel) {
        request.provider.clone_from(&model.provider);
        request.model.clone_from(&model.model);
        let most = self.resolved.max_tokens.as_ref();
        let most = most.filter(|most| model.is_first || most.reason != Reason::Provider);
        request.max_output_tokens = most.map(|most| u32::try_from(most.value).unwrap_or(u32::MAX));
        if !self.stage.budget().is_empty() {
            // A call without a limit on its output cannot be reserved.
            request.max_output_tokens.get_or_insert(DEFAULT_MAX_OUTPUT_TOKENS);
        }
    }

    /// Calls a model. If it does not answer, `next` is the model that can be asked instead.
    pub(crate) async fn call_or_fail(
        &self,
        request: &ModelRequest,
        next: Option<&StageModel>,
    ) -> Result<Called, BackendError> {
        let failed = |code: &str, reason: String| FailedModel {
            provider: request.provider.clone(),
            model: request.model.clone(),
            code: code.to_owned(),
            reason,
        };
        let called = self.call_model(request).await;
        if self.stage.cancellation().is_cancelled() {
            return called.map(|(reply, reserved)| Called::Answered(reply, reserved));
        }
        match called {
            Ok((reply, reserved)) if reply.stop == StopReason::Refused && next.is_some() => {
                let reason = format!(
                    "provider `{}`, model `{}`: the model declined to answer",
                    request.provider, request.model
                );
                Ok(Called::Failed(failed(REFUSED, reason), Some(reserved)))
            }
            Ok((reply, reserved)) => Ok(Called::Answered(reply, reserved)),
            Err(error) => match &error.code {
                Some(code) if next.is_some() && falls_back(code) => {
                    Ok(Called::Failed(failed(code, error.to_string()), None))
                }
                _ => Err(error),
            },
        }
    }

    /// Emits a warning that another model is asked.
    pub(crate) fn warn_of_fallback(&self, failed: &FailedModel, next: &StageModel) {
        self.stage.warn(
            FALLBACK,
            format!(
                "{}; the model `{}` of `{}` is asked instead",
                failed.reason, next.model, next.provider
            ),
        );
    }

    /// Calls the model, and retries after retryable errors (rule F9). The time limit of the stage and its budget apply
    /// to all attempts together.
    async fn call_model(&self, request: &ModelRequest) -> Result<(ModelReply, Reservation), BackendError> {
        let mut delay = FIRST_DELAY;
        let mut tries = 1;
        loop {
            match self.ask_model(request).await {
                Err(error) if tries < MAX_TRIES && error.category == FailureCategory::Retryable => {
                    let wait = error.retry_after.unwrap_or(delay).min(MAX_DELAY);
                    self.stage.log(format!(
                        "{error}; asking again in {} s ({tries} of {MAX_TRIES} tries failed)",
                        wait.as_secs_f64()
                    ));
                    self.stage.sleep(wait).await;
                    delay *= 2;
                    tries += 1;
                }
                answered => return answered,
            }
        }
    }

    /// Makes one model call. Returns the answer, and the reservation that the caller holds until the answer is
    /// persisted.
    async fn ask_model(&self, request: &ModelRequest) -> Result<(ModelReply, Reservation), BackendError> {
        let stage = self.stage;
        let reserved = stage.reserve(self.max_usage(request)?).await?;
        let mut text = stage.text();
        let mut push = |piece: &str| text.push(piece);
        let on_text: Option<crate::OnText<'_>> = if self.agents.streams() {
            Some(&mut push)
        } else {
            None
        };
        let began = stage.elapsed();
        let answered = self.agents.model().call(request, on_text).await;
        let mut call = ModelCall::new(
            &request.provider,
            &request.model,
            stage.elapsed().saturating_sub(began),
        );
        call.agent = self.resolved.agent.as_ref().map(|agent| agent.value.clone());
        call.conversation = (!self.thread.is_empty()).then(|| self.thread.to_owned());
        match answered {
            Ok(reply) => {
                // If the provider does not report its usage, use our own count.
                let used = reply.usage.unwrap_or_else(|| estimated_usage(request, &reply));
                call.response_model.clone_from(&reply.model);
                call.stop = Some(reply.stop.word().to_owned());
                call.usage = self.usage(request, used);
                call.cached_input_tokens = used.cached_input;
                if stage.wants_model_contents() {
                    call.contents = Some(Box::new(contents(request, &reply)));
                }
                reserved.record(call.usage);
                stage.record_model_call(call);
                Ok((reply, reserved))
            }
            Err(error) => {
                if let Some(used) = error.usage {
                    call.usage = self.usage(request, used);
                    call.cached_input_tokens = used.cached_input;
                    reserved.settle(call.usage);
                }
                call.error = Some(error_line(&error.message));
                call.error_code = Some(error.kind.code().to_owned());
                stage.record_model_call(call);
                Err(error.into())
            }
        }
    }

    /// Returns the maximum usage of a call, which is reserved from the budget.
    fn max_usage(&self, request: &ModelRequest) -> Result<Usage, BackendError> {
        let budget = self.stage.budget();
        if budget.is_empty() {
            return Ok(Usage::default());
        }
        let input_tokens = input_token_bound(request);
        let output_tokens = u64::from(request.max_output_tokens.unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS));
        let cost = self
            .agents
            .prices()
            .worst_case(&request.model, input_tokens, output_tokens);
        let Some(cost_micros) = cost.or_else(|| budget.max_cost_micros.is_none().then_some(0)) else {
            return Err(BackendError::terminal(format!(
                "the run may cost only so much, and no price of the model `{model}` is known: give it under \
                 `prices` of the provider `{}` in the configuration",
                request.provider,
                model = request.model
            ))
            .code("model_price_unknown"));
        };
        Ok(Usage {
            input_tokens,
            output_tokens,
            cost_micros,
        })
    }

    fn usage(&self, request: &ModelRequest, used: TokenUsage) -> Usage {
        Usage {
            input_tokens: used.input,
            output_tokens: used.output,
            cost_micros: self
                .agents
                .prices()
                .cost_micros(&request.model, used)
                .unwrap_or_default(),
        }
    }
}

/// Returns whether an error is one of the called model, and not of the run that is suspended or cancelled.
pub(crate) fn is_of_model(error: &BackendError) -> bool {
    error
        .code
        .as_deref()
        .is_some_and(|code| code.starts_with("model_"))
}

/// Returns whether another model is asked after an error with this code.
fn falls_back(code: &str) -> bool {
    FALLS_BACK.iter().any(|kind| kind.code() == code)
}

/// Returns the error of a stage none of whose models answered: it names the failures of all of them.
pub(crate) fn all_failed(failed: &[FailedModel], last: BackendError) -> BackendError {
    let is_last_retryable = last.category == FailureCategory::Retryable;
    let retryable = FALLS_BACK
        .iter()
        .filter(|kind| kind.category() == FailureCategory::Retryable);
    let is_retryable = |failed: &FailedModel| retryable.clone().any(|kind| kind.code() == failed.code);
    let failures = failed.iter().map(|failed| failed.reason.clone());
    let failures: Vec<String> = failures.chain([last.to_string()]).collect();
    let message = format!("no model answered: {}", failures.join("; "));
    // The others may answer later even if the last one never will.
    let error = if is_last_retryable || failed.iter().any(is_retryable) {
        BackendError::retryable(message)
    } else {
        BackendError::terminal(message)
    };
    error.code(NO_MODEL).caused_by(last)
}

/// Returns the messages of a call in the form of the semantic conventions for generative AI.
fn contents(request: &ModelRequest, reply: &ModelReply) -> ModelContents {
    let text = |text: &str| json!({"type": "text", "content": text});
    let call = |call: &ToolCall| {
        let arguments = match &call.arguments {
            Arguments::Object(fields) => Value::Object(fields.clone()),
            Arguments::Malformed { text, .. } => text.as_str().into(),
        };
        json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
    };
    let message = |message: &Message| match message {
        Message::User { text: own } => json!({"role": "user", "parts": [text(own)]}),
        Message::Assistant {
            text: own,
            tool_calls,
            ..
        } => {
            let own = (!own.is_empty()).then(|| text(own));
            let parts: Vec<Value> = own.into_iter().chain(tool_calls.iter().map(call)).collect();
            json!({"role": "assistant", "parts": parts})
        }
        Message::Tools { results } => {
            let parts = results.iter().map(
                |result| json!({"type": "tool_call_response", "id": result.id, "response": result.content}),
            );
            json!({"role": "tool", "parts": parts.collect::<Vec<_>>()})
        }
    };
    let system =
        (!request.system.is_empty()).then(|| json!({"role": "system", "parts": [text(&request.system)]}));
    let input: Vec<Value> = system
        .into_iter()
        .chain(request.messages.iter().map(message))
        .collect();
    let output = vec![message(&reply.message())];
    ModelContents::new(Value::from(input).to_string(), Value::from(output).to_string())
}

/// Returns the tokens of a call by our own count.
fn estimated_usage(request: &ModelRequest, reply: &ModelReply) -> TokenUsage {
    let tools = serde_json::to_string(&request.tools).unwrap_or_default();
    let input = request.messages.iter().map(tokens_of).sum::<u64>();
    TokenUsage {
        input: input + count_tokens(&request.system) + count_tokens(&tools),
        output: tokens_of(&reply.message()),
        ..TokenUsage::default()
    }
}
