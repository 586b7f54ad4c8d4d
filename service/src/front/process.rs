//! Metrics of the process, under the names that most Prometheus exporters use.

use engine::{MetricKind, MetricsPage, PageLabels};

/// Writes the version and features of this build, and measurements of the process.
pub(super) fn write(page: &mut MetricsPage) {
    let features = if cfg!(feature = "dynamodb") { "dynamodb" } else { "" };
    let labels = vec![("version", env!("CARGO_PKG_VERSION").into()), ("features", features.into())];
    page.family("build_info", MetricKind::Gauge, "1, with the version and features of this build", [(labels, 1_u64)]);
    #[cfg(target_os = "linux")]
    if let Some(readings) = linux::read() {
        for (name, kind, help, number) in readings {
            page.family_of_process(name, kind, help, [(PageLabels::new(), number)]);
        }
    }
}

/// Process metrics on Linux.
///
/// Source: Prometheus, "Writing client libraries", section "Process metrics".
#[cfg(target_os = "linux")]
mod linux {
    use engine::MetricKind::{self, Counter, Gauge};
    use procfs::WithCurrentSystemInfo as _;
    use procfs::process::{LimitValue, Process};

    type Row = (&'static str, MetricKind, &'static str, f64);

    /// Returns the measurements; `None` if `/proc` cannot be read.
    #[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
    pub(super) fn read() -> Option<[Row; 6]> {
        let process = Process::myself().ok()?;
        let stat = process.stat().ok()?;
        let open = process.fd_count().ok()?;
        let most = match process.limits().ok()?.max_open_files.soft_limit {
            LimitValue::Value(most) => most as f64,
            LimitValue::Unlimited => f64::INFINITY,
        };
        let ticks = procfs::ticks_per_second() as f64;
        let started = procfs::boot_time_secs().ok()? as f64 + stat.starttime as f64 / ticks;
        let cpu = (stat.utime + stat.stime) as f64 / ticks;
        Some([
            ("process_cpu_seconds", Counter, "Processor time of this process", cpu),
            ("process_resident_memory_bytes", Gauge, "Resident memory of this process", stat.rss_bytes().get() as f64),
            ("process_virtual_memory_bytes", Gauge, "Virtual memory of this process", stat.vsize as f64),
            ("process_open_fds", Gauge, "Open files and sockets of this process", open as f64),
            ("process_max_fds", Gauge, "Maximum number of open files and sockets", most),
            ("process_start_time_seconds", Gauge, "Start time of this process", started),
        ])
    }
}
