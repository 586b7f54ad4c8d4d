//! The settings of `baton serve`, from options, environment variables and the configuration file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use engine::admission::{Limit, QuotaLimits};
use serde::Deserialize;
use service::access::{Credential, Issuer, Stanzas};
use service::http::Console;
use service::lambda::Function;

use crate::config;
use crate::dynamodb::Table;
use crate::encryption::EncryptionOptions;
use crate::list_limits::{LimitGroupSection, ListLimits, TaskListSection};
use crate::shipping::Shipping;
use crate::spans::Spans;

/// Kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StoreKind {
    /// Files in the data directory.
    Embedded,
    /// Memory only: all data is lost when the process ends.
    Memory,
    /// A DynamoDB table, which several nodes can share. Requires a `baton` built with the feature `dynamodb`.
    Dynamodb,
}

/// Run the service.
///
/// Every option can also be set in the environment or, by its name, in a TOML file (`--config`). The command line takes
/// precedence over the environment, and the environment over the file.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
#[expect(
    clippy::unsafe_derive_deserialize,
    reason = "the unsafe code is within tokio::select, and no field is part of it"
)]
pub(crate) struct Serve {
    /// Configuration file (TOML) with any of these options
    #[arg(long, env = "BATON_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Data directory [default: baton-data]
    #[arg(long, env = "BATON_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address and port, e.g. `0.0.0.0:7420`; `:7420` for this machine only, port 0 for any free port [default:
    /// 127.0.0.1:7420]
    #[arg(long, env = "BATON_LISTEN", value_name = "ADDRESS", value_parser = listen_address)]
    #[serde(deserialize_with = "listen_in_file")]
    pub(crate) listen: Option<SocketAddr>,
    /// Accept connections from other machines although no credentials are configured
    #[arg(long, env = "BATON_ALLOW_REMOTE_WITHOUT_CREDENTIALS")]
    pub(crate) allow_remote_without_credentials: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) encryption: EncryptionOptions,
    /// Further host names, separated by commas, of a service that listens only on this machine and has no credentials;
    /// all other services accept any host name
    #[arg(long, env = "BATON_ALLOWED_HOSTS", value_name = "NAME", value_delimiter = ',')]
    pub(crate) allowed_hosts: Vec<String>,
    /// Serve the web console at `/console/` and the documentation at `/docs/` [default: on]
    #[arg(long, env = "BATON_CONSOLE")]
    pub(crate) console: Option<Console>,
    /// URL at which other nodes reach this one, e.g. `https://10.0.0.7:7420` [default: the address of --listen]
    #[arg(long, env = "BATON_NODE_ADDRESS", value_name = "URL")]
    pub(crate) node_address: Option<String>,
    /// File to which the address is written when the service is ready
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,
    /// Kind of store [default: embedded]
    #[arg(long, env = "BATON_STORE")]
    pub(crate) store: Option<StoreKind>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) table: Table,
    /// Memory for the cache of runs, in MiB [default: 32, or a twelfth of the control group's limit if that is less]
    #[arg(long, env = "BATON_CACHE_MIB", value_name = "MIB")]
    pub(crate) cache_mib: Option<usize>,
    /// Memory for data that is not yet in the store's tables, in MiB [default: 32, or a twelfth of the control group's
    /// limit if that is less]
    #[arg(long, env = "BATON_STORE_MEMORY_MIB", value_name = "MIB")]
    pub(crate) store_memory_mib: Option<usize>,
    /// Maximum size of the log between two checkpoints, in MiB [default: 64]
    #[arg(long, env = "BATON_STORE_LOG_MIB", value_name = "MIB")]
    pub(crate) store_log_mib: Option<u64>,
    /// Disk space reserved for open runs, in MiB: with less free space, no run is started; 0 for none [default: 512]
    #[arg(long, env = "BATON_DISK_RESERVE", value_name = "MIB")]
    pub(crate) disk_reserve: Option<u64>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) shipping: Shipping,
    /// Maximum number of connections [default: 20000]
    #[arg(long, env = "BATON_MAX_CONNECTIONS", value_name = "COUNT")]
    pub(crate) max_connections: Option<usize>,
    /// Number of requests processed concurrently; if more are waiting, domains take turns [default: two per processor]
    #[arg(long, env = "BATON_MAX_CONCURRENT_REQUESTS", value_name = "COUNT")]
    pub(crate) max_concurrent_requests: Option<usize>,
    /// Grace period for open requests when the service stops, in seconds [default: 10]
    #[arg(long, env = "BATON_SHUTDOWN_SECONDS", value_name = "SECONDS")]
    pub(crate) shutdown_seconds: Option<u64>,
    /// Enforce the limits of AWS SWF for runs started over its protocol: 25,000 events, one year, 100,000 open runs,
    /// 100 domains, 1,000 polls per list
    #[arg(long, env = "BATON_SWF_LIMITS")]
    pub(crate) swf_limits: bool,
    /// Directory of compiled time-zone tables for schedules, e.g. /usr/share/zoneinfo [default: built-in tables]
    #[arg(long, env = "BATON_ZONEINFO", value_name = "DIR")]
    pub(crate) zoneinfo: Option<PathBuf>,
    /// Function for SWF's Lambda tasks: a URL to which its input is posted, or a shell command; can be repeated
    #[arg(long = "lambda", value_name = "NAME=URL|COMMAND")]
    #[serde(skip)]
    pub(crate) lambdas: Vec<String>,
    /// Functions from the configuration file.
    #[arg(skip)]
    #[serde(rename = "lambda")]
    pub(crate) functions: BTreeMap<String, Function>,
    /// Credentials; only in the configuration file.
    #[arg(skip)]
    pub(crate) credentials: Vec<Credential>,
    /// Token issuers; only in the configuration file.
    #[arg(skip)]
    pub(crate) issuers: Vec<Issuer>,
    /// Quotas of domains and credentials; only in the configuration file.
    #[arg(skip)]
    pub(crate) limits: Vec<Limit>,
    /// Limits of task lists; only in the configuration file.
    #[arg(skip)]
    pub(crate) task_lists: Vec<TaskListSection>,
    /// Limit groups of task lists; only in the configuration file.
    #[arg(skip)]
    pub(crate) limit_groups: Vec<LimitGroupSection>,
    /// File to which a JSON line per request is appended; `-` for standard output
    #[arg(long, env = "BATON_ACCESS_LOG", value_name = "FILE|-")]
    pub(crate) access_log: Option<String>,
    /// Directory of the audit log, which records every change before it is made
    #[arg(long, env = "BATON_AUDIT_LOG", value_name = "DIR")]
    pub(crate) audit_log: Option<PathBuf>,
    /// Log JSON lines instead of text
    #[arg(long, env = "BATON_LOG_JSON")]
    pub(crate) log_json: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) spans: Spans,
    /// Log filter: a level, or levels by prefix of crate names, e.g. `warn,baton=debug` [default: info]
    #[arg(long, env = "BATON_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

