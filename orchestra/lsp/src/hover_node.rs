//! The facts about a node: its kind, settings, exits, limits and values.

use std::fmt::Display;

use orchestra_config::{Chosen, ResolvedStage};
use orchestra_graph::{
    Contract, Exit, ExitStep, Graph, Key, Known, Loaded, MissingValues, NodeIndex, NodeLimit, kind,
};

use crate::cursor::Opened;
use crate::markdown::{block, code, codes};

/// The maximum number of names in a list.
const NAMES: usize = 24;

/// Returns the facts about a node.
pub(crate) fn node_doc(opened: &Opened, node: NodeIndex) -> String {
    let loaded = &opened.analysis.loaded;
    let analysis = loaded.analysis();
    let own = loaded.graph.node(node);
    let kind = analysis.kind(node);
    let title = if kind::BUILT_IN.contains(&kind) {
        format!("**{}** {}", kind::title(kind), code(&own.id))
    } else {
        format!("**{}** {} (`type={kind}`)", kind::title(kind), code(&own.id))
    };
    let mut parts = vec![title];
    if own.attributes.filled(Known::Label).is_some() {
        parts.push(own.label().to_owned());
    }
    let resolution = opened.analysis.resolution();
    if let Some(stage) = resolution.and_then(|resolution| resolution.stage(&own.id)) {
        parts.push(settings(stage));
    }
    for (known, title) in [
        (Known::Prompt, "Prompt"),
        (Known::PromptFile, "Prompt file"),
        (Known::ToolCommand, "Command"),
    ] {
        if let Some(text) = own.attributes.filled(known)
            && known.is_read_by(kind)
        {
            parts.push(format!("{title}:\n{}", block(text)));
        }
    }
    if loaded.report.has_errors() {
        parts.push("Exits and limits are known once the pipeline has no errors.".to_owned());
    } else {
        parts.extend(exits(loaded, node, kind));
        parts.extend(limits(loaded, &own.id));
    }
    parts.extend(values(loaded, node));
    parts.join("\n\n")
}

/// Returns the settings of a model stage, each with who decided it.
fn settings(stage: &ResolvedStage) -> String {
    let mut lines = Vec::new();
    let mut add = |name: &str, shown: Option<String>| {
        if let Some(shown) = shown {
            lines.push(format!("- {name}: {shown}"));
        }
    };
    add("agent", stage.agent.as_ref().map(chosen));
    add("backend", Some(chosen(&stage.backend)));
    if stage.backend_kind.needs_model() {
        add("provider", stage.provider.as_ref().map(chosen));
    }
    let alias = stage
        .model_alias
        .as_ref()
        .map(|alias| format!(", named {}", code(alias)));
    let model = stage.model.as_ref().map(chosen);
    add(
        "model",
        model.map(|model| model + alias.as_deref().unwrap_or_default()),
    );
    add("reasoning effort", stage.reasoning_effort.as_ref().map(chosen));
    add("mode", Some(chosen(&stage.mode)));
    add("most tokens of an answer", stage.max_tokens.as_ref().map(chosen));
    add("temperature", stage.temperature.as_ref().map(chosen));
    add("most turns", stage.max_turns.as_ref().map(chosen));
    let tools = stage.tools.iter().take(NAMES);
    if stage.backend_kind.has_tools() {
        add("tools", Some(codes(tools)).filter(|tools| !tools.is_empty()));
    }
    let layers = stage
        .layers
        .iter()
        .map(|layer| format!("{} {} ({})", layer.kind, code(&layer.name), layer.path));
    let layers: Vec<String> = layers.collect();
    add(
        "layers",
        Some(layers.join(", ")).filter(|layers| !layers.is_empty()),
    );
    lines.join("\n")
}

