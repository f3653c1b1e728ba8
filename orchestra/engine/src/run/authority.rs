//! The check of the context values that stages write (rules K1, T2). All values from stages pass through it.

use std::collections::BTreeMap;

use orchestra_core::{EffectId, Outcome, Status};
use orchestra_graph::{KeyOwner, kind};
use serde_json::Value;

use crate::event::EventKind;
use crate::run::state::Run;
use crate::stage_end::Finished;

/// Maximum number of characters of a key in a warning.
const SHOWN: usize = 120;
/// Maximum number of keys in a warning.
const NAMED: usize = 1_000;
/// The code of a failure that violates the contract of the pipeline.
const OUTPUT_CONTRACT: &str = "output_contract";
/// The code of the warning.
const RESERVED_KEY: &str = "reserved_key";

impl Run {
    /// Returns the outcome that the run accepts from a stage. Removes values under reserved keys, with a warning,
    /// unless the engine recorded them.
    pub(crate) fn admit(&self, id: &EffectId, finished: Finished) -> Outcome {
        let Finished {
            mut outcome,
            recorded,
        } = finished;
        let runs_tool = self.pipeline.stage(id.node).kind() == kind::TOOL;
        let may = |key: &str, _: &Value| match KeyOwner::of_key(key) {
            None => true,
            Some(KeyOwner::ToolStage) => runs_tool && is_own_tool_key(key),
            Some(_) => false,
        };
        let refused = retain(&mut outcome.context_updates, may);
        self.warn_of_reserved(id, &refused);
        outcome.context_updates.extend(recorded);
        outcome
    }

    /// Returns the outcome that the run accepts from its workspace. `before` holds the context updates of the outcome
    /// that the workspace received; the workspace may return these unchanged.
    pub(crate) fn admit_from_workspace(
        &self,
        id: &EffectId,
        before: &BTreeMap<String, Value>,
        finished: Finished,
    ) -> Outcome {
        let Finished {
            mut outcome,
            recorded,
        } = finished;
        let may = |key: &str, value: &Value| {
            matches!(KeyOwner::of_key(key), None | Some(KeyOwner::Workspace))
                || before.get(key) == Some(value)
        };
        let refused = retain(&mut outcome.context_updates, may);
        self.warn_of_reserved(id, &refused);
        outcome.context_updates.extend(recorded);
        outcome
    }

    /// Returns the outcome that the contract of the pipeline allows: the outcome itself, or the failure that replaces it
    /// if it lacks a declared output, or sets a declared key that is not its output or to a value of another type (rule
    /// T2).
    pub(crate) fn enforce_contract(&self, id: &EffectId, mut outcome: Outcome) -> Outcome {
        let Some(contract) = &self.contract else {
            return outcome;
        };
        contract.rename_keys(&mut outcome.context_updates);
        let word = outcome.status.word();
        if matches!(outcome.status, Status::Fail | Status::Retry) {
            contract.retain_declared(id.node, word, &mut outcome.context_updates);
        }
        let Err(violations) = contract.check_outcome(id.node, word, &outcome.context_updates) else {
            return outcome;
        };
        let mut reason = format!("{OUTPUT_CONTRACT}: {violations}");
        if let Some(own) = &outcome.failure_reason {
            reason.push_str(&format!("; the stage itself failed: {own}"));
        }
        let mut failure = Outcome::fail(reason).with_code(OUTPUT_CONTRACT);
        failure.failure_category = outcome.failure_category;
        failure.output_digest = outcome.output_digest;
        outcome
            .context_updates
            .retain(|key, _| contract.type_of(key).is_none());
        failure.context_updates = outcome.context_updates;
        failure
    }

    /// Emits a warning about the reserved keys that a stage tried to write.
    pub(crate) fn warn_of_reserved(&self, id: &EffectId, keys: &[String]) {
        if keys.is_empty() || !self.sink.wanted() {
            return;
        }
        let shown = |key: &String| match key.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}...", &key[..end]),
            None => key.clone(),
        };
        let shown = keys.iter().take(NAMED).map(shown);
        let keys_shown: Vec<String> = shown.map(|key| self.redacted(&key).into_owned()).collect();
        let list: Vec<String> = keys_shown
            .iter()
            .map(|key| format!("`{}`", key.escape_debug()))
            .collect();
        let more = match keys.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        self.emit(EventKind::StageWarning {
            node: self.name(id.node),
            branch: (!id.branch.is_empty()).then(|| id.branch.name(&self.pipeline)),
            code: RESERVED_KEY.to_owned(),
            message: format!(
                "context values left out: {}{more}; only the engine writes these keys",
                list.join(", ")
            ),
            keys: keys_shown,
        });
    }
}

/// Returns whether a tool stage may write a key. The key must be `tool.NAME` in exactly this spelling, and `NAME` must
/// neither be a key that the engine writes nor be nested below one.
fn is_own_tool_key(key: &str) -> bool {
    let name = key.strip_prefix("tool.").unwrap_or_default();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
    let first = name.split('.').next().unwrap_or_default();
    !first.is_empty() && name.chars().all(plain) && !["output", "exit_code", "last_line"].contains(&first)
}

/// Removes the values that must not be written. Returns their keys.
fn retain(updates: &mut BTreeMap<String, Value>, may: impl Fn(&str, &Value) -> bool) -> Vec<String> {
    let mut refused = Vec::new();
    // Most stages only write what they may, and a walk is faster than `retain`.
    if updates.iter().all(|(key, value)| may(key, value)) {
        return refused;
    }
    updates.retain(|key, value| {
        let may = may(key, value);
        if !may {
            refused.push(key.clone());
        }
        may
    });
    refused
}
