//! The checks: one file a rule.

pub(crate) mod attribute_type;
pub(crate) mod conflicting_aliases;
pub(crate) mod duplicate_node_attribute;
pub(crate) mod unknown_attribute;
