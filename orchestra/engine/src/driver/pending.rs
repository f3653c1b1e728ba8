//! The tasks that a run waits for: stages, timers and questions, any number of them in one tokio task.

use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream::FuturesUnordered;
use orchestra_core::{Answer, EffectId, Question};
use orchestra_graph::kind;
use tokio_util::sync::CancellationToken;

use crate::driver::attempt::{Attempt, Ended};
use crate::gates::deadline::{Began, wait_until};
use crate::gates::interview::{InterviewError, SharedInterviewer, ask_until_accepted};
use crate::run::state::Run;

type Task<'h> = Pin<Box<dyn Future<Output = Done<'h>> + Send + 'h>>;

/// A task that is done.
pub(crate) enum Done<'h> {
    /// An attempt of a stage ended.
    Stage(Box<Attempt<'h>>, Ended),
    /// A timer fired.
    Timer(EffectId),
    /// A question was answered, or could not be answered.
    Question(EffectId, Result<Answer, InterviewError>),
    /// A timer or a question was cancelled.
    Dropped(EffectId),
}

impl Done<'_> {
    fn id(&self) -> &EffectId {
        match self {
            Done::Stage(attempt, _) => &attempt.id,
            Done::Timer(id) | Done::Question(id, _) | Done::Dropped(id) => id,
        }
    }
}

/// The tasks in progress for an effect.
struct Live {
    cancelled: CancellationToken,
    tasks: u32,
}

/// The tasks that a run waits for. Many runs wait, and most of them for one task at a time, so the first task is stored
/// inline.
#[derive(Default)]
pub(crate) struct Pending<'h> {
    first: Option<(EffectId, CancellationToken, Task<'h>)>,
    more: Option<Box<More<'h>>>,
    /// The number of cancelled tasks that have not ended yet.
    ending: u32,
}

/// Further tasks, each woken individually.
#[derive(Default)]
struct More<'h> {
    tasks: FuturesUnordered<Task<'h>>,
    live: HashMap<EffectId, Live>,
}

impl More<'_> {
    /// Returns the cancellation token of an effect and counts one more task for it.
    fn token(&mut self, id: &EffectId) -> CancellationToken {
        let live = self.live.entry(id.clone()).or_insert_with(|| Live {
            cancelled: CancellationToken::new(),
            tasks: 0,
        });
        live.tasks += 1;
        live.cancelled.clone()
    }
}

impl<'h> Pending<'h> {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.as_ref().is_none_or(|more| more.tasks.is_empty())
    }

    /// Returns whether a cancelled task has not ended yet.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending > 0
    }

    fn add(&mut self, id: EffectId, task: impl FnOnce(CancellationToken) -> Task<'h>) {
        if self.is_empty() {
            let cancelled = CancellationToken::new();
            let task = task(cancelled.clone());
            self.first = Some((id, cancelled, task));
        } else {
            let more = self.more.get_or_insert_default();
            let cancelled = more.token(&id);
            more.tasks.push(task(cancelled));
        }
    }

    /// Adds an attempt that did not end at once.
    pub(crate) fn stage(&mut self, run: &'h Run, mut attempt: Attempt<'h>) {
        self.add(attempt.id.clone(), |cancelled| {
            Box::pin(async move {
                let ended = attempt.wait(run, &cancelled).await;
                Done::Stage(Box::new(attempt), ended)
            })
        });
    }

    /// Adds a timer, part of whose delay may have passed. A deadline of a person continues while the machine is
    /// suspended, a delay of a stage does not (rules H3, Y6).
    pub(crate) fn timer(&mut self, run: &Run, id: EffectId, since: &Began, delay: Duration) {
        let clock = &run.settings.clock;
        let sleep = match run.pipeline.stage(id.node).kind() {
            kind::WAIT_HUMAN => wait_until(clock, since, delay),
            _ => clock.sleep(since.left(&**clock, delay)),
        };
        self.wanted(id, |id| {
            Box::pin(async move {
                sleep.await;
                Done::Timer(id)
            })
        });
    }

    /// Adds a question to a person.
    pub(crate) fn question(&mut self, interviewer: &'h SharedInterviewer, id: EffectId, question: Question) {
        self.wanted(id, |id| {
            Box::pin(async move {
                let answer = ask_until_accepted(interviewer, &question).await;
                Done::Question(id, answer)
            })
        });
    }

    /// Adds a task that is dropped when it is cancelled.
    fn wanted(&mut self, id: EffectId, task: impl FnOnce(EffectId) -> Task<'h>) {
        let task = task(id.clone());
        self.add(id.clone(), |cancelled| {
            Box::pin(async move {
                tokio::select! {
                    biased;
                    () = cancelled.cancelled_owned() => Done::Dropped(id),
                    done = task => done,
                }
            })
        });
    }

    /// Cancels all tasks of an effect.
    pub(crate) fn cancel(&mut self, id: &EffectId) {
        if let Some((first, cancelled, _)) = &self.first
            && first == id
            && !cancelled.is_cancelled()
        {
            self.ending += 1;
            cancelled.cancel();
        }
        if let Some(more) = &self.more
            && let Some(live) = more.live.get(id)
            && !live.cancelled.is_cancelled()
        {
            self.ending += live.tasks;
            live.cancelled.cancel();
        }
    }

    /// Returns the next task that is done, and whether it was cancelled before. Stays pending if there is no task.
    pub(crate) fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<(Done<'h>, bool)> {
        if let Some((_, cancelled, task)) = &mut self.first
            && let Poll::Ready(done) = task.as_mut().poll(cx)
        {
            let cancelled = cancelled.is_cancelled();
            self.first = None;
            self.ending -= u32::from(cancelled);
            return Poll::Ready((done, cancelled));
        }
        let Some(more) = &mut self.more else {
            return Poll::Pending;
        };
        let Poll::Ready(Some(done)) = Pin::new(&mut more.tasks).poll_next(cx) else {
            return Poll::Pending;
        };
        let mut cancelled = false;
        if let Some(live) = more.live.get_mut(done.id()) {
            cancelled = live.cancelled.is_cancelled();
            live.tasks -= 1;
            self.ending -= u32::from(cancelled);
            if live.tasks == 0 {
                more.live.remove(done.id());
            }
        }
        Poll::Ready((done, cancelled))
    }
}
