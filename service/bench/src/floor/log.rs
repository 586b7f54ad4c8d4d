//! A log as plain as one can be: what comes while it syncs goes with the next write and the next sync.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::watch;

/// So much of a file is filled with zeros before it is used, so that a sync has no length to write down; then it begins from the front.
const FILE_BYTES: u64 = 64 << 20;

struct Batch {
    bytes: Vec<u8>,
    number: u64,
}

/// Appends from everywhere, one thread that writes.
pub(super) struct Log {
    open: Mutex<Batch>,
    comes: Condvar,
    /// The newest batch that is on the disk.
    durable: watch::Sender<u64>,
}

impl Log {
    pub(super) fn open(directory: &Path) -> io::Result<Arc<Self>> {
        let file = File::create(directory.join("log"))?;
        file.write_all_at(&vec![0; usize::try_from(FILE_BYTES).unwrap_or_default()], 0)?;
        file.sync_all()?;
        let open = Mutex::new(Batch { bytes: Vec::new(), number: 1 });
        let log = Arc::new(Self { open, comes: Condvar::new(), durable: watch::Sender::new(0) });
        let writer = Arc::clone(&log);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.write(&file))?;
        Ok(log)
    }

    /// Returns when the bytes are on the disk.
    pub(super) async fn append(&self, bytes: &[u8]) {
        let number = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.bytes.extend_from_slice(bytes);
            open.number
        };
        self.comes.notify_one();
        let mut durable = self.durable.subscribe();
        // The log is there as long as the server.
        drop(durable.wait_for(|newest| *newest >= number).await);
    }

    fn write(&self, file: &File) {
        let (mut bytes, mut at) = (Vec::new(), 0);
        loop {
            let number = {
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                while open.bytes.is_empty() {
                    open = self.comes.wait(open).unwrap_or_else(PoisonError::into_inner);
                }
                std::mem::swap(&mut open.bytes, &mut bytes);
                open.number += 1;
                open.number - 1
            };
            if at + bytes.len() as u64 > FILE_BYTES {
                at = 0;
            }
            if let Err(error) = file.write_all_at(&bytes, at).and_then(|()| file.sync_data()) {
                eprintln!("baton-bench: the floor's log: {error}");
                std::process::exit(1);
            }
            at += bytes.len() as u64;
            bytes.clear();
            self.durable.send_replace(number);
        }
    }
}
