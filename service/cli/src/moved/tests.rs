use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// Returns a file with two runs.
fn file() -> String {
    let mut file = FileWriter::begin(Vec::new(), "orders", Timestamp::from_millis(0)).unwrap();
    for run in ["a", "b"] {
        file.run(&raw(&format!(r#"{{"workflowId":"{run}"}}"#))).unwrap();
        for id in 1..=2 {
            file.event(&raw(&format!(r#"{{"id":{id},"type":"Signal","input":{{"n": 1.50}}}}"#))).unwrap();
        }
    }
    file.counts.open = 3;
    String::from_utf8(file.end().unwrap().0).unwrap()
}

fn read(text: &str) -> Result<(FirstLine, Vec<FileRun>), BadFile> {
    let (mut reader, first) = FileReader::begin(text.as_bytes())?;
    let mut runs = Vec::new();
    while let Some(run) = reader.next_run()? {
        runs.push(run);
    }
    assert!(reader.next_run()?.is_none(), "the end stays one");
    Ok((first, runs))
}

fn refused(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read_byte_for_byte() {
    let text = file();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], r#"{"baton":"runs","format":2,"domain":"orders","exportedAt":"1970-01-01T00:00:00.000Z"}"#);
    assert_eq!(lines[1], r#"{"run":{"workflowId":"a"}}"#);
    assert!(lines[7].starts_with(r#"{"end":{"runs":2,"events":4,"open":3,"sha256":""#), "{}", lines[7]);
    let (first, runs) = read(&text).unwrap();
    assert_eq!((first.domain.as_str(), runs.len()), ("orders", 2));
    assert_eq!(runs.iter().map(|run| run.line).collect::<Vec<_>>(), [2, 5]);
    for run in &runs {
        let events: Vec<_> = run.events.iter().map(|event| event.get()).collect();
        assert_eq!(events, &lines[2..4]);
    }
    let empty = FileWriter::begin(Vec::new(), "d", Timestamp::from_millis(0)).unwrap().end().unwrap().0;
    assert_eq!(read(std::str::from_utf8(&empty).unwrap()).unwrap().1.len(), 0);
}

#[test]
fn events_with_line_breaks_are_read_byte_for_byte() {
    let events = [
        "{\"id\":1,\"input\":{\n\t\"a\" :\r\n [1.0, -0, 9007199254740993 , 1e2]\r}}",
        r#"{"id":2,"input":{"a":1,"a":2,"text":"x","s":"\ud800 \n \u00e9 é \/"}}"#,
        "{\"id\":3,\"input\":[\n\"\\ud800\\n\u{e9}\\\\\",\n\"\u{2028}\u{85}\"]}",
        "{\"id\":4,\"input\":\r1}",
        r#"{"id":5,"input":"{\"text\":1}"}"#,
    ];
    let mut file = FileWriter::begin(Vec::new(), "orders", Timestamp::from_millis(0)).unwrap();
    file.run(&raw("{\"workflowId\":\"a\",\n\r\"tags\":[]}")).unwrap();
    for event in events {
        file.event(&raw(event)).unwrap();
    }
    let text = String::from_utf8(file.end().unwrap().0).unwrap();
    assert_eq!(text.lines().count(), 3 + events.len(), "one record a line: {text}");
    assert!(!text.contains('\r'));
    assert!(text.lines().all(|line| serde_json::from_str::<&RawValue>(line).is_ok()), "{text}");
    let (_, runs) = read(&text).unwrap();
    assert_eq!(runs[0].events.iter().map(|event| event.get()).collect::<Vec<_>>(), events);
    // An event without line breaks is written unchanged.
    assert_eq!(text.lines().nth(3), Some(events[1]));
    let odd = text.replacen(r#"{"text":""#, r#"{"text":1,"x":""#, 1);
    assert!(refused(&odd).contains("line 3 is invalid"), "{}", refused(&odd));
}

#[test]
fn a_file_of_the_format_before_is_read() {
    let old = |digest: &str| {
        [
            r#"{"baton":"runs","format":1,"domain":"orders","exportedAt":"1970-01-01T00:00:00.000Z"}"#,
            r#"{"run":{"workflowId":"a"}}"#,
            r#"{"id":1,"type":"Signal","input":{"n": 1.50}}"#,
            &format!(r#"{{"end":{{"runs":1,"events":1,"open":0,"sha256":"{digest}"}}}}"#),
            "",
        ]
        .join("\n")
    };
    let lines = old("");
    let (above, _) = lines.split_once(r#"{"end""#).unwrap();
    let (_, runs) = read(&old(&hex(&Sha256::digest(above.as_bytes())))).unwrap();
    assert_eq!(runs[0].events[0].get(), r#"{"id":1,"type":"Signal","input":{"n": 1.50}}"#);
}

#[test]
fn a_file_that_is_cut_short_at_any_byte_is_found() {
    let text = file();
    for length in 0..text.len() {
        assert!(read(&text[..length]).is_err(), "{length}");
    }
    let (above, _) = text.trim_end().rsplit_once('\n').unwrap();
    assert!(refused(&format!("{above}\n")).contains("truncated"));
    assert!(refused(&format!("{text}{{}}\n")).contains("line 9"));
}

#[test]
fn a_file_in_which_any_byte_is_changed_is_found() {
    let text = file().into_bytes();
    for at in 0..text.len() {
        let mut changed = text.clone();
        changed[at] ^= 1;
        let is_read = FileReader::begin(changed.as_slice()).and_then(|(mut reader, _)| {
            while reader.next_run()?.is_some() {}
            Ok(reader.counts().clone())
        });
        // The digest does not cover the number of open runs that were not exported.
        let open = String::from_utf8(text.clone()).unwrap().find(r#""open":3"#).unwrap() + 7;
        assert!(is_read.is_err() || at == open, "byte {at}: {}", String::from_utf8_lossy(&changed));
    }
    assert!(refused(&file().replacen("1.50", "1.51", 1)).contains("the file was changed"));
}

#[test]
fn what_is_no_such_file_or_a_newer_one_is_refused() {
    for text in ["", "{}\n", "hello\n", "[1]\n", r#"{"baton":"other","format":1}"#, "\n\n", &"x".repeat(9_000_000)] {
        assert!(refused(text).contains("not a file of `baton export`"), "{}", text.get(..9).unwrap_or(text));
    }
    let newer = file().replacen(r#""format":2"#, r#""format":3"#, 1);
    assert!(refused(&newer).contains("the file has format 3, but this program reads only formats up to 2"));
    let (first, rest) = (file(), r#"{"id":1}"#);
    let (first, _) = first.split_once('\n').unwrap();
    assert!(refused(&format!("{first}\n{rest}\n")).contains("an event before the first run"));
    assert!(refused(&format!("{first}\n{{\"run\":{{}}}}\nnone\n")).contains("line 3 is invalid"));
}

#[test]
fn a_line_and_a_run_have_their_bounds() {
    let with = |events: &[usize]| {
        let mut file = FileWriter::begin(Vec::new(), "d", Timestamp::from_millis(0)).unwrap();
        file.run(&raw("{}")).unwrap();
        for length in events {
            file.event(&raw(&format!("\"{}\"", "x".repeat(length - 2)))).unwrap();
        }
        read(std::str::from_utf8(&file.end().unwrap().0).unwrap()).map(|(_, runs)| runs.len())
    };
    assert_eq!(with(&[LINE_BYTES_MAX]).unwrap(), 1);
    assert!(matches!(with(&[LINE_BYTES_MAX + 1]), Err(BadFile::LongLine { line: 3 })));
    let (all, each) = (IMPORTED_BYTES_MAX - AROUND, LINE_BYTES_MAX);
    let mut events = vec![each; all / (each + 1)];
    events.push(all - events.len() * (each + 1) - 1);
    assert_eq!(with(&events).unwrap(), 1);
    *events.last_mut().unwrap() += 1;
    assert!(matches!(with(&events), Err(BadFile::LargeRun { line: 2 })));
}
