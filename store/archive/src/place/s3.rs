//! A bucket of S3 or of an S3-compatible store as the location of an archive. This module contains the requests, their
//! timeouts, and their error messages, which never contain a secret.

use std::future::Future;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{
    ClientConfigKey, Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, PutResult, RetryConfig,
    UpdateVersion,
};
use tokio::runtime::{Builder, Runtime};

use super::{ArchivePlace, FileTag, Intervals, ListedFile, PutAnswer, PutWhen, StoredFile};
use crate::ArchiveError;

/// Intervals for a bucket. Our choice: each put costs money, but with longer intervals the archive would lag by more
/// than a second.
const INTERVALS: Intervals =
    Intervals { every: Duration::from_millis(400), heartbeat: Duration::from_secs(2), watch: Duration::from_secs(3) };
/// Timeout of a response. Our choice: a hundred times the usual duration of a response, and long enough for the largest
/// object over a slow connection.
const ANSWER_WITHIN: &str = "10 seconds";
const CONNECT_WITHIN: &str = "5 seconds";
/// Time during which the client library retries a request that was rejected.
const REPEATED_FOR: Duration = Duration::from_secs(10);
/// Maximum number of retries by the client library.
const REPEATS: usize = 4;
/// Timeout of a whole operation. It is longer than all retries of the client library together.
const LONGEST: Duration = Duration::from_secs(45);
/// Number of attempts of a request without side effects, if there is no response.
const READS: usize = 2;
/// Object that is used to test whether the bucket honors the conditions of puts.
const CONDITIONS: &str = "CONDITIONS";
/// Environment variables whose values must never appear in a message.
const SECRETS: [&str; 3] = ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN"];

/// The objects below a prefix of a bucket.
pub(crate) struct S3Place {
    store: Arc<dyn ObjectStore>,
    bucket: String,
    prefix: String,
}

impl std::fmt::Debug for S3Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The client contains credentials, so it is not shown.
        write!(f, "S3Place({})", self.shown(""))
    }
}

/// Opens a bucket. The environment provides the credentials, the region and the endpoint.
pub(crate) fn open(bucket: &str, prefix: &str) -> Result<S3Place, ArchiveError> {
    let retry = RetryConfig { max_retries: REPEATS, retry_timeout: REPEATED_FOR, ..RetryConfig::default() };
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
    let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let endpoint = endpoint.iter().find_map(|key| builder.get_config_value(key));
    let is_plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let built = builder
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp), is_plain.to_string())
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), ANSWER_WITHIN)
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout), CONNECT_WITHIN)
        .build();
    let refused = |error: Error| ArchiveError::Refused { why: format!("`s3://{bucket}`: {}", describe(&error)) };
    let (bucket_name, prefix) = (bucket.to_owned(), prefix.to_owned());
    Ok(S3Place { store: Arc::new(built.map_err(refused)?), bucket: bucket_name, prefix })
}

/// Runs a request on a separate runtime and waits for it. The caller's thread may belong to another runtime, as in
/// tests.
fn wait<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> Result<T, String> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let build = || Builder::new_multi_thread().worker_threads(1).thread_name("store-s3").enable_all().build();
    let runtime = RUNTIME.get_or_init(|| build().map_err(|error| error.to_string())).as_ref().map_err(Clone::clone)?;
    let (sender, receiver) = sync_channel(1);
    runtime.spawn(async move { drop(sender.send(request.await)) });
    receiver.recv_timeout(LONGEST).map_err(|_| format!("no response within {} s", LONGEST.as_secs()))
}

impl S3Place {
    fn path(&self, name: &str) -> Result<Path, ArchiveError> {
        let joined = format!("{}/{name}", self.prefix);
        Path::parse(joined.trim_matches('/')).map_err(|error| ArchiveError::Refused { why: error.to_string() })
    }

    /// Returns the error of an operation that failed.
    fn failed(&self, doing: &str, name: &str, why: &str) -> ArchiveError {
        ArchiveError::Away { why: format!("cannot {doing} `{}`: {why}", self.shown(name)) }
    }

