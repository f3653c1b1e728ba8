//! `stations`: the database of station workflows.

use std::path::Path;

use orchestra_engine::{Disk, Timestamp};
use orchestra_stations::{StationError, StationStore, VersionName, VersionOrigin, VersionText, Workflow};
use serde::Serialize;
use serde_json::json;

use crate::args::{Format, StationsArgs, StationsCommand};
use crate::error::{CliError, Exit};
use crate::project::workflows::{DATABASE, existing};
use crate::report::diagnostics::print_report;
use crate::report::schema::WithSchema;
use crate::runs::shell_quoted;
use crate::terminal::format::{count, date_time};
use crate::terminal::table::{Cell, table};
use crate::terminal::{Paint, Terminal};

/// The maximum size of a pipeline that is imported, in bytes.
const MAX_FILE: u64 = 16 << 20;

pub(crate) fn stations(args: &StationsArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let database = args.database.as_path();
    let hints = Hints { program, database };
    match &args.command {
        StationsCommand::List { all } => list(database, *all, terminal),
        StationsCommand::Import {
            file,
            sqlite,
            name,
            note,
            activate,
        } => match (file, sqlite) {
            (Some(file), _) => import(&hints, file, name.as_deref(), note, *activate, terminal),
            (None, Some(earlier)) => import_earlier(database, earlier, terminal),
            (None, None) => Err(CliError::usage("no_file", "the pipeline is missing").help("name its file")),
        },
        StationsCommand::Export { workflow } => export(database, workflow, terminal),
        StationsCommand::Diff { old, new } => diff(database, old, new, terminal),
        StationsCommand::Activate { workflow } => activate(&hints, workflow, terminal),
    }
}

fn list(database: &Path, all: bool, terminal: &Terminal) -> Result<Exit, CliError> {
    let workflows = if database.is_file() {
        StationStore::open(database)?.list(all)?
    } else {
        Vec::new()
    };
    if terminal.json {
        for workflow in &workflows {
            terminal.json_line(&json_of(workflow));
        }
        return Ok(Exit::Ok);
    }
    if workflows.is_empty() {
        terminal.progress(&format!("there are no workflows in `{}`", database.display()));
        return Ok(Exit::Ok);
    }
    let rows = workflows.iter().map(|workflow| {
        vec![
            Cell::text(&workflow.name),
            Cell::number(
                workflow
                    .active
                    .map(|active| active.to_string())
                    .unwrap_or_default(),
            ),
            Cell::number(workflow.latest),
            Cell::text(date_time(Timestamp::from_millis(workflow.updated_at))),
            Cell::text(if workflow.archived_at.is_some() {
                "archived"
            } else {
                ""
            }),
        ]
    });
    let head = ["WORKFLOW", "ACTIVE", "LATEST", "CHANGED (UTC)", ""];
    terminal.result(&table(terminal, &head, rows.collect()));
    Ok(Exit::Ok)
}

fn json_of(workflow: &Workflow) -> String {
    let schema = "orchestra.workflow/1";
    let content = workflow;
    WithSchema { schema, content }.line()
}

/// The commands that a command suggests.
struct Hints<'h> {
    program: &'h str,
    database: &'h Path,
}

impl Hints<'_> {
    /// Returns the command that activates a version.
    fn activate(&self, workflow: &str, version: u32) -> String {
        let name = shell_quoted(&format!("{workflow}@{version}"));
        let mut command = format!("{} stations activate {name}", self.program);
        if self.database != Path::new(DATABASE) {
            let database = shell_quoted(&self.database.to_string_lossy());
            command.push_str(&format!(" --database {database}"));
        }
        command
    }

    /// Returns the command that runs the active version. Returns `None` for a database that `run` does not use.
    fn run(&self, workflow: &str) -> Option<String> {
        let name = shell_quoted(&format!("stations:{workflow}"));
        (self.database == Path::new(DATABASE)).then(|| format!("{} run {name}", self.program))
    }
}

