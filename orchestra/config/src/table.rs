//! The resolution as a table for people, in which each value has its reason.

use crate::resolved::{Reason, Resolution, ResolvedStage};

const HEADER: [&str; 7] = ["stage", "agent", "backend", "provider", "model", "effort", "mode"];

impl Resolution {
    /// Returns a table of all model stages, in which each value has its [`Reason`] in brackets. The fallback models,
    /// the prompt layers, the task and the tools of each stage follow. Returns an empty text if no stage calls a model.
    ///
    /// ```
    /// use orchestra_config::{Project, ResolveOptions};
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> work -> exit; work [backend=simulation, llm_model=gpt-5, llm_provider=openai] }";
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let table = Project::default().resolve(&pipeline, &ResolveOptions::default()).table();
    /// assert!(table.contains("work   -      simulation [node]  openai [node]  gpt-5 [node]"), "{table}");
    /// ```
    pub fn table(&self) -> String {
        if self.stages.is_empty() {
            return String::new();
        }
        let head = HEADER.map(str::to_owned);
        let rows: Vec<[String; 7]> = std::iter::once(head).chain(self.stages.iter().map(row)).collect();
        let mut widths = [0; 7];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in &rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        for stage in &self.stages {
            let names: Vec<String> = stage
                .layers
                .iter()
                .map(|layer| format!("{} {} ({})", layer.kind, layer.name, layer.path))
                .collect();
            text.push_str(&format!("\n{}\n", stage.node));
            if !stage.fallbacks.is_empty() {
                let models = stage.model.iter().map(|model| model.value.clone());
                let models = models.chain(stage.fallbacks.iter().map(ToString::to_string));
                let models: Vec<String> = models.collect();
                text.push_str(&format!("  {:<7} {}\n", "models", models.join(", then ")));
            }
            for (what, listed) in [("prompt", names), ("tools", stage.tools.clone())] {
                let listed = if listed.is_empty() {
                    "-".to_owned()
                } else {
                    listed.join(", ")
                };
                text.push_str(&format!("  {what:<7} {listed}\n"));
            }
        }
        text
    }
}

/// Returns the cells of a stage.
fn row(stage: &ResolvedStage) -> [String; 7] {
    fn shown<T: std::fmt::Display>(value: Option<&T>) -> String {
        value.map_or_else(|| "-".to_owned(), T::to_string)
    }
    let model = match (&stage.model, &stage.model_alias) {
        (Some(model), Some(alias)) => format!("{alias} = {model}"),
        (model, _) => shown(model.as_ref()),
    };
    // A default needs no reason.
    let mode = match stage.mode.reason {
        Reason::Default => stage.mode.value.to_string(),
        _ => stage.mode.to_string(),
    };
    [
        stage.node.clone(),
        stage
            .agent
            .as_ref()
            .map_or_else(|| "-".to_owned(), |agent| agent.value.clone()),
        stage.backend.to_string(),
        shown(stage.provider.as_ref()),
        model,
        shown(stage.reasoning_effort.as_ref()),
        mode,
    ]
}
