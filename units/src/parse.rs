use std::fmt;

/// A text that is not the quantity it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseUnitError {
    text: String,
    expected: &'static str,
}

/// Most digits after the decimal point that are read; a finer quantity than 10⁻⁹ of a unit is a typo.
const MAX_FRACTION_DIGITS: usize = 9;

/// Parses `number unit`, where the unit's scale comes from `units`, and divides by `divisor`.
///
/// Exact decimal arithmetic: no float is involved. What does not fit 64 bits is an error.
pub(crate) fn parse_scaled(
    text: &str,
    units: &[(&str, u64)],
    divisor: u128,
    expected: &'static str,
) -> Result<u64, ParseUnitError> {
    let parse = || {
        let trimmed = text.trim();
        let digits_end =
            trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits_end);
        let unit = unit.trim_start();
        let &(_, scale) = units.iter().find(|(name, _)| is_same_unit(name, unit))?;

        let number = number.replace('_', "");
        let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
        if whole.is_empty() || fraction.len() > MAX_FRACTION_DIGITS {
            return None;
        }
        let tenths = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let mantissa: u128 = format!("{whole}{fraction}").parse().ok()?;
        let scaled = mantissa.checked_mul(u128::from(scale))? / tenths / divisor;
        u64::try_from(scaled).ok()
    };
    parse().ok_or_else(|| ParseUnitError { text: text.to_owned(), expected })
}

/// Whether letters agree but for their case, which counts for one of them: `b` is bits and `B` bytes.
fn is_same_unit(name: &str, text: &str) -> bool {
    let is_same = |(a, b): (u8, u8)| a == b || (a.eq_ignore_ascii_case(&b) && !a.eq_ignore_ascii_case(&b'b'));
    name.len() == text.len() && name.bytes().zip(text.bytes()).all(is_same)
}

/// Writes `value` in the largest unit that it fills, with up to three decimals and none of them
/// trailing zeros: `12.5 Mbit/s`.
pub(crate) fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    let &(scale, unit) = units
        .iter()
        .find(|(scale, _)| value >= *scale)
        .or(units.last())
        .expect("callers pass at least one unit");
    let whole = value / scale;
    let thousandths = u128::from(value % scale) * 1000 / u128::from(scale);
    let mut number = whole.to_string();
    if thousandths != 0 {
        number.push_str(format!(".{thousandths:03}").trim_end_matches('0'));
    }
    f.pad(&format!("{number} {unit}"))
}
