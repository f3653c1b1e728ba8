//! Options that commands about runs on a server do not have.

use crate::args::LimitOptions;
use crate::error::CliError;

/// Refuses options that have no effect on runs on a server. Each is given with whether it is set.
///
/// # Errors
///
/// Returns a usage error about the first one that is set.
pub(super) fn refuse(options: &[(bool, &str, &str)]) -> Result<(), CliError> {
    match options.iter().find(|(is_set, ..)| *is_set) {
        Some((_, option, help)) => Err(CliError::usage(
            "argument_conflict",
            format!("`{option}` cannot be used with `--on`"),
        )
        .help(*help)),
        None => Ok(()),
    }
}

/// Why a run cannot have a time limit.
pub(super) const NO_TIME_LIMIT: &str =
    "runs on a server have no time limit; `--max-cost` and `--max-tokens` limit what they use";

/// Returns whether any limit is given.
pub(super) fn has_limits(limits: &LimitOptions) -> bool {
    limits.max_cost.is_some() || limits.max_tokens.is_some() || limits.max_time.is_some()
}
