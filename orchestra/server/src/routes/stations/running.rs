//! Versions that are run: the same checks for each way to begin a run of one.
//!
//! A version that was written over HTTP is not trusted more than a pipeline that a client sends: it may have no powers
//! unless the server was started for it. A run keeps the text of its version, and is judged by this text when it is
//! resumed or replayed: only a text that a local program has written is trusted.

use std::sync::Arc;

use axum::http::HeaderMap;
use orchestra_engine::{Entry, RunFolder, Script, StartSettings};
use orchestra_graph::{LoadOptions, Loaded, SharedPipeline, Source, load};
use orchestra_stations::{StationError, StoredVersion, VersionName, VersionOrigin};

use super::store::{missing, with_store};
use crate::app::{App, blocking};
use crate::error::ApiError;
use crate::options::Submit;
use crate::project::{Definition, DefinitionKind, LoadedDefinition};
use crate::routes::once::{StartedRun, start_once};
use crate::routes::powers::{allow, require_no_powers};

/// What messages call a version that is not trusted.
const UNTRUSTED: &str = "workflow version written over HTTP";

/// Returns whether a text may have powers: a local program has written it, or the server was started for any text.
fn is_trusted(app: &App, is_local: bool) -> bool {
    is_local || app.submit == Submit::Any
}

fn is_local(stored: &StoredVersion) -> bool {
    stored.version.summary.origin == VersionOrigin::Local
}

/// Loads a version to show it. No file that it names is read.
pub(super) fn load_to_show(app: &App, stored: &StoredVersion) -> Loaded {
    load_alone(app, stored.source())
}

/// Loads a text without the files that it names.
fn load_alone(app: &App, source: Source) -> Loaded {
    let options = LoadOptions {
        transforms: app.project.transforms(),
        ..LoadOptions::default()
    };
    load(source, &options)
}

/// Refuses to activate an untrusted version with powers, because local programs run the active version.
pub(super) fn require_powers_to_activate(app: &App, stored: &StoredVersion) -> Result<(), ApiError> {
    if is_trusted(app, is_local(stored)) {
        return Ok(());
    }
    allow(app.submit, false, UNTRUSTED)?;
    match load_to_show(app, stored).pipeline() {
        Some(pipeline) => require_no_powers(&pipeline, UNTRUSTED),
        // The database refuses a version with errors itself.
        None => Ok(()),
    }
}

/// Returns the entry that runs a text.
fn entry(app: &App, source: Source, is_local: bool, simulated: bool) -> Result<Entry, ApiError> {
    let name = source.name().to_owned();
    if is_trusted(app, is_local) {
        return sound(app, &name, &app.project.load_version(source));
    }
    checked(app, &name, &load_alone(app, source), simulated)
}

/// Returns the entry that runs an untrusted text, if the server allows it.
fn checked(app: &App, name: &str, loaded: &Loaded, simulated: bool) -> Result<Entry, ApiError> {
    allow(app.submit, simulated, UNTRUSTED)?;
    let entry = sound(app, name, loaded)?;
    if !simulated {
        require_no_powers(entry.pipeline(), UNTRUSTED)?;
    }
    Ok(entry)
}

fn sound(app: &App, name: &str, loaded: &Loaded) -> Result<Entry, ApiError> {
    let pipeline = loaded.pipeline().ok_or_else(|| {
        let message = format!("`{}` is invalid", name.escape_debug());
        ApiError::unprocessable("invalid_pipeline", message).diagnostics(loaded.reports())
    })?;
    Ok(Entry::loaded(
        name,
        SharedPipeline::from(pipeline),
        app.project.transforms(),
    ))
}

/// Starts a run of a version, or of the active one.
pub(in crate::routes) async fn start(
    app: &Arc<App>,
    headers: &HeaderMap,
    workflow: String,
    version: Option<u32>,
    script: Option<Script>,
    settings: StartSettings,
) -> Result<StartedRun, ApiError> {
    let simulated = script.is_some();
    let prepared = with_store(app, workflow, move |app, store, name| {
        let stored = store.stored(name, version)?;
        if stored.workflow.archived_at.is_some() {
            let workflow = stored.workflow.name;
            return Err(StationError::Archived { workflow }.into());
        }
        let entry = entry(app, stored.source(), is_local(&stored), script.is_some())?;
        let engine = app.project.engine(&entry, script)?;
        Ok((entry, engine))
    });
    let (entry, engine) = prepared.await?;
    start_once(app, headers, entry, engine, settings, simulated).await
}

