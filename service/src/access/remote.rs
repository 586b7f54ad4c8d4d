//! Remote keys of issuers. The keys are fetched at a limited rate, with one fetch per issuer at a time. If the URL of
//! the keys does not respond, the last fetched keys stay in use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use tokio::time::Instant;

use super::jwks::{KEYS_BYTES_MAX, KeySet};

/// Minimum time between two fetches. Our choice. Each token with an unknown key id triggers a fetch, so this limits the
/// requests that tokens with invented ids can cause.
pub const KEYS_REFETCH_WAIT: Duration = Duration::from_secs(30);

/// Maximum age of fetched keys. Older keys are fetched again, even if no unknown key was requested. Our choice: this is
/// also the maximum time for which a key stays valid after its issuer has revoked it.
pub const KEYS_AGE_MAX: Duration = Duration::from_secs(300);

/// Timeout of a fetch. Our choice: short, because a caller whose token has an unknown key waits for the fetch.
pub const FETCH_WAIT: Duration = Duration::from_secs(5);

/// Fetch in progress, for which any number of callers can wait.
pub(super) type Fetching = Shared<BoxFuture<'static, ()>>;

/// Remote source of an issuer's keys.
pub(super) struct RemoteKeys {
    url: Url,
    http: Client,
    /// Keys from the last successful fetch.
    known: Mutex<Arc<KeySet>>,
    /// Time of the last successful fetch; `None` before the first one.
    fetched: Mutex<Option<Instant>>,
    /// Newest fetch, with the time when it began; `None` before the first one.
    newest: Mutex<Option<(Instant, Fetching)>>,
    is_failing: AtomicBool,
}

impl std::fmt::Debug for RemoteKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteKeys").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RemoteKeys {
    /// Creates a source for the keys at a URL. Nothing is fetched yet.
    ///
    /// # Errors
    ///
    /// Fails for an unencrypted URL, because an attacker in the network could replace the keys.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("jwks-url `{text}`: {error}"))?;
        let is_loopback = match url.host_str() {
            Some("localhost" | "[::1]") => true,
            Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|it| it.is_loopback()),
            None => false,
        };
        if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback) {
            return Err(format!("jwks-url `{text}`: expected https, or http on this machine"));
        }
        let http = Client::builder().redirect(Policy::none()).timeout(FETCH_WAIT).build();
        let http = http.map_err(|error| format!("jwks-url `{text}`: {error}"))?;
        let (known, fetched, newest) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self { url, http, known, fetched, newest, is_failing: AtomicBool::new(false) })
    }

    /// Returns whether the keys come from this URL.
    pub(super) fn is_at(&self, text: &str) -> bool {
        Url::parse(text).is_ok_and(|url| url == self.url)
    }

    /// Returns the keys from the last successful fetch. Before the first one, the set is empty.
    pub(super) fn known(&self) -> Arc<KeySet> {
        Arc::clone(&lock(&self.known))
    }

    /// Returns whether the keys must be fetched again because the last successful fetch is too old or the last fetch
    /// has failed. A token with an unknown key is another reason for a fetch, which this function ignores.
    pub(super) fn is_due(&self) -> bool {
        let is_old = lock(&self.fetched).is_none_or(|at| at.elapsed() >= KEYS_AGE_MAX);
        is_old || self.is_failing.load(Ordering::Relaxed)
    }

    /// Fetches the keys, unless a fetch has begun within [`KEYS_REFETCH_WAIT`]. The returned future resolves when the
    /// newest fetch has ended; the fetch continues if the future is dropped. If this call has begun the fetch, `then`
    /// is called at the end, with true if the fetch succeeded.
    pub(super) fn fetch(self: &Arc<Self>, name: &str, then: impl FnOnce(bool) + Send + 'static) -> Fetching {
        let mut newest = lock(&self.newest);
        if let Some((began, fetching)) = newest.as_ref()
            && began.elapsed() < KEYS_REFETCH_WAIT
        {
            return fetching.clone();
        }
        let (remote, name) = (Arc::clone(self), name.to_owned());
        let work = tokio::spawn(async move {
            let found = remote.get().await.and_then(|bytes| KeySet::read(&bytes));
            then(remote.note(&name, found));
        });
        let fetching = work.map(drop).boxed().shared();
        *newest = Some((Instant::now(), fetching.clone()));
        fetching
    }

    /// Stores the result of a fetch. Returns whether the fetch has succeeded.
    fn note(&self, name: &str, found: Result<KeySet, String>) -> bool {
        let is_found = found.is_ok();
        let was_failing = self.is_failing.swap(!is_found, Ordering::Relaxed);
        match found {
            Ok(keys) => {
                *lock(&self.known) = Arc::new(keys);
                *lock(&self.fetched) = Some(Instant::now());
                if was_failing {
                    tracing::info!(issuer = name, "the issuer's keys can be fetched again");
                }
            }
            // Only the first of consecutive failures is logged.
            Err(error) if !was_failing => tracing::warn!(
                issuer = name,
                "the issuer's keys could not be fetched; the known keys stay in use: {error}"
            ),
            Err(_) => {}
        }
        is_found
    }

    async fn get(&self) -> Result<Vec<u8>, String> {
        // The URL is omitted from errors, because it may contain a secret.
        let unreachable = |error: reqwest::Error| {
            let error = error.without_url();
            std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source())
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(": ")
        };
        let mut answer = self.http.get(self.url.clone()).send().await.map_err(unreachable)?;
        if !answer.status().is_success() {
            return Err(format!("it responded with {}", answer.status()));
        }
        let mut bytes = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(unreachable)? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > KEYS_BYTES_MAX {
                return Err(format!("its response has more than {KEYS_BYTES_MAX} bytes"));
            }
        }
        Ok(bytes)
    }
}
