//! Checks of configurations, scripts and layers.

use orchestra_config::Configuration;
use orchestra_graph::render;

/// Returns the diagnostics of a configuration.
pub(crate) fn configuration(text: &str) -> Result<(), String> {
    let (_, report) = Configuration::parse("orchestra.yaml", text.as_bytes());
    let diagnostics = render::concise(&report);
    if diagnostics.is_empty() {
        Ok(())
    } else {
        Err(diagnostics)
    }
}

/// Returns the error of a simulation script.
pub(crate) fn script(text: &str) -> Result<(), String> {
    match orchestra_testkit::read_script(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns a pipeline with a stage that uses the layer, agent or tool of a file, so that checking it reads the file.
pub(crate) fn user_of(file: &str) -> Result<String, String> {
    let mut parts = file.trim_end_matches(".yaml").rsplit('/');
    let (name, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let attribute = match folder {
        "agents" => "agent",
        "personalities" => "agent.personality",
        "personas" => "agent.persona",
        "roles" => "agent.role",
        "tasks" => "agent.task",
        "tools" => "agent.tools",
        _ => return Err(format!("`{file}` is in no folder of layers")),
    };
    Ok(format!(
        "digraph {{ start -> stage -> exit; stage [prompt=\"Go.\", {attribute}=\"{name}\"] }}\n"
    ))
}
