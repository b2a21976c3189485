//! Hashes of names in an indexed directory, as Linux (`fs/ext4/hash.c`) and e2fsprogs
//! (`lib/ext2fs/dirhash.c`) compute them: the legacy one, half of MD4, and TEA, each over signed or
//! unsigned bytes. Which bytes a volume means stands in `s_flags`; without a word they are signed.

/// `s_flags`: names are hashed as unsigned bytes.
pub(crate) const FLAG_UNSIGNED_HASH: u32 = 0x2;

/// Hash versions as stored in an index and in `s_def_hash_version`.
pub(crate) const LEGACY: u8 = 0;
pub(crate) const HALF_MD4: u8 = 1;
pub(crate) const TEA: u8 = 2;

/// Above every hash of a name; Linux keeps it as the end of a listing.
const END: u32 = 0xFFFF_FFFE;

/// How a volume hashes names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Hashing {
    /// `s_hash_seed`; all zero means the constants of MD4.
    pub(crate) seed: [u32; 4],
    /// Version for a new index (`s_def_hash_version`).
    pub(crate) version: u8,
    pub(crate) unsigned: bool,
}

impl Hashing {
    /// True for a version that the engine computes.
    pub(crate) fn knows(version: u8) -> bool {
        matches!(version, LEGACY | HALF_MD4 | TEA)
    }

    fn start(&self) -> [u32; 4] {
        if self.seed == [0; 4] {
            return [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
        }
        self.seed
    }

    fn byte(&self, b: u8) -> u32 {
        if self.unsigned { u32::from(b) } else { i32::from(b.cast_signed()).cast_unsigned() }
    }

    /// The hash that an index of `version` is sorted by. Its lowest bit is 0.
    pub(crate) fn hash(&self, version: u8, name: &[u8]) -> u32 {
        let mut buf = self.start();
        let hash = match version {
            LEGACY => self.legacy(name),
            TEA => {
                for part in name.chunks(16) {
                    tea(&mut buf, self.words(part));
                }
                let [a, ..] = buf;
                a
            }
            _ => {
                for part in name.chunks(32) {
                    half_md4(&mut buf, self.words(part));
                }
                let [_, b, ..] = buf;
                b
            }
        };
        match hash & !1 {
            END => END - 2,
            h => h,
        }
    }

    fn legacy(&self, name: &[u8]) -> u32 {
        let (mut h0, mut h1) = (0x12A3_FE2D_u32, 0x37AB_E8F9_u32);
        for b in name {
            let mixed = h0 ^ self.byte(*b).wrapping_mul(7_152_373);
            let mut h = h1.wrapping_add(mixed);
            if h & 0x8000_0000 != 0 {
                h = h.wrapping_sub(0x7FFF_FFFF);
            }
            (h1, h0) = (h0, h);
        }
        h0 << 1
    }

    /// `str2hashbuf`: bytes into words, the first highest; what is left over holds the length four
    /// times. In all parts of a name but the last nothing is left over.
    fn words<const N: usize>(&self, part: &[u8]) -> [u32; N] {
        let len = part.len() as u32;
        let pad = len | len << 8;
        let pad = pad | pad << 16;
        let mut out = [pad; N];
        for (w, bytes) in out.iter_mut().zip(part.chunks(4)) {
            *w = bytes.iter().fold(pad, |v, b| self.byte(*b).wrapping_add(v << 8));
        }
        out
    }
}

fn tea(buf: &mut [u32; 4], [a, b, c, d]: [u32; 4]) {
    let [mut b0, mut b1, rest @ ..] = *buf;
    let mut sum = 0u32;
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9E37_79B9);
        let mixed = (b1 << 4).wrapping_add(a) ^ b1.wrapping_add(sum) ^ (b1 >> 5).wrapping_add(b);
        b0 = b0.wrapping_add(mixed);
        let mixed = (b0 << 4).wrapping_add(c) ^ b0.wrapping_add(sum) ^ (b0 >> 5).wrapping_add(d);
        b1 = b1.wrapping_add(mixed);
    }
    let [h0, h1, ..] = *buf;
    let [c, d] = rest;
    *buf = [h0.wrapping_add(b0), h1.wrapping_add(b1), c, d];
}

