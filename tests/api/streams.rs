//! Streams: priorities, ends, limits.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::timeout;
use warprate::units::{Bytes as Size, Rate};
use warprate::{ConnectionError, Law, RecvStream, ResetError, StoppedError, TransportConfig};

use crate::{PATIENCE, Pair, code, configs, fixed};

#[tokio::test]
async fn every_task_that_waits_for_a_streams_end_is_told() {
    let pair = Pair::new().await;
    // The three ways to end, and the connection's end.
    for way in 0..4 {
        let mut stream = pair.serving.open_uni().await.unwrap();
        stream.write_all(b"abc").await.unwrap();
        let mut incoming = pair.connection.accept_uni().await.unwrap();
        let waiting: Vec<_> = (0..5).map(|_| tokio::spawn(stream.stopped())).collect();
        tokio::task::yield_now().await;
        match way {
            0 => {
                stream.finish().unwrap();
                incoming.read_to_end(3).await.unwrap();
            }
            1 => incoming.stop(code(9)).unwrap(),
            2 => stream.reset(code(7)).unwrap(),
            _ => pair.connection.close(code(1), b""),
        }
        for task in waiting {
            let end = timeout(PATIENCE, task).await.expect("all are told").unwrap();
            match way {
                0 | 2 => assert_eq!(end, Ok(None)),
                1 => assert_eq!(end, Ok(Some(code(9)))),
                _ => assert!(matches!(
                    end,
                    Err(StoppedError::ConnectionLost(ConnectionError::ApplicationClosed(_)))
                )),
            }
        }
    }
}

#[tokio::test]
async fn the_wait_for_a_streams_end_outlives_the_stream() {
    let pair = Pair::new().await;
    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    let given_up = stream.stopped();
    let waiting = tokio::spawn(stream.stopped());
    tokio::task::yield_now().await;
    drop((stream, given_up));
    assert_eq!(pair.connection.accept_uni().await.unwrap().read_to_end(3).await.unwrap(), b"abc");
    assert_eq!(timeout(PATIENCE, waiting).await.unwrap().unwrap(), Ok(None));
}

#[tokio::test]
async fn a_reader_learns_of_a_reset_without_reading() {
    let pair = Pair::new().await;
    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    let waiting =
        tokio::spawn(async move { (incoming.received_reset().await, incoming.received_reset().await) });
    tokio::task::yield_now().await;
    stream.reset(code(7)).unwrap();
    let told = timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert_eq!(told, (Ok(Some(code(7))), Ok(Some(code(7)))));

    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    stream.finish().unwrap();
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    incoming.read_to_end(3).await.unwrap();
    assert_eq!(incoming.received_reset().await, Ok(None), "it ended well");

    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    incoming.stop(code(1)).unwrap();
    assert_eq!(incoming.received_reset().await, Ok(None), "we have stopped it");

    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    let waiting = tokio::spawn(async move { incoming.received_reset().await });
    pair.serving.close(code(1), b"");
    let told = timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(matches!(told, Err(ResetError::ConnectionLost(_))));
}

#[tokio::test]
async fn chunks_are_written_and_read_several_at_a_time() {
    let pair = Pair::new().await;
    let mut stream = pair.serving.open_uni().await.unwrap();
    let mut chunks = [Bytes::from_static(b"ab"), Bytes::from_static(b"cd"), Bytes::from_static(b"ef")];
    let written = stream.write_chunks(&mut chunks).await.unwrap();
    assert_eq!((written.chunks, written.bytes), (3, 6));
    stream.write_all_chunks(&mut [Bytes::from_static(b"gh"), Bytes::from_static(b"ij")]).await.unwrap();
    stream.finish().unwrap();
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    let mut read = Vec::new();
    let mut chunks = [Bytes::new(), Bytes::new()];
    assert_eq!(incoming.read_chunks(&mut []).await.unwrap(), Some(0));
    while let Some(count) = incoming.read_chunks(&mut chunks).await.unwrap() {
        chunks[..count].iter().for_each(|chunk| read.extend_from_slice(chunk));
    }
    assert_eq!(read, b"abcdefghij");
}

