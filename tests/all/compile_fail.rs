//! What the borrow checker must refuse.

#[test]
fn invariant_3_no_array_outlives_its_frame_and_no_lease_its_workspace() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("compile_fail/*.rs");
}
