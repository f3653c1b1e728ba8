//! Any other agent that writes an event in each line.

use serde_json::Value;

use crate::coding_agents::event::{AgentEvent, AgentParser, AgentUsage, UsageScope, number};
use crate::model::TokenUsage;

/// Where the events of an agent hold what.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LinePointers {
    /// The fields of the event that ends the work.
    pub(crate) last: Vec<(String, Value)>,
    pub(crate) result: String,
    pub(crate) session: Option<String>,
    pub(crate) input_tokens: Option<String>,
    pub(crate) output_tokens: Option<String>,
    pub(crate) cost: Option<String>,
}

#[derive(Debug)]
pub(crate) struct LineParser {
    pointers: LinePointers,
    session: Option<String>,
}

impl LineParser {
    pub(crate) fn new(pointers: LinePointers) -> LineParser {
        LineParser {
            pointers,
            session: None,
        }
    }

    fn is_last(&self, line: &Value) -> bool {
        let mut fields = self.pointers.last.iter();
        fields.all(|(name, value)| line.get(name) == Some(value))
    }

    fn usage(&self, line: &Value) -> Option<AgentUsage> {
        let pointers = &self.pointers;
        let cost = pointers
            .cost
            .as_ref()
            .and_then(|pointer| line.pointer(pointer)?.as_f64());
        if pointers.input_tokens.is_none() && pointers.output_tokens.is_none() && cost.is_none() {
            return None;
        }
        let tokens = |pointer: &Option<String>| pointer.as_ref().map_or(0, |pointer| number(line, pointer));
        Some(AgentUsage {
            tokens: TokenUsage {
                input: tokens(&pointers.input_tokens),
                output: tokens(&pointers.output_tokens),
                ..TokenUsage::default()
            },
            cost,
            scope: UsageScope::Program,
        })
    }
}

impl AgentParser for LineParser {
    fn event(&mut self, line: &Value) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        let session = self.pointers.session.as_ref();
        let session = session.and_then(|pointer| line.pointer(pointer)?.as_str());
        if let Some(session) = session.filter(|session| self.session.as_deref() != Some(session)) {
            self.session = Some(session.to_owned());
            events.push(AgentEvent::Session(session.to_owned()));
        }
        if !self.is_last(line) {
            return events;
        }
        events.extend(self.usage(line).map(AgentEvent::Usage));
        let answer = match line.pointer(&self.pointers.result) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        if line.get("is_error") == Some(&Value::Bool(true)) {
            events.push(AgentEvent::failed(answer));
        } else {
            events.extend([AgentEvent::Text(answer), AgentEvent::Ended]);
        }
        events
    }
}
