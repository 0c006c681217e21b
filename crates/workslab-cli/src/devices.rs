//! `workslab devices`.

use workslab::{Bytes, probe};

use crate::CliError;
use crate::args::DevicesArgs;
use crate::table;

pub fn run(args: &DevicesArgs) -> Result<(), CliError> {
    let reports = probe();
    if args.json {
        return table::print_json(&reports);
    }
    let mut table = table::new(
        [
            "platform",
            "device",
            "name",
            "memory",
            "free",
            "shares host memory",
            "PCI",
        ],
        &[1, 3, 4],
    );
    let mut problems = Vec::new();
    for report in &reports {
        for (ordinal, device) in report.devices.iter().enumerate() {
            table.add_row([
                report.platform.to_owned(),
                ordinal.to_string(),
                device.name.clone(),
                Bytes(device.total).short(),
                Bytes(device.free).short(),
                if device.shares_host_memory {
                    "yes"
                } else {
                    "no"
                }
                .to_owned(),
                device.pci_id.clone().unwrap_or("-".into()),
            ]);
        }
        if let Some(problem) = &report.problem {
            problems.push(format!("{}: {problem}", report.platform));
        }
    }
    table::print(&table.to_string())?;
    problems.iter().try_for_each(|line| table::print(line))
}
