//! `baton serve`: reads the settings, opens the store and the sockets, and shuts down gracefully.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use clap::{Args, ValueEnum};
use engine::admission::{Limit, QuotaLimits};
use engine::{Engine, Node, Settings, SwfQuotas, SystemClock};
use serde::Deserialize;
use service::access::{Credential, Credentials, Issuer, Stanzas};
use service::access_log::AccessLog;
use service::api::router_at;
use service::audit::AuditLog;
use service::front::{Front, FrontSettings};
use service::http::{Console, Hosts, MayAnswer, Server, ServerLimits, with_audit_log, with_request_log};
use service::lambda::Function;
use service::reload::{FileWatch, Hangups};
use store::Store;
use store::memory::Memory;
use store_embedded::{Embedded, Options};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config;
use crate::credentials::Keeper;
use crate::dynamodb::Table;
use crate::encryption::Encryption;
use crate::memory::{self, MemoryLimit, MemorySizes};
use crate::notify;
use crate::shipping::{Shipping, begin_new_life};
use crate::spans::Spans;

/// Default listen address: this machine only.
const LISTEN_DEFAULT: &str = "127.0.0.1:7420";

/// Default disk space reserved for open runs, in MiB. Ours: eight times the log that may wait for a checkpoint (64
/// MiB), so that open runs can write for some time; and little compared to the smallest disks of servers.
const DISK_RESERVE_MIB: u64 = 512;

/// Minimum limit of bytes of requests and responses in flight, even with little memory. Ours: the largest body, an
/// import of a run, must fit twice.
const BYTES_IN_FLIGHT_MIN: usize = 2 * history::limits::IMPORTED_BYTES_MAX;

/// The kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoreKind {
    /// In files in the data directory.
    Embedded,
    /// In memory only: everything is gone when the process ends.
    Memory,
    /// In a DynamoDB table, which other nodes may share. Needs a `baton` built with the feature `dynamodb`.
    Dynamodb,
}

