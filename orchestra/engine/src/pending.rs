//! What a run waits for: stages, timers, questions; any number of them in one task.

use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream::FuturesUnordered;
use orchestra_core::{Answer, EffectId, Question};
use tokio_util::sync::CancellationToken;

use crate::attempt::{Attempt, Ended};
use crate::interview::{InterviewError, SharedInterviewer, ask_until_accepted};
use crate::run::Run;

type Task<'h> = Pin<Box<dyn Future<Output = Done<'h>> + Send + 'h>>;

/// Something that is over.
pub(crate) enum Done<'h> {
    /// A stage.
    Stage(Box<Attempt<'h>>, Ended),
    /// A timer.
    Timer(EffectId),
    /// A question.
    Question(EffectId, Result<Answer, InterviewError>),
    /// A timer or a question that was not wanted any more.
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

/// What is under way for an effect.
struct Live {
    cancelled: CancellationToken,
    tasks: u32,
}

/// What a run waits for.
#[derive(Default)]
pub(crate) struct Pending<'h> {
    tasks: FuturesUnordered<Task<'h>>,
    live: HashMap<EffectId, Live>,
    /// How many cancelled tasks have yet to end.
    ending: u32,
}

impl<'h> Pending<'h> {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether something that was cancelled is not over yet.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending > 0
    }

    fn token(&mut self, id: &EffectId) -> CancellationToken {
        match self.live.get_mut(id) {
            Some(live) => {
                live.tasks += 1;
                live.cancelled.clone()
            }
            None => {
                let cancelled = CancellationToken::new();
                let live = Live {
                    cancelled: cancelled.clone(),
                    tasks: 1,
                };
                self.live.insert(id.clone(), live);
                cancelled
            }
        }
    }

    /// Waits for an attempt that could not end at once.
    pub(crate) fn stage(&mut self, run: &'h Run, mut attempt: Attempt<'h>) {
        let cancelled = self.token(&attempt.id);
        self.tasks.push(Box::pin(async move {
            let ended = attempt.wait(run, &cancelled).await;
            Done::Stage(Box::new(attempt), ended)
        }));
    }

    /// Waits for some time.
    pub(crate) fn timer(&mut self, run: &Run, id: EffectId, delay: Duration) {
        let sleep = run.settings.clock.sleep(delay);
        self.wanted(id, |id| {
            Box::pin(async move {
                sleep.await;
                Done::Timer(id)
            })
        });
    }

    /// Asks a person.
    pub(crate) fn question(&mut self, interviewer: &'h SharedInterviewer, id: EffectId, question: Question) {
        self.wanted(id, |id| {
            Box::pin(async move {
                let answer = ask_until_accepted(interviewer, &question).await;
                Done::Question(id, answer)
            })
        });
    }

    /// Waits for something unless it is cancelled.
    fn wanted(&mut self, id: EffectId, task: impl FnOnce(EffectId) -> Task<'h>) {
        let cancelled = self.token(&id);
        let task = task(id.clone());
        self.tasks.push(Box::pin(async move {
            tokio::select! {
                biased;
                () = cancelled.cancelled_owned() => Done::Dropped(id),
                done = task => done,
            }
        }));
    }

    /// Ends all that is under way for an effect.
    pub(crate) fn cancel(&mut self, id: &EffectId) {
        if let Some(live) = self.live.get(id)
            && !live.cancelled.is_cancelled()
        {
            self.ending += live.tasks;
            live.cancelled.cancel();
        }
    }

    /// What is over next; never ready where nothing is under way. The flag says whether it was cancelled before.
    pub(crate) fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<(Done<'h>, bool)> {
        let Poll::Ready(Some(done)) = Pin::new(&mut self.tasks).poll_next(cx) else {
            return Poll::Pending;
        };
        let mut cancelled = false;
        if let Some(live) = self.live.get_mut(done.id()) {
            cancelled = live.cancelled.is_cancelled();
            live.tasks -= 1;
            self.ending -= u32::from(cancelled);
            if live.tasks == 0 {
                self.live.remove(done.id());
            }
        }
        Poll::Ready((done, cancelled))
    }
}
