//! The selection of a model's tools, and their names for the model.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use orchestra_graph::did_you_mean;

use crate::tool::{Tool, ToolRegistry, ToolSpec, canonical_name, configured_name};

/// Maximum length of a tool name that all providers accept.
const MAX_NAME_LENGTH: usize = 64;

/// Selects the tools of an agent: a base set and additions, optionally restricted to some of them.
///
/// Names are written as in configurations: `read-file`, `backend:run-tests`. Duplicate names are ignored.
///
/// ```
/// use orchestra_agent::{BuiltinTools, ToolRegistry, ToolSet, select};
/// let mut registry = ToolRegistry::default();
/// BuiltinTools.register(&mut registry);
/// let tools = select(&registry, &["read-file", "shell"], &["grep"], Some(&["grep", "read-file"]))?;
/// let names: Vec<String> = tools.iter().map(|tool| tool.spec().name).collect();
/// assert_eq!(names, ["read_file", "grep"]);
///
/// let error = select(&registry, &["read-fil"], &[], None).err().unwrap();
/// assert_eq!(error.to_string(), "unknown tool `read-fil`; did you mean `read-file`?");
/// # Ok::<(), orchestra_agent::SelectError>(())
/// ```
///
/// # Errors
/// Returns an error if a name of `base` or `additions` is not in the registry, or a name of `restriction` is in neither
/// of them.
pub fn select<N: AsRef<str>>(
    registry: &ToolRegistry,
    base: &[N],
    additions: &[N],
    restriction: Option<&[N]>,
) -> Result<Vec<Arc<dyn Tool>>, SelectError> {
    let mut chosen: Vec<(String, Arc<dyn Tool>)> = Vec::new();
    for name in base.iter().chain(additions) {
        let name = name.as_ref();
        let tool = registry.find(name).map_err(|near| SelectError {
            name: name.to_owned(),
            near,
            is_restriction: false,
        })?;
        let canonical = canonical_name(name);
        if !chosen.iter().any(|(known, _)| *known == canonical) {
            chosen.push((canonical, tool.clone()));
        }
    }
    if let Some(restriction) = restriction {
        let left: Vec<String> = restriction
            .iter()
            .map(|name| canonical_name(name.as_ref()))
            .collect();
        for name in &left {
            let mut known = chosen.iter().map(|(known, _)| known.as_str());
            if !known.clone().any(|known| known == name) {
                return Err(SelectError {
                    near: did_you_mean(name, &mut known).map(str::to_owned),
                    name: name.clone(),
                    is_restriction: true,
                });
            }
        }
        chosen.retain(|(name, _)| left.contains(name));
    }
    Ok(chosen.into_iter().map(|(_, tool)| tool).collect())
}

/// The error of an unknown tool name.
///
/// ```
/// use orchestra_agent::{ToolRegistry, select};
/// let error = select(&ToolRegistry::default(), &["shell"], &[], None).err().unwrap();
/// assert_eq!((error.name.as_str(), error.near), ("shell", None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct SelectError {
    /// The name as written.
    pub name: String,
    /// The most similar known name, if any.
    pub near: Option<String>,
    /// `true` if the name is one of the restriction.
    pub is_restriction: bool,
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_restriction {
            write!(
                f,
                "the restriction names `{}`, which is not among the tools that it restricts",
                self.name
            )?
        } else {
            write!(f, "unknown tool `{}`", self.name)?
        }
        match &self.near {
            Some(near) => write!(f, "; did you mean `{near}`?"),
            None => Ok(()),
        }
    }
}