    /// Sends a request without side effects, and repeats it if there is no response. Returns `None` if the object does
    /// not exist.
    fn send<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send + 'static>(
        &self,
        doing: &str,
        name: &str,
        request: impl Fn(Arc<dyn ObjectStore>, Path) -> F,
    ) -> Result<Option<T>, ArchiveError> {
        let path = self.path(name)?;
        let mut why = String::new();
        for _ in 0..READS {
            match wait(request(Arc::clone(&self.store), path.clone())) {
                Ok(Ok(done)) => return Ok(Some(done)),
                Ok(Err(error @ Error::NotFound { .. })) if !error.to_string().contains("NoSuchBucket") => {
                    return Ok(None);
                }
                Ok(Err(error)) => {
                    why = describe(&error);
                    if !is_unknown(&error) {
                        break;
                    }
                }
                Err(error) => why = error,
            }
        }
        Err(self.failed(doing, name, &why))
    }
}

impl ArchivePlace for S3Place {
    fn intervals(&self) -> Intervals {
        INTERVALS
    }

    fn shown(&self, name: &str) -> String {
        format!("s3://{}/{}/{name}", self.bucket, self.prefix)
            .trim_end_matches('/')
            .replace("//", "/")
            .replacen("s3:/", "s3://", 1)
    }

    fn prepare(&self) -> Result<(), ArchiveError> {
        let listed = self.list("")?;
        let is_epoch = |file: &ListedFile| file.name.len() == 10 && file.name.parse::<u64>().is_ok();
        if !listed.is_empty() && !listed.iter().any(|file| is_epoch(file) || file.name == CONDITIONS) {
            let why =
                format!("`{}` contains objects that are not part of an archive: name an unused prefix", self.shown(""));
            return Err(ArchiveError::Refused { why });
        }
        // Checks that the bucket honors the conditions of puts. If it ignored them, two services could write the same
        // archive.
        let (one, other) = (Bytes::from_static(b"one\n"), Bytes::from_static(b"other\n"));
        self.put(CONDITIONS, &one, PutWhen::Absent)?;
        let never = FileTag(format!("\"{}\"", "0".repeat(32)));
        for when in [PutWhen::Absent, PutWhen::Unchanged(&never)] {
            if let PutAnswer::Done(_) = self.put(CONDITIONS, &other, when)? {
                let why = format!(
                    "`{}`: this store ignores the conditions of a put (`If-None-Match`, `If-Match`), so two services \
                     could write the same archive. Use S3, or a store that honors conditions",
                    self.shown("")
                );
                return Err(ArchiveError::Refused { why });
            }
        }
        Ok(())
    }

    fn is_there(&self) -> Result<bool, ArchiveError> {
        Ok(!self.list("")?.is_empty())
    }

    fn list(&self, folder: &str) -> Result<Vec<ListedFile>, ArchiveError> {
        let request =
            |store: Arc<dyn ObjectStore>, path: Path| async move { store.list_with_delimiter(Some(&path)).await };
        let Some(listed) = self.send("list", folder, request)? else { return Ok(Vec::new()) };
        let name = |path: &Path| path.filename().map(str::to_owned);
        let folders = listed.common_prefixes.iter().filter_map(name).map(|name| ListedFile { name, bytes: None });
        let files = listed.objects.iter();
        let files = files.filter_map(|it| Some(ListedFile { name: name(&it.location)?, bytes: Some(it.size) }));
        let mut found: Vec<_> = folders.chain(files).collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    fn read(&self, name: &str) -> Result<Option<StoredFile>, ArchiveError> {
        self.send("read", name, |store, path| async move {
            let found = store.get(&path).await?;
            let tag = FileTag(found.meta.e_tag.clone().unwrap_or_default());
            Ok(StoredFile { bytes: found.bytes().await?, tag })
        })
    }

    fn put(&self, name: &str, bytes: &Bytes, when: PutWhen<'_>) -> Result<PutAnswer, ArchiveError> {
        let (path, store, payload) = (self.path(name)?, Arc::clone(&self.store), PutPayload::from(bytes.clone()));
        let mode = match when {
            PutWhen::Always => PutMode::Overwrite,
            PutWhen::Absent => PutMode::Create,
            PutWhen::Unchanged(tag) => PutMode::Update(UpdateVersion { e_tag: Some(tag.0.clone()), version: None }),
        };
        let put = async move { store.put_opts(&path, payload, PutOptions::from(mode)).await };
        let why = match wait(put) {
            Ok(Ok(PutResult { e_tag: Some(tag), .. })) => return Ok(PutAnswer::Done(FileTag(tag))),
            Ok(Ok(_)) => "the store returned no `ETag`".to_owned(),
            Ok(Err(Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. })) => {
                return Ok(PutAnswer::Otherwise);
            }
            Ok(Err(error)) if !is_unknown(&error) => return Err(self.failed("write", name, &describe(&error))),
            Ok(Err(error)) => describe(&error),
            Err(error) => error,
        };
        Ok(PutAnswer::Unknown { why: format!("cannot write `{}`: {why}", self.shown(name)) })
    }

