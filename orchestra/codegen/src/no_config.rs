//! The replacement for `config` without the feature `agents`; the parser rejects the option itself.

use orchestra_graph::Loaded;
use proc_macro2::TokenStream;

use crate::children::Family;
use crate::invocation::Declared;
use crate::pipeline::Origin;
use crate::reader::Reader;

/// An empty result.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) diagnostics: TokenStream,
    pub(crate) sources: String,
    pub(crate) tools: TokenStream,
}

/// Checks nothing.
pub(crate) fn check(_: &Declared, _: &Loaded, _: &Family<'_>, _: &Origin, _: &dyn Reader) -> Checked {
    Checked::default()
}