/// Returns whether a run is one of a workflow version.
pub(in crate::routes) fn is_of_version(run: &RunFolder) -> bool {
    matches!(VersionName::parse_file(&run.manifest().file), Some(Ok(_)))
}

/// Returns the entry with which a run of a version is resumed or replayed: with its own text, or with the active version
/// if changes are accepted.
pub(in crate::routes) fn entry_of_run(
    app: &App,
    run: &RunFolder,
    accept_changes: bool,
) -> Result<Entry, ApiError> {
    let manifest = run.manifest();
    let store = app.stations.existing()?;
    let loaded = run.load_pipeline(&app.project.transforms());
    let was_local = match &store {
        Some(store) => store.is_local(loaded.source.text())?,
        None => false,
    };
    if accept_changes {
        let name = VersionName::parse_file(&manifest.file).transpose()?;
        let workflow = name.map_or("", |name| name.workflow);
        let store = store.ok_or_else(|| missing(app, workflow))?;
        let stored = store.stored(workflow, None)?;
        // A state that an untrusted text has led to may not continue in a text that has powers.
        return entry(
            app,
            stored.source(),
            was_local && is_local(&stored),
            manifest.simulated,
        );
    }
    if is_trusted(app, was_local) {
        sound(app, &manifest.file, &loaded)
    } else {
        checked(app, &manifest.file, &loaded, manifest.simulated)
    }
}

/// Returns the workflow version with the name of a definition. `None` if the project itself knows the definition.
pub(in crate::routes) fn named<'n>(
    app: &App,
    name: &'n str,
) -> Option<Result<VersionName<'n>, StationError>> {
    VersionName::parse_file(name).filter(|_| app.stations.are_offered())
}

/// Returns the active versions as definitions.
pub(in crate::routes) async fn definitions(app: &Arc<App>) -> Result<Vec<Definition>, ApiError> {
    let app = app.clone();
    let definitions = blocking(move || {
        // A database that cannot be read does not hide the other pipelines; its own routes report the error.
        let store = app.stations.existing().ok().flatten();
        let workflows = store.and_then(|store| store.list(false).ok()).unwrap_or_default();
        let active = workflows.iter().filter_map(|workflow| {
            let version = VersionName {
                workflow: &workflow.name,
                version: Some(workflow.active?),
            };
            Some(definition(version))
        });
        active.collect()
    });
    definitions.await
}

fn definition(version: VersionName<'_>) -> Definition {
    Definition::new(version.active().file(), DefinitionKind::Workflow, version.file())
}

/// Loads a definition of the project, or a workflow version, to show it.
pub(in crate::routes) async fn load_definition(
    app: &Arc<App>,
    name: String,
) -> Result<LoadedDefinition, ApiError> {
    let Some(version) = named(app, &name).transpose()? else {
        return app.project(move |project| project.load(&name)).await;
    };
    let number = version.version;
    with_store(app, version.workflow.to_owned(), move |app, store, workflow| {
        let stored = store.stored(workflow, number)?;
        let loaded = load_to_show(app, &stored);
        let file = stored.source().name().to_owned();
        let entry = sound(app, &file, &loaded).ok();
        let version = VersionName {
            workflow: &stored.workflow.name,
            version: Some(stored.version.summary.version),
        };
        Ok(LoadedDefinition::new(definition(version), loaded, entry))
    })
    .await
}

/// Returns the files that the runs of a definition bear. A workflow may have had other names.
pub(in crate::routes) async fn files(
    app: &Arc<App>,
    definition: &Definition,
) -> Result<Vec<String>, ApiError> {
    let file = definition.file.clone();
    let Some(version) = named(app, &file).transpose()? else {
        return Ok(vec![file]);
    };
    let number = version.version;
    with_store(app, version.workflow.to_owned(), move |_, store, workflow| {
        Ok(files_of_version(&store.names(workflow)?, number))
    })
    .await
}

/// Returns the present name of a workflow and its former ones, which its runs bear.
pub(in crate::routes) async fn names(app: &Arc<App>, workflow: String) -> Result<Vec<String>, ApiError> {
    with_store(app, workflow, |_, store, workflow| Ok(store.names(workflow)?)).await
}

/// Returns the files that the runs of a version bear, from the names of its workflow.
pub(super) fn files_of_version(names: &[String], version: Option<u32>) -> Vec<String> {
    let files = names
        .iter()
        .map(|workflow| VersionName { workflow, version }.file());
    files.collect()
}
