//! One workspace per device, made on first use and checked on every one after it.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use crate::platform::Platform;
use crate::sync::OnceCell;
use crate::workspace::{Workspace, growth_of};
use crate::{DeviceId, Error, Request, SizeCheck, SlabRequest, Statistics};

/// Caches one workspace per device of a platform.
///
/// The first [`allocate`](Self::allocate) on a device makes the slab; any number of threads may
/// race to be first, and exactly one allocates. A failed try is not cached. Every later call
/// compares the size and gives the same workspace: it borrows, and touches no lock and no
/// reference count.
pub struct ExternalWorkspaceAllocator<P: Platform> {
    platform: Arc<P>,
    /// One slot a device, made when the driver is first asked how many there are.
    slots: OnceCell<Box<[Slot<P>]>>,
}

struct Slot<P: Platform> {
    workspace: OnceCell<Arc<Workspace<P>>>,
}

impl<P: Platform> ExternalWorkspaceAllocator<P> {
    /// An allocator of one's own. Calls no driver.
    pub fn new(platform: P) -> Self {
        Self {
            platform: Arc::new(platform),
            slots: OnceCell::new(),
        }
    }

    /// The platform it allocates on.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// The device's workspace, made now if this is the first request.
    ///
    /// # Errors
    /// - [`Error::NoSize`] if the request has no size: no external workspace is wanted;
    /// - [`Error::SizeMismatch`] or [`Error::ModeMismatch`] if the workspace was made by a request
    ///   that differs;
    /// - [`Error::NoSuchDevice`], [`Error::OutOfMemory`] (found before any memory is touched);
    /// - [`Error::Forked`] in a child that was forked after the workspace was made;
    /// - or the driver's. Nothing is cached then, and the next call tries anew.
    #[inline]
    pub fn allocate(
        &self,
        device: impl Into<DeviceId>,
        request: &(impl Request + ?Sized),
    ) -> Result<&Workspace<P>, Error> {
        self.find_or_make(device.into(), request)
            .map(|workspace| &**workspace)
    }

    /// As [`allocate`](Self::allocate), but the caller becomes an owner: the slab lives until the
    /// last owner is gone, and the allocator refuses to release it before. For those who cannot
    /// borrow, such as bindings to other languages and captured graphs.
    ///
    /// # Errors
    /// As there.
    pub fn allocate_shared(
        &self,
        device: impl Into<DeviceId>,
        request: &(impl Request + ?Sized),
    ) -> Result<SharedWorkspace<P>, Error> {
        let workspace = Arc::clone(self.find_or_make(device.into(), request)?);
        Ok(SharedWorkspace { workspace })
    }

    /// The device's workspace, if it has been made.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`]; or the driver's.
    pub fn cached(&self, device: impl Into<DeviceId>) -> Result<Option<&Workspace<P>>, Error> {
        let slot = self.slot(device.into())?;
        Ok(slot.workspace.get().map(|workspace| &**workspace))
    }

    /// Frees the device's slab, once its last work has finished. The next request makes a new one.
    /// Does nothing if there is none.
    ///
    /// Borrowers are ruled out by `&mut self`; owners, and leases or reservations that were leaked,
    /// are counted.
    ///
    /// # Errors
    /// [`Error::InUse`], which says by whom; [`Error::NoSuchDevice`]; or the driver's, and then the
    /// workspace stays.
    pub fn release(&mut self, device: impl Into<DeviceId>) -> Result<(), Error> {
        let device = device.into();
        self.slot(device)?;
        let Some(slot) = self
            .slots
            .get_mut()
            .and_then(|slots| slots.get_mut(device.ordinal() as usize))
        else {
            return Ok(());
        };
        slot.check_unused()?;
        slot.free()
    }

