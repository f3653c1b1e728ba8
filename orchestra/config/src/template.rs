//! Task templates, which are rendered when a stage begins.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use orchestra_graph::Position;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::growth::{self, MAX_RENDERED};
use crate::limits::exceeded_limit;
use crate::scan::{Use, names};
use crate::values::TemplateValues;

/// Maximum number of steps of a template; a page of text takes a few hundred.
const FUEL: u64 = 200_000;

/// A task template, with the positions of its lines in the file that holds it.
///
/// ```
/// use orchestra_config::TaskTemplate;
/// use serde_json::json;
/// let task = TaskTemplate::new("triage", "triage.yaml", "Sort these reports:\n{{ reports }}");
/// let values = json!({"reports": "1. It is slow."});
/// assert_eq!(task.render(values.as_object().expect("a map"))?, "Sort these reports:\n1. It is slow.");
///
/// let error = task.render(&Default::default()).unwrap_err();
/// assert_eq!(error.to_string(), "triage.yaml:2:4: `reports` is undefined");
/// # Ok::<(), orchestra_config::TemplateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskTemplate {
    /// The name of the template.
    pub name: String,
    /// The file that holds the template.
    pub path: String,
    /// The text.
    pub text: String,
    /// The line and column of the file at which each line of the text begins.
    pub lines: Vec<(u32, u32)>,
}

impl TaskTemplate {
    /// Creates a template from a text that is a whole file.
    pub fn new(name: impl Into<String>, path: impl Into<String>, text: impl Into<String>) -> TaskTemplate {
        let text = text.into();
        TaskTemplate {
            name: name.into(),
            path: path.into(),
            lines: (1..=text.lines().count().max(1))
                .map(|line| (line as u32, 1))
                .collect(),
            text,
        }
    }

    /// Returns `true` if the template uses a variable.
    pub fn uses(&self, variable: &str) -> bool {
        let mut names = names(&self.text).into_iter();
        names.any(|name| {
            name.what == Use::Variable && name.path.first().is_some_and(|first| first == variable)
        })
    }

    /// Returns the IDs of the stages that the template uses as `stages.ID`. Returns `None` if it names stages by an
    /// expression and may use any of them.
    ///
    /// ```
    /// use orchestra_config::TaskTemplate;
    /// let stages = |text: &str| TaskTemplate::new("a", "a.yaml", text).stages();
    /// assert_eq!(stages("{{ stages.plan.response }}{{ goal }}"), Some(vec!["plan".to_owned()]));
    /// assert_eq!(stages("{{ stages[last_stage].response }}"), None);
    /// ```
    pub fn stages(&self) -> Option<Vec<String>> {
        let names = names(&self.text).into_iter();
        let used = names.filter(|name| {
            name.what == Use::Variable && name.path.first().is_some_and(|first| first == "stages")
        });
        used.map(|name| name.path.get(1).cloned()).collect()
    }

    /// Renders the template with the values of a context. A key with dots is a path of nested attributes:
    /// `human.gate.text`. [Built-in variables](crate::BUILT_IN_VARIABLES) that are not set are empty.
    ///
    /// # Errors
    ///
    /// Fails if a variable is not set, if an operation is invalid for its value, or if the template takes too many
    /// steps or grows too long.
    pub fn render(&self, values: &Map<String, Value>) -> Result<String, TemplateError> {
        self.render_with(&values.into())
    }

    /// Renders the template with values that may be read only when they are used.
    ///
    /// # Errors
    ///
    /// Fails under the same conditions as [`render`](TaskTemplate::render).
    pub fn render_with(&self, values: &TemplateValues) -> Result<String, TemplateError> {
        if let Some((range, message)) = exceeded_limit(&self.text) {
            return Err(self.error(range.start, message));
        }
        let environment = environment();
        let rendered = || {
            let template = environment.template_from_named_str("task", &self.text)?;
            let mut text = Bounded(Vec::new());
            template.render_captured_to(values.rendered(), &mut text)?;
            Ok(String::from_utf8_lossy(&text.0).into_owned())
        };
        // The template engine panics on some expressions, such as `[][::-1]`.
        match catch_unwind(AssertUnwindSafe(rendered)) {
            Ok(rendered) => rendered.map_err(|error| self.located(&error)),
            Err(_) => Err(self.error(
                0,
                "the template engine cannot evaluate it; write it in another way".to_owned(),
            )),
        }
    }

