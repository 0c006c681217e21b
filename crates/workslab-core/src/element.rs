//! What an array may hold.

use bytemuck::Pod;

use crate::Pattern;

/// A type that arrays can hold: plain bytes, valid whatever they are ([`bytemuck::Pod`]), with a
/// pattern that guard mode fills new arrays with.
///
/// For a type of one's own (a complex number, say) the default pattern will do:
///
/// ```
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Complex { re: f64, im: f64 }
///
/// impl workslab_core::Element for Complex {
///     const POISON: workslab_core::Pattern = <f64 as workslab_core::Element>::POISON;
/// }
/// ```
pub trait Element: Pod {
    /// What guard mode fills a new array with, so that reading it before writing it shows.
    ///
    /// The width must divide the size of the type; a wider pattern still shows, but out of step.
    const POISON: Pattern = Pattern::U8(0xA5);
}

macro_rules! elements {
    ($($element:ty),*) => { $(impl Element for $element {})* };
}

elements!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize
);

impl Element for f32 {
    /// A signalling NaN (IEEE 754-2019, 6.2.1: the quiet bit is clear, the payload is not zero).
    const POISON: Pattern = Pattern::U32(0x7FA5_A5A5);
}

impl Element for f64 {
    /// A signalling NaN (IEEE 754-2019, 6.2.1: the quiet bit is clear, the payload is not zero).
    const POISON: Pattern = Pattern::U64(0x7FF4_A5A5_A5A5_A5A5);
}

impl<T: Element, const N: usize> Element for [T; N] {
    const POISON: Pattern = T::POISON;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_poison_of_floats_is_a_signalling_nan() {
        let Pattern::U32(single) = f32::POISON else {
            panic!("an f32 is poisoned by four bytes")
        };
        assert!(f32::from_bits(single).is_nan());
        assert_eq!(single & (1 << 22), 0, "the quiet bit is clear");
        let Pattern::U64(double) = f64::POISON else {
            panic!("an f64 is poisoned by eight bytes")
        };
        assert!(f64::from_bits(double).is_nan());
        assert_eq!(double & (1 << 51), 0, "the quiet bit is clear");
    }
}
