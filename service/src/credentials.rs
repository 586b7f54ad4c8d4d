//! Reloading of the credentials, quotas and limits of task lists of a running service when their file changes, and
//! warnings before secrets expire.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::admission::QuotaLimits;
use service::access::Credentials;
use service::audit::AuditLog;
use service::front::Front;
use service::reload::{FileWatch, Why};

use crate::config;
use crate::list_limits::{self, ListLimits};
use crate::settings::{Serve, must_be_shown};

/// Name under which `/readyz`, the metrics and the log report that credentials were reloaded.
const WHAT: &str = "credentials";

/// Sections of the configuration file that take effect when the file is reloaded. All others take effect at the next
/// start.
const READ_AGAIN: [&str; 5] = ["credentials", "issuers", "limits", "task-lists", "limit-groups"];

/// Time between two checks for secrets that expire soon. Our choice. This is also the precision of the metric about
/// secrets that expire soon.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(60);

fn without_what_is_read_again(mut file: toml::Table) -> toml::Table {
    for key in READ_AGAIN {
        file.remove(key);
    }
    file
}

/// State of the task that keeps the credentials, quotas and configured limits of task lists of a service up to date.
pub(crate) struct Keeper {
    pub(crate) path: PathBuf,
    pub(crate) files: FileWatch,
    /// True if the service requests certificates from clients.
    pub(crate) asks_callers: bool,
    pub(crate) credentials: Credentials,
    pub(crate) limits: QuotaLimits,
    pub(crate) list_limits: ListLimits,
    pub(crate) audit_log: Option<Arc<AuditLog>>,
    pub(crate) front: Front,
}

impl Keeper {
    /// Reloads the file whenever it changes, and checks for expiring secrets, as long as the service runs.
    pub(crate) async fn keep(mut self) {
        self.front.reloads().expect(WHAT);
        let mut rest = config::read::<toml::Table>(&self.path).map(without_what_is_read_again).unwrap_or_default();
        let mut told = BTreeSet::new();
        self.warn_of_expiry(&mut told);
        self.warn_of_unknown_domains().await;
        loop {
            tokio::select! {
                why = self.files.changed() => {
                    self.read_again(why, &mut rest).await;
                    self.warn_of_unknown_domains().await;
                }
                () = tokio::time::sleep(EXPIRY_CHECK_INTERVAL) => {
                    // A missing domain may have been created since the last check.
                    if !self.front.unknown_domains().is_empty() {
                        self.look_for_unknown_domains().await;
                    }
                    self.store_list_limits().await;
                }
            }
            self.warn_of_expiry(&mut told);
        }
    }

    /// Reads the file and uses its content. If the file has errors, changes nothing. Returns the number of credentials
    /// and issuers, and the settings that take effect only at the next start.
    async fn take(&mut self) -> Result<(usize, toml::Table), String> {
        let text = config::text(&self.path)?;
        // The whole file must be valid, even its settings that take effect only at the next start.
        let file = config::parse_file::<Serve>(&self.path, &text)?;
        let rest = without_what_is_read_again(config::parse_file(&self.path, &text)?);
        let taken = self.take_valid(file).await;
        taken.map(|count| (count, rest)).map_err(|error| format!("{}: {error}", self.path.display()))
    }

    async fn take_valid(&mut self, file: Serve) -> Result<usize, String> {
        let (limits, list_limits) = (file.limits()?, file.list_limits()?);
        let stanzas = file.stanzas();
        must_be_shown(&stanzas.credentials, self.asks_callers)?;
        let engine = self.front.engine();
        list_limits.check(engine.lists()).await?;
        // The key files of issuers are watched before `replace` reads them, so that no change is missed.
        self.files.watch(Serve::read_from(&self.path, &stanzas.issuers));
        let count = stanzas.credentials.len() + stanzas.issuers.len();
        self.credentials.replace(stanzas)?;
        engine.quotas().replace(limits.clone());
        list_limits.configure(engine.lists());
        for removed in self.list_limits.removed(&list_limits) {
            tracing::warn!("a section was removed from `{}`: {removed}", self.path.display());
        }
        (self.limits, self.list_limits) = (limits, list_limits);
        self.store_list_limits().await;
        Ok(count)
    }

    /// Stores the limits of task lists that are not stored yet. If this fails, it is tried again at the next check for
    /// expiring secrets.
    async fn store_list_limits(&self) {
        if let Err(error) = list_limits::store(self.front.engine().lists(), self.audit_log.as_deref()).await {
            tracing::error!("the limits of task lists in the configuration are not stored yet: {error}");
        }
    }

    async fn read_again(&mut self, why: Why, rest: &mut toml::Table) {
        let taken = self.take().await;
        let path = self.path.display();
        self.front.reloads().note(WHAT, taken.is_ok());
        match taken {
            Ok((count, found)) => {
                tracing::info!(why = why.word(), count, "the credentials and limits of `{path}` were reloaded");
                config::warn_if_open(&self.path);
                let keys = rest.keys().chain(found.keys());
                let others: BTreeSet<&str> =
                    keys.filter(|key| rest.get(*key) != found.get(*key)).map(String::as_str).collect();
                if !others.is_empty() {
                    let others = others.into_iter().collect::<Vec<_>>().join("`, `");
                    tracing::warn!("`{others}` of `{path}` also changed; restart the service to apply this");
                }
                *rest = found;
            }
            Err(error) => tracing::error!(
                why = why.word(),
                "credentials and limits were not reloaded; the previous ones stay in force: {error}"
            ),
        }
    }

    /// Logs a warning for each domain that the file names and that does not exist. Permissions and quotas with a
    /// misspelled domain have no effect.
    async fn warn_of_unknown_domains(&self) {
        let path = self.path.display();
        for (domain, whose) in self.look_for_unknown_domains().await {
            tracing::warn!(
                "`{path}` names the domain `{domain}`, which does not exist, for {whose}: correct the name, or create \
                 it with `baton domain create`"
            );
        }
    }

    /// Returns the domains that the file names but that do not exist, each with a description of the credential or
    /// quota that names it. Also updates the metric about them.
    async fn look_for_unknown_domains(&self) -> BTreeMap<String, String> {
        let mut named = self.credentials.domains();
        for domain in self.limits.domains() {
            named.entry(domain.to_owned()).or_insert_with(|| "a limit".to_owned());
        }
        for domain in self.list_limits.domains() {
            named.entry(domain.to_owned()).or_insert_with(|| "limits of task lists".to_owned());
        }
        if !named.is_empty() {
            match self.front.engine().registry().domains().await {
                Ok(known) => {
                    for domain in known {
                        named.remove(&domain.name);
                    }
                }
                // The metric keeps the previous result until the next check.
                Err(error) => {
                    tracing::debug!(%error, "the domains in the configuration could not be checked");
                    return BTreeMap::new();
                }
            }
        }
        self.front.set_unknown_domains(named.keys().cloned().collect());
        named
    }

    /// Logs a warning about each secret that expires soon, but only once per secret. The parameter contains the secrets
    /// that were already logged.
    fn warn_of_expiry(&self, told: &mut BTreeSet<(String, String)>) {
        let expiring = self.credentials.expiring(self.front.engine().clock().now());
        self.front.engine().metrics().secrets_expiring(expiring.len());
        for secret in expiring {
            if told.insert((secret.name.clone(), secret.secret.clone())) {
                let (name, until) = (&secret.name, secret.until);
                tracing::warn!(
                    name, secret = secret.secret, %until,
                    "a secret expires soon: create another with `baton credential new {name}`"
                );
            }
        }
    }
}
