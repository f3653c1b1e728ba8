//! The limits of the runs of a pipeline: the constant `LIMITS`.

use std::fmt::Write as _;

use orchestra_graph::RunLimits;

use crate::code::Code;

/// Writes `LIMITS`. One literal holds all numbers, because each number by itself would be an expression.
pub(crate) fn write(code: &mut Code, limits: Option<&RunLimits>) {
    let mut numbers = String::new();
    let mut reasons: Vec<&str> = Vec::new();
    for limit in limits.iter().flat_map(|limits| &limits.nodes) {
        let known = reasons.iter().position(|reason| *reason == limit.reason);
        let reason = known.unwrap_or_else(|| {
            reasons.push(&limit.reason);
            reasons.len() - 1
        });
        let by_default = u8::from(limit.by_default);
        let _ = write!(
            numbers,
            "{} {} {reason} {by_default} ",
            limit.visits, limit.attempts
        );
    }
    let (visits, attempts) = limits.map_or((0, 0), |limits| (limits.visits, limits.attempts));
    code.doc("The type of [`LIMITS`].");
    code.push(
        "#[::core::prelude::v1::derive(::core::clone::Clone,::core::marker::Copy)]pub struct Limits(());",
    );
    code.doc("Upper bounds on the visits and attempts of a run. No run exceeds them.");
    code.push("pub const LIMITS:Limits=Limits(());");
    code.push("__orchestra::__private::limits!{Node,b\"")
        .push(&numbers);
    code.push("\",&[").strings(reasons).push("],");
    code.show(visits).push(",").show(attempts).push("}");
}
