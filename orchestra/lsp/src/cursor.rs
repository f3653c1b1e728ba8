//! A position in a document, with the analysis of the document: the input of the features.

use std::sync::Arc;

use orchestra_graph::Span;

use crate::analysis::Analysis;
use crate::protocol::{Position, Range, Uri};
use crate::text::{Encoding, Text};

/// A pipeline document with its analysis, at the version that the client has.
pub(crate) struct Opened {
    pub(crate) uri: Uri,
    /// The absolute path.
    pub(crate) path: String,
    pub(crate) text: Arc<Text>,
    pub(crate) analysis: Arc<Analysis>,
    pub(crate) encoding: Encoding,
}

impl Opened {
    /// Returns the byte offset of a position.
    pub(crate) fn offset(&self, position: Position) -> u32 {
        self.text.offset(position, self.encoding)
    }

    /// Returns the range of a span of the document.
    pub(crate) fn range(&self, span: Span) -> Range {
        self.text.range(span, self.encoding)
    }
}
