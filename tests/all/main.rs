//! The tests of workslab, one topic a file. Each runs on every backend in the matrix; the test's
//! name says which (`::case_1_host`), and, where it shows an invariant of the design, which one.

mod allocator;
mod captures;
mod compile_fail;
mod cuda;
mod environment;
mod errors;
mod fork;
mod frames;
mod growth;
mod guard;
mod layouts;
mod leases;
mod matrix;
mod random;
mod reservations;
mod rocm;
mod scratch;
mod statistics;
mod streams;
mod support;
mod warm_path;
