//! Conjugate gradients for the Laplacian on a square, on any platform.
//!
//! The method is that of Hestenes and Stiefel (J. Res. Natl. Bur. Stand. 49, 1952,
//! doi:10.6028/jres.049.044). What it needs of a device is in [`Kernels`]; its work vectors come
//! from a [`Scratch`], so that a dry run tells how many bytes they take.

use workslab::{Array, Error, Frame, HostAccessible, Platform, Scratch};

/// The five-point Laplacian on a square of `side` × `side` points, zero outside it.
#[derive(Clone, Copy, Debug)]
pub struct Laplacian {
    /// Points along one side.
    pub side: usize,
}

impl Laplacian {
    /// How many unknowns there are.
    #[must_use]
    pub fn unknowns(self) -> usize {
        self.side * self.side
    }

    /// `y = A x` for ordinary slices of [`unknowns`](Self::unknowns) elements.
    pub fn apply(self, x: &[f64], y: &mut [f64]) {
        let n = self.side;
        for row in 0..n {
            for column in 0..n {
                let at = row * n + column;
                let mut sum = 4.0 * x[at];
                if row > 0 {
                    sum -= x[at - n];
                }
                if row + 1 < n {
                    sum -= x[at + n];
                }
                if column > 0 {
                    sum -= x[at - 1];
                }
                if column + 1 < n {
                    sum -= x[at + 1];
                }
                y[at] = sum;
            }
        }
    }
}

/// `x · y` for ordinary slices.
#[must_use]
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// `y = alpha x + beta y` for ordinary slices.
pub fn axpby(alpha: f64, x: &[f64], beta: f64, y: &mut [f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = alpha * x + beta * *y;
    }
}

/// The device work that the solver is made of.
pub trait Kernels<P: Platform> {
    /// `y = A x`.
    ///
    /// # Errors
    /// The device's.
    fn apply(
        &self,
        operator: Laplacian,
        x: &Array<'_, f64, P>,
        y: &mut Array<'_, f64, P>,
    ) -> Result<(), Error>;

    /// `x · y`.
    ///
    /// # Errors
    /// The device's.
    fn dot(&self, x: &Array<'_, f64, P>, y: &Array<'_, f64, P>) -> Result<f64, Error>;

    /// `y = alpha x + beta y`.
    ///
    /// # Errors
    /// The device's.
    fn axpby(
        &self,
        alpha: f64,
        x: &Array<'_, f64, P>,
        beta: f64,
        y: &mut Array<'_, f64, P>,
    ) -> Result<(), Error>;
}

/// Plain loops, for every platform whose memory the host can reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostKernels;

impl<P: Platform> Kernels<P> for HostKernels
where
    P::Slab: HostAccessible,
{
    fn apply(
        &self,
        operator: Laplacian,
        x: &Array<'_, f64, P>,
        y: &mut Array<'_, f64, P>,
    ) -> Result<(), Error> {
        operator.apply(x.host()?, y.host_mut()?);
        Ok(())
    }

    fn dot(&self, x: &Array<'_, f64, P>, y: &Array<'_, f64, P>) -> Result<f64, Error> {
        Ok(dot(x.host()?, y.host()?))
    }

    fn axpby(
        &self,
        alpha: f64,
        x: &Array<'_, f64, P>,
        beta: f64,
        y: &mut Array<'_, f64, P>,
    ) -> Result<(), Error> {
        axpby(alpha, x.host()?, beta, y.host_mut()?);
        Ok(())
    }
}

/// The same loops on copies of the arrays, for every platform: slow, but it shows that the solver does
/// not care. A real one would bring kernels.
#[derive(Clone, Copy, Debug, Default)]
pub struct StagedKernels;

impl<P: Platform> Kernels<P> for StagedKernels {
    fn apply(
        &self,
        operator: Laplacian,
        x: &Array<'_, f64, P>,
        y: &mut Array<'_, f64, P>,
    ) -> Result<(), Error> {
        let mut image = vec![0.0; y.len()];
        operator.apply(&x.to_vec()?, &mut image);
        y.write(&image)
    }

