//! A watch that detects changes in a worktree without reading its files.

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

    /// Local file systems, for which the kernel reports all changes. It cannot report remote changes of network file
    /// systems.
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

    /// Maximum number of scans for folders that appear while the watch is set up.
    const ROUNDS: usize = 4;

    /// A watch on every folder of a worktree that is not ignored.
    #[derive(Debug)]
    pub(crate) struct Watch {
        queue: OwnedFd,
    }

    /// The events since the previous query.
    #[derive(Debug, Default)]
    struct Seen {
        any: bool,
        folders: bool,
        lost: bool,
    }

    impl Watch {
        /// Creates a watch that covers nothing yet. Returns `None` if the kernel does not report all changes of this
        /// file system.
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

        /// Watches all folders below `top` except the ignored ones, and discards earlier events. Returns `None` if the
        /// kernel allows no more watches.
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
                    // It was removed in the meantime; the watch of its parent reports that.
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

        /// Returns whether nothing changed since the worktree was covered, or since the previous call.
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

    /// No watch on this platform: git is run each time.
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
