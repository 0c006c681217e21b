//! Virtual memory of the emulated driver: what may be used, and what no correct program does.

use workslab_emulator::{Code, Driver, Options, Violation};

const UNIT: usize = 2 << 20;

fn driver() -> Driver {
    Driver::new(Options {
        memory: 8 * UNIT,
        abort: false,
        ..Options::default()
    })
}

/// Reserved addresses of eight units.
fn reserved(driver: &Driver) -> usize {
    driver
        .reserve_addresses("reserve", 8 * UNIT)
        .expect("there are addresses")
}

/// Memory of `units` behind the addresses, and its handle.
fn mapped(driver: &Driver, address: usize, units: usize) -> u64 {
    let handle = driver
        .create_piece("create", 0, units * UNIT)
        .expect("it fits");
    driver
        .map("map", address, units * UNIT, handle)
        .expect("nothing is there");
    driver
        .set_access("access", address, units * UNIT, 0)
        .expect("it is mapped");
    handle
}

/// The only violation so far is misuse of this call's, for this reason.
fn found(driver: &Driver, because: &str) {
    let violations = driver.violations();
    let [violation] = &violations[..] else {
        panic!("{violations:?}");
    };
    assert!(violation.to_string().contains(because), "{violation}");
}

#[test]
fn work_goes_over_the_seam_of_two_pieces_and_races_on_either_side() {
    let driver = driver();
    let base = reserved(&driver);
    mapped(&driver, base, 1);
    mapped(&driver, base + UNIT, 2);
    let stream = driver.create_stream("stream", 0, false).expect("a stream");
    let over = base + UNIT - 8;
    driver
        .fill("fill", 0, stream, over, &[7], 16)
        .expect("both are there");
    let mut bytes = [0; 17];
    // SAFETY: the bytes live until the stream is synchronised.
    unsafe { driver.copy_to_host("read", 0, stream, over - 1, bytes.as_mut_ptr(), 17) }
        .expect("both are there");
    driver
        .synchronize_stream("sync", 0, stream)
        .expect("a stream");
    assert_eq!(bytes[1..], [7; 16]);
    assert_ne!(bytes[0], 0, "new memory is garbage");
    assert!(driver.violations().is_empty());
    driver
        .fill("fill", 0, stream, over, &[7], 16)
        .expect("enqueued");
    let other = driver.create_stream("stream", 0, false).expect("a stream");
    driver
        .fill("fill", 0, other, base + UNIT, &[7], 1)
        .expect("enqueued");
    found(&driver, "race");
}

#[test]
fn only_what_is_mapped_and_accessible_may_be_touched() {
    type Misuse = fn(&Driver, usize) -> Result<(), Code>;
    let fill = |driver: &Driver, at: usize, len: usize| {
        let stream = driver.create_stream("stream", 0, false)?;
        driver.fill("fill", 0, stream, at, &[1], len)
    };
    let cases: [(&str, Misuse); 4] = [
        ("is not allocated", |_, _| Ok(())),
        ("nobody was given access", |driver, base| {
            let handle = driver.create_piece("create", 0, UNIT)?;
            driver.map("map", base, UNIT, handle)
        }),
        ("is mapped only up to", |driver, base| {
            mapped(driver, base, 1);
            Ok(())
        }),
        ("is not allocated", |driver, base| {
            mapped(driver, base, 2);
            driver.unmap("unmap", base, 2 * UNIT)
        }),
    ];
    for (because, prepare) in cases {
        let driver = driver();
        let base = reserved(&driver);
        prepare(&driver, base).expect("correct so far");
        assert_eq!(fill(&driver, base, UNIT + 1), Err(Code::InvalidValue));
        found(&driver, because);
    }
}

