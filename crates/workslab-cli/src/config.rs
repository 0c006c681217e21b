//! `workslab config`.

use crate::CliError;
use crate::args::ConfigArgs;
use crate::table;

pub fn run(args: &ConfigArgs) -> Result<(), CliError> {
    let entries = args.settings.resolve()?.entries();
    if args.json {
        return table::print_json(&entries);
    }
    let mut table = table::new(["field", "value", "from"], &[]);
    for entry in entries {
        table.add_row([entry.field, &entry.value, &entry.origin]);
    }
    table::print(&table.to_string())
}
