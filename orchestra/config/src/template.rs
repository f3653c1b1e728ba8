//! Task templates. They are checked with the pipeline and rendered when a stage begins.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use orchestra_graph::{Page, Position, did_you_mean};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::decode::suggestion;
use crate::growth;
use crate::rules;
use crate::scan::{Use, excess, names};
use crate::values::TemplateValues;

/// Maximum number of steps of a template; a page of text takes a few hundred.
const FUEL: u64 = 200_000;
/// Maximum length of a rendered template in bytes.
pub(crate) const MAX_RENDERED: usize = 4 << 20;

/// Maximum number of diagnostics reported for one template.
const MAX_FAULTS: usize = 20;

/// The variables that every task template may use. Variables that a run has not set yet are empty.
///
/// `prompt` is the `prompt` attribute of the node; it is appended to a template that does not use it.
///
/// ```
/// assert!(orchestra_config::BUILT_IN_VARIABLES.contains(&"goal"));
/// ```
pub const BUILT_IN_VARIABLES: &[&str] = &[
    "current_node",
    "goal",
    "label",
    "last_response",
    "last_stage",
    "node",
    "outcome",
    "preferred_label",
    "prompt",
    "run_id",
];

/// The context keys that the engine sets, besides the attributes of the graph under `graph.`. A key exists after the
/// stage that sets it has ended; `{% if human.gate is defined %}` tests for it.
///
/// ```
/// assert!(orchestra_config::ENGINE_KEYS.contains(&"parallel.results"));
/// ```
pub const ENGINE_KEYS: &[&str] = &[
    "human.gate.answered_by",
    "human.gate.label",
    "human.gate.selected",
    "human.gate.text",
    "parallel.fail_count",
    "parallel.fan_in.best_id",
    "parallel.fan_in.best_outcome",
    "parallel.results",
    "parallel.success_count",
    "stack.child.active_stage",
    "stack.child.completed_stages",
    "stack.child.elapsed_ms",
    "stack.child.failures",
    "stack.child.last_failure",
    "stack.child.outcome",
    "stack.child.retries",
    "stack.child.status",
    "tool.exit_code",
    "tool.last_line",
    "tool.output",
    "workspace.conflict_count",
    "workspace.conflicts",
    "workspace.merged",
    "workspace.unmerged",
];

/// The fields of `stages.ID` in a template: the result of the latest visit of a node.
///
/// `response` is the answer of a model or a person, `output` the standard output of a tool; if a stage has only one of
/// them, both fields hold it. `stderr` is the standard error of a tool. A text of more than 1 MiB is shortened to its
/// beginning and its end, with a mark between them. `file` is the file that holds the text, in a run that keeps its
/// files. All fields are empty before the node has ended.
///
/// ```
/// assert!(orchestra_config::STAGE_FIELDS.contains(&"response"));
/// ```
pub const STAGE_FIELDS: &[&str] = &[
    "failure_reason",
    "file",
    "notes",
    "outcome",
    "output",
    "response",
    "stderr",
];

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

    /// Returns whether the template uses a variable.
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
    /// `human.gate.text`. [Built-in variables](BUILT_IN_VARIABLES) that are not set are empty.
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
        if let Some((range, message)) = excess(&self.text) {
            return Err(self.diagnostic(range.start, message));
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
            Err(_) => Err(self.diagnostic(
                0,
                "the template engine cannot evaluate it; write it in another way".to_owned(),
            )),
        }
    }

    fn located(&self, error: &Error) -> TemplateError {
        self.diagnostic(range_of(error, &self.text).start, words_of(error))
    }

    fn diagnostic(&self, offset: usize, message: String) -> TemplateError {
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

/// The variables that the templates of a pipeline may use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    keys: BTreeSet<String>,
    /// The IDs of the nodes, for `stages.ID`.
    nodes: BTreeSet<String>,
}

impl Variables {
    pub(crate) fn built_in() -> Variables {
        let keys = BUILT_IN_VARIABLES.iter().chain(ENGINE_KEYS);
        Variables {
            keys: keys.map(|key| (*key).to_owned()).collect(),
            nodes: BTreeSet::new(),
        }
    }

    pub(crate) fn add(&mut self, key: &str) {
        if !key.trim().is_empty() {
            self.keys.insert(key.trim().to_owned());
        }
    }

    pub(crate) fn add_node(&mut self, id: &str) {
        self.nodes.insert(id.to_owned());
    }

