//! Checks of a service based on its metrics. All of them are pure functions.

use std::collections::{BTreeMap, BTreeSet};

use history::Timestamp;
use serde::Serialize;

/// Maximum accepted difference in seconds between the clocks of the service and this machine. Our choice: many times
/// the precision of NTP.
const CLOCKS_APART_MAX: f64 = 30.0;

/// Time in seconds for which a task may wait in a list without pollers before it is reported. Source: the alert about
/// task lists without pollers.
const UNPOLLED_MAX: f64 = 120.0;

/// Remaining validity of a certificate in seconds. Below the first value, the outcome is a warning (source: the alert
/// about certificates). Below the second one, it is a failure (one day; our choice).
const CERTIFICATE_WARNING: f64 = 14.0 * 86_400.0;
const CERTIFICATE_FAILING: f64 = 86_400.0;

/// Free disk space in bytes. If less is free, it is reported in any case. Our choice: equals the default disk space
/// reserved for open runs.
const DISK_LITTLE: f64 = 512.0 * MIB;
const MIB: f64 = 1_048_576.0;

/// Fraction of the permitted number of open files and sockets. If more are open, their number is reported. Our choice.
const DESCRIPTORS_MAX: f64 = 0.9;

/// Severity of a check's outcome, in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    #[serde(rename = "ok")]
    Well,
    Warning,
    Failing,
}

impl Verdict {
    pub(super) const fn exit_code(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::Warning => 1,
            Self::Failing => 2,
        }
    }
}

/// Outcome of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Check {
    #[serde(rename = "check")]
    pub(super) what: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// Recommended action; empty if there is no problem.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) advice: String,
}

impl Check {
    pub(super) fn row(self) -> [String; 4] {
        let verdict = match self.verdict {
            Verdict::Well => "ok",
            Verdict::Warning => "warning",
            Verdict::Failing => "failing",
        };
        [self.what.to_owned(), verdict.to_owned(), self.found, self.advice]
    }
}

/// Sample of a metric.
struct Sample<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, String>,
    value: f64,
}

/// Parses a line of Prometheus's text format. Returns `None` if the line is not a sample.
fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at_checked(end)?;
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while let Some((label, after)) = rest.split_once("=\"") {
            let (mut value, mut end, mut chars) = (String::new(), None, after.char_indices());
            while let Some((at, c)) = chars.next() {
                match c {
                    '"' => {
                        end = Some(at);
                        break;
                    }
                    '\\' => value.push(match chars.next()?.1 {
                        'n' => '\n',
                        c => c,
                    }),
                    c => value.push(c),
                }
            }
            labels.insert(label.trim_start_matches(','), value);
            rest = after.get(end? + 1..)?;
            if rest.starts_with('}') {
                break;
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    Some(Sample { name, labels, value: rest.trim().parse().ok()? })
}

/// All samples in the metrics of a service.
struct Metrics<'a>(Vec<Sample<'a>>);

