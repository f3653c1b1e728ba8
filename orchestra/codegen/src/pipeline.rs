//! `pipeline!`: loading the text, reporting its diagnostics, and generating the module.

use std::path::Path;

use orchestra_graph::table::{NodeRow, Pipeline, Predicates, Rows, Settings, Texts};
use orchestra_graph::{
    Analysis, LoadOptions, Loaded, MissingValues, NodeIndex, did_you_mean, load_bytes, rules,
};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Type, Visibility};

use crate::children::Descendants;
use crate::invocation::{Declaration, Invocation, Options, Text};
use crate::reader::{Children, Reader};
use crate::text::{Origin, PipelineText, file, inline};
use crate::{config, docs, krate, lock, module, names, report, requirements};

/// Expands an invocation of `pipeline!`.
pub(crate) fn expand(input: TokenStream, reader: &dyn Reader) -> TokenStream {
    match syn::parse2::<Invocation>(input) {
        Ok(invocation) => invocation
            .pipelines
            .into_iter()
            .map(|declaration| expand_one(declaration, reader))
            .collect(),
        Err(error) => error.to_compile_error(),
    }
}

fn expand_one(declaration: Declaration, reader: &dyn Reader) -> TokenStream {
    let mut diagnostics = TokenStream::new();
    let mut missing = false;
    let found = match &declaration.text {
        Text::File(literal) => match file(literal, reader) {
            Ok(found) => found,
            Err((message, name)) => {
                missing = true;
                diagnostics.extend(report::error(&message, (literal.span(), literal.span())));
                PipelineText {
                    name,
                    bytes: Vec::new(),
                    start: 0,
                    origin: Origin::File(literal.span()),
                    source: None,
                }
            }
        },
        Text::Inline(tokens) => inline(tokens.clone(), reader),
    };
    diagnostics.extend(unknown_codes(&declaration.options));
    let children = Children(reader);
    let mut options = LoadOptions {
        allow: declaration.options.allow.iter().map(Ident::to_string).collect(),
        deny: declaration.options.deny.iter().map(Ident::to_string).collect(),
        children: Some(&children),
        ..LoadOptions::default()
    };
    // An inline text is padded with the lines above it in its file; they do not count towards the limit.
    options.limits.bytes += found.start;
    let loaded = load_bytes(&found.name, &found.bytes, &options);
    let descendants = Descendants::new(&loaded);
    let mut config = config::Checked::default();
    let mut locked = lock::Locked::default();
    if !missing {
        let location = found.origin.spans(loaded.graph.span);
        diagnostics.extend(report::first(&loaded.report, location, |span| {
            found.origin.spans(span)
        }));
        // A child has no tokens; its diagnostics point at the attribute that names it.
        for descendant in descendants.all() {
            let named = found.origin.spans(descendant.named);
            diagnostics.extend(report::first(&descendant.child.loaded.report, named, |_| named));
        }
        config = config::check(&declaration, &loaded, &descendants, &found.origin, reader);
        diagnostics.extend(std::mem::take(&mut config.diagnostics));
        locked = lock::check(&declaration, &loaded, &found.origin, reader);
        diagnostics.extend(std::mem::take(&mut locked.diagnostics));
        diagnostics.extend(config::resumed(&declaration, &locked.pairs(&loaded), reader));
    }
    let checked = Checked { config, locked };
    let generated = generate(&declaration, &found, &loaded, &descendants, &checked, reader);
    quote! { #diagnostics #generated }
}

/// The results of the checks against the configuration and the lock file.
struct Checked {
    config: config::Checked,
    locked: lock::Locked,
}

/// Returns errors for unknown codes in `allow(..)` and `deny(..)`.
fn unknown_codes(options: &Options) -> TokenStream {
    let known = || rules().iter().map(|page| page.code);
    let codes = options.allow.iter().map(|code| (code, false));
    let codes = codes.chain(options.deny.iter().map(|code| (code, true)));
    codes
        .filter_map(|(code, denied)| {
            let name = code.to_string();
            if known().any(|known| known == name) || (denied && name == "warnings") {
                return None;
            }
            let near = did_you_mean(&name, known()).map(|near| format!("; did you mean `{near}`?"));
            let text = format!("no rule has the code `{name}`{}", near.unwrap_or_default());
            Some(report::error(&text, (code.span(), code.span())))
        })
        .collect()
}

/// Generates the module from everything that was understood, even if the pipeline has errors.
fn generate(
    declaration: &Declaration,
    found: &PipelineText,
    loaded: &Loaded,
    descendants: &Descendants<'_>,
    checked: &Checked,
    reader: &dyn Reader,
) -> TokenStream {
    let Checked { config, locked } = checked;
    let analysis = loaded.analysis();
    let sound = !loaded.report.has_errors();
    let understood = || Pipeline::from_analysis(&analysis).unwrap_or_else(|| incomplete_table(&analysis));
    let pipeline = loaded.pipeline().unwrap_or_else(understood);
    let missing = MissingValues::new(&analysis);
    let may_be_missing = |key: &str| {
        missing
            .as_ref()
            .is_none_or(|missing| missing.may_be_missing_at_end(key))
    };
    let limits = loaded.limits();
    let mut required = descendants.requirements();
    required.extend(locked.requirements());
    let paths = declaration.options.paths.as_ref();
    let (paths, unknown) = paths.map(|paths| paths.write(loaded)).unwrap_or_default();
    let written = module::write(&module::Module {
        pipeline: &pipeline,
        source: found.source.clone().unwrap_or_else(|| "\"\"".to_owned()),
        requirements: requirements::write(&pipeline, &analysis, found.start, &required),
        tables: descendants.tables(loaded, "super::__children::"),
        children: descendants.write(),
        may_be_missing: &may_be_missing,
        limits: limits.as_ref(),
        config: config.sources.clone(),
        locked: locked.write(),
        has_versions: locked.has_versions,
        paths,
    });
    let location = match &declaration.text {
        Text::File(literal) => literal.span(),
        Text::Inline(_) => found.origin.spans(loaded.graph.span).0,
    };
    let Some(body) = reader.tokens(&written) else {
        return report::bug("the generated module is not Rust", location);
    };
    let name = match &declaration.name {
        Some(name) => name.clone(),
        None => Ident::new(&module_name(&loaded.graph.name, &found.name), location),
    };
    let visibility = match &declaration.visibility {
        Some(visibility) => visibility.clone(),
        None => Visibility::Public(syn::Token![pub](location)),
    };
    let attributes = &declaration.attributes;
    let docs = docs::markdown(&docs::Documentation {
        pipeline: &pipeline,
        variants: &module::variants(&pipeline),
        graph: sound.then_some(&loaded.graph),
        limits: limits.as_ref(),
        handlers: handler_paths(declaration.options.handlers.as_ref()),
    });
    let inside = krate::inside_module(declaration.options.krate.as_ref());
    let others = descendants.pipelines().chain(locked.pipelines());
    let custom = uses_custom(&pipeline) || others.into_iter().any(uses_custom);
    let binding = binding(declaration, &name, custom, sound);
    let tools = &config.tools;
    quote! {
        #(#attributes)*
        #[doc = #docs]
        #[allow(dead_code, long_running_const_eval, missing_docs, non_camel_case_types, unreachable_pub, unused_imports, clippy::all, rustdoc::all)]
        #visibility mod #name {
            use #inside as __orchestra;
            #body
        }
        #binding
        #tools
        #unknown
    }
}

