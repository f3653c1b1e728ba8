//! The merge of an old and a new list into one, in the order of the new list.

/// An element of the merged list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Only in the old list.
    Removed(usize),
    /// Only in the new list.
    Added(usize),
    /// In both.
    Kept {
        /// The index in the old list.
        old: usize,
        /// The index in the new list.
        new: usize,
        /// The old and the new predecessor, if the element is one of the fewest whose move explains the new order.
        moved: Option<Behind>,
    },
}

/// The indices of the predecessor in the old and in the new list, among the elements that are in both lists; `None` at
/// the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    pub(super) old: Option<usize>,
    pub(super) new: Option<usize>,
}

/// Merges an old list with a new list of the given length. `places` contains the index of each old element in the new
/// list. A removed element follows its old predecessor.
pub(super) fn merged(positions: &[Option<usize>], length: usize) -> Vec<Step> {
    let mut before = vec![None; length];
    let mut behind = Vec::with_capacity(positions.len());
    let mut last = None;
    for (old, position) in positions.iter().enumerate() {
        behind.push(last);
        if let Some(from) = position.and_then(|new| before.get_mut(new)) {
            *from = Some(old);
            last = Some(old);
        }
    }
    let kept: Vec<usize> = before.iter().flatten().copied().collect();
    let stays = longest_rising(&kept, positions.len());
    let mut steps = Vec::with_capacity(positions.len() + length);
    let is_gone = |at: &usize| positions.get(*at).is_some_and(Option::is_none);
    let gone = |from: usize| (from..positions.len()).take_while(is_gone).map(Step::Removed);
    steps.extend(gone(0));
    let mut last = None;
    for (new, old) in before.iter().enumerate() {
        let Some(old) = *old else {
            steps.push(Step::Added(new));
            continue;
        };
        let stays = stays.get(old).copied().unwrap_or_default();
        steps.push(Step::Kept {
            old,
            new,
            moved: (!stays).then(|| Behind {
                old: behind.get(old).copied().flatten(),
                new: last,
            }),
        });
        last = Some(new);
        steps.extend(gone(old + 1));
    }
    steps
}

/// Marks the numbers of a longest increasing subsequence of a list of distinct numbers below a limit.
fn longest_rising(list: &[usize], limit: usize) -> Vec<bool> {
    // `ends`: the smallest last number of a subsequence of each length. `before`: the predecessor of each number.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; limit];
    for number in list {
        let length = ends.partition_point(|end| end < number);
        if let Some(position) = before.get_mut(*number) {
            *position = length.checked_sub(1).and_then(|at| ends.get(at)).copied();
        }
        match ends.get_mut(length) {
            Some(end) => *end = *number,
            None => ends.push(*number),
        }
    }
    let mut marks = vec![false; limit];
    let mut at = ends.last().copied();
    while let Some(number) = at {
        if let Some(mark) = marks.get_mut(number) {
            *mark = true;
        }
        at = before.get(number).copied().flatten();
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merges two lists of letters: `-c` was removed, `+d` is new, `a!xy` has moved from behind `x` to behind `y`,
    /// where `^` is the beginning.
    fn shown(old: &str, new: &str) -> String {
        let positions: Vec<Option<usize>> = old.chars().map(|letter| new.find(letter)).collect();
        let letter = |list: &str, at: usize| list.chars().nth(at).expect("inside");
        let steps = merged(&positions, new.len()).into_iter().map(|step| match step {
            Step::Removed(at) => format!("-{}", letter(old, at)),
            Step::Added(at) => format!("+{}", letter(new, at)),
            Step::Kept {
                old: was,
                new: at,
                moved,
            } => {
                assert_eq!(letter(old, was), letter(new, at));
                let behind = |list, at: Option<usize>| at.map_or('^', |at| letter(list, at));
                let moved = moved.map(|by| format!("!{}{}", behind(old, by.old), behind(new, by.new)));
                format!("{}{}", letter(new, at), moved.unwrap_or_default())
            }
        });
        steps.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_gone_follows_what_it_followed() {
        assert_eq!(shown("xabyc", "acb"), "-x a c!ba b -y");
        assert_eq!(shown("ab", ""), "-a -b");
        assert_eq!(shown("", "ab"), "+a +b");
        assert_eq!(shown("abc", "adc"), "a -b +d c");
    }

    #[test]
    fn the_fewest_moves_explain_the_new_order() {
        assert_eq!(shown("abcde", "eabcd"), "e!d^ a b c d");
        assert_eq!(shown("abcde", "bcdea"), "b c d e a!^e");
        assert_eq!(shown("abc", "abc"), "a b c");
        assert_eq!(shown("ab", "ba"), "b!a^ a");
    }
}
