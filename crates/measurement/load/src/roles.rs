//! Which of a load's clients run one script only, and which all others.

/// What a client runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Role {
    /// The one script that it runs; none where it draws among those without clients of their own.
    pub only: Option<usize>,
    /// Its number among those that run the same.
    pub number: u32,
    /// How many these are.
    pub among: u32,
}

/// The clients of a load, grouped by the scripts that they run.
#[derive(Debug)]
pub(super) struct Roles<'a> {
    /// Clients of its own, by script; 0 where it has none.
    of_script: &'a [u32],
    own: u32,
    all: u32,
}

impl<'a> Roles<'a> {
    /// Those of so many clients of a whole load.
    pub fn new(of_script: &'a [u32], all: u32) -> Self {
        let own = of_script.iter().copied().fold(0, u32::saturating_add);
        Roles {
            of_script,
            // Nobody would be left for the other scripts.
            own: if own < all { own } else { 0 },
            all,
        }
    }

    /// What a client runs.
    pub fn of(&self, client: u32) -> Role {
        let before = own_before(client, self.own, self.all);
        if own_before(client + 1, self.own, self.all) == before {
            return Role {
                only: None,
                number: client - before,
                among: self.all - self.own,
            };
        }
        let mut number = before;
        for (script, clients) in self.of_script.iter().enumerate() {
            if number < *clients {
                return Role {
                    only: Some(script),
                    number,
                    among: *clients,
                };
            }
            number -= clients;
        }
        Role::default()
    }
}

/// Of the first so many clients, those with a script of their own: they are spread evenly, so that each thread and
/// each machine has its share of both kinds.
pub fn own_before(client: u32, own: u32, all: u32) -> u32 {
    let before = u64::from(client) * u64::from(own) / u64::from(all.max(1));
    u32::try_from(before).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_has_its_clients_and_they_are_spread() {
        for (of_script, all) in [
            (&[0, 2, 0, 3][..], 21),
            (&[1], 2),
            (&[0, 0], 5),
            (&[], 7),
            (&[0, 7], 8),
        ] {
            let roles = Roles::new(of_script, all);
            let found: Vec<Role> = (0..all).map(|client| roles.of(client)).collect();
            let own: u32 = of_script.iter().sum();
            let mut main = found.iter().filter(|role| role.only.is_none());
            for number in 0..all - own {
                let role = main.next().unwrap();
                assert_eq!((role.number, role.among), (number, all - own));
            }
            assert!(main.next().is_none());
            for (script, clients) in of_script.iter().enumerate() {
                let of = found.iter().filter(|role| role.only == Some(script));
                let numbers: Vec<u32> = of.map(|role| role.number).collect();
                assert_eq!(numbers, (0..*clients).collect::<Vec<u32>>());
            }
            // Any part of the clients has its share, but for one.
            for first in 0..all {
                for end in first..=all {
                    let of = &found[first as usize..end as usize];
                    let own_here = of.iter().filter(|role| role.only.is_some()).count();
                    let share = f64::from(end - first) * f64::from(own) / f64::from(all);
                    assert!((own_here as f64 - share).abs() < 1.0 + 1e-9);
                }
            }
        }
        // Nobody is left out where there are too few.
        assert_eq!(Roles::new(&[3], 2).of(1).only, None);
    }
}
