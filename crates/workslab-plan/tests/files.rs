//! Every kind of file is read, and what cannot be read is an error that says where.

use std::path::Path;

use proptest::prelude::*;
use rstest::rstest;
use workslab_plan::file::{Contents, FileError, read, write_csv};
use workslab_plan::grid::Grid;
use workslab_plan::{Buffer, Effort, Instance, Plan, Planner, runs};

fn instance(text: &str) -> Result<Instance, FileError> {
    match read(text.as_bytes())? {
        Contents::Instance(instance) => Ok(instance),
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case::minimalloc("id,lower,upper,size\nb1,0,3,4\nb2,3,9,5\n")]
#[case::aliases("buffer_id,begin,end,size\nb1,0,2,4\nb2,3,8,5\n")]
#[case::other_aliases("size,buffer,start,upper\n4,b1,0,3\n5,b2,3,9\n")]
#[case::blanks("id, lower, upper, size\r\nb1, 0, 3, 4\r\nb2, 3, 9, 5\r\n")]
#[case::json(
    r#" {"buffers": [{"name": "b1", "size": 4, "lifetime": [0, 3]},
        {"name": "b2", "size": 5, "lifetime": [3, 9]}]}"#
)]
fn the_same_instance_in_every_form(#[case] text: &str) {
    let expected = Instance::new(vec![Buffer::new("b1", 4, 0..3), Buffer::new("b2", 5, 3..9)]);
    assert_eq!(instance(text), Ok(expected));
}

#[test]
fn every_column_counts() {
    let text = "id,lower,upper,size,alignment,hint,gaps,offset\n\
        a,0,10,8,4,-1,2-4 6-7@0:4,\nb,0,10,8,,3,,16\nc,0,10,8,1,-1,,-1\n";
    let read = instance(text).expect("it is right");
    let mut a = Buffer::new("a", 8, 0..10).aligned(4);
    a.gaps = std::iter::once(2..4).collect();
    let b = Buffer::new("b", 8, 0..10).fixed(16);
    assert_eq!(read, Instance::new(vec![a, b, Buffer::new("c", 8, 0..10)]));
}

#[test]
fn an_rmm_log_becomes_lifetimes() {
    let text = "Thread,Time,Action,Pointer,Size,Stream\n\
        1,10:00:00,allocate,0x7f00,256,0x0\n\
        1,10:00:01,allocate,0x8f00,512,0x0\n\
        1,10:00:02,free,0x7f00,256,0x0\n\
        1,10:00:03,allocate failure,0x0,999999,0x0\n\
        1,10:00:04,allocate,0x7f00,128,0x0\n\
        1,10:00:05,free,0x7f00,128,0x0\n";
    let expected = Instance::new(vec![
        Buffer::new("line 2", 256, 0..2),
        Buffer::new("line 3", 512, 1..5),
        Buffer::new("line 6", 128, 3..4),
    ]);
    assert_eq!(instance(text), Ok(expected));
}

