//! Changes of the refs of runs, and the lock under which they change.

use crate::error::GitWorkspaceError;
use crate::lock::{RepositoryLock, ref_locks};
use crate::ref_names::{KEPT, base_ref, head_ref, open_ref};
use crate::repository::Repository;
use crate::sha::Sha;

impl Repository {
    pub(crate) fn lock(&self, operation: &str) -> Result<RepositoryLock, GitWorkspaceError> {
        RepositoryLock::take(self.name(), self.common(), operation)
    }

    /// Removes git's lock files for refs that only runs change.
    pub(crate) fn unlock_refs(&self, lock: &RepositoryLock, branch: &str) {
        let names = [head_ref(branch), base_ref(branch), open_ref(branch)];
        for path in ref_locks(self.common(), &names)
            .into_iter()
            .filter(|path| path.exists())
        {
            lock.unlock(&path);
        }
    }

    /// Sets a ref from an old value, which is `None` to create the ref.
    pub(crate) fn set_ref(
        &self,
        lock: &RepositoryLock,
        name: &str,
        to: &Sha,
        from: Option<&Sha>,
    ) -> Result<(), GitWorkspaceError> {
        let old = from.map_or("", Sha::as_str);
        let command = self.command().args([
            "update-ref",
            "--no-deref",
            "-m",
            "orchestra",
            name,
            to.as_str(),
            old,
        ]);
        self.run(&command.holding(lock.file())).map(drop)
    }

    pub(crate) fn delete_ref(
        &self,
        lock: &RepositoryLock,
        name: &str,
        old: &Sha,
    ) -> Result<(), GitWorkspaceError> {
        let command = self
            .command()
            .args(["update-ref", "--no-deref", "-d", name, old.as_str()]);
        self.run(&command.holding(lock.file())).map(drop)
    }

    /// Creates a ref that keeps a commit reachable. Returns the name of the ref.
    pub(crate) fn keep(
        &self,
        lock: &RepositoryLock,
        branch: &str,
        sha: &Sha,
    ) -> Result<String, GitWorkspaceError> {
        let name = format!("{KEPT}{branch}/{}", sha.short());
        for path in ref_locks(self.common(), std::slice::from_ref(&name))
            .into_iter()
            .filter(|path| path.exists())
        {
            lock.unlock(&path);
        }
        match self.resolve(&name)? {
            Some(there) if there == *sha => {}
            there => self.set_ref(lock, &name, sha, there.as_ref())?,
        }
        Ok(name)
    }
}
