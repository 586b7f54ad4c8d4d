//! `baton serve`: opens the store and the sockets, serves requests, and shuts down gracefully.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use engine::{Engine, Node, Settings, SwfQuotas, SystemClock};
use service::access::{Credentials, Stanzas};
use service::access_log::AccessLog;
use service::api::router_at;
use service::audit::AuditLog;
use service::front::{Front, FrontSettings};
use service::http::{Console, Hosts, MayAnswer, Server, ServerLimits, with_audit_log, with_request_log};
use service::reload::{FileWatch, ReloadSignal};
use store::Store;
use store::memory::Memory;
use store_embedded::{Embedded, Options};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config;
use crate::credentials::Keeper;
use crate::list_limits::{self, ListLimits, NotStored};
use crate::memory::{self, MemoryLimit, MemorySizes};
use crate::notify;
use crate::settings::{Serve, StoreKind, must_be_shown};
use crate::shipping::begin_epoch;

/// Default listen address, which is reachable only from this machine.
const LISTEN_DEFAULT: &str = "127.0.0.1:7420";

/// Default disk space reserved for open runs, in MiB. Our choice: eight times the maximum size of the log that waits
/// for a checkpoint (64 MiB), so that open runs can write for some time. This is little compared with the smallest
/// disks of servers.
const DISK_RESERVE_MIB: u64 = 512;

/// Minimum limit of bytes in flight, even if there is little memory. Our choice: the largest body, an imported run,
/// must fit twice.
const BYTES_IN_FLIGHT_MIN: usize = 2 * history::limits::IMPORTED_BYTES_MAX;

impl Serve {
    pub(crate) async fn run(self) -> ExitCode {
        // Signals are received before anything else, so that SIGHUP never ends the process. Watching of the
        // configuration file begins before it is read, so that no change of it is missed.
        let outcome = match ReloadSignal::listen() {
            Ok(reload_signal) => {
                let files = reload_signal.files(self.config.iter().cloned().collect());
                match self.with_file() {
                    Ok(serve) => serve.serve(&reload_signal, files).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(format!("cannot listen for signals: {error}")),
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
        let targets: Targets = filter.parse().map_err(|error| format!("`--log {filter}` is not a filter: {error}"))?;
        let registry = tracing_subscriber::registry().with(targets);
        let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        if self.log_json {
            registry.with(log.json()).init();
        } else {
            registry.with(log.with_ansi(std::io::stderr().is_terminal())).init();
        }
        Ok(())
    }

    /// Returns the memory sizes that the options specify. The default of an absent option depends on the limit of the
    /// control group.
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
                tracing::warn!("all data is kept in memory only and is lost when this process ends");
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
                store_archive::serve_backups(&store).map_err(|error| error.to_string())?;
                Ok((Arc::clone(&store) as Arc<dyn Store>, Some(store)))
            }
        }
    }

    /// Returns the identity of this node; `None` if no other nodes can share the store.
    fn node(&self, is_shared: bool, listened: SocketAddr, encrypts: bool) -> Result<Option<Node>, String> {
        match &self.node_address {
            Some(address) if is_shared => {
                let is_address = address.starts_with("https://") || address.starts_with("http://") && !encrypts;
                if !is_address || address.ends_with('/') {
                    let example = if encrypts { "https" } else { "http" };
                    return Err(format!("`--node-address {address}`: expected e.g. {example}://10.0.0.7:7420"));
                }
                Ok(Some(Node { address: address.clone() }))
            }
            Some(_) => Err("`--node-address` is for nodes over one store, and this store cannot be shared".to_owned()),
            None if !is_shared => Ok(None),
            None if listened.ip().is_unspecified() => {
                Err(format!("other nodes cannot reach this one at {listened}; give its address with --node-address"))
            }
            None => Ok(Some(Node { address: format!("{}://{listened}", if encrypts { "https" } else { "http" }) })),
        }
    }

    /// Adds logging of requests to the router. If an access log is configured, opens it.
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

    /// Adds the name of the configuration file to an error about its content.
    fn in_file(&self, error: &str) -> String {
        self.config.iter().map(|path| format!("{}: ", path.display())).chain([error.to_owned()]).collect()
    }

    /// Stores the limits of task lists in the configuration, before the first task is handed out.
    async fn store_list_limits(
        &self,
        limits: &ListLimits,
        engine: &Engine,
        audit_log: Option<&AuditLog>,
    ) -> Result<(), String> {
        let lists = engine.lists();
        limits.check(lists).await.map_err(|error| self.in_file(&error))?;
        limits.configure(lists);
        match list_limits::store(lists, audit_log).await {
            Ok(()) => Ok(()),
            // The service also starts with an audit log that cannot be written, and refuses changes until it can.
            Err(error @ NotStored::Audit) => {
                tracing::error!("the limits of task lists in the configuration are not stored yet: {error}");
                Ok(())
            }
            Err(error @ NotStored::Refused(..)) => Err(format!("limits of task lists: {error}")),
        }
    }