    fn located(&self, error: &Error) -> TemplateError {
        self.error(range_of(error, &self.text).start, message_of(error))
    }

    fn error(&self, offset: usize, message: String) -> TemplateError {
        let at = self.position(offset);
        TemplateError {
            message,
            path: self.path.clone(),
            line: at.line,
            column: at.column,
        }
    }

    /// Returns the position in the file of a byte offset in the text.
    fn position(&self, offset: usize) -> Position {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line = before.matches('\n').count();
        let inside = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let (line, column) = self
            .lines
            .get(line)
            .or(self.lines.last())
            .copied()
            .unwrap_or((1, 1));
        Position {
            line,
            column: column + u32::try_from(inside).unwrap_or(0),
        }
    }
}

/// The error of a template that cannot be rendered.
///
/// ```
/// use orchestra_config::TaskTemplate;
/// let endless = "{% for a in range(9000) %}{% for b in range(9000) %}.{% endfor %}{% endfor %}";
/// let error = TaskTemplate::new("loop", "loop.yaml", endless).render(&Default::default()).unwrap_err();
/// assert!(error.message.contains("too many steps"), "{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TemplateError {
    /// The message, without the position.
    pub message: String,
    /// The path of the file.
    pub path: String,
    /// The line, starting from 1.
    pub line: u32,
    /// The column in characters, starting from 1.
    pub column: u32,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TemplateError {
            message,
            path,
            line,
            column,
        } = self;
        write!(f, "{path}:{line}:{column}: {message}")
    }
}

impl std::error::Error for TemplateError {}

/// Returns the template engine, configured for task templates.
pub(crate) fn environment<'s>() -> Environment<'s> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_debug(true);
    // `debug` shows the whole context; `namespace` lets a loop double a text without bound.
    environment.remove_global("debug");
    environment.remove_global("namespace");
    growth::bound(&mut environment);
    environment
}

/// Returns the message of an error, without its position.
pub(crate) fn message_of(error: &Error) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => "the template takes too many steps".to_owned(),
        (ErrorKind::WriteFailure, _) => format!("the text grows longer than {MAX_RENDERED} bytes"),
        (_, Some(detail)) => detail.to_owned(),
        (kind, None) => kind.to_string(),
    }
}

/// Returns the byte range of an error, without leading whitespace and braces.
pub(crate) fn range_of(error: &Error, text: &str) -> Range<usize> {
    let range = error.range().filter(|range| text.get(range.clone()).is_some());
    let Some(range) = range else {
        let line = error.line().unwrap_or(1).saturating_sub(1);
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        return start..start;
    };
    let inside = text.get(range.clone()).unwrap_or_default();
    let opened = |c: char| c == '{' || c.is_whitespace();
    let start = range.start + (inside.len() - inside.trim_start_matches(opened).len());
    start.min(range.end)..range.end
}

/// A buffer that refuses to grow beyond [`MAX_RENDERED`] bytes.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_RENDERED {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_rendered_as_it_is() {
        let task = TaskTemplate::new(
            "a",
            "a.yaml",
            "{{ pr_diff }}|{{ a.b }}|{{ last_response }}|{{ human.gate.text }}",
        );
        let values = json!({"pr_diff": "<b>&", "a.b": [1], "human.gate.text": "yes"});
        let values = values.as_object().expect("a map");
        assert_eq!(task.render(values).as_deref(), Ok("<b>&|[1]||yes"));
    }

    #[test]
    fn a_text_that_grows_without_end_is_refused() {
        let task = TaskTemplate::new(
            "a",
            "a.yaml",
            "{% for i in range(5000) %}{{ 'abcdefgh' * 1000 }}{% endfor %}",
        );
        let error = task.render(&Map::new()).expect_err("forty megabytes");
        assert!(error.message.contains("grows longer"), "{error}");
    }
}
