//! Checks of the names of environment variables.

use orchestra_graph::GIT_VARIABLES;

use crate::decode::Diagnostics;
use crate::located::Located;

/// Reports names that are invalid, or that would lead git elsewhere.
pub(crate) fn variables(names: &[Located<String>], diagnostics: &mut Diagnostics) {
    for name in names {
        diagnostics.variable_name(name);
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
