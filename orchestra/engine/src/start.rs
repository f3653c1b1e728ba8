//! The start of a run.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{Budget, Context, Machine};
use serde_json::Value;
use tracing::Instrument;

use crate::blocking::on_files;
use crate::control::attend;
use crate::driver::limits::Limits;
use crate::driver::state::Driver;
use crate::error::StartError;
use crate::handle::RunHandle;
use crate::id::{RunId, random_seed};
use crate::journal::writer::JournalWriter;
use crate::process;
use crate::run::settings::RunSettings;
use crate::run::state::{Origin, Parent, Run};
use crate::run::workspace::{WorkspaceRun, WorkspaceSession};
use crate::setup::initial_context::initial_context;
use crate::setup::pinned_source::pin;
use crate::setup::resolve::{BoundPipeline, resolve};
use crate::setup::settings::EngineSettings;
use crate::store::{FolderStore, Manifest, PROTOCOL, RunStore, SCHEMA, StoreError};

/// The number of generated ids that are tried if the folder exists.
const NAME_TRIES: u32 = 8;

/// A builder of a run. Await it to start the run.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder().build()?;
/// let run = engine.start(pipeline, ()).param("pr", "42").seed(7).run_id("first").await?;
/// assert_eq!(run.wait().await?.context.text("pr"), "42");
/// # Ok(()) }
/// ```
#[must_use = "a run starts when this is awaited"]
pub struct StartBuilder {
    settings: Arc<EngineSettings>,
    bound: BoundPipeline,
    origin: Origin,
    /// The workspace session of the parent run.
    session: Option<Arc<dyn WorkspaceSession>>,
    context: Context,
    seed: Option<u64>,
    run_id: Option<String>,
    run_dir: Option<PathBuf>,
    limits: Limits,
}

impl StartBuilder {
    pub(crate) fn new(settings: Arc<EngineSettings>, bound: BoundPipeline) -> StartBuilder {
        let origin = Origin {
            working_dir: settings.working_dir.clone(),
            ..Origin::default()
        };
        StartBuilder {
            settings,
            bound,
            origin,
            session: None,
            context: Context::new(),
            seed: None,
            run_id: None,
            run_dir: None,
            limits: Limits::default(),
        }
    }

    /// Makes this a child run, which works on the files of the stage that started it. It is persisted in the folder
    /// that is set, or not at all.
    pub(crate) fn child(
        mut self,
        origin: Origin,
        session: Option<Arc<dyn WorkspaceSession>>,
        context: Context,
        id: &RunId,
    ) -> StartBuilder {
        self.seed = Some(origin.seed);
        self.origin = origin;
        self.session = session;
        self.context = context;
        self.run_id = Some(id.to_string());
        self
    }

    /// Sets a value in the initial context. A key that only the engine writes is [refused](StartError::ReservedKeys).
    pub fn param(mut self, key: impl Into<String>, value: impl Into<Value>) -> StartBuilder {
        self.context.set(key.into(), value);
        self
    }

    /// Sets the seed of all randomness in the run. By default, the seed is random.
    pub fn seed(mut self, seed: u64) -> StartBuilder {
        self.seed = Some(seed);
        self
    }

    /// Sets the id of the run. By default, an id is generated from the time.
    pub fn run_id(mut self, id: impl Into<String>) -> StartBuilder {
        self.run_id = Some(id.into());
        self
    }

    /// Persists the run in exactly this folder, which must be new or empty.
    pub fn run_dir(mut self, folder: impl Into<PathBuf>) -> StartBuilder {
        self.run_dir = Some(folder.into());
        self
    }

    /// Pauses the run when it takes longer. It can be [resumed](crate::Engine::resume) with more time.
    pub fn max_time(mut self, limit: Duration) -> StartBuilder {
        self.limits.time = Some(limit);
        self
    }

    /// Pauses the run when it has used up the budget. It can be [resumed](crate::Engine::resume) with a larger budget.
    pub fn budget(mut self, budget: Budget) -> StartBuilder {
        self.limits.budget = budget;
        self
    }

