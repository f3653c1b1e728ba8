//! Whether anything happened in a tree since the last look, without reading its files.

#[cfg(target_os = "linux")]
pub(crate) use linux::Watch;
#[cfg(not(target_os = "linux"))]
pub(crate) use none::Watch;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;
    use std::fs;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::{Path, PathBuf};

    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
    use rustix::io::Errno;

    /// File systems of this machine, whose changes the kernel tells; those of other machines it cannot tell.
    const LOCAL: &[u64] = &[
        0xEF53,      // ext2, ext3, ext4
        0x5846_5342, // XFS
        0x9123_683E, // Btrfs
        0x0102_1994, // tmpfs
        0x794C_7630, // overlayfs
        0x2FC1_2FC1, // ZFS
        0xF2F5_2010, // F2FS
        0xCA45_1A4E, // bcachefs
    ];

    /// How often folders are looked for again that appear while they are looked for.
    const ROUNDS: usize = 4;

    /// A watch on every folder of a tree that is not ignored.
    #[derive(Debug)]
    pub(crate) struct Watch {
        queue: OwnedFd,
    }

    /// What happened since the last time.
    #[derive(Debug, Default)]
    struct Seen {
        any: bool,
        folders: bool,
        lost: bool,
    }

    impl Watch {
        /// A watch that covers nothing yet; none where the kernel would not tell all changes.
        pub(crate) fn start(folder: &Path) -> Option<Watch> {
            let kind = rustix::fs::statfs(folder).ok()?.f_type;
            #[allow(
                clippy::cast_sign_loss,
                clippy::unnecessary_cast,
                reason = "its type is not the same everywhere"
            )]
            let local = LOCAL.contains(&(kind as u64 & 0xFFFF_FFFF));
            let queue = local
                .then(|| init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC))?
                .ok()?;
            Some(Watch { queue })
        }

        /// Watches all folders below one, without the ignored, and forgets what happened before. None where watches run out.
        pub(crate) fn cover(self, top: &Path, ignored: &HashSet<PathBuf>) -> Option<Watch> {
            for _ in 0..ROUNDS {
                self.cover_once(top, ignored)?;
                let seen = self.take();
                if seen.lost {
                    return None;
                }
                // A folder that appeared after its parent was read may not be watched yet.
                if !seen.folders {
                    return Some(self);
                }
            }
            None
        }

        fn cover_once(&self, top: &Path, ignored: &HashSet<PathBuf>) -> Option<()> {
            let flags = WatchFlags::CLOSE_WRITE
                | WatchFlags::MODIFY
                | WatchFlags::ATTRIB
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::MOVE_SELF
                | WatchFlags::DELETE_SELF
                | WatchFlags::ONLYDIR
                | WatchFlags::DONT_FOLLOW
                | WatchFlags::EXCL_UNLINK;
            let mut folders = vec![top.to_owned()];
            while let Some(folder) = folders.pop() {
                match add_watch(&self.queue, &folder, flags) {
                    Ok(_) => {}
                    // It went meanwhile, which its parent tells.
                    Err(Errno::NOENT | Errno::NOTDIR) if folder != top => continue,
                    Err(_) => return None,
                }
                for entry in fs::read_dir(&folder).ok()?.flatten() {
                    let path = entry.path();
                    if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !ignored.contains(&path) {
                        folders.push(path);
                    }
                }
            }
            Some(())
        }

        /// Whether nothing happened since the tree was covered, or since this was asked last.
        pub(crate) fn is_quiet(&mut self) -> bool {
            let seen = self.take();
            !seen.any && !seen.lost
        }

        fn take(&self) -> Seen {
            let mut seen = Seen::default();
            let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
            let mut reader = Reader::new(&self.queue, &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => {
                        let what = event.events();
                        seen.any = true;
                        let appeared = what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
                        seen.folders |= appeared && what.contains(ReadFlags::ISDIR);
                        seen.lost |= what.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT);
                    }
                    Err(Errno::AGAIN) => return seen,
                    Err(Errno::INTR) => {}
                    Err(_) => {
                        return Seen {
                            any: true,
                            folders: true,
                            lost: true,
                        };
                    }
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod none {
    use std::collections::HashSet;
    use std::path::{Path, PathBuf};

    /// No watch: git is asked each time.
    #[derive(Debug)]
    pub(crate) enum Watch {}

    impl Watch {
        pub(crate) fn start(_folder: &Path) -> Option<Watch> {
            None
        }

        pub(crate) fn cover(self, _top: &Path, _ignored: &HashSet<PathBuf>) -> Option<Watch> {
            None
        }

        pub(crate) fn is_quiet(&mut self) -> bool {
            false
        }
    }
}
