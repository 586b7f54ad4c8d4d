//! A bucket that hangs and responses that are lost: the service continues.

use crate::lost::{is_there, path};
use crate::proxy::{Fate, Proxy};
use crate::support::Scratch;
use crate::{bucket, log, output_of, serve, serve_at, start, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_bucket_delays_only_shipping() {
    let scratch = Scratch::new("s3-hang");
    let archive = format!("s3://{}/hang", bucket("hang").await);
    let proxy = Proxy::start().await;
    let mut service = serve_at(&proxy.endpoint, &scratch.0, &["--ship-to", &archive]);
    let client = service.client();
    let metrics = || async { client.metrics().await.unwrap() };
    client.start(&start("before"), None).await.unwrap();
    until("it is shipped", || async { metrics().await.contains("baton_ship_lag_seconds 0.0\n") }).await;
    proxy.set(Fate::Hang);
    until("requests hang", || async { proxy.hanging() > 0 }).await;
    for number in 0..200 {
        client.start(&start(&format!("w{number}")), None).await.unwrap();
    }
    until("the failure is reported", || async { metrics().await.contains("baton_ship_failing 1\n") }).await;
    client.start(&start("meanwhile"), None).await.unwrap();
    let ready = client.ready().await;
    assert!(format!("{ready:?}").contains("archive-behind"), "{ready:?}");
    proxy.set(Fate::Answered);
    until("it is shipped again", || async {
        let metrics = metrics().await;
        metrics.contains("baton_ship_failing 0\n") && metrics.contains("baton_ship_lag_seconds 0.0\n")
    })
    .await;
    service.kill();
    let restored = path(&scratch, "restored/data");
    output_of(&["restore", &archive, "--data-dir", &restored]);
    let service = serve(&scratch.0.join("restored"), &[]);
    let client = service.client();
    assert!(is_there(&client, "w199").await && is_there(&client, "meanwhile").await);
    assert!(log(&scratch.0).contains("cannot ship the log; the service continues"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_responses_of_the_bucket_are_retried() {
    let scratch = Scratch::new("s3-lossy");
    let archive = format!("s3://{}/lossy", bucket("lossy").await);
    let proxy = Proxy::start().await;
    proxy.set(Fate::AnswersLost);
    let mut service = serve_at(&proxy.endpoint, &scratch.0, &["--ship-to", &archive]);
    let client = service.client();
    for number in 0..10 {
        client.start(&start(&format!("w{number}")), None).await.unwrap();
        let before = proxy.lost();
        until("another answer is lost", || async { proxy.lost() > before }).await;
    }
    until("it is shipped", || async { client.metrics().await.unwrap().contains("baton_ship_lag_seconds 0.0\n") }).await;
    service.kill();
    let restored = path(&scratch, "restored/data");
    output_of(&["restore", &archive, "--data-dir", &restored]);
    let service = serve(&scratch.0.join("restored"), &[]);
    assert!(is_there(&service.client(), "w9").await);
    let log = log(&scratch.0);
    assert!(!log.contains("cannot ship the log"), "{log}");
}
