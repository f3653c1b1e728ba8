//! Questions of runs, and their answers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::{
    Answer, AnswerError, ControlClient, ControlError, EventKind, EventReader, Question, Reply, RunFolder,
    RunId,
};
use orchestra_sessions::{QuestionRow, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::{Query, SMALL, json};
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::openapi::described;
use crate::reports::{Gate, open_gates};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(gates))
        .routes(routes!(questions))
        .routes(routes!(answer))
}

described!(Request: AnswerBody);
described!(Reply: Gates, Questions, Answered);

/// Time in which an answer that was accepted reaches the events.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The questions of all runs.
#[derive(Serialize, JsonSchema)]
struct Gates {
    /// The questions that wait for an answer, the oldest first.
    gates: Vec<Gate>,
}

/// Returns the questions of all runs.
#[utoipa::path(
    get, path = "/api/v1/gates", operation_id = "list_gates", tag = "gates",
    responses((status = 200, description = "The questions.", body = Gates)),
)]
pub(super) async fn gates(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    app.index(|index| index.refresh().map(drop)).await?;
    let gates = open_gates(&app).await?;
    Ok(json_response(StatusCode::OK, &Gates { gates }))
}

/// The questions of a run.
#[derive(Serialize, JsonSchema)]
struct Questions {
    /// The questions that wait for an answer, the oldest first.
    questions: Vec<QuestionRow>,
}

/// Returns the questions of a run (Attractor 9.5).
#[utoipa::path(
    get, path = "/pipelines/{id}/questions", operation_id = "list_questions", tag = "attractor",
    responses(
        (status = 200, description = "The questions.", body = Questions),
        (status = 404, description = "`unknown_run`"),
    ),
)]
pub(super) async fn questions(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let questions = app.session(&id).await?.questions();
    Ok(json_response(StatusCode::OK, &Questions { questions }))
}

/// The body of an answer: one of its fields.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct AnswerBody {
    /// The key or the label of a choice.
    choice: Option<String>,
    /// The keys or labels of several choices.
    choices: Option<Vec<String>>,
    /// A text, for questions that accept any.
    text: Option<String>,
    /// Leaves the question unanswered.
    skip: bool,
}

impl AnswerBody {
    fn answer(self) -> Result<Answer, ApiError> {
        match (self.choice.or(self.text), self.choices, self.skip) {
            (Some(choice), None, false) => Ok(Answer::choice(choice)),
            (None, Some(choices), false) => Ok(Answer::choices(choices)),
            (None, None, true) => Ok(Answer::skipped()),
            _ => Err(ApiError::malformed(
                "an answer is one of `choice`, `choices`, `text` and `skip`",
            )),
        }
    }
}

/// The effect of an answer.
#[derive(Serialize, JsonSchema)]
struct Answered {
    /// The id of the run.
    run: RunId,
    /// The question, as the request named it.
    question: String,
    /// `true` if the question had this answer before.
    repeated: bool,
    /// `true` if somebody executes the run. Otherwise it goes on when it is resumed.
    executed: bool,
}