#[rstest]
#[case("", "it is no instance")]
#[case("a,b\n1,2\n", "it is no instance")]
#[case("{\"shapes\": []}", "it is no instance")]
#[case(
    "id,lower,upper,size\na,0,3,4\nb,0,3\n",
    "line 3: has 3 fields instead of 4"
)]
#[case("id,lower,upper,size\na,0,3,x\n", "line 2: size \"x\" is no number")]
#[case("id,lower,upper,size\na,0,3,-4\n", "line 2: size \"-4\" is no number")]
#[case("id,lower,upper,size\na,0,,4\n", "line 2: the end is missing")]
#[case(
    "id,lower,upper,size\na,5,3,4\n",
    "line 2: ends at 3 before it starts at 5"
)]
#[case(
    "id,lower,end,size\na,5,18446744073709551615,4\n",
    "line 2: the end is too late"
)]
#[case(
    "id,lower,upper,size\na,0,3,18446744073709551616\n",
    "line 2: size 18446744073709551616 is more"
)]
#[case(
    "id,lower,upper,size,alignment\na,0,3,4,0\n",
    "line 2: the alignment is 0"
)]
#[case(
    "id,lower,upper,size,gaps\na,0,3,4,1:2\n",
    "line 2: gap \"1:2\" is not like 3-5"
)]
#[case(
    "Thread,Time,Action,Pointer,Size,Stream\n1,0,free,0x1,8,0\n",
    "line 2: 0x1 is freed"
)]
#[case(
    "Thread,Time,Action,Pointer,Size,Stream\n1,0,resize,0x1,8,0\n",
    "line 2: the action is \"resize\""
)]
#[case("{\"buffers\": [{\"name\": 3}]}", "invalid type")]
#[case("{\"buffers\": [", "line 1 column")]
fn what_cannot_be_read_says_where(#[case] text: &str, #[case] expected: &str) {
    let error = instance(text).expect_err("it is wrong").to_string();
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn a_plan_that_is_written_is_read_as_what_must_not_move() {
    let text = "id,lower,upper,size,gaps\na,0,10,8,2-4\nb,1,9,8,\nc,2,4,8,\n";
    let asked = instance(text).expect("it is right");
    let plan = Planner::new()
        .plan(&asked, Effort::Balanced)
        .expect("a plan")
        .plan;
    let mut written = Vec::new();
    write_csv(&asked, &plan, &mut written).expect("a vector takes all");
    let written = instance(std::str::from_utf8(&written).expect("text")).expect("it is right");
    let offsets: Vec<u64> = written
        .buffers
        .iter()
        .filter_map(|buffer| buffer.offset)
        .collect();
    assert_eq!(
        Plan::of(&written, offsets).expect("right").makespan,
        plan.makespan
    );
}

proptest! {
    #[test]
    fn any_bytes_are_an_instance_or_an_error_of_one_line(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Err(error) = read(&bytes[..]) {
            prop_assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn any_fields_are_an_instance_or_an_error_of_one_line(
        header in prop::sample::select(vec![
            "id,lower,upper,size,alignment,gaps,offset",
            "id,begin,end,size,alignment,gaps,offset",
            "Thread,Time,Action,Pointer,Size,Stream,x",
        ]),
        lines in prop::collection::vec(
            prop::collection::vec("(allocate|free|0x1|[0-9]{1,20}|-1|3-5|3-5@0:2|[^\n]{0,6})", 6..8),
            0..6,
        ),
    ) {
        let lines: Vec<String> = lines.iter().map(|fields| fields.join(",")).collect();
        let text = format!("{header}\n{}\n", lines.join("\n"));
        match read(text.as_bytes()) {
            Ok(Contents::Instance(instance)) => {
                if let Ok(planned) = Planner::new().plan(&instance, Effort::Instant) {
                    prop_assert!(planned.plan.verify(&instance).is_ok());
                }
            }
            Ok(other) => prop_assert!(false, "{other:?}"),
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }

    #[test]
    fn damaged_json_is_read_or_an_error_of_one_line(
        which in 0..3usize,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), "[0-9\\[\\]{}\",:a-z-]{0,3}"), 1..4),
    ) {
        const FILES: [&str; 3] = [
            r#"{"buffers": [{"name": "b1", "size": 4, "lifetime": [0, 3], "alignment": 4, "offset": 8}]}"#,
            r#"{"programs": [{"program": "p", "transients": [{"name": "t", "shape": ["cells", "nlev-1", 3],
                "itemsize": 8, "first_use": 1, "last_use": 2}]}]}"#,
            "{\"cells\": 10, \"levels\": 5, \"statistics\": {\"high_water\": 7}}\n",
        ];
        let mut text = FILES[which].to_owned();
        for (at, instead) in cuts {
            let at = at.index(text.len());
            text.replace_range(at..=at, &instead);
            if text.is_empty() {
                break;
            }
        }
        let error = match which {
            2 => runs::read(text.as_bytes()).err(),
            _ => read(text.as_bytes()).err(),
        };
        if let Some(error) = error {
            prop_assert!(!error.to_string().contains('\n'), "{error}");
        }
        // Whatever programs are read are sized, or refused in one line.
        if let Ok(Contents::Programs(programs)) = read(text.as_bytes()) {
            let grid = Grid::named("R02B10", 90).expect("a grid");
            if let Err(error) = programs.size_on(&grid, Path::new("file")) {
                prop_assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}
