//! `explore`: the limits and assertions of a pipeline, and the states that its runs may have. Runs nothing.

use orchestra_engine::{Exploration, ExploreOptions, ExploredEnd};
use orchestra_graph::{Loaded, NodeLimit, Pipeline, RunLimits};
use serde_json::{Value, json};

use super::paths::paths;
use crate::args::{ExploreArgs, Format, Lints};
use crate::error::{CliError, Exit};
use crate::project::pipelines::Pipelines;
use crate::report::diagnostics::print_reports;
use crate::terminal::format::{count, thousands};
use crate::terminal::table::{Cell, table};
use crate::terminal::{Paint, Terminal};

/// Maximum number of ends, nodes and edges that are listed for people.
const SHOWN: usize = 20;

pub(crate) fn explore(
    args: &ExploreArgs,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let loaded = pipelines.load(&args.file, &Lints::default())?;
    let parts = (loaded.pipeline(), loaded.limits());
    let (Some(pipeline), Some(limits)) = parts else {
        let format = if terminal.json { Format::Json } else { Format::Text };
        print_reports(terminal, &loaded, format);
        return Ok(Exit::Invalid);
    };
    if args.paths {
        return paths(args, &loaded, terminal);
    }
    let Some(found) = orchestra_engine::explore(&loaded, &ExploreOptions::default()) else {
        return Ok(Exit::Invalid);
    };
    let (nodes, edges) = found.unused(&pipeline);
    if terminal.json {
        terminal.object(&json!({
            "schema": "orchestra.exploration/1",
            "file": args.file,
            "limits": {
                "visits": number(limits.visits),
                "attempts": number(limits.attempts),
                "nodes": limits.nodes.iter().map(limit_object).collect::<Vec<Value>>(),
            },
            "assertions": loaded.proved_assertions(),
            "states": found.states,
            "events": found.events,
            "complete": found.is_complete,
            "all_outcomes": found.tried_all_outcomes,
            "ends": found.ends.iter().map(end_object).collect::<Vec<Value>>(),
            "unused_nodes": nodes,
            "unused_edges": edges,
            "violations": found.violations,
        }));
    } else {
        print_limits(&loaded, &pipeline, &limits, terminal);
        print_states(&found, terminal);
        print_unused("nodes", &nodes, terminal);
        print_unused("edges", &edges, terminal);
    }
    if found.violations.is_empty() {
        return Ok(Exit::Ok);
    }
    for violation in &found.violations {
        let error = terminal.paint(Paint::Bad, "error");
        terminal.message(&format!("{error}: {violation}"));
    }
    terminal.message("this is a bug of orchestra, not of the pipeline; please report it with the file");
    Ok(Exit::RunFailed)
}

/// Returns a limit as JSON; null if there is none.
fn number(limit: u64) -> Value {
    match limit {
        u64::MAX => Value::Null,
        limit => limit.into(),
    }
}

fn limit_object(limit: &NodeLimit) -> Value {
    json!({
        "node": limit.node,
        "visits": number(limit.visits),
        "attempts": number(limit.attempts),
        "reason": limit.reason,
        "by_default": limit.by_default,
    })
}

fn end_object(end: &ExploredEnd) -> Value {
    let node = Some(&end.node).filter(|node| !node.is_empty());
    json!({"end": end.code, "node": node, "count": end.count})
}

/// Returns a limit for people.
fn shown(limit: u64) -> String {
    match limit {
        u64::MAX => "no limit".to_owned(),
        limit => thousands(limit),
    }
}

fn print_limits(loaded: &Loaded, pipeline: &Pipeline, limits: &RunLimits, terminal: &Terminal) {
    let rows = limits.nodes.iter().map(|limit| {
        vec![
            Cell::text(&*limit.node),
            Cell::number(shown(limit.visits)),
            Cell::number(shown(limit.attempts)),
            Cell::text(&*limit.reason),
        ]
    });
    let head = ["NODE", "VISITS", "ATTEMPTS", "LIMITED BY"];
    terminal.rendered_result(&table(terminal, &head, rows.collect()));
    terminal.result(&format!(
        "a run has at most {} visits and {} attempts",
        shown(limits.visits),
        shown(limits.attempts)
    ));
    let by_default: Vec<&str> = limits
        .nodes
        .iter()
        .filter(|limit| limit.by_default)
        .map(|limit| &*limit.node)
        .collect();
    if !by_default.is_empty() {
        terminal.result(&format!(
            "only the default of {} visits limits {}; `max_visits` on a node of the loop sets a lower limit",
            thousands(pipeline.settings.max_node_visits.into()),
            list(&by_default)
        ));
    }
    match loaded.proved_assertions() {
        0 => {}
        1 => terminal.result("1 assertion holds"),
        assertions => terminal.result(&format!("{} hold", count(assertions, "assertion"))),
    }
}

fn print_states(found: &Exploration, terminal: &Terminal) {
    let bounded = if found.is_complete {
        ""
    } else {
        "; bounded: there are more states"
    };
    let outcomes = if found.tried_all_outcomes {
        ""
    } else {
        "; not all context values were tried"
    };
    terminal.result(&format!(
        "explored {} states with {} events{bounded}{outcomes}",
        thousands(found.states as u64),
        thousands(found.events)
    ));
    for end in found.ends.iter().take(SHOWN) {
        let at = match &*end.node {
            "" => String::new(),
            node => format!(" at `{node}`"),
        };
        terminal.result(&format!("  {}{at}: {}", end.code, thousands(end.count)));
    }
    if found.ends.len() > SHOWN {
        terminal.result(&format!("  and {} more ends", found.ends.len() - SHOWN));
    }
}

fn print_unused(noun: &str, unused: &[String], terminal: &Terminal) {
    if !unused.is_empty() {
        let unused: Vec<&str> = unused.iter().map(String::as_str).collect();
        terminal.result(&format!("{noun} that no explored run uses: {}", list(&unused)));
    }
}

/// Returns names as a list, shortened.
fn list(names: &[&str]) -> String {
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        shown.push(format!("{} more", names.len() - SHOWN));
    }
    shown.join(", ")
}