/// Run the service.
///
/// Every option can also be given in the environment or in a TOML file (`--config`), by the option's name; an option on
/// the command line comes first, then the environment, then the file.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
#[expect(
    clippy::unsafe_derive_deserialize,
    reason = "the unsafe code is within tokio::select, and no field is part of it"
)]
pub(crate) struct Serve {
    /// A TOML file with any of these options
    #[arg(long, env = "BATON_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// Where to keep everything [default: baton-data]
    #[arg(long, env = "BATON_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address and port to listen on, e.g. `0.0.0.0:7420`; `:7420` is this machine only, port 0 picks a free one
    /// [default: 127.0.0.1:7420]
    #[arg(long, env = "BATON_LISTEN", value_name = "ADDRESS", value_parser = listen_address)]
    #[serde(deserialize_with = "listen_in_file")]
    listen: Option<SocketAddr>,
    /// Listen beyond this machine although nobody is asked who they are
    #[arg(long, env = "BATON_ALLOW_REMOTE_WITHOUT_CREDENTIALS")]
    allow_remote_without_credentials: bool,
    #[command(flatten)]
    #[serde(flatten)]
    encryption: Encryption,
    /// Names under which the service may be asked beside this machine's own, where it listens on this machine alone
    /// and nobody is asked who they are; separated by commas
    #[arg(long, env = "BATON_ALLOWED_HOSTS", value_name = "NAME", value_delimiter = ',')]
    allowed_hosts: Vec<String>,
    /// Whether the web console is there, below `/console/` [default: on]
    #[arg(long, env = "BATON_CONSOLE")]
    console: Option<Console>,
    /// Where the other nodes over the same store reach this one, e.g. `https://10.0.0.7:7420` [default: where it
    /// listens]
    #[arg(long, env = "BATON_NODE_ADDRESS", value_name = "URL")]
    node_address: Option<String>,
    /// Write the address that is listened on to this file, once the service is ready
    #[arg(long, value_name = "FILE")]
    port_file: Option<PathBuf>,
    /// Where runs are kept [default: embedded]
    #[arg(long, env = "BATON_STORE")]
    store: Option<StoreKind>,
    #[command(flatten)]
    #[serde(flatten)]
    table: Table,
    /// Memory for recently used runs, in MiB [default: 32, or a twelfth of the control group's limit if that is less]
    #[arg(long, env = "BATON_CACHE_MIB", value_name = "MIB")]
    cache_mib: Option<usize>,
    /// Memory for what is not yet in the store's tables, in MiB [default: 32, or a twelfth of the control group's
    /// limit if that is less]
    #[arg(long, env = "BATON_STORE_MEMORY_MIB", value_name = "MIB")]
    store_memory_mib: Option<usize>,
    /// Log that may wait for a checkpoint, in MiB [default: 64]
    #[arg(long, env = "BATON_STORE_LOG_MIB", value_name = "MIB")]
    store_log_mib: Option<u64>,
    /// Room on the disk of the data directory that is kept for runs that are open, in MiB: with less no other is
    /// started; 0 for none [default: 512]
    #[arg(long, env = "BATON_DISK_RESERVE", value_name = "MIB")]
    disk_reserve: Option<u64>,
    #[command(flatten)]
    #[serde(flatten)]
    shipping: Shipping,
    /// Connections at once [default: 20000]
    #[arg(long, env = "BATON_CONNECTIONS_MAX", value_name = "COUNT")]
    connections_max: Option<usize>,
    /// Requests that are worked on at once; beyond them domains take turns [default: two for each processor]
    #[arg(long, env = "BATON_REQUESTS_AT_ONCE", value_name = "COUNT")]
    requests_at_once: Option<usize>,
    /// How long requests under way may take when the service stops, in seconds [default: 10]
    #[arg(long, env = "BATON_SHUTDOWN_SECONDS", value_name = "SECONDS")]
    shutdown_seconds: Option<u64>,
    /// Hold runs over SWF's wire to AWS's limits: 25,000 events, a year, 100,000 open runs, 100 domains, 1,000 polls
    /// on a list
    #[arg(long, env = "BATON_SWF_LIMITS")]
    swf_limits: bool,
    /// Directory of compiled time-zone tables to use for schedules, e.g. /usr/share/zoneinfo [default: those built in]
    #[arg(long, env = "BATON_ZONEINFO", value_name = "DIR")]
    zoneinfo: Option<PathBuf>,
    /// A function of SWF's Lambda tasks: an address that its input is posted to, or a line for the shell; may be
    /// repeated
    #[arg(long = "lambda", value_name = "NAME=URL|COMMAND")]
    #[serde(skip)]
    lambdas: Vec<String>,
    /// Functions from the configuration file.
    #[arg(skip)]
    #[serde(rename = "lambda")]
    functions: BTreeMap<String, Function>,
    /// Credentials; only in the configuration file.
    #[arg(skip)]
    credentials: Vec<Credential>,
    /// Token issuers; only in the configuration file.
    #[arg(skip)]
    issuers: Vec<Issuer>,
    /// Quotas of domains and credentials; only in the configuration file.
    #[arg(skip)]
    limits: Vec<Limit>,
    /// Write a JSON line for each request to the end of this file, or to standard output: `-`
    #[arg(long, env = "BATON_ACCESS_LOG", value_name = "FILE|-")]
    access_log: Option<String>,
    /// Keep a chain of entries in this directory, one before each change that somebody makes: who, what, when
    #[arg(long, env = "BATON_AUDIT_LOG", value_name = "DIR")]
    audit_log: Option<PathBuf>,
    /// Log as JSON lines rather than text
    #[arg(long, env = "BATON_LOG_JSON")]
    log_json: bool,
    #[command(flatten)]
    #[serde(flatten)]
    spans: Spans,
    /// What to log: a level, or levels by what names of crates begin with, e.g. `warn,baton=debug` [default: info]
    #[arg(long, env = "BATON_LOG", value_name = "FILTER")]
    log: Option<String>,
}

