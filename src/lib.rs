//! placeholder
pub mod cc;
pub mod conn;
pub mod control;
pub mod egress;
pub mod loss;
pub mod pacer;
pub mod signal;
#[cfg(test)]
mod test_clock;
pub mod units;
