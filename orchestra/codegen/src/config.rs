//! `config = "orchestra.yaml"`: agents, models, tools and prompts are resolved at build time, by the same resolver as
//! at run time, and the files that were read are compiled in.

use std::collections::BTreeMap;

use orchestra_config::{Project, Resolution, ResolveOptions};
use orchestra_graph::{Limits, Loaded, Report};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{LitStr, Type};

use crate::children::Descendants;
use crate::code::Code;
use crate::invocation::Declaration;
use crate::reader::{Children, Reader};
use crate::text::{Origin, include, location_of, unreadable};
use crate::{krate, report};

/// The result of checking a pipeline against its configuration.
#[derive(Default)]
pub(crate) struct Checked {
    /// The diagnostics of the configuration, of its files, and of their use in the pipeline.
    pub(crate) diagnostics: TokenStream,
    /// The code of `CONFIG`; empty if the pipeline has no configuration.
    pub(crate) sources: String,
    /// The constants that look up tools among those of the program.
    pub(crate) tools: TokenStream,
}

/// Resolves a pipeline and its children with the declared configuration.
pub(crate) fn check(
    declaration: &Declaration,
    loaded: &Loaded,
    descendants: &Descendants<'_>,
    origin: &Origin,
    reader: &dyn Reader,
) -> Checked {
    let mut checked = Checked::default();
    let options = &declaration.options;
    let Some(literal) = &options.config else {
        if let Some(tools) = &options.tools {
            let text =
                "`tools = ..` says which tools of a configuration exist; add `config = \"orchestra.yaml\"`";
            checked.diagnostics = report::error(text, krate::ends(tools));
        }
        return checked;
    };
    let location = (literal.span(), literal.span());
    let name = match found(literal, reader) {
        Ok(name) => name,
        Err(message) => {
            checked.diagnostics = report::error(&message, location);
            return checked;
        }
    };
    let files = Children(reader);
    let project = Project::load(&name, &files);
    let resolve_options = ResolveOptions {
        reader: Some(&files),
        ..ResolveOptions::default()
    };
    let resolve = |loaded: &Loaded| project.resolve_graph(&loaded.analysis(), &resolve_options);
    let mut collector = Collector {
        location,
        tools: options.tools.as_ref(),
        krate: krate::path(options.krate.as_ref()),
        reports: Vec::new(),
        files: BTreeMap::from([(name.clone(), ())]),
        checked,
    };
    collector.add(resolve(loaded), loaded.source.name(), |span| origin.spans(span));
    for descendant in descendants.all() {
        let named = origin.spans(descendant.named);
        let loaded = &descendant.child.loaded;
        collector.add(resolve(loaded), loaded.source.name(), |_| named);
    }
    let mut checked = collector.checked;
    checked.sources = sources(&name, collector.files.into_keys(), reader);
    checked
}

/// Returns the errors for the declared values that templates read, although waiting runs of a locked version may lack
/// them. The files were checked before.
pub(crate) fn resumed(
    declaration: &Declaration,
    pairs: &[(&Loaded, &Loaded)],
    reader: &dyn Reader,
) -> TokenStream {
    let mut diagnostics = TokenStream::new();
    let Some(literal) = &declaration.options.config else {
        return diagnostics;
    };
    let Ok(name) = found(literal, reader) else {
        return diagnostics;
    };
    let files = Children(reader);
    let project = Project::load(&name, &files);
    let options = ResolveOptions {
        reader: Some(&files),
        ..ResolveOptions::default()
    };
    let location = (literal.span(), literal.span());
    for (locked, today) in pairs {
        for report in project.resumed_reads(locked, today, &options) {
            diagnostics.extend(report::first(&report, location, |_| location));
        }
    }
    diagnostics
}

/// Returns the name of the configuration relative to the package. Fails with a message if the file cannot be read.
fn found(literal: &LitStr, reader: &dyn Reader) -> Result<String, String> {
    let (path, name, beside) = location_of(literal, reader);
    let limit = Limits::default().bytes as u64;
    match reader.read(&path, limit) {
        Ok(_) => Ok(name),
        Err(error) => Err(unreadable(&name, &path, beside, &error, limit, reader)),
    }
}

/// A collector of the results of several resolutions.
struct Collector<'d> {
    location: (Span, Span),
    tools: Option<&'d Type>,
    krate: TokenStream,
    /// The texts already reported; the diagnostics of the configuration come with each pipeline.
    reports: Vec<String>,
    files: BTreeMap<String, ()>,
    checked: Checked,
}

impl Collector<'_> {
    /// Adds the result of resolving a pipeline. Diagnostics in the pipeline's own text point at its tokens.
    fn add(
        &mut self,
        resolution: Resolution,
        pipeline: &str,
        spans: impl Fn(orchestra_graph::Span) -> (Span, Span),
    ) {
        for report in &resolution.reports {
            let source = report.source.clone();
            let mut diagnostics = report.diagnostics.clone();
            // The tools of the program are only known when the program is compiled.
            diagnostics.retain(|diagnostic| self.tools.is_none() || diagnostic.code != "unknown_tool");
            let own = source.name() == pipeline;
            if !own {
                diagnostics.retain(|diagnostic| {
                    let text = report::text(&source, diagnostic);
                    let new = !self.reports.contains(&text);
                    if new {
                        self.reports.push(text);
                    }
                    new
                });
            }
            let report = Report::new(source, diagnostics);
            let location = self.location;
            self.checked.diagnostics.extend(if own {
                report::first(&report, spans(orchestra_graph::Span::default()), &spans)
            } else {
                report::first(&report, location, |_| location)
            });
        }
        if let Some(tools) = self.tools {
            for unknown in &resolution.unknown_tools {
                let text = report::text(&unknown.source, &unknown.diagnostic);
                if !self.reports.contains(&text) {
                    self.checked
                        .tools
                        .extend(verify(&self.krate, tools, &unknown.name, &text));
                    self.reports.push(text);
                }
            }
        }
        let read = resolution.files.into_iter().filter(|file| file.found);
        self.files.extend(read.map(|file| (file.path, ())));
    }
}

/// Returns the constant that looks up a tool among those of the program; its error points at them.
pub(crate) fn verify(krate: &TokenStream, tools: &Type, name: &str, text: &str) -> TokenStream {
    let (start, end) = krate::ends(tools);
    let (start, end) = (krate::at(start), krate::at(end));
    let (first, last) = (
        krate::located(krate.clone(), start),
        krate::located(krate.clone(), end),
    );
    let mut call = quote_spanned!(start=> #first::__private::verify_tool);
    call.extend(quote_spanned!(end=> (&<#tools as #last::agents::ToolSet>::NAMES, #name, #text)));
    quote! { const _: () = #call; }
}

/// Returns the code of the files: their paths, and includes that also track them.
pub(crate) fn sources(
    configuration: &str,
    files: impl Iterator<Item = String>,
    reader: &dyn Reader,
) -> String {
    let read = Children(reader);
    let mut code = Code::default();
    code.push("__orchestra::config::Sources::new(")
        .string(configuration)
        .push(",&[");
    for file in files {
        let bytes = orchestra_graph::ChildReader::read(&read, &file, Limits::default().bytes as u64);
        let is_text = bytes.is_ok_and(|bytes| std::str::from_utf8(&bytes).is_ok());
        code.push("(").string(&file).push(",");
        match (is_text, file.starts_with('/')) {
            (false, _) => code.push("\"\""),
            (true, true) => code.push("::core::include_str!(").string(&file).push(")"),
            (true, false) => code.push(&include(&file)),
        };
        code.push("),");
    }
    code.push("])");
    code.text
}
