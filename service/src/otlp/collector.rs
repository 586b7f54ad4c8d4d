//! A collector of spans: its address and headers, and the sending of one export request.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};

use super::proto::ExportResponse;

/// Timeout of an export request. Source: OpenTelemetry's `OTEL_EXPORTER_OTLP_TIMEOUT`.
pub const EXPORT_WAIT: Duration = Duration::from_secs(10);

/// Maximum number of bytes read of a response. Our choice: the service reads only the number of refused spans from it.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Path for traces, relative to the address of a collector. Source: OTLP/HTTP.
const PATH: &str = "v1/traces";

/// Collector of spans.
pub struct Collector {
    url: Url,
    http: Client,
}

/// Outcome of one attempt to send an export request.
pub(super) enum ExportOutcome {
    /// The collector accepted the request, but refused this number of its spans.
    Taken { refused: usize },
    /// The collector refused the request, for this reason.
    Refused(String),
    /// The collector could not be reached, or has asked for a retry.
    Unreachable { why: String, retry_after: Option<Duration> },
}

impl Collector {
    /// Creates a collector from its address, such as `http://127.0.0.1:4318`, and headers in the format of
    /// `OTEL_EXPORTER_OTLP_HEADERS`: `name=value`, separated by commas.
    ///
    /// # Errors
    ///
    /// If the address or the headers are invalid. The message does not contain them, because they may contain
    /// secrets.
    pub fn at(address: &str, headers: Option<&str>) -> Result<Self, String> {
        let expected = "expected the address of a collector, e.g. `http://127.0.0.1:4318`";
        let mut url = Url::parse(address).map_err(|error| format!("`{address}`: {error}; {expected}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{address}`: `{}` is neither http nor https; {expected}", url.scheme()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("`{address}` has a query or a fragment; {expected}"));
        }
        let base = url.path().trim_end_matches('/');
        url.set_path(&format!("{}/{PATH}", base.strip_suffix(&format!("/{PATH}")).unwrap_or(base)));
        let http = Client::builder()
            .default_headers(headers.map(read_headers).transpose()?.unwrap_or_default())
            .timeout(EXPORT_WAIT)
            .redirect(Policy::none())
            .build()
            .map_err(|error| format!("`{address}`: {error}"))?;
        Ok(Self { url, http })
    }

    /// Returns the address without parts that may be secret.
    pub(super) fn shown(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Sends one export request, without retries.
    pub(super) async fn send(&self, body: Bytes) -> ExportOutcome {
        let request = self.http.post(self.url.clone()).header(CONTENT_TYPE, "application/x-protobuf").body(body);
        match request.send().await {
            Ok(answer) => read(answer).await,
            Err(error) => ExportOutcome::Unreachable { why: why(&error.without_url()), retry_after: None },
        }
    }
}

/// Formats an error with its sources, which contain the actual reason.
fn why(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Returns whether an export request with this response status may be retried. Source: OTLP/HTTP, "Retryable Response
/// Codes".
fn is_retryable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

async fn read(mut answer: Response) -> ExportOutcome {
    let status = answer.status();
    if is_retryable(status) {
        let seconds = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        return ExportOutcome::Unreachable { why: status.to_string(), retry_after: seconds.map(Duration::from_secs) };
    }
    if !status.is_success() {
        return ExportOutcome::Refused(format!("it responded with {status}"));
    }
    let mut body = Vec::new();
    // If the rest of the response cannot be read, the collector has accepted the spans nevertheless, and they are not
    // sent again.
    while let Ok(Some(piece)) = answer.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() > ANSWER_BYTES_MAX {
            return ExportOutcome::Taken { refused: 0 };
        }
    }
    let partial = ExportResponse::decode(&*body).ok().and_then(|answer| answer.partial_success);
    let refused = partial.map_or(0, |partial| usize::try_from(partial.rejected_spans).unwrap_or(0));
    ExportOutcome::Taken { refused }
}

fn read_headers(text: &str) -> Result<HeaderMap, String> {
    let bad = || "the headers for the collector must be `name=value`, separated by commas".to_owned();
    let mut headers = HeaderMap::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, value) = entry.split_once('=').ok_or_else(bad)?;
        let name: HeaderName = name.trim().parse().map_err(|_| bad())?;
        let value = percent_encoding::percent_decode_str(value.trim()).collect::<Vec<u8>>();
        let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_address_may_contain_the_traces_path() {
        for (address, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example/", "https://otel.example/v1/traces"),
            ("http://otel.example/behind/", "http://otel.example/behind/v1/traces"),
            ("http://otel.example/v1/traces", "http://otel.example/v1/traces"),
        ] {
            assert_eq!(Collector::at(address, None).unwrap().url.as_str(), url);
        }
        for (address, problem) in [
            ("otel.example:4318", "neither http nor https"),
            ("127.0.0.1:4318", "expected the address of a collector"),
            ("grpc://otel.example", "`grpc` is neither http nor https"),
            ("http://otel.example/?a=b", "has a query or a fragment"),
            ("", "expected the address of a collector"),
        ] {
            let error = Collector::at(address, None).err().unwrap();
            assert!(error.contains(problem), "{address}: {error}");
        }
    }

    #[test]
    fn headers_are_read_and_never_shown() {
        let read = read_headers("api-key=s3cret%20, x-of = a=b,").unwrap();
        assert_eq!((read["api-key"].as_bytes(), read["x-of"].as_bytes()), (&b"s3cret "[..], &b"a=b"[..]));
        for bad in ["s3cret", "a b=s3cret", "a=s3cret%0a"] {
            let error = Collector::at("http://127.0.0.1:4318", Some(bad)).err().unwrap();
            assert!(!error.contains("s3cret") && error.contains("name=value"), "{error}");
        }
    }
}
