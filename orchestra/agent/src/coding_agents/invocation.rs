//! What a coding agent is started with.

use orchestra_config::{Access, AgentSettings, ReasoningEffort};

/// The settings of a stage, as far as they change how a coding agent is started.
#[derive(Clone, Debug)]
pub(crate) struct StartRequest<'a> {
    pub(crate) model: Option<&'a str>,
    pub(crate) provider: Option<&'a str>,
    pub(crate) effort: Option<ReasoningEffort>,
    pub(crate) access: Access,
    pub(crate) settings: AgentSettings,
    /// The session that is continued.
    pub(crate) session: Option<&'a str>,
}

impl StartRequest<'_> {
    pub(crate) fn is_isolated(&self) -> bool {
        self.settings == AgentSettings::None
    }

    pub(crate) fn may_write(&self) -> bool {
        self.access == Access::Write
    }
}

/// The arguments and variables of a coding agent. No shell reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: Vec<(&'static str, &'static str)>,
}

impl Invocation {
    pub(crate) fn new(arguments: &[&str]) -> Invocation {
        Invocation::default().with(arguments)
    }

    pub(crate) fn with(mut self, arguments: &[&str]) -> Invocation {
        self.arguments
            .extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    pub(crate) fn with_if(self, condition: bool, arguments: &[&str]) -> Invocation {
        if condition { self.with(arguments) } else { self }
    }

    /// Adds an option with its value, if there is one.
    pub(crate) fn option(self, name: &str, value: Option<&str>) -> Invocation {
        match value {
            Some(value) => self.with(&[name, value]),
            None => self,
        }
    }

    pub(crate) fn variable(mut self, name: &'static str, value: &'static str) -> Invocation {
        self.variables.push((name, value));
        self
    }

    pub(crate) fn variable_if(self, condition: bool, name: &'static str, value: &'static str) -> Invocation {
        if condition {
            self.variable(name, value)
        } else {
            self
        }
    }
}
