//! The checks, one file per rule (Attractor 7.2 and Orchestra's own).
//!
//! Each file declares its rule as `RULE`. Most rules are checked on the whole graph, by a [`Check`]; [`CHECKS`] lists
//! them. The others are reported while a pipeline is lowered and loaded; [`RULES`] lists them.

pub(crate) mod assertion_failed;
mod assertion_limits;
pub(crate) mod assertion_syntax;
pub(crate) mod assertion_unknown_name;
pub(crate) mod attribute_type;
pub(crate) mod attribute_without_effect;
pub(crate) mod child_cycle;
pub(crate) mod child_invalid;
pub(crate) mod child_missing;
pub(crate) mod child_nesting;
pub(crate) mod child_not_found;
pub(crate) mod condition_names;
mod condition_syntax;
pub(crate) mod condition_type;
pub(crate) mod conflicting_aliases;
pub(crate) mod contract_syntax;
pub(crate) mod contradictory_condition;
pub(crate) mod dead_end;
mod declared;
mod definition;
pub(crate) mod duplicate_choice_key;
pub(crate) mod duplicate_node_attribute;
pub(crate) mod edge_target_exists;
pub(crate) mod exit_no_outgoing;
pub(crate) mod failure_routed_as_success;
pub(crate) mod fan_in_without_parallel;
pub(crate) mod fidelity_valid;
pub(crate) mod foreach_invalid;
pub(crate) mod foreign_context_key;
pub(crate) mod goal_gate_bypass;
pub(crate) mod goal_gate_has_retry;
pub(crate) mod ignored_condition;
pub(crate) mod implicit_node;
mod input;
pub(crate) mod input_unmet;
pub(crate) mod join_policy_unsatisfiable;
pub(crate) mod join_policy_unused;
mod lint_rule;
pub(crate) mod maybe_unset;
pub(crate) mod no_path_to_exit;
pub(crate) mod node_id_case_clash;
pub(crate) mod non_exhaustive_conditions;
mod outcomes;
pub(crate) mod output_conflict;
pub(crate) mod output_schema;
pub(crate) mod output_schema_conflict;
pub(crate) mod parallel_nesting;
pub(crate) mod parallel_no_join;
pub(crate) mod parallel_reentry;
mod path_text;
pub(crate) mod prompt_file;
pub(crate) mod prompt_on_llm_nodes;
mod properties;
pub(crate) mod reachability;
pub(crate) mod reserved_node_id;
pub(crate) mod resume_breaks;
pub(crate) mod resume_unset;
pub(crate) mod retry_target_exists;
pub(crate) mod routing_dialect;
pub(crate) mod shadowed_edge;
pub(crate) mod shell_injection;
pub(crate) mod start_no_incoming;
pub(crate) mod start_node;
pub(crate) mod stylesheet_syntax;
pub(crate) mod success_only_into_exit;
pub(crate) mod terminal_node;
pub(crate) mod thread_id_without_full_fidelity;
pub(crate) mod tool_env_name;
pub(crate) mod tool_value;
pub(crate) mod type_known;
pub(crate) mod unknown_attribute;
pub(crate) mod unknown_default_choice;
pub(crate) mod unknown_outcome;
pub(crate) mod unquoted_value;
pub(crate) mod unset_key;
pub(crate) mod value_reads;

use crate::analysis::Analysis;
use crate::diagnostic::Diagnostic;
use crate::load_options::LoadOptions;
use crate::page::Page;
use crate::syntax::rules::LOSSY;
use definition::Check;
use input::Input;

pub use condition_names::ConditionNames;
pub use lint_rule::LintRule;
pub use maybe_unset::MissingValues;

