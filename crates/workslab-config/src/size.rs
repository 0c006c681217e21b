//! Sizes as people write them.

use byte_unit::Byte;

/// The bytes that `text` says: a number of bytes, or a number with a unit. `KB`, `MB`, `GB`, … are
/// powers of 1000 and `KiB`, `MiB`, `GiB`, … powers of 1024, in any case; a fraction is allowed
/// with a unit (`1.5GiB`), and a part of a byte rounds up.
///
/// # Errors
/// A sentence that says what is wrong with it.
///
/// ```
/// assert_eq!(workslab_config::parse_size("1.5 GiB"), Ok(1_610_612_736));
/// assert!(workslab_config::parse_size("12 parsecs").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<usize, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it is empty; give a number of bytes, such as 536870912 or 512MiB".into());
    }
    if text.starts_with('-') {
        return Err("a size cannot be negative".into());
    }
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_plain && text.contains('.') {
        return Err("a number of bytes has no fraction; add a unit, such as 1.5GiB".into());
    }
    let byte = Byte::parse_str(text, true).map_err(|error| match error {
        byte_unit::ParseError::Value(byte_unit::ValueParseError::ExceededBounds(_)) => {
            too_large(text)
        }
        byte_unit::ParseError::Value(byte_unit::ValueParseError::NumberTooLong) => {
            if text.contains('.') {
                "it has more digits than can be read exactly".into()
            } else {
                too_large(text)
            }
        }
        byte_unit::ParseError::Value(_) => {
            "it does not start with a number; give bytes, such as 536870912 or 512MiB".into()
        }
        byte_unit::ParseError::Unit(_) => {
            "its unit is unknown; the units are B, KB, MB, GB, TB and KiB, MiB, GiB, TiB".into()
        }
    })?;
    usize::try_from(byte.as_u128()).map_err(|_| too_large(text))
}

fn too_large(text: &str) -> String {
    format!(
        "{text} is more than an address can name ({} bytes)",
        usize::MAX
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1", 1)]
    #[case("536870912", 512 << 20)]
    #[case("512MiB", 512 << 20)]
    #[case("512 mib", 512 << 20)]
    #[case("4GB", 4_000_000_000)]
    #[case("1.5GiB", 3 << 29)]
    #[case("  64 KiB ", 64 << 10)]
    #[case("2T", 2_000_000_000_000)]
    #[case("18446744073709551615", usize::MAX)]
    #[case("0", 0)]
    fn a_size_is_read(#[case] text: &str, #[case] bytes: usize) {
        assert_eq!(parse_size(text), Ok(bytes));
    }

    #[rstest]
    #[case("", "empty")]
    #[case("  ", "empty")]
    #[case("-1", "negative")]
    #[case("-1GiB", "negative")]
    #[case("abc", "start with a number")]
    #[case("12 parsecs", "unit is unknown")]
    #[case("1.5", "no fraction")]
    #[case("18446744073709551616", "more than an address")]
    #[case("99999999999999999999999999999999999999999", "more than an address")]
    #[case("99999999999EB", "more than an address")]
    #[case("1e9", "unit is unknown")]
    #[case("0x10", "unit is unknown")]
    #[case("1,5GiB", "")]
    #[case("٣", "")]
    fn a_bad_size_says_what_is_wrong(#[case] text: &str, #[case] reason: &str) {
        let error = parse_size(text).expect_err("not a size");
        assert!(error.contains(reason), "{error}");
        assert!(!error.contains('\n'));
    }

    proptest! {
        #[test]
        fn any_text_is_a_size_or_an_error_of_one_line(text in ".*") {
            if let Err(error) = parse_size(&text) {
                prop_assert!(!error.contains('\n'), "{error:?}");
            }
        }

        #[test]
        fn a_number_of_bytes_is_itself(bytes: u64) {
            prop_assert_eq!(parse_size(&bytes.to_string()), Ok(bytes as usize));
        }

        #[test]
        fn a_unit_multiplies_or_overflows(number in 0u64..1 << 40, shift in 1u32..5) {
            let unit = ["KiB", "MiB", "GiB", "TiB"][shift as usize - 1];
            let expected = u128::from(number) << (10 * shift);
            let parsed = parse_size(&format!("{number}{unit}"));
            match usize::try_from(expected) {
                Ok(bytes) => prop_assert_eq!(parsed, Ok(bytes)),
                Err(_) => prop_assert!(parsed.is_err()),
            }
        }
    }
}
