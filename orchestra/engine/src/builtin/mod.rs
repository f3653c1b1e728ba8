//! The built-in handlers, which every engine has.

pub(crate) mod answer;
pub(crate) mod backend;
pub(crate) mod child;
pub(crate) mod codergen;
pub(crate) mod command_values;
pub(crate) mod environment;
pub(crate) mod fan_in;
pub(crate) mod manager;
pub(crate) mod output;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod subpipeline;
pub(crate) mod tool;
