//! `lock`: records the released versions of pipelines, and refuses those that break unfinished runs.

use std::collections::BTreeMap;

use orchestra_graph::{ChangeClass, Compatibility, Pipeline};
use serde_json::json;

use crate::args::{Format, LockArgs};
use crate::commands::unfinished::unfinished_runs;
use crate::error::{CliError, Exit};
use crate::project::lock::{ProjectLock, TodayPipeline};
use crate::report::diagnostics::{print_report, print_reports};
use crate::runs::Runs;
use crate::terminal::Terminal;
use crate::terminal::format::count;

pub(crate) fn lock(args: &LockArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    if let Some(version) = args.retire {
        return retire(args, version, program, terminal);
    }
    let mut project = ProjectLock::find(args.files.first().map(String::as_str))?;
    let names: Vec<String> = if args.files.is_empty() {
        let pipelines = project.lock.pipelines.iter();
        pipelines.map(|pipeline| pipeline.name.clone()).collect()
    } else {
        args.files.iter().map(|file| project.name(file)).collect()
    };
    if names.is_empty() {
        return Err(
            CliError::usage("no_lock", format!("there is no `{}` yet", project.path()))
                .help("name the pipelines to lock: `orchestra lock FILE..`"),
        );
    }
    if let Some(name) = names.iter().find(|name| name.starts_with("../")) {
        let message = format!(
            "`{}` is outside of the folder of `{}`",
            project.file(name),
            project.path()
        );
        return Err(CliError::usage("outside_of_project", message).help("lock it in a command of its own"));
    }
    let before = project.lock.clone();
    let mut texts = BTreeMap::new();
    let mut lines = Vec::new();
    let mut exit = Exit::Ok;
    for name in &names {
        match lock_one(&mut project, name, args.accept, terminal)? {
            Some(locked) => {
                texts.extend(locked.texts);
                lines.push((name, locked.version, locked.message));
            }
            None => exit = Exit::Invalid,
        }
    }
    if exit != Exit::Ok {
        terminal.message("nothing was locked");
        return Ok(exit);
    }
    if project.lock != before {
        project.save(&texts, &before)?;
    }
    for (name, version, message) in lines {
        if terminal.json {
            terminal.object(&json!({
                "schema": "orchestra.locked/1", "pipeline": name, "version": version, "message": message,
            }));
        } else {
            terminal.result(&format!("{name}: {message}"));
        }
    }
    Ok(Exit::Ok)
}

/// A pipeline that is to be locked.
struct Locked {
    version: u32,
    message: String,
    /// The texts to pin.
    texts: BTreeMap<String, Vec<u8>>,
}

/// Adds the version of today to the lock file. Returns `None` if it is invalid or breaks unfinished runs, which was
/// printed.
fn lock_one(
    project: &mut ProjectLock,
    name: &str,
    accept: bool,
    terminal: &Terminal,
) -> Result<Option<Locked>, CliError> {
    let format = if terminal.json { Format::Json } else { Format::Text };
    let TodayPipeline { loaded, files } = project.load_today(name)?;
    let Some(pipeline) = loaded.pipeline() else {
        print_reports(terminal, &loaded, format);
        return Ok(None);
    };
    let latest = project.lock.pipeline(name).and_then(|locked| locked.latest());
    let Some(latest) = latest.cloned() else {
        let message = "locked as version 1".to_owned();
        return Ok(Some(add(project, name, 1, &pipeline, &files, message)));
    };
    let number = latest.version;
    let old = project.verified_version(name, &latest)?;
    let found = Compatibility::between(&old, &loaded).unwrap_or_default();
    let reports = ProjectLock::reports(&found, &old, &loaded, number, None, terminal)?;
    if found.class() == ChangeClass::Same {
        let message = format!("version {number}, unchanged");
        let texts = BTreeMap::new();
        return Ok(Some(Locked {
            version: number,
            message,
            texts,
        }));
    }
    if !reports.is_empty() && !accept {
        for report in &reports {
            print_report(terminal, report, format);
        }
        return Ok(None);
    }
    let message = if accept {
        format!("version {} beside version {number}", number + 1)
    } else {
        let changes = count(found.changes.len(), "compatible change");
        format!("version {} replaces version {number}, {changes}", number + 1)
    };
    let locked = project.lock.pipeline_mut(name);
    if !accept {
        locked.versions.pop();
    }
    Ok(Some(add(project, name, number + 1, &pipeline, &files, message)))
}

fn add(
    project: &mut ProjectLock,
    name: &str,
    number: u32,
    pipeline: &Pipeline,
    files: &BTreeMap<String, Vec<u8>>,
    message: String,
) -> Locked {
    let (version, texts) = ProjectLock::new_version(name, number, pipeline, files);
    let locked = project.lock.pipeline_mut(name);
    // A version that has come back is not kept twice.
    locked.versions.retain(|kept| kept.hash != version.hash);
    locked.versions.push(version);
    Locked {
        version: number,
        message,
        texts,
    }
}

/// Removes a version that no unfinished run needs.
fn retire(args: &LockArgs, number: u32, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let [file] = args.files.as_slice() else {
        return Err(
            CliError::usage("retire_needs_file", "`--retire` needs one pipeline")
                .help("`orchestra lock --retire VERSION FILE`"),
        );
    };
    let mut project = ProjectLock::find(Some(file))?;
    let name = project.name(file);
    let before = project.lock.clone();
    let versions = before.pipeline(&name).map(|locked| locked.versions.as_slice());
    let versions = versions.unwrap_or_default();
    let Some(version) = versions.iter().find(|version| version.version == number) else {
        let numbers: Vec<String> = versions
            .iter()
            .map(|version| version.version.to_string())
            .collect();
        let error = CliError::usage(
            "unknown_version",
            format!("`{name}` has no locked version {number}"),
        );
        return Err(if numbers.is_empty() {
            error
        } else {
            error.help(format!("the versions are {}", numbers.join(", ")))
        });
    };
    let is_latest = versions.last().is_some_and(|latest| latest.version == number);
    if is_latest && versions.len() > 1 {
        let message =
            format!("version {number} of `{name}` is the released one, and older versions are kept");
        return Err(CliError::usage("released_version", message).help("retire the older versions first"));
    }
    let hashes = project.hashes(&name, version)?;
    let runs = unfinished_runs(&Runs::new(&args.runs, program))?;
    let needing: Vec<String> = runs
        .into_iter()
        .filter(|run| match &run.folder {
            Ok(folder) => hashes.contains(&folder.manifest().pipeline.hash),
            // A run that cannot be read may need any version.
            Err(_) => true,
        })
        .map(|run| run.id)
        .collect();
    if !needing.is_empty() {
        let noun = count(needing.len(), "unfinished run");
        let message = format!(
            "version {number} of `{name}` is needed by {noun}: {}",
            needing.join(", ")
        );
        return Err(CliError::usage("version_in_use", message)
            .exit(Exit::Invalid)
            .help("finish or cancel them first"));
    }
    let locked = project.lock.pipeline_mut(&name);
    locked.versions.retain(|version| version.version != number);
    if locked.versions.is_empty() {
        project.lock.pipelines.retain(|pipeline| pipeline.name != name);
    }
    project.save(&BTreeMap::new(), &before)?;
    if terminal.json {
        terminal.object(&json!({
            "schema": "orchestra.locked/1", "pipeline": name, "version": number, "message": "retired",
        }));
    } else {
        terminal.result(&format!("{name}: version {number} retired"));
    }
    Ok(Exit::Ok)
}