/// Stores a file as a new version, or as a new workflow.
fn import(
    hints: &Hints<'_>,
    file: &Path,
    name: Option<&str>,
    note: &str,
    activate: bool,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let unreadable = |reason: String| {
        CliError::usage(
            "unreadable_file",
            format!("cannot read `{}`: {reason}", file.display()),
        )
    };
    let bytes = Disk::read_at_most(file, MAX_FILE).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = name.unwrap_or(&stem);
    let store = StationStore::open(hints.database)?;
    let dot = VersionText::Dot(text.clone());
    let stored = match store.workflow(name) {
        Err(StationError::UnknownWorkflow { .. }) => store.create(name, &dot, VersionOrigin::Local, note),
        Err(error) => return Err(error.into()),
        Ok(present) if store.version(&present.id, present.latest)?.dot == text => Ok(present),
        Ok(present) => store.add_version(&present.id, &present.etag, &dot, VersionOrigin::Local, note),
    };
    let stored = match stored {
        Err(StationError::Invalid { report }) => {
            let format = if terminal.json { Format::Json } else { Format::Text };
            print_report(terminal, &report, format);
            return Ok(Exit::Invalid);
        }
        stored => stored?,
    };
    // A version with errors is stored, because it can be edited further, but it is said.
    let report = store.check(&stored.id, stored.latest)?;
    if report.has_errors() {
        let format = if terminal.json { Format::Json } else { Format::Text };
        print_report(terminal, &report, format);
    }
    let version = stored.latest;
    if activate {
        return activate_version(hints, &store, &stored.name, version, terminal);
    }
    if terminal.json {
        terminal.json_line(&json_of(&stored));
    } else {
        let is_active = stored.active == Some(version);
        terminal.progress(&format!(
            "`{}` is version {version} of `{}`",
            file.display(),
            stored.name
        ));
        if !is_active && !report.has_errors() {
            let command = hints.activate(&stored.name, version);
            terminal.progress(&format!(
                "activate it with: {}",
                terminal.paint(Paint::Bold, &command)
            ));
        }
    }
    Ok(if report.has_errors() {
        Exit::Invalid
    } else {
        Exit::Ok
    })
}

fn import_earlier(database: &Path, earlier: &Path, terminal: &Terminal) -> Result<Exit, CliError> {
    let imported = StationStore::open(database)?.import_earlier(earlier)?;
    if terminal.json {
        terminal.object(&json!({"schema": "orchestra.import/1", "workflows": imported}));
        return Ok(Exit::Ok);
    }
    for workflow in &imported {
        terminal.progress(&format!(
            "{}: {}, {}",
            workflow.name,
            count(workflow.stations, "station"),
            count(workflow.transitions, "transition")
        ));
    }
    terminal.progress(&format!("imported {}", count(imported.len(), "workflow")));
    Ok(Exit::Ok)
}

/// Returns the number of a version: the one that is named, else the active one, else the latest.
fn number(workflow: &Workflow, name: &VersionName<'_>) -> u32 {
    name.version.or(workflow.active).unwrap_or(workflow.latest)
}

fn export(database: &Path, workflow: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let name = VersionName::parse(workflow)?;
    let store = existing(database)?;
    let workflow = store.workflow(name.workflow)?;
    let version = store.version(&workflow.id, number(&workflow, &name))?;
    if terminal.json {
        #[derive(Serialize)]
        struct Exported<'v> {
            workflow: &'v str,
            #[serde(flatten)]
            version: &'v orchestra_stations::WorkflowVersion,
        }
        let content = &Exported {
            workflow: &workflow.name,
            version: &version,
        };
        let schema = "orchestra.workflow_version/1";
        terminal.json_line(&WithSchema { schema, content }.line());
    } else {
        terminal.data(version.dot.trim_end_matches('\n'));
    }
    Ok(Exit::Ok)
}

fn diff(database: &Path, old: &str, new: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let store = existing(database)?;
    let version = |text: &str| -> Result<(String, u32), CliError> {
        let name = VersionName::parse(text)?;
        let workflow = store.workflow(name.workflow)?;
        let version = number(&workflow, &name);
        Ok((workflow.id, version))
    };
    let ((old, before), (new, after)) = (version(old)?, version(new)?);
    let difference = match store.difference((&old, before), (&new, after)) {
        Err(StationError::Invalid { report }) => {
            let format = if terminal.json { Format::Json } else { Format::Text };
            print_report(terminal, &report, format);
            return Ok(Exit::Invalid);
        }
        difference => difference?,
    };
    if terminal.json {
        terminal.json_line(&serde_json::to_string(&difference).unwrap_or_default());
    } else if difference.is_empty() {
        terminal.progress("nothing changed that a run depends on");
    } else {
        terminal.result(difference.to_string().trim_end());
    }
    Ok(Exit::Ok)
}

fn activate(hints: &Hints<'_>, workflow: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let name = VersionName::parse(workflow)?;
    let store = existing(hints.database)?;
    let present = store.workflow(name.workflow)?;
    activate_version(
        hints,
        &store,
        &present.name,
        name.version.unwrap_or(present.latest),
        terminal,
    )
}

fn activate_version(
    hints: &Hints<'_>,
    store: &StationStore,
    workflow: &str,
    version: u32,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let present = store.workflow(workflow)?;
    let activated = match store.activate(&present.id, &present.etag, version) {
        Err(StationError::Invalid { report }) => {
            let format = if terminal.json { Format::Json } else { Format::Text };
            print_report(terminal, &report, format);
            return Ok(Exit::Invalid);
        }
        activated => activated?,
    };
    if terminal.json {
        terminal.json_line(&json_of(&activated));
    } else {
        terminal.progress(&format!("version {version} of `{workflow}` is active"));
        if let Some(command) = hints.run(workflow) {
            terminal.progress(&format!("run it with: {}", terminal.paint(Paint::Bold, &command)));
        }
    }
    Ok(Exit::Ok)
}
