//! The attributes that the language defines, in one table, with the types of their values.

mod default_value;
mod drawing;
mod family;
mod foreign;
mod key;
mod readers;
mod scope;
mod table;
mod value_type;
mod word_docs;
mod words;

pub use default_value::AttributeDefault;
pub use drawing::is_drawing_attribute;
pub use family::{ATTRIBUTE_FAMILIES, AttributeFamily};
pub(crate) use foreign::{FOREIGN, FOREIGN_CHILD, foreign_value};
pub use key::Key;
pub(crate) use readers::{EXCEPT, OF_ONE_KIND, OF_SOME_KINDS, OF_STAGES};
pub use scope::{Scope, Scopes};
pub use table::{ATTRIBUTES, AttributeSpec, Known};
pub use value_type::{AttributeType, key_pairs};
pub(crate) use words::FIDELITY_MODES;
