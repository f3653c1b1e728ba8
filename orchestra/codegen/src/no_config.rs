//! The replacement for `config` without the feature `agents`; the parser rejects the option itself.

use orchestra_graph::Loaded;
use proc_macro2::TokenStream;

use crate::children::Descendants;
use crate::invocation::Declaration;
use crate::reader::Reader;
use crate::text::Origin;

/// An empty result.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) diagnostics: TokenStream,
    pub(crate) sources: String,
    pub(crate) tools: TokenStream,
}

/// Checks nothing.
pub(crate) fn check(_: &Declaration, _: &Loaded, _: &Descendants<'_>, _: &Origin, _: &dyn Reader) -> Checked {
    Checked::default()
}

/// Reports nothing.
pub(crate) fn resumed(_: &Declaration, _: &[(&Loaded, &Loaded)], _: &dyn Reader) -> TokenStream {
    TokenStream::new()
}
