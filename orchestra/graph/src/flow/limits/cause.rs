//! The reasons for limits.

/// The reason why a node is visited no more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// No loop leads back to the node.
    Once,
    /// The visits of a node are limited.
    Node(u32),
    /// An edge can be taken only so often.
    Edge(u32),
    /// The goal gates can send a run back only so often.
    Reroutes,
    /// A parallel block is attempted again.
    Block(u32),
}
