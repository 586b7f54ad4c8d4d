//! Default memory sizes of the service. They are smaller if a control group limits the memory of the process.
//!
//! A limit of a control group also applies to all groups below it. The effective limit of a process is therefore the
//! smallest one on the path from its group to the root.

use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// Default size, in MiB, of each of two memories, if no control group has a limit. The first is the cache of recently
/// used runs. The second is the embedded store's memory for data that is not yet in its tables. Our choice.
pub(crate) const PART_MIB: u64 = 32;

/// Divisor of the control group's limit. The quotient is the default size of the run cache, and also of the embedded
/// store's memory. Our choice: with a limit of 100 MiB, each of the two takes 8 MiB, and most of the limit is left for
/// requests and the allocator.
const PARTS: u64 = 12;

/// Minimum default size, in MiB, of the run cache and of the embedded store's memory. Our choice: with less memory, the
/// store would write a checkpoint every few commits.
const PART_MIN_MIB: u64 = 2;

/// Maximum memory, in MiB, for the output of activities, if no control group has a limit. With a limit, it is a twelfth
/// of the limit if that is less. Our choice: the output of at least 64 activities.
pub(crate) const OUTPUT_MIB: u64 = 64;

/// Minimum memory, in MiB, for the output of activities. Our choice: a domain may use half of it, which is the maximum
/// output of one activity.
const OUTPUT_MIN_MIB: u64 = 2;

/// Divisor of the control group's limit. The quotient is the default limit of bytes in flight. Our choice.
const IN_FLIGHT_PARTS: u64 = 4;

/// Smallest value that means "no limit" in a limit file of a control group. Source: version 1 of control groups, which
/// shows an absent limit as the largest multiple of the page size.
const UNLIMITED: u64 = 1 << 60;

/// Effective memory limit, and the file that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    pub(crate) bytes: u64,
    pub(crate) file: PathBuf,
}

/// Default memory sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemorySizes {
    /// Cache of runs in the engine.
    pub(crate) cache: usize,
    /// Memory of the embedded store.
    pub(crate) store: usize,
    /// Output of activities.
    pub(crate) output: usize,
    /// Requests and responses in flight.
    pub(crate) in_flight: usize,
}

impl MemorySizes {
    /// Returns the sizes for this limit of a control group; `None` means no limit. `least` and `most` are the bounds of
    /// `in_flight`.
    pub(crate) fn under(limit: Option<u64>, (least, most): (usize, usize)) -> Self {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let part = limit.map_or(PART_MIB * MIB, |limit| (limit / PARTS).clamp(PART_MIN_MIB * MIB, PART_MIB * MIB));
        let in_flight = limit.map_or(most, |limit| size(limit / IN_FLIGHT_PARTS).clamp(least, most));
        let output =
            limit.map_or(OUTPUT_MIB * MIB, |limit| (limit / PARTS).clamp(OUTPUT_MIN_MIB * MIB, OUTPUT_MIB * MIB));
        Self { cache: size(part), store: size(part), output: size(output), in_flight }
    }
}

/// Returns the effective memory limit of this process's control groups, if there is one.
pub(crate) fn limit() -> Option<MemoryLimit> {
    smallest(&|path| std::fs::read_to_string(path).ok())
}

/// Mounted hierarchy of control groups: its mount point, and the path of the group that is visible at the mount point.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    is_version_2: bool,
}

/// Parses a line of `/proc/self/mountinfo`. Returns the mount if it is a hierarchy of control groups that limits
/// memory.
///
/// Source: `proc_pid_mountinfo(5)`.
fn mount(line: &str) -> Option<Mount<'_>> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, point) = (before.next()?, before.next()?);
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    let is_version_2 = kind == "cgroup2";
    let is_memory = kind == "cgroup" && options.split(',').any(|option| option == "memory");
    (is_version_2 || is_memory).then_some(Mount { root, point, is_version_2 })
}

/// Returns the path of this process's group in a hierarchy. `groups` is the content of `/proc/self/cgroup`.
///
/// Source: cgroups(7).
fn group(groups: &str, is_version_2: bool) -> Option<&str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = if is_version_2 {
            number == "0" && controllers.is_empty()
        } else {
            controllers.split(',').any(|controller| controller == "memory")
        };
        is_it.then_some(path)
    })
}

