//! A connection's qlog, as `quinn-proto` writes it (feature `qlog`): JSON text sequences of the schema 0.3,
//! which qvis reads. Window and pacing rate in it are the law's, not the gate's.

use std::fmt;
use std::io::Write;
use std::time::Instant;

use quinn_proto::{QlogConfig, QlogStream};

/// Where one connection's events go.
#[derive(Clone)]
pub struct Qlog(QlogStream);

impl Qlog {
    /// A log under this title; its times count from `start`. `None` if nothing can be written.
    pub fn new(writer: Box<dyn Write + Send + Sync>, title: String, start: Instant) -> Option<Self> {
        let mut config = QlogConfig::default();
        config.writer(writer).title(Some(title)).start_time(start);
        config.into_stream().map(Self)
    }

    pub(super) fn stream(&self) -> QlogStream {
        self.0.clone()
    }
}

impl fmt::Debug for Qlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Qlog")
    }
}
