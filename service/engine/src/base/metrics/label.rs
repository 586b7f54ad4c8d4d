//! Label values of metrics, and the limit on the number of series of a metric.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus_client::encoding::{EncodeLabelValue, EncodeMetric, LabelValueEncoder};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Maximum number of separate series per metric. Our choice: a histogram exports about fifteen numbers per series. With
/// this maximum, the response to a scrape stays below a megabyte.
pub(crate) const SERIES_MAX: usize = 100;

/// Label value of the series that counts all label combinations beyond [`SERIES_MAX`].
const OTHERS: &str = "*";

/// Value of a label, escaped when it is created, because the metrics library writes values unchanged.
///
/// Only backslash, newline and double quote are escaped. Source: the Prometheus text format and `OpenMetrics`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LabelValue(Arc<str>);

impl From<&str> for LabelValue {
    fn from(value: &str) -> Self {
        Self(value.into())
    }
}

impl From<&Arc<str>> for LabelValue {
    fn from(value: &Arc<str>) -> Self {
        Self(Arc::clone(value))
    }
}

impl EncodeLabelValue for LabelValue {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => encoder.write_str("\\\\")?,
                '"' => encoder.write_str("\\\"")?,
                '\n' => encoder.write_str("\\n")?,
                c => encoder.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Labels of one series, each with its name.
pub(crate) type Labels<const N: usize> = [(&'static str, LabelValue); N];

/// Metric whose label values are chosen by callers. The first [`SERIES_MAX`] combinations of labels get their own
/// series, and all later ones share one series.
#[derive(Debug)]
pub(crate) struct Bounded<const N: usize, M> {
    family: Family<Labels<N>, M, fn() -> M>,
    count: AtomicUsize,
}

impl<const N: usize, M: Clone + EncodeMetric + TypedMetric + Debug + Send + Sync + 'static> Bounded<N, M> {
    pub(crate) fn new(registry: &mut Registry, name: &str, help: &str, constructor: fn() -> M) -> Self {
        let family = Family::new_with_constructor(constructor);
        registry.register(name, help, family.clone());
        Self { family, count: AtomicUsize::new(0) }
    }

    /// Returns the series with these labels, or the shared series. If two callers add a series concurrently, the metric
    /// may exceed the maximum by one series.
    pub(crate) fn of(&self, labels: Labels<N>) -> M {
        if let Some(metric) = self.family.get(&labels) {
            return metric.clone();
        }
        if self.count.load(Ordering::Relaxed) < SERIES_MAX {
            self.count.fetch_add(1, Ordering::Relaxed);
            return self.family.get_or_create(&labels).clone();
        }
        self.family.get_or_create(&labels.map(|(name, _)| (name, OTHERS.into()))).clone()
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn the_first_series_are_separate_and_all_others_merged() {
        let mut registry = Registry::default();
        let bounded = Bounded::<2, Counter>::new(&mut registry, "n", "N", Counter::default);
        for number in 0..SERIES_MAX + 3 {
            for _ in 0..2 {
                bounded.of([("domain", "d".into()), ("type", (*number.to_string()).into())]).inc();
            }
        }
        let text = text(&registry);
        assert_eq!(text.lines().filter(|line| line.starts_with("n_total")).count(), SERIES_MAX + 1);
        assert!(text.contains(r#"n_total{domain="d",type="99"} 2"#), "{text}");
        assert!(text.contains(r#"n_total{domain="*",type="*"} 6"#), "{text}");
    }

    #[test]
    fn label_values_are_escaped_as_in_the_text_format() {
        for (value, written) in [
            ("orders", r#""orders""#),
            (r#"a"b"#, r#""a\"b""#),
            (r"a\b", r#""a\\b""#),
            ("a\nb", r#""a\nb""#),
            ("tab\tnul\0quote' é 漢 \u{200b}", "\"tab\tnul\0quote' é 漢 \u{200b}\""),
        ] {
            let mut registry = Registry::default();
            let bounded = Bounded::<1, Counter>::new(&mut registry, "n", "N", Counter::default);
            bounded.of([("list", value.into())]).inc();
            let text = text(&registry);
            assert!(text.contains(&format!("n_total{{list={written}}} 1")), "{text}");
        }
    }
}
