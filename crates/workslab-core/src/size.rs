//! How large a slab shall be, how that is compared with a cached one, and who asks.

use std::fmt;
use std::num::NonZeroUsize;

use serde::Serialize;

use crate::Error;

/// The size of a slab in bytes. Never zero: a workspace of no bytes corrupts whoever believes in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SlabSize(NonZeroUsize);

impl SlabSize {
    /// A size of so many bytes.
    ///
    /// # Errors
    /// [`Error::ZeroSize`] for 0.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        match NonZeroUsize::new(bytes) {
            Some(bytes) => Ok(Self(bytes)),
            None => Err(Error::ZeroSize),
        }
    }

    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        self.0.get()
    }
}

impl From<NonZeroUsize> for SlabSize {
    fn from(bytes: NonZeroUsize) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for SlabSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Bytes(self.bytes()).fmt(f)
    }
}

/// How a requested size is compared with that of the slab already cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SizeCheck {
    /// They must be equal: two sizes in one process mean two configurations.
    #[default]
    Exact,
    /// The cached slab may be larger than requested.
    AtLeast,
    /// The slab grows in place, up to the request's cap: when a larger one is requested, and when a
    /// lease needs more.
    Grow,
}

impl SizeCheck {
    /// Whether a slab of `cached` bytes serves a request for `requested` bytes as it is.
    pub const fn accepts(self, cached: usize, requested: usize) -> bool {
        match self {
            Self::Exact => cached == requested,
            Self::AtLeast | Self::Grow => cached >= requested,
        }
    }
}

impl fmt::Display for SizeCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::AtLeast => "at-least",
            Self::Grow => "grow",
        })
    }
}

/// How a slab is to be made, beyond its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct SlabOptions {
    /// Touch every page when the slab is allocated, so that placement and shortage show at once.
    pub prefault: bool,
    /// Keep the pages in memory (`mlock`); only the host has such a thing.
    pub lock: bool,
}

/// What a caller asks of [`ExternalWorkspaceAllocator::allocate`](crate::ExternalWorkspaceAllocator::allocate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabRequest<'a> {
    /// How large.
    pub size: SlabSize,
    /// How the size is compared with a cached slab's.
    pub check: SizeCheck,
    /// With [`SizeCheck::Grow`], how far the slab may grow; none means: as far as the device has
    /// memory. Rounded up to the granularity in which the device commits memory.
    pub cap: Option<SlabSize>,
    /// Whether arrays get red zones and a poison pattern (see [`crate::Workspace`]).
    pub guard: bool,
    /// How the slab is made.
    pub options: SlabOptions,
    /// Where the size came from, for messages: `WORKSLAB_WORKSPACE_SIZE`, `--set`, …
    pub origin: Option<&'a str>,
}

impl SlabRequest<'_> {
    /// Exactly `size`, everything else at its default.
    pub const fn exact(size: SlabSize) -> Self {
        Self {
            size,
            check: SizeCheck::Exact,
            cap: None,
            guard: false,
            options: SlabOptions {
                prefault: false,
                lock: false,
            },
            origin: None,
        }
    }

    /// The same request with guard mode on or off.
    pub const fn with_guard(mut self, guard: bool) -> Self {
        self.guard = guard;
        self
    }

    /// The same request for a slab that grows in place, up to `cap`.
    pub const fn growing(mut self, cap: Option<SlabSize>) -> Self {
        self.check = SizeCheck::Grow;
        self.cap = cap;
        self
    }

    /// The same request with another check.
    pub const fn with_check(mut self, check: SizeCheck) -> Self {
        self.check = check;
        self
    }
}

/// Something that can say which slab it wants: a [`SlabRequest`], a [`SlabSize`], or
/// workslab-config's `BackendConfig`.
pub trait Request {
    /// The request.
    ///
    /// # Errors
    /// [`Error::NoSize`] when no size is configured, which means: no external workspace.
    fn slab_request(&self) -> Result<SlabRequest<'_>, Error>;
}

impl Request for SlabRequest<'_> {
    #[inline]
    fn slab_request(&self) -> Result<SlabRequest<'_>, Error> {
        Ok(*self)
    }
}

impl Request for SlabSize {
    #[inline]
    fn slab_request(&self) -> Result<SlabRequest<'_>, Error> {
        Ok(SlabRequest::exact(*self))
    }
}

/// A number of bytes that prints both for people and to the byte: `1.5 GiB (1610612736 bytes)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub usize);

impl Bytes {
    /// The short form alone: `1.5 GiB`, `123 B`.
    pub fn short(self) -> String {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return format!("{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = UNITS[0];
        for larger in &UNITS[1..] {
            // 1023.995 would print as 1024.00.
            if value < 1023.995 {
                break;
            }
            value /= 1024.0;
            unit = larger;
        }
        let digits = format!("{value:.2}");
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        format!("{digits} {unit}")
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            let plural = if self.0 == 1 { "" } else { "s" };
            write!(f, "{} byte{plural}", self.0)
        } else {
            write!(f, "{} ({} bytes)", self.short(), self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_for_people_and_to_the_byte() {
        assert_eq!(Bytes(0).to_string(), "0 bytes");
        assert_eq!(Bytes(1).to_string(), "1 byte");
        assert_eq!(Bytes(1023).short(), "1023 B");
        assert_eq!(Bytes(1024).to_string(), "1 KiB (1024 bytes)");
        assert_eq!(Bytes(1 << 20).short(), "1 MiB");
        assert_eq!(Bytes((1 << 20) - 1).short(), "1 MiB");
        assert_eq!(Bytes(1_610_612_736).short(), "1.5 GiB");
        assert_eq!(Bytes(usize::MAX).short(), "16 EiB");
    }

    #[test]
    fn a_size_of_zero_is_refused() {
        assert!(matches!(SlabSize::new(0), Err(Error::ZeroSize)));
    }
}
