//! The options of traces: where the spans of runs go.

use std::sync::Arc;

use clap::Args;
use engine::{SampleRatio, SpanExport};
use serde::Deserialize;
use service::otlp::{Collector, Exporter};

/// What the service calls itself where nobody says otherwise.
const SERVICE_NAME: &str = "baton";

/// Where spans go, and of which runs.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Spans {
    /// Send the spans of runs to this collector, over OTLP with HTTP and protobuf, e.g. `http://127.0.0.1:4318`
    /// [default: `OTEL_EXPORTER_OTLP_ENDPOINT`, if that is set]
    #[arg(long, env = "BATON_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Of how many runs that nobody started in a trace of his own there are spans, from 0 to 1 [default: 1]
    #[arg(long, env = "BATON_OTLP_SAMPLE", value_name = "RATIO")]
    otlp_sample: Option<f64>,
}

/// A variable of OpenTelemetry's; one that is empty says nothing.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Spans {
    /// These options, with others where they are absent.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            otlp_endpoint: self.otlp_endpoint.or(other.otlp_endpoint),
            otlp_sample: self.otlp_sample.or(other.otlp_sample),
        }
    }

    /// What sends spans, if somebody is to have them.
    pub(crate) fn open(&self) -> Result<Option<Arc<Exporter>>, String> {
        let standard = || variable("OTEL_EXPORTER_OTLP_ENDPOINT");
        let (option, address) = match &self.otlp_endpoint {
            Some(address) => ("--otlp-endpoint", Some(address.clone())),
            None => ("OTEL_EXPORTER_OTLP_ENDPOINT", standard()),
        };
        let Some(address) = address else {
            self.ratio()?;
            return Ok(None);
        };
        let protocol = variable("OTEL_EXPORTER_OTLP_PROTOCOL").filter(|protocol| protocol != "http/protobuf");
        if let Some(protocol) = protocol.filter(|_| self.otlp_endpoint.is_none()) {
            return Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is `{protocol}`, and spans are sent by `http/protobuf` alone; name a collector's \
                 address for that with --otlp-endpoint, or unset OTEL_EXPORTER_OTLP_ENDPOINT"
            ));
        }
        let headers = variable("OTEL_EXPORTER_OTLP_HEADERS");
        let collector = Collector::at(&address, headers.as_deref()).map_err(|error| format!("{option}: {error}"))?;
        let name = variable("OTEL_SERVICE_NAME");
        Ok(Some(Exporter::start(collector, name.as_deref().unwrap_or(SERVICE_NAME))))
    }

    /// Of which runs they are, and where they go.
    pub(crate) fn export(&self, exporter: Option<&Arc<Exporter>>) -> Result<Option<SpanExport>, String> {
        let ratio = self.ratio()?;
        Ok(exporter.map(|exporter| SpanExport { to: Arc::clone(exporter) as _, ratio }))
    }

    fn ratio(&self) -> Result<SampleRatio, String> {
        let Some(ratio) = self.otlp_sample else { return Ok(SampleRatio::ALL) };
        SampleRatio::new(ratio).ok_or_else(|| format!("`--otlp-sample {ratio}`: expected a number from 0 to 1"))
    }
}
