//! Mutations of real messages against the decoder and every control body.
//!
//! Seeded, so that a finding can be repeated: see [`seawall_tests::fuzz`].
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_ipc::storeproto::{DIALECT, Hello, HelloReply, Info, Lost, OpenRange, Stats, limit};
use seawall_ipc::{Decoder, Event, Header, Reply, Request, decode_body, encode_body};
use seawall_tests::{Rng, fuzz};

const GOLDEN: &str = include_str!("golden/store-v1.txt");
const ROUNDS: u64 = 20_000;

/// Numbers at which length checks go wrong.
fn edge(rng: &mut Rng) -> u64 {
    let edges = [0, 1, 63, 64, 255, 4096, 1 << 20, (1 << 20) + 1, 1 << 31, u64::MAX];
    rng.pick(&edges).wrapping_add(rng.next() % 3).wrapping_sub(1)
}

/// The bytes of every committed message.
fn golden() -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for line in GOLDEN.lines() {
        if line.starts_with('[') {
            messages.push(Vec::new());
        } else if let (Some(last), false) = (messages.last_mut(), line.starts_with('#')) {
            let byte = |word: &str| u8::from_str_radix(word, 16).unwrap();
            last.extend(line.split_whitespace().map(byte));
        }
    }
    assert!(messages.len() > 20);
    messages
}

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.below(6) {
        let at = rng.below(bytes.len());
        match rng.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << rng.below(8),
            1 if !bytes.is_empty() => bytes[at] = rng.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let count = rng.below(40);
                let byte = rng.next() as u8;
                bytes.splice(at..at, std::iter::repeat_n(byte, count));
            }
            // A whole field: where counts, lengths and offsets are.
            kind => {
                let width = [2, 4, 8][kind % 3];
                let at = at / width * width;
                let value = edge(rng).to_le_bytes();
                if let Some(field) = bytes.get_mut(at..at + width) {
                    field.copy_from_slice(&value[..width]);
                }
            }
        }
    }
}

/// Feeds the bytes in pieces; whatever comes must keep the limits, and end.
fn decode<H: Header + PartialEq>(rng: &mut Rng, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::<H>::new(DIALECT);
    let mut bodies = Vec::new();
    let mut rest = bytes;
    loop {
        match decoder.next_event() {
            Err(error) => {
                assert_eq!(decoder.next_event(), Err(error));
                return bodies;
            }
            Ok(Some(Event::Header(_))) => {}
            Ok(Some(Event::Body(body))) => {
                assert!(body.len() <= DIALECT.limits.body_max as usize);
                bodies.push(body);
            }
            Ok(Some(Event::Payload { len })) => {
                assert!(len <= limit::PAYLOAD as usize);
                let mut left = len;
                let mut sink = vec![0; 8192];
                loop {
                    let n = decoder.take_payload(&mut sink);
                    left -= n;
                    if n == 0 || left == 0 {
                        break;
                    }
                }
                let direct = left.min(rest.len());
                decoder.payload_received(direct);
                rest = &rest[direct..];
                if direct < left {
                    return bodies;
                }
            }
            Ok(None) if rest.is_empty() => return bodies,
            Ok(None) => {
                let n = 1 + rng.below(rest.len().min(300));
                let fed = decoder.feed(&rest[..n]);
                assert!(fed > 0, "the decoder is stuck");
                rest = &rest[fed..];
            }
        }
    }
}

/// Every body type; one that decodes encodes to the bytes it came from.
fn bodies(bytes: &[u8]) {
    fn one<T: serde::de::DeserializeOwned + serde::Serialize>(bytes: &[u8]) {
        if let Ok(value) = decode_body::<T>(bytes) {
            assert_eq!(encode_body(&value).unwrap().len(), bytes.len());
        }
    }
    one::<Hello>(bytes);
    one::<HelloReply>(bytes);
    one::<Info>(bytes);
    one::<Stats>(bytes);
    one::<OpenRange>(bytes);
    one::<Lost>(bytes);
}

fn round(rng: &mut Rng, golden: &[Vec<u8>]) {
    let mut stream: Vec<u8> = Vec::new();
    for _ in 0..=rng.below(4) {
        stream.extend_from_slice(&golden[rng.below(golden.len())]);
    }
    mutate(rng, &mut stream);
    let mut found = decode::<Request>(rng, &stream);
    found.extend(decode::<Reply>(rng, &stream));
    // The body of a real message, behind its header of 32 or 64 bytes.
    let message = &golden[rng.below(golden.len())];
    let from = if rng.below(2) == 0 { 32 } else { 64 };
    let mut body = message.get(from..).unwrap_or_default().to_vec();
    mutate(rng, &mut body);
    found.push(body);
    found.iter().for_each(|body| bodies(body));
}

#[test]
fn mutated_messages_neither_panic_nor_pass_the_limits() {
    let golden = golden();
    fuzz(ROUNDS, |rng| round(rng, &golden));
}