/// Two streams of 400 kB that begin together, the second of priority 1 if that is asked for: what has come of
/// the other one when the second is at its end.
async fn race(transport: TransportConfig, priority: Option<i32>) -> usize {
    const BYTES: usize = 400_000;
    let (mut server, client) = configs(&fixed());
    server.transport_config(Arc::new(transport)).law(Law::fixed(Rate::mbps(50), Size::mb(4)));
    let pair = Pair::with(server, client).await;
    let (mut first, mut second) =
        (pair.serving.open_uni().await.unwrap(), pair.serving.open_uni().await.unwrap());
    if let Some(priority) = priority {
        second.set_priority(priority).unwrap();
        assert_eq!((first.priority(), second.priority()), (Ok(0), Ok(priority)));
    }
    first.write_chunk(vec![1; BYTES].into()).await.unwrap();
    second.write_chunk(vec![2; BYTES].into()).await.unwrap();
    first.finish().unwrap();
    second.finish().unwrap();
    // The second announces itself with its first byte; the first is accepted before it.
    let mut first = pair.connection.accept_uni().await.unwrap();
    let mut second = pair.connection.accept_uni().await.unwrap();
    let count = tokio::spawn(async move {
        let mut read = 0;
        while let Some(chunk) = second.read_chunk(usize::MAX, true).await.unwrap() {
            read += chunk.bytes.len();
        }
        read
    });
    assert_eq!(timeout(PATIENCE, count).await.unwrap().unwrap(), BYTES);
    at_hand(&mut first).await
}

/// What can be read without waiting.
async fn at_hand(stream: &mut RecvStream) -> usize {
    let mut read = 0;
    loop {
        tokio::select! {
            biased;
            chunk = stream.read_chunk(usize::MAX, true) => match chunk.unwrap() {
                Some(chunk) => read += chunk.bytes.len(),
                None => return read,
            },
            () = std::future::ready(()) => return read,
        }
    }
}

#[tokio::test]
async fn a_higher_priority_goes_first() {
    let behind = race(TransportConfig::default(), Some(1)).await;
    // What left before the second was written.
    assert!(behind < 100_000, "{behind} bytes of the stream of lower priority");
}

#[tokio::test]
async fn streams_take_turns_unless_told_otherwise() {
    let fair = race(TransportConfig::default(), None).await;
    assert!(fair > 300_000, "{fair} bytes");
    let mut unfair = TransportConfig::default();
    unfair.send_fairness(false);
    // The first goes on to its end, and the second then has the path for itself.
    assert_eq!(race(unfair, None).await, 400_000);
}

#[tokio::test]
async fn the_peers_streams_may_be_limited_anew() {
    let pair = Pair::new().await;
    pair.serving.set_max_concurrent_uni_streams(code(120));
    pair.serving.set_max_concurrent_bi_streams(code(150));
    // 100 were allowed by the handshake.
    let mut streams = Vec::new();
    for _ in 0..120 {
        streams.push(timeout(PATIENCE, pair.connection.open_uni()).await.expect("allowed").unwrap());
    }
    let mut both_ways = Vec::new();
    for _ in 0..150 {
        both_ways.push(timeout(PATIENCE, pair.connection.open_bi()).await.expect("allowed").unwrap());
    }
    let one_more =
        tokio::time::timeout(std::time::Duration::from_millis(50), pair.connection.open_uni()).await;
    assert!(one_more.is_err(), "the 121st has to wait");
}

#[tokio::test]
async fn windows_may_be_set_anew() {
    let (server, mut client) = configs(&fixed());
    let mut transport = TransportConfig::default();
    transport.receive_window(Size::kb(100));
    client.transport_config(Arc::new(transport));
    let pair = Pair::with(server, client).await;
    let mut stream = pair.serving.open_uni().await.unwrap();
    let writing = tokio::spawn(async move {
        stream.write_chunk(vec![1; 2_000_000].into()).await.unwrap();
        stream.finish().unwrap();
        stream
    });
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(!writing.is_finished(), "100 kB may be sent");
    pair.connection.set_receive_window(Size::mb(4));
    let stream = timeout(PATIENCE, writing).await.expect("4 MB may be sent").unwrap();
    assert_eq!(incoming.read_to_end(2_000_000).await.unwrap().len(), 2_000_000);
    drop(stream);

    pair.serving.set_send_window(Size::kb(10));
    let mut stream = pair.serving.open_uni().await.unwrap();
    let written = stream.write(&[1; 100_000]).await.unwrap();
    assert!(written <= 10_000, "{written} bytes taken");
}