    /// Frees the slabs of all devices, or none of them.
    ///
    /// # Errors
    /// As [`release`](Self::release). [`Error::InUse`] is found before anything is freed.
    pub fn reset(&mut self) -> Result<(), Error> {
        let Some(slots) = self.slots.get_mut() else {
            return Ok(());
        };
        for slot in slots.iter() {
            slot.check_unused()?;
        }
        for slot in slots.iter_mut() {
            slot.free()?;
        }
        Ok(())
    }

    /// The counts of every workspace that is cached, in the order of devices.
    pub fn statistics(&self) -> Vec<Statistics> {
        let slots = self.slots.get().map_or(&[][..], |slots| slots);
        slots
            .iter()
            .filter_map(|slot| slot.workspace.get())
            .map(|workspace| workspace.statistics())
            .collect()
    }

    #[inline]
    fn find_or_make(
        &self,
        device: DeviceId,
        request: &(impl Request + ?Sized),
    ) -> Result<&Arc<Workspace<P>>, Error> {
        let request = request.slab_request()?;
        if let Some(slots) = self.slots.get()
            && let Some(slot) = slots.get(device.ordinal() as usize)
            && let Some(workspace) = slot.workspace.get()
        {
            check(workspace, &request)?;
            workspace.count_hit();
            return Ok(workspace);
        }
        self.make(device, &request)
    }

    #[cold]
    fn make(
        &self,
        device: DeviceId,
        request: &SlabRequest<'_>,
    ) -> Result<&Arc<Workspace<P>>, Error> {
        let slot = self.slot(device)?;
        let workspace = slot
            .workspace
            .get_or_try_init(|| Workspace::make(&self.platform, device, request).map(Arc::new))?;
        // Whoever lost the race gets the winner's, and may have asked for something else.
        check(workspace, request)?;
        workspace.count_miss();
        Ok(workspace)
    }

    fn slot(&self, device: DeviceId) -> Result<&Slot<P>, Error> {
        let slots = self.slots.get_or_try_init(|| {
            let count = self.platform.device_count()?;
            Ok::<_, Error>((0..count).map(|_| Slot::empty()).collect())
        })?;
        slots
            .get(device.ordinal() as usize)
            .ok_or_else(|| Error::NoSuchDevice {
                platform: P::NAME,
                device,
                count: u32::try_from(slots.len()).unwrap_or(u32::MAX),
            })
    }
}

/// Whether a cached workspace serves a request.
#[inline]
fn check<P: Platform>(workspace: &Workspace<P>, request: &SlabRequest<'_>) -> Result<(), Error> {
    workspace.check_process()?;
    let settings = workspace.settings();
    if request
        .check
        .accepts(workspace.size(), request.size.bytes())
        && request.guard == settings.guard
        && request.options.lock == settings.lock
        && settings.growth.is_none()
        && request.check != SizeCheck::Grow
    {
        Ok(())
    } else {
        check_growing(workspace, request)
    }
}

/// Whether a workspace that grows serves a request, perhaps after growing; or why none does.
fn check_growing<P: Platform>(
    workspace: &Workspace<P>,
    request: &SlabRequest<'_>,
) -> Result<(), Error> {
    let settings = workspace.settings();
    let serves = match request.check {
        SizeCheck::Grow => growth_of(request) == settings.growth,
        // Whoever asks for a fixed size counts on nothing but that it is there.
        SizeCheck::AtLeast => workspace.size() >= request.size.bytes(),
        SizeCheck::Exact => false,
    };
    if !serves
        || settings.growth.is_none()
        || request.guard != settings.guard
        || request.options.lock != settings.lock
    {
        return Err(mismatch(workspace, request));
    }
    if request.check == SizeCheck::Grow && workspace.size() < request.size.bytes() {
        workspace.grow(request.size.bytes() - workspace.back())?;
    }
    Ok(())
}

