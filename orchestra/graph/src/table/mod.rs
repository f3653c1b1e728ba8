//! The table: the form of a pipeline that the engine runs. The table of a compiled pipeline is constant data, that of a
//! loaded pipeline is built from a graph.

mod build;
mod canonical;
mod condition;
mod content;
mod declare;
mod difference;
mod difference_text;
mod digits;
mod mapping;
mod merge;
mod pipeline;
mod policy;
mod predicates;
mod rows;
mod settings;
mod stage;
mod texts;
mod values;
mod words;

pub use condition::Condition;
pub use difference::{AttributeChange, Change, ChildDifference, Difference, Subject, What};
pub use mapping::Mapping;
pub use pipeline::{Child, Pipeline, SharedPipeline};
pub(crate) use policy::MAX_ITEMS;
pub use policy::{ErrorPolicy, FanOut, JoinPolicy, Retry};
pub use predicates::{Predicate, Predicates};
pub use rows::{AttributeRow, ConditionRow, EdgeRow, NodeRow};
pub use settings::Settings;
pub use stage::Stage;
pub use texts::{Text, Texts};
pub use values::{Constant, End, List, Role, Routing, Rows};
