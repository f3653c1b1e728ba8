//! Handler kinds and the shapes that select them (Attractor 2.8, rule L13).

/// The entry point.
pub const START: &str = "start";
/// The exit point.
pub const EXIT: &str = "exit";
/// A model task.
pub const CODERGEN: &str = "codergen";
/// A human gate.
pub const WAIT_HUMAN: &str = "wait.human";
/// A routing node.
pub const CONDITIONAL: &str = "conditional";
/// A fan-out.
pub const PARALLEL: &str = "parallel";
/// A fan-in.
pub const FAN_IN: &str = "parallel.fan_in";
/// A shell command.
pub const TOOL: &str = "tool";
/// A supervisor of a child pipeline.
pub const MANAGER_LOOP: &str = "stack.manager_loop";
/// Another pipeline as one stage.
pub const SUBPIPELINE: &str = "subpipeline";

/// The kinds that the language itself defines.
pub const BUILT_IN: &[&str] = &[
    START,
    EXIT,
    CODERGEN,
    WAIT_HUMAN,
    CONDITIONAL,
    PARALLEL,
    FAN_IN,
    TOOL,
    MANAGER_LOOP,
    SUBPIPELINE,
];

const SHAPES: &[(&str, &str)] = &[
    ("Mdiamond", START),
    ("circle", START),
    ("Msquare", EXIT),
    ("doublecircle", EXIT),
    ("box", CODERGEN),
    ("hexagon", WAIT_HUMAN),
    ("diamond", CONDITIONAL),
    ("component", PARALLEL),
    ("tripleoctagon", FAN_IN),
    ("parallelogram", TOOL),
    ("house", MANAGER_LOOP),
    ("folder", SUBPIPELINE),
];

/// Returns the kind that a shape selects, or `None` for a shape that selects no kind.
pub fn of_shape(shape: &str) -> Option<&'static str> {
    SHAPES
        .iter()
        .find(|(name, _)| *name == shape)
        .map(|(_, kind)| *kind)
}

/// Returns the shapes that select a kind.
pub fn shapes_of(kind: &str) -> impl Iterator<Item = &'static str> {
    SHAPES
        .iter()
        .filter(move |(_, of)| *of == kind)
        .map(|(shape, _)| *shape)
}

/// Returns the shapes that select a kind, each with it.
///
/// ```
/// use orchestra_graph::kind;
/// assert!(kind::shapes().any(|shape| shape == ("hexagon", kind::WAIT_HUMAN)));
/// ```
pub fn shapes() -> impl Iterator<Item = (&'static str, &'static str)> {
    SHAPES.iter().copied()
}

/// Returns what the nodes of a kind are called, such as "human gate".
///
/// ```
/// use orchestra_graph::kind;
/// assert_eq!(kind::title(kind::WAIT_HUMAN), "human gate");
/// assert_eq!(kind::title("deploy"), "stage of the program");
/// ```
pub fn title(kind: &str) -> &'static str {
    match kind {
        START => "start",
        EXIT => "exit",
        CODERGEN => "model stage",
        WAIT_HUMAN => "human gate",
        CONDITIONAL => "routing node",
        PARALLEL => "fan-out",
        FAN_IN => "fan-in",
        TOOL => "tool stage",
        MANAGER_LOOP => "manager loop",
        SUBPIPELINE => "sub-pipeline node",
        _ => "stage of the program",
    }
}