impl Metrics<'_> {
    fn of<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Sample<'s>> {
        self.0.iter().filter(move |sample| sample.name == name)
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.of(name).next().map(|sample| sample.value)
    }

    /// Formats the samples of a metric, by domain: `12 in default, 1 in shop`. Samples with the value zero are omitted.
    fn by_domain(&self, name: &str) -> Option<String> {
        let told = self.of(name).filter(|sample| sample.value > 0.0);
        let told: Vec<_> = told
            .map(|sample| format!("{} in {}", sample.value, sample.labels.get("domain").map_or("*", |it| it.as_str())))
            .collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

/// Performs all checks on the metrics in `text`. `now` is the time according to this machine's clock.
pub(super) fn checks(text: &str, now: Timestamp) -> Vec<Check> {
    let metrics = Metrics(text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect());
    let mut checks = vec![disk(&metrics), version(&metrics), nodes(&metrics), clock(&metrics, now)];
    checks.extend([clock_believed(&metrics), descriptors(&metrics), certificate(&metrics)]);
    checks.push(counted(
        &metrics,
        "secrets",
        "baton_secrets_expiring",
        "none expires within a week",
        "create new ones: `baton credential new`",
    ));
    checks.push(counted(
        &metrics,
        "files",
        "baton_reload_failing",
        "all changed files are loaded",
        "the service's log shows what is wrong with the file",
    ));
    checks.push(unknown_domains(&metrics));
    checks.push(archive(&metrics));
    checks.push(unpolled(&metrics));
    for (what, name, verdict, advice) in [
        (
            "stuck runs",
            "baton_runs_stuck",
            Verdict::Warning,
            "`baton workflow list --status stuck`: signal or reset them",
        ),
        (
            "failing runs",
            "baton_runs_failing",
            Verdict::Failing,
            "`baton workflow list --status failing`: correct their deciders",
        ),
        (
            "blocked runs",
            "baton_runs_blocked",
            Verdict::Warning,
            "`baton workflow list --status blocked`: resume, complete or fail the activity",
        ),
        (
            "repeating runs",
            "baton_runs_repeating",
            Verdict::Warning,
            "`baton workflow list --status repeating`: their deciders repeat completed activities; see \
                `baton workflow show`",
        ),
    ] {
        checks.push(match metrics.by_domain(name) {
            None => well(what, "none".to_owned()),
            Some(found) => Check { what, verdict, found, advice: advice.to_owned() },
        });
    }
    checks
}

pub(super) fn well(what: &'static str, found: String) -> Check {
    Check { what, verdict: Verdict::Well, found, advice: String::new() }
}

fn bad(what: &'static str, verdict: Verdict, found: String, advice: &str) -> Check {
    Check { what, verdict, found, advice: advice.to_owned() }
}

fn version(metrics: &Metrics<'_>) -> Check {
    let (what, own) = ("version", env!("CARGO_PKG_VERSION"));
    match metrics.of("baton_build_info").next().and_then(|build| build.labels.get("version")) {
        Some(version) if version == own => well(what, version.clone()),
        Some(version) => bad(
            what,
            Verdict::Warning,
            format!("the service has version {version}, this program {own}"),
            "use `baton` in the service's version",
        ),
        None => {
            bad(what, Verdict::Warning, "the service does not report its version".to_owned(), "upgrade the service")
        }
    }
}

fn disk(metrics: &Metrics<'_>) -> Check {
    let (what, reserve) = ("disk", metrics.value("baton_disk_reserve_bytes").unwrap_or_default());
    let Some(free) = metrics.value("baton_disk_free_bytes") else {
        return well(what, "the store uses no local disk".to_owned());
    };
    let mib = |bytes: f64| (bytes / MIB).floor();
    let found = format!("{} MiB free, {} MiB reserved for open runs", mib(free), mib(reserve));
    if free < reserve {
        return bad(
            what,
            Verdict::Failing,
            found,
            "no run can be started: free disk space, or start the service with a lower --disk-reserve",
        );
    }
    if free < 2.0 * reserve.max(DISK_LITTLE) {
        return bad(what, Verdict::Warning, found, "free disk space before starts of runs fail");
    }
    well(what, found)
}

/// Lag of an archive in seconds. A larger lag is reported, because changes of this period are lost if the machine is
/// lost. Our choice: ten times the normal lag.
const SHIP_LAG_MAX: f64 = 10.0;

fn archive(metrics: &Metrics<'_>) -> Check {
    let what = "archive";
    let Some(lag) = metrics.value("baton_ship_lag_seconds") else {
        return well(what, "the store is not shipped to an archive".to_owned());
    };
    let found = format!("{lag:.0} s behind");
    if lag > SHIP_LAG_MAX || metrics.value("baton_ship_failing").is_some_and(|failing| failing > 0.0) {
        return bad(what, Verdict::Warning, found, "check the disk and mount, or the bucket, of --ship-to");
    }
    well(what, found)
}

fn nodes(metrics: &Metrics<'_>) -> Check {
    let versions = metrics.of("baton_nodes").filter(|sample| sample.value > 0.0);
    let told: Vec<_> = versions
        .map(|it| format!("{} of version {}", it.value, it.labels.get("version").map_or("unknown", String::as_str)))
        .collect();
    match &told[..] {
        [] => well("nodes", "single node (store not shared)".to_owned()),
        [one] => well("nodes", one.clone()),
        _ => bad("nodes", Verdict::Warning, told.join(", "), "upgrade all nodes to one version"),
    }
}

/// Compares the clocks of the service and this machine. The service counts flagged runs whenever its metrics are read.
/// The time of that count, which is in the metrics, is therefore the service's current time.
#[expect(clippy::cast_precision_loss, reason = "no time has 2^52 milliseconds")]
fn clock(metrics: &Metrics<'_>, now: Timestamp) -> Check {
    let Some(at) = metrics.value("baton_runs_flagged_counted_timestamp_seconds") else {
        return bad("clock", Verdict::Warning, "the service could not count its runs".to_owned(), "see its log");
    };
    let apart = at - now.as_millis() as f64 / 1_000.0;
    if apart.abs() <= CLOCKS_APART_MAX {
        return well("clock", "agrees with this machine's".to_owned());
    }
    let (long, how) = (apart.abs(), if apart > 0.0 { "ahead of" } else { "behind" });
    bad("clock", Verdict::Warning, format!("{long:.0} s {how} this machine's"), "one of the clocks is wrong: check NTP")
}

fn clock_believed(metrics: &Metrics<'_>) -> Check {
    if metrics.value("baton_clock_suspect") == Some(1.0) {
        let found = "the clock has jumped ahead; retention deletes nothing".to_owned();
        return bad("retention", Verdict::Failing, found, "if the clock is right: `baton clock confirm`");
    }
    well("retention", "the clock is trusted".to_owned())
}

fn descriptors(metrics: &Metrics<'_>) -> Check {
    let what = "descriptors";
    let Some((open, most)) = metrics.value("process_open_fds").zip(metrics.value("process_max_fds")) else {
        return well(what, "unknown on this system".to_owned());
    };
    let found = format!("{open} of {most}");
    if open <= most * DESCRIPTORS_MAX {
        return well(what, found);
    }
    bad(what, Verdict::Failing, found, "raise `LimitNOFILE`, or lower --max-connections")
}

fn certificate(metrics: &Metrics<'_>) -> Check {
    let Some(left) = metrics.value("baton_tls_certificate_remaining_seconds") else {
        return well("certificate", "none: connections are not encrypted".to_owned());
    };
    let found = format!("valid for {:.0} more days", (left / 86_400.0).floor());
    let verdict = match left {
        left if left < CERTIFICATE_FAILING => Verdict::Failing,
        left if left < CERTIFICATE_WARNING => Verdict::Warning,
        _ => return well("certificate", found),
    };
    bad("certificate", verdict, found, "renew it in the same files; the service reloads them")
}

/// Checks a metric that is zero if there is no problem. If it is zero, `fine` describes the outcome.
fn counted(metrics: &Metrics<'_>, what: &'static str, name: &str, fine: &str, advice: &str) -> Check {
    let count: f64 = metrics.of(name).map(|sample| sample.value).sum();
    if count <= 0.0 {
        return well(what, fine.to_owned());
    }
    let of = metrics.of(name).filter(|sample| sample.value > 0.0).filter_map(|sample| sample.labels.get("file"));
    let of: Vec<_> = of.map(String::as_str).collect();
    let found = match name {
        "baton_secrets_expiring" => format!("{count} expire within a week"),
        _ => format!("rejected, earlier contents still used: {}", of.join(", ")),
    };
    bad(what, Verdict::Warning, found, advice)
}

fn unknown_domains(metrics: &Metrics<'_>) -> Check {
    let what = "domains";
    let named: BTreeSet<_> = metrics
        .of("baton_unknown_domains")
        .filter(|sample| sample.value > 0.0)
        .filter_map(|sample| sample.labels.get("domain"))
        .map(|domain| format!("`{domain}`"))
        .collect();
    if named.is_empty() {
        return well(what, "all domains in the configuration exist".to_owned());
    }
    let named: Vec<_> = named.into_iter().collect();
    let found = format!("the configuration names domains that do not exist: {}", named.join(", "));
    let advice = "correct the names in the service's configuration, or create the domains: `baton domain create`";
    bad(what, Verdict::Warning, found, advice)
}

fn unpolled(metrics: &Metrics<'_>) -> Check {
    let list = |sample: &Sample<'_>| {
        ["domain", "kind", "list"].map(|label| sample.labels.get(label).cloned().unwrap_or_default())
    };
    let polled = metrics.of("baton_pollers_waiting").filter(|sample| sample.value > 0.0);
    let polled: BTreeSet<_> = polled.map(list).collect();
    let waiting = metrics.of("baton_oldest_task_seconds").filter(|sample| sample.value > UNPOLLED_MAX);
    let told: Vec<_> = waiting
        .filter(|sample| !polled.contains(&list(sample)))
        .map(|sample| {
            let [domain, side, name] = list(sample);
            format!("{name} ({domain}, {side}): {:.0} s", sample.value)
        })
        .collect();
    if told.is_empty() {
        return well("lists", "all lists with waiting tasks have pollers".to_owned());
    }
    let advice = "start their deciders or runners, or correct the name of the list that they poll";
    bad("lists", Verdict::Failing, told.join(", "), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn healthy() -> String {
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "# HELP x\nbaton_build_info{{version=\"{version}\",features=\"\"}} 1\n\
             baton_runs_flagged_counted_timestamp_seconds 1700000010\nbaton_clock_suspect 0\n\
             baton_disk_free_bytes 1073741824\nbaton_disk_reserve_bytes 536870912\n\
             baton_nodes{{version=\"{version}\"}} 2\n\
             baton_ship_lag_seconds 0.1\nbaton_ship_failing 0\n\
             process_open_fds 10.0\nprocess_max_fds 100.0\nbaton_secrets_expiring 0\n\
             baton_tls_certificate_remaining_seconds 5000000\nbaton_runs_stuck{{domain=\"default\"}} 0\n\
             baton_oldest_task_seconds{{domain=\"d\",kind=\"decider\",list=\"a\"}} 500\n\
             baton_pollers_waiting{{domain=\"d\",kind=\"decider\",list=\"a\"}} 1\n# EOF\n"
        )
    }

    /// Returns the problems that the checks find after these lines were added to the metrics of a healthy service. The
    /// lines replace existing lines of the same metrics.
    fn found(lines: &str) -> Vec<(&'static str, Verdict, String)> {
        let name = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
        let new: BTreeSet<_> = lines.lines().map(name).collect();
        let kept: Vec<_> = healthy().lines().filter(|line| !new.contains(&name(line))).map(str::to_owned).collect();
        let checks = checks(&format!("{}\n{lines}\n", kept.join("\n")), NOW);
        let bad = checks.into_iter().filter(|check| check.verdict != Verdict::Well);
        bad.inspect(|check| assert!(!check.advice.is_empty())).map(|it| (it.what, it.verdict, it.found)).collect()
    }

    #[test]
    fn what_a_service_does_not_have_is_well() {
        let lacks = |name: &str| {
            let kept: Vec<_> = healthy().lines().filter(|line| !line.starts_with(name)).map(str::to_owned).collect();
            let checks = checks(&kept.join("\n"), NOW);
            assert!(checks.iter().all(|check| check.verdict == Verdict::Well), "{checks:?}");
            checks
        };
        for (name, what, says) in [
            ("baton_disk_", "disk", "uses no local disk"),
            ("baton_nodes", "nodes", "single node"),
            ("baton_ship_", "archive", "is not shipped"),
            ("baton_tls_", "certificate", "not encrypted"),
        ] {
            let checks = lacks(name);
            assert!(checks.iter().any(|check| check.what == what && check.found.contains(says)), "{checks:?}");
        }
    }

    #[test]
    fn each_check_says_what_is_well_about_its_subject() {
        let checks = checks(&healthy(), NOW);
        let found = |what: &str| checks.iter().find(|check| check.what == what).unwrap().found.clone();
        assert_eq!(found("secrets"), "none expires within a week");
        assert_eq!(found("files"), "all changed files are loaded");
    }

    #[test]
    fn each_problem_is_reported_with_its_severity() {
        use Verdict::{Failing, Warning};
        assert_eq!(found(""), []);
        for (lines, what, verdict, says) in [
            ("baton_build_info{version=\"9.9\"} 1", "version", Warning, "the service has version 9.9"),
            ("baton_runs_flagged_counted_timestamp_seconds 1700000031", "clock", Warning, "31 s ahead of this"),
            ("baton_runs_flagged_counted_timestamp_seconds 1699999969", "clock", Warning, "31 s behind this"),
            ("baton_disk_free_bytes 536870911", "disk", Failing, "511 MiB free, 512 MiB reserved"),
            ("baton_disk_free_bytes 536870912", "disk", Warning, "512 MiB free"),
            ("baton_disk_free_bytes 1073741823", "disk", Warning, "1023 MiB free"),
            ("baton_disk_reserve_bytes 0\nbaton_disk_free_bytes 0", "disk", Warning, "0 MiB reserved"),
            (
                "baton_nodes{version=\"1.0\"} 1\nbaton_nodes{version=\"1.1\"} 2",
                "nodes",
                Warning,
                "1 of version 1.0, 2 of",
            ),
            ("baton_nodes{version=\"1.0\"} 1\nbaton_nodes{version=\"unknown\"} 1", "nodes", Warning, "unknown"),
            ("baton_clock_suspect 1", "retention", Failing, "jumped ahead"),
            ("process_open_fds 91", "descriptors", Failing, "91 of 100"),
            ("baton_tls_certificate_remaining_seconds 1209599", "certificate", Warning, "13 more days"),
            ("baton_tls_certificate_remaining_seconds 86399", "certificate", Failing, "0 more days"),
            ("baton_secrets_expiring 2", "secrets", Warning, "2 expire"),
            ("baton_unknown_domains{domain=\"shopp\"} 1", "domains", Warning, "`shopp`"),
            ("baton_reload_failing{file=\"tls\"} 1", "files", Warning, "tls"),
            ("baton_ship_lag_seconds 10.1", "archive", Warning, "10 s behind"),
            ("baton_ship_failing 1", "archive", Warning, "0 s behind"),
            (
                "baton_pollers_waiting{domain=\"d\",kind=\"decider\",list=\"b\"} 1",
                "lists",
                Failing,
                "a (d, decider): 500 s",
            ),
            ("baton_runs_stuck{domain=\"a\\\"b\"} 3", "stuck runs", Warning, "3 in a\"b"),
            ("baton_runs_failing{domain=\"shop\"} 1", "failing runs", Failing, "1 in shop"),
            ("baton_runs_blocked{domain=\"shop\"} 1", "blocked runs", Warning, "1 in shop"),
            ("baton_runs_repeating{domain=\"shop\"} 2", "repeating runs", Warning, "2 in shop"),
        ] {
            let found = found(lines);
            assert!(
                matches!(&found[..], [(of, how, it)] if (*of, *how) == (what, verdict) && it.contains(says)),
                "{found:?}"
            );
        }
        // Values exactly at a limit are not reported.
        for lines in [
            "baton_runs_flagged_counted_timestamp_seconds 1700000030",
            "baton_nodes{version=\"9.9\"} 3",
            "process_open_fds 90",
            "baton_tls_certificate_remaining_seconds 1209600",
            "baton_oldest_task_seconds{domain=\"d\",kind=\"decider\",list=\"z\"} 120",
        ] {
            assert_eq!(found(lines), [], "{lines}");
        }
    }
}
