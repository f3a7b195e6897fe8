//! Unit tests of the parts.
#![cfg(test)]
