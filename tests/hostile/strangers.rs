//! Datagrams of strangers: anything, or what a peer sent, cut, changed and sent again.

use std::net::Ipv4Addr;

use warprate::conn::Law;

use crate::common::pair::{Pair, ms, setup};
use crate::common::tls_made_once;

/// Whether it goes to the server, from which port (1 and 2 are the client's and the server's), and what it
/// holds: so many bytes of the datagram of this number that the peers sent, and these after them.
pub type Stranger = (bool, u8, u8, u16, Vec<u8>);

/// Strangers' datagrams arrive before, during and after a download, which is served none the less.
pub fn meet(strangers: &[Stranger]) {
    let law = setup(Law::warprate(1));
    let mut pair = Pair::connected_with(tls_made_once(), ms(5), law.clone(), law);
    pair.download(20_000);
    for (to_server, port, model, kept, rest) in strangers {
        let mut data = match pair.departures.get(usize::from(*model)) {
            Some(model) => model.data[..model.data.len().min((*kept).into())].to_vec(),
            None => vec![],
        };
        data.extend(rest);
        pair.inject(*to_server, (Ipv4Addr::LOCALHOST, (*port).into()).into(), data);
        pair.run(ms(1));
    }
    let is_done = pair.run_until(ms(60_000), |pair| pair.client.is_finished);
    assert!(is_done, "{:?} and {:?}", pair.client.lost(), pair.server.lost());
    assert_eq!(pair.client.received, 20_000);
}
