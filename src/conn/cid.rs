//! Connection ids: the shard's number, then random bytes.

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

/// Makes the connection ids of one shard. The first byte names the shard, so that a datagram which
/// another socket of the group receives can be passed on; it is the same for all of a shard's
/// connections and so tells an observer nothing about any of them (RFC 9000 §5.1).
pub(super) struct ShardCids {
    shard: u8,
    rng: StdRng,
}

impl ShardCids {
    /// Ids of shard number `shard`, drawn from `seed`.
    pub fn new(shard: u8, seed: [u8; 32]) -> Self {
        Self { shard, rng: StdRng::from_seed(seed) }
    }
}

impl ConnectionIdGenerator for ShardCids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; CID_LEN];
        self.rng.fill_bytes(&mut id);
        id[0] = self.shard;
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        if id.first() == Some(&self.shard) { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        CID_LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// 56 random bits: guessing one of a million live ids takes 7·10¹⁰ tries.
pub(super) const CID_LEN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_their_shard_and_differ() {
        let mut cids = ShardCids::new(3, [1; 32]);
        let (a, b) = (cids.generate_cid(), cids.generate_cid());
        assert_ne!(a, b);
        assert!(a[0] == 3 && cids.validate(&a).is_ok());
        assert!(ShardCids::new(4, [1; 32]).validate(&a).is_err());
    }
}
