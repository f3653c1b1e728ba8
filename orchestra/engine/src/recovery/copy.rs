//! The copy of the files of ended stages from the folder of another run.

use std::fs;
use std::path::Path;

use orchestra_core::State;
use orchestra_graph::{NodeIndex, Pipeline};

use crate::store::{ARTIFACTS, BRANCHES, StoreError, VISITS, stage_folder_name, stages_after};

/// The parts of a stage's folder that do not belong to its latest visit.
const ASIDE: [&str; 2] = [VISITS, BRANCHES];

/// Copies the artifacts and the files of ended stages from the folder of another run.
pub(crate) fn copy_stages(
    from: &Path,
    to: &Path,
    pipeline: &Pipeline,
    state: &State,
    in_flight: &[NodeIndex],
) -> Result<(), StoreError> {
    let restarts = state.totals.restarts;
    copy_folder(&from.join(ARTIFACTS), &to.join(ARTIFACTS), &[])?;
    for stage in pipeline.stages() {
        let name = stage_folder_name(stage.id());
        for restart in 0..restarts {
            copy_folder(
                &stages_after(from, restart).join(&*name),
                &stages_after(to, restart).join(&*name),
                &[],
            )?;
        }
    }
    let (from, to) = (stages_after(from, restarts), stages_after(to, restarts));
    let mut state = state.clone();
    state.flush();
    for stage in pipeline.stages() {
        let node = stage.index();
        let visits = state.main.visits.get(node);
        if visits == 0 {
            continue;
        }
        let name = stage_folder_name(stage.id());
        let (from, to) = (from.join(&*name), to.join(&*name));
        copy_folder(&from.join(BRANCHES), &to.join(BRANCHES), &[])?;
        for visit in 1..visits {
            let visit = format!("{VISITS}/{visit}");
            copy_folder(&from.join(&visit), &to.join(&visit), &[])?;
        }
        if in_flight.contains(&node) {
            continue;
        }
        let aside = from.join(format!("{VISITS}/{visits}"));
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
