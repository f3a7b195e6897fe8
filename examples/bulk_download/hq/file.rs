//! One download, into its file.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, anyhow};
use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};
use warprate::units::Bytes;
use warprate::{ReadError, RecvStream};

use super::get::Session;
use super::options::Url;
use super::request::request;

#[derive(Debug, Clone)]
pub struct Download {
    pub url: Url,
    pub file: PathBuf,
}

impl Download {
    /// Asks for the file and writes it as it comes; a line that says so. The error names the URL.
    pub async fn fetch(&self, session: &Session) -> anyhow::Result<String> {
        let begun = Instant::now();
        let bytes = self.transfer(session).await.with_context(|| self.url.to_string())?;
        let time = begun.elapsed();
        Ok(format!("{}: {bytes} in {time:.3?}, {}", self.file.display(), bytes / time))
    }

    async fn transfer(&self, session: &Session) -> anyhow::Result<Bytes> {
        let (mut send, mut receive) = session.open_bi().await?;
        send.write_all(request(&self.url.path).as_bytes()).await?;
        send.finish()?;
        // What is refused shall leave no file behind.
        let mut next = read(&mut receive).await.map_err(|error| explained(&error))?;
        let writing = || format!("cannot write {}", self.file.display());
        let mut file = BufWriter::with_capacity(WRITE, File::create(&self.file).await.with_context(writing)?);
        let mut bytes = Bytes::ZERO;
        while let Some(chunk) = next {
            file.write_all(&chunk).await.with_context(writing)?;
            let more = Bytes::of_len(chunk.len());
            bytes += more;
            session.on_received(more)?;
            next = read(&mut receive).await.map_err(|error| {
                explained(&error).context(format!("only the first {bytes} are in {}", self.file.display()))
            })?;
        }
        file.flush().await.with_context(writing)?;
        Ok(bytes)
    }
}

async fn read(receive: &mut RecvStream) -> Result<Option<bytes::Bytes>, ReadError> {
    Ok(receive.read_chunk(usize::MAX, true).await?.map(|chunk| chunk.bytes))
}

fn explained(error: &ReadError) -> anyhow::Error {
    match error {
        ReadError::Reset(code) => anyhow!("refused by the server: it reset the stream with code {code}"),
        ReadError::ConnectionLost(reason) => anyhow!("connection lost: {reason}"),
        other => anyhow!("{other}"),
    }
}

/// Datagrams are small for a disk.
const WRITE: usize = 256 * 1024;
