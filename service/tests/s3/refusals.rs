//! Refused operations on buckets: each with its reason, and without secrets.

use crate::lost::path;
use crate::proxy::{Fate, Proxy};
use crate::support::{Scratch, Service};
use crate::{SECRET, TOKEN, bucket, get, objects, output_of, put, refused_at, serve, server};

/// A body in S3's form, which repeats the request with its token.
fn body(code: &str, message: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message>\
         <CanonicalRequest>x-amz-security-token:{TOKEN}</CanonicalRequest><Key>{SECRET}</Key></Error>"
    )
}

fn served(scratch: &Scratch) -> (Service, String) {
    (serve(&scratch.0, &[]), path(scratch, "data"))
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_a_bucket_are_explained_without_secrets() {
    let scratch = Scratch::new("s3-refused");
    let data = path(&scratch, "data");
    // No service has the directory open, so the command itself reports the error.
    drop(serve(&scratch.0, &[]));
    let nowhere = "s3://no-such-bucket-anywhere/p";
    for args in [
        vec!["backup", nowhere, "--data-dir", &data],
        vec!["backup", "verify", nowhere],
        vec!["serve", "--data-dir", &data, "--listen", ":0", "--ship-to", nowhere],
    ] {
        let said = refused_at(&server(), &args);
        assert!(said.contains("there is no such bucket") && said.contains("no-such-bucket-anywhere"), "{said}");
    }
    let restored = path(&scratch, "restored");
    assert!(refused_at(&server(), &["restore", nowhere, "--data-dir", &restored]).contains("there is no such bucket"));
    let proxy = Proxy::start().await;
    let archive = format!("s3://{}/p", bucket("refused").await);
    for (status, code, advice) in [
        (403, "InvalidAccessKeyId", "check AWS_ACCESS_KEY_ID"),
        (403, "SignatureDoesNotMatch", "check AWS_ACCESS_KEY_ID"),
        (400, "ExpiredToken", "check AWS_ACCESS_KEY_ID"),
        (403, "AccessDenied", "lists the required ones"),
        (301, "PermanentRedirect", ""),
    ] {
        proxy.set(Fate::Refused(status, body(code, "It is so.")));
        for args in [vec!["backup", archive.as_str(), "--data-dir", &data], vec!["backup", "verify", &archive]] {
            let said = refused_at(&proxy.endpoint, &args);
            assert!(status == 301 || said.contains(code) && said.contains(advice), "{said}");
            assert!(said.contains(&archive), "{said}");
        }
    }
    // A store that ignores conditions would let two services write.
    proxy.set(Fate::ConditionsIgnored);
    let said = refused_at(&proxy.endpoint, &["backup", &archive, "--data-dir", &data]);
    assert!(said.contains("ignores the conditions of a put"), "{said}");
    let said = refused_at(&server(), &["backup", "s3://", "--data-dir", &data]);
    assert!(said.contains("expected `s3://BUCKET/PREFIX`"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_or_damaged_archive_is_reported() {
    let scratch = Scratch::new("s3-damaged");
    let name = bucket("damaged").await;
    let (service, data) = served(&scratch);
    put(&name, "letters/letter", "Dear").await;
    let said = refused_at(&server(), &["backup", &format!("s3://{name}/letters"), "--data-dir", &data]);
    assert!(said.contains("contains objects that are not part of an archive"), "{said}");
    let empty = format!("s3://{name}/empty");
    let said = refused_at(&server(), &["backup", "verify", &empty]);
    assert!(said.contains("there is no archive"), "{said}");

    let archive = format!("s3://{name}/a");
    service.client().start(&crate::start("w"), None).await.unwrap();
    output_of(&["backup", &archive, "--data-dir", &data]);
    output_of(&["backup", "verify", &archive]);
    // An archive of another store.
    let other = Scratch::new("s3-other");
    drop(serve(&other.0, &[]));
    let said = refused_at(&server(), &["backup", &archive, "--data-dir", &path(&other, "data")]);
    assert!(said.contains("belongs to another store"), "{said}");
    for part in ["/log/", "/NEWEST", "/MANIFEST", "/OWNER"] {
        let key = objects(&name).await.into_iter().find(|key| key.starts_with("a/") && key.contains(part)).unwrap();
        let whole = get(&name, &key).await;
        put(&name, &key, &whole[..whole.len() / 2]).await;
        let said = refused_at(&server(), &["backup", "verify", &archive]);
        assert!(said.contains(&format!("s3://{name}/{key}")) && said.contains("is truncated"), "{said}");
        put(&name, &key, whole).await;
    }
    output_of(&["backup", "verify", &archive]);
    let newest = objects(&name).await.into_iter().find(|key| key.ends_with("/NEWEST")).unwrap();
    let whole = String::from_utf8(get(&name, &newest).await).unwrap();
    put(&name, &newest, whole.replacen("format 1", "format 9", 1)).await;
    let said = refused_at(&server(), &["restore", &archive, "--data-dir", &path(&scratch, "restored")]);
    assert!(said.contains("format 9") && said.contains("use the version that wrote it"), "{said}");
}
