//! In place of `config` where the feature `agents` is off; the option itself is refused when it is read.

use orchestra_graph::Loaded;
use proc_macro2::TokenStream;

use crate::children::Family;
use crate::invocation::Declared;
use crate::pipeline::Origin;
use crate::reader::Reader;

/// Nothing.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) faults: TokenStream,
    pub(crate) sources: String,
    pub(crate) tools: TokenStream,
}

/// Checks nothing.
pub(crate) fn check(_: &Declared, _: &Loaded, _: &Family<'_>, _: &Origin, _: &dyn Reader) -> Checked {
    Checked::default()
}
