//! The picture in the documentation of a generated module: SVG with the feature `doc-picture`, else Mermaid.

use orchestra_graph::{Graph, PictureOptions, print_mermaid};

/// Returns the picture of a graph in Markdown. `address` returns the address for the id of a node.
pub(crate) fn markdown(graph: &Graph, address: &dyn Fn(&str) -> Option<String>) -> String {
    svg(graph, address).unwrap_or_else(|| mermaid(graph))
}

/// Returns whether a character changes the direction of text, for which rustc refuses comments.
pub(crate) fn changes_direction(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn mermaid(graph: &Graph) -> String {
    let diagram = print_mermaid(graph, &PictureOptions::default());
    format!("```mermaid\n{}\n```", diagram.trim_end().replace("```", "` ` `"))
}

/// Returns the picture as HTML without empty lines, at which Markdown would end it.
#[cfg(any(test, feature = "doc-picture"))]
fn svg(graph: &Graph, address: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let svg = orchestra_picture::svg_with_links(graph, &PictureOptions::default(), address).ok()?;
    let lines = svg.lines().filter(|line| !line.trim().is_empty());
    let mut html = String::from("<div style=\"overflow-x:auto\">");
    for line in lines {
        html.extend(line.chars().filter(|character| !changes_direction(*character)));
        html.push('\n');
    }
    html.push_str("</div>");
    Some(html)
}

#[cfg(not(any(test, feature = "doc-picture")))]
fn svg(_: &Graph, _: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use orchestra_graph::{Source, load};

    #[test]
    fn a_text_of_the_graph_cannot_end_the_block() {
        let text = "digraph { start -> a -> exit; a [label=\"``` <b>\\u202e</b> ```\"] }";
        let loaded = load(Source::new("a.dot", text), &Default::default());
        let mermaid = super::mermaid(&loaded.graph);
        assert_eq!(mermaid.matches("```").count(), 2, "{mermaid}");
        let link = |id: &str| Some(format!("nodes/{id}.html"));
        let picture = super::markdown(&loaded.graph, &link);
        assert!(
            picture.starts_with("<div") && picture.ends_with("</div>"),
            "{picture}"
        );
        assert!(!picture.contains("\n\n") && !picture.contains("<b>"), "{picture}");
        for id in ["start", "a", "exit"] {
            let address = format!("<a href=\"nodes/{id}.html\"><g class=\"node\"");
            assert!(picture.contains(&address), "{picture}");
        }
    }
}