    fn dot(&self, x: &Array<'_, f64, P>, y: &Array<'_, f64, P>) -> Result<f64, Error> {
        Ok(dot(&x.to_vec()?, &y.to_vec()?))
    }

    fn axpby(
        &self,
        alpha: f64,
        x: &Array<'_, f64, P>,
        beta: f64,
        y: &mut Array<'_, f64, P>,
    ) -> Result<(), Error> {
        let mut sum = y.to_vec()?;
        axpby(alpha, &x.to_vec()?, beta, &mut sum);
        y.write(&sum)
    }
}

/// The solver's work vectors.
pub struct Work<'s, S: Scratch + 's> {
    solution: S::Array<'s, f64, 1>,
    residual: S::Array<'s, f64, 1>,
    direction: S::Array<'s, f64, 1>,
    image: S::Array<'s, f64, 1>,
}

/// Places the work vectors; with a [`DryFrame`](workslab::DryFrame) it only counts their bytes.
///
/// # Errors
/// The scratch's.
pub fn set_up<S: Scratch>(scratch: &S, unknowns: usize) -> Result<Work<'_, S>, Error> {
    Ok(Work {
        solution: scratch.named_array("solution", unknowns)?,
        residual: scratch.named_array("residual", unknowns)?,
        direction: scratch.named_array("direction", unknowns)?,
        image: scratch.named_array("image", unknowns)?,
    })
}

/// What the solver found.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The solution.
    pub x: Vec<f64>,
    /// How many iterations it took.
    pub iterations: usize,
    /// The residual's norm divided by the right-hand side's.
    pub residual: f64,
}

/// Solves `A x = b` to a relative residual of `tolerance`, in a frame of somebody's lease.
///
/// # Errors
/// The device's, or [`Error::Exhausted`] if the work vectors do not fit.
pub fn solve<P: Platform>(
    kernels: &impl Kernels<P>,
    frame: &Frame<'_, P>,
    operator: Laplacian,
    b: &[f64],
    tolerance: f64,
) -> Result<Solution, Error> {
    let mut work = set_up(frame, operator.unknowns())?;
    work.solution.fill(0.0)?;
    work.residual.write(b)?;
    work.direction.write(b)?;
    let norm = kernels.dot(&work.residual, &work.residual)?;
    let goal = tolerance * tolerance * norm;
    let mut rho = norm;
    let mut iterations = 0;
    while rho > goal && iterations < 10 * operator.side {
        kernels.apply(operator, &work.direction, &mut work.image)?;
        let alpha = rho / kernels.dot(&work.direction, &work.image)?;
        kernels.axpby(alpha, &work.direction, 1.0, &mut work.solution)?;
        kernels.axpby(-alpha, &work.image, 1.0, &mut work.residual)?;
        let next = kernels.dot(&work.residual, &work.residual)?;
        kernels.axpby(1.0, &work.residual, next / rho, &mut work.direction)?;
        rho = next;
        iterations += 1;
    }
    Ok(Solution {
        x: work.solution.to_vec()?,
        iterations,
        residual: if norm > 0.0 { (rho / norm).sqrt() } else { 0.0 },
    })
}

/// A problem whose solution is known: a smooth bump, and the right-hand side that it gives.
#[must_use]
pub fn known_problem(operator: Laplacian, waves: f64) -> (Vec<f64>, Vec<f64>) {
    let n = operator.side;
    let at = |index: usize| waves * std::f64::consts::PI * (index + 1) as f64 / (n + 1) as f64;
    let x: Vec<f64> = (0..operator.unknowns())
        .map(|index| at(index / n).sin() * at(index % n).sin() + 0.25 * (index % 7) as f64)
        .collect();
    let mut b = vec![0.0; x.len()];
    operator.apply(&x, &mut b);
    (x, b)
}

/// The largest difference between two vectors.
#[must_use]
pub fn largest_difference(x: &[f64], y: &[f64]) -> f64 {
    x.iter()
        .zip(y)
        .map(|(x, y)| (x - y).abs())
        .fold(0.0, f64::max)
}
