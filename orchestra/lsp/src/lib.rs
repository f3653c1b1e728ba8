//! The language server of Orchestra, for pipelines and their configuration in editors.
//!
//! The server speaks the Language Server Protocol 3.17. It calls the checker of `orchestra check`, so an editor shows
//! the same diagnostics as the command line and the build. It accesses files only through a [`Host`], which the program
//! that embeds it provides.
//!
//! # Glossary
//!
//! - **Client**: the editor, which sends requests and the texts of open files.
//! - **Document**: a file that is open in the editor. Its text replaces the file on disk.
//! - **Root**: the workspace folder of a file, else the folder of the file. Names of files are relative to it.
//! - **Analysis**: a loaded pipeline with its configuration, the settings of its model stages and all diagnostics.
//! - **Feature**: a module that answers one kind of request from an analysis, as a pure function.
//!
//! # Modules, in reading order
//!
//! - `protocol`: the types of the protocol; the only module that imports them.
//! - `transport`: reading and writing messages.
//! - `text`: texts with the conversion between byte offsets and positions of the protocol.
//! - `paths`: conversion between URIs and paths.
//! - `host`: the program that embeds the server.
//! - `files`: the files of a workspace: open documents over the files of the host.
//! - `settings`: the settings that the client sends.
//! - `analysis`: analysing a pipeline or a configuration.
//! - `diagnostics`: diagnostics of the protocol, and which of them the client has.
//! - `cursor`: a position in a document, with the analysis of the document: the input of the features.
//! - `formatting`: formatting.
//! - `outline`: the outline, and folding.
//! - `tokens`: semantic tokens.
//! - `markdown`: texts for people, in Markdown.
//! - `snippets`: snippets.
//! - `candidate`: the names and texts that fit at a position.
//! - `complete_fit`: which attributes and values fit at a place.
//! - `value_lists`: the values of attributes.
//! - `complete_conditions`: completion inside conditions.
//! - `complete_assertions`: completion inside assertions.
//! - `template_scope`: the names that a template may use.
//! - `complete_templates`: completion inside the template tags of prompts and tasks.
//! - `complete_stylesheet`: completion inside the model stylesheet.
//! - `complete_values`: completion of the values of attributes.
//! - `completion`: completion in a pipeline.
//! - `yaml_cursor`: the keys around a position in a YAML text.
//! - `yaml_hints`: hover and completion in a configuration.
//! - `actions`: code actions.
//! - `lens`: code lenses and commands.
//! - `workspace`: the state of the server: files, analyses, diagnostics.
//! - `place`: places where names are written.
//! - `yaml`: the names in configurations, prompt layers and scripts.
//! - `handlers`: handlers and nodes in Rust programs.
//! - `names`: the names of a project, over all files.
//! - `navigation`: definition, references and highlights.
//! - `rename`: renaming.
//! - `layer_doc`: the documentation of a prompt layer.
//! - `layer_hints`: hover and completion in prompt layers.
//! - `hover`, `hover_node`, `hover_names`: hover over a pipeline.
//! - `hints`: hover and completion for each kind of document.
//! - `capabilities`: what the server offers to a client.
//! - `server`: the loop, the life cycle and the dispatch of messages.

mod actions;
mod analysis;
mod candidate;
mod capabilities;
mod complete_assertions;
mod complete_conditions;
mod complete_fit;
mod complete_stylesheet;
mod complete_templates;
mod complete_values;
mod completion;
mod cursor;
mod diagnostics;
mod files;
mod formatting;
mod handlers;
mod hints;
mod host;
mod hover;
mod hover_names;
mod hover_node;
mod layer_doc;
mod layer_hints;
mod lens;
mod markdown;
mod names;
mod navigation;
mod outline;
mod paths;
mod place;
mod protocol;
mod rename;
mod server;
mod settings;
mod snippets;
mod template_scope;
mod text;
mod tokens;
mod transport;
mod value_lists;
mod workspace;
mod yaml;
mod yaml_cursor;
mod yaml_hints;

pub use host::{Host, UserFolder};
pub use server::{Ended, ServeError, serve};
