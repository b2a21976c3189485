//! Bytes from a seed: the same on every machine (splitmix64).

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// Begins the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buf: &mut [u8]) {
        for part in buf.chunks_mut(8) {
            let bytes = self.draw().to_le_bytes();
            if let Some(from) = bytes.get(..part.len()) {
                part.copy_from_slice(from);
            }
        }
    }

    /// A volume's identity, marked as random (version 4).
    pub fn uuid(&mut self) -> [u8; 16] {
        let mut id = [0; 16];
        self.fill(&mut id);
        id[6] = id[6] & 0x0F | 0x40;
        id[8] = id[8] & 0x3F | 0x80;
        id
    }
}
