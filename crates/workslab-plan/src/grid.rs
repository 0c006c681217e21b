//! ICON's grids: how many cells and edges a name stands for.

use serde::Serialize;
use thiserror::Error;

/// The extents that symbolic shapes are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Grid {
    /// Triangular cells.
    pub cells: usize,
    /// Their edges.
    pub edges: usize,
    /// Vertical levels.
    pub nlev: usize,
}

/// A grid that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GridError {
    /// The name is not that of a grid.
    #[error(
        "unknown grid {0:?}; a grid is called R02B04 to R02B10, or any RnnBkk, or give --cells"
    )]
    Unknown(String),
    /// The grid has more cells or edges than can be counted.
    #[error("grid {0} has more cells than fit into a machine word")]
    TooLarge(String),
}

impl Grid {
    /// The grid RnnBkk: an icosahedron whose edges are divided into n parts and then k times
    /// bisected, which makes 20·n²·4^k cells and one and a half times as many edges (Zängl et al.,
    /// The ICON modelling framework of DWD and MPI-M, Q. J. R. Meteorol. Soc. 141, 2015,
    /// doi:10.1002/qj.2378).
    ///
    /// # Errors
    /// [`GridError`] for another kind of name, or more cells than can be counted.
    pub fn named(name: &str, nlev: usize) -> Result<Self, GridError> {
        let unknown = || GridError::Unknown(name.to_owned());
        let (root, bisections) = name
            .strip_prefix('R')
            .and_then(|rest| rest.split_once('B'))
            .ok_or_else(unknown)?;
        let number = |digits: &str| -> Option<u32> {
            let two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
            two.then(|| digits.parse().ok())?
        };
        let root = number(root).filter(|&root| root > 0).ok_or_else(unknown)?;
        let bisections = number(bisections).ok_or_else(unknown)?;
        let cells = || {
            let root = usize::try_from(root).ok()?;
            4usize
                .checked_pow(bisections)?
                .checked_mul(20)?
                .checked_mul(root.checked_mul(root)?)
        };
        cells()
            .and_then(|cells| Self::with_cells(cells, nlev))
            .ok_or_else(|| GridError::TooLarge(name.to_owned()))
    }

    /// A grid of so many cells and one and a half times as many edges; `None` if they overflow.
    #[must_use]
    pub fn with_cells(cells: usize, nlev: usize) -> Option<Self> {
        let edges = cells.checked_add(cells.div_ceil(2))?;
        Some(Self { cells, edges, nlev })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("R02B04", 20_480, 30_720)]
    #[case("R02B07", 1_310_720, 1_966_080)]
    #[case("R02B09", 20_971_520, 31_457_280)]
    #[case("R02B10", 83_886_080, 125_829_120)]
    fn a_name_gives_cells_and_edges(
        #[case] name: &str,
        #[case] cells: usize,
        #[case] edges: usize,
    ) {
        let grid = Grid::named(name, 65).expect("a grid");
        assert_eq!((grid.cells, grid.edges), (cells, edges));
    }

    #[rstest]
    #[case("")]
    #[case("R2B4")]
    #[case("r02b04")]
    #[case("R00B04")]
    #[case("R02B")]
    #[case("R+2B04")]
    #[case("R02B04x")]
    fn another_name_is_refused(#[case] name: &str) {
        assert_eq!(Grid::named(name, 65), Err(GridError::Unknown(name.into())));
    }

    #[test]
    fn a_grid_that_cannot_be_counted_is_refused() {
        assert!(matches!(
            Grid::named("R99B99", 65),
            Err(GridError::TooLarge(_))
        ));
    }
}
