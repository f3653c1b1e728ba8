//! The questions of a run and of its child runs.

use std::sync::{Arc, Weak};

use orchestra_core::{Answer, Question};
use orchestra_graph::kind::WAIT_HUMAN;

use crate::clock::Timestamp;
use crate::event::{EventKind, NodeName};
use crate::gates::answer_error::AnswerError;
use crate::gates::question_token::{QuestionRef, QuestionToken, TokenError};
use crate::lock::lock;
use crate::run::state::Run;

impl Run {
    /// Registers a child run, so that its questions can be answered through this run.
    pub(crate) fn adopt(&self, child: &Arc<Run>) {
        let mut children = lock(&self.children);
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(child));
    }

    fn live_children(&self) -> Vec<Arc<Run>> {
        lock(&self.children).iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the open questions of this run and of its child runs.
    pub(crate) fn open_questions(&self) -> Vec<Question> {
        let mut open = self.questions.list();
        let children = self.live_children();
        open.extend(children.iter().flat_map(|child| child.open_questions()));
        open
    }

    /// Returns the open questions with the tokens by which other processes answer them.
    #[cfg_attr(
        not(unix),
        allow(dead_code, reason = "elsewhere no other process can reach a run")
    )]
    pub(crate) fn questions_with_tokens(&self) -> Result<Vec<(Question, QuestionToken)>, TokenError> {
        let mut open = self.questions.with_tokens()?;
        for child in self.live_children() {
            open.extend(child.questions_with_tokens()?);
        }
        Ok(open)
    }

    /// Reports the questions of a child run in the events of the outermost run.
    pub(crate) fn report_question(&self, time: Timestamp, kind: &EventKind) {
        let Some(mut parent) = self.origin.parent.as_ref() else {
            return;
        };
        while let Some(outer) = &parent.run.origin.parent {
            parent = outer;
        }
        let outermost = &parent.run;
        if !outermost.sink.wanted() {
            return;
        }
        let node = outermost.name(parent.stage.node);
        let branch = &parent.stage.branch;
        let branch = (!branch.is_empty()).then(|| branch.name(&outermost.pipeline));
        let child = self.id.clone();
        let ended =
            |gate: &NodeName, gate_branch: &Option<String>, question_id: &str, answer: Option<&String>| {
                EventKind::ChildInterviewEnded {
                    node: node.clone(),
                    branch: branch.clone(),
                    child: child.clone(),
                    gate: gate.clone(),
                    gate_branch: gate_branch.clone(),
                    question_id: question_id.to_owned(),
                    answer: answer.cloned(),
                    withdrawn: question_id.is_empty(),
                }
            };
        let report = match kind {
            EventKind::InterviewStarted {
                node: gate,
                branch: gate_branch,
                question,
            } => EventKind::ChildInterviewStarted {
                node: node.clone(),
                branch: branch.clone(),
                child: child.clone(),
                gate: gate.clone(),
                gate_branch: gate_branch.clone(),
                question: question.clone(),
            },
            EventKind::InterviewCompleted {
                node,
                branch,
                question_id,
                answer,
                ..
            } => ended(node, branch, question_id, Some(answer)),
            EventKind::InterviewTimeout {
                node,
                branch,
                question_id,
                default,
                ..
            } => ended(node, branch, question_id, default.as_ref()),
            EventKind::StageCancelled { stage, .. } if self.is_gate(&stage.node) => {
                ended(&stage.node, &stage.branch, "", None)
            }
            _ => return,
        };
        outermost.emit_at(time, report);
    }

    fn is_gate(&self, node: &NodeName) -> bool {
        let found = self.pipeline.find(node);
        found.is_some_and(|node| self.pipeline.stage(node).kind() == WAIT_HUMAN)
    }

    /// Answers a question of this run, or of a child run if this run has no question of that name.
    pub(crate) fn answer(&self, named: QuestionRef<'_>, answer: Answer) -> Result<(), AnswerError> {
        let mut answered = self.questions.answer(named, answer.clone());
        for child in self.live_children() {
            let Err(AnswerError::NoQuestion { open, .. }) = &mut answered else {
                break;
            };
            match child.answer(named, answer.clone()) {
                Err(AnswerError::NoQuestion { open: others, .. }) => open.extend(others),
                other => return other,
            }
        }
        answered
    }
}
