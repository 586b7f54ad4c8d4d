use super::*;

fn memory(prefix: &str) -> S3Place {
    let store = Arc::new(object_store::memory::InMemory::new());
    S3Place { store, bucket: "bucket".to_owned(), prefix: prefix.to_owned() }
}

#[test]
fn a_bucket_fulfills_the_contract_of_a_location() {
    for prefix in ["", "some/prefix"] {
        let place = memory(prefix);
        assert!(!place.is_there().unwrap());
        place.prepare().unwrap();
        let put = |name: &str, bytes: &'static str, when: PutWhen<'_>| {
            place.put(name, &Bytes::from_static(bytes.as_bytes()), when).unwrap()
        };
        let PutAnswer::Done(first) = put("0000000001/NEWEST", "1", PutWhen::Absent) else { panic!("it was absent") };
        assert_eq!(put("0000000001/NEWEST", "2", PutWhen::Absent), PutAnswer::Otherwise);
        let PutAnswer::Done(second) = put("0000000001/NEWEST", "2", PutWhen::Unchanged(&first)) else {
            panic!("it was unchanged")
        };
        assert_eq!(put("0000000001/NEWEST", "3", PutWhen::Unchanged(&first)), PutAnswer::Otherwise);
        let read = place.read("0000000001/NEWEST").unwrap().unwrap();
        assert_eq!((&read.bytes[..], &read.tag), (&b"2"[..], &second));
        assert_eq!(put("0000000002/NEWEST", "3", PutWhen::Unchanged(&first)), PutAnswer::Otherwise);
        assert!(place.read("0000000001/MANIFEST").unwrap().is_none());
        place.put_chunk("0000000001/chunks", "a", &Bytes::from_static(b"abc")).unwrap();
        let list = |folder: &str| {
            let listed = place.list(folder).unwrap();
            listed.into_iter().map(|file| (file.name, file.bytes)).collect::<Vec<_>>()
        };
        let file = |name: &str, bytes| (name.to_owned(), Some(bytes));
        let folder = |name: &str| (name.to_owned(), None);
        assert_eq!(list(""), [folder("0000000001"), file(CONDITIONS, 4)]);
        assert_eq!(list("0000000001"), [file("NEWEST", 1), folder("chunks")]);
        assert_eq!(list("0000000001/chunks"), [file("a", 3)]);
        assert_eq!(list("nowhere"), []);
        let part = place.read_part("0000000001/chunks/a", 1, 2).unwrap().unwrap();
        assert_eq!((&part.bytes[..], part.length), (&b"b"[..], 3));
        assert!(!place.is_claimed("0000000002", "OWNER").unwrap());
        let claim = |bytes: &'static [u8]| place.claim("0000000002", "OWNER", &Bytes::from_static(bytes)).unwrap();
        assert!(matches!(claim(b"me"), PutAnswer::Done(_)));
        assert_eq!(claim(b"you"), PutAnswer::Otherwise);
        assert!(place.is_claimed("0000000002", "OWNER").unwrap());
        place.remove("0000000001/chunks/a").unwrap();
        place.remove("0000000001/chunks/a").unwrap();
        assert_eq!(list("0000000001/chunks"), []);
        place.prepare().unwrap();
    }
    let place = memory("p");
    assert_eq!((place.shown("a"), place.shown("")), ("s3://bucket/p/a".to_owned(), "s3://bucket/p".to_owned()));
    assert_eq!(memory("").shown("a"), "s3://bucket/a");
    assert_eq!(format!("{place:?}"), "S3Place(s3://bucket/p)");
    assert!(matches!(place.put("letter", &Bytes::new(), PutWhen::Always).unwrap(), PutAnswer::Done(_)));
    assert!(place.prepare().unwrap_err().to_string().contains("contains objects that are not part of an archive"));
}

#[test]
fn error_messages_contain_code_and_message_but_no_secret() {
    let error = |text: &str| Error::Generic { store: "S3", source: text.to_owned().into() };
    let body = "Server returned non-2xx status code: 400: <?xml?><Error><Code>ExpiredToken</Code><Message>It has \
                expired.</Message><Token>tok</Token></Error>";
    let text = describe(&error(body));
    assert!(text.ends_with("AWS_SESSION_TOKEN: ExpiredToken, It has expired."), "{text}");
    assert!(
        !is_unknown(&error(body))
            && is_unknown(&error("timed out"))
            && is_unknown(&error("<Code>InternalError</Code>"))
    );
    assert_eq!(describe(&error("broken: <?xml?><Other>tok</Other>")), "Generic S3 error: broken");
    let secrets = ["s3cr3t".to_owned(), String::new()];
    assert_eq!(without_secrets("a s3cr3t b", secrets.into_iter()), "a … b");
}