impl Serve {
    /// Returns these settings, with absent ones taken from the configuration file.
    pub(crate) fn with_file(self) -> Result<Self, String> {
        let Some(path) = &self.config else { return Ok(self) };
        let file: Self = config::read(path)?;
        Ok(Self {
            data_dir: self.data_dir.or(file.data_dir),
            listen: self.listen.or(file.listen),
            allow_remote_without_credentials: self.allow_remote_without_credentials
                || file.allow_remote_without_credentials,
            encryption: self.encryption.or(file.encryption),
            allowed_hosts: if self.allowed_hosts.is_empty() { file.allowed_hosts } else { self.allowed_hosts },
            console: self.console.or(file.console),
            node_address: self.node_address.or(file.node_address),
            port_file: self.port_file.or(file.port_file),
            store: self.store.or(file.store),
            table: self.table.or(file.table),
            cache_mib: self.cache_mib.or(file.cache_mib),
            store_memory_mib: self.store_memory_mib.or(file.store_memory_mib),
            store_log_mib: self.store_log_mib.or(file.store_log_mib),
            disk_reserve: self.disk_reserve.or(file.disk_reserve),
            shipping: self.shipping.or(file.shipping),
            max_connections: self.max_connections.or(file.max_connections),
            max_concurrent_requests: self.max_concurrent_requests.or(file.max_concurrent_requests),
            shutdown_seconds: self.shutdown_seconds.or(file.shutdown_seconds),
            lambdas: self.lambdas,
            swf_limits: self.swf_limits || file.swf_limits,
            zoneinfo: self.zoneinfo.or(file.zoneinfo),
            functions: file.functions,
            credentials: file.credentials,
            issuers: file.issuers,
            limits: file.limits,
            task_lists: file.task_lists,
            limit_groups: file.limit_groups,
            access_log: self.access_log.or(file.access_log),
            audit_log: self.audit_log.or(file.audit_log),
            log_json: self.log_json || file.log_json,
            spans: self.spans.or(file.spans),
            log: self.log.or(file.log),
            config: self.config,
        })
    }

