//! The move of a run to the version of its pipeline that workers have now (rule D6).

use orchestra_core::Mapping;
use orchestra_engine::{Changed, StartError};
use restate_sdk::prelude::*;

use crate::blobs::name_of;
use crate::hosts::{NoVersion, Place};
use crate::message::{Message, Refused, Reply, Sent};
use crate::packing::{LARGE_VALUE, Packed};
use crate::refusal::{Refusal, refused};
use crate::run_object::stored::{Earlier, Obstacle, Opened, Record};
use crate::run_object::{RunObject, check_manager_loops};
use crate::state::Phase;
use crate::turn::OpenRun;

impl RunObject {
    /// Carries a run over to the present version of its pipeline. Returns the run there, and the mapping from the old
    /// pipeline; `None` if the run follows this version already. Nothing is stored yet but the sources.
    pub(super) async fn accept_changes(
        &self,
        ctx: &ObjectContext<'_>,
        record: &mut Record,
    ) -> HandlerResult<Option<(Opened, Mapping)>> {
        let (hosts, blobs, facts) = (&self.0.hosts, &self.0.blobs, &record.facts);
        if let Some(parent) = &facts.parent {
            return Err(refused(Refusal::IsChild(parent.run.clone())));
        }
        let parked = |error: NoVersion| Obstacle::from(error).into_error();
        let version = hosts.current(&facts.pipeline).map_err(parked)?;
        if version.name == facts.sources {
            return Ok(None);
        }
        let state = self.state(ctx, record).await.map_err(Obstacle::into_error)?;
        let refused_phase = |reason: &str| refused(Refusal::Message(Refused::Phase(reason.to_owned())));
        match &state.phase {
            Phase::Ended(_) => return Err(refused_phase("has ended")),
            Phase::Running if !record.is_parked => {
                match self.version(facts).await {
                    Ok(_) => {
                        let reason = "is being executed; pause it before it is moved to a changed pipeline";
                        return Err(refused_phase(reason));
                    }
                    // No turn of it can be taken, and no message has arrived since.
                    Err(NoVersion::Invalid { .. }) => {}
                    Err(error) => return Err(parked(error)),
                }
            }
            _ => {}
        }
        let old = match hosts.unchecked(&facts.place(), blobs).await {
            Ok(old) => old,
            Err(NoVersion::Invalid { .. }) => {
                return Err(refused(Refusal::Change(StartError::Changed(Box::new(Changed {
                    run: ctx.key().to_owned(),
                    difference: None,
                })))));
            }
            Err(error) => return Err(parked(error)),
        };
        match &version.host {
            Ok(host) => check_manager_loops(host)?,
            Err(reason) => return Err(refused(Refusal::Parked(reason.clone()))),
        }
        let new = &version.pipeline;
        let run = OpenRun::id(&state).map_err(|reason| refused(Refusal::Parked(reason)))?;
        if let Some((child, stage)) = state.child_in_progress(&run, &old) {
            return Err(refused(Refusal::ChildInProgress { child, stage }));
        }
        let mapping = Mapping::between(&old, new);
        let state = state.carry_over(&old, new, &mapping, version.hash());
        let state = state.map_err(|error| refused(Refusal::Change(error)))?;
        let run = OpenRun::open(new, state).map_err(|reason| refused(Refusal::Parked(reason)))?;
        blobs.put_sources(&version.name, &version.sources).await?;
        let opened = Opened {
            run,
            blob: record.state.root_blob(),
            version: version.clone(),
        };
        let facts = &mut record.facts;
        let secret = name_of(format!("{}/{}", facts.secret, facts.earlier.len()).as_bytes());
        facts.earlier.push(Earlier {
            sources: std::mem::replace(&mut facts.sources, version.name.clone()),
            secret: std::mem::replace(&mut facts.secret, secret),
        });
        facts.hash = version.hash();
        Ok(Some((opened, mapping)))
    }

    /// Receives messages that were sent before the run was moved to a changed pipeline.
    pub(super) async fn receive_earlier(
        &self,
        ctx: &ObjectContext<'_>,
        mut record: Record,
        secret: &str,
        sent: Vec<Packed>,
    ) -> HandlerResult<Vec<Reply>> {
        let facts = &record.facts;
        let Some(earlier) = facts.earlier.iter().find(|earlier| earlier.secret == secret) else {
            return Err(refused(Refusal::ForeignSecret));
        };
        let place = Place {
            sources: earlier.sources.clone(),
            ..facts.place()
        };
        let blobs = &self.0.blobs;
        let mapping = match self.mapping(&place, &facts.place()).await.map_err(Obstacle::from) {
            Ok(mapping) => Ok(mapping),
            Err(Obstacle::Parked(reason)) => Err(reason),
            Err(Obstacle::Temporary(error)) => return Err(error),
        };
        let mut carried = Vec::new();
        let mut replies = Vec::new();
        for sent in sent {
            let sent: Sent = match sent.unpack(blobs, ctx.key()).await {
                Ok(sent) => sent,
                Err(error) => return Err(Obstacle::from(error).into_error()),
            };
            let sent = match (&mapping, &sent.message) {
                (Ok(mapping), _) => sent.carried_over(mapping).ok_or(Refused::NotAwaited),
                // Its sender tries again.
                (Err(reason), Message::Attempt { .. }) => Err(Refused::Parked(reason.clone())),
                (Err(_), _) => Ok(sent),
            };
            replies.push(match sent {
                Ok(sent) => {
                    carried.push(Packed::pack(blobs, ctx.key(), &sent, LARGE_VALUE).await?);
                    None
                }
                Err(refused) => Some(Reply::Refused(refused)),
            });
        }
        let mut taken = self.take(ctx, &mut record, carried).await?.into_iter();
        let reply = |refused: Option<Reply>| refused.or_else(|| taken.next()).unwrap_or_default();
        Ok(replies.into_iter().map(reply).collect())
    }

    /// Returns the mapping between two versions of the pipeline.
    async fn mapping(&self, old: &Place, new: &Place) -> Result<Mapping, NoVersion> {
        let (hosts, blobs) = (&self.0.hosts, &self.0.blobs);
        let old = hosts.unchecked(old, blobs).await?;
        let new = hosts.unchecked(new, blobs).await?;
        Ok(Mapping::between(&old, &new))
    }
}
