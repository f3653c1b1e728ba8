//! Places where names are written.

use orchestra_graph::{OccurrenceRole, Span, Symbol};

use crate::analysis::{DocumentKind, document_kind};
use crate::paths::{file_name, folder};

/// The maximum number of files of a kind that are searched.
pub(crate) const MAX_SEARCHED: usize = 1_000;
/// The maximum size of a file that is searched.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// A place where a name is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The absolute path of the file.
    pub(crate) path: String,
    pub(crate) span: Span,
    pub(crate) role: OccurrenceRole,
    /// The name. The paths in it are absolute.
    pub(crate) symbol: Symbol,
}

/// A name with the file in whose scope it is unique: a pipeline, or a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) symbol: Symbol,
    pub(crate) home: String,
}

/// Returns whether a symbol is a name of the configuration, rather than of one pipeline.
pub(crate) fn is_configured(symbol: &Symbol) -> bool {
    matches!(
        symbol,
        Symbol::Agent(_)
            | Symbol::Role(_)
            | Symbol::Persona(_)
            | Symbol::Personality(_)
            | Symbol::Task(_)
            | Symbol::Tool(_)
            | Symbol::Backend(_)
            | Symbol::Model(_)
            | Symbol::Provider(_)
            | Symbol::Repository(_)
    )
}

/// A name with its span.
pub(crate) type Word = (Symbol, Span, OccurrenceRole);

/// Returns the folder of prompt layers that contains a file.
pub(crate) fn layer_folder(path: &str) -> Option<&'static str> {
    let inner = folder(path);
    let kinds = ["roles", "personas", "personalities", "tasks"];
    let is_yaml = document_kind(path) == DocumentKind::Yaml;
    kinds
        .into_iter()
        .find(|kind| is_yaml && file_name(inner) == *kind)
}
