//! Whatever a log holds, in whichever format it is read, what is made of it is a workload that compiles and whose
//! values come back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgassay_load::script::{Command, Drawn, Program};
use pgassay_statements::log::prefix::{DEBIAN, Prefix};
use pgassay_statements::log::{Format, Reader};
use pgassay_statements::made::Made;
use pgassay_statements::recorded::Waiting;
use pgassay_statements::sessions::{Sessions, Wanted};
use pgassay_statements::write::{About, Draft, Values, write};

fuzz_target!(|data: &[u8]| {
    let Some((format, log)) = data.split_first() else { return };
    let format = match format % 3 {
        0 => Format::Csv,
        1 => Format::Json(Prefix::read(DEBIAN).ok()),
        _ => Format::Stderr(Prefix::read(DEBIAN).unwrap()),
    };
    let mut reader = Reader::new(&format);
    let mut sessions = Sessions::new(Wanted::default(), 1, 4).one_by_one();
    for line in log.split(|b| *b == b'\n') {
        reader.line(line, &mut |record| sessions.record(&record));
    }
    reader.end(&mut |record| sessions.record(&record));
    sessions.end();
    for executed in &sessions.executed {
        let line = Waiting::of(executed).line(0, 0, true);
        let entry = &sessions.mix.entries()[executed.kind];
        let width: usize = entry.steps.iter().map(|step| step.variables()).sum();
        assert_eq!((line.values.len(), executed.pauses_us.len()), (width, entry.steps.len()));
        for value in &line.values {
            Drawn::read(value).unwrap_or_else(|why| panic!("{why}"));
        }
    }
    for entry in sessions.mix.entries() {
        let draft = Draft {
            steps: entry.steps.clone(),
            count: entry.count,
            values: Values::Rows(entry.rows.clone()),
            ..Draft::default()
        };
        let mut made = Made::new(String::new(), String::new(), "", "");
        let about = About {
            explanation: "fuzz".to_owned(),
            protocol: "simple",
            sessions: None,
        };
        let text = write(&[draft], &about, &mut made);
        let mut program = Program::new();
        program.add("fuzz", &text, 1).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let commands = &program.scripts()[0].commands;
        let statements = commands.iter().filter(|command| matches!(command, Command::Sql(_))).count();
        assert_eq!(statements, entry.steps.len(), "{text}");
    }
});