#[test]
fn memory_that_is_in_use_is_not_taken_away() {
    let driver = driver();
    let base = reserved(&driver);
    let handle = mapped(&driver, base, 1);
    let stream = driver.create_stream("stream", 0, false).expect("a stream");
    driver
        .fill("fill", 0, stream, base, &[1], UNIT)
        .expect("enqueued");
    assert_eq!(driver.unmap("unmap", base, UNIT), Err(Code::InvalidValue));
    found(&driver, "fill (call 6) still uses");
    driver
        .synchronize_stream("sync", 0, stream)
        .expect("a stream");
    driver.unmap("unmap", base, UNIT).expect("nothing is left");
    assert_eq!(
        driver.memory("info", 0),
        Ok((7 * UNIT, 8 * UNIT)),
        "the handle has it"
    );
    driver.release_piece("release", handle).expect("a handle");
    assert_eq!(driver.memory("info", 0), Ok((8 * UNIT, 8 * UNIT)));
    driver
        .free_addresses("free", base, 8 * UNIT)
        .expect("nothing is there");
    assert!(driver.leaks().is_empty());
}

#[test]
fn a_handle_that_was_given_back_lives_as_long_as_its_address() {
    let driver = driver();
    let base = reserved(&driver);
    let handle = mapped(&driver, base, 1);
    driver.release_piece("release", handle).expect("a handle");
    assert_eq!(driver.memory("info", 0), Ok((7 * UNIT, 8 * UNIT)));
    driver.unmap("unmap", base, UNIT).expect("nobody uses it");
    assert_eq!(driver.memory("info", 0), Ok((8 * UNIT, 8 * UNIT)));
    assert_eq!(
        driver.release_piece("release", handle),
        Err(Code::InvalidValue)
    );
    found(&driver, "does not exist, or was released");
}

#[test]
fn misuse_is_named() {
    type Misuse = fn(&Driver, usize) -> Result<(), Code>;
    let cases: [(&str, Misuse); 9] = [
        ("is no multiple of a granularity", |driver, _| {
            driver.reserve_addresses("reserve", 4096).map(|_| ())
        }),
        ("is no multiple of the device's", |driver, _| {
            driver.create_piece("create", 0, 64 << 10).map(|_| ())
        }),
        ("has memory already", |driver, base| {
            mapped(driver, base, 2);
            let handle = driver.create_piece("create", 0, UNIT)?;
            driver.map("map", base + UNIT, UNIT, handle)
        }),
        ("is not a whole piece", |driver, base| {
            let handle = driver.create_piece("create", 0, 2 * UNIT)?;
            driver.map("map", base, UNIT, handle)
        }),
        ("is not reserved", |driver, base| {
            let handle = driver.create_piece("create", 0, 2 * UNIT)?;
            driver.map("map", base + 7 * UNIT, 2 * UNIT, handle)
        }),
        ("was not mapped as a whole", |driver, base| {
            mapped(driver, base, 2);
            driver.unmap("unmap", base, UNIT)
        }),
        ("was not mapped as a whole", |driver, base| {
            driver.set_access("access", base, UNIT, 0)
        }),
        ("still has memory", |driver, base| {
            mapped(driver, base + UNIT, 1);
            driver.free_addresses("free", base, 8 * UNIT)
        }),
        ("is mapped, not allocated", |driver, base| {
            mapped(driver, base, 1);
            driver.free("free", base)
        }),
    ];
    for (because, misuse) in cases {
        let driver = driver();
        let base = reserved(&driver);
        assert_eq!(misuse(&driver, base), Err(Code::InvalidValue), "{because}");
        found(&driver, because);
    }
}

#[test]
fn what_is_left_over_is_named() {
    let driver = driver();
    let base = reserved(&driver);
    mapped(&driver, base, 1);
    let leaks = driver.leaks();
    let [
        Violation::LeftMapping { number: 1, .. },
        Violation::LeftMapping { number: 2, what },
    ] = &leaks[..]
    else {
        panic!("{leaks:?}");
    };
    assert_eq!(what, "2097152 bytes of memory of device 0");
}
