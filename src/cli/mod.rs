//! FLOOR 4: the doors: one file per subcommand, each `run(args)`.

pub mod track;
