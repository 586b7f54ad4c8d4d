//! TLS options, and reloading of the TLS files while the service runs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use engine::{Engine, Node, SystemClock};
use serde::Deserialize;
use service::front::Front;
use service::nodes::{Joined, NodeTrust, join_trusting};
use service::reload::{FileWatch, ReloadSignal};
use service::tls::{Tls, TlsCallers, TlsFiles};

use crate::config;

/// Name under which `/readyz`, the metrics and the log report that the TLS files were reloaded.
const RELOADED: &str = "tls";

/// TLS options of the listener.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct EncryptionOptions {
    /// PEM file with the service's certificate chain. With it, the service accepts only HTTPS. The file is reloaded
    /// when it changes
    #[arg(help_heading = "TLS options", long, env = "BATON_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key of the certificate, without a passphrase
    #[arg(help_heading = "TLS options", long, env = "BATON_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// PEM file with the certificate authorities of clients. A client whose certificate belongs to a credential needs
    /// no secret
    #[arg(help_heading = "TLS options", long, env = "BATON_TLS_CLIENT_CA", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Reject connections without a client certificate
    #[arg(help_heading = "TLS options", long, env = "BATON_TLS_CLIENT_REQUIRED")]
    tls_client_required: bool,
    /// PEM file with the only certificate authorities that are trusted for other nodes [default: authorities of this
    /// machine]
    #[arg(help_heading = "TLS options", long, env = "BATON_NODES_CA", value_name = "FILE")]
    nodes_ca: Option<PathBuf>,
    /// Accept unencrypted connections from other machines
    #[arg(help_heading = "TLS options", long, env = "BATON_ALLOW_REMOTE_WITHOUT_TLS")]
    allow_remote_without_tls: bool,
}

impl EncryptionOptions {
    /// Returns these options, with absent ones replaced by those of `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            tls_cert: self.tls_cert.or(other.tls_cert),
            tls_key: self.tls_key.or(other.tls_key),
            tls_client_ca: self.tls_client_ca.or(other.tls_client_ca),
            tls_client_required: self.tls_client_required || other.tls_client_required,
            nodes_ca: self.nodes_ca.or(other.nodes_ca),
            allow_remote_without_tls: self.allow_remote_without_tls || other.allow_remote_without_tls,
        }
    }

    /// Returns true if the service requests certificates from clients.
    pub(crate) fn asks_callers(&self) -> bool {
        self.tls_client_ca.is_some()
    }

    /// Returns the TLS configuration for this listen address, if there is one, and a watch on its files.
    pub(crate) fn open(
        &self,
        listen: SocketAddr,
        reload_signal: &ReloadSignal,
    ) -> Result<Option<(Arc<Tls>, FileWatch)>, String> {
        let is_required = self.tls_client_required;
        let callers = self.tls_client_ca.clone().map(|ca| TlsCallers { ca, is_required });
        if callers.is_none() && is_required {
            return Err("`tls-client-required` requires `tls-client-ca`".to_owned());
        }
        let (certificate, key) = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            (None, None) if callers.is_some() => {
                return Err("`tls-client-ca` requires `tls-cert` and `tls-key`".to_owned());
            }
            (None, None) if listen.ip().is_loopback() || self.allow_remote_without_tls => return Ok(None),
            (None, None) => {
                return Err(format!(
                    "{listen} is reachable from other machines without encryption; give --tls-cert and --tls-key, or \
                     --allow-remote-without-tls if a proxy encrypts"
                ));
            }
            _ => return Err("`tls-cert` and `tls-key` require each other: give both".to_owned()),
        };
        config::warn_if_others_use("the file", "the key of a certificate", &key);
        let files = TlsFiles { certificate, key, callers };
        let followed = reload_signal.files(files.paths().into_iter().chain(self.nodes_ca.clone()).collect());
        let tls = Tls::open(files, Arc::new(SystemClock)).map_err(|error| format!("TLS: {error}"))?;
        Ok(Some((tls, followed)))
    }

    /// Connects this node to the other nodes. The addresses of all nodes must have the same scheme.
    pub(crate) fn join(&self, engine: &Arc<Engine>, node: &Node) -> Result<Joined, String> {
        if self.nodes_ca.is_some() && !node.address.starts_with("https://") {
            let address = &node.address;
            return Err(format!("`nodes-ca` requires nodes with https addresses, but this one has {address}"));
        }
        join_trusting(engine, &node.address, &self.trust()?).map_err(|error| format!("nodes-ca: {error}"))
    }

    fn trust(&self) -> Result<NodeTrust, String> {
        let read = |path: &PathBuf| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let ca = self.nodes_ca.as_ref().map(read).transpose()?;
        let own = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some([read(certificate)?, vec![b'\n'], read(key)?].concat()),
            _ => None,
        };
        Ok(NodeTrust { ca, own })
    }

    /// Reloads the files. Either all of them take effect, or none does.
    fn reload(&self, tls: &Tls, joined: Option<&Joined>) -> Result<(), String> {
        let renewal = match joined {
            Some(joined) => Some((joined, joined.prepare(&self.trust()?)?)),
            None => None,
        };
        tls.reload()?;
        if let Some((joined, renewal)) = renewal {
            joined.renew(renewal);
        }
        Ok(())
    }

    /// Starts a task that reloads the files whenever they change, as long as the process runs.
    pub(crate) fn follow(self, tls: &Arc<Tls>, mut files: FileWatch, front: &Front, joined: Option<Joined>) {
        front.set_tls(tls.standing());
        front.reloads().expect(RELOADED);
        let (tls, engine, reloads) = (Arc::clone(tls), Arc::downgrade(front.engine()), Arc::clone(front.reloads()));
        let read_by = Arc::new((self, joined));
        tokio::spawn(async move {
            loop {
                files.changed().await;
                let (reading, by) = (Arc::clone(&tls), Arc::clone(&read_by));
                let read = tokio::task::spawn_blocking(move || by.0.reload(&reading, by.1.as_ref())).await;
                if engine.strong_count() == 0 {
                    return;
                }
                let read = read.unwrap_or_else(|error| Err(error.to_string()));
                reloads.note(RELOADED, read.is_ok());
                match read {
                    Ok(()) => {
                        tracing::info!("the TLS files were reloaded; new connections use them");
                    }
                    Err(problem) => tracing::error!(
                        %problem,
                        "the TLS files were not reloaded; their previous contents stay in use"
                    ),
                }
            }
        });
    }
}
