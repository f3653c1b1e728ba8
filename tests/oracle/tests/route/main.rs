//! The router, rule by rule: one table a rule, each row a graph, what is known, and where it must lead.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bounds;
mod edges;
mod ends;
mod failures;
mod first_match;
mod records;
mod routing_nodes;
mod support;