/// The tools that a model may call, with their names for the model.
///
/// Providers accept letters, digits, `_` and `-` in a name, at most 64 characters. So the model calls `read-file` by
/// the name `read_file`, and `backend:run-tests` by `backend__run_tests`. A name that would be ambiguous or too long
/// ends with `-` and 16 hexadecimal digits of a hash, so that no two tools have the same name.
///
/// ```
/// use std::sync::Arc;
/// use orchestra_agent::{CommandTool, SelectedTools};
/// let tests = CommandTool::new("run-tests", "Runs the tests.", "cargo test").repository("backend");
/// let tools = SelectedTools::new([Arc::new(tests) as _]);
/// assert_eq!(tools.specs()[0].name, "backend__run_tests");
/// assert!(tools.get("backend__run_tests").is_some());
/// assert_eq!(tools.configured_name("backend__run_tests"), Some("backend:run-tests"));
/// ```
#[derive(Clone, Default)]
pub struct SelectedTools {
    tools: BTreeMap<String, (String, Arc<dyn Tool>)>,
    order: Vec<String>,
}

impl SelectedTools {
    /// Creates the names of tools for a model. Of two tools with the same configured name, the later one is used.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> SelectedTools {
        let mut selected = SelectedTools::default();
        for tool in tools {
            let configured = configured_name(&*tool);
            let name = model_name(&configured);
            if selected.tools.insert(name.clone(), (configured, tool)).is_none() {
                selected.order.push(name);
            }
        }
        selected
    }

    /// Returns the descriptions for the model, in the order of the tools.
    pub fn specs(&self) -> Vec<ToolSpec> {
        let tools = self.order.iter().filter_map(|name| Some((name, self.get(name)?)));
        tools
            .map(|(name, tool)| ToolSpec {
                name: name.clone(),
                ..tool.spec()
            })
            .collect()
    }

    /// Returns the tool with a name that the model uses.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|(_, tool)| tool)
    }

    /// Returns the configured name of the tool with a name that the model uses.
    pub fn configured_name(&self, name: &str) -> Option<&str> {
        self.tools.get(name).map(|(configured, _)| configured.as_str())
    }

    /// Returns the names that the model uses, in the order of the tools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }
}

impl fmt::Debug for SelectedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.order).finish()
    }
}

/// Returns the name for the model of a configured name. Different configured names have different names.
///
/// A plain name contains no `-`, and `__` only between repository and tool; every other name ends with `-` and digits.
fn model_name(configured: &str) -> String {
    let plain = configured.replace('-', "_").replacen(':', "__", 1);
    let parts = configured.split(':').collect::<Vec<_>>();
    let fits = |part: &&str| {
        let letters = part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        letters && !part.is_empty() && !part.contains("--") && !part.starts_with('-') && !part.ends_with('-')
    };
    if parts.len() <= 2 && parts.iter().all(fits) && plain.len() <= MAX_NAME_LENGTH {
        return plain;
    }
    let legal = plain
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let start: String = legal.take(MAX_NAME_LENGTH - 17).collect();
    format!("{start}-{:016x}", digits(configured))
}

/// Returns the FNV-1a hash of a text. Unlike the hashes of the standard library, it is the same in every build.
fn digits(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::model_name;

    #[test]
    fn names_for_models_are_legal_and_all_different() {
        let long = "x".repeat(70);
        let parts = [
            "a", "a-b", "a--b", "-a", "a-", "ä", "a.b", "", "A", "b", "a:b", "-", &long, "a b",
        ];
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for left in parts {
            for right in parts {
                for name in [
                    left.to_owned(),
                    format!("{left}:{right}"),
                    format!("{left}--{right}"),
                ] {
                    let model = model_name(&name);
                    assert!((1..=64).contains(&model.len()), "{name}: {model}");
                    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    assert!(model.chars().all(legal), "{name}: {model}");
                    let before = seen.insert(model.clone(), name.clone());
                    assert!(
                        before.as_ref().is_none_or(|before| *before == name),
                        "{before:?} and {name}: {model}"
                    );
                }
            }
        }
        assert_eq!(model_name("read-file"), "read_file");
        assert_eq!(model_name("backend:run-tests"), "backend__run_tests");
    }
}
