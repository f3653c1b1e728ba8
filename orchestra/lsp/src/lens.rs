//! Code lenses above a pipeline, and the commands that a client may execute.

use orchestra_graph::{NodeLimit, PictureOptions, RunLimits};
use orchestra_picture::best_svg;
use serde_json::{Value, json};

use crate::cursor::Opened;
use crate::paths::name_in;
use crate::protocol::{CodeLens, Command};
use crate::settings::Settings;

/// Returns `{"svg": ..}` of a pipeline, for a preview.
pub(crate) const PREVIEW: &str = "orchestra.preview";
/// Returns the limits of a pipeline as text, and shows them.
pub(crate) const LIMITS: &str = "orchestra.limits";
/// Runs `orchestra` with arguments in a terminal. The client executes it; see [`Settings::terminal`].
const TERMINAL: &str = "orchestra.terminal";

/// Returns the lenses at the head of a pipeline.
pub(crate) fn lenses(opened: &Opened, settings: &Settings) -> Vec<CodeLens> {
    let file = &opened.analysis.loaded.file;
    if file.keyword.is_empty() {
        return Vec::new();
    }
    let range = opened.range(file.keyword);
    let terminal = |title: &str, arguments: &[&str]| {
        let name = name_in(&opened.analysis.root, &opened.path);
        let mut arguments = arguments.to_vec();
        arguments.push(name);
        let argument = json!({ "folder": opened.analysis.root, "arguments": arguments });
        Command::new(title.to_owned(), TERMINAL.to_owned(), Some(vec![argument]))
    };
    let commands = if settings.terminal {
        vec![
            terminal("simulate", &["run", "--simulate"]),
            terminal("explore limits", &["explore"]),
        ]
    } else {
        let uri = json!(opened.uri.as_str());
        vec![Command::new(
            "explore limits".to_owned(),
            LIMITS.to_owned(),
            Some(vec![uri]),
        )]
    };
    let lens = |command| CodeLens {
        range,
        command: Some(command),
        data: None,
    };
    commands.into_iter().map(lens).collect()
}

/// Returns the picture of a pipeline.
///
/// # Errors
/// Fails with a message if the pipeline has errors that leave no picture.
pub(crate) fn preview(opened: &Opened) -> Result<Value, String> {
    let svg = best_svg(&opened.analysis.loaded.graph, &PictureOptions::default());
    svg.map(|svg| json!({ "svg": svg }))
        .map_err(|error| error.to_string())
}

/// Returns the limits of a pipeline as lines of text.
///
/// # Errors
/// Fails with a message if the pipeline has errors.
pub(crate) fn limits(opened: &Opened) -> Result<String, String> {
    let Some(RunLimits {
        nodes,
        visits,
        attempts,
        ..
    }) = opened.analysis.loaded.limits()
    else {
        return Err("the pipeline has errors; there are no limits before they are fixed".to_owned());
    };
    let count = |number: u64, noun: &str| match number {
        u64::MAX => format!("any number of {noun}s"),
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    };
    let (visits, attempts) = (count(visits, "visit"), count(attempts, "attempt"));
    let mut lines = vec![format!("at most {visits} and {attempts}")];
    let node = |node: &NodeLimit| format!("{}: at most {}", node.node, count(node.visits, "visit"));
    lines.extend(nodes.iter().map(node));
    Ok(lines.join("\n"))
}
