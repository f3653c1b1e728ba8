//! The copy of the files of ended stages from the folder of another run.

use std::fs;
use std::path::Path;

use orchestra_core::State;
use orchestra_graph::{NodeIndex, Pipeline};

use crate::store::StoreError;

/// The parts of a stage's folder that do not belong to its latest visit.
const ASIDE: [&str; 2] = ["visits", "branches"];

/// Copies the artifacts and the files of ended stages from the folder of another run.
pub(crate) fn copy_stages(
    from: &Path,
    to: &Path,
    pipeline: &Pipeline,
    state: &State,
    in_flight: &[NodeIndex],
) -> Result<(), StoreError> {
    let restarts = state.totals.restarts;
    let base = |root: &Path, restart: u32| match restart {
        0 => root.to_owned(),
        restart => root.join(format!("restart-{restart}")),
    };
    copy_folder(&from.join("artifacts"), &to.join("artifacts"), &[])?;
    for row in pipeline.nodes.iter() {
        for restart in 0..restarts {
            copy_folder(
                &base(from, restart).join(&*row.id),
                &base(to, restart).join(&*row.id),
                &[],
            )?;
        }
    }
    let (from, to) = (base(from, restarts), base(to, restarts));
    let mut state = state.clone();
    state.flush();
    for (at, row) in pipeline.nodes.iter().enumerate() {
        let node = NodeIndex(at as u32);
        let visits = state.main.visits.get(node);
        if visits == 0 {
            continue;
        }
        let (from, to) = (from.join(&*row.id), to.join(&*row.id));
        copy_folder(&from.join("branches"), &to.join("branches"), &[])?;
        for visit in 1..visits {
            let visit = format!("visits/{visit}");
            copy_folder(&from.join(&visit), &to.join(&visit), &[])?;
        }
        if in_flight.contains(&node) {
            continue;
        }
        let aside = from.join(format!("visits/{visits}"));
        if aside.is_dir() {
            copy_folder(&aside, &to, &[])?
        } else {
            copy_folder(&from, &to, &ASIDE)?
        }
    }
    Ok(())
}

/// Copies plain files and folders recursively. Missing files are ignored, and links are not followed.
fn copy_folder(from: &Path, to: &Path, without: &[&str]) -> Result<(), StoreError> {
    match fs::symlink_metadata(from) {
        Ok(found) if found.is_dir() => {}
        _ => return Ok(()),
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.recursive(true).create(to);
    made.map_err(|error| StoreError::io("make", to, error))?;
    let entries = fs::read_dir(from).map_err(|error| StoreError::io("read", from, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| StoreError::io("read", from, error))?;
        let (path, name) = (entry.path(), entry.file_name());
        if without.iter().any(|other| name == *other) {
            continue;
        }
        let kind = entry
            .file_type()
            .map_err(|error| StoreError::io("read", &path, error))?;
        if kind.is_dir() {
            copy_folder(&path, &to.join(&name), &[])?;
        } else if kind.is_file() {
            let target = to.join(&name);
            fs::copy(&path, &target).map_err(|error| StoreError::io("copy", &path, error))?;
            // Files of an older run may be readable by others.
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                let permissions = fs::Permissions::from_mode(0o600);
                fs::set_permissions(&target, permissions)
                    .map_err(|error| StoreError::io("protect", &target, error))?;
            }
        }
    }
    Ok(())
}