    /// Returns whether a path is a key, lies within the value of a key, or is the beginning of a key.
    fn knows(&self, path: &str) -> bool {
        if let Some(stage) = path.strip_prefix("stages.") {
            let (id, field) = stage.split_once('.').unwrap_or((stage, "response"));
            return self.nodes.contains(id) && STAGE_FIELDS.contains(&field);
        }
        if path == "stages" {
            return true;
        }
        let within = |shorter: &str, longer: &str| {
            let rest = longer.strip_prefix(shorter);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.keys.iter().any(|key| within(key, path) || within(path, key))
    }

    fn help(&self, path: &str) -> String {
        if let Some(stage) = path.strip_prefix("stages.") {
            return self.help_of_stage(stage);
        }
        match did_you_mean(path, self.keys.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                let path = path.split('.').next().unwrap_or_default();
                format!(
                    "declare it: `inputs: [{path}]` for the pipeline in the configuration, `inputs=\"{path}\"` on the graph, \
                 or `output_keys` on the node whose answer holds it"
                )
            }
        }
    }
}

impl Variables {
    fn help_of_stage(&self, stage: &str) -> String {
        let (id, field) = stage.split_once('.').unwrap_or((stage, ""));
        if self.nodes.contains(id) {
            let near = did_you_mean(field, STAGE_FIELDS.iter().copied());
            return match near {
                Some(near) => format!("did you mean `stages.{id}.{near}`?"),
                None => format!("a stage has: {}", STAGE_FIELDS.join(", ")),
            };
        }
        match did_you_mean(id, self.nodes.iter().map(String::as_str)) {
            Some(near) if field.is_empty() => format!("did you mean `stages.{near}`?"),
            Some(near) => format!("did you mean `stages.{near}.{field}`?"),
            None => format!("the pipeline has no node `{id}`"),
        }
    }
}

/// A diagnostic of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateDiagnostic {
    pub(crate) rule: &'static Page,
    pub(crate) message: String,
    /// The byte range in the template.
    pub(crate) range: Range<usize>,
    pub(crate) help: String,
}

/// Checks a template and returns its diagnostics.
pub(crate) fn check(text: &str, variables: &Variables) -> Vec<TemplateDiagnostic> {
    if let Some((range, message)) = excess(text) {
        let help = "write it in parts; longer texts belong in the values of the run".to_owned();
        return vec![TemplateDiagnostic {
            rule: &rules::TEMPLATE_SYNTAX,
            message,
            range,
            help,
        }];
    }
    let environment = environment();
    let template = match environment.template_from_named_str("task", text) {
        Ok(template) => template,
        Err(error) => {
            return vec![TemplateDiagnostic {
                rule: &rules::TEMPLATE_SYNTAX,
                message: words_of(&error),
                range: range_of(&error, text),
                help: "templates are written as for Jinja2: `{{ variable }}`, `{% if .. %}`, `{% for .. %}`"
                    .to_owned(),
            }];
        }
    };
    let mut open = template.undeclared_variables(true);
    let roots = template.undeclared_variables(false);
    let global = |name: &str| environment.globals().any(|(known, _)| known == name);
    let mut diagnostics = Vec::new();
    let mut unmatched = open.clone();
    for name in names(text) {
        if diagnostics.len() == MAX_FAULTS {
            return diagnostics;
        }
        let word = name.dotted.as_str();
        let (kind, known): (_, Vec<&str>) = match name.what {
            Use::Variable => {
                unmatched.remove(word);
                let path = name.path.join(".");
                if open.contains(word) && !global(word) && !variables.knows(&path) {
                    // Report each variable once.
                    open.remove(word);
                    diagnostics.push(unknown_variable(&path, name.range, variables));
                }
                continue;
            }
            Use::Function => {
                unmatched.remove(word);
                if !roots.contains(word) || global(word) {
                    continue;
                }
                let known = environment.globals().map(|(name, _)| name).collect();
                ("function", known)
            }
            Use::Filter if !exists(&environment, word, "filter") => ("filter", FILTERS.to_vec()),
            Use::Test if !exists(&environment, word, "test") => ("test", TESTS.to_vec()),
            Use::Filter | Use::Test => continue,
        };
        diagnostics.push(TemplateDiagnostic {
            rule: &rules::TEMPLATE_SYNTAX,
            message: format!("unknown {kind} `{word}`"),
            range: name.range,
            help: suggestion(word, &known),
        });
    }
    // Report variables that the engine finds but the scan does not.
    for path in unmatched.into_iter().take(MAX_FAULTS) {
        if !global(&path) && !variables.knows(&path) {
            let start = text.find(path.split('.').next().unwrap_or_default()).unwrap_or(0);
            diagnostics.push(unknown_variable(&path, start..start, variables));
        }
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.range.start);
    diagnostics
}

