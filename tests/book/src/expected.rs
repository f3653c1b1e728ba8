//! Output that a page shows, compared with that of a command.

/// Returns whether lines that a page shows are the output of a command. `..` stands for any part of a line, `.. ms` for
/// any duration, and a line `..` for any lines. Any white space is as good as another, because columns depend on what
/// they contain. The program writes results and progress to different streams, so the page may show the lines of
/// the two in any order that keeps the order of each.
///
/// ```
/// use orchestra_book_tests::matches;
/// assert!(matches(&["took .. ms", "done"], "done\n", "took    1.2 s\n"));
/// assert!(matches(&["first", ".."], "first\nsecond\n", "third\n"));
/// assert!(!matches(&["first"], "first\nsecond\n", ""));
/// ```
pub fn matches(expected: &[&str], output: &str, errors: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(squeezed);
        lines.filter(|line| !line.is_empty()).collect()
    };
    let expected: Vec<String> = expected
        .iter()
        .map(|line| squeezed(line).replace(".. ms", ".."))
        .filter(|line| !line.is_empty())
        .collect();
    let (output, errors) = (lines(output), lines(errors));
    // The states (lines of the output, lines of the errors) that the expected lines so far can have reached.
    let mut reached = vec![(0, 0)];
    for line in &expected {
        let mut next = Vec::new();
        for (o, e) in reached {
            if line == ".." {
                next.extend((o..=output.len()).flat_map(|o| (e..=errors.len()).map(move |e| (o, e))));
                continue;
            }
            if output.get(o).is_some_and(|actual| fits(line, actual)) {
                next.push((o + 1, e));
            }
            if errors.get(e).is_some_and(|actual| fits(line, actual)) {
                next.push((o, e + 1));
            }
        }
        next.sort_unstable();
        next.dedup();
        reached = next;
    }
    reached.contains(&(output.len(), errors.len()))
}

/// Returns the words of a line with single blanks between them.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether a line fits a pattern in which `..` stands for any text.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("..");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}
