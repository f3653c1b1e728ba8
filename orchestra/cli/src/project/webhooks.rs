//! The webhooks of `orchestra.yaml`, with their secrets.

use std::path::Path;

use orchestra_config::{CONFIGURATION_FILE, Located, Project, Webhook as Settings};
use orchestra_engine::{Budget, Disk, Limits};
use orchestra_server::Webhook;

use crate::error::{CliError, Exit};
use crate::project::agents::{format, invalid, with_slashes};
use crate::project::root::find_above;
use crate::report::diagnostics::print_report;
use crate::terminal::Terminal;

/// Maximum size of a file with a secret, in bytes.
const MAX_SECRET: u64 = 4 << 10;

/// The webhooks of a project.
#[derive(Default)]
pub(crate) struct Webhooks {
    pub(crate) list: Vec<Webhook>,
    /// Their secrets, which no output may contain.
    pub(crate) secrets: Vec<String>,
}

impl Webhooks {
    /// Reads the webhooks of the requested configuration, else of the one in the current directory or above it.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid or the secret of a webhook cannot be read.
    pub(crate) fn find(requested: Option<&Path>, terminal: &Terminal) -> Result<Webhooks, CliError> {
        let found = match requested {
            Some(path) => Some(with_slashes(path)),
            None => find_above(CONFIGURATION_FILE, CONFIGURATION_FILE),
        };
        let Some(path) = found else {
            return Ok(Webhooks::default());
        };
        let project = Project::load(&path, &Disk);
        if project.report.has_errors() {
            print_report(terminal, &project.report, format(terminal));
            return Err(invalid(&path));
        }
        let mut webhooks = Webhooks::default();
        for (name, settings) in &project.configuration.webhooks {
            let read = secret(name, settings, Path::new(&path));
            let secret = read.map_err(|error| error.help(defined(&project, settings)))?;
            let webhook = webhook(name, settings, &secret).map_err(|error| {
                let error = CliError::usage(error.code(), error.to_string()).exit(Exit::Credentials);
                error.help(defined(&project, settings))
            })?;
            webhooks.list.push(webhook);
            webhooks.secrets.push(secret);
        }
        Ok(webhooks)
    }
}

/// Returns the hint on the secret of a webhook.
fn defined(project: &Project, settings: &Located<Settings>) -> String {
    let source = &project.report.source;
    let at = source.position(settings.span.start);
    format!(
        "give the sender and the server the same secret; the webhook is defined at {}:{}:{}",
        source.name(),
        at.line,
        at.column
    )
}

fn secret(name: &str, settings: &Settings, configuration: &Path) -> Result<String, CliError> {
    let missing = |message: String| CliError::usage("webhook_secret", message).exit(Exit::Credentials);
    if let Some(variable) = &settings.secret_env {
        return std::env::var(&variable.value).map_err(|_| {
            missing(format!(
                "the webhook `{name}` has its secret in the variable `{}`, which is not set",
                variable.value
            ))
        });
    }
    let file = settings.secret_file.as_ref().map_or("", |file| file.as_str());
    let folder = configuration.parent().unwrap_or(Path::new(""));
    let path = folder.join(file);
    let unreadable = |why: String| {
        missing(format!(
            "the secret of the webhook `{name}` cannot be read from `{}`: {why}",
            path.display()
        ))
    };
    let bytes = Disk::read_at_most(&path, MAX_SECRET + 1).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MAX_SECRET {
        return Err(unreadable(format!("it has more than {MAX_SECRET} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not text".to_owned()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn webhook(name: &str, settings: &Settings, secret: &str) -> Result<Webhook, orchestra_server::WebhookError> {
    let pipeline = settings
        .pipeline
        .as_ref()
        .map_or("", |pipeline| pipeline.as_str());
    // The server lists files without it.
    let pipeline = pipeline.strip_prefix("./").unwrap_or(pipeline);
    let mut webhook = Webhook::new(name, pipeline, secret)?;
    let events = settings.event.iter().flat_map(|event| &event.values);
    for event in events.filter_map(|event| event.as_str()) {
        webhook = webhook.event(event);
    }
    for (pointer, accepted) in &settings.when {
        webhook = webhook.when(pointer, accepted.values.iter().cloned());
    }
    for (input, pointer) in &settings.inputs {
        webhook = webhook.input(input, pointer.as_str());
    }
    let max_cost = settings.max_cost.as_ref();
    Ok(webhook.limits(Limits {
        time: settings.max_time.as_ref().map(|time| time.value.0),
        budget: Budget {
            max_cost_micros: max_cost.map(|dollars| Budget::micros_of_dollars(dollars.value)),
            ..Budget::default()
        },
    }))
}