impl Serve {
    /// Adds the options of the configuration file for those that are absent.
    fn with_file(self) -> Result<Self, String> {
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
            connections_max: self.connections_max.or(file.connections_max),
            requests_at_once: self.requests_at_once.or(file.requests_at_once),
            shutdown_seconds: self.shutdown_seconds.or(file.shutdown_seconds),
            lambdas: self.lambdas,
            swf_limits: self.swf_limits || file.swf_limits,
            zoneinfo: self.zoneinfo.or(file.zoneinfo),
            functions: file.functions,
            credentials: file.credentials,
            issuers: file.issuers,
            limits: file.limits,
            access_log: self.access_log.or(file.access_log),
            audit_log: self.audit_log.or(file.audit_log),
            log_json: self.log_json || file.log_json,
            spans: self.spans.or(file.spans),
            log: self.log.or(file.log),
            config: self.config,
        })
    }

    /// Returns the credentials and issuers.
    pub(crate) fn stanzas(self) -> Stanzas {
        Stanzas { credentials: self.credentials, issuers: self.issuers }
    }

    /// Returns the files that the permissions are read from: the configuration file and the key files of issuers.
    pub(crate) fn read_from(path: &Path, issuers: &[Issuer]) -> Vec<PathBuf> {
        let keys = issuers.iter().filter_map(|issuer| issuer.jwks_file.clone());
        std::iter::once(path.to_owned()).chain(keys).collect()
    }

    /// Returns the quotas.
    pub(crate) fn limits(&self) -> Result<QuotaLimits, String> {
        QuotaLimits::read(self.limits.clone())
    }

    pub(crate) async fn run(self) -> ExitCode {
        // This precedes reading the file, so that no change is missed, and everything else, so that SIGHUP never ends
        // the process.
        let outcome = match Hangups::listen() {
            Ok(hangups) => {
                let files = hangups.files(self.config.iter().cloned().collect());
                match self.with_file() {
                    Ok(serve) => serve.serve(&hangups, files).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(format!("signals cannot be listened to: {error}")),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("baton serve: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn start_log(&self) -> Result<(), String> {
        let filter = self.log.as_deref().filter(|filter| !filter.is_empty()).unwrap_or("info");
        let targets: Targets = filter.parse().map_err(|error| format!("`--log {filter}` is no filter: {error}"))?;
        let registry = tracing_subscriber::registry().with(targets);
        let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        if self.log_json {
            registry.with(log.json()).init();
        } else {
            registry.with(log.with_ansi(std::io::stderr().is_terminal())).init();
        }
        Ok(())
    }

    /// Returns the memory limits: those of the options, or defaults that depend on the limit of the control group.
    fn memory(&self) -> MemorySizes {
        let limit = memory::limit();
        let in_flight = (BYTES_IN_FLIGHT_MIN, FrontSettings::default().bytes_in_flight_max);
        let chosen = MemorySizes::under(limit.as_ref().map(|limit| limit.bytes), in_flight);
        let sizes = MemorySizes {
            cache: self.cache_mib.map_or(chosen.cache, |mib| mib << 20),
            store: self.store_memory_mib.map_or(chosen.store, |mib| mib.max(1) << 20),
            ..chosen
        };
        let (cache_mib, store_memory_mib) = (sizes.cache >> 20, sizes.store >> 20);
        let in_flight_mib = sizes.in_flight >> 20;
        match limit {
            Some(MemoryLimit { bytes, file }) => tracing::info!(
                limit_mib = bytes >> 20,
                file = %file.display(),
                cache_mib,
                store_memory_mib,
                in_flight_mib,
                "the control group limits memory"
            ),
            None => tracing::info!(cache_mib, store_memory_mib, in_flight_mib, "no control group limits memory"),
        }
        sizes
    }

    async fn open_store(&self, memory_bytes: usize) -> Result<(Arc<dyn Store>, Option<Arc<Embedded>>), String> {
        match self.store.unwrap_or(StoreKind::Embedded) {
            StoreKind::Memory => {
                tracing::warn!("everything is kept in memory only and is gone when this process ends");
                Ok((Arc::new(Memory::new()), None))
            }
            StoreKind::Dynamodb => crate::dynamodb::open(&self.table).await.map(|store| (store, None)),
            StoreKind::Embedded => {
                let directory = self.data_dir();
                let mut options = Options::new(&directory);
                options.memory_bytes = memory_bytes;
                if let Some(mib) = self.store_log_mib {
                    options.log_bytes = mib.max(1) << 20;
                }
                let opened = Embedded::open(options).await;
                let store = opened.map_err(|error| format!("{}: {error}", directory.display()))?;
                Ok((Arc::clone(&store) as Arc<dyn Store>, Some(store)))
            }
        }
    }

    fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| PathBuf::from("baton-data"))
    }

    /// Returns the functions by name. Those on the command line take precedence.
    fn lambda(&self) -> Result<BTreeMap<String, Function>, String> {
        let given = self.lambdas.iter().map(|entry| {
            let given = entry.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, what) = given.ok_or_else(|| format!("`--lambda {entry}`: expected NAME=URL or NAME=COMMAND"))?;
            Ok((name.to_owned(), what.parse().map_err(|error| format!("lambda `{name}`: {error}"))?))
        });
        let in_file = self.functions.iter().map(|(name, function)| Ok((name.clone(), function.clone())));
        in_file.chain(given).collect()
    }

    /// Returns the identity of this node, if the store may be shared.
    fn node(&self, listened: SocketAddr, encrypts: bool) -> Result<Option<Node>, String> {
        let is_shared = matches!(self.store, Some(StoreKind::Dynamodb));
        match &self.node_address {
            Some(address) if is_shared => {
                let is_address = address.starts_with("https://") || address.starts_with("http://") && !encrypts;
                if !is_address || address.ends_with('/') {
                    let example = if encrypts { "https" } else { "http" };
                    return Err(format!("`--node-address {address}`: expected e.g. {example}://10.0.0.7:7420"));
                }
                Ok(Some(Node { address: address.clone() }))
            }
            Some(_) => Err("`--node-address` is for nodes over one store, and this store is one node's own".to_owned()),
            None if !is_shared => Ok(None),
            None if listened.ip().is_unspecified() => Err(format!(
                "{listened} is no address where other nodes could reach this one; give it with --node-address"
            )),
            None => Ok(Some(Node { address: format!("{}://{listened}", if encrypts { "https" } else { "http" }) })),
        }
    }

    /// Adds logging of requests to the routes, and opens the access log if there is one.
    fn logged(&self, router: Router, engine: &Arc<Engine>) -> Result<(Router, Option<Arc<AccessLog>>), String> {
        let Some(target) = &self.access_log else { return Ok((with_request_log(router, engine, None), None)) };
        let target = target.parse().map_err(|error| format!("--access-log: {error}"))?;
        let counts = Arc::clone(engine);
        let log = AccessLog::open(target, move |lines| counts.metrics().access_log_lost(lines))?;
        Ok((with_request_log(router, engine, Some(Arc::clone(&log))), Some(log)))
    }

    fn open_audit_log(&self) -> Result<Option<Arc<AuditLog>>, String> {
        let open = |directory: &PathBuf| AuditLog::open(directory, Arc::new(SystemClock));
        self.audit_log.as_ref().map(open).transpose().map_err(|error| format!("--audit-log: {error}"))
    }

    async fn serve(self, hangups: &Hangups, mut files: FileWatch) -> Result<(), String> {
        if let Some(directory) = &self.zoneinfo {
            crate::zoneinfo::use_directory(directory)?;
        }
        self.start_log()?;
        let listen = match self.listen {
            Some(listen) => listen,
            None => LISTEN_DEFAULT.parse().map_err(|error| format!("{LISTEN_DEFAULT}: {error}"))?,
        };
        if let Some(path) = self.config.as_ref().filter(|_| !self.credentials.is_empty() || !self.functions.is_empty())
        {
            config::warn_if_open(path);
        }
        if let Some(path) = &self.config {
            files.watch(Self::read_from(path, &self.issuers));
        }
        let stanzas = Stanzas { credentials: self.credentials.clone(), issuers: self.issuers.clone() };
        let credentials = Credentials::new(stanzas)?;
        let limits = self.limits()?;
        let functions = self.lambda()?;
        let wanted = self.connections_max.unwrap_or(ServerLimits::default().connections_max);
        let connections_max = crate::descriptors::connections(wanted)?;
        if !listen.ip().is_loopback() && credentials.is_empty() && !self.allow_remote_without_credentials {
            return Err(format!(
                "{listen} can be reached from other machines, and nobody is asked who they are; give [[credentials]] \
                 in the --config file, or --allow-remote-without-credentials"
            ));
        }
        let asks_callers = self.encryption.asks_callers();
        must_be_shown(&self.credentials, asks_callers)?;
        let tls = self.encryption.open(listen, hangups)?;
        let audit_log = self.open_audit_log()?;
        // Stop signals must be handled from the start.
        let stop = tokio::spawn(client::shutdown::requested());
        let listener = service::http::listen(listen).map_err(|error| format!("{listen}: {error}"))?;
        let address = listener.local_addr().map_err(|error| format!("{listen}: {error}"))?;
        let memory = self.memory();
        let (store, embedded) = self.open_store(memory.store).await?;
        self.shipping.begin(embedded.as_ref()).await?;
        let cache_bytes = memory.cache;
        let node = self.node(address, tls.is_some())?;
        let swf_quotas = self.swf_limits.then(SwfQuotas::default);
        let disk_reserve = self.disk_reserve.unwrap_or(DISK_RESERVE_MIB).saturating_mul(1 << 20);
        let exporter = self.spans.open()?;
        let spans = self.spans.export(exporter.as_ref())?;
        let settings =
            Settings { cache_bytes, node: node.clone(), swf_quotas, disk_reserve, spans, ..Settings::default() };
        let engine = Engine::open(Arc::clone(&store), Arc::new(SystemClock), settings)
            .await
            .map_err(|refusal| refusal.to_string())?;
        engine.quotas().replace(limits.clone());
        if let Some(embedded) = &embedded {
            begin_new_life(embedded, &engine).await?;
        }
        let settings = FrontSettings { bytes_in_flight_max: memory.in_flight, requests_at_once: self.requests_at_once };
        let front = Front::of(Arc::clone(&engine), &settings);
        let mut may_answer = MayAnswer::default();
        if let Some(embedded) = embedded {
            let leased = Arc::clone(&embedded);
            may_answer = MayAnswer::while_so(move || leased.may_answer());
            front.tells_of_shipping(move || embedded.ship_standing());
        }
        if let Some(exporter) = &exporter {
            front.tells_of_spans(exporter.counts());
        }
        let calls = (!functions.is_empty()).then(|| service::lambda::serve(&engine, functions));
        let joined = node.as_ref().map(|node| self.encryption.join(&engine, node)).transpose()?;
        tokio::spawn(credentials.clone().keep_keys(Arc::clone(&engine)));
        if let Some(path) = self.config.clone() {
            let (credentials, front) = (credentials.clone(), front.clone());
            let keeper = Keeper { path, files, asks_callers, credentials, limits, front };
            tokio::spawn(keeper.keep());
        }
        let data = match self.store.unwrap_or(StoreKind::Embedded) {
            StoreKind::Embedded => self.data_dir().display().to_string(),
            StoreKind::Memory => "memory only".to_owned(),
            StoreKind::Dynamodb => format!("the DynamoDB table `{}`", self.table.name()),
        };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let tls = tls.map(|(tls, files)| {
            self.encryption.clone().follow(&tls, files, &front, joined);
            tls
        });
        let url = format!("{scheme}://{address}");
        tracing::info!(address = %url, data, version = env!("CARGO_PKG_VERSION"), "ready");
        if let Some(path) = &self.port_file {
            write_port_file(path, address)?;
        }
        let limits = ServerLimits::default();
        let shutdown_wait = self.shutdown_seconds.map_or(limits.shutdown_wait, Duration::from_secs);
        let limits = ServerLimits { connections_max, shutdown_wait, ..limits };
        let hosts = if address.ip().is_loopback() && credentials.is_empty() {
            Hosts::loopback_and(self.allowed_hosts.clone())
        } else {
            Hosts::any()
        };
        let console = self.console.unwrap_or(Console::On);
        let router = router_at(front.clone(), credentials, hosts, console);
        let router = match &audit_log {
            None => router,
            Some(log) => {
                front.tells_of_audit_log(log.counts());
                with_audit_log(router, Arc::clone(log))
            }
        };
        let (router, access_log) = self.logged(router, &engine)?;
        let server = Server { listener, router, limits, tls };
        notify::ready();
        let stopping = async {
            drop(stop.await);
            notify::stopping();
            tracing::info!("stopping: polls are answered, requests under way are finished");
            engine.begin_shutdown();
        };
        tokio::select! {
            () = server.run_while(may_answer, stopping) => {}
            failed = store.failed() => {
                // Requests in flight must not be acknowledged any more: exit at once.
                tracing::error!(%failed, "the store has failed; stopping rather than answer what may not be kept");
                return Err(failed.to_string());
            }
        }
        if let Some(calls) = calls {
            calls.finish(shutdown_wait).await;
        }
        engine.shutdown().await.map_err(|refusal| refusal.to_string())?;
        if let Some(exporter) = exporter {
            exporter.finish().await;
        }
        if let Some(log) = access_log {
            log.flush().await;
        }
        if let Some(log) = audit_log {
            log.flush().await;
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// # Errors
///
/// A credential has certificates, but the service does not request certificates from clients.
pub(crate) fn must_be_shown(credentials: &[Credential], asks_callers: bool) -> Result<(), String> {
    let certified = credentials.iter().find(|credential| !credential.certificates.is_empty());
    certified.filter(|_| !asks_callers).map_or(Ok(()), |Credential { name, .. }| {
        Err(format!("credential `{name}` names certificates, and callers are asked for none: give --tls-client-ca"))
    })
}

/// Parses a listen address. Without a host, or with `localhost`, it is an address of this machine only.
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

/// Writes the file atomically, so that a reader never sees part of an address.
fn write_port_file(path: &std::path::Path, address: SocketAddr) -> Result<(), String> {
    let shown = path.display();
    let partial = path.with_extension("partial");
    std::fs::write(&partial, format!("{address}\n")).map_err(|error| format!("{shown}: {error}"))?;
    std::fs::rename(&partial, path).map_err(|error| format!("{shown}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_options_take_precedence_over_the_control_group() {
        let chosen = Serve::default().memory();
        let said = Serve { cache_mib: Some(5), ..Serve::default() }.memory();
        assert_eq!(said, MemorySizes { cache: 5 << 20, ..chosen });
        let said = Serve { store_memory_mib: Some(7), ..Serve::default() }.memory();
        assert_eq!(said, MemorySizes { store: 7 << 20, ..chosen });
    }

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
