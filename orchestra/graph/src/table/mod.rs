//! The table: the form of a pipeline that the engine runs. The table of a compiled pipeline is constant data, that of a
//! loaded pipeline is built from a graph.

mod build;
mod canonical;
mod content;
mod difference;
mod difference_text;
mod mapping;
mod merge;
mod pipeline;
mod policy;
mod rows;
mod settings;
mod stage;

pub use difference::{AttributeChange, Change, ChildDifference, Difference, Subject, What};
pub use mapping::Mapping;
pub use pipeline::{Child, Pipeline, SharedPipeline};
pub use policy::{ErrorPolicy, FanOut, JoinPolicy, Retry};
pub use rows::{AttributeRow, ConditionRow, Constant, EdgeRow, End, List, NodeRow, Role, Rows, Test, Text};
pub use settings::{Routing, Settings};
pub use stage::Stage;
