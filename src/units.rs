//! [`Rate`], [`Bytes`] and [`Gain`]: all arithmetic and rounding of quantities.
//!
//! They live in the leaf crate `warpunits`, so that the link model and the tools below the library
//! speak of the same [`Rate`]; this module is their name inside the library.

pub use warpunits::{Bytes, Gain, ParseUnitError, Rate};
