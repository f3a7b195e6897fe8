//! `warp sim list`: what there is.

use comfy_table::Table;
use warpsim::topology::Topology;

pub fn run() -> anyhow::Result<()> {
    let mut presets = Table::new();
    presets.load_style(comfy_table::presets::NOTHING).set_header(["preset", "about"]);
    for cell in warpsim::published::cells() {
        presets.add_row([cell.id.clone(), cell.about()]);
    }
    for (name, text) in warpsim::published::WRITTEN {
        presets.add_row([(*name).to_owned(), Topology::read(name, text)?.about]);
    }
    println!("{presets}\n");
    let mut laws = Table::new();
    laws.load_style(comfy_table::presets::NOTHING).set_header(["law", "origin"]);
    for law in warpsim::laws::ALL {
        laws.add_row([
            law.name,
            if law.is_foreign() { "quinn-proto; runs cannot be replayed" } else { "warprate" },
        ]);
    }
    println!("{laws}");
    Ok(())
}
