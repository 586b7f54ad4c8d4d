//! Options for the export of spans.

use std::sync::Arc;

use clap::Args;
use engine::{SampleRatio, SpanExport};
use serde::Deserialize;
use service::otlp::{Collector, Exporter};

/// Default service name in spans.
const SERVICE_NAME: &str = "baton";

/// Options for spans: where they are sent, and the fraction of runs to trace.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Spans {
    /// URL of a collector for spans of runs, which receives OTLP over HTTP with protobuf, e.g. `http://127.0.0.1:4318`
    /// [default: `OTEL_EXPORTER_OTLP_ENDPOINT`]
    #[arg(help_heading = "Tracing options", long, env = "BATON_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Fraction of runs to trace if the caller sent no trace context (0.0–1.0) [default: 1]
    #[arg(help_heading = "Tracing options", long, env = "BATON_OTLP_SAMPLE", value_name = "RATIO")]
    otlp_sample: Option<f64>,
}

/// Returns the value of an environment variable of OpenTelemetry. An empty one counts as unset, as OpenTelemetry's
/// specification requires.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Checks that OpenTelemetry's variables do not select a protocol that the service does not support.
fn speaks_http() -> Result<(), String> {
    let protocol = variable("OTEL_EXPORTER_OTLP_PROTOCOL").filter(|protocol| protocol != "http/protobuf");
    protocol.map_or(Ok(()), |protocol| {
        Err(format!(
            "OTEL_EXPORTER_OTLP_PROTOCOL is `{protocol}`, but only `http/protobuf` is supported; give an endpoint for \
             it with --otlp-endpoint, or set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
        ))
    })
}

impl Spans {
    /// Returns these options, with absent ones replaced by those of `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            otlp_endpoint: self.otlp_endpoint.or(other.otlp_endpoint),
            otlp_sample: self.otlp_sample.or(other.otlp_sample),
        }
    }

    /// Creates an exporter of spans, if one is configured.
    pub(crate) fn open(&self) -> Result<Option<Arc<Exporter>>, String> {
        let headers = variable("OTEL_EXPORTER_OTLP_HEADERS");
        let at = |address: &str| Collector::at(address, headers.as_deref());
        let collector = match (&self.otlp_endpoint, variable("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some(address), _) => Some(at(address).map_err(|error| format!("--otlp-endpoint: {error}"))?),
            // The variable may be set for all programs on the machine. An invalid address in it must not prevent the
            // service from starting.
            (None, Some(address)) => {
                let collector = speaks_http().and_then(|()| at(&address));
                let collector = collector.map_err(|error| format!("OTEL_EXPORTER_OTLP_ENDPOINT: {error}"));
                collector.inspect_err(|why| tracing::warn!(why, "no spans are sent")).ok()
            }
            (None, None) => None,
        };
        let name = variable("OTEL_SERVICE_NAME");
        Ok(collector.map(|collector| Exporter::start(collector, name.as_deref().unwrap_or(SERVICE_NAME))))
    }

    /// Returns the exporter and the fraction of runs to trace, in the form that the engine expects.
    pub(crate) fn export(&self, exporter: Option<&Arc<Exporter>>) -> Result<Option<SpanExport>, String> {
        let ratio = self.ratio()?;
        Ok(exporter.map(|exporter| SpanExport { to: Arc::clone(exporter) as _, ratio }))
    }

    fn ratio(&self) -> Result<SampleRatio, String> {
        let Some(ratio) = self.otlp_sample else { return Ok(SampleRatio::ALL) };
        SampleRatio::new(ratio).ok_or_else(|| format!("`--otlp-sample {ratio}`: expected a number from 0 to 1"))
    }
}
