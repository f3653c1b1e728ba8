//! The starter of child runs.

use std::sync::{Arc, OnceLock};

use orchestra_core::SharedPipeline;
use orchestra_graph::{Pipeline, Stage};

use crate::builtin::child::{ChildBegin, ChildPipeline, ChildStart, ChildStarter, Starting};
use crate::handlers::registry::Registry;
use crate::recovery::resume::ResumeBuilder;
use crate::run::workspace::WorkspaceSession;
use crate::setup::children::child_of;
use crate::setup::resolve::BoundPipeline;
use crate::setup::settings::EngineSettings;
use crate::start::StartBuilder;

/// Starts child runs with the settings of an engine and the handlers of a pipeline.
struct EngineChildren {
    settings: Arc<EngineSettings>,
    registry: Arc<Registry>,
    /// The workspace session of the parent run. The handlers of a run are found before its workspace is opened.
    session: OnceLock<Arc<dyn WorkspaceSession>>,
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
            session: OnceLock::new(),
        }),
        registry,
    }
}

impl ChildStarter for EngineChildren {
    fn child_of(self: Arc<Self>, pipeline: &Pipeline, stage: Stage<'_>) -> Option<ChildPipeline> {
        let (pipeline, registry) = child_of(&self.settings, pipeline, &self.registry, stage)?;
        Some(ChildPipeline {
            pipeline,
            starter: Arc::new(EngineChildren {
                settings: self.settings.clone(),
                registry,
                session: self.session.clone(),
            }),
        })
    }

    fn share(&self, session: Arc<dyn WorkspaceSession>) {
        // The session of a run is opened once.
        let _ = self.session.set(session);
    }

    fn start(&self, child: ChildStart) -> Starting {
        let ChildStart {
            pipeline,
            origin,
            begin,
        } = child;
        let session = self.session.get().cloned();
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
