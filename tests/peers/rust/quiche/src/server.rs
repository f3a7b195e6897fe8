use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use peer_line::Serve;
use quiche::{ConnectionId, Header, RecvInfo, Type};
use tokio::net::UdpSocket;

use crate::{CID, DATAGRAM, config, flush, new_cid, offer_cids, receive, sleep};

struct Session {
    connection: quiche::Connection,
    requests: HashMap<u64, Vec<u8>>,
    /// What of each file has not been taken yet.
    answers: HashMap<u64, Vec<u8>>,
}

struct Server {
    options: Serve,
    socket: UdpSocket,
    local: SocketAddr,
    config: quiche::Config,
    sessions: Vec<Session>,
    /// Which session a connection id belongs to.
    cids: HashMap<ConnectionId<'static>, usize>,
}

pub async fn serve(options: Serve) -> Result<()> {
    let mut config = config()?;
    config.load_cert_chain_from_pem_file(&options.cert.to_string_lossy())?;
    config.load_priv_key_from_pem_file(&options.key.to_string_lossy())?;
    config.enable_early_data();
    let socket = UdpSocket::bind(options.listen).await?;
    let local = socket.local_addr()?;
    options.announce(local);
    let mut server = Server { options, socket, local, config, sessions: Vec::new(), cids: HashMap::new() };
    let mut buffer = vec![0; 65535];
    loop {
        tokio::select! {
            received = receive(&server.socket, &mut buffer) => {
                let (length, from) = received?;
                server.on_datagram(&mut buffer[..length], from).await?;
            }
            () = sleep(server.timeout()) => {
                for session in &mut server.sessions {
                    if session.connection.timeout() == Some(Duration::ZERO) {
                        session.connection.on_timeout();
                    }
                }
            }
        }
        server.work().await?;
    }
}

impl Server {
    fn timeout(&self) -> Option<Duration> {
        self.sessions.iter().filter_map(|session| session.connection.timeout()).min()
    }

    async fn on_datagram(&mut self, datagram: &mut [u8], from: SocketAddr) -> Result<()> {
        let Ok(header) = Header::from_slice(datagram, CID) else { return Ok(()) };
        let session = match self.cids.get(&header.dcid) {
            Some(session) => *session,
            None => match self.begin(&header, from).await? {
                Some(session) => session,
                None => return Ok(()),
            },
        };
        let info = RecvInfo { from, to: self.local };
        if let Err(error) = self.sessions[session].connection.recv(datagram, info) {
            eprintln!("{error}");
        }
        Ok(())
    }

    async fn begin(&mut self, header: &Header<'_>, from: SocketAddr) -> Result<Option<usize>> {
        if header.ty != Type::Initial {
            return Ok(None);
        }
        let token = header.token.as_deref().unwrap_or_default();
        if self.options.retry && token.is_empty() {
            // Good enough between friends: the token is the first connection id.
            let mut buffer = [0; DATAGRAM];
            let (first, version) = (header.dcid.to_vec(), header.version);
            let length = quiche::retry(&header.scid, &header.dcid, &new_cid(), &first, version, &mut buffer)?;
            self.socket.send_to(&buffer[..length], from).await?;
            return Ok(None);
        }
        let first = self.options.retry.then(|| ConnectionId::from_ref(token));
        let own = if self.options.retry { header.dcid.clone().into_owned() } else { new_cid() };
        let connection = quiche::accept(&own, first.as_ref(), self.local, from, &mut self.config)?;
        let session = self.sessions.len();
        self.sessions.push(Session { connection, requests: HashMap::new(), answers: HashMap::new() });
        self.cids.insert(own, session);
        // Until it hears of ours, the client uses its own choice.
        self.cids.insert(header.dcid.clone().into_owned(), session);
        Ok(Some(session))
    }

    async fn work(&mut self) -> Result<()> {
        for (number, session) in self.sessions.iter_mut().enumerate() {
            for cid in offer_cids(&mut session.connection) {
                self.cids.insert(cid, number);
            }
            session.read(&self.options);
            session.write();
            flush(&mut session.connection, &[&self.socket]).await?;
        }
        Ok(())
    }
}

impl Session {
    fn read(&mut self, options: &Serve) {
        let mut buffer = [0; 4096];
        for stream in self.connection.readable() {
            while let Ok((length, is_end)) = self.connection.stream_recv(stream, &mut buffer) {
                let request = self.requests.entry(stream).or_default();
                request.extend_from_slice(&buffer[..length]);
                if is_end {
                    let file = options.file(request).and_then(|file| std::fs::read(file).ok());
                    self.answers.insert(stream, file.unwrap_or_default());
                    self.requests.remove(&stream);
                }
            }
        }
    }

    fn write(&mut self) {
        let connection = &mut self.connection;
        self.answers.retain(|stream, rest| {
            let taken = match connection.stream_send(*stream, rest, true) {
                Ok(taken) => taken,
                Err(quiche::Error::Done) => 0,
                Err(_) => return false,
            };
            let is_done = taken == rest.len();
            rest.drain(..taken);
            !is_done
        });
    }
}