    async fn start(mut self) -> Result<RunHandle, StartError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let StartBuilder {
            settings: engine,
            bound,
            mut origin,
            ..
        } = self;
        self.context = initial_context(&engine, &bound.pipeline, self.context, origin.depth > 0)?;
        let handlers = resolve(&engine, &bound, origin.depth > 0)?;
        // Only the handlers that start child runs hold the registry, because many runs may be waiting.
        let BoundPipeline {
            pipeline, children, ..
        } = bound;
        let settings = engine.run.clone();
        let now = settings.clock.now();
        let (mut id, named) = match self.run_id {
            Some(id) => (RunId::new(id)?, true),
            None => (RunId::generate(now), false),
        };
        let mut tries = if named || self.run_dir.is_some() {
            1
        } else {
            NAME_TRIES
        };
        let seed = self.seed.unwrap_or_else(random_seed);
        origin.seed = seed;
        let manifest = |id: &RunId, workspace: Option<Value>| {
            let (pinned, children) = pin(&pipeline);
            Manifest {
                schema: SCHEMA.to_owned(),
                protocol: PROTOCOL,
                run: id.to_string(),
                name: pipeline.name.to_string(),
                goal: pipeline.goal().to_owned(),
                file: pipeline.file.to_string(),
                started: now,
                seed,
                simulated: settings.script.is_some(),
                // A script only consists of text, numbers and lists, so it can always be serialized.
                script: settings
                    .script
                    .as_deref()
                    .and_then(|script| serde_json::to_value(script).ok()),
                engine: env!("CARGO_PKG_VERSION").to_owned(),
                durability: settings.durability,
                pipeline: pinned,
                children,
                params: self.context.clone(),
                max_time: self.limits.time,
                budget: self.limits.budget,
                workspace,
                replayed_from: None,
                exported_from: None,
            }
        };
        let (store, session) = loop {
            let (kept, session) = if origin.parent.is_some() {
                // The stages of a child run work on the files of the stage that started it.
                (None, self.session.clone())
            } else {
                let opened = engine.open_files(WorkspaceRun::new(&id, &pipeline, None)).await?;
                opened.map_or((None, None), |opened| (Some(opened.kept), Some(opened.session)))
            };
            let Some(folder) = folder_of(&settings, self.run_dir.as_deref(), &id, origin.depth) else {
                break (None, session);
            };
            tries -= 1;
            match create(&engine, folder, origin.parent.as_ref(), manifest(&id, kept)).await {
                Err(StoreError::Occupied { .. }) if tries > 0 => id = RunId::generate(now),
                opened => break (Some(opened?), session),
            }
        };
        let machine = Machine::prepare(pipeline.clone(), self.context, seed);
        let span = tracing::info_span!("run", run = %id, pipeline = &*pipeline.name);
        let run = Arc::new(Run::new(pipeline, id, settings, store.clone(), origin, 0));
        let mut driver = Driver::new(run.clone(), machine, self.limits);
        if let Some(session) = session {
            children.share(session.clone());
            driver.work_on(session);
        }
        driver.journal = store.map(|store| Box::new(JournalWriter::new(store, 1)));
        process::begin();
        let task = runtime.spawn(driver.drive(handlers).instrument(span));
        attend(&run);
        Ok(RunHandle::new(run, task))
    }
}

impl IntoFuture for StartBuilder {
    type Output = Result<RunHandle, StartError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

impl fmt::Debug for StartBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartBuilder")
            .field("pipeline", &self.bound.pipeline.name)
            .finish_non_exhaustive()
    }
}

fn folder_of(settings: &RunSettings, run_dir: Option<&Path>, id: &RunId, depth: u32) -> Option<PathBuf> {
    match run_dir {
        Some(folder) => Some(folder.to_owned()),
        // A child run is stored in the folder of its parent run.
        None if depth > 0 => None,
        None => settings.runs_dir.as_ref().map(|runs| runs.join(&**id)),
    }
}

/// Creates the folder of a run outside of the threads that run stages.
async fn create(
    settings: &EngineSettings,
    folder: PathBuf,
    parent: Option<&Parent>,
    manifest: Manifest,
) -> Result<Arc<dyn RunStore>, StoreError> {
    let path = folder.clone();
    let files = settings.run.files.clone();
    let options = settings.store_options(&folder, parent);
    let made = on_files(files.clone(), move || {
        let store = FolderStore::create(files, &folder, options)?;
        store.manifest(&manifest)?;
        let store: Arc<dyn RunStore> = Arc::new(store);
        Ok(store)
    });
    made.await
        .unwrap_or_else(|error| Err(StoreError::io("make", &path, std::io::Error::other(error))))
}
