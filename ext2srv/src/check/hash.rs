//! Hashes of names in indexed directories, as the kernel's `fs/ext4/hash.c` defines them: the first
//! one of ext3, half of MD4, and TEA, each over signed or unsigned characters.

const DELTA: u32 = 0x9E37_79B9;
const START: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];

/// A character as a number.
fn number(c: u8, unsigned: bool) -> u32 {
    if unsigned { u32::from(c) } else { c.cast_signed() as i32 as u32 }
}

/// The hash of a name, its lowest bit clear; `None` for a version that is not known.
pub(super) fn name_hash(version: u8, unsigned: bool, seed: [u32; 4], name: &[u8]) -> Option<u32> {
    let mut state = if seed == [0; 4] { START } else { seed };
    let hash = match version {
        0 => legacy(name, unsigned),
        1 => {
            for part in parts(name, 32) {
                half_md4(&mut state, words(part, unsigned));
            }
            let [_, hash, ..] = state;
            hash
        }
        2 => {
            for part in parts(name, 16) {
                tea(&mut state, words(part, unsigned));
            }
            let [hash, ..] = state;
            hash
        }
        _ => return None,
    };
    Some(hash & !1)
}

fn legacy(name: &[u8], unsigned: bool) -> u32 {
    let (mut hash, mut before) = (0x12A3_FE2Du32, 0x37AB_E8F9u32);
    for c in name {
        let mixed = hash ^ number(*c, unsigned).wrapping_mul(7_152_373);
        let mut next = before.wrapping_add(mixed);
        if next & 0x8000_0000 != 0 {
            next = next.wrapping_sub(0x7FFF_FFFF);
        }
        (before, hash) = (hash, next);
    }
    hash << 1
}

/// The name in pieces of `len` bytes, each with what is left of the name when it begins; a name
/// ends with a piece that may be short, and an empty one has none.
fn parts(name: &[u8], len: usize) -> impl Iterator<Item = (&[u8], usize)> {
    let whole = name.len();
    name.chunks(len).enumerate().map(move |(i, c)| (c, whole - i * len))
}

/// `N` words of a piece, padded with its length.
fn words<const N: usize>((piece, left): (&[u8], usize), unsigned: bool) -> [u32; N] {
    let left = left as u32;
    let pad = left | left << 8;
    let pad = pad | pad << 16;
    let mut chunks = piece.chunks(4);
    core::array::from_fn(|_| {
        let bytes = chunks.next().unwrap_or_default();
        bytes.iter().fold(pad, |v, c| number(*c, unsigned).wrapping_add(v << 8))
    })
}

fn half_md4(state: &mut [u32; 4], input: [u32; 8]) {
    const ROUNDS: [([usize; 8], [u32; 4], u32); 3] = [
        ([0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19], 0),
        ([1, 3, 5, 7, 0, 2, 4, 6], [3, 5, 9, 13], 0x5A82_7999),
        ([3, 7, 2, 6, 1, 5, 0, 4], [3, 9, 11, 15], 0x6ED9_EBA1),
    ];
    let [mut a, mut b, mut c, mut d] = *state;
    for (round, (order, shifts, add)) in ROUNDS.into_iter().enumerate() {
        for (at, shift) in order.into_iter().zip(shifts.into_iter().cycle()) {
            let f = match round {
                0 => d ^ (b & (c ^ d)),
                1 => (b & c).wrapping_add((b ^ c) & d),
                _ => b ^ c ^ d,
            };
            let word = input.get(at).copied().unwrap_or(0).wrapping_add(add);
            let mixed = a.wrapping_add(f).wrapping_add(word).rotate_left(shift);
            (a, b, c, d) = (d, mixed, b, c);
        }
    }
    for (s, v) in state.iter_mut().zip([a, b, c, d]) {
        *s = s.wrapping_add(v);
    }
}

fn tea(state: &mut [u32; 4], input: [u32; 4]) {
    let [x, y, ..] = state;
    let (mut b0, mut b1) = (*x, *y);
    let [a, b, c, d] = input;
    let mut sum = 0u32;
    for _ in 0..16 {
        sum = sum.wrapping_add(DELTA);
        b0 = b0.wrapping_add(
            (b1 << 4).wrapping_add(a) ^ b1.wrapping_add(sum) ^ (b1 >> 5).wrapping_add(b),
        );
        b1 = b1.wrapping_add(
            (b0 << 4).wrapping_add(c) ^ b0.wrapping_add(sum) ^ (b0 >> 5).wrapping_add(d),
        );
    }
    *x = x.wrapping_add(b0);
    *y = y.wrapping_add(b1);
}