/// The built-in checks, in the order in which they run.
static CHECKS: &[&Check] = &[
    &start_node::CHECK,
    &terminal_node::CHECK,
    &node_id_case_clash::CHECK,
    &edge_target_exists::CHECK,
    &implicit_node::CHECK,
    &reachability::CHECK,
    &start_no_incoming::CHECK,
    &exit_no_outgoing::CHECK,
    &condition_syntax::CHECK,
    &ignored_condition::CHECK,
    &routing_dialect::CHECK,
    &foreign_context_key::CHECK,
    &stylesheet_syntax::CHECK,
    &type_known::CHECK,
    &fidelity_valid::CHECK,
    &retry_target_exists::CHECK,
    &goal_gate_has_retry::CHECK,
    &prompt_on_llm_nodes::CHECK,
    &dead_end::CHECK,
    &no_path_to_exit::CHECK,
    &reserved_node_id::CHECK,
    &non_exhaustive_conditions::CHECK,
    &shadowed_edge::CHECK,
    &contradictory_condition::CHECK,
    &unknown_outcome::CHECK,
    &failure_routed_as_success::CHECK,
    &success_only_into_exit::CHECK,
    &goal_gate_bypass::CHECK,
    &duplicate_choice_key::CHECK,
    &unknown_default_choice::CHECK,
    &parallel_no_join::CHECK,
    &parallel_nesting::CHECK,
    &parallel_reentry::CHECK,
    &foreach_invalid::CHECK,
    &join_policy_unsatisfiable::CHECK,
    &join_policy_unused::CHECK,
    &attribute_without_effect::CHECK,
    &fan_in_without_parallel::CHECK,
    &thread_id_without_full_fidelity::CHECK,
    &child_missing::CHECK,
    &tool_value::CHECK,
    &shell_injection::CHECK,
    &unquoted_value::CHECK,
    &assertion_syntax::CHECK,
    &assertion_unknown_name::CHECK,
    &assertion_failed::CHECK,
    &contract_syntax::CHECK,
    &output_conflict::CHECK,
    &condition_type::CHECK,
    &maybe_unset::CHECK,
    &unset_key::CHECK,
];

/// The rules that lowering and loading report.
static RULES: &[&Page] = &[
    &attribute_type::RULE,
    &child_cycle::RULE,
    &child_invalid::RULE,
    &child_nesting::RULE,
    &child_not_found::RULE,
    &conflicting_aliases::RULE,
    &duplicate_node_attribute::RULE,
    &input_unmet::RULE,
    &output_schema::RULE,
    &output_schema_conflict::RULE,
    &prompt_file::RULE,
    &resume_breaks::RULE,
    resume_unset::RULE,
    &tool_env_name::RULE,
    &unknown_attribute::RULE,
];

/// Returns the rules of all files in this folder.
pub(crate) fn rules() -> impl Iterator<Item = &'static Page> {
    let checked = CHECKS.iter().map(|check| check.rule);
    checked.chain(RULES.iter().copied())
}

/// Maximum number of diagnostics listed per rule.
const MAX_REPORTED: usize = 1_000;

/// Returns whether statements may be lost because of an error.
pub(crate) fn is_lossy(diagnostic: &Diagnostic) -> bool {
    LOSSY.iter().any(|rule| rule.code == diagnostic.code)
}

/// Runs all checks.
pub(crate) fn run(analysis: &Analysis<'_>, options: &LoadOptions<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let whole = !diagnostics.iter().any(is_lossy);
    let input = Input::new(analysis, options.kinds.as_deref(), whole);
    for check in CHECKS {
        if check.whole && !whole {
            continue;
        }
        let before = diagnostics.len();
        (check.run)(&input, diagnostics);
        if diagnostics.len() > before + MAX_REPORTED {
            let more = diagnostics.len() - before - MAX_REPORTED;
            diagnostics.truncate(before + MAX_REPORTED);
            if let Some(last) = diagnostics.last_mut() {
                last.notes
                    .push(format!("{more} more of this kind are not listed"));
            }
        }
    }
    for rule in &options.rules {
        rule.check(analysis, diagnostics);
    }
}