fn smallest(read: &dyn Fn(&Path) -> Option<String>) -> Option<MemoryLimit> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mounts = read(Path::new("/proc/self/mountinfo"))?;
    let mut found: Option<MemoryLimit> = None;
    for mount in mounts.lines().filter_map(mount) {
        let Some(path) = group(&groups, mount.is_version_2) else { continue };
        // A container sees only the hierarchy below its group, but the path in `/proc/self/cgroup` may begin at the
        // root of the machine.
        let below = Path::new(path).strip_prefix(mount.root).unwrap_or_else(|_| Path::new(""));
        let name = if mount.is_version_2 { "memory.max" } else { "memory.limit_in_bytes" };
        for group in below.ancestors() {
            let file = Path::new(mount.point).join(group).join(name);
            let Some(bytes) = read(&file).and_then(|text| text.trim().parse().ok()) else { continue };
            if bytes < UNLIMITED && found.as_ref().is_none_or(|found| bytes < found.bytes) {
                found = Some(MemoryLimit { bytes, file });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn found(files: &[(&str, &str)]) -> Option<(u64, String)> {
        let files: BTreeMap<_, _> = files.iter().copied().collect();
        let limit = smallest(&|path| files.get(path.to_str()?).map(|text| (*text).to_owned()))?;
        Some((limit.bytes, limit.file.display().to_string()))
    }

    const V2: &str = "31 23 0:28 / /sys rw - sysfs sysfs rw\n30 23 0:27 / /sys/fs/cgroup rw,relatime shared:9 - \
        cgroup2 cgroup2 rw\n";
    const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 31 0:29 / \
        /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";

    #[test]
    fn the_limit_of_version_2_is_memory_max() {
        let at = |limit| {
            [("/proc/self/cgroup", "0::/app\n"), ("/proc/self/mountinfo", V2), ("/sys/fs/cgroup/app/memory.max", limit)]
        };
        assert_eq!(found(&at("104857600\n")), Some((104_857_600, "/sys/fs/cgroup/app/memory.max".to_owned())));
        assert_eq!(found(&at("max\n")), None);
    }

    #[test]
    fn the_limit_of_version_1_is_memory_limit_in_bytes() {
        let at = |limit| {
            [
                ("/proc/self/cgroup", "4:cpu:/\n3:hugetlb,memory:/app\n0::/\n"),
                ("/proc/self/mountinfo", V1),
                ("/sys/fs/cgroup/memory/app/memory.limit_in_bytes", limit),
            ]
        };
        let file = "/sys/fs/cgroup/memory/app/memory.limit_in_bytes".to_owned();
        assert_eq!(found(&at("104857600\n")), Some((104_857_600, file)));
        assert_eq!(found(&at("9223372036854771712\n")), None, "which is how version 1 says that there is none");
    }

    #[test]
    fn the_smallest_limit_up_to_the_root_holds() {
        let at = |outer, inner| {
            found(&[
                ("/proc/self/cgroup", "0::/outer/inner/app\n"),
                ("/proc/self/mountinfo", V2),
                ("/sys/fs/cgroup/outer/memory.max", outer),
                ("/sys/fs/cgroup/outer/inner/memory.max", inner),
                ("/sys/fs/cgroup/outer/inner/app/memory.max", "max"),
            ])
            .map(|(bytes, _)| bytes)
        };
        assert_eq!(at("100", "200"), Some(100));
        assert_eq!(at("200", "100"), Some(100));
        assert_eq!(at("max", "100"), Some(100));
        assert_eq!(at("max", "max"), None);
    }

    #[test]
    fn a_container_finds_its_own_limit_at_the_mount() {
        for (mounted, path) in [("/", "/"), ("/docker/1", "/docker/1"), ("/docker/1", "/"), ("/", "/../2")] {
            let mounts = V2.replace("0:27 / ", &format!("0:27 {mounted} "));
            let groups = format!("0::{path}\n");
            let files = [
                ("/proc/self/cgroup", groups.as_str()),
                ("/proc/self/mountinfo", mounts.as_str()),
                ("/sys/fs/cgroup/memory.max", "100\n"),
            ];
            assert_eq!(found(&files).map(|(bytes, _)| bytes), Some(100), "{mounted} {path}");
        }
        assert_eq!(found(&[]), None, "a system without control groups");
    }

    #[test]
    fn sizes_grow_with_the_limit_up_to_those_without_one() {
        let in_flight = (64 << 20, 256 << 20);
        let sizes = |limit: Option<u64>| {
            let sizes = MemorySizes::under(limit.map(|mib| mib * MIB), in_flight);
            assert_eq!(sizes.cache, sizes.store);
            (sizes.store as u64 / MIB, sizes.in_flight as u64 / MIB)
        };
        assert_eq!(sizes(None), (32, 256));
        assert_eq!(sizes(Some(1)), (2, 64));
        assert_eq!(sizes(Some(96)), (8, 64));
        assert_eq!(sizes(Some(256)), (21, 64));
        assert_eq!(sizes(Some(383)), (31, 95));
        assert_eq!(sizes(Some(384)), (32, 96));
        assert_eq!(sizes(Some(1 << 20)), (32, 256));
        let output = |limit: Option<u64>| MemorySizes::under(limit.map(|mib| mib * MIB), in_flight).output as u64 / MIB;
        assert_eq!([None, Some(1), Some(120), Some(1 << 20)].map(output), [64, 2, 10, 64]);
    }
}
