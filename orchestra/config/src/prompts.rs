//! The prompts of a stage: its layers, its task, and its own prompt.

use std::collections::BTreeMap;
use std::ops::Range;

use orchestra_graph::{Diagnostic, NodeIndex, Span, ValueType, value_text};

use crate::candidate::{AgentLayer, Candidate, from_attribute};
use crate::choose::Resolver;
use crate::layers::{LayerError, LayerKind, LayerUse};
use crate::reads::reads;
use crate::rules;
use crate::settings::InlinePrompts;
use crate::stage::AttributeValue;
use crate::suggestion::{Hint, in_value};
use crate::template::TaskTemplate;
use crate::template_check::check;
use crate::variables::Variables;

impl Resolver<'_> {
    /// Returns the layer that the node, or else its agent, names.
    fn layer_name(
        &self,
        node: NodeIndex,
        agent_layer: &AgentLayer<'_>,
        kind: LayerKind,
    ) -> Option<Candidate<String>> {
        let of_agent = match kind {
            LayerKind::Role => &agent_layer.agent.role,
            LayerKind::Persona => &agent_layer.agent.persona,
            LayerKind::Personality => &agent_layer.agent.personality,
            LayerKind::Task => &agent_layer.agent.task,
        };
        from_attribute(self.stages.of_node(node, &format!("agent.{kind}")))
            .or_else(|| agent_layer.candidate(of_agent))
    }

    /// Returns the system prompt: role, persona and personality, each with the layers it extends. No layer occurs
    /// twice.
    pub(crate) fn system(
        &mut self,
        node: NodeIndex,
        agent_layer: &AgentLayer<'_>,
    ) -> (String, Vec<LayerUse>) {
        let mut texts: Vec<String> = Vec::new();
        let mut layers: Vec<LayerUse> = Vec::new();
        for kind in [LayerKind::Role, LayerKind::Persona, LayerKind::Personality] {
            let Some(name) = self.layer_name(node, agent_layer, kind) else {
                continue;
            };
            match self.library.chain(kind, &name.value, self.reports) {
                Ok(chain) => {
                    for layer in chain {
                        let used = layer.used();
                        if !layers.contains(&used) {
                            texts.push(layer.text.trim().to_owned());
                            layers.push(used);
                        }
                    }
                }
                Err(LayerError::Invalid) => {}
                Err(why) => self.missing_layer(node, kind, &name, &why),
            }
        }
        texts.retain(|text| !text.is_empty());
        (texts.join("\n\n"), layers)
    }

    /// Reports a layer that does not exist.
    fn missing_layer(
        &mut self,
        node: NodeIndex,
        kind: LayerKind,
        name: &Candidate<String>,
        why: &LayerError,
    ) {
        let library = self.library;
        self.report_name(node, name.location, &name.value, |span| {
            library.missing(kind, &name.value, span, why)
        });
    }

    /// Returns the task template of a stage, and adds its layer to the layers.
    pub(crate) fn task(
        &mut self,
        node: NodeIndex,
        agent_layer: &AgentLayer<'_>,
        variables: &Variables,
        layers: &mut Vec<LayerUse>,
    ) -> Option<TaskTemplate> {
        let name = self.layer_name(node, agent_layer, LayerKind::Task)?;
        let layer = match self.library.find(LayerKind::Task, &name.value, self.reports) {
            Ok(layer) => layer,
            Err(LayerError::Invalid) => return None,
            Err(why) => {
                self.missing_layer(node, LayerKind::Task, &name, &why);
                return None;
            }
        };
        // Every stage of a pipeline has the same variables, so each task is checked once.
        if self.checked.insert(layer.path.clone()) {
            for found in check(&layer.text, variables) {
                let span = layer.span(found.range);
                let mut diagnostic = Diagnostic::from_rule(found.rule, found.message, span)
                    .help(found.hint.help)
                    .note(format!("the stage `{}` uses this task", self.stages.id(node)));
                if let Some(meant) = found.hint.meant.filter(|_| !span.is_empty()) {
                    diagnostic = diagnostic.fix(span, meant);
                }
                self.reports.add(&layer.source, diagnostic);
            }
        }
        for (read, mut diagnostic) in self.declared_values(node, &layer.text) {
            diagnostic.span = layer.span(read);
            self.reports.add(&layer.source, diagnostic);
        }
        layers.push(layer.used());
        Some(layer.template())
    }

    /// Returns the errors for the declared values that a template needs although they may be missing when its stage begins,
    /// or whose types have no members, each with its range in the template.
    fn declared_values(&mut self, node: NodeIndex, template: &str) -> Vec<(Range<usize>, Diagnostic)> {
        let Some(missing) = &mut self.missing else {
            return Vec::new();
        };
        let keys = missing.contract().keys();
        let types: BTreeMap<String, ValueType> = keys
            .map(|(key, declared)| (key.to_owned(), declared.clone()))
            .collect();
        let mut found = Vec::new();
        for read in reads(template) {
            let within = |(key, _): &(&String, &ValueType)| {
                let rest = read.path.strip_prefix(key.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let Some((key, declared)) = types.iter().filter(within).max_by_key(|(key, _)| key.len()) else {
                continue;
            };
            let diagnostic = match read.path == *key || may_have_members(declared) {
                true => missing.read(node, key, Span::default()),
                false => Some(without_members(&read.path, key, declared)),
            };
            found.extend(diagnostic.map(|diagnostic| (read.range, diagnostic)));
        }
        found
    }

    /// Returns the text of an attribute as it is written; `None` if the pipeline is not at hand as it is written.
    fn written(&self, attribute: &AttributeValue<'_>) -> Option<String> {
        let has_spans = self.stages.has_spans();
        has_spans.then(|| value_text(&self.source, attribute.span))
    }

    /// Returns the prompt as a template if the graph or the project declares prompts as templates (rule F3).
    pub(crate) fn inline(
        &mut self,
        node: NodeIndex,
        has_task: bool,
        variables: &Variables,
    ) -> Option<TaskTemplate> {
        let stages = self.stages;
        let prompt = stages
            .of_node(node, "prompt")
            .filter(|attribute| attribute.is_filled());
        let attribute = match prompt {
            Some(prompt) => prompt,
            // Without a prompt and a task, the label is the prompt.
            None if !has_task => stages.of_node(node, "label")?,
            None => return None,
        };
        let configured = self.project.configuration.prompts.inline.as_ref();
        let is_template = match stages.of_graph("prompt_templates") {
            Some(attribute) => attribute.text == "true",
            None => configured.is_some_and(|inline| inline.value == InlinePrompts::Template),
        };
        if !is_template {
            if attribute.text.contains("{{") {
                let diagnostic = Diagnostic::from_rule(
                    &rules::LITERAL_TEMPLATE,
                    "the prompt is not a template, so `{{` stands as it is written",
                    attribute.span,
                )
                .help("write `prompt_templates=true` on the graph to make all prompts templates");
                self.reports.add(&self.source, diagnostic.node(stages.id(node)));
            }
            return None;
        }
        let text = attribute.text.replace("$goal", "{{ goal }}");
        let written = self.written(&attribute);
        let goal = match stages.of_graph("goal") {
            Some(goal) if written.as_deref() != Some(&*attribute.text) => goal.text.into_owned(),
            _ => "{{ goal }}".to_owned(),
        };
        // A prompt in a file of its own has no range in the pipeline.
        let place = |range: &Range<usize>| {
            let written = written.as_ref()?;
            let found = [range.start, range.end].map(|at| before_expansion(written, &goal, at));
            let range = found[0]..found[1];
            (written.replace("$goal", &goal) == text).then_some(range)
        };
        let mut diagnostics = Vec::new();
        for found in check(&text, variables) {
            let part = text.get(found.range.clone()).unwrap_or_default();
            let diagnostic = Diagnostic::from_rule(found.rule, found.message, attribute.span)
                .note(format!("in the prompt, at `{part}`"));
            diagnostics.push((found.range, diagnostic, found.hint));
        }
        for (read, mut diagnostic) in self.declared_values(node, &text) {
            diagnostic.span = attribute.span;
            let part = text.get(read.clone()).unwrap_or_default();
            let diagnostic = diagnostic.note(format!("in the prompt, at `{part}`"));
            diagnostics.push((read, diagnostic, Hint::default()));
        }
        for (range, diagnostic, hint) in diagnostics {
            let diagnostic = in_value(&self.source, diagnostic, place(&range), hint);
            self.reports.add(&self.source, diagnostic.node(stages.id(node)));
        }
        let mut template = TaskTemplate::new(stages.id(node), self.source.name(), text);
        let position = self.source.position(attribute.span.start);
        template
            .lines
            .iter_mut()
            .for_each(|line| *line = (position.line, position.column));
        Some(template)
    }
}

/// Returns the offset in a text for an offset in the same text with `$goal` replaced.
fn before_expansion(text: &str, goal: &str, at: usize) -> usize {
    let (mut before, mut end) = (0, 0);
    for (start, name) in text.match_indices("$goal") {
        let expanded = before + (start - end);
        if at <= expanded {
            break;
        }
        end = start + name.len();
        before = expanded + goal.len();
    }
    end + at.saturating_sub(before)
}

fn may_have_members(declared: &ValueType) -> bool {
    matches!(declared, ValueType::Any | ValueType::Object)
}

fn without_members(path: &str, key: &str, declared: &ValueType) -> Diagnostic {
    let message = format!(
        "nothing sets the variable `{path}`: `{key}` is declared as `{declared}`, which has no members"
    );
    Diagnostic::from_rule(&rules::TEMPLATE_VARIABLE, message, Span::default())
        .help(format!("write `{key}`, or declare it as `object`"))
}
