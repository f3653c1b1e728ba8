//! The routing rule that chose the next step, as an identifier and as a description (rule R8).

/// The rule that decided (rules R1, R3, R7, R11, R12, H5, P2).
///
/// ```
/// use orchestra_graph::condition::Facts;
/// use orchestra_graph::{Rule, Source, load, route};
/// let text = "digraph { start -> a [weight=2]; start -> b; a -> exit; b -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let decision = route(&pipeline, pipeline.start, &Facts { outcome: "success", ..Facts::default() });
/// assert_eq!(decision.rule, Rule::Weight);
/// assert_eq!((decision.rule.word(), decision.rule.describe()), ("weight", "highest weight"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Step 1: a condition is true.
    Condition,
    /// Step 2: the edge has the preferred label.
    PreferredLabel,
    /// Step 3: the stage suggested the target.
    SuggestedNext,
    /// Step 4: the highest weight.
    Weight,
    /// Step 5: the lowest target id among equal weights.
    LowestTarget,
    /// There is only one edge that may be taken.
    OnlyEdge,
    /// The choice that was made at a human gate (rule H5).
    Choice,
    /// A partial success that no edge handles explicitly is routed as a success (rule R12).
    PartialAsSuccess,
    /// After a failure: an edge into a routing node, which then decides (rule R3).
    FailureToRouting,
    /// After a failure: the node's `retry_target` (rule R3).
    RetryTarget,
    /// After a failure: the node's `fallback_retry_target` (rule R3).
    FallbackRetryTarget,
    /// The first match in the order of the file (rule R11).
    FirstMatch,
    /// The branches of a fan-out have joined (rule P2).
    Join,
    /// An unsatisfied goal gate sends the run back (rule R7). The run decides this, not [`route`](crate::route()).
    GoalGate,
    /// The node defines how the run ends there (rule R6), or the dialect does (rule R11).
    End,
    /// There is no next step.
    Nothing,
}

/// Every rule must also be in the list.
const _: () = assert!(Rule::Nothing as usize + 1 == Rule::ALL.len());

impl Rule {
    const ALL: [Rule; 16] = [
        Rule::Condition,
        Rule::PreferredLabel,
        Rule::SuggestedNext,
        Rule::Weight,
        Rule::LowestTarget,
        Rule::OnlyEdge,
        Rule::Choice,
        Rule::PartialAsSuccess,
        Rule::FailureToRouting,
        Rule::RetryTarget,
        Rule::FallbackRetryTarget,
        Rule::FirstMatch,
        Rule::Join,
        Rule::GoalGate,
        Rule::End,
        Rule::Nothing,
    ];

    /// Returns the rule with this identifier, or `None` if there is none.
    ///
    /// ```
    /// use orchestra_graph::Rule;
    /// assert_eq!(Rule::parse("only_edge"), Some(Rule::OnlyEdge));
    /// assert_eq!(Rule::parse("any_edge"), None);
    /// ```
    pub fn parse(word: &str) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| rule.word() == word)
    }

    /// Returns a short human-readable description.
    pub const fn describe(self) -> &'static str {
        match self {
            Rule::Condition => "condition holds",
            Rule::PreferredLabel => "preferred label",
            Rule::SuggestedNext => "suggested by the stage",
            Rule::Weight => "highest weight",
            Rule::LowestTarget => "lowest target id",
            Rule::OnlyEdge => "only edge",
            Rule::Choice => "the choice at the gate",
            Rule::PartialAsSuccess => "condition holds, with the partial success taken as a success",
            Rule::FailureToRouting => "failure decided by routing node",
            Rule::RetryTarget => "retry_target",
            Rule::FallbackRetryTarget => "fallback_retry_target",
            Rule::FirstMatch => "first match",
            Rule::Join => "branches joined",
            Rule::GoalGate => "goal gate unsatisfied",
            Rule::End => "end of the pipeline",
            Rule::Nothing => "no way on",
        }
    }

    /// Returns the identifier, for machines.
    pub const fn word(self) -> &'static str {
        match self {
            Rule::Condition => "condition",
            Rule::PreferredLabel => "preferred_label",
            Rule::SuggestedNext => "suggested_next",
            Rule::Weight => "weight",
            Rule::LowestTarget => "lowest_target",
            Rule::OnlyEdge => "only_edge",
            Rule::Choice => "choice",
            Rule::PartialAsSuccess => "partial_as_success",
            Rule::FailureToRouting => "failure_to_routing",
            Rule::RetryTarget => "retry_target",
            Rule::FallbackRetryTarget => "fallback_retry_target",
            Rule::FirstMatch => "first_match",
            Rule::Join => "join",
            Rule::GoalGate => "goal_gate",
            Rule::End => "end",
            Rule::Nothing => "nothing",
        }
    }
}