/// One of the three rounds: eight steps that mix a word each.
#[inline(always)]
fn round(
    state: [u32; 4],
    w: &[u32; 8],
    mix: impl Fn(u32, u32, u32) -> u32,
    (k, order, shifts): (u32, [usize; 8], [u32; 4]),
) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = state;
    for (i, n) in order.into_iter().enumerate() {
        let word = w.get(n).copied().unwrap_or(0).wrapping_add(k);
        let shift = shifts.get(i % 4).copied().unwrap_or(0);
        let sum = a.wrapping_add(mix(b, c, d)).wrapping_add(word);
        // The next step has the new value where this one had `b`.
        (a, b, c, d) = (d, sum.rotate_left(shift), b, c);
    }
    [a, b, c, d]
}

fn half_md4(buf: &mut [u32; 4], w: [u32; 8]) {
    let first = (0, [0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19]);
    let second = (0x5A82_7999, [1, 3, 5, 7, 0, 2, 4, 6], [3, 5, 9, 13]);
    let third = (0x6ED9_EBA1, [3, 7, 2, 6, 1, 5, 0, 4], [3, 9, 11, 15]);
    let state = round(*buf, &w, |x, y, z| z ^ (x & (y ^ z)), first);
    let state = round(state, &w, |x, y, z| (x & y).wrapping_add((x ^ y) & z), second);
    let state = round(state, &w, |x, y, z| x ^ y ^ z, third);
    for (h, s) in buf.iter_mut().zip(state) {
        *h = h.wrapping_add(s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `debugfs -R "dx_hash -h VERSION -s 01020304-0506-0708-090a-0b0c0d0e0f10 NAME"` prints.
    #[test]
    fn agrees_with_e2fsprogs() {
        let seed = [0x0403_0201, 0x0807_0605, 0x0C0B_0A09, 0x100F_0E0D];
        let long = b"a-name-that-is-longer-than-thirty-two-bytes-and-then-some";
        let high: [u8; 40] = core::array::from_fn(|i| if i % 2 == 0 { 0xFF } else { 0xFE });
        let names: [&[u8]; 6] = [b"a", b"hello", b"caf\xC3\xA9", long, &[b'z'; 64], &high];
        let signed: [[u32; 6]; 3] = [
            [0xE74B_53E2, 0x3225_2546, 0x96CA_5A2C, 0x7054_8C9A, 0xCCF7_E288, 0x646D_9756],
            [0x8D08_EC4C, 0xE2DD_F968, 0xEEEF_3446, 0x20AF_04C0, 0x5EAC_9C3A, 0x1C0C_F318],
            [0xF535_28F0, 0x1A56_92B6, 0x3037_CE66, 0xEFF0_FA94, 0x7FA9_7B20, 0x278C_DD9E],
        ];
        let unsigned: [[u32; 6]; 3] = [
            [0xE74B_53E2, 0x3225_2546, 0x6DDE_4230, 0x7054_8C9A, 0xCCF7_E288, 0xD665_0978],
            [0x8D08_EC4C, 0xE2DD_F968, 0xAA03_2CE8, 0x20AF_04C0, 0x5EAC_9C3A, 0xC6A4_9B8E],
            [0xF535_28F0, 0x1A56_92B6, 0xE0A9_758C, 0xEFF0_FA94, 0x7FA9_7B20, 0x4536_E9FC],
        ];
        for (table, unsigned) in [(signed, false), (unsigned, true)] {
            for (version, row) in (0u8..).zip(table) {
                for (name, want) in names.into_iter().zip(row) {
                    let h = Hashing { seed, version, unsigned };
                    assert_eq!(h.hash(version, name), want, "{version} {unsigned} {name:?}");
                }
            }
        }
        let unseeded = Hashing { version: HALF_MD4, ..Hashing::default() };
        assert_eq!(unseeded.hash(HALF_MD4, b"hello"), 0x1746_DA32);
    }
}
