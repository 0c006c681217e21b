//! Messages: what was asked, what there is, what to do; one line each.

use workslab::{Error, SlabSize};

#[test]
fn invariant_8_messages_are_one_line_in_lower_case_without_a_full_stop() {
    let errors = [
        SlabSize::new(0).expect_err("zero"),
        Error::NoSize,
        Error::Busy {
            platform: "host",
            device: 0.into(),
            holder: workslab::Holder {
                thread: "'main'".into(),
                program: None,
            },
        },
        Error::Exhausted {
            platform: "rocm",
            device: 3.into(),
            what: "array 'theta'".into(),
            requested: 2048,
            available: 0,
            size: 1024,
            size_origin: None,
            needed_size: 2048,
        },
        Error::Driver {
            platform: "rocm",
            device: 3.into(),
            call: "hipMalloc",
            code: 2,
            name: "hipErrorOutOfMemory".into(),
            detail: None,
        },
    ];
    for error in errors {
        let text = error.to_string();
        assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
        assert!(
            text.starts_with(|c: char| !c.is_uppercase()) || text.starts_with("hip"),
            "{text}"
        );
    }
}
