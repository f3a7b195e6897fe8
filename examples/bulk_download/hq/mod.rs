//! Files from one program to another over hq-interop, HTTP/0.9 over QUIC: the language of QUIC's interoperability
//! tests.
//!
//! | module    | what it is for |
//! |-----------|----------------|
//! | `options` | the command lines |
//! | `request` | the request, and why it may be refused |
//! | `root`    | the directory that is served |
//! | `trust`   | certificates, and who is believed |
//! | `serve`   | the server |
//! | `get`     | the client: connections, resumed or moved |
//! | `file`    | one download, into its file |

mod file;
mod get;
mod options;
mod request;
mod root;
mod serve;
mod trust;

use anyhow::Context;
pub use options::Command;
use tokio::runtime::Builder;

/// Runs until the files have arrived, or for ever.
pub fn run(command: Command) -> anyhow::Result<()> {
    let mut runtime = match command {
        Command::Serve(_) => Builder::new_multi_thread(),
        // So that early requests are there when the first datagram is made, however fast the server answers.
        Command::Get(_) => Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build().context("cannot start a tokio runtime")?;
    match command {
        Command::Serve(options) => runtime.block_on(serve::serve(&options)),
        Command::Get(options) => runtime.block_on(get::get(options)),
    }
}
