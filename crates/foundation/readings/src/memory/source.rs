//! Where the data of an access came from: the kernel's `union perf_mem_data_src` (linux/perf_event.h).

/// Where a load or a store found its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(pub u64);

/// Another processor's cache gave the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transfer {
    /// It had modified the line (HITM), and is on the same node.
    ModifiedNear,
    /// It had modified the line, and is on another node or socket.
    ModifiedFar,
    /// It had the line, modified or not (peer: what Arm's processors tell), on the same node.
    PeerNear,
    /// The same, on another node or socket.
    PeerFar,
}

impl Transfer {
    /// Whether it came from another node or socket.
    pub fn is_far(self) -> bool {
        matches!(self, Self::ModifiedFar | Self::PeerFar)
    }
}

const OP_LOAD: u64 = 0x02;
const OP_STORE: u64 = 0x04;
const LEVEL_L3: u64 = 0x40;
/// Another node's cache, by its distance: REM_CCE1, REM_CCE2.
const LEVEL_REMOTE_CACHE: u64 = 0x0400 | 0x0800;
const SNOOP_HITM: u64 = 0x10;
const SNOOPX_PEER: u64 = 0x02;
const LOCKED: u64 = 0x02;

impl Source {
    fn bits(self, from: u32, count: u32) -> u64 {
        (self.0 >> from) & ((1 << count) - 1)
    }

    /// Whether it is a load. A locked instruction, which also stores, is one.
    pub fn loads(self) -> bool {
        self.bits(0, 5) & OP_LOAD != 0
    }

    /// Whether it is a store.
    pub fn stores(self) -> bool {
        self.bits(0, 5) & OP_STORE != 0
    }

    /// Whether the instruction is locked, where the processor tells.
    pub fn locked(self) -> bool {
        self.bits(24, 2) & LOCKED != 0
    }

    /// Whether another processor's cache gave the line, and how far away it is.
    pub fn transfer(self) -> Option<Transfer> {
        let modified = self.bits(19, 5) & SNOOP_HITM != 0;
        let peer = self.bits(38, 2) & SNOOPX_PEER != 0;
        if !modified && !peer {
            return None;
        }
        let level = self.bits(5, 14);
        let remote = self.bits(37, 1) == 1;
        // Hops count from the same node on: 1 is another core of it, 2 another node, 3 another socket. Without them,
        // it is as `perf c2c` has it; a level that may be either (AMD before Zen 4: L3 or another cache of the
        // node) is near.
        let far = match self.bits(43, 3) {
            0 => (remote || level & LEVEL_REMOTE_CACHE != 0) && level & LEVEL_L3 == 0,
            hops => hops > 1,
        };
        Some(match (modified, far) {
            (true, false) => Transfer::ModifiedNear,
            (true, true) => Transfer::ModifiedFar,
            (false, false) => Transfer::PeerNear,
            (false, true) => Transfer::PeerFar,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As printed in the kernel's mailing lists, with perf's words for them.
    #[test]
    fn published_values() {
        // |OP LOAD|LVL L3 hit|SNP HitM|TLB L1 hit|LCK N/A|BLK N/A
        let hitm = Source(0x6_2980_0842);
        assert!(hitm.loads() && !hitm.stores() && !hitm.locked());
        assert_eq!(hitm.transfer(), Some(Transfer::ModifiedNear));
        // |OP LOAD|LVL L1 hit|SNP HitM|TLB Walker hit|LCK No|BLK  N/A|AFF N/A (Arm SPE)
        assert_eq!(
            Source(0x2_8880_0142).transfer(),
            Some(Transfer::ModifiedNear)
        );
        // |OP LOAD|LVL L3 or L3 hit|SNP Peer|TLB Walker hit|LCK No|BLK  N/A (Arm SPE)
        assert_eq!(Source(0x86_8800_0842).transfer(), Some(Transfer::PeerNear));
        // |OP LOAD|LVL L3 or L3 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A
        assert_eq!(Source(0x106_6810_0842).transfer(), None);
        // |OP STORE|LVL L1 hit|SNP None|TLB Walker hit|LCK No|BLK  N/A|AFF N/A
        let store = Source(0x2_8810_0144);
        assert!(store.stores() && !store.loads());
        // |OP STORE SIMD|…|AFF PRED SG: newer kernels use the bits above.
        assert!(Source(0x0444_0002_8810_0144).stores());
        // |OP N/A|LVL N/A|SNP N/A|TLB N/A|LCK N/A|BLK N/A
        let none = Source(0x1e_0508_0021);
        assert!(!none.loads() && !none.stores() && none.transfer().is_none());
    }

    /// By the bits that the kernel sets for AMD's IBS (arch/x86/events/amd/ibs.c).
    #[test]
    fn caches_of_other_nodes() {
        const LOAD: u64 = 2;
        const HIT: u64 = 2 << 5;
        const HITM: u64 = 0x10 << 19;
        let of = |rest: u64| Source(LOAD | HIT | HITM | rest).transfer();
        let level = |bits: u64| bits << 5;
        let (remote, hops) = (1 << 37, |count: u64| count << 43);
        // Zen 4: another CCX of the node, and a far one.
        let near = level(0x400) | remote | hops(1);
        assert_eq!(of(near), Some(Transfer::ModifiedNear));
        let far = level(0x800) | remote | hops(2);
        assert_eq!(of(far), Some(Transfer::ModifiedFar));
        // Before Zen 4: L3 or another cache of the node; without hops in older kernels.
        let either = level(0x40 | 0x400);
        assert_eq!(of(either), Some(Transfer::ModifiedNear));
        assert_eq!(of(either | hops(1)), Some(Transfer::ModifiedNear));
        // Intel: another socket's cache, by the level, or by the bit alone (Skylake).
        assert_eq!(of(level(0x400)), Some(Transfer::ModifiedFar));
        assert_eq!(of(remote), Some(Transfer::ModifiedFar));
        assert!(Source(LOAD | 2 << 24).locked());
    }
}
