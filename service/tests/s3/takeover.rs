//! Lost machines, and standbys that take over.

use std::time::Duration;

use tokio::time::Instant;

use crate::lost::{Follower, is_there, load, path};
use crate::support::Scratch;
use crate::{baton_at, bucket, log, objects, output_of, refused_at, serve, server, start, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_lost_under_load_is_restored_up_to_its_last_second() {
    let scratch = Scratch::new("s3-lost");
    let bucket = bucket("lost").await;
    let archive = format!("s3://{bucket}/lost");
    let mut service = serve(&scratch.0, &["--ship-to", &archive]);
    let client = service.client();
    until("a base", || async {
        objects(&bucket).await.iter().any(|name| name.contains("/chunks/"))
            && client.metrics().await.is_ok_and(|page| page.contains("baton_ship_lag_seconds 0"))
    })
    .await;
    let began = Instant::now();
    let starters: Vec<_> = (0..4).map(|lane| load(&service, lane)).collect();
    tokio::time::sleep_until(began + Duration::from_millis(4_000)).await;
    let end = Instant::now();
    service.kill();
    std::fs::remove_dir_all(scratch.0.join("data")).unwrap();
    let restored = path(&scratch, "restored/data");
    output_of(&["restore", &archive, "--data-dir", &restored]);
    assert!(output_of(&["fsck", "--data-dir", &restored]).starts_with("all runs are valid: "));
    let service = serve(&scratch.0.join("restored"), &[]);
    let (client, mut checked, mut lost) = (service.client(), 0, Duration::ZERO);
    for starter in starters {
        for (at, id) in starter.await.unwrap() {
            if is_there(&client, &id).await {
                checked += 1;
            } else {
                lost = lost.max(end.saturating_duration_since(at));
            }
        }
    }
    println!("lost {lost:?}; {checked} runs are there");
    assert!(lost < Duration::from_secs(1), "lost {lost:?}");
    assert!(checked > 10, "{checked} were checked");
    log(&scratch.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_a_running_service_without_loss() {
    let scratch = Scratch::new("s3-standby");
    let bucket = bucket("standby").await;
    let (archive, copy) = (format!("s3://{bucket}"), path(&scratch, "copy/data"));
    let mut service = serve(&scratch.0, &["--ship-to", &archive]);
    let client = service.client();
    client.start(&start("first"), None).await.unwrap();
    let follower = Follower::start(baton_at(&server()), &archive, &copy, &["--wait", "60s"]);
    until("followed", || async { std::path::Path::new(&copy).join("COPY").exists() }).await;
    let starter = load(&service, 0);
    until("it is under load", || async { is_there(&client, "0-20").await }).await;
    let said = output_of(&["standby", "promote", "--data-dir", &copy]);
    assert!(said.contains("the standby has taken over"), "{said}");
    let (code, said) = follower.said();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(r#""promoted":true"#) && said.contains(r#""isAll":true"#), "{said}");
    // The old service has ended by itself and cannot be started again.
    let acknowledged = starter.await.unwrap();
    assert_eq!(service.child.wait().unwrap().code(), Some(1));
    let data = path(&scratch, "data");
    let said = refused_at(&server(), &["serve", "--data-dir", &data, "--listen", ":0", "--ship-to", &archive]);
    assert!(said.contains("it has taken over, and this store must not continue"), "{said}");
    let service = serve(&scratch.0.join("copy"), &["--ship-to", &archive]);
    let client = service.client();
    assert!(!acknowledged.is_empty());
    for (_, id) in &acknowledged {
        assert!(is_there(&client, id).await, "{id} of {}", acknowledged.len());
    }
    until("the new one ships", || async {
        objects(&bucket).await.iter().any(|name| name.starts_with("0000000002/chunks/"))
    })
    .await;
    drop(service);
    assert!(output_of(&["fsck", "--data-dir", &copy]).starts_with("all runs are valid: "));
    log(&scratch.0);
}
