//! Values with their spans.

use std::collections::BTreeMap;
use std::ops::Deref;

use orchestra_graph::Span;

/// A map from names to settings; the spans are those of the names.
pub type Names<T> = BTreeMap<String, Located<T>>;

/// A value of a file with its span.
///
/// Two located values are equal if their values are; spans are not compared.
///
/// ```
/// use orchestra_config::Configuration;
/// let (configuration, report) = Configuration::parse("orchestra.yaml", b"backend: direct\n");
/// let backend = configuration.backend.expect("it is set");
/// assert_eq!((backend.as_str(), report.source.slice(backend.span)), ("direct", "direct"));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// The bytes that hold the value; for an entry of a map, those of its key. Empty for a value that no file holds.
    pub span: Span,
}

impl<T> Located<T> {
    /// Creates a value with a span.
    pub const fn new(value: T, span: Span) -> Located<T> {
        Located { value, span }
    }
}

impl<T> From<T> for Located<T> {
    fn from(value: T) -> Located<T> {
        Located::new(value, Span::default())
    }
}

impl<T> Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Located<T>) -> bool {
        self.value == other.value
    }
}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}
