//! Notifications to systemd, or to another service manager with the same protocol, that the service is ready or
//! stopping. If there is no such manager, these functions do nothing.
//!
//! Source: `sd_notify(3)`.

/// Reports that the service is ready, so that `systemctl start` returns.
pub(crate) fn ready() {
    #[cfg(target_os = "linux")]
    tell(sd_notify::NotifyState::Ready);
}

/// Reports that the service is stopping.
pub(crate) fn stopping() {
    #[cfg(target_os = "linux")]
    tell(sd_notify::NotifyState::Stopping);
}

#[cfg(target_os = "linux")]
fn tell(state: sd_notify::NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager could not be notified");
    }
}