#[cold]
fn mismatch<P: Platform>(workspace: &Workspace<P>, request: &SlabRequest<'_>) -> Error {
    let settings = workspace.settings();
    let platform = P::NAME;
    let device = workspace.device();
    let requested = growth_of(request);
    if requested != settings.growth && request.check != SizeCheck::AtLeast {
        return Error::GrowthMismatch {
            platform,
            device,
            cached: settings.growth,
            requested,
        };
    }
    if !request
        .check
        .accepts(workspace.size(), request.size.bytes())
    {
        return Error::SizeMismatch {
            platform,
            device,
            cached: workspace.size(),
            cached_origin: settings.origin.clone(),
            requested: request.size.bytes(),
            requested_origin: request.origin.map(str::to_owned),
            check: request.check,
        };
    }
    let (setting, cached, requested) = if request.guard == settings.guard {
        ("lock", settings.lock, request.options.lock)
    } else {
        ("guard", settings.guard, request.guard)
    };
    Error::ModeMismatch {
        platform,
        device,
        setting,
        cached,
        requested,
    }
}

impl<P: Platform> Slot<P> {
    fn empty() -> Self {
        Self {
            workspace: OnceCell::new(),
        }
    }

    fn check_unused(&self) -> Result<(), Error> {
        let Some(workspace) = self.workspace.get() else {
            return Ok(());
        };
        let owners = Arc::strong_count(workspace) - 1;
        let mut users = Vec::new();
        if owners > 0 {
            users.push(format!("it has {owners} owner{}", plural(owners)));
        }
        if workspace.gate().is_held() {
            users.push(format!("{} holds a lease", workspace.holder()));
        }
        let reservations = workspace.held_reservations();
        if !reservations.is_empty() {
            users.push(format!(
                "reservation{} '{}' held",
                if reservations.len() == 1 {
                    " is"
                } else {
                    "s are"
                },
                reservations.join("', '")
            ));
        }
        if users.is_empty() {
            Ok(())
        } else {
            Err(Error::InUse {
                platform: P::NAME,
                device: workspace.device(),
                users: users.join("; "),
            })
        }
    }

    fn free(&mut self) -> Result<(), Error> {
        if let Some(workspace) = self.workspace.get() {
            workspace.check_process()?;
            drop(workspace.settle()?);
        }
        drop(self.workspace.take());
        Ok(())
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

impl<P: Platform> fmt::Debug for ExternalWorkspaceAllocator<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots = self.slots.get().map_or(&[][..], |slots| slots);
        f.debug_struct("ExternalWorkspaceAllocator")
            .field("platform", &P::NAME)
            .field(
                "cached",
                &slots
                    .iter()
                    .filter_map(|slot| slot.workspace.get())
                    .collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}

/// An owner of a workspace; from [`ExternalWorkspaceAllocator::allocate_shared`].
pub struct SharedWorkspace<P: Platform> {
    workspace: Arc<Workspace<P>>,
}

impl<P: Platform> SharedWorkspace<P> {
    /// Lets go of the workspace where no driver may be called, as in the callback of a driver. If
    /// this was the last owner, the slab is freed on a thread made for it.
    pub fn release_elsewhere(self) {
        let Some(last) = Arc::into_inner(self.workspace) else {
            return;
        };
        // A closure that is not run is dropped right here, and must not free then.
        let last = ManuallyDrop::new(last);
        let spawned = std::thread::Builder::new()
            .name("workslab-release".into())
            .spawn(move || drop(ManuallyDrop::into_inner(last)));
        if let Err(error) = spawned {
            tracing::warn!(%error, "a workspace is not freed: there is no thread to do it");
        }
    }
}

impl<P: Platform> Clone for SharedWorkspace<P> {
    fn clone(&self) -> Self {
        Self {
            workspace: Arc::clone(&self.workspace),
        }
    }
}

impl<P: Platform> Deref for SharedWorkspace<P> {
    type Target = Workspace<P>;

    fn deref(&self) -> &Workspace<P> {
        &self.workspace
    }
}

impl<P: Platform> fmt::Debug for SharedWorkspace<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.workspace.fmt(f)
    }
}
