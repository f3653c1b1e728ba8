//! The pools of workers that execute attempts.

use std::collections::BTreeSet;

use orchestra_core::EffectId;
use orchestra_engine::{HostedEnd, HostedSuspension};
use restate_sdk::context::RequestTarget;
use restate_sdk::prelude::*;

use crate::message::{Finished, Message, Outgoing, Sent};
use crate::run_object::stored::Obstacle;
use crate::run_object::taking::Taking;
use crate::state::Phase;
use crate::wire::{CloseRequest, STAGE};

impl Taking<'_, '_> {
    /// Returns the pool that executes an attempt; `None` if any worker may.
    pub(super) fn pool(&self, effect: &EffectId) -> Option<&str> {
        self.opened.version.pipeline.stage(effect.node).pool()
    }

    /// Returns the service that executes an attempt.
    pub(super) fn service(&self, effect: &EffectId) -> String {
        match self.pool(effect) {
            Some(pool) => service_of(pool),
            None => STAGE.to_owned(),
        }
    }

    /// Returns the pool that has the files on which the run works, if it does.
    pub(super) fn files_pool(&self) -> Option<&str> {
        let host = self.opened.version.host.as_ref().ok()?;
        host.workspace_pool()
    }

    /// Lets the pool that has the files of the run tidy them up, once nothing of the run is executed any more.
    pub(super) fn close_files(&mut self) {
        let open = &self.opened.run;
        let has_ended = matches!(open.state.phase, Phase::Ended(_)) && open.state.stages.is_empty();
        let Some(pool) = self.files_pool().filter(|_| self.record.has_files && has_ended) else {
            return;
        };
        let run = open.machine().state();
        let facts = &self.record.facts;
        let request = CloseRequest {
            run: self.ctx.key().to_owned(),
            pipeline: facts.pipeline.clone(),
            sources: facts.sources.clone(),
            restarts: run.totals.restarts,
            snapshot: run.main.snapshot().cloned(),
        };
        let target = RequestTarget::service(service_of(pool), "close");
        self.ctx.request::<_, ()>(target, Json(request)).send();
        self.record.has_files = false;
    }

    /// Pauses the run instead of sending an attempt to a pool that the server does not know, where it would stop all later
    /// turns of the run. Returns whether there is one.
    pub(super) async fn suspend_unserved(&mut self) -> Result<bool, Obstacle> {
        let outgoing = self.turns.iter().flat_map(|turn| &turn.outgoing);
        let pools: BTreeSet<String> = outgoing
            .filter_map(|outgoing| match outgoing {
                Outgoing::Stage { effect, .. } => self.pool(effect).map(str::to_owned),
                _ => None,
            })
            .collect();
        let mut unserved = BTreeSet::new();
        for pool in pools {
            let (shared, service) = (self.shared.pools.clone(), service_of(&pool));
            // A turn that is taken again must decide alike, whatever was registered since.
            let known = self
                .ctx
                .run(move || async move { Ok(Json(shared.is_served(&service).await)) });
            let Json(is_served) = known.name("pool").await?;
            if !is_served {
                unserved.insert(pool);
            }
        }
        let pipeline = self.opened.version.pipeline.clone();
        let pool_of = |effect: &EffectId| pipeline.stage(effect.node).pool();
        let mut has_suspended = false;
        while let Some(Outgoing::Stage { effect, token, .. }) =
            self.take_stage(|effect| pool_of(effect).is_some_and(|pool| unserved.contains(pool)))
        {
            let reason = format!(
                "no worker of the server serves the pool `{}`, which node `{}` needs; start one, then resume the run",
                pool_of(&effect).unwrap_or_default(),
                pipeline.stage(effect.node).id()
            );
            let end = HostedEnd::Suspended(HostedSuspension::ChildStuck(reason));
            let sent = Sent {
                at: self.opened.run.state.now,
                message: Message::Attempt {
                    effect,
                    token,
                    report: Finished::new(end).into(),
                },
            };
            self.turns.push(self.opened.run.receive(sent));
            has_suspended = true;
        }
        Ok(has_suspended)
    }
}

fn service_of(pool: &str) -> String {
    format!("{STAGE}_{pool}")
}
