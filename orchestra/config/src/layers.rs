//! Prompt layers: finding them in folders, decoding them, and resolving their bases.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use orchestra_graph::{Diagnostic, ReadError, Source, Span};
use serde::{Deserialize, Serialize};

use crate::built_in::BUILT_IN;
use crate::decode::{Decode, Diagnostics, FileRules, section, words};
use crate::files::{Files, join};
use crate::located::Located;
use crate::names::is_name;
use crate::reports::Reports;
use crate::rules;
use crate::suggestion::{Hint, in_yaml};
use crate::template::TaskTemplate;
use crate::tree::{self, MAX_BYTES, Node};

words! {
    /// The kind of a prompt layer.
    ///
    /// ```
    /// use orchestra_config::LayerKind;
    /// assert_eq!(LayerKind::Role.folder(), "roles");
    /// assert_eq!(LayerKind::from_name("task"), Some(LayerKind::Task));
    /// ```
    pub enum LayerKind {
        /// What the model is; its text begins the system prompt.
        Role = "role",
        /// Who it is: a role or another persona, with more.
        Persona = "persona",
        /// How it works and speaks.
        Personality = "personality",
        /// What it is to do: a template, which becomes the message to the model.
        Task = "task",
    }
}

impl LayerKind {
    /// The folder of its files within `prompts/`.
    pub const fn folder(self) -> &'static str {
        match self {
            LayerKind::Role => "roles",
            LayerKind::Persona => "personas",
            LayerKind::Personality => "personalities",
            LayerKind::Task => "tasks",
        }
    }

    /// Returns the keys of a layer of this kind, each with its description.
    ///
    /// ```
    /// use orchestra_config::LayerKind;
    /// assert!(LayerKind::Task.keys().iter().any(|(key, _)| *key == "template"));
    /// ```
    pub const fn keys(self) -> &'static [(&'static str, &'static str)] {
        const NAME: (&str, &str) = ("name", "The name of the layer, which is that of its file.");
        const DESCRIPTION: (&str, &str) = ("description", "A description for people; no model reads it.");
        match self {
            LayerKind::Role => &[
                NAME,
                DESCRIPTION,
                ("extends", "The role whose text comes before this one."),
                ("system", "The text, which begins the system prompt."),
            ],
            LayerKind::Persona => &[
                NAME,
                DESCRIPTION,
                (
                    "extends",
                    "The persona, or else the role, whose text comes before this one.",
                ),
                (
                    "modifiers",
                    "The text, which follows that of the role in the system prompt.",
                ),
            ],
            LayerKind::Personality => &[
                NAME,
                DESCRIPTION,
                ("extends", "The personality whose text comes before this one."),
                ("modifiers", "The text, which ends the system prompt."),
            ],
            LayerKind::Task => &[
                NAME,
                DESCRIPTION,
                (
                    "template",
                    "The message to the model: a template in the syntax of Jinja2, with the values of the run.",
                ),
            ],
        }
    }

    /// Returns the names of the layers of this kind that ship with Orchestra.
    ///
    /// ```
    /// use orchestra_config::LayerKind;
    /// assert!(LayerKind::Role.built_in().any(|name| name == "planner"));
    /// ```
    pub fn built_in(self) -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().filter_map(move |(path, _)| {
            let name = path.strip_prefix(self.folder())?.strip_prefix('/')?;
            name.strip_suffix(".yaml")
        })
    }

    /// Returns the file of a layer of this kind that ships with Orchestra.
    ///
    /// ```
    /// use orchestra_config::LayerKind;
    /// assert!(LayerKind::Role.built_in_file("planner").is_some_and(|text| text.starts_with("role:")));
    /// assert_eq!(LayerKind::Role.built_in_file("nobody"), None);
    /// ```
    pub fn built_in_file(self, name: &str) -> Option<&'static str> {
        let path = format!("{}/{name}.yaml", self.folder());
        let found = BUILT_IN.iter().find(|(own, _)| *own == path);
        found.map(|(_, text)| *text)
    }
}

/// A layer that is part of a prompt.
///
/// ```
/// use orchestra_config::{LayerKind, LayerUse};
/// let layer = LayerUse {
///     kind: LayerKind::Role,
///     name: "critic".to_owned(),
///     path: "prompts/roles/critic.yaml".to_owned(),
/// };
/// assert_eq!(layer.kind.word(), "role");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerUse {
    /// The kind of the layer.
    pub kind: LayerKind,
    /// The name of the layer.
    pub name: String,
    /// The file that holds the layer. The paths of built-in layers begin with `orchestra:`.
    pub path: String,
}

