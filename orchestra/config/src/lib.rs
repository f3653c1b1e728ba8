//! The project configuration of Orchestra: providers, agents, prompt layers, tools, and what each stage of a pipeline
//! gets of them.
//!
//! Everything here is pure: files come through a reader that is passed in. The macro, the command line and the agents
//! all call this crate, so a configuration means the same to each of them.
