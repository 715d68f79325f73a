//! What a place in braces initialises, by the members that the tree's files declare.

use super::Resolver;
use crate::facts::{Member, Position, Step};

impl Resolver<'_> {
    /// Whether the place is a plain char by every declaration of the types on the way to it, of which
    /// there is one at least.
    pub(super) fn initialises_char(&self, position: &Position) -> bool {
        let mut types = vec![(position.of.as_str(), position.dimensions)];
        for (n, step) in position.steps.iter().enumerate() {
            let mut inner = Vec::new();
            for (of, dimensions) in types {
                match (dimensions, step) {
                    // Braces around a scalar.
                    (0, Step::Element(0)) if of == "char" && n + 1 == position.steps.len() => {
                        inner.push((of, 0));
                    }
                    (0, step) => {
                        let declared = self.members.get(of).into_iter().flatten();
                        for members in declared {
                            let Some(member) = taken(members, step) else {
                                return false;
                            };
                            inner.push((member.of.as_str(), member.dimensions));
                        }
                    }
                    (_, Step::Element(_)) => inner.push((of, dimensions - 1)),
                    (_, Step::Member(_)) => return false,
                }
            }
            types = inner;
        }
        !types.is_empty() && types.into_iter().all(|one| one == ("char", 0))
    }
}

fn taken<'m>(members: &'m [Member], step: &Step) -> Option<&'m Member> {
    match step {
        Step::Element(n) => {
            let known = |member: &Member| !member.name.is_empty();
            members.get(..=*n)?.iter().all(known).then(|| &members[*n])
        }
        Step::Member(name) => members.iter().find(|member| member.name == *name),
    }
}
