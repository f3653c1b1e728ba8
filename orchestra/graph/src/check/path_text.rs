//! The path of a run as text.

use crate::check::properties::Properties;
use crate::flow::Path;
use crate::model::NodeIndex;

/// The number of nodes of a path that are shown. The middle of a longer path is left out.
const SHOWN: usize = 12;

/// Returns a path as text, with the way in which each node was left.
pub(crate) fn show(input: &Properties<'_>, path: &Path) -> String {
    let one = |(node, left): &(NodeIndex, Option<String>)| match left {
        Some(left) => format!("`{}` ({left})", input.id(*node)),
        None => format!("`{}`", input.id(*node)),
    };
    let parts: Vec<String> = if path.len() > SHOWN {
        let (head, tail) = (&path[..SHOWN / 2], &path[path.len() - SHOWN / 2..]);
        let head = head.iter().map(one);
        head.chain(["..".to_owned()])
            .chain(tail.iter().map(one))
            .collect()
    } else {
        path.iter().map(one).collect()
    };
    parts.join(" -> ")
}
