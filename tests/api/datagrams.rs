//! Datagrams of the application.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use warprate::units::{Bytes as Size, Rate};
use warprate::{ConnectionError, Law, SendDatagramError, TransportConfig};

use crate::{PATIENCE, Pair, code, configs, fixed};

#[tokio::test]
async fn datagrams_come_as_they_were_sent() {
    let pair = Pair::new().await;
    for message in [&b"one"[..], b"", b"three"] {
        pair.connection.send_datagram(Bytes::copy_from_slice(message)).unwrap();
        assert_eq!(pair.serving.read_datagram().await.unwrap(), message);
        pair.serving.send_datagram_wait(Bytes::copy_from_slice(message)).await.unwrap();
        assert_eq!(pair.connection.read_datagram().await.unwrap(), message);
    }
    let longest = pair.connection.max_datagram_size().unwrap();
    assert!(longest > 1_100, "{longest} bytes");
    let data = Bytes::from(vec![7; longest]);
    pair.connection.send_datagram(data.clone()).unwrap();
    assert_eq!(pair.serving.read_datagram().await.unwrap(), data);
    let too_long = pair.connection.send_datagram(vec![7; 70_000].into());
    assert_eq!(too_long, Err(SendDatagramError::TooLarge));
}

#[tokio::test]
async fn whoever_waits_for_room_or_for_a_datagram_is_told_of_both_and_of_the_end() {
    let (mut server, mut client) = configs(&fixed());
    let mut transport = TransportConfig::default();
    transport.datagram_send_buffer_size(Size::kb(5));
    client.transport_config(Arc::new(transport)).law(Law::fixed(Rate::mbps(2), Size::mb(1)));
    server.law(fixed());
    let pair = Pair::with(server, client).await;
    assert!((4_000..5_000).contains(&pair.connection.datagram_send_buffer_space()));
    let connection = pair.connection.clone();
    let sending = tokio::spawn(async move {
        for i in 0..50u8 {
            connection.send_datagram_wait(vec![i; 1_000].into()).await.unwrap();
        }
    });
    // Two tasks share what comes.
    let count = Arc::new(AtomicUsize::new(0));
    let reading = || {
        let (serving, count) = (pair.serving.clone(), count.clone());
        tokio::spawn(async move {
            while serving.read_datagram().await.is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let (first, second) = (reading(), reading());
    timeout(PATIENCE, sending).await.unwrap().unwrap();
    timeout(PATIENCE, async {
        while count.load(Ordering::Relaxed) < 50 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("all arrive");
    pair.serving.close(code(0), b"");
    let (first, second) = timeout(PATIENCE, async { tokio::join!(first, second) }).await.unwrap();
    assert!(first.is_ok() && second.is_ok());
    pair.connection.closed().await;
    let error = pair.connection.send_datagram(Bytes::new()).unwrap_err();
    assert!(matches!(error, SendDatagramError::ConnectionLost(ConnectionError::ApplicationClosed(_))));
    assert!(pair.connection.send_datagram_wait(Bytes::new()).await.is_err());
}

#[tokio::test]
async fn an_end_without_a_buffer_takes_no_datagrams_and_sends_none() {
    let (mut server, client) = configs(&fixed());
    let mut transport = TransportConfig::default();
    transport.datagram_receive_buffer_size(None);
    server.transport_config(Arc::new(transport));
    let pair = Pair::with(server, client).await;
    assert_eq!(pair.connection.max_datagram_size(), None);
    assert_eq!(pair.connection.send_datagram(Bytes::new()), Err(SendDatagramError::UnsupportedByPeer));
    assert_eq!(pair.serving.send_datagram(Bytes::new()), Err(SendDatagramError::Disabled));
}
