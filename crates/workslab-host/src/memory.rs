//! How much memory this process may use: the system's, within the limits of its cgroups.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::process::Process;
use procfs::{Current, Meminfo};

/// Bytes in all, and bytes that this process could still get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) total: usize,
    pub(crate) free: usize,
}

impl Memory {
    /// The smaller of two bounds on each.
    fn within(self, limit: Memory) -> Memory {
        Memory {
            total: self.total.min(limit.total),
            free: self.free.min(limit.free),
        }
    }
}

/// Reads `/proc/meminfo` and the process's memory cgroups as they are now.
pub(crate) fn read() -> Result<Memory, String> {
    let info = Meminfo::current().map_err(|error| format!("cannot read /proc/meminfo: {error}"))?;
    // Kernels before 3.14 have no MemAvailable; what is free and what caches hold comes close.
    let available = info
        .mem_available
        .unwrap_or(info.mem_free + info.cached + info.buffers);
    let system = Memory {
        total: to_usize(info.mem_total),
        free: to_usize(available),
    };
    // A system without cgroups, or one that hides them, has no limit to read.
    let limits = cgroup_folders().unwrap_or_else(|error| {
        tracing::debug!(%error, "no cgroup limits are known");
        Vec::new()
    });
    Ok(limits
        .iter()
        .filter_map(|group| group.limit())
        .fold(system, Memory::within))
}

/// A cgroup's folder, and how its files are called.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    folder: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Group {
    /// The group's limit, and what is left of it. `None` where it has none.
    fn limit(&self) -> Option<Memory> {
        let (limit, usage, reclaimable) = match self.version {
            Version::V1 => (
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            ),
            Version::V2 => ("memory.max", "memory.current", "inactive_file"),
        };
        // `max`, and a file that is not there, both mean that this group sets no limit.
        let total = read_number(&self.folder.join(limit))?;
        let used = read_number(&self.folder.join(usage)).unwrap_or(0);
        // Page cache that nobody uses goes as soon as memory is wanted.
        let cache = fs::read_to_string(self.folder.join("memory.stat"))
            .ok()
            .and_then(|stat| {
                stat.lines().find_map(|line| {
                    let (name, value) = line.split_once(' ')?;
                    (name == reclaimable).then(|| value.trim().parse::<u64>().ok())?
                })
            })
            .unwrap_or(0);
        Some(Memory {
            total: to_usize(total),
            free: to_usize(total.saturating_sub(used.saturating_sub(cache))),
        })
    }
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The folders of this process's memory cgroups, from its own up to the mount's root: every one of
/// them can set a limit.
fn cgroup_folders() -> Result<Vec<Group>, String> {
    let process = Process::myself().map_err(|error| error.to_string())?;
    let cgroups = process.cgroups().map_err(|error| error.to_string())?;
    let mounts = process.mountinfo().map_err(|error| error.to_string())?;
    let mut groups = Vec::new();
    for cgroup in cgroups {
        let version = if cgroup.controllers.iter().any(|name| name == "memory") {
            Version::V1
        } else if cgroup.hierarchy == 0 {
            Version::V2
        } else {
            continue;
        };
        let mount = mounts.0.iter().find(|mount| match version {
            Version::V1 => mount.fs_type == "cgroup" && mount.super_options.contains_key("memory"),
            Version::V2 => mount.fs_type == "cgroup2",
        });
        if let Some(mount) = mount {
            for folder in folders_up(&mount.mount_point, &mount.root, &cgroup.pathname) {
                groups.push(Group { folder, version });
            }
        }
    }
    Ok(groups)
}

/// The folders from that of `path` up to the mount point. `root` is the part of the hierarchy that
/// is mounted there: in a container it can be a folder deep in the host's, and a path outside it
/// cannot be seen.
fn folders_up(mount_point: &Path, root: &str, path: &str) -> Vec<PathBuf> {
    let Ok(inside) = Path::new(path).strip_prefix(root) else {
        return vec![mount_point.to_owned()];
    };
    let mut folder = mount_point.join(inside);
    let mut folders = Vec::new();
    while folder != mount_point && folder.starts_with(mount_point) {
        folders.push(folder.clone());
        folder.pop();
    }
    folders.push(mount_point.to_owned());
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory() {
        let memory = read().expect("Linux has /proc/meminfo");
        assert!(memory.free > 0);
        assert!(memory.free <= memory.total);
    }

    #[test]
    fn a_limit_is_what_is_left_of_it_without_idle_page_cache() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).expect("a file in it");
        };
        write("memory.max", "1000\n");
        write("memory.current", "700\n");
        write("memory.stat", "anon 100\ninactive_file 200\n");
        let group = Group {
            folder: folder.path().to_owned(),
            version: Version::V2,
        };
        let limit = group.limit();
        assert_eq!(
            limit,
            Some(Memory {
                total: 1000,
                free: 500
            })
        );
        write("memory.max", "max\n");
        assert_eq!(group.limit(), None);
    }

    #[test]
    fn the_first_version_has_other_names() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).expect("a file in it");
        };
        write("memory.limit_in_bytes", "1000\n");
        write("memory.usage_in_bytes", "400\n");
        let group = Group {
            folder: folder.path().to_owned(),
            version: Version::V1,
        };
        assert_eq!(
            group.limit(),
            Some(Memory {
                total: 1000,
                free: 600
            })
        );
    }

    #[test]
    fn every_group_above_can_set_a_limit() {
        let at = |path: &str| PathBuf::from(path);
        assert_eq!(
            folders_up(Path::new("/sys/fs/cgroup"), "/", "/slurm/job_7/step_0"),
            [
                at("/sys/fs/cgroup/slurm/job_7/step_0"),
                at("/sys/fs/cgroup/slurm/job_7"),
                at("/sys/fs/cgroup/slurm"),
                at("/sys/fs/cgroup"),
            ]
        );
    }

    #[test]
    fn in_a_container_only_the_mounted_part_is_seen() {
        let mount = Path::new("/sys/fs/cgroup/memory");
        assert_eq!(folders_up(mount, "/docker/abc", "/docker/abc"), [mount]);
        assert_eq!(folders_up(mount, "/docker/abc", "/elsewhere"), [mount]);
    }
}
