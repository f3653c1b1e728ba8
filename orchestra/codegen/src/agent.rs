//! `#[agent(..)]`: a struct becomes an agent whose prompt is composed and checked at build time.
//!
//! The agent is resolved as the only stage of a pipeline, by the same resolver as every other stage. The text of this
//! pipeline and the files that were read are compiled in, so that the program composes the same prompt.

use std::collections::BTreeSet;

use orchestra_config::{Agent, Project, ResolveOptions};
use orchestra_graph::{Diagnostic, Limits, Report, Severity, Source, load};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Fields, Ident, ItemStruct, LitStr, Path, Token, Type, bracketed};

use crate::config::{sources, verify};
use crate::invocation::crate_option;
use crate::reader::{Children, Reader};
use crate::text::{location_of, unreadable};
use crate::{krate, report};

const FORM: &str = "expected `role`, `persona`, `personality`, `task`, `model`, `provider`, `backend`, `name` or `config`, \
                    each with `= \"..\"`, `tools = [\"..\"]`, `tool_set = TYPE` or `crate = path`";

/// The options of `#[agent(..)]`.
#[derive(Default)]
struct Options {
    /// The options that are attributes of a stage, in source order.
    attributes: Vec<(&'static str, Ident, LitStr)>,
    name: Option<LitStr>,
    config: Option<LitStr>,
    tools: Option<Vec<LitStr>>,
    tool_set: Option<Type>,
    krate: Option<Path>,
}

/// The options that are attributes of a stage, with the names of the attributes.
const ATTRIBUTES: [(&str, &str); 7] = [
    ("role", "agent.role"),
    ("persona", "agent.persona"),
    ("personality", "agent.personality"),
    ("task", "agent.task"),
    ("model", "llm_model"),
    ("provider", "llm_provider"),
    ("backend", "backend"),
];

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Options> {
        let mut options = Options::default();
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                options.krate = Some(crate_option(input)?);
            } else {
                let word: Ident = input
                    .parse()
                    .map_err(|error| syn::Error::new(error.span(), FORM))?;
                options.take(&word, input)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

impl Options {
    fn take(&mut self, word: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        let written = word.to_string();
        input
            .parse::<Token![=]>()
            .map_err(|error| syn::Error::new(error.span(), FORM))?;
        if let Some((known, attribute)) = ATTRIBUTES.iter().find(|(known, _)| *known == written) {
            if self.attributes.iter().any(|(before, _, _)| before == attribute) {
                return Err(syn::Error::new(word.span(), format!("`{known}` is said twice")));
            }
            self.attributes.push((attribute, word.clone(), text(input)?));
            return Ok(());
        }
        match written.as_str() {
            "name" => self.name = Some(text(input)?),
            "config" => self.config = Some(text(input)?),
            "tool_set" => self.tool_set = Some(input.parse()?),
            "tools" => {
                let inner;
                bracketed!(inner in input);
                let names = Punctuated::<LitStr, Token![,]>::parse_terminated(&inner)?;
                self.tools = Some(names.into_iter().collect());
            }
            _ => return Err(syn::Error::new(word.span(), FORM)),
        }
        Ok(())
    }
}

/// The folders of prompt layers, with the attributes that name the layers in them.
const FOLDERS: [(&str, &str); 4] = [
    ("roles/", "agent.role"),
    ("personas/", "agent.persona"),
    ("personalities/", "agent.personality"),
    ("tasks/", "agent.task"),
];

impl Options {
    /// Returns the token that diagnostics of a file point at: the name of the layer in the file, else the
    /// configuration.
    fn span_of_file(&self, path: &str) -> Span {
        let folder = FOLDERS.iter().find(|(folder, _)| path.contains(folder));
        let layer =
            folder.and_then(|(_, attribute)| self.attributes.iter().find(|(name, _, _)| name == attribute));
        let literal = layer.map(|(_, _, literal)| literal).or(self.config.as_ref());
        literal.map_or_else(Span::call_site, LitStr::span)
    }
}

/// Parses a name: a text of one line.
fn text(input: ParseStream<'_>) -> syn::Result<LitStr> {
    let text: LitStr = input.parse()?;
    let word = text.value();
    if word.trim().is_empty() || word.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
        return Err(syn::Error::new(
            text.span(),
            "expected a name, without quotes, backslashes and line ends",
        ));
    }
    Ok(text)
}

/// Expands `#[agent(..)]` on a struct.
pub(crate) fn expand(options: TokenStream, item: TokenStream, reader: &dyn Reader) -> TokenStream {
    let expanded = parse(options, item.clone()).map(|(options, item)| agent(&options, &item, reader));
    match expanded {
        Ok(code) => quote! { #item #code },
        Err(error) => {
            let errors = error.to_compile_error();
            quote! { #item #errors }
        }
    }
}

fn parse(options: TokenStream, item: TokenStream) -> syn::Result<(Options, ItemStruct)> {
    let form = "`#[agent]` stands on a struct, whose fields are the variables of its task";
    let item: ItemStruct = syn::parse2(item).map_err(|_| syn::Error::new(Span::call_site(), form))?;
    if !item.generics.params.is_empty() {
        let error = "an agent cannot be generic, because its prompt is checked as it stands";
        return Err(syn::Error::new_spanned(&item.generics, error));
    }
    if let Fields::Unnamed(fields) = &item.fields {
        let error = "the fields of an agent have names, by which its task calls them";
        return Err(syn::Error::new_spanned(fields, error));
    }
    Ok((syn::parse2(options)?, item))
}

fn agent(options: &Options, item: &ItemStruct, reader: &dyn Reader) -> TokenStream {
    let name = match &options.name {
        Some(name) => name.value(),
        None => kebab(&item.ident.to_string()),
    };
    let fields: Vec<&Ident> = item
        .fields
        .iter()
        .filter_map(|field| field.ident.as_ref())
        .collect();
    let text = Text::new(&name, options, item, &fields);
    let krate = krate::path(options.krate.as_ref());
    let checked = check(&name, &text, options, reader, &krate);
    let Checked {
        diagnostics,
        configuration,
        files,
    } = checked;
    let sources: TokenStream = match sources(&configuration, files.into_iter(), reader).parse() {
        Ok(code) => code,
        Err(_) => report::bug("the code of an agent's files does not lex", Span::call_site()),
    };
    let agents = quote!(#krate::__private::agents);
    let set = options.attributes.iter().filter_map(|(attribute, _, literal)| {
        // The fields of `Agent` have the names of the options.
        let (option, _) = ATTRIBUTES.iter().find(|(_, known)| known == attribute)?;
        let field = Ident::new(option, Span::call_site());
        Some(quote!(agent.#field = ::core::option::Option::Some(#agents::located(#literal));))
    });
    let set_tools = options.tools.as_ref().map(|tools| {
        quote!(agent.only_tools = ::core::option::Option::Some(::std::vec![#(#agents::located(#tools)),*]);)
    });
    let variables = item.fields.iter().filter_map(|field| {
        let ident = field.ident.as_ref()?;
        let (written, ty) = (plain(ident), &field.ty);
        let span = krate::at(krate::ends(ty).1);
        let value = quote_spanned!(span=> #agents::value::<#ty>(&self.#ident)?);
        Some(quote!(variables.insert(::std::string::String::from(#written), #value);))
    });
    let (ty, pipeline) = (&item.ident, &text.text);
    quote! {
        #diagnostics

        const _: () = {
            use #krate as __orchestra;

            #[automatically_derived]
            impl #agents::AgentDefinition for #ty {
                const NAME: &'static str = #name;
                const PIPELINE: &'static str = #pipeline;
                const SOURCES: #agents::Sources = #sources;

                fn definition() -> #agents::Agent {
                    let mut agent = <#agents::Agent as ::core::default::Default>::default();
                    #(#set)*
                    #set_tools
                    agent
                }

                fn variables(&self) -> ::core::result::Result<#agents::Variables, #agents::AgentPromptError> {
                    let mut variables = #agents::Variables::new();
                    #(#variables)*
                    ::core::result::Result::Ok(variables)
                }
            }
        };
    }
}

/// The text of the pipeline, with the tokens that its parts come from.
struct Text {
    text: String,
    tokens: Vec<(usize, usize, Span)>,
}

impl Text {
    fn new(name: &str, options: &Options, item: &ItemStruct, fields: &[&Ident]) -> Text {
        let inputs: Vec<String> = fields.iter().map(plain).collect();
        let mut pipeline = Text {
            text: format!(
                "digraph {{\n  inputs=\"{}\"\n  start -> agent -> exit\n  agent [",
                inputs.join(",")
            ),
            tokens: Vec::new(),
        };
        let location = match (&options.tools, &options.name) {
            // Of the agent's own definition, only the tools can be invalid.
            (Some(tools), _) => tools.first().map_or(item.ident.span(), LitStr::span),
            (None, Some(name)) => name.span(),
            (None, None) => item.ident.span(),
        };
        pipeline.attribute("agent", name, location);
        for (attribute, _, literal) in &options.attributes {
            pipeline.attribute(attribute, &literal.value(), literal.span());
        }
        pipeline.text.push_str("]\n}\n");
        pipeline
    }

    fn attribute(&mut self, name: &str, value: &str, token: Span) {
        if !self.tokens.is_empty() {
            self.text.push_str(", ");
        }
        let start = self.text.len();
        self.text.push_str(&format!("{name}=\"{value}\""));
        self.tokens.push((start, self.text.len(), token));
    }

    /// Returns the token that a part of the text comes from, or `default` if there is none.
    fn token(&self, span: orchestra_graph::Span, default: Span) -> (Span, Span) {
        let start = span.start as usize;
        let found = self
            .tokens
            .iter()
            .find(|(from, to, _)| (*from..*to).contains(&start));
        let token = found.map_or(default, |(_, _, token)| *token);
        (token, token)
    }
}

/// The result of resolving an agent.
struct Checked {
    diagnostics: TokenStream,
    configuration: String,
    files: BTreeSet<String>,
}

fn check(name: &str, text: &Text, options: &Options, reader: &dyn Reader, krate: &TokenStream) -> Checked {
    let files = Children(reader);
    let mut checked = Checked {
        diagnostics: TokenStream::new(),
        configuration: String::new(),
        files: BTreeSet::new(),
    };
    let mut project = Project::default();
    if let Some(literal) = &options.config {
        let limit = Limits::default().bytes as u64;
        let (path, shown, beside) = location_of(literal, reader);
        if let Err(error) = reader.read(&path, limit) {
            let message = unreadable(&shown, &path, beside, &error, limit, reader);
            checked.diagnostics = report::error(&message, (literal.span(), literal.span()));
            return checked;
        }
        project = Project::load(&shown, &files);
        checked.files.insert(shown.clone());
        checked.configuration = shown;
    }
    let tools = options.tools.as_ref();
    let agent = Agent {
        only_tools: tools.map(|tools| tools.iter().map(|tool| tool.value().into()).collect()),
        ..Agent::default()
    };
    let resolve_options = ResolveOptions {
        reader: Some(&files),
        agents: [(name.to_owned(), agent)].into(),
        ..ResolveOptions::default()
    };
    let loaded = load(Source::new(name, &text.text), &Default::default());
    let resolution = project.resolve_graph(&loaded.analysis(), &resolve_options);
    for report in &resolution.reports {
        let mut diagnostics = report.diagnostics.clone();
        diagnostics.retain(|diagnostic| options.tool_set.is_none() || diagnostic.code != "unknown_tool");
        let default = options.span_of_file(report.source.name());
        if report.source.name() == name {
            // This text is generated, so it is not shown.
            for diagnostic in diagnostics
                .iter()
                .filter(|diagnostic| diagnostic.severity == Severity::Error)
            {
                let location = text.token(diagnostic.span, default);
                checked
                    .diagnostics
                    .extend(report::error(&text_of(diagnostic), location));
            }
            continue;
        }
        for diagnostic in diagnostics
            .iter_mut()
            .filter(|diagnostic| diagnostic.code == "template_variable")
        {
            diagnostic.help = Some("make it a field of the struct".to_owned());
        }
        let report = Report::new(report.source.clone(), diagnostics);
        let location = (default, default);
        checked
            .diagnostics
            .extend(report::first(&report, location, |_| location));
    }
    if let Some(set) = &options.tool_set {
        for unknown in &resolution.unknown_tools {
            checked
                .diagnostics
                .extend(verify(krate, set, &unknown.name, &text_of(&unknown.diagnostic)));
        }
    }
    let read = resolution.files.into_iter().filter(|file| file.found);
    checked.files.extend(read.map(|file| file.path));
    checked
}

/// Returns the text of a diagnostic without its position.
fn text_of(diagnostic: &Diagnostic) -> String {
    let mut text = format!("{} [{}]", diagnostic.message, diagnostic.code);
    for note in &diagnostic.notes {
        text.push_str("\n  = note: ");
        text.push_str(note);
    }
    if let Some(help) = &diagnostic.help {
        text.push_str("\n  = help: ");
        text.push_str(help);
    }
    text
}

fn plain(ident: &impl ToTokens) -> String {
    let written = ident.to_token_stream().to_string();
    written.strip_prefix("r#").unwrap_or(&written).to_owned()
}

/// Converts the name of a type to a name in pipelines: `SecurityReviewer` becomes `security-reviewer`.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(character.to_lowercase());
    }
    kebab
}
