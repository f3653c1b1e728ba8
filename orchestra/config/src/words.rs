//! The words of templates and YAML files with their positions, for editors.

use std::ops::Range;

use orchestra_graph::{Source, Span};

use crate::layers::{LayerKind, read_layer};
use crate::reports::Reports;
use crate::rules;
use crate::scan::{Use, names};
use crate::tree::{Node, Tree, read};

/// A variable that a template uses, such as `stages.plan.response`.
///
/// ```
/// let found = orchestra_config::template_variables("Fix {{ stages['plan'].response | trim }}");
/// assert_eq!(found[0].path, ["stages", "plan", "response"]);
/// assert_eq!(found[0].parts[1], 15..19);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TemplateVariable {
    /// The name of the variable and of its members.
    pub path: Vec<String>,
    /// The byte range of each part of the path, without quotes.
    pub parts: Vec<Range<usize>>,
}

/// Returns the variables of a template in the order of the text, those that the template itself sets included.
pub fn template_variables(template: &str) -> Vec<TemplateVariable> {
    let variables = names(template)
        .into_iter()
        .filter(|name| name.what == Use::Variable);
    variables
        .map(|name| TemplateVariable {
            path: name.path,
            parts: name.parts,
        })
        .collect()
}

/// Returns the variables of the template in the file of a task, with their ranges in the file. Parts in lines that are
/// folded or escaped have empty ranges.
///
/// ```
/// let file = b"task:\n  template: |\n    Fix {{ stages.plan.response }}\n";
/// let found = orchestra_config::task_variables("prompts/tasks/fix.yaml", file);
/// assert_eq!(&file[found[0].parts[1].clone()], b"plan");
/// ```
pub fn task_variables(path: &str, bytes: &[u8]) -> Vec<TemplateVariable> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
    // The checks of the file report its errors.
    let mut reports = Reports::default();
    let Ok(layer) = read_layer(LayerKind::Task, name, path, bytes, &mut reports) else {
        return Vec::new();
    };
    let mut variables = template_variables(&layer.text.value);
    for variable in &mut variables {
        for part in &mut variable.parts {
            let span = layer.span(part.clone());
            *part = span.start as usize + mark(bytes)..span.end as usize + mark(bytes);
        }
    }
    variables
}

/// A key or a text of a YAML file.
///
/// ```
/// let words = orchestra_config::yaml_words(b"agents:\n  critic: {tools: [read_file]}\n");
/// let shown: Vec<String> = words.iter().map(|word| word.path.join("/")).collect();
/// assert_eq!(shown, ["agents", "agents/critic", "agents/critic/tools", "agents/critic/tools/0"]);
/// assert_eq!((words[3].text.as_str(), words[3].is_key), ("read_file", false));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct YamlWord {
    /// The keys that lead to the word, and the indices in lists. Of a key, it ends with the key itself.
    pub path: Vec<String>,
    /// The key or the text.
    pub text: String,
    /// The span in the file, without quotes. Empty if the word is folded or escaped.
    pub span: Span,
    /// `true` for a key.
    pub is_key: bool,
}

/// Returns the keys and texts of a YAML file in the order of the file; empty if it is invalid.
pub fn yaml_words(bytes: &[u8]) -> Vec<YamlWord> {
    let (source, tree) = read("", bytes, &rules::CONFIG_SYNTAX);
    let mut words = Vec::new();
    if let Ok(tree) = tree {
        add(&source, &tree, &mut Vec::new(), mark(bytes) as u32, &mut words);
    }
    words
}

/// Returns the length of the byte order mark, which the texts of the tree do not have.
fn mark(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 }
}

fn add(source: &Source, tree: &Tree, path: &mut Vec<String>, mark: u32, words: &mut Vec<YamlWord>) {
    match &tree.node {
        Node::Text(text) => words.push(word(source, text, tree.span, mark, path)),
        Node::List(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push(at.to_string());
                add(source, item, path, mark, words);
                path.pop();
            }
        }
        Node::Map(entries) => {
            for (key, value) in entries {
                path.push(key.text.clone());
                let key = word(source, &key.text, key.span, mark, path);
                words.push(YamlWord { is_key: true, ..key });
                add(source, value, path, mark, words);
                path.pop();
            }
        }
        Node::Null | Node::Boolean(_) | Node::Integer(_) | Node::Float(_) => {}
    }
}

fn word(source: &Source, text: &str, span: Span, mark: u32, path: &[String]) -> YamlWord {
    let found = source.slice(span).find(text);
    let (start, length) = found.map_or((0, 0), |at| (at as u32, text.len() as u32));
    let start = span.start + start + mark;
    YamlWord {
        path: path.to_vec(),
        text: text.to_owned(),
        span: Span::new(start, start + length),
        is_key: false,
    }
}