/// Answers a question (Attractor 9.5). The same answer again is accepted, so that a client may repeat a request that it is unsure about.
#[utoipa::path(
    post, path = "/pipelines/{id}/questions/{question}/answer", operation_id = "answer_question", tag = "attractor", request_body = AnswerBody,
    responses(
        (status = 200, description = "The question has this answer.", body = Answered),
        (status = 404, description = "`unknown_run`"),
        (status = 409, description = "`answered`: it has another answer. `no_question`: it was not asked. `resume_first`: a child run asks, and nobody executes the run."),
        (status = 422, description = "`not_offered`: the question has no such choice."),
        (status = 504, description = "`control_unanswered`: the process that executes the run does not answer."),
    ),
)]
pub(super) async fn answer(
    State(app): State<Arc<App>>,
    Path((id, question)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let answer = json::<AnswerBody>(&headers, body, SMALL).await?.answer()?;
    let (session, folder) = app.folder(&id).await?;
    app.released(&session).await;
    let asked = session
        .questions()
        .into_iter()
        .find(|asked| asked.id == question || asked.node == question);
    let given = give(&app, folder, &question, answer.clone()).await;
    let (repeated, executed) = match given {
        Ok(executed) => (false, executed),
        Err(NotGiven::Error(error)) => return Err(error),
        Err(NotGiven::NotOpen(message)) => {
            let earlier = earlier_answer(&app, &session, &question).await?;
            let executed = session.status.is_open();
            match earlier {
                Some(earlier) if earlier.is(&answer, asked.as_ref()) => (true, executed),
                Some(earlier) => {
                    let message = format!("the question was answered before: {}", earlier.text);
                    return Err(ApiError::conflict("answered", message));
                }
                None => return Err(ApiError::conflict("no_question", message)),
            }
        }
    };
    let answered = Answered {
        run: session.run,
        question,
        repeated,
        executed,
    };
    Ok(json_response(StatusCode::OK, &answered))
}

/// Why an answer had no effect.
enum NotGiven {
    /// The question is not open: it was answered, or never asked.
    NotOpen(String),
    Error(ApiError),
}

impl<E: Into<ApiError>> From<E> for NotGiven {
    fn from(error: E) -> NotGiven {
        NotGiven::Error(error.into())
    }
}

/// Gives an answer to whoever executes the run. Returns whether somebody does.
async fn give(app: &App, folder: RunFolder, question: &str, answer: Answer) -> Result<bool, NotGiven> {
    let not_open = |error: AnswerError| match error {
        AnswerError::NoQuestion { .. } => NotGiven::NotOpen(error.to_string()),
        error => error.into(),
    };
    if let Some(own) = app.own_run(&folder.manifest().run) {
        own.answer(question, answer).map_err(not_open)?;
        return Ok(true);
    }
    let owned = folder.owner().map_err(ApiError::from)?.is_some();
    let question = question.to_owned();
    if owned {
        let path = folder.path().to_owned();
        let sent = blocking(move || ControlClient::open(&path)?.answer(question, answer)).await?;
        sent.map_err(|error| match &error {
            ControlError::Refused(refusal) if refusal.code == "no_question" => {
                NotGiven::NotOpen(error.to_string())
            }
            _ => error.into(),
        })?;
        return Ok(true);
    }
    let paused = app.project(move |project| project.paused_run(&folder)).await?;
    match paused.answer(&question, answer).await {
        Ok(_) => Ok(false),
        Err(orchestra_engine::OfflineError::Answer(error)) => Err(not_open(error)),
        Err(orchestra_engine::OfflineError::Start(orchestra_engine::StartError::AlreadyFinished(error))) => {
            Err(NotGiven::NotOpen(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// The answer that a question received.
struct EarlierAnswer {
    text: String,
    /// The labels and keys of the choices that have this text.
    names: Vec<String>,
}

impl EarlierAnswer {
    fn new(text: String, asked: Option<&Question>) -> EarlierAnswer {
        let options = asked.iter().flat_map(|asked| asked.options.iter());
        let same = options.filter(|option| option.key == text || option.label == text);
        let names = same.flat_map(|option| [option.key.clone(), option.label.clone()]);
        EarlierAnswer {
            names: names.collect(),
            text,
        }
    }

    fn is(&self, answer: &Answer, asked: Option<&QuestionRow>) -> bool {
        let given = match &answer.reply {
            Reply::Chosen(choices) => choices.join(", "),
            _ => "skipped".to_owned(),
        };
        let same = |name: &String| name.eq_ignore_ascii_case(&given);
        let option = asked.and_then(|asked| {
            let mut options = asked.options.iter();
            options.find(|option| option.key == self.text || option.label == self.text)
        });
        same(&self.text)
            || self.names.iter().any(same)
            || option.is_some_and(|option| same(&option.key) || same(&option.label))
    }
}

/// Returns the answer that a question has received. An answer that was just accepted may not be in the events yet.
async fn earlier_answer(
    app: &App,
    session: &Session,
    question: &str,
) -> Result<Option<EarlierAnswer>, ApiError> {
    let mut changed = app.changes.subscribe();
    let waiting = async {
        loop {
            changed.mark_unchanged();
            let (folder, question) = (session.folder.clone(), question.to_owned());
            match blocking(move || search_answer(&folder, &question)).await? {
                Found::Answer(answer) => return Ok(Some(answer)),
                Found::Question if changed.changed().await.is_ok() => {}
                _ => return Ok(None),
            }
        }
    };
    tokio::time::timeout(ANSWER_TIMEOUT, waiting)
        .await
        .unwrap_or(Ok(None))
}

/// What the events tell about a question.
enum Found {
    Answer(EarlierAnswer),
    /// It was asked.
    Question,
    Nothing,
}

/// Searches the events of a run for the answer to a question, by the id of the question or the node.
fn search_answer(folder: &std::path::Path, question: &str) -> Found {
    let Ok(mut reader) = EventReader::open(folder) else {
        return Found::Nothing;
    };
    let mut asked: Option<Box<Question>> = None;
    let mut found = None;
    while let Ok(Some(line)) = reader.next_line() {
        if !matches!(
            line.name(),
            Some(
                "InterviewStarted"
                    | "InterviewCompleted"
                    | "InterviewTimeout"
                    | "ChildInterviewStarted"
                    | "ChildInterviewEnded"
            )
        ) {
            continue;
        }
        match line.event().map(|event| event.kind) {
            Some(
                EventKind::InterviewStarted {
                    node, question: open, ..
                }
                | EventKind::ChildInterviewStarted {
                    gate: node,
                    question: open,
                    ..
                },
            ) if open.id == question || node == *question => {
                // A later visit asks again.
                (asked, found) = (Some(open), None);
            }
            Some(EventKind::InterviewCompleted {
                node,
                question_id,
                answer,
                ..
            }) if question_id == question || node == *question => {
                found = Some(EarlierAnswer::new(answer, asked.as_deref()));
            }
            Some(EventKind::InterviewTimeout {
                node,
                question_id,
                default,
                ..
            }) if question_id == question || node == *question => {
                found = Some(EarlierAnswer {
                    text: default.unwrap_or_else(|| "timed out".to_owned()),
                    names: Vec::new(),
                });
            }
            Some(EventKind::ChildInterviewEnded {
                gate,
                question_id,
                answer,
                withdrawn: false,
                ..
            }) if question_id == question || gate == *question => {
                found = Some(EarlierAnswer::new(
                    answer.unwrap_or_else(|| "timed out".to_owned()),
                    asked.as_deref(),
                ));
            }
            _ => {}
        }
    }
    match (found, asked) {
        (Some(answer), _) => Found::Answer(answer),
        (None, Some(_)) => Found::Question,
        (None, None) => Found::Nothing,
    }
}
