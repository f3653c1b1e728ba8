//! The starter of child runs.

use std::sync::Arc;

use orchestra_core::SharedPipeline;
use orchestra_graph::{Pipeline, Stage};

use crate::builtin::child::{ChildBegin, ChildPipeline, ChildStart, ChildStarter, Starting};
use crate::handlers::registry::Registry;
use crate::recovery::resume::ResumeBuilder;
use crate::setup::children::child_of;
use crate::setup::resolve::BoundPipeline;
use crate::setup::settings::EngineSettings;
use crate::start::StartBuilder;

/// Starts child runs with the settings of an engine and the handlers of a pipeline.
struct EngineChildren {
    settings: Arc<EngineSettings>,
    registry: Arc<Registry>,
}

/// Binds a pipeline to its handlers. Its stages can start child runs with the same handlers.
pub(crate) fn bind(
    settings: &Arc<EngineSettings>,
    pipeline: SharedPipeline,
    registry: Arc<Registry>,
) -> BoundPipeline {
    BoundPipeline {
        pipeline,
        children: Arc::new(EngineChildren {
            settings: settings.clone(),
            registry: registry.clone(),
        }),
        registry,
    }
}

impl ChildStarter for EngineChildren {
    fn child_of(self: Arc<Self>, pipeline: &Pipeline, stage: Stage<'_>) -> Option<ChildPipeline> {
        let (pipeline, registry) = child_of(&self.settings, pipeline, &self.registry, stage)?;
        let settings = self.settings.clone();
        Some(ChildPipeline {
            pipeline,
            starter: Arc::new(EngineChildren { settings, registry }),
        })
    }

    fn start(&self, child: ChildStart) -> Starting {
        let ChildStart {
            pipeline,
            origin,
            session,
            begin,
        } = child;
        let bound = bind(&self.settings, pipeline, self.registry.clone());
        let settings = self.settings.clone();
        match begin {
            ChildBegin::New { id, context, folder } => {
                let mut start = StartBuilder::new(settings, bound).child(origin, session, context, &id);
                if let Some(folder) = folder {
                    start = start.run_dir(folder);
                }
                start.into_future()
            }
            ChildBegin::Resumed(folder) => {
                let resume = ResumeBuilder::new(settings, folder, bound).child(origin, session);
                resume.into_future()
            }
        }
    }
}
