//! This process's rank among those on its node, as its launcher says it.

use crate::ConfigError;

/// A rank among the processes on one node, from 0, and the variable that said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalRank {
    /// The rank.
    pub rank: u32,
    /// The variable.
    pub variable: &'static str,
}

/// Set for each process by the launcher that starts it.
const LAUNCHERS: [&str; 7] = [
    "OMPI_COMM_WORLD_LOCAL_RANK", // Open MPI's mpirun, PRRTE
    "MPI_LOCALRANKID",            // MPICH's and Intel MPI's Hydra
    "MV2_COMM_WORLD_LOCAL_RANK",  // MVAPICH
    "PMI_LOCAL_RANK",             // Cray MPICH, PMI
    "PALS_LOCAL_RANKID",          // HPE PALS
    "PMIX_LOCAL_RANK",            // PMIx
    "FLUX_TASK_LOCAL_ID",         // Flux
];

/// Slurm's. A batch script has it too, as 0, and an `mpirun` in that script hands it on to every
/// process; so it counts only where no other launcher speaks.
const SLURM: &str = "SLURM_LOCALID";

impl LocalRank {
    /// Asks the variables of Slurm, Open MPI, MPICH, MVAPICH, PMI, PALS, PMIx and Flux. `None` if
    /// no launcher has set one.
    ///
    /// # Errors
    /// [`ConfigError::InvalidValue`] for one that is no rank, [`ConfigError::Conflict`] if two
    /// launchers disagree.
    pub fn detect<'a>(
        lookup: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Option<Self>, ConfigError> {
        let mut found: Option<LocalRank> = None;
        for variable in LAUNCHERS {
            let Some(rank) = read(variable, &lookup)? else {
                continue;
            };
            match &found {
                Some(first) if first.rank != rank.rank => {
                    return Err(ConfigError::Conflict {
                        first: first.variable.into(),
                        first_value: first.rank.to_string(),
                        second: rank.variable.into(),
                        second_value: rank.rank.to_string(),
                    });
                }
                Some(_) => {}
                None => found = Some(rank),
            }
        }
        match found {
            Some(rank) => Ok(Some(rank)),
            None => read(SLURM, &lookup),
        }
    }
}

fn read<'a>(
    variable: &'static str,
    lookup: &impl Fn(&str) -> Option<&'a str>,
) -> Result<Option<LocalRank>, ConfigError> {
    let Some(text) = lookup(variable) else {
        return Ok(None);
    };
    match text.trim().parse() {
        Ok(rank) => Ok(Some(LocalRank { rank, variable })),
        Err(_) => Err(ConfigError::InvalidValue {
            field: "device",
            value: text.into(),
            origin: variable.into(),
            reason: "a launcher's local rank is a number from 0".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn detect(variables: &[(&str, &'static str)]) -> Result<Option<LocalRank>, ConfigError> {
        LocalRank::detect(|name| {
            variables
                .iter()
                .find(|(variable, _)| *variable == name)
                .map(|(_, value)| *value)
        })
    }

    #[rstest]
    #[case("SLURM_LOCALID")]
    #[case("OMPI_COMM_WORLD_LOCAL_RANK")]
    #[case("MPI_LOCALRANKID")]
    #[case("PMI_LOCAL_RANK")]
    #[case("PMIX_LOCAL_RANK")]
    #[case("FLUX_TASK_LOCAL_ID")]
    fn each_launcher_is_understood(#[case] variable: &str) {
        let rank = detect(&[(variable, "3")]).expect("a rank");
        assert_eq!(
            rank.map(|rank| (rank.rank, rank.variable)),
            Some((3, variable))
        );
    }

    #[test]
    fn without_a_launcher_there_is_no_rank() {
        assert_eq!(detect(&[]), Ok(None));
    }

    #[test]
    fn mpirun_inside_a_slurm_batch_script_goes_by_mpirun() {
        let rank = detect(&[("SLURM_LOCALID", "0"), ("OMPI_COMM_WORLD_LOCAL_RANK", "2")]);
        assert_eq!(rank.expect("a rank").map(|rank| rank.rank), Some(2));
    }

    #[test]
    fn two_launchers_that_disagree_are_both_named() {
        let error = detect(&[("MPI_LOCALRANKID", "1"), ("FLUX_TASK_LOCAL_ID", "2")])
            .expect_err("they disagree")
            .to_string();
        assert!(error.contains("MPI_LOCALRANKID") && error.contains("FLUX_TASK_LOCAL_ID"));
    }

    #[test]
    fn a_rank_that_is_no_number_is_an_error() {
        assert!(detect(&[("SLURM_LOCALID", "one")]).is_err());
        assert!(detect(&[("SLURM_LOCALID", "-1")]).is_err());
    }
}
