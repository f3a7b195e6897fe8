//! A program written for quinn runs with this library when its import of quinn is changed, and nothing else; and
//! `docs/porting.md` has a row for everything that quinn offers.

mod table;

/// The program as it is.
mod stock {
    include!("program.rs");
}

/// The program ported.
mod ported {
    use warprate as quinn;
    include!("program.rs");
}

#[tokio::test]
async fn a_program_written_for_quinn_does_the_same_here() {
    let stock = stock::run().await.expect("quinn serves it");
    let ported = ported::run().await.expect("so do we");
    assert_eq!(stock, ported);
    assert!(stock.len() > 15, "{stock:#?}");
}