/// The rules for the form of layer files; all are the same.
const FILE_RULES: FileRules = FileRules {
    syntax: &rules::PROMPT_LAYER_INVALID,
    unknown_key: &rules::PROMPT_LAYER_INVALID,
    duplicate_key: &rules::PROMPT_LAYER_INVALID,
    value: &rules::PROMPT_LAYER_INVALID,
};

section! {
    struct RoleFile {
        pub name: Option<Located<String>>,
        pub description: Option<Located<String>>,
        pub extends: Option<Located<String>>,
        pub system: Option<Located<String>>,
    }
}

section! {
    struct ModifierFile {
        pub name: Option<Located<String>>,
        pub description: Option<Located<String>>,
        pub extends: Option<Located<String>>,
        pub modifiers: Option<Located<String>>,
    }
}

section! {
    struct TaskFile {
        pub name: Option<Located<String>>,
        pub description: Option<Located<String>>,
        pub template: Option<Located<String>>,
    }
}

/// A layer that was found and decoded.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) kind: LayerKind,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) source: Source,
    pub(crate) extends: Option<Located<String>>,
    pub(crate) text: Located<String>,
}

impl Layer {
    pub(crate) fn used(&self) -> LayerUse {
        LayerUse {
            kind: self.kind,
            name: self.name.clone(),
            path: self.path.clone(),
        }
    }

    /// Returns the layer as a task template.
    pub(crate) fn template(&self) -> TaskTemplate {
        let lines = self.lines().into_iter().map(|at| {
            let position = self.source.position(at);
            (position.line, position.column)
        });
        let mut template = TaskTemplate::new(&*self.name, &*self.path, &*self.text.value);
        template.lines = lines.collect();
        template
    }

    /// Returns the span in the file of a byte range of the text. In a folded or escaped line, returns an empty span at
    /// the start of the line.
    pub(crate) fn span(&self, range: std::ops::Range<usize>) -> Span {
        let before = self.text.get(..range.start).unwrap_or(&self.text.value);
        let line = before.matches('\n').count();
        let inside = before.rsplit('\n').next().unwrap_or_default().len();
        let length = u32::try_from(range.len()).unwrap_or(0);
        let Some(line) = self.lines().get(line).copied() else {
            return self.text.span;
        };
        let start = line.saturating_add(u32::try_from(inside).unwrap_or(0));
        let span = Span::new(start, start.saturating_add(length));
        let found = self.source.text().get(span.start as usize..span.end as usize);
        // Columns differ in a line that is folded or escaped.
        if found == self.text.get(range) {
            span
        } else {
            Span::new(line, line)
        }
    }

    /// Returns the offset in the file at which each line of the text begins. If the text is folded or escaped, the
    /// first line that is not found verbatim and all lines after it have the offset of the last line that was found.
    fn lines(&self) -> Vec<u32> {
        let file = self.source.text();
        let mut at = self.text.span.start as usize;
        let mut last = self.text.span.start;
        let mut lost = false;
        let mut lines = Vec::new();
        for line in self.text.split('\n') {
            if !lost && !line.trim().is_empty() {
                let rest = file.get(at..).unwrap_or_default();
                match rest.find(line) {
                    Some(found) => {
                        last = u32::try_from(at + found).unwrap_or(u32::MAX);
                        at += found + line.len();
                    }
                    None => lost = true,
                }
            }
            lines.push(last);
        }
        lines
    }
}

/// The reason why a layer is not available.
#[derive(Clone, Debug)]
pub(crate) enum LayerError {
    /// The layer does not exist; holds the paths that were searched.
    Missing(Vec<String>),
    /// The name would escape the folders.
    Name,
    /// The layer exists but is invalid, which has been reported.
    Invalid,
}

type FoundLayer = Result<Rc<Layer>, LayerError>;

/// The prompt layers of a project; finds each layer and reads it once.
pub(crate) struct Library<'f> {
    files: &'f Files<'f>,
    /// The folders to search, in this order.
    folders: Vec<String>,
    known: RefCell<BTreeMap<(LayerKind, String), FoundLayer>>,
}