fn unknown_variable(path: &str, range: Range<usize>, variables: &Variables) -> TemplateDiagnostic {
    TemplateDiagnostic {
        rule: &rules::TEMPLATE_VARIABLE,
        message: format!("nothing sets the variable `{path}`"),
        range,
        help: variables.help(path),
    }
}

/// Returns whether the engine has a filter or test of a name, by evaluating the engine's tests `filter` and `test`.
fn exists(environment: &Environment<'_>, name: &str, kind: &str) -> bool {
    let expression = environment.compile_expression_owned(format!("'{name}' is {kind}"));
    let answer = expression.and_then(|expression| expression.eval(()));
    answer.is_ok_and(|answer| answer.is_true())
}

/// The filters of the engine, for suggestions.
const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "zip",
];

/// The tests of the engine, for suggestions.
const TESTS: &[&str] = &[
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

fn environment<'s>() -> Environment<'s> {
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
fn words_of(error: &Error) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => "the template takes too many steps".to_owned(),
        (ErrorKind::WriteFailure, _) => format!("the text grows longer than {MAX_RENDERED} bytes"),
        (_, Some(detail)) => detail.to_owned(),
        (kind, None) => kind.to_string(),
    }
}

/// Returns the byte range of an error, without leading whitespace and braces.
fn range_of(error: &Error, text: &str) -> Range<usize> {
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
    #![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;
    use serde_json::json;

    fn diagnostics(text: &str) -> Vec<String> {
        let mut variables = Variables::built_in();
        ["pr_diff", "plan", "api.version"]
            .iter()
            .for_each(|key| variables.add(key));
        let diagnostics = check(text, &variables).into_iter();
        diagnostics
            .map(|diagnostic| format!("{} {}", &text[diagnostic.range], diagnostic.message))
            .collect()
    }

    #[test]
    fn known_variables_are_known_in_all_their_forms() {
        let text = "{{ goal }}{{ pr_diff | trim }}{{ plan.steps[0].title }}{{ human.gate.text }}{{ human['gate'] }}\
            {% for step in plan.steps %}{{ loop.index }}{{ step.title }}{% endfor %}{{ api.version.major }}\
            {% set x = 1 %}{{ x }}{{ range(3) | join(sep=goal) if goal is defined }}{{ plan.items() }}";
        assert_eq!(diagnostics(text), Vec::<String>::new());
    }

    #[test]
    fn unknown_names_are_told_where_they_stand() {
        for (text, diagnostic) in [
            ("a {{ pr_dif }}", "pr_dif nothing sets the variable `pr_dif`"),
            (
                "{{ human.gate.txt }}",
                "human.gate.txt nothing sets the variable `human.gate.txt`",
            ),
            (
                "{{ human['gaet'].text }}",
                "human['gaet'].text nothing sets the variable `human.gaet.text`",
            ),
            ("{{ x.items() }}", "x nothing sets the variable `x`"),
            (
                "{% for a in b %}{{ a }}{% endfor %}",
                "b nothing sets the variable `b`",
            ),
            ("{{ goal | uper }}", "uper unknown filter `uper`"),
            ("{% filter uper %}a{% endfilter %}", "uper unknown filter `uper`"),
            ("{{ goal is defnied }}", "defnied unknown test `defnied`"),
            ("{{ include('x') }}", "include unknown function `include`"),
            ("{{ debug() }}", "debug unknown function `debug`"),
        ] {
            assert_eq!(diagnostics(text), [diagnostic], "{text}");
        }
        let [diagnostic] = &*diagnostics("{% include 'x' %}") else {
            panic!("a template of its own reads no other");
        };
        assert!(diagnostic.contains("unknown statement include"), "{diagnostic}");
    }

    #[test]
    fn the_lists_for_suggestions_hold_what_the_engine_has() {
        let environment = environment();
        for name in FILTERS {
            assert!(exists(&environment, name, "filter"), "{name}");
        }
        for name in TESTS {
            assert!(exists(&environment, name, "test"), "{name}");
        }
    }

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
