//! The limit on open files and sockets of this process, and the number of client connections that it permits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Number of file descriptors reserved for everything except client connections. Our choice: a dozen for the store, and
/// 256 for commands of Lambda tasks (four for each of 64). The rest is for HTTP requests to functions, other nodes and
/// a database.
const RESERVE: usize = 512;

/// Minimum number of file descriptors with which the service starts. Our choice: half of them suffice for the store,
/// the runtime and its sockets.
const DESCRIPTORS_MIN: usize = 64;

/// Raises the limit on open files as far as possible, and returns the maximum number of connections. The result is
/// `wanted` if given, otherwise the default, or less if the limit on open files requires it. Logs a warning if it is
/// less than `wanted`.
///
/// # Errors
///
/// The limit is too low for a service.
pub(crate) fn connections(wanted: Option<usize>, default: usize) -> Result<usize, String> {
    let descriptors = raise();
    if descriptors < DESCRIPTORS_MIN {
        return Err(format!(
            "this process may open {descriptors} files and sockets, expected {DESCRIPTORS_MIN} or more; raise the \
             limit with `ulimit -n` or `LimitNOFILE`"
        ));
    }
    let connections = within(wanted.unwrap_or(default), descriptors);
    match wanted {
        Some(wanted) if connections < wanted => tracing::warn!(
            max_connections = wanted,
            connections,
            descriptors,
            "fewer connections at once than configured, because this process may not open more files and sockets: \
             raise the limit with `ulimit -n` or `LimitNOFILE`"
        ),
        None if connections < default => tracing::info!(
            connections_max = default,
            connections,
            descriptors,
            "fewer connections at once than by default, because this process may not open more files and sockets"
        ),
        Some(_) | None => {}
    }
    Ok(connections)
}

/// Returns the number of connections, at most `wanted`, that leaves the reserve free. If there are very few
/// descriptors, half of them are reserved.
fn within(wanted: usize, descriptors: usize) -> usize {
    wanted.min(descriptors - RESERVE.min(descriptors / 2))
}

/// Raises the soft limit to the hard limit. Returns the effective limit.
fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let count = |limit: Option<u64>| limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if current == maximum {
        return count(current);
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => count(maximum),
        Err(error) => {
            tracing::debug!(%error, "the limit of open files could not be raised");
            count(current)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_the_reserve_or_half_of_very_few() {
        for (wanted, descriptors, connections) in [
            (20_000, 1_048_576, 20_000),
            (20_000, 20_512, 20_000),
            (20_000, 20_511, 19_999),
            (20_000, 1_024, 512),
            (20_000, 1_025, 513),
            (20_000, 256, 128),
            (20_000, DESCRIPTORS_MIN, 32),
            (100, 256, 100),
            (20_000, usize::MAX, 20_000),
        ] {
            assert_eq!(within(wanted, descriptors), connections, "{wanted} of {descriptors}");
        }
    }
}
