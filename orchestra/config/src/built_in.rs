//! The prompt layers that ship with Orchestra.

macro_rules! layers {
    ($($path:literal)*) => {
        /// The path of each layer within `prompts/`, with its text.
        pub(crate) const BUILT_IN: &[(&str, &str)] = &[$(($path, include_str!(concat!("../prompts/", $path)))),*];
    };
}

layers! {
    "personalities/balanced-decisive.yaml"
    "personalities/concise.yaml"
    "personalities/contrarian-precise.yaml"
    "personalities/encouraging.yaml"
    "personalities/pragmatic-opinionated.yaml"
    "personalities/thorough-skeptical.yaml"
    "personas/devils-advocate.yaml"
    "personas/meticulous-tester.yaml"
    "personas/pragmatic-implementer.yaml"
    "personas/principal-engineer.yaml"
    "personas/senior-security-engineer.yaml"
    "personas/tech-lead.yaml"
    "roles/adversarial-critic.yaml"
    "roles/architecture-reviewer.yaml"
    "roles/correctness-reviewer.yaml"
    "roles/implementer.yaml"
    "roles/performance-reviewer.yaml"
    "roles/planner.yaml"
    "roles/release-manager.yaml"
    "roles/review-synthesizer.yaml"
    "roles/security-engineer.yaml"
    "roles/security-reviewer.yaml"
    "roles/software-architect.yaml"
    "roles/synthesizer.yaml"
    "roles/technical-writer.yaml"
    "roles/test-engineer.yaml"
    "roles/triager.yaml"
    "tasks/critique-reviews.yaml"
    "tasks/implement-change.yaml"
    "tasks/plan-change.yaml"
    "tasks/review-pr-architecture.yaml"
    "tasks/review-pr-correctness.yaml"
    "tasks/review-pr-security.yaml"
    "tasks/synthesize-review.yaml"
    "tasks/triage-report.yaml"
    "tasks/write-documentation.yaml"
    "tasks/write-release-notes.yaml"
    "tasks/write-tests.yaml"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use orchestra_graph::render;

    use super::*;
    use crate::files::Files;
    use crate::layers::{LayerKind, Library};
    use crate::reports::Reports;
    use crate::template_check::check;
    use crate::variables::Variables;

    #[test]
    fn every_file_of_the_folder_is_known() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("prompts");
        let mut found = Vec::new();
        for kind in LayerKind::WORDS {
            let kind = LayerKind::from_name(kind).expect("a kind").folder();
            for entry in folder.join(kind).read_dir().expect("a folder") {
                let name = entry.expect("an entry").file_name();
                found.push(format!("{kind}/{}", name.to_string_lossy()));
            }
        }
        found.sort();
        assert_eq!(found, BUILT_IN.iter().map(|(path, _)| *path).collect::<Vec<_>>());
    }

    #[test]
    fn every_layer_is_sound() {
        let files = Files::new(None);
        let library = Library::new(&files, Vec::new());
        let mut reports = Reports::default();
        let mut variables = Variables::built_in();
        ["pr_diff", "report", "version", "changes"]
            .iter()
            .for_each(|key| variables.add(key));
        for (path, _) in BUILT_IN {
            let (folder, name) = path.split_once('/').expect("a folder");
            let name = name.strip_suffix(".yaml").expect("YAML");
            let mut kinds = LayerKind::WORDS
                .iter()
                .filter_map(|kind| LayerKind::from_name(kind));
            let kind = kinds.find(|kind| kind.folder() == folder).expect("a kind");
            let chain = library.chain(kind, name, &mut reports).expect("it is there");
            let last = chain.last().expect("itself");
            if kind == LayerKind::Task {
                assert_eq!(check(&last.text, &variables), [], "{path}");
            }
        }
        let text: String = reports.into_reports().iter().map(render::concise).collect();
        assert_eq!(text, "");
    }
}
