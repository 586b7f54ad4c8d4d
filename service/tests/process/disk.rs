//! The disk reserve as set by options.

use client::Patience;

use crate::start;
use crate::support::{Scratch, Service, baton};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_below_its_disk_reserve_refuses_starts_with_advice() {
    let scratch = Scratch::new("disk");
    // A million GiB.
    let service = Service::start(&scratch.0, &["--disk-reserve", "1073741824"]);
    let refused = service.client().start(&start("w"), None).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.status(), refused.is_retryable()),
        (Some("insufficient-storage"), Some(507), true)
    );
    let output = baton(&["workflow", "start", "w", "--type", "t", "--url", &service.url]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["1073741824 MiB are reserved for open runs", "lower --disk-reserve"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    drop(service);

    // Without a reserve, and with the default reserve.
    for (id, args) in [("none", &["--disk-reserve", "0"][..]), ("default", &[])] {
        let service = Service::start(&scratch.0, args);
        let client = service.client().patience(Patience::None);
        client.start(&start(id), None).await.unwrap();
        let reserve = if args.is_empty() { 512_u64 << 20 } else { 0 };
        let metrics = client.metrics().await.unwrap();
        assert!(metrics.contains(&format!("baton_disk_reserve_bytes {reserve}\n")), "{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fsck_backup_and_serve_notice_a_changed_byte() {
    let scratch = Scratch::new("changed-byte");
    let data = scratch.0.join("data").display().to_string();
    let mut service = Service::start(&scratch.0, &[]);
    service.client().start(&start("workflow-of-the-marker"), None).await.unwrap();
    service.kill();
    for args in [&["compact", "--data-dir", &data][..], &["fsck", "--data-dir", &data]] {
        let output = baton(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let tree = scratch.0.join("data/tree.redb");
    let mut bytes = std::fs::read(&tree).unwrap();
    let marker = b"workflow-of-the-marker";
    let places: Vec<_> = (0..bytes.len() - marker.len()).filter(|at| bytes[*at..].starts_with(marker)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at] ^= 1;
    }
    std::fs::write(&tree, bytes).unwrap();
    let archive = scratch.0.join("archive").display().to_string();
    for args in [
        &["fsck", "--data-dir", &data][..],
        &["backup", &archive, "--data-dir", &data],
        &["serve", "--data-dir", &data, "--listen", ":0"],
    ] {
        let output = baton(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("Restore the directory from a backup"), "{args:?}: {said}");
    }
}
