//! The generated tests of a pipeline: one for each edge and each jump (rule V5).

use orchestra_graph::{Loaded, did_you_mean};
use proc_macro2::{Ident, TokenStream};

use crate::code::Code;
use crate::names::{NameScope, snake};
use crate::report;

/// Maximum number of targets with a test of their own.
const MAX_TESTS: usize = 200;

/// The option `paths` of `pipeline!`.
#[derive(Clone, Default)]
pub(crate) struct Paths {
    /// The targets that need not be found.
    pub(crate) allow: Vec<Ident>,
}

impl Paths {
    /// Returns the generated tests as code, and errors for unknown names.
    pub(crate) fn write(&self, loaded: &Loaded) -> (String, TokenStream) {
        let mut code = Code::default();
        let Some(targets) = loaded.path_targets() else {
            return (code.text, TokenStream::new());
        };
        let mut scope = NameScope::default();
        let names: Vec<String> = targets
            .iter()
            .map(|target| scope.claim(snake(&target.name)))
            .collect();
        code.push("__orchestra::__private::paths!{::core::env!(\"CARGO_MANIFEST_DIR\"),[");
        let named = |ident: &Ident| {
            let name = ident.to_string();
            let at = names.iter().position(|known| *known == name);
            at.and_then(|at| targets.get(at))
        };
        let allowed = self.allow.iter().filter_map(named);
        code.strings(allowed.map(|target| &*target.name)).push("],");
        if targets.len() > MAX_TESTS {
            code.push("every_path");
        } else {
            for (target, name) in targets.iter().zip(&names) {
                code.push(name).push("=").string(&target.name).push(",");
            }
        }
        code.push("}");
        (code.text, self.unknown(&names))
    }

    /// Returns errors for names that are none of a target.
    fn unknown(&self, names: &[String]) -> TokenStream {
        let mut errors = TokenStream::new();
        for ident in &self.allow {
            let name = ident.to_string();
            if names.contains(&name) {
                continue;
            }
            let near = did_you_mean(&name, names.iter().map(String::as_str));
            let help = match (near, names.first()) {
                (Some(near), _) => format!("; did you mean `{near}`?"),
                (None, Some(first)) => format!("; a target is named like its test, such as `{first}`"),
                (None, None) => String::new(),
            };
            let text = format!("no target has the name `{name}`{help}");
            errors.extend(report::error(&text, (ident.span(), ident.span())));
        }
        errors
    }
}