/// Returns the paths in a list of handlers, for links in the documentation.
fn handler_paths(handlers: Option<&Type>) -> Vec<String> {
    let of_type = |path: &Type| match path {
        Type::Path(path) => Some(path.to_token_stream().to_string().replace(' ', "")),
        _ => None,
    };
    match handlers {
        Some(Type::Tuple(tuple)) => tuple.elems.iter().filter_map(of_type).collect(),
        Some(other) => of_type(other).into_iter().collect(),
        None => Vec::new(),
    }
}

/// Returns whether a pipeline needs handlers that are not built in.
fn uses_custom(pipeline: &Pipeline) -> bool {
    pipeline.kinds().any(requirements::is_custom)
}

/// Binds the module to its handlers and generates the check of its requirements. Without declared handlers, binds it to
/// the built-in ones if they suffice.
fn binding(declaration: &Declaration, name: &Ident, custom: bool, sound: bool) -> TokenStream {
    let krate = krate::path(declaration.options.krate.as_ref());
    let bound = |handlers: TokenStream| {
        quote! {
            impl #krate::__private::Bound<#handlers> for #name::Mark {}
        }
    };
    match &declaration.options.handlers {
        Some(handlers) => {
            let check = sound.then(|| verify(&krate, &quote!(#name), handlers));
            let bound = bound(handlers.to_token_stream());
            quote! { #bound #check }
        }
        None if !custom => bound(quote!(())),
        None => TokenStream::new(),
    }
}

/// Returns the constant that compares the requirements with the handlers; its error points at the handlers.
pub(crate) fn verify(krate: &TokenStream, module: &TokenStream, handlers: &Type) -> TokenStream {
    let (start, end) = krate::ends(handlers);
    let (start, end) = (krate::at(start), krate::at(end));
    let (first, last) = (
        krate::located(krate.clone(), start),
        krate::located(krate.clone(), end),
    );
    let kinds = quote_spanned!(end=> &<#handlers as #last::__private::HandlerSet>::KINDS);
    let mut call = quote_spanned!(start=> #first::__private::verify);
    call.extend(quote_spanned!(end=> (&#module::REQUIREMENTS, #kinds)));
    quote! {
        #[allow(long_running_const_eval)]
        const _: () = #call;
    }
}

/// Returns the name of the module in the short form: derived from the graph, else from the file.
fn module_name(graph: &str, file: &str) -> String {
    if graph.trim().is_empty() {
        let stem = Path::new(file).file_stem().unwrap_or_default();
        return names::snake(&stem.to_string_lossy());
    }
    names::snake(graph)
}

/// Returns a table with the nodes of an invalid graph, so that code that names them still compiles.
fn incomplete_table(analysis: &Analysis<'_>) -> Pipeline {
    let graph = analysis.graph();
    let source = analysis.source();
    let mut texts = Texts::EMPTY;
    let nodes: Vec<NodeRow> = graph
        .nodes
        .iter()
        .zip(0..)
        .map(|(node, kind)| NodeRow {
            id: texts.add(&node.id),
            kind,
            position: source.position(node.span.start),
            ..NodeRow::DEFAULT
        })
        .collect();
    let kinds: Vec<_> = graph
        .indexed_nodes()
        .map(|(at, _)| texts.add(analysis.kind(at)))
        .collect();
    Pipeline {
        name: graph.name.clone().into(),
        file: source.name().to_owned().into(),
        source: source.text().to_owned().into(),
        texts,
        settings: Settings::DEFAULT,
        start: NodeIndex(0),
        exit: NodeIndex(0),
        kinds: kinds.into(),
        nodes: nodes.into(),
        edges: Vec::new().into(),
        conditions: Vec::new().into(),
        keys: Vec::new().into(),
        predicates: Predicates::Expressions(Vec::new()),
        attributes: Vec::new().into(),
        graph_attributes: Rows::NONE,
        children: Vec::new().into(),
    }
}
