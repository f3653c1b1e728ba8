//! The items of a fan-out that runs its branch for each item of a list (rule P7).

use std::borrow::Cow;

use orchestra_graph::{Known, Stage, ValueSource};
use serde_json::Value;

use crate::context::Context;

/// The context key of a branch's item. The fields of an object have keys below it.
const ITEM: &str = "parallel.item";
/// The context key of the position of a branch's item in its list, from 0.
const ITEM_INDEX: &str = "parallel.item_index";
/// The failure code of a list that is missing, no list, or too long.
pub(crate) const FAILURE_CODE: &str = "foreach_list";
/// The maximum number of characters of a value in a message.
const SHOWN: usize = 40;

/// Returns the context key of the list whose items a fan-out's branches get; `None` if each edge is one branch.
pub(crate) fn list_key(stage: Stage<'_>) -> Option<&str> {
    match ValueSource::parse(stage.text(Known::Foreach.name())?)? {
        ValueSource::Context(key) => Some(key),
        ValueSource::Stage { .. } => None,
    }
}

/// Returns the items for which a fan-out runs its branch; `None` if each edge is one branch.
///
/// # Errors
/// Returns the reason of the fan-out's failure if the list is missing, is no list, or has more items than the fan-out allows.
pub(crate) fn items(stage: Stage<'_>, context: &Context) -> Result<Option<Vec<Value>>, String> {
    let items = list(stage, context)?;
    let most = stage.row().fan_out.and_then(|fan_out| fan_out.foreach_max);
    match (&items, most, list_key(stage)) {
        (Some(items), Some(most), Some(key)) if items.len() > most as usize => {
            let count = items.len();
            Err(format!(
                "the list `{key}` has {count} items, but `foreach_max` allows {most}"
            ))
        }
        _ => Ok(items),
    }
}

/// Returns the items of a fan-out's list, however many there are; `None` if each edge is one branch. A text that is a JSON
/// list counts as the list.
///
/// # Errors
/// Returns the reason if the list is missing or is no list.
pub(crate) fn list(stage: Stage<'_>, context: &Context) -> Result<Option<Vec<Value>>, String> {
    let Some(key) = list_key(stage) else {
        return Ok(None);
    };
    // A key that begins with `context.` was set under this name.
    let written = || context.get(stage.text(Known::Foreach.name())?.trim());
    let items = match context.get(key).or_else(written) {
        None | Some(Value::Null) => return Err(format!("the context has no list `{key}`")),
        Some(Value::Array(items)) => Cow::Borrowed(items),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(items) => Cow::Owned(items),
            Err(_) => return Err(format!("`{key}` is no list, but the text `{}`", shown(text))),
        },
        Some(other) => return Err(format!("`{key}` is no list, but `{}`", shown(&other.to_string()))),
    };
    Ok(Some(items.into_owned()))
}

fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push_str("..");
    }
    shown
}

/// Sets the item of a branch in its context. An item of an outer block is replaced.
pub(crate) fn set_item(context: &mut Context, index: u32, item: &Value) {
    let keys = context.iter().map(|(key, _)| key);
    let is_field = |key: &&str| field_of(key).is_some_and(|field| !field.is_empty());
    let stale: Vec<String> = keys.filter(is_field).map(str::to_owned).collect();
    for key in stale {
        context.remove(&key);
    }
    if let Value::Object(fields) = item {
        for (name, value) in fields {
            context.set([ITEM, ".", name].concat(), value.clone());
        }
    }
    context.set(ITEM, item.clone());
    context.set(ITEM_INDEX, index);
}

/// Returns whether a context key holds the item of a branch, or one of its fields.
pub(crate) fn is_item_key(key: &str) -> bool {
    field_of(key).is_some()
}

/// Returns an item for which a context key has a value; `None` if the key holds no item.
pub(crate) fn item_with(key: &str, value: Value) -> Option<Value> {
    match field_of(key)? {
        "" => Some(value),
        field => Some(Value::Object([(field.to_owned(), value)].into_iter().collect())),
    }
}

/// Returns the field of the item that a context key holds, empty for the item itself.
fn field_of(key: &str) -> Option<&str> {
    match key.strip_prefix(ITEM)? {
        "" => Some(""),
        field => field.strip_prefix('.'),
    }
}
