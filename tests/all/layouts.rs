//! Arrays that share bytes by plan, and the recorder that tells the planner of a real run.

use rstest::rstest;
use rstest_reuse::apply;
use workslab::{ArraySpec, DryFrame, Effort, Error, Instance, Layout, Plan, Recorder};
use workslab_tests::Backend;

use crate::matrix::backends;
use crate::support::{allocator, counted, default_stream, new_stream, size};

#[apply(backends)]
fn planned_arrays_share_bytes_and_keep_what_is_theirs<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let mut layout = Layout::new();
    let flux = layout.array::<f64, 1>("flux", [512], 0..2).expect("small");
    let divergence = layout
        .array::<f64, 1>("divergence", [512], 1..3)
        .expect("small");
    let tendency = layout
        .array::<f64, 1>("tendency", [512], 2..4)
        .expect("small");
    let plan = layout.plan(Effort::Balanced).expect("a plan");
    assert_eq!(plan.bytes(), 2 * 4096, "flux and tendency share");
    let workspace = allocator.allocate(0, &size(plan.bytes())).expect("it fits");
    let stream = new_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let mut bound = lease.bind(&plan).expect("it fits");
    {
        let phase = bound.phase(0);
        let mut flux = phase.array(flux).expect("alive");
        flux.fill(1.0).expect("enqueued");
    }
    {
        let phase = bound.phase(1);
        let (flux, mut divergence) = (phase.array(flux), phase.array(divergence).expect("alive"));
        assert_eq!(flux.expect("alive").to_vec().expect("read"), [1.0; 512]);
        divergence.fill(2.0).expect("enqueued");
    }
    {
        let phase = bound.phase(2);
        let mut tendency = phase.array(tendency).expect("alive");
        tendency.fill(3.0).expect("enqueued");
        let divergence = phase.array(divergence).expect("alive");
        assert_eq!(divergence.to_vec().expect("read"), [2.0; 512]);
        assert_eq!(tendency.to_vec().expect("read"), [3.0; 512]);
    }
    drop(lease);
    assert_eq!(workspace.statistics().high_water, plan.bytes());
}

#[apply(backends)]
fn an_array_is_had_in_its_phases_once_and_from_its_own_layout<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let mut layout = Layout::new();
    let array = layout.array::<f32, 2>("tmp", [4, 8], 1..3).expect("small");
    let plan = layout.plan(Effort::Instant).expect("a plan");
    let mut other = Layout::new();
    let foreign = other.array::<f32, 2>("tmp", [4, 8], 1..3).expect("small");
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let mut bound = lease.bind(&plan).expect("it fits");
    for (number, alive) in [(0, false), (1, true), (2, true), (3, false)] {
        let phase = bound.phase(number);
        let had = phase.array(array);
        assert_eq!(had.is_ok(), alive, "phase {number}");
        match had {
            Ok(array) => {
                assert_eq!(array.shape(), [4, 8]);
                let again = phase.array(foreign).err();
                assert!(again.is_some_and(|e| e.to_string().contains("another layout")));
            }
            Err(error) => assert!(error.to_string().contains("'tmp'"), "{error}"),
        }
    }
    let phase = bound.phase(1);
    let _first = phase.array(array).expect("alive");
    let error = phase.array(array).expect_err("there is one already");
    assert!(error.to_string().contains("taken already"), "{error}");
}

#[apply(backends)]
fn a_layout_that_does_not_fit_says_what_would<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let mut layout = Layout::new();
    layout.array::<u8, 1>("a", [6000], 0..1).expect("small");
    let plan = layout.plan(Effort::Instant).expect("a plan");
    let workspace = allocator.allocate(0, &size(4096)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.program("dycore").lease(&stream).expect("free");
    match lease.bind(&plan) {
        Err(Error::Exhausted {
            requested: 6000,
            available: 4096,
            needed_size: 6000,
            what,
            ..
        }) => assert!(what.contains("dycore"), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[apply(backends)]
fn invariant_5_binding_calls_no_driver<B: Backend>(#[case] backend: B) {
    let (allocator, calls) = counted(&backend);
    let mut layout = Layout::new();
    let slots: Vec<_> = (0..24)
        .map(|i| {
            layout
                .array::<f64, 1>("tmp", [100], i..i + 3)
                .expect("small")
        })
        .collect();
    let plan = layout.plan(Effort::Balanced).expect("a plan");
    let workspace = allocator.allocate(0, &size(plan.bytes())).expect("it fits");
    let stream = new_stream(&allocator);
    drop(workspace.lease(&stream).expect("free"));
    calls.clear();
    let mut lease = workspace.lease(&stream).expect("free");
    let mut bound = lease.bind(&plan).expect("it fits");
    for number in 0..26 {
        let phase = bound.phase(number);
        let alive = slots
            .iter()
            .filter(|slot| phase.array(**slot).is_ok())
            .count();
        assert!((1..=3).contains(&alive));
    }
    drop(lease);
    assert_eq!(calls.all(), [].into());
}

#[test]
fn what_cannot_be_declared_is_an_error() {
    let mut layout = Layout::new();
    let backwards = std::ops::Range { start: 3, end: 1 };
    let error = layout
        .array::<f64, 1>("a", [1], backwards)
        .expect_err("it ends first");
    assert!(error.to_string().contains("before it starts"), "{error}");
    let error = layout.array::<f64, 2>("a", [usize::MAX, 2], 0..1);
    assert!(
        matches!(error, Err(Error::SizeOverflow { .. })),
        "{error:?}"
    );
    let odd = ArraySpec::default().aligned(3);
    let error = layout.place::<f64, 1>(odd, [1], 0..1);
    assert!(
        matches!(error, Err(Error::BadAlignment { .. })),
        "{error:?}"
    );
    assert_eq!(layout.instance(), Instance::default());
    layout.array::<u8, 1>("a", [300], 0..2).expect("small");
    layout.array::<u8, 1>("b", [300], 1..3).expect("small");
    let right = Plan::of(&layout.instance(), vec![0, 512]).expect("right");
    let mut wrong = right.clone();
    wrong.offsets[1] = 256;
    assert!(layout.with_plan(right).is_ok());
    assert!(matches!(layout.with_plan(wrong), Err(Error::Plan(_))));
}

#[apply(backends)]
fn a_recorder_writes_down_sizes_and_lifetimes<B: Backend>(#[case] backend: B) {
    let allocator = allocator(&backend);
    let workspace = allocator.allocate(0, &size(1 << 16)).expect("it fits");
    let stream = default_stream(&allocator);
    let mut lease = workspace.lease(&stream).expect("free");
    let frame = lease.frame();
    let recorder = Recorder::new(&frame);
    let mut a = recorder.array::<f64>("a", 100).expect("it fits");
    a.fill(1.0).expect("enqueued");
    let b = recorder.array::<f32>("b", 10).expect("it fits");
    drop(a);
    let c = recorder.array::<u8>("c", 7).expect("it fits");
    let instance = recorder.instance();
    let seen: Vec<_> = instance
        .buffers
        .iter()
        .map(|buffer| (buffer.name.as_str(), buffer.size, buffer.lifetime.clone()))
        .collect();
    assert_eq!(seen, [("a", 800, 0..2), ("b", 40, 1..4), ("c", 7, 3..4)]);
    drop((b, c));
    // The same set-up code can be recorded without any memory.
    let dry = DryFrame::new();
    let recorder = Recorder::new(&dry);
    let a = recorder.array::<f64>("a", 100).expect("dry");
    drop(a);
    assert_eq!(recorder.instance().buffers[0].lifetime, 0..1);
}
