//! `SUMMARY.md` lists every page, and every link leads to something.

#![allow(clippy::unwrap_used)]

use std::path::{Component, Path, PathBuf};

use orchestra_book_tests::{Page, book, chapters, headings, links, pages, root};

#[test]
fn the_summary_lists_every_page_once() {
    let mut listed = chapters(&book()).unwrap();
    listed.sort();
    assert_eq!(listed, pages(&book()).unwrap());
}

#[test]
fn every_page_has_one_title() {
    for name in pages(&book()).unwrap() {
        let page = Page::read(&book(), &name).unwrap();
        let titles = headings(&page)
            .into_iter()
            .filter(|heading| heading.level == 1)
            .count();
        assert_eq!(titles, 1, "{name}");
    }
}

#[test]
fn every_link_of_the_book_resolves() {
    let found: Vec<String> = pages(&book())
        .unwrap()
        .iter()
        .flat_map(|name| broken(&book(), name))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_link_of_the_other_documents_resolves() {
    let names = std::fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let names: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    assert!(names.len() > 5);
    let found: Vec<String> = names.iter().flat_map(|name| broken(&root(), name)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_link_to_nothing_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let text = "# A\n\n[b](b.md), [c](#c), [a](#a), [d][e], [this\nfile](a.md#a), `[x](y)`\n\n```text\n[x](y)\n```\n";
    std::fs::write(folder.path().join("a.md"), text).unwrap();
    let found = broken(folder.path(), "a.md");
    let ends: Vec<&str> = found.iter().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(
        ends,
        [
            "no file `b.md`",
            "no heading `c` in `a.md`",
            "the label `e` has no definition"
        ]
    );
}

/// Returns the links of a page that lead to nothing.
fn broken(folder: &Path, name: &str) -> Vec<String> {
    let page = match Page::read(folder, name) {
        Ok(page) => page,
        Err(problem) => return vec![problem],
    };
    let mut found = Vec::new();
    for link in links(&page) {
        if let Some(problem) = problem(folder, name, &link.target) {
            found.push(format!("{}: {problem}", page.position(link.line)));
        }
    }
    found
}

fn problem(folder: &Path, name: &str, target: &str) -> Option<String> {
    if let Some(label) = target.strip_prefix('?') {
        return Some(format!("the label `{label}` has no definition"));
    }
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        PathBuf::from(name)
    } else {
        normal(&Path::new(name).parent().unwrap_or(Path::new("")).join(file))
    };
    let shown = path.display();
    if !folder.join(&path).exists() {
        return Some(format!("no file `{shown}`"));
    }
    // A page of the book is published without the files around it.
    if folder.ends_with("book/src") && path.starts_with("..") {
        return Some(format!(
            "`{target}` is outside of the book; use the address of the repository"
        ));
    }
    if fragment.is_empty() || path.extension().is_none_or(|ending| ending != "md") {
        return None;
    }
    let page = Page::read(folder, &path.to_string_lossy()).ok()?;
    let known = headings(&page).iter().any(|heading| heading.id == fragment);
    if known {
        return None;
    }
    let mut problem = format!("no heading `{fragment}` in `{shown}`");
    if file.is_empty() && shown.to_string().starts_with("reference/") {
        problem +=
            "; a link to another section of REFERENCE.md is written `[text][anchor]`, see CONTRIBUTING.md";
    }
    Some(problem)
}

/// Returns a path without `.` and `..`, as far as possible.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if normal.file_name().is_some() => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

#[test]
fn every_command_that_the_text_names_exists() {
    let help = std::fs::read_to_string(book().join("reference/command-line.md")).unwrap();
    let (mut unknown, mut seen) = (Vec::new(), 0);
    for name in pages(&book()).unwrap() {
        let page = Page::read(&book(), &name).unwrap();
        for (at, line) in page.lines.iter().enumerate() {
            for span in line.split('`').skip(1).step_by(2) {
                let Some(call) = span.strip_prefix("orchestra ") else {
                    continue;
                };
                seen += 1;
                if let Some(word) = missing(&help, call) {
                    unknown.push(format!("{}: `{span}`: no `{word}`", page.position(at + 1)));
                }
            }
        }
    }
    assert!(seen > 30, "only {seen} commands were found");
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert_eq!(missing(&help, "resume last --retry"), None);
    assert_eq!(missing(&help, "resume last --retyr"), Some("--retyr"));
    assert_eq!(missing(&help, "resme last"), Some("resme"));
}

/// Returns the command or the option of a call that the help of the program does not have.
fn missing<'a>(help: &str, call: &'a str) -> Option<&'a str> {
    let mut words = call.split_whitespace();
    let command = words.next()?;
    if command.starts_with('-') || command.chars().all(char::is_uppercase) {
        return None;
    }
    let Some((_, section)) = help.split_once(&format!("\n## orchestra {command}\n")) else {
        return Some(command);
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    let options = words.filter(|word| word.starts_with("--"));
    let mut options = options.map(|word| word.split('=').next().unwrap_or(word));
    options
        .find(|option| !section.contains(&format!("{option} ")) && !section.contains(&format!("{option}\n")))
}
