//! What carries an interface's packets in the end, and which queue they wait in: a pure function of the
//! table of links.

use netlink_packet_route::link::InfoKind;

use crate::units::Rate;

/// A row of the table of links.
#[derive(Debug, Clone)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// What kind of virtual interface it is; hardware has none.
    pub kind: Option<InfoKind>,
    /// The interface below it, or a `veth`'s other end, if that is in this network namespace.
    pub lower: Option<u32>,
    /// The bond or bridge that it is a port of.
    pub master: Option<u32>,
    /// It carries packets at present.
    pub is_running: bool,
}

/// What was found at the bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carrier {
    pub name: String,
    /// As Ethernet counts it.
    pub rate: Rate,
}

/// The hardware that carries the packets of the link `index`, if it and its speed can be seen from here.
///
/// A VLAN leads to what it lies on; a bond or bridge to its fastest running port, since one connection
/// leaves by one port; a `veth` through its other end to the ports of the bridge there.
pub fn carrier(links: &[Link], speed: &dyn Fn(&str) -> Option<Rate>, index: u32) -> Option<Carrier> {
    follow(links, speed, index, &mut Vec::new())
}

fn follow(
    links: &[Link],
    speed: &dyn Fn(&str) -> Option<Rate>,
    index: u32,
    seen: &mut Vec<u32>,
) -> Option<Carrier> {
    if seen.contains(&index) {
        return None;
    }
    seen.push(index);
    let link = find(links, index)?;
    match link.kind {
        None | Some(InfoKind::Dsa) => Some(Carrier { name: link.name.clone(), rate: speed(&link.name)? }),
        Some(InfoKind::Bond | InfoKind::Team | InfoKind::Bridge) => links
            .iter()
            .filter(|port| port.master == Some(index) && port.is_running)
            .filter_map(|port| follow(links, speed, port.index, seen))
            .max_by_key(|carrier| carrier.rate),
        Some(InfoKind::Veth) => {
            let peer = link.lower?;
            seen.push(peer);
            follow(links, speed, find(links, peer)?.master?, seen)
        }
        _ if lies_on_another(link) => follow(links, speed, link.lower?, seen),
        // Tunnels and the like: what they cost depends on routes and ciphers.
        _ => None,
    }
}

/// The links whose queue a packet may wait in, top down: a VLAN has none of its own by default, and its
/// packets take their release times along to the one below.
pub fn queues(links: &[Link], index: u32) -> Vec<u32> {
    let mut queues = vec![index];
    let mut top = find(links, index);
    while let Some(below) = top.filter(|link| lies_on_another(link)).and_then(|link| link.lower) {
        if queues.contains(&below) {
            break;
        }
        queues.push(below);
        top = find(links, below);
    }
    queues
}

fn find(links: &[Link], index: u32) -> Option<&Link> {
    links.iter().find(|link| link.index == index)
}

fn lies_on_another(link: &Link) -> bool {
    use InfoKind::{IpVlan, IpVtap, MacVlan, MacVtap, Vlan};
    matches!(link.kind, Some(Vlan | MacVlan | MacVtap | IpVlan | IpVtap))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, kind: Option<InfoKind>) -> Link {
        Link { index, name: name.into(), kind, lower: None, master: None, is_running: true }
    }

    /// `eth1` has 1 Gbit/s, `eth2` 25 Gbit/s, `eth3` an unknown speed.
    fn speed(name: &str) -> Option<Rate> {
        match name {
            "eth1" => Some(Rate::gbps(1)),
            "eth2" => Some(Rate::gbps(25)),
            _ => None,
        }
    }

    fn hardware() -> Vec<Link> {
        vec![link(1, "eth1", None), link(2, "eth2", None), link(3, "eth3", None)]
    }

    fn found(links: &[Link], index: u32) -> Option<String> {
        carrier(links, &speed, index).map(|carrier| format!("{} {}", carrier.name, carrier.rate))
    }

    #[test]
    fn hardware_carries_itself() {
        assert_eq!(found(&hardware(), 1), Some(format!("eth1 {}", Rate::gbps(1))));
        assert_eq!(found(&hardware(), 3), None);
        assert_eq!(found(&hardware(), 9), None);
    }

    #[test]
    fn a_vlan_on_a_bond_is_carried_by_the_fastest_running_port() {
        let mut links = hardware();
        links[0].master = Some(10);
        links[1].master = Some(10);
        links.push(link(10, "bond0", Some(InfoKind::Bond)));
        links.push(Link { lower: Some(10), ..link(11, "bond0.7", Some(InfoKind::Vlan)) });
        assert_eq!(found(&links, 11), Some(format!("eth2 {}", Rate::gbps(25))));
        links[1].is_running = false;
        assert_eq!(found(&links, 11), Some(format!("eth1 {}", Rate::gbps(1))));
        assert_eq!(queues(&links, 11), [11, 10]);
        assert_eq!(queues(&links, 10), [10]);
    }

    #[test]
    fn a_veth_is_followed_through_the_bridge_at_its_other_end() {
        let mut links = hardware();
        links[0].master = Some(10);
        links.push(link(10, "br0", Some(InfoKind::Bridge)));
        links.push(Link { lower: Some(12), ..link(11, "veth0", Some(InfoKind::Veth)) });
        links.push(Link { lower: Some(11), master: Some(10), ..link(12, "veth1", Some(InfoKind::Veth)) });
        assert_eq!(found(&links, 11), Some(format!("eth1 {}", Rate::gbps(1))));
        let elsewhere = [Link { lower: None, ..link(11, "veth0", Some(InfoKind::Veth)) }];
        assert_eq!(found(&elsewhere, 11), None);
    }

    #[test]
    fn links_that_lie_on_each_other_end_the_search() {
        let links = [
            Link { lower: Some(2), ..link(1, "a", Some(InfoKind::Vlan)) },
            Link { lower: Some(1), ..link(2, "b", Some(InfoKind::Vlan)) },
        ];
        assert_eq!(found(&links, 1), None);
        assert_eq!(queues(&links, 1), [1, 2]);
    }

    #[test]
    fn a_tunnel_is_unknown() {
        let links = [link(1, "wg0", Some(InfoKind::Wireguard)), link(2, "tun0", Some(InfoKind::Tun))];
        assert_eq!((found(&links, 1), found(&links, 2)), (None, None));
    }
}
