use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use peer_line::{Get, MOVES_AFTER, cannot};
use quiche::{PathEvent, RecvInfo};
use tokio::net::UdpSocket;

use crate::{config, flush, new_cid, offer_cids, receive, sleep};

pub async fn get(options: Get) -> Result<()> {
    if options.key_update {
        cannot("quiche has no call that updates the keys");
    }
    let (address, mut paths) = options.targets().context("not a URL")?;
    let mut config = config()?;
    config.load_verify_locations_from_file(&options.ca.to_string_lossy())?;
    config.verify_peer(true);
    if options.early {
        config.enable_early_data();
    }
    let mut session = None;
    if options.resume || options.early {
        session =
            Fetch::new(&options, &mut config, address, None, vec![paths.remove(0)]).await?.run().await?;
        ensure!(session.is_some(), "the server gave no ticket");
    }
    Fetch::new(&options, &mut config, address, session, paths).await?.run().await?;
    Ok(())
}

/// Downloads on a connection of their own.
struct Fetch<'a> {
    options: &'a Get,
    connection: quiche::Connection,
    socket: UdpSocket,
    /// Where the connection moves to.
    other: UdpSocket,
    server: SocketAddr,
    waiting: Vec<String>,
    /// By stream: the path, and what has arrived.
    bodies: HashMap<u64, (String, Vec<u8>)>,
    received: u64,
    has_moved: bool,
}

impl<'a> Fetch<'a> {
    async fn new(
        options: &'a Get,
        config: &mut quiche::Config,
        server: SocketAddr,
        session: Option<Vec<u8>>,
        paths: Vec<String>,
    ) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let local = socket.local_addr()?;
        let mut connection = quiche::connect(Some("localhost"), &new_cid(), local, server, config)?;
        if let Some(session) = session {
            connection.set_session(&session)?;
        }
        let (bodies, received, has_moved) = (HashMap::new(), 0, false);
        Ok(Self { options, connection, socket, other, server, waiting: paths, bodies, received, has_moved })
    }

    /// Until all has arrived; what the server lets resume.
    async fn run(mut self) -> Result<Option<Vec<u8>>> {
        let (mut buffer, mut other_buffer) = (vec![0; 65535], vec![0; 65535]);
        // The first flight goes out before the requests, so that early data has its keys.
        self.flush().await?;
        while !self.waiting.is_empty() || !self.bodies.is_empty() {
            self.work()?;
            self.flush().await?;
            tokio::select! {
                received = receive(&self.socket, &mut buffer) => {
                    let (length, from) = received?;
                    let to = self.socket.local_addr()?;
                    self.on_datagram(&mut buffer[..length], RecvInfo { from, to });
                }
                received = receive(&self.other, &mut other_buffer) => {
                    let (length, from) = received?;
                    let to = self.other.local_addr()?;
                    self.on_datagram(&mut other_buffer[..length], RecvInfo { from, to });
                }
                () = sleep(self.connection.timeout()) => self.connection.on_timeout(),
            }
            self.read()?;
            let reasons = (self.connection.local_error(), self.connection.peer_error());
            ensure!(!self.connection.is_closed(), "the connection ended: {reasons:?}");
        }
        let session = self.connection.session().map(<[u8]>::to_vec);
        self.connection.close(true, 0, b"")?;
        self.flush().await?;
        Ok(session)
    }

    async fn flush(&mut self) -> Result<()> {
        flush(&mut self.connection, &[&self.socket, &self.other]).await
    }

    fn on_datagram(&mut self, datagram: &mut [u8], info: RecvInfo) {
        if let Err(error) = self.connection.recv(datagram, info) {
            eprintln!("{error}");
        }
    }

    fn work(&mut self) -> Result<()> {
        offer_cids(&mut self.connection);
        if self.connection.is_established() || self.connection.is_in_early_data() {
            for path in self.waiting.drain(..) {
                let stream = 4 * self.bodies.len() as u64;
                self.connection.stream_send(stream, format!("GET {path}\r\n").as_bytes(), true)?;
                self.bodies.insert(stream, (path, Vec::new()));
            }
        }
        if self.options.migrate && !self.has_moved && self.received >= MOVES_AFTER {
            self.has_moved = true;
            self.connection.probe_path(self.other.local_addr()?, self.server)?;
        }
        while let Some(event) = self.connection.path_event_next() {
            if let PathEvent::Validated(local, server) = event
                && self.has_moved
            {
                self.connection.migrate(local, server)?;
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let mut buffer = [0; 65535];
        for stream in self.connection.readable() {
            let Some((_, body)) = self.bodies.get_mut(&stream) else { continue };
            let mut has_ended = false;
            loop {
                match self.connection.stream_recv(stream, &mut buffer) {
                    Ok((length, is_end)) => {
                        body.extend_from_slice(&buffer[..length]);
                        self.received += length as u64;
                        has_ended |= is_end;
                    }
                    Err(quiche::Error::Done) => break,
                    Err(error) => return Err(error.into()),
                }
                if has_ended {
                    break;
                }
            }
            if has_ended && let Some((path, body)) = self.bodies.remove(&stream) {
                fs::write(self.options.file(&path), body)?;
            }
        }
        Ok(())
    }
}
