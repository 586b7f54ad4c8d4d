use super::*;

fn run(domain: &str) -> RunOf {
    (HeadKey::new(domain, "w"), Uuid::nil())
}

fn new(chunks: usize, bytes: usize) -> NewOutput {
    let chunk = Payload::of(&"x".repeat(bytes - 2)).unwrap();
    let (activity_id, at) = ("a".to_owned(), Timestamp::from_millis(1));
    NewOutput { activity_id, attempt: 1, sequence: None, chunks: vec![chunk; chunks], at }
}

impl OutputMemory {
    fn add(&mut self, of: (&str, EventId), chunks: usize, bytes: usize) -> Result<u64, NotAppended> {
        let appended = self.append(&run(of.0), of.1, new(chunks, bytes), 7, Instant::now());
        self.check();
        appended.map(|appended| appended.next)
    }

    fn finish(&mut self, of: (&str, EventId), now: Instant) {
        self.end(&run(of.0), of.1, OutputEnd::default(), now);
    }

    fn first(&self, of: (&str, EventId)) -> Option<u64> {
        self.page(&run(of.0), of.1, "a", 0).map(|page| page.first)
    }

    /// Checks the sums, and that they do not exceed the bounds.
    fn check(&self) {
        let mut sums: HashMap<Arc<str>, usize> = HashMap::new();
        for (run, streams) in &self.runs {
            for stream in streams.values() {
                let chunks = stream.chunks.iter().map(|chunk| size(&chunk.data)).sum::<usize>();
                assert_eq!(stream.bytes, STREAM_BYTES + stream.activity_id.len() + chunks);
                assert!(stream.bytes <= OUTPUT_ACTIVITY_BYTES_MAX);
                *sums.entry(Arc::clone(&run.0.domain)).or_default() += stream.bytes;
            }
        }
        assert_eq!(sums.values().sum::<usize>(), self.bytes);
        assert!(self.bytes <= self.bytes_max);
        let by_domain: HashMap<_, _> = self.domains.iter().map(|(domain, it)| (Arc::clone(domain), it.bytes)).collect();
        assert_eq!(sums, by_domain);
        assert!(sums.values().all(|bytes| *bytes <= self.bytes_max / DOMAIN_PART));
    }
}

#[test]
fn a_full_node_drops_the_output_that_ended_first_in_any_domain() {
    let mut memory = OutputMemory::new(40_000);
    let now = Instant::now();
    for (number, domain) in ["d", "e", "f"].into_iter().enumerate() {
        memory.add((domain, 5), 1, 10_000).unwrap();
        if domain != "f" {
            memory.finish((domain, 5), now + Duration::from_secs(10 - number as u64));
        }
    }
    assert_eq!((memory.add(("g", 5), 1, 10_000), memory.dropped()), (Ok(1), 1));
    let is_kept = ["d", "e", "f", "g"].map(|domain| memory.first((domain, 5)).is_some());
    assert_eq!(is_kept, [true, false, true, true]);
    assert_eq!((memory.add(("h", 5), 1, 10_000), memory.first(("d", 5))), (Ok(1), None));
    assert_eq!(memory.add(("i", 5), 1, 10_000), Err(NotAppended::Full), "only running activities have output");
    assert_eq!(memory.add(("h", 5), 1, 10_000), Ok(2));
    assert_eq!((memory.first(("h", 5)), memory.first(("f", 5))), (Some(1), Some(0)));
}

#[test]
fn a_request_larger_than_the_bound_keeps_its_newest_chunks() {
    let mut memory = OutputMemory::new(8 * OUTPUT_ACTIVITY_BYTES_MAX);
    assert_eq!(memory.add(("d", 5), 40, 60_000), Ok(40));
    assert_eq!((memory.first(("d", 5)), memory.dropped()), (Some(23), 23));
}

#[test]
fn activities_without_chunks_also_take_room() {
    let mut memory = OutputMemory::new(2 * 3 * (STREAM_BYTES + 1));
    for id in 1..=3 {
        assert_eq!(memory.add(("d", id), 0, 2), Ok(0));
    }
    assert_eq!(memory.add(("d", 4), 0, 2), Err(NotAppended::Full));
    assert_eq!(memory.streams(), 3);
    memory.finish(("d", 1), Instant::now());
    assert_eq!((memory.add(("d", 4), 0, 2), memory.streams()), (Ok(0), 3));
}

#[test]
fn ended_output_is_removed_after_an_hour() {
    let mut memory = OutputMemory::new(1 << 20);
    let now = Instant::now();
    for id in 1..=3 {
        memory.add(("d", id), 1, 100).unwrap();
    }
    memory.finish(("d", 1), now);
    memory.finish(("d", 2), now + Duration::from_secs(1));
    assert_eq!(memory.append(&run("d"), 1, new(1, 100), 7, now), Err(NotAppended::Ended));
    for (after, kept) in [(Duration::from_millis(3_599_999), 3), (KEPT_FOR, 2), (KEPT_FOR + Duration::from_secs(1), 1)]
    {
        memory.expire(now + after);
        memory.check();
        assert_eq!(memory.streams(), kept);
    }
    assert_eq!(memory.dropped(), 0);
}

#[test]
fn open_streams_are_checked_once_a_minute() {
    let mut memory = OutputMemory::new(1 << 20);
    memory.add(("d", 1), 1, 100).unwrap();
    let now = Instant::now();
    assert!(memory.take_unchecked(now).is_empty());
    assert_eq!(memory.take_unchecked(now + CHECK_EVERY), [(run("d"), 1)]);
    assert!(memory.take_unchecked(now + CHECK_EVERY).is_empty());
    memory.finish(("d", 1), now);
    assert!(memory.take_unchecked(now + 2 * CHECK_EVERY).is_empty());
}

#[test]
fn a_page_has_at_most_256_kib_and_continues() {
    let mut memory = OutputMemory::new(8 * OUTPUT_ACTIVITY_BYTES_MAX);
    memory.add(("d", 5), 12, 60_000).unwrap();
    memory.finish(("d", 5), Instant::now());
    let (mut from, mut sizes) = (0, Vec::new());
    loop {
        let page = memory.page(&run("d"), 5, "a", from).unwrap();
        sizes.push(page.chunks.len());
        from = page.next;
        if page.end.is_some() {
            break;
        }
    }
    assert_eq!((sizes, from), (vec![4, 4, 4], 12));
}
