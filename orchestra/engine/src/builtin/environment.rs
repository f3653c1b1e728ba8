//! The environment of the command of a tool stage (rule F12).

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};

use orchestra_graph::table::Constant;
use orchestra_graph::{AttributeFamily, GIT_VARIABLES, Known};

use crate::process::{ShellCommand, same_name};
use crate::run::stage::StageContext;
use crate::secrets::{is_proxy, withholds};

/// The environment of a tool command, beside the variables that the engine sets for every command.
pub(super) struct Environment {
    /// The names of the variables that the command inherits from this process.
    inherited: Vec<OsString>,
    /// The variables that the pipeline sets. They override inherited ones.
    set: BTreeMap<String, String>,
}

impl Environment {
    /// Collects the environment that the graph and the node request.
    ///
    /// # Errors
    /// Returns a message that names the first listed variable that is withheld from commands.
    pub(super) fn from_stage(stage: &StageContext) -> Result<Environment, String> {
        let settings = &stage.run().settings;
        let pipeline = stage.pipeline();
        // The attributes of the node come last because they override those of the graph.
        let attributes = || {
            let graph = pipeline.attributes(pipeline.graph_attributes);
            graph.chain(stage.node().attributes())
        };
        let of = |known: Known| {
            attributes()
                .filter(move |(name, _)| *name == known.name())
                .map(|(_, value)| value)
        };
        let listed = of(Known::ToolEnv).filter_map(Constant::text).flat_map(names);
        let listed: Vec<&str> = listed.collect();
        if let Some(name) = listed.iter().find(|name| settings.is_withheld(OsStr::new(name))) {
            return Err(format!(
                "`{}` lists `{name}`, but that variable is withheld from the commands of tool stages because it holds a \
                 secret such as the key of a model provider; pass what the command needs in a variable of another name",
                Known::ToolEnv.name()
            ));
        }
        let inherits = of(Known::ToolEnvInherit)
            .last()
            .map_or(Known::ToolEnvInherit.default_flag(), |value| {
                value != Constant::Boolean(false)
            });
        let named = |name: &OsStr| {
            let allowed = settings.inherit_env.iter().map(String::as_str);
            allowed
                .chain(listed.iter().copied())
                .any(|listed| same_name(OsStr::new(listed), name))
        };
        let is_secret = |name: &OsStr, value: &OsStr| {
            let redactor = settings.redactor.as_ref();
            // Do not withhold a proxy setting, because a command may need it for any network access.
            let found =
                || !is_proxy(name) && redactor.is_some_and(|secrets| secrets.finds(value.as_encoded_bytes()));
            withholds(&name.to_string_lossy(), &value.to_string_lossy()) || found()
        };
        // These variables would lead git out of the files of the stage.
        let leads_away = |name: &OsStr| {
            stage.workplace().is_some()
                && GIT_VARIABLES
                    .iter()
                    .any(|known| same_name(OsStr::new(known), name))
        };
        let seen = |(name, value): &(OsString, OsString)| {
            let withheld = leads_away(name) || settings.is_withheld(name);
            !withheld && (named(name) || inherits && !is_secret(name, value))
        };
        Ok(Environment {
            inherited: env::vars_os().filter(seen).map(|(name, _)| name).collect(),
            set: attributes().filter_map(set).collect(),
        })
    }

    /// Sets this environment, and no other, for a command.
    pub(super) fn give(self, command: ShellCommand) -> ShellCommand {
        let command = command.minimal_environment();
        let command = self.inherited.into_iter().fold(command, ShellCommand::inherit);
        let set = self.set.into_iter();
        set.fold(command, |command, (name, value)| command.variable(name, value))
    }
}

/// Returns the variable that an attribute sets. Returns `None` for other attributes.
fn set((key, value): (&str, Constant<&str>)) -> Option<(String, String)> {
    let (_, name) =
        AttributeFamily::find(key).filter(|(family, _)| **family == *AttributeFamily::TOOL_ENV)?;
    Some((name.to_owned(), value.text()?.to_owned()))
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}
