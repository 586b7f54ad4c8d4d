//! `baton serve --ship-to`: continuous copying of durable data to an archive. The service ends when another service has
//! taken over from the archive.

use std::sync::Arc;

use clap::{Args, ValueHint};
use engine::Engine;
use history::Duration;
use serde::Deserialize;
use store_archive::{ArchiveAddress, ShipTo, Shipment};
use store_embedded::Embedded;

/// Options of shipping.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Shipping {
    /// Archive to which durable data is copied: a directory on another disk or machine (ten times per second), or
    /// `s3://BUCKET/PREFIX` (about twice per second)
    #[arg(help_heading = "Archive options", long, env = "BATON_SHIP_TO", value_name = "ARCHIVE")]
    #[arg(value_hint = ValueHint::AnyPath)]
    ship_to: Option<ArchiveAddress>,
    /// Period before the present in which any instant can be restored from the archive; older data is removed [default:
    /// 7d]
    #[arg(help_heading = "Archive options", long, env = "BATON_SHIP_KEEP", value_name = "DURATION")]
    ship_keep: Option<Duration>,
    /// Stop if the archive cannot be written for this long, so that a standby can take over safely [default: never]
    #[arg(help_heading = "Archive options", long, env = "BATON_SHIP_LEASE", value_name = "DURATION")]
    ship_lease: Option<Duration>,
    /// Start without `--ship-to` although the data directory was shipped. Make sure first that no other store has taken
    /// over
    #[arg(help_heading = "Archive options", id = "stop_shipping", long = "stop-shipping", env = "BATON_STOP_SHIPPING")]
    #[serde(default, rename = "stop-shipping")]
    stops: bool,
}

/// Minimum duration of the lease. Our choice: an archive may take that long to respond while its disk is busy.
const LEASE_MIN: Duration = Duration::from_secs(5);

fn standard(duration: Duration) -> std::time::Duration {
    std::time::Duration::from_millis(duration.as_millis())
}

impl Shipping {
    /// Returns these options, with absent ones replaced by those of the configuration file.
    pub(crate) fn or(self, file: Self) -> Self {
        Self {
            ship_to: self.ship_to.or(file.ship_to),
            ship_keep: self.ship_keep.or(file.ship_keep),
            ship_lease: self.ship_lease.or(file.ship_lease),
            stops: self.stops || file.stops,
        }
    }

    /// Starts shipping if it is configured. Must be called before anything is written to the store.
    pub(crate) async fn begin(&self, store: Option<&Arc<Embedded>>) -> Result<Option<Shipment>, String> {
        let Some(archive) = &self.ship_to else {
            if self.ship_keep.is_some() || self.ship_lease.is_some() {
                return Err("`--ship-keep` and `--ship-lease` require `--ship-to`".to_owned());
            }
            let shipped_to = store
                .map(|store| store_archive::shipped_to(store.source().directory()))
                .transpose()
                .map_err(|error| error.to_string())?;
            return match shipped_to.flatten() {
                Some(archive) if !self.stops => Err(format!(
                    "this data directory was shipped to `{archive}`, and another store may have taken over from it; \
                     this cannot be checked without `--ship-to`. Start with `--ship-to {archive}`, or with \
                     `--stop-shipping` if no other store has taken over"
                )),
                _ => Ok(None),
            };
        };
        if self.stops {
            return Err("`--stop-shipping` is for a start without `--ship-to`: omit one of them".to_owned());
        }
        let Some(store) = store else {
            return Err("`--ship-to` requires the embedded store; back up a table with DynamoDB".to_owned());
        };
        let lease = self.ship_lease.unwrap_or(Duration::ZERO);
        if lease > Duration::ZERO && lease < LEASE_MIN {
            return Err(format!("`--ship-lease {lease}`: expected {LEASE_MIN} or more"));
        }
        let mut to = ShipTo { lease: standard(lease), ..ShipTo::new(archive.clone()) };
        if let Some(keep) = self.ship_keep {
            to.keep = standard(keep);
        }
        store_archive::ship(store, to).await.map(Some).map_err(|error| format!("--ship-to {archive}: {error}"))
    }
}

/// If the store was restored or taken over with a loss of data, invalidates all task tokens that were issued earlier.
/// Tokens refer to events by number. After the loss, a new event can get the number of a lost one, to which an old
/// token refers.
pub(crate) async fn begin_epoch(store: &Embedded, engine: &Engine) -> Result<(), String> {
    let directory = store.source().directory();
    let Some(restored) = store_archive::restored(directory).map_err(|error| error.to_string())? else { return Ok(()) };
    if restored.is_all {
        tracing::info!("the store continues another one without loss of data: task tokens stay valid");
    } else {
        let rotated = engine.secrets().rotate(Some(Duration::ZERO)).await;
        rotated.map_err(|refusal| format!("the secret of task tokens cannot be rotated: {refusal}"))?;
        tracing::warn!(
            "the store was restored: earlier task tokens are refused, and their tasks are dispatched again when they \
             time out"
        );
    }
    store_archive::forget_restored(directory).map_err(|error| error.to_string())
}
