//! A short run of bytes that fills memory by repetition: what the drivers' memset calls can do.

/// A pattern of 1, 2, 4 or 8 bytes, in the host's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// One byte, repeated.
    U8(u8),
    /// Two bytes, repeated.
    U16(u16),
    /// Four bytes, repeated.
    U32(u32),
    /// Eight bytes, repeated.
    U64(u64),
}

impl Pattern {
    /// The pattern's length in bytes.
    pub const fn width(self) -> usize {
        match self {
            Self::U8(_) => 1,
            Self::U16(_) => 2,
            Self::U32(_) => 4,
            Self::U64(_) => 8,
        }
    }

    /// The pattern with the bytes of `value`, if it has 1, 2, 4 or 8 of them.
    pub fn of<T: bytemuck::NoUninit>(value: &T) -> Option<Self> {
        Self::from_bytes(bytemuck::bytes_of(value))
    }

    /// The pattern with these bytes, if there are 1, 2, 4 or 8 of them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            [a] => Some(Self::U8(a)),
            [a, b] => Some(Self::U16(u16::from_ne_bytes([a, b]))),
            [a, b, c, d] => Some(Self::U32(u32::from_ne_bytes([a, b, c, d]))),
            [a, b, c, d, e, f, g, h] => {
                Some(Self::U64(u64::from_ne_bytes([a, b, c, d, e, f, g, h])))
            }
            _ => None,
        }
    }

    /// The pattern stretched to eight bytes, so that one loop can compare any width.
    pub const fn widened(self) -> [u8; 8] {
        match self {
            Self::U8(byte) => [byte; 8],
            Self::U16(value) => {
                let [a, b] = value.to_ne_bytes();
                [a, b, a, b, a, b, a, b]
            }
            Self::U32(value) => {
                let [a, b, c, d] = value.to_ne_bytes();
                [a, b, c, d, a, b, c, d]
            }
            Self::U64(value) => value.to_ne_bytes(),
        }
    }

    /// Where `bytes`, whose first byte is the pattern's first, departs from the pattern: the index
    /// of the first wrong byte.
    pub fn first_mismatch(self, bytes: &[u8]) -> Option<usize> {
        let expected = self.widened();
        let word = u64::from_ne_bytes(expected);
        let (chunks, rest) = bytes.as_chunks::<8>();
        // Compare words first: a page of a healthy array is one pass without a branch per byte.
        let wrong_word = chunks
            .iter()
            .position(|chunk| u64::from_ne_bytes(*chunk) != word);
        let (start, tail): (usize, &[u8]) = match wrong_word {
            Some(index) => (index * 8, &chunks[index]),
            None => (chunks.len() * 8, rest),
        };
        tail.iter()
            .zip(expected)
            .position(|(found, expected)| *found != expected)
            .map(|index| start + index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_byte_is_found_in_words_and_in_the_rest() {
        let pattern = Pattern::U16(0xBEEF);
        let mut bytes: Vec<u8> = pattern.widened().iter().copied().cycle().take(22).collect();
        assert_eq!(pattern.first_mismatch(&bytes), None);
        bytes[21] ^= 1;
        assert_eq!(pattern.first_mismatch(&bytes), Some(21));
        bytes[9] ^= 1;
        assert_eq!(pattern.first_mismatch(&bytes), Some(9));
        assert_eq!(pattern.first_mismatch(&[]), None);
    }

    #[test]
    fn a_value_of_three_bytes_is_no_pattern() {
        assert_eq!(Pattern::of(&[1u8, 2, 3]), None);
        assert_eq!(Pattern::of(&1.5f64), Some(Pattern::U64(1.5f64.to_bits())));
    }
}
