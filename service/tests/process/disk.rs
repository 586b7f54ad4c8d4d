//! What is kept of the disk for runs that are open, as the options say.

use client::Patience;

use crate::start;
use crate::support::{Scratch, Service, baton};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_keeps_more_of_its_disk_than_there_is_starts_nothing_and_says_what_to_do() {
    let scratch = Scratch::new("disk");
    // A million GiB.
    let service = Service::start(&scratch.0, &["--disk-reserve", "1073741824"]);
    let refused = service.client().start(&start("w"), None).await.unwrap_err();
    assert_eq!((refused.code(), refused.status(), refused.is_retryable()), (Some("disk-low"), Some(507), true));
    let output = baton(&["workflow", "start", "w", "--type", "t", "--url", &service.url]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["1073741824 MiB are kept for runs that are open", "lower --disk-reserve"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    drop(service);

    // Without a reserve, and with the one that is there unless something else is said.
    for (id, args) in [("none", &["--disk-reserve", "0"][..]), ("default", &[])] {
        let service = Service::start(&scratch.0, args);
        let client = service.client().patience(Patience::None);
        client.start(&start(id), None).await.unwrap();
        let reserve = if args.is_empty() { 512_u64 << 20 } else { 0 };
        let metrics = client.metrics().await.unwrap();
        assert!(metrics.contains(&format!("baton_disk_reserve_bytes {reserve}\n")), "{metrics}");
    }
}
