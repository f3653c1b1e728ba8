//! The nodes that simulations and their results accept.

/// A node of a pipeline: a variant of the module's `Node`, or a string if the pipeline was loaded.
///
/// ```
/// use orchestra_testkit::{NodeOf, Simulation};
/// fn fails_for_good(simulation: Simulation, node: impl NodeOf<str>) -> Simulation {
///     simulation.outcome(node, ["fail"])
/// }
/// let run = fails_for_good(Simulation::load("digraph { start -> build -> exit }")?, "build").run();
/// assert_eq!(run.path().last(), Some("build"));
/// # Ok::<(), orchestra_testkit::SimulationError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a node of this pipeline",
    label = "not a node of it",
    note = "name the nodes of a compiled pipeline by its own `Node`, such as `Node::Build`; a loaded one has texts"
)]
pub trait NodeOf<N: ?Sized> {
    /// Returns the id of the node in the file.
    fn id(&self) -> &str;
}

impl<T: AsRef<str>> NodeOf<str> for T {
    fn id(&self) -> &str {
        self.as_ref()
    }
}

impl<N: AsRef<str>> NodeOf<N> for N {
    fn id(&self) -> &str {
        self.as_ref()
    }
}
