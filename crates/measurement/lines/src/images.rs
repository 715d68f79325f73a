//! The files that a process executes: names of its functions, addresses of its variables.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use pgassay_inspect::symbols::Symbols;
use pgassay_sys::map::Mapped;

use crate::map::{Map, Mapping};

/// The files of one process.
pub struct Images {
    map: Map,
    root: PathBuf,
    files: HashMap<String, Option<Symbols>>,
}

/// A function as it is reported.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// Its name; for one that has none, where it lies.
    pub name: String,
    /// Whether it has one.
    pub named: bool,
}

impl Images {
    /// Those of a process, by its map; files are read as the process sees them.
    pub fn new(pid: u32, map: Map) -> Self {
        Self {
            map,
            root: PathBuf::from(format!("/proc/{pid}/root")),
            files: HashMap::new(),
        }
    }

    /// The process' map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    fn open(&self, path: &str) -> Option<Mapped> {
        Mapped::open(&self.root.join(path.trim_start_matches('/')))
            .or_else(|_| Mapped::open(Path::new(path)))
            .ok()
    }

    /// The function that holds an address.
    pub fn function(&mut self, address: u64) -> Function {
        let nowhere = |name: String| Function { name, named: false };
        let Some(part) = self.map.at(address).cloned() else {
            return nowhere("code that is gone".to_owned());
        };
        if !part.is_file() {
            return nowhere(match part.path.as_str() {
                "" => "code compiled at run time".to_owned(),
                path => path.to_owned(),
            });
        }
        if !self.files.contains_key(&part.path) {
            let symbols = self.read(&part.path);
            self.files.insert(part.path.clone(), symbols);
        }
        let file = part
            .path
            .rsplit('/')
            .next()
            .unwrap_or(&part.path)
            .to_owned();
        let Some(Some(symbols)) = self.files.get(&part.path) else {
            return nowhere(file);
        };
        let own = symbols
            .address_of(part.offset)
            .map(|start| start + (address - part.range.start));
        match own.and_then(|own| symbols.find(own)) {
            // A compiler's clones count with the function that they come from.
            Some(function) if !function.name.is_empty() => Function {
                name: function
                    .name
                    .split('.')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
                named: true,
            },
            Some(function) => nowhere(format!("{file}+{:#x}", function.start)),
            None => nowhere(file),
        }
    }

    fn read(&self, path: &str) -> Option<Symbols> {
        let file = self.open(path)?;
        let bare = Symbols::read(&file, None).ok()?;
        let debug = bare.build_id.as_deref().and_then(|id| {
            let (first, rest) = id.split_at_checked(2)?;
            self.open(&format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"))
        });
        match debug {
            Some(debug) => Symbols::read(&file, Some(&debug)).ok(),
            None => Some(bare),
        }
    }

    /// The addresses of a program's variables.
    pub fn variables(&self, program: &str) -> BTreeMap<String, u64> {
        let mut variables = BTreeMap::new();
        let Some(file) = self.open(program) else {
            return variables;
        };
        let Ok(parsed) = object::File::parse(&file[..]) else {
            return variables;
        };
        let Some(bias) = self.bias(program, &parsed) else {
            return variables;
        };
        for symbol in parsed.symbols().chain(parsed.dynamic_symbols()) {
            if symbol.kind() != SymbolKind::Data || symbol.address() == 0 {
                continue;
            }
            if let Ok(name) = symbol.name() {
                let address = bias.wrapping_add(symbol.address());
                variables.insert(name.to_owned(), address);
            }
        }
        variables
    }

    /// What is added to the addresses in the file where it is loaded.
    fn bias(&self, program: &str, file: &object::File<'_>) -> Option<u64> {
        let first: &Mapping = self
            .map
            .0
            .iter()
            .find(|m| m.path == program && m.offset == 0)?;
        let lowest = file.segments().map(|s| s.address()).min()?;
        Some(first.range.start.wrapping_sub(lowest & !0xfff))
    }
}