    async fn serve(self, reload_signal: &ReloadSignal, mut files: FileWatch) -> Result<(), String> {
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
        let list_limits = self.list_limits().map_err(|error| self.in_file(&error))?;
        let functions = self.lambda()?;
        let by_default = ServerLimits::default().max_connections;
        let max_connections = crate::descriptors::connections(self.max_connections, by_default)?;
        if !listen.ip().is_loopback() && credentials.is_empty() && !self.allow_remote_without_credentials {
            return Err(format!(
                "{listen} is reachable from other machines without authentication; give [[credentials]] \
                 in the --config file, or --allow-remote-without-credentials"
            ));
        }
        let asks_callers = self.encryption.asks_callers();
        must_be_shown(&self.credentials, asks_callers)?;
        let tls = self.encryption.open(listen, reload_signal)?;
        let audit_log = self.open_audit_log()?;
        // Stop signals are handled from the start, so that the process can also be stopped while the store is being
        // opened.
        let stop = tokio::spawn(client::shutdown::requested());
        let listener = service::http::listen(listen).map_err(|error| format!("{listen}: {error}"))?;
        let address = listener.local_addr().map_err(|error| format!("{listen}: {error}"))?;
        let memory = self.memory();
        let (store, embedded) = self.open_store(memory.store).await?;
        let shipment = self.shipping.begin(embedded.as_ref()).await?;
        let (cache_bytes, output_bytes) = (memory.cache, memory.output);
        let node = self.node(store.limits().is_shared, address, tls.is_some())?;
        let swf_quotas = self.swf_limits.then(SwfQuotas::default);
        let disk_reserve = self.disk_reserve.unwrap_or(DISK_RESERVE_MIB).saturating_mul(1 << 20);
        let exporter = self.spans.open()?;
        let spans = self.spans.export(exporter.as_ref())?;
        let node_of = node.clone();
        let settings = Settings {
            cache_bytes,
            output_bytes,
            node: node_of,
            swf_quotas,
            disk_reserve,
            spans,
            ..Settings::default()
        };
        let engine = Engine::open(Arc::clone(&store), Arc::new(SystemClock), settings)
            .await
            .map_err(|refusal| refusal.to_string())?;
        engine.quotas().replace(limits.clone());
        if let Some(embedded) = &embedded {
            begin_epoch(embedded, &engine).await?;
        }
        let settings = FrontSettings {
            bytes_in_flight_max: memory.in_flight,
            max_concurrent_requests: self.max_concurrent_requests,
        };
        let front = Front::of(Arc::clone(&engine), &settings);
        let mut may_answer = MayAnswer::default();
        if let Some(embedded) = embedded {
            may_answer = MayAnswer::while_true(move || embedded.may_answer());
        }
        if let Some(shipment) = shipment {
            front.set_shipping(move || shipment.standing());
        }
        if let Some(exporter) = &exporter {
            front.set_spans(exporter.counts());
        }
        let calls = (!functions.is_empty()).then(|| service::lambda::serve(&engine, functions));
        self.store_list_limits(&list_limits, &engine, audit_log.as_deref()).await?;
        let joined = node.as_ref().map(|node| self.encryption.join(&engine, node)).transpose()?;
        tokio::spawn(credentials.clone().keep_keys(Arc::clone(&engine)));
        if let Some(path) = self.config.clone() {
            let (credentials, front) = (credentials.clone(), front.clone());
            let audit_log = audit_log.clone();
            let keeper = Keeper { path, files, asks_callers, credentials, limits, list_limits, audit_log, front };
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
        let limits = ServerLimits { max_connections, shutdown_wait, ..limits };
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
                front.set_audit_log(log.counts());
                with_audit_log(router, Arc::clone(log))
            }
        };
        let (router, access_log) = self.logged(router, &engine)?;
        let server = Server { listener, router, limits, tls };
        notify::ready();
        let stopping = async {
            drop(stop.await);
            notify::stopping();
            tracing::info!("stopping: ending polls, finishing requests in progress");
            engine.begin_shutdown();
        };
        tokio::select! {
            () = server.run_while(may_answer, stopping) => {}
            failed = store.failed() => {
                // The store may have lost changes of requests in progress. Such changes must not be acknowledged, so
                // the process exits at once instead of finishing the requests.
                tracing::error!("stopping: the store has failed, and changes cannot be acknowledged");
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

/// Writes the file atomically, so that no other process can read an incomplete address.
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
    fn a_service_over_a_shared_store_is_a_node() {
        let listened: SocketAddr = "127.0.0.1:7420".parse().unwrap();
        let at = |address: &str| Serve { node_address: Some(address.to_owned()), ..Serve::default() };
        let address =
            |serve: &Serve, is_shared| serve.node(is_shared, listened, false).map(|it| it.map(|it| it.address));
        assert_eq!(address(&Serve::default(), false), Ok(None));
        assert_eq!(address(&Serve::default(), true), Ok(Some("http://127.0.0.1:7420".to_owned())));
        let given = at("https://10.0.0.7:7420");
        assert_eq!(address(&given, true), Ok(given.node_address.clone()));
        let refused = address(&given, false).unwrap_err();
        assert!(refused.contains("`--node-address` is for nodes over one store"), "{refused}");
    }
}
