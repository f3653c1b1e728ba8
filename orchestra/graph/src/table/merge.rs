//! Two lists that are shown as one, in the order of the newer.

/// A place in two lists that are shown as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Only in the old list.
    Removed(usize),
    /// Only in the new list.
    Added(usize),
    /// In both.
    Kept {
        /// Its place in the old list.
        old: usize,
        /// Its place in the new list.
        new: usize,
        /// Where it stood and stands, if it is one of the fewest whose move explains the new order.
        moved: Option<Behind>,
    },
}

/// The nearest element before one that is in both lists, in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    pub(super) old: Option<usize>,
    pub(super) new: Option<usize>,
}

/// Merges a list whose elements have these places in a new list of some length. What is gone follows what it followed.
pub(super) fn merged(places: &[Option<usize>], length: usize) -> Vec<Step> {
    let mut before = vec![None; length];
    let mut behind = Vec::with_capacity(places.len());
    let mut last = None;
    for (old, place) in places.iter().enumerate() {
        behind.push(last);
        if let Some(from) = place.and_then(|new| before.get_mut(new)) {
            *from = Some(old);
            last = Some(old);
        }
    }
    let kept: Vec<usize> = before.iter().flatten().copied().collect();
    let stays = longest_rising(&kept, places.len());
    let mut steps = Vec::with_capacity(places.len() + length);
    let is_gone = |at: &usize| places.get(*at).is_some_and(Option::is_none);
    let gone = |from: usize| (from..places.len()).take_while(is_gone).map(Step::Removed);
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

/// Marks the numbers of a longest rising part of a list of different numbers below a limit.
fn longest_rising(list: &[usize], limit: usize) -> Vec<bool> {
    // The smallest number at which a rising part of each length ends, and what stands before each number in its part.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; limit];
    for number in list {
        let length = ends.partition_point(|end| end < number);
        if let Some(place) = before.get_mut(*number) {
            *place = length.checked_sub(1).and_then(|at| ends.get(at)).copied();
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

    /// `-c` is gone, `+d` is new, `a!` has moved; elements are shown by their letters.
    fn shown(old: &str, new: &str) -> String {
        let places: Vec<Option<usize>> = old.chars().map(|letter| new.find(letter)).collect();
        let letter = |list: &str, at: usize| list.chars().nth(at).expect("inside");
        let steps = merged(&places, new.len()).into_iter().map(|step| match step {
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