/// Returns a setting with who decided it.
pub(crate) fn chosen<T: Display>(chosen: &Chosen<T>) -> String {
    let value = code(&chosen.value.to_string());
    if chosen.location.is_empty() {
        format!("{value} [{}]", chosen.reason)
    } else {
        format!("{value} [{}, {}]", chosen.reason, chosen.location)
    }
}

/// Returns where each outcome of a node leads. Outcomes with the same steps share a line.
fn exits(loaded: &Loaded, node: NodeIndex, kind: &str) -> Option<String> {
    let exits = loaded.possible_steps()?.exits(node);
    let mut lines: Vec<(Vec<String>, String)> = Vec::new();
    for exit in exits {
        let to = steps(&exit, &loaded.graph);
        let name = match &exit.answer {
            Some(answer) => format!("answer {}", code(answer)),
            None => code(&exit.outcome),
        };
        match lines.iter_mut().find(|(_, known)| *known == to) {
            Some((names, _)) => names.push(name),
            None => lines.push((vec![name], to)),
        }
    }
    if lines.is_empty() {
        return None;
    }
    let title = match kind {
        kind::CONDITIONAL => "Exits by the outcome of the stage before it:",
        kind::PARALLEL => "Exits of the whole block:",
        _ => "Exits:",
    };
    let lines: Vec<String> = lines
        .iter()
        .map(|(names, to)| format!("- {} → {to}", names.join(", ")))
        .collect();
    Some(format!("{title}\n{}", lines.join("\n")))
}

fn steps(exit: &Exit, graph: &Graph) -> String {
    let names: Vec<String> = exit
        .steps
        .iter()
        .take(NAMES)
        .map(|step: &ExitStep| step.describe(graph))
        .collect();
    names.join(" or ")
}

fn limits(loaded: &Loaded, id: &str) -> Option<String> {
    let limits = loaded.limits()?;
    let NodeLimit {
        visits,
        attempts,
        reason,
        ..
    } = limits.node(id)?;
    let number = |number: u64| match number {
        u64::MAX => "any number of".to_owned(),
        number => format!("at most {number}"),
    };
    let attempts = if attempts == visits {
        String::new()
    } else {
        format!(" and {} attempts", number(*attempts))
    };
    let unit = if *visits == 1 { "visit" } else { "visits" };
    Some(format!(
        "A run makes {} {unit}{attempts}: {reason}.",
        number(*visits)
    ))
}

/// Returns the declared values that a node sets, and those that are known when it starts.
fn values(loaded: &Loaded, node: NodeIndex) -> Option<String> {
    let own = loaded.graph.node(node);
    let mut lines = Vec::new();
    for attribute in own.attributes.iter() {
        let name = attribute.key.name();
        let after = match &attribute.key {
            Key::Known(Known::Outputs) => "sets with each success".to_owned(),
            Key::Other(_) => match name.strip_prefix("outputs.") {
                Some(word) => format!("sets with the outcome {}", code(word)),
                None => continue,
            },
            Key::Known(_) => continue,
        };
        lines.push(format!("- {after}: {}", code(&attribute.value.to_string())));
    }
    let analysis = loaded.analysis();
    if let Some(missing) = MissingValues::new(&analysis) {
        let contract: &Contract = missing.contract();
        let typed = |(key, value_type): (&str, &orchestra_graph::ValueType)| format!("{key}: {value_type}");
        let set = contract
            .keys()
            .filter(|(key, _)| !missing.may_be_missing(node, key));
        let set = codes(set.map(typed).take(NAMES));
        let possible = contract
            .keys()
            .filter(|(key, _)| missing.may_be_missing(node, key) && missing.may_be_set(node, key));
        let possible = codes(possible.map(typed).take(NAMES));
        if !set.is_empty() {
            lines.push(format!("- set when it starts: {set}"));
        }
        if !possible.is_empty() {
            lines.push(format!("- perhaps set when it starts: {possible}"));
        }
    }
    (!lines.is_empty()).then(|| format!("Values:\n{}", lines.join("\n")))
}
