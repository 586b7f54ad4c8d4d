//! A minimal log: data that arrives during a sync is written and synced together afterwards.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::watch;

/// Size of the file. It is filled with zeros in advance, so that a sync need not update its length. When the end is
/// reached, writing continues at the beginning.
const FILE_BYTES: u64 = 64 << 20;

struct Batch {
    bytes: Vec<u8>,
    number: u64,
}

/// A log with many appending tasks and one writing thread.
pub(super) struct Log {
    open: Mutex<Batch>,
    comes: Condvar,
    /// Number of the newest durable batch.
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

    /// Returns when the bytes are durable.
    pub(super) async fn append(&self, bytes: &[u8]) {
        let number = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.bytes.extend_from_slice(bytes);
            open.number
        };
        self.comes.notify_one();
        let mut durable = self.durable.subscribe();
        // The wait cannot fail, because the log exists as long as the server.
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
