//! The codec against arbitrary splits and against garbage.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use proptest::prelude::*;
use seawall_ipc::storeproto::{DIALECT, op};
use seawall_ipc::{Decoder, Dialect, Event, Gather, Header, Inline, Reply, Request};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Message<H> {
    header: H,
    inline: Vec<u8>,
}

fn request() -> impl Strategy<Value = Message<Request>> {
    let ops = prop::sample::select(vec![
        op::HELLO,
        op::INFO,
        op::READ,
        op::WRITE,
        op::SYNC,
        op::STATS,
        op::BYE,
        op::CANCEL,
        op::OPEN_RANGE,
        op::ATTACH,
        99,
    ]);
    let fields = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>(), any::<u64>());
    (ops, fields, prop::collection::vec(any::<u8>(), 0..9000), 0u16..32).prop_map(
        |(op, (cookie, offset, length, tag, trace), bytes, flags)| {
            let inline = match (DIALECT.request)(op) {
                Inline::None => Vec::new(),
                _ => bytes,
            };
            let inline_len = inline.len() as u32;
            let header = Request {
                op,
                flags,
                cookie,
                offset,
                length,
                inline_len,
                tag,
                trace,
                ..Request::default()
            };
            Message { header, inline }
        },
    )
}

fn reply() -> impl Strategy<Value = Message<Reply>> {
    let ops = prop::sample::select(vec![op::HELLO, op::INFO, op::READ, op::WRITE, op::SYNC, 99]);
    let bytes = prop::collection::vec(any::<u8>(), 0..9000);
    (ops, any::<u64>(), any::<u32>(), any::<u64>(), bytes).prop_map(
        |(op, cookie, status, value, bytes)| {
            let inline = match (DIALECT.reply)(op) {
                Inline::None => Vec::new(),
                _ => bytes,
            };
            let inline_len = inline.len() as u32;
            let header = Reply { op, cookie, status, inline_len, value, ..Reply::default() };
            Message { header, inline }
        },
    )
}

fn encode<H: Header>(messages: &[Message<H>]) -> Vec<u8> {
    let mut gather = Gather::new(DIALECT);
    for m in messages {
        match m.header.inline(&DIALECT) {
            Inline::Payload => {
                let (a, b) = m.inline.split_at(m.inline.len() / 3);
                gather.message_with_payload(&m.header, [a, b]);
            }
            _ => gather.message_with_body(&m.header, &m.inline),
        }
    }
    let bytes = gather.to_vec();
    assert_eq!(bytes.len(), gather.len());
    bytes
}

/// Decodes `bytes` cut at `cuts`, taking payloads partly from the buffer and partly directly.
fn decode<H: Header>(bytes: &[u8], cuts: &[usize]) -> Vec<Message<H>> {
    let mut decoder = Decoder::<H>::new(DIALECT);
    let mut out: Vec<Message<H>> = Vec::new();
    let mut chunks = cuts.iter().cycle();
    let mut rest = bytes;
    loop {
        while let Some(event) = decoder.next_event().unwrap() {
            match event {
                Event::Header(header) => out.push(Message { header, inline: Vec::new() }),
                Event::Body(body) => out.last_mut().unwrap().inline = body,
                Event::Payload { len } => {
                    let mut payload = vec![0; len];
                    let n = decoder.take_payload(&mut payload);
                    let direct = (len - n).min(rest.len());
                    payload[n..n + direct].copy_from_slice(&rest[..direct]);
                    decoder.payload_received(direct);
                    rest = &rest[direct..];
                    out.last_mut().unwrap().inline = payload;
                }
            }
        }
        if rest.is_empty() {
            assert!(decoder.is_idle());
            return out;
        }
        let n = (*chunks.next().unwrap()).clamp(1, rest.len());
        let fed = decoder.feed(&rest[..n]);
        assert!(fed > 0);
        rest = &rest[fed..];
    }
}

/// Inline bytes of an operation that is not known are dropped.
fn expected<H: Header>(messages: Vec<Message<H>>) -> Vec<Message<H>> {
    let keep = |m: &Message<H>| m.header.inline(&DIALECT) != Inline::Skip;
    messages
        .into_iter()
        .map(|m| if keep(&m) { m } else { Message { inline: Vec::new(), ..m } })
        .collect()
}

fn limits_hold<H: Header + PartialEq>(bytes: &[u8], dialect: Dialect) {
    let mut decoder = Decoder::<H>::new(dialect);
    let mut rest = bytes;
    loop {
        match decoder.next_event() {
            Err(error) => {
                // The error is final.
                assert_eq!(decoder.next_event(), Err(error));
                return;
            }
            Ok(Some(Event::Payload { len })) => {
                assert!(len <= dialect.limits.payload_max as usize);
                let n = decoder.take_payload(&mut vec![0; len]);
                let direct = (len - n).min(rest.len());
                decoder.payload_received(direct);
                rest = &rest[direct..];
                if direct < len - n {
                    return;
                }
            }
            Ok(Some(Event::Body(body))) => {
                assert!(body.len() <= dialect.limits.body_max as usize);
            }
            Ok(Some(Event::Header(_))) => {}
            Ok(None) if rest.is_empty() => return,
            Ok(None) => {
                let fed = decoder.feed(rest);
                assert!(fed > 0, "the decoder is stuck");
                rest = &rest[fed..];
            }
        }
    }
}

proptest! {
    #[test]
    fn requests_survive_any_split(
        messages in prop::collection::vec(request(), 0..20),
        cuts in prop::collection::vec(1usize..20_000, 1..8),
    ) {
        let bytes = encode(&messages);
        prop_assert_eq!(decode::<Request>(&bytes, &cuts), expected(messages));
    }

    #[test]
    fn replies_survive_any_split(
        messages in prop::collection::vec(reply(), 0..20),
        cuts in prop::collection::vec(1usize..300, 1..8),
    ) {
        let bytes = encode(&messages);
        prop_assert_eq!(decode::<Reply>(&bytes, &cuts), messages);
    }

    #[test]
    fn garbage_ends_in_an_error_or_waits(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        limits_hold::<Request>(&bytes, DIALECT);
        limits_hold::<Reply>(&bytes, DIALECT);
    }

    #[test]
    fn damaged_streams_keep_the_limits(
        messages in prop::collection::vec(request(), 1..6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encode(&messages);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        limits_hold::<Request>(&bytes, DIALECT);
        limits_hold::<Reply>(&bytes, DIALECT);
    }
}

#[test]
fn a_foreign_stream_is_refused_at_its_fourth_byte() {
    let mut decoder = Decoder::<Request>::new(DIALECT);
    decoder.feed(b"GET");
    assert_eq!(decoder.next_event(), Ok(None));
    decoder.feed(b" ");
    assert!(decoder.next_event().is_err());
}
