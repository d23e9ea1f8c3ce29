//! FLOOR 4: the doors: one file per subcommand, each `run(args)`.