    fn put_chunk(&self, folder: &str, name: &str, bytes: &Bytes) -> Result<(), ArchiveError> {
        let name = format!("{folder}/{name}");
        let mut last = String::new();
        for _ in 0..READS {
            match self.put(&name, bytes, PutWhen::Always)? {
                PutAnswer::Done(_) => return Ok(()),
                PutAnswer::Otherwise => last = self.shown(&name),
                PutAnswer::Unknown { why } => last = why,
            }
        }
        Err(ArchiveError::Away { why: last })
    }

    fn claim(&self, folder: &str, owner: &str, bytes: &Bytes) -> Result<PutAnswer, ArchiveError> {
        self.put(&format!("{folder}/{owner}"), bytes, PutWhen::Absent)
    }

    fn is_claimed(&self, folder: &str, owner: &str) -> Result<bool, ArchiveError> {
        Ok(self.read(&format!("{folder}/{owner}"))?.is_some())
    }

    fn remove(&self, name: &str) -> Result<(), ArchiveError> {
        self.send("remove", name, |store, path| async move { store.delete(&path).await })?;
        Ok(())
    }
}

/// Returns whether the request may have taken effect despite the error.
fn is_unknown(error: &Error) -> bool {
    let refused =
        matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. } | Error::NotFound { .. });
    !refused && between(&error.to_string(), "<Code>", "</Code>").is_none_or(|code| code == "InternalError")
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(behind)?.0)
}

/// Describes an error for people. Only the code and the message of the response are used, because its other parts
/// repeat the request.
fn describe(error: &Error) -> String {
    let text = error.to_string();
    let text = match between(&text, "<Code>", "</Code>") {
        Some(code) => format!("{}{code}{}", advice(code), message(&text)),
        None => match text.find("<?xml").or_else(|| text.find("<Error")).and_then(|end| text.get(..end)) {
            Some(before) => before.trim_end_matches([':', ' ', '\n']).to_owned(),
            None if text.contains("403 Forbidden") => format!("{}403 Forbidden", advice("AccessDenied")),
            None => text,
        },
    };
    without_secrets(&text, SECRETS.iter().filter_map(|name| std::env::var(name).ok()))
}

fn message(text: &str) -> String {
    between(text, "<Message>", "</Message>").map_or_else(String::new, |message| format!(", {message}"))
}

fn advice(code: &str) -> &'static str {
    match code {
        "NoSuchBucket" => "there is no such bucket; create it, or name another: ",
        "AccessDenied" => "these credentials lack a permission; `docs/backup.md` lists the required ones: ",
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" => {
            "the store rejects these credentials; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and \
             AWS_SESSION_TOKEN: "
        }
        "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" => {
            "the bucket is in another region; check AWS_REGION: "
        }
        _ => "",
    }
}

fn without_secrets(text: &str, secrets: impl Iterator<Item = String>) -> String {
    secrets.filter(|secret| !secret.is_empty()).fold(text.to_owned(), |text, secret| text.replace(&secret, "…"))
}

#[cfg(test)]
mod tests;
