//! Checks of the names of environment variables.

use orchestra_graph::GIT_VARIABLES;

use crate::decode::Diagnostics;
use crate::located::Located;

/// Reports names that are invalid, or that would lead git elsewhere.
pub(crate) fn variables(names: &[Located<String>], diagnostics: &mut Diagnostics) {
    for name in names {
        variable_name(name, diagnostics);
        if GIT_VARIABLES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            diagnostics.value(
                format!(
                    "`{}` leads git to another repository than that in which a command works",
                    name.value
                ),
                name.span,
                "take it away",
            );
        }
    }
}

/// Reports a name that is invalid.
pub(crate) fn variable_name(name: &Located<String>, diagnostics: &mut Diagnostics) {
    let head = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if !head
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        diagnostics.value(
            format!("`{}` is not a valid environment variable name", name.value),
            name.span,
            "use letters, digits and `_`, and begin with a letter or `_`",
        );
    }
}
