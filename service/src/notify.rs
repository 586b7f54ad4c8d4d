//! What the service manager is told that has started the service, where that is systemd or speaks like it: that the service takes work, and that it
//! stops. Elsewhere nobody is told.
//!
//! Source: `sd_notify(3)`.

/// The service takes work: `systemctl start` returns.
pub(crate) fn ready() {
    #[cfg(target_os = "linux")]
    tell(sd_notify::NotifyState::Ready);
}

/// The service has been asked to stop.
pub(crate) fn stopping() {
    #[cfg(target_os = "linux")]
    tell(sd_notify::NotifyState::Stopping);
}

#[cfg(target_os = "linux")]
fn tell(state: sd_notify::NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager could not be told how the service stands");
    }
}
