//! `explore --paths`: scripts that lead simulated runs over every edge and every jump of a pipeline. Runs nothing.

use std::path::{Path, PathBuf};

use orchestra_engine::{FoundPaths, FoundTarget, PathOptions, PathScript, PathVerdict, find_paths};
use orchestra_graph::{Contract, Loaded};
use serde_json::{Value, json};

use crate::args::ExploreArgs;
use crate::error::{CliError, Exit};
use crate::project::files::{unwritable, write_file};
use crate::project::parameters::parameter;
use crate::runs::shell_quoted;
use crate::terminal::format::{count, thousands};
use crate::terminal::table::{Cell, table};
use crate::terminal::{Paint, Terminal};

pub(crate) fn paths(args: &ExploreArgs, loaded: &Loaded, terminal: &Terminal) -> Result<Exit, CliError> {
    let Some(found) = find_paths(loaded, &PathOptions::default()) else {
        return Ok(Exit::Invalid);
    };
    let contract = loaded
        .pipeline()
        .map(|pipeline| Contract::from_pipeline(&pipeline));
    let contract = contract.unwrap_or_default();
    let files = match &args.output {
        Some(folder) => write_scripts(args, &contract, folder, &found)?,
        None => Vec::new(),
    };
    if terminal.json {
        terminal.object(&object(args, &found, &files));
        return Ok(Exit::Ok);
    }
    print_targets(&found, terminal);
    for (number, script) in (1..).zip(&found.scripts) {
        match files.get(number - 1) {
            Some(file) => terminal.result(&format!("script {number}: {}", file.display())),
            None => terminal.data(&format!("---\n{}", text(args, &contract, number, script))),
        }
    }
    Ok(Exit::Ok)
}

/// Returns the text of a script, after a comment with the command that runs it.
fn text(args: &ExploreArgs, contract: &Contract, number: usize, script: &PathScript) -> String {
    let words = [args.file.as_str(), "--simulate", &file_name(number)].map(shell_quoted);
    let mut command = format!("orchestra run {}", words.join(" "));
    for (key, value) in &script.inputs {
        let pair = format!("{key}={}", parameter(key, value, contract));
        command.push_str(&format!(" --set {}", shell_quoted(&pair)));
    }
    let targets = count(script.targets.len(), "target");
    format!(
        "# Script {number}, {targets}: {}\n{}",
        command.replace(['\n', '\r'], " "),
        script.to_yaml()
    )
}

fn file_name(number: usize) -> String {
    format!("path-{number}.yaml")
}

/// Writes each script to a file. Never replaces a file that somebody has changed.
fn write_scripts(
    args: &ExploreArgs,
    contract: &Contract,
    folder: &Path,
    found: &FoundPaths,
) -> Result<Vec<PathBuf>, CliError> {
    let texts = (1..).zip(&found.scripts).map(|(number, script)| {
        (
            folder.join(file_name(number)),
            text(args, contract, number, script),
        )
    });
    let texts: Vec<(PathBuf, String)> = texts.collect();
    let has_other = |(path, text): &&(PathBuf, String)| {
        std::fs::symlink_metadata(path).is_ok()
            && std::fs::read(path).ok().as_deref() != Some(text.as_bytes())
    };
    if let Some((path, _)) = texts.iter().find(has_other) {
        let message = format!("`{}` has other content", path.display());
        return Err(CliError::usage("file_exists", message).help("choose another folder, or remove the file"));
    }
    for (path, text) in &texts {
        std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
        write_file(path, text.as_bytes())?;
    }
    Ok(texts.into_iter().map(|(path, _)| path).collect())
}

fn object(args: &ExploreArgs, found: &FoundPaths, files: &[PathBuf]) -> Value {
    let scripts = found.scripts.iter().enumerate().map(|(at, script)| {
        let names = script
            .targets
            .iter()
            .filter_map(|target| found.targets.get(*target));
        json!({
            "script": script.to_yaml(),
            "inputs": script.inputs,
            "targets": names.map(|found| &*found.target.name).collect::<Vec<&str>>(),
            "file": files.get(at).map(|file| file.display().to_string()),
        })
    });
    json!({
        "schema": "orchestra.paths/1",
        "file": args.file,
        "targets": found.targets.iter().map(target_object).collect::<Vec<Value>>(),
        "scripts": scripts.collect::<Vec<Value>>(),
        "states": found.states,
        "complete": found.is_complete,
    })
}

fn target_object(found: &FoundTarget) -> Value {
    let (script, steps, reason) = match &found.verdict {
        PathVerdict::Covered { script, steps } => (Some(script + 1), Some(steps), None),
        PathVerdict::Infeasible { reason } | PathVerdict::NotFound { reason } => (None, None, Some(reason)),
    };
    json!({
        "name": found.target.name,
        "target": found.target.text,
        "verdict": found.verdict.word(),
        "steps": steps,
        "script": script,
        "reason": reason,
    })
}

fn print_targets(found: &FoundPaths, terminal: &Terminal) {
    let rows = found.targets.iter().map(|found| {
        let (steps, script, reason, paint) = match &found.verdict {
            PathVerdict::Covered { script, steps } => {
                (steps.to_string(), (script + 1).to_string(), "", Paint::Good)
            }
            PathVerdict::Infeasible { reason } => (String::new(), String::new(), &**reason, Paint::Bad),
            PathVerdict::NotFound { reason } => (String::new(), String::new(), &**reason, Paint::Warn),
        };
        vec![
            Cell::text(&*found.target.text),
            Cell::text(found.verdict.word()).paint(paint),
            Cell::number(steps),
            Cell::number(script),
            Cell::text(reason),
        ]
    });
    let head = ["TARGET", "VERDICT", "STEPS", "SCRIPT", "REASON"];
    terminal.rendered_result(&table(terminal, &head, rows.collect()));
    let covered = found.targets.iter();
    let covered = covered.filter(|found| matches!(found.verdict, PathVerdict::Covered { .. }));
    let bounded = if found.is_complete {
        ""
    } else {
        "; bounded: there are more states"
    };
    terminal.result(&format!(
        "{} of {} covered by {}; {} states searched{bounded}",
        covered.count(),
        count(found.targets.len(), "target"),
        count(found.scripts.len(), "script"),
        thousands(found.states as u64),
    ));
}