    /// Returns the credentials and issuers of the settings.
    pub(crate) fn stanzas(self) -> Stanzas {
        Stanzas { credentials: self.credentials, issuers: self.issuers }
    }

    /// Returns the files that contain permissions: the configuration file, and the key files of issuers.
    pub(crate) fn read_from(path: &Path, issuers: &[Issuer]) -> Vec<PathBuf> {
        let keys = issuers.iter().filter_map(|issuer| issuer.jwks_file.clone());
        std::iter::once(path.to_owned()).chain(keys).collect()
    }

    /// Returns the quotas of the settings.
    pub(crate) fn limits(&self) -> Result<QuotaLimits, String> {
        QuotaLimits::read(self.limits.clone())
    }

    /// Returns the limits of task lists.
    pub(crate) fn list_limits(&self) -> Result<ListLimits, String> {
        ListLimits::read(&self.task_lists, &self.limit_groups)
    }

    /// Returns the data directory.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| PathBuf::from("baton-data"))
    }

    /// Returns the functions by name. A function on the command line replaces one of the same name in the file.
    pub(crate) fn lambda(&self) -> Result<BTreeMap<String, Function>, String> {
        let given = self.lambdas.iter().map(|entry| {
            let given = entry.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, what) = given.ok_or_else(|| format!("`--lambda {entry}`: expected NAME=URL or NAME=COMMAND"))?;
            Ok((name.to_owned(), what.parse().map_err(|error| format!("lambda `{name}`: {error}"))?))
        });
        let in_file = self.functions.iter().map(|(name, function)| Ok((name.clone(), function.clone())));
        in_file.chain(given).collect()
    }
}

/// Checks that the certificates of credentials can be used.
///
/// # Errors
///
/// If a credential has certificates, but the service does not request certificates from clients.
pub(crate) fn must_be_shown(credentials: &[Credential], asks_callers: bool) -> Result<(), String> {
    let certified = credentials.iter().find(|credential| !credential.certificates.is_empty());
    certified.filter(|_| !asks_callers).map_or(Ok(()), |Credential { name, .. }| {
        Err(format!("credential `{name}` has certificates, but clients are not asked for any: give --tls-client-ca"))
    })
}

/// Parses a listen address. Without a host, or with the host `localhost`, the address is reachable only from this
/// machine.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let host_and_port = text.rsplit_once(':').filter(|(host, _)| matches!(*host, "" | "localhost"));
    let whole = host_and_port.map_or_else(|| text.to_owned(), |(_, port)| format!("127.0.0.1:{port}"));
    whole
        .parse()
        .map_err(|_| format!("`{text}`: expected e.g. `127.0.0.1:7420`, `0.0.0.0:7420`, `localhost:7420` or `:7420`"))
}

fn listen_in_file<'de, D: serde::Deserializer<'de>>(file: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(file)?;
    listen_address(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listen_address_without_a_host_is_local() {
        for (text, address) in [
            ("127.0.0.1:7420", Some("127.0.0.1:7420")),
            ("localhost:7420", Some("127.0.0.1:7420")),
            (":7420", Some("127.0.0.1:7420")),
            (":0", Some("127.0.0.1:0")),
            ("0.0.0.0:7420", Some("0.0.0.0:7420")),
            ("[::]:7420", Some("[::]:7420")),
            ("7420", None),
            ("baton.example:7420", None),
            (":http", None),
            ("", None),
        ] {
            assert_eq!(listen_address(text).ok().map(|address| address.to_string()).as_deref(), address, "{text}");
        }
        let file = |text: &str| toml::from_str::<Serve>(text).map(|serve| serve.listen);
        assert_eq!(file("listen = \":7421\"").unwrap(), Some("127.0.0.1:7421".parse().unwrap()));
        assert!(file("listen = \"there\"").is_err());
        assert_eq!(file("").unwrap(), None);
    }
}
