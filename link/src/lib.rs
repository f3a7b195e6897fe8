//! A network link as a pure function.