impl<'f> Library<'f> {
    pub(crate) fn new(files: &'f Files<'f>, folders: Vec<String>) -> Library<'f> {
        Library {
            files,
            folders,
            known: RefCell::default(),
        }
    }

    /// Returns the layer of a name: the first that is found in the folders, else the built-in one.
    pub(crate) fn find(&self, kind: LayerKind, name: &str, reports: &mut Reports) -> FoundLayer {
        let key = (kind, name.to_owned());
        if let Some(found) = self.known.borrow().get(&key) {
            return found.clone();
        }
        let found = self.search(kind, name, reports);
        self.known.borrow_mut().insert(key, found.clone());
        found
    }

    fn search(&self, kind: LayerKind, name: &str, reports: &mut Reports) -> FoundLayer {
        if !is_name(name) {
            return Err(LayerError::Name);
        }
        let inside = format!("{}/{name}.yaml", kind.folder());
        let mut missed = Vec::new();
        for folder in &self.folders {
            let path = join(folder, &inside);
            if missed.contains(&path) {
                continue;
            }
            match self.files.read(&path) {
                Ok(bytes) => return read_layer(kind, name, &path, &bytes, reports),
                Err(ReadError::Missing) => missed.push(path),
                Err(error) => {
                    let why = match error {
                        ReadError::TooLong(_) => format!("it is longer than {MAX_BYTES} bytes"),
                        ReadError::Other(why) => why,
                        ReadError::Missing => String::new(),
                    };
                    let message = format!("the {kind} `{name}` cannot be read: {why}");
                    let diagnostic =
                        Diagnostic::from_rule(&rules::PROMPT_LAYER_INVALID, message, Span::default());
                    reports.add(&Source::new(path, ""), diagnostic);
                    return Err(LayerError::Invalid);
                }
            }
        }
        match BUILT_IN.iter().find(|(path, _)| *path == inside) {
            Some((path, text)) => {
                let path = format!("orchestra:{path}");
                read_layer(kind, name, &path, text.as_bytes(), reports)
            }
            None => Err(LayerError::Missing(missed)),
        }
    }

    /// Returns a layer with all layers that it extends, the innermost base first.
    pub(crate) fn chain(
        &self,
        kind: LayerKind,
        name: &str,
        reports: &mut Reports,
    ) -> Result<Vec<Rc<Layer>>, LayerError> {
        let mut chain = vec![self.find(kind, name, reports)?];
        loop {
            let Some(last) = chain.last().cloned() else {
                break;
            };
            let Some(base) = &last.extends else {
                break;
            };
            match self.base(&last, base, reports) {
                Ok(found) if chain.iter().any(|layer| Rc::ptr_eq(layer, &found)) => {
                    let mut names: Vec<&str> = chain.iter().map(|layer| layer.name.as_str()).collect();
                    names.push(&found.name);
                    let message = format!("the {} `{}` extends itself", found.kind, found.name);
                    let diagnostic = Diagnostic::from_rule(&rules::PROMPT_LAYER_INVALID, message, base.span);
                    let diagnostic = diagnostic
                        .note(names.join(" extends "))
                        .help("remove one `extends`");
                    reports.add(&last.source, diagnostic);
                    break;
                }
                Ok(found) => chain.push(found),
                Err(LayerError::Invalid) => break,
                Err(why) => {
                    let (diagnostic, hint) = self.missing(last.kind, base, base.span, &why);
                    reports.add(&last.source, in_yaml(&last.source, diagnostic, base, hint));
                    break;
                }
            }
        }
        chain.reverse();
        Ok(chain)
    }

    /// Returns the layer that a layer extends. A persona extends another persona or a role; if it extends its own name,
    /// that is the role.
    fn base(&self, layer: &Layer, base: &str, reports: &mut Reports) -> FoundLayer {
        if layer.kind != LayerKind::Persona {
            return self.find(layer.kind, base, reports);
        }
        let persona = if base == layer.name {
            Err(LayerError::Missing(Vec::new()))
        } else {
            self.find(LayerKind::Persona, base, reports)
        };
        match persona {
            Err(LayerError::Missing(mut missed)) => match self.find(LayerKind::Role, base, reports) {
                Err(LayerError::Missing(more)) => {
                    missed.extend(more);
                    Err(LayerError::Missing(missed))
                }
                found => found,
            },
            found => found,
        }
    }

    /// Returns the names of the layers of a kind.
    fn names(&self, kind: LayerKind) -> Vec<String> {
        let inside = |folder: &String| self.files.names(&join(folder, kind.folder()));
        let own = self.folders.iter().flat_map(inside);
        let own = own.filter_map(|name| Some(name.strip_suffix(".yaml")?.to_owned()));
        let mut names: Vec<String> = own.chain(kind.built_in().map(str::to_owned)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the diagnostic for a layer that does not exist, at the span that names it, with a hint.
    pub(crate) fn missing(
        &self,
        kind: LayerKind,
        name: &str,
        span: Span,
        why: &LayerError,
    ) -> (Diagnostic, Hint) {
        let rule = &rules::PROMPT_LAYER_MISSING;
        if matches!(why, LayerError::Name) {
            let diagnostic =
                Diagnostic::from_rule(rule, format!("`{name}` is not a valid {kind} name"), span);
            let help = "use letters, digits, `-`, `_` and `.`; a name cannot leave the folders of prompts";
            return (diagnostic, help.into());
        }
        let diagnostic = Diagnostic::from_rule(rule, format!("unknown {kind} `{name}`"), span);
        let names = self.names(kind);
        let near = orchestra_graph::did_you_mean(name, names.iter().map(String::as_str));
        let missed = match why {
            LayerError::Missing(missed) => missed.as_slice(),
            _ => &[],
        };
        let hint = match (near, missed.first()) {
            (Some(near), _) => Hint::meant(near),
            (None, Some(first)) => format!("write it into `{first}`").into(),
            (None, None) => format!("Orchestra comes with {}", names.join(", ")).into(),
        };
        match missed.is_empty() {
            true => (diagnostic, hint),
            false => (diagnostic.note(format!("looked for {}", missed.join(", "))), hint),
        }
    }
}

/// Reads and decodes the file of a layer.
pub(crate) fn read_layer(
    kind: LayerKind,
    name: &str,
    path: &str,
    bytes: &[u8],
    reports: &mut Reports,
) -> FoundLayer {
    let (source, tree) = tree::read(path, bytes, FILE_RULES.syntax);
    let mut diagnostics = Diagnostics::new(source.clone(), FILE_RULES);
    let layer = match tree {
        Ok(tree) => decode(kind, name, &source, &tree, &mut diagnostics),
        Err(diagnostic) => {
            diagnostics.list.push(diagnostic);
            None
        }
    };
    reports.add_all(&source, diagnostics.list);
    layer.map(Rc::new).ok_or(LayerError::Invalid)
}

fn decode(
    kind: LayerKind,
    name: &str,
    source: &Source,
    tree: &tree::Tree,
    diagnostics: &mut Diagnostics,
) -> Option<Layer> {
    let entries = diagnostics.entries(tree, "a map with one layer")?;
    let mut body = None;
    for (key, value) in entries {
        if key.text == kind.word() {
            body = Some((key, value));
        } else if LayerKind::from_name(&key.text).is_some() {
            diagnostics.value(
                format!("this holds a {}, not a {kind}", key.text),
                key.span,
                format!(
                    "move it to `{}`, or write `{kind}:`",
                    LayerKind::from_name(&key.text)?.folder()
                ),
            );
            return None;
        } else {
            diagnostics.unknown_key(key, &[kind.word()]);
        }
    }
    let Some((key, body)) = body else {
        if diagnostics.list.is_empty() {
            diagnostics.value(
                format!("there is no `{kind}:`"),
                tree.span,
                format!("begin with `{kind}:`"),
            );
        }
        return None;
    };
    if matches!(body.node, Node::Null) {
        diagnostics.value(
            format!("the {kind} is empty"),
            key.span,
            "write its text below it",
        );
        return None;
    }
    let (written_name, extends, text, text_key) = match kind {
        LayerKind::Role => {
            let file = RoleFile::decode(body, diagnostics)?;
            (file.name, file.extends, file.system, "system")
        }
        LayerKind::Persona | LayerKind::Personality => {
            let file = ModifierFile::decode(body, diagnostics)?;
            (file.name, file.extends, file.modifiers, "modifiers")
        }
        LayerKind::Task => {
            let file = TaskFile::decode(body, diagnostics)?;
            (file.name, None, file.template, "template")
        }
    };
    if let Some(written) = written_name
        && written.value != name
    {
        diagnostics.value(
            format!("the {kind} is called `{}`, its file `{name}.yaml`", written.value),
            written.span,
            format!("write `name: {name}`, or rename the file"),
        );
    }
    // A layer that extends another one may add no text.
    let text = match text.filter(|text| !text.trim().is_empty()) {
        Some(text) => text,
        None if extends.is_some() => Located::default(),
        None => {
            if !diagnostics.list.iter().any(Diagnostic::is_error) {
                diagnostics.value(
                    format!("the {kind} has no `{text_key}`"),
                    key.span,
                    format!("add `{text_key}: |`"),
                );
            }
            return None;
        }
    };
    Some(Layer {
        kind,
        name: name.to_owned(),
        path: source.name().to_owned(),
        source: source.clone(),
        extends,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_those_that_a_layer_may_have() {
        for kind in [
            LayerKind::Role,
            LayerKind::Persona,
            LayerKind::Personality,
            LayerKind::Task,
        ] {
            let text = format!("{kind}:\n  name: a\n  unknown: x\n");
            let mut reports = Reports::default();
            let _ = read_layer(kind, "a", "a.yaml", text.as_bytes(), &mut reports);
            let reports = reports.into_reports();
            let help = reports[0].diagnostics[0].help.as_deref().unwrap_or_default();
            let known: Vec<&str> = help.split('`').skip(1).step_by(2).collect();
            let keys: Vec<&str> = kind.keys().iter().map(|(key, _)| *key).collect();
            assert_eq!(known, keys, "{kind}: {help}");
        }
    }
}
