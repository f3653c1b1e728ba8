//! Lists for whose items branches run (rule P7).

use serde_json::Value;

use crate::trace::Values;

/// The items of a list, or why there are none that a fan-out may take.
pub(super) fn items(value: Option<&Value>, key: &str, most: u32) -> Result<Vec<Value>, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Err(format!("the context has no list `{key}`"));
    };
    let list = match value {
        Value::String(text) => serde_json::from_str(text).ok(),
        value => value.as_array().cloned(),
    };
    match list {
        Some(list) if list.len() > most as usize => Err(format!(
            "the list `{key}` has {} items, but `foreach_max` allows {most}",
            list.len()
        )),
        Some(list) => Ok(list),
        None if value.is_string() => Err(format!(
            "`{key}` is no list, but the text `{}`",
            value.as_str().unwrap()
        )),
        None => Err(format!("`{key}` is no list, but `{value}`")),
    }
}

/// Puts the item of a branch, its fields and its index into the context.
pub(super) fn give(context: &mut Values, index: u32, item: &Value) {
    context.retain(|key, _| !key.starts_with("parallel.item."));
    for (field, value) in item.as_object().into_iter().flatten() {
        context.insert(format!("parallel.item.{field}"), value.clone());
    }
    context.insert("parallel.item".to_owned(), item.clone());
    context.insert("parallel.item_index".to_owned(), index.into());
}
