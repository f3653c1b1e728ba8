//! The fixed values of attributes.

use super::table::Known;
use super::value_type::AttributeType;
use crate::kind;

/// The modes of fidelity (Attractor 5.4).
pub(crate) const FIDELITY_MODES: &[&str] = &[
    "full",
    "truncate",
    "compact",
    "summary:low",
    "summary:medium",
    "summary:high",
];

impl Known {
    /// Returns the fixed values of the attribute: its words, `true` and `false`, the shapes, the kinds of handlers that
    /// the language defines, or the modes of fidelity. Returns nothing for an attribute with other values.
    ///
    /// ```
    /// use orchestra_graph::Known;
    /// assert_eq!(Known::OnFailure.fixed_values(), ["fail", "route"]);
    /// assert!(Known::Shape.fixed_values().contains(&"hexagon"));
    /// assert!(Known::Prompt.fixed_values().is_empty());
    /// ```
    pub fn fixed_values(self) -> Vec<&'static str> {
        match (self, self.spec().ty) {
            (Known::Shape, _) => kind::shapes().map(|(shape, _)| shape).collect(),
            (Known::Type, _) => kind::BUILT_IN.to_vec(),
            (Known::Fidelity | Known::DefaultFidelity, _) => FIDELITY_MODES.to_vec(),
            (_, AttributeType::Word(words)) => words.to_vec(),
            (_, AttributeType::Boolean | AttributeType::Condition) => vec!["true", "false"],
            _ => Vec::new(),
        }
    }
}
