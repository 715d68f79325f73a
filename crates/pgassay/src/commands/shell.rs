//! `pgassay completions` and `pgassay man`: made from the command line's own definition.

use clap::CommandFactory;

use crate::cli::Args;
use crate::cli::args::CompletionsArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Prints the completion script for a shell.
///
/// # Errors
/// Where it can't be printed.
pub fn completions(args: &CompletionsArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "pgassay", &mut script);
    terminal.print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// Prints the manual page: the program's, then one section a command.
///
/// # Errors
/// Where it can't be printed.
pub fn manual(terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let mut command = Args::command();
    command.build();
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        if sub.get_name() == "help" {
            continue;
        }
        let man = clap_mangen::Man::new(sub.clone());
        page.extend_from_slice(
            format!(".SH PGASSAY {}\n", sub.get_name().to_uppercase()).as_bytes(),
        );
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    terminal.print(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Done)
}
